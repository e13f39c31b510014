//! `ulpscope show`.

use serde_json::json;
use ulpscope_formats::Value;

use crate::workspace::{Workspace, floats};

fn line(name: &str) -> String {
    format!("[\"{name}\", 0, [], \"torch.float32\", [2], [9.0, 8.0, 8.5]]\n")
}

/// A dump of ptdbg_ascend with a stack, and with the elements of one of its tensors.
fn ptdbg(place: &Workspace) {
    let mut lines = line("Functional_relu_1_forward_input.0");
    lines +=
        "[\"Functional_relu_1_forward_input.1\", 0, [], \"<class 'bool'>\", \"[]\", [true, true, true]]\n";
    lines += &line("Functional_relu_1_forward_output");
    lines += "[\"Functional_relu_1_forward_stack_info\", [[\"net.py\", \"7\", \"forward\", \"y = F.relu(x)\"], [\"run.py\", \"2\", \"<module>\", null]]]\n";
    lines += &line("Functional_relu_10_forward_output");
    place.put_text("d/rank0/dump.pkl", &lines);
    let nan = Value::Tensor(floats(&[2], &[f32::NAN, 8.0]));
    for (name, value) in
        [("1_forward_input.0", nan), ("10_forward_output", Value::Tensor(floats(&[2], &[9.0, 8.0])))]
    {
        place.put(&format!("d/rank0/dump/Functional_relu_{name}.npy"), &value);
    }
}

#[test]
fn statistics_are_computed_where_there_are_elements() {
    let place = Workspace::new();
    ptdbg(&place);
    let ran = place.run(&["show", "d", "Functional.relu.1"]);
    assert_eq!(
        ran.out,
        "\
Functional.relu.1.forward
entry                              type     shape  max  min  mean  norm  nan  inf  value  from
───────────────────────────────────────────────────────────────────────────────────────────────────
Functional_relu_1_forward_input.0  float32  [2]    nan  nan   nan   nan    1    0  -      elements
Functional_relu_1_forward_input.1  bool     -        -    -     -     -    -    -  true   -
Functional_relu_1_forward_output   float32  [2]      9    8   8.5     -    -    -  -      record
stack, innermost frame first
  net.py:7 in forward
    y = F.relu(x)
  run.py:2 in <module>
"
    );
    // The array of the result is not there.
    assert_eq!(ran.code, 2);
    assert!(ran.err.starts_with("error: Functional_relu_1_forward_output: d/rank0/dump/Functional_relu_1_forward_output.npy: No such file"), "{}", ran.err);
}

#[test]
fn a_call_is_found_in_any_spelling_and_by_its_entries() {
    let place = Workspace::new();
    ptdbg(&place);
    for call in [
        "Functional_relu_10",
        "Functional.relu.10.forward",
        "Functional_relu_10_forward_output",
        "Functional.relu.10.forward.output.0",
        "Functional.relu.10.",
    ] {
        let ran = place.run(&["show", "d", call]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{call}");
        assert!(ran.out.starts_with("Functional.relu.10.forward\n"), "{call}: {}", ran.out);
        assert!(!ran.out.contains("relu.1."), "{call}: {}", ran.out);
    }
    // No whole word: then it is the beginning of whatever there is.
    let both = place.run(&["show", "d", "Functional.re", "--json"]).json();
    assert_eq!(both["calls"].as_array().unwrap().len(), 2);
}

#[test]
fn json_has_both_statistics_and_the_stack() {
    let place = Workspace::new();
    ptdbg(&place);
    let json = place.run(&["show", "d", "Functional.relu.1", "--json"]).json();
    let call = &json["calls"][0];
    assert_eq!((&call["rank"], &call["name"]), (&json!("rank0"), &json!("Functional.relu.1.forward")));
    let entry = &call["entries"][0];
    assert_eq!(entry["recorded"], json!({"max": 9.0, "min": 8.0, "mean": 8.5, "norm": null}));
    assert_eq!((&entry["computed"]["nan"], &entry["computed"]["finite_max"]), (&json!(1), &json!(8.0)));
    assert_eq!(call["entries"][2]["computed"], json!(null));
    assert_eq!(
        call["stack"],
        json!(["File net.py, line 7, in forward, \n y = F.relu(x)", "File run.py, line 2, in <module>"])
    );
    assert_eq!(json["errors"].as_array().unwrap().len(), 1);
}

#[test]
fn a_name_that_is_not_there_says_which_are() {
    let place = Workspace::new();
    ptdbg(&place);
    let ran = place.run(&["show", "d", "Functional.gelu"]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (1, "", "note: no call has \"Functional.gelu\" in its name; there are Functional.relu\n")
    );
    place.put_text(
        "many.pkl",
        &["Tensor_add", "Tensor_mul", "Functional_Relu6"]
            .map(|op| line(&format!("{op}_0_forward_output")))
            .concat(),
    );
    let ran = place.run(&["show", "many.pkl", "gelu"]);
    assert!(
        ran.err.starts_with("note: no call has \"gelu\" in its name; there are Tensor.add"),
        "{}",
        ran.err
    );
}

#[test]
fn a_name_is_found_in_any_case_and_by_any_part() {
    let place = Workspace::new();
    for (rank, names) in [(0, ["Tensor_relu", "Tensor_mul"]), (1, ["Functional_Relu6", "Tensor_relu"])] {
        let lines = names.map(|op| line(&format!("{op}_0_forward_output"))).concat();
        place.put_text(&format!("d/rank{rank}/dump.pkl"), &lines);
    }
    let shown = |call: &str| {
        let ran = place.run(&["show", "d", call, "--json"]);
        let json = ran.json();
        let calls = json["calls"].as_array().unwrap().iter();
        let names: Vec<String> = calls
            .map(|call| format!("{} {}", call["rank"].as_str().unwrap(), call["name"].as_str().unwrap()))
            .collect();
        let notes = json["notes"].as_array().unwrap().iter();
        let notes: String = notes.map(|note| format!("note: {}\n", note.as_str().unwrap())).collect();
        assert_eq!(notes, ran.err, "{call}: JSON says how it was found, too");
        (ran.code, names, ran.err)
    };
    let tensors = ["rank0 Tensor.relu.0.forward", "rank1 Tensor.relu.0.forward"];
    // As it is written, on whichever rank: nothing else is meant.
    let exact = (0, vec!["rank1 Functional.Relu6.0.forward".to_owned()], String::new());
    assert_eq!(shown("Functional.Relu6"), exact);
    let (code, names, err) = shown("tensor.RELU");
    assert_eq!((code, names.as_slice()), (0, &tensors.map(str::to_owned)[..]));
    assert_eq!(err, "note: no call begins with \"tensor.RELU\": these do, except for upper and lower case\n");
    let (code, names, err) = shown("relu");
    assert_eq!((code, names.len()), (0, 3), "{names:?}");
    assert_eq!(err, "note: no call begins with \"relu\": these have it in their name\n");
    assert_eq!(shown("nothing").0, 1);
}

#[test]
fn samples_are_shown() {
    let place = Workspace::new();
    place.put_text(
        "s.pkl",
        "[\"0_Torch_relu_forward_input.0\", [0.5, 2.0, 0.5, 1.25], \"torch.float32\", [1]]\n",
    );
    let ran = place.run(&["show", "s.pkl", "Torch_relu"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("2  0.5  1.25  [0.5, 2, 0.5, 1.25]  record"), "{}", ran.out);
}
