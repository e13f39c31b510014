//! What a run did after its last step is compared with the same of the other run, and with nothing else.

use crate::workspace::Workspace;

/// A rank with one call, whose result has this largest element.
fn put_rank(place: &Workspace, folder: &str, largest: f32) {
    let tensor = format!(
        r#"{{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": {largest}, "Min": 0.0, "Mean": 0.5, "Norm": 1.0, "requires_grad": false}}"#
    );
    let call = format!(r#"{{"input_args": [{tensor}], "input_kwargs": {{}}, "output": [{tensor}]}}"#);
    place.put_text(
        &format!("{folder}/dump.json"),
        &format!(
            r#"{{"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": null, "data": {{"Torch.sin.0.forward": {call}}}}}"#
        ),
    );
}

#[test]
fn it_is_paired_by_its_name() {
    let place = Workspace::new();
    for side in ["t", "g"] {
        put_rank(&place, &format!("{side}/step0/rank0"), 1.0);
    }
    put_rank(&place, "t/step1/rank0", 1.0);
    put_rank(&place, "t/after_last_step/rank0", 2.0);
    put_rank(&place, "g/after_last_step/rank0", 2.0);
    let ran = place.run(&["compare", "t", "g", "-o", "out", "--json"]);
    let result = ran.json();
    assert_eq!(result["ranks"].as_array().unwrap().len(), 2, "{}", ran.out);
    assert_eq!(result["summary"]["failed"], 0, "{}", ran.out);
    let lone = result["lone_ranks"].to_string();
    assert!(lone.contains("step1 is only in the target") && !lone.contains("after_last_step"), "{lone}");
    let files = result["ranks"][1]["files"].to_string();
    assert!(files.contains("compare_result_after_last_step_"), "{files}");
}

#[test]
fn a_dump_without_steps_is_not_taken_for_it() {
    let place = Workspace::new();
    put_rank(&place, "t", 1.0);
    put_rank(&place, "g/step0/rank0", 1.0);
    put_rank(&place, "g/after_last_step/rank0", 2.0);
    let ran = place.run(&["compare", "t", "g"]);
    assert_ne!(ran.code, 0, "{}", ran.out);
    let said = format!("{}{}", ran.out, ran.err);
    assert!(!said.contains("after_last_step is only in the target"), "{said}");
    assert!(said.contains("the step without a number is only in the target"), "{said}");
}
