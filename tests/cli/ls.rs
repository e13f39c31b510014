//! `ulpscope ls`.

use serde_json::json;
use ulpscope_formats::Value;

use crate::workspace::{Workspace, dict, floats};

const TENSOR: &str = r#"{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "Max": 2.0, "Min": NaN, "Mean": 1.5, "Norm": 3.0}"#;

/// A dump of two steps with two ranks each; every rank has a call of an API in a module, and the module's.
fn training(place: &Workspace) {
    let scalar = r#"{"type": "int", "value": 1}"#;
    let dump = format!(
        r#"{{"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": null, "data": {{
            "Functional.softmax.0.forward": {{"input_args": [{TENSOR}], "input_kwargs": {{"dim": {scalar}}}, "output": [{TENSOR}]}},
            "Module.act.Softmax.forward.0": {{"input_args": [{TENSOR}], "input_kwargs": {{}}, "output": [{TENSOR}, null]}},
            "Functional.softmax.0.backward": {{"input": [{TENSOR}], "output": [{TENSOR}]}}}}}}"#
    );
    let construct = r#"{"Functional.softmax.0.forward": "Module.act.Softmax.forward.0"}"#;
    for rank in ["step0/rank0", "step0/rank10", "step10/rank0", "step10/rank10"] {
        place.put_text(&format!("d/{rank}/dump.json"), &dump);
        place.put_text(&format!("d/{rank}/construct.json"), construct);
    }
}

#[test]
fn calls_are_listed_in_the_order_they_ran() {
    let place = Workspace::new();
    training(&place);
    let ran = place.run(&["ls", "d", "--step", "10", "--rank", "0"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(
        ran.out,
        "\
step 10, rank0, d/step10/rank0/dump.json (msprobe, statistics, level mix, 3 calls)
    3  Functional.softmax.0.forward  (float32[2, 3], dim=1) -> float32[2, 3]  in Module.act.Softmax.forward.0
    3  Module.act.Softmax.forward.0  (float32[2, 3]) -> float32[2, 3], None
    2  Functional.softmax.0.backward  (float32[2, 3]) -> float32[2, 3]
"
    );
}

#[test]
fn steps_and_ranks_are_listed_separately() {
    let place = Workspace::new();
    training(&place);
    let ran = place.run(&["ls", "d", "--filter", "nothing of the kind"]);
    let heads: Vec<&str> = ran.out.lines().map(|line| line.split(", d/").next().unwrap()).collect();
    assert_eq!(heads, ["step 0, rank0", "step 0, rank10", "step 10, rank0", "step 10, rank10"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (
            1,
            "note: no call matches \"nothing of the kind\"; there are Functional.softmax, Module.act.Softmax\n"
        )
    );
    let json = place.run(&["ls", "d", "--filter", "nothing of the kind", "--json"]).json();
    assert_eq!(json["notes"][0].as_str().map(|note| format!("note: {note}\n")), Some(ran.err));
    let ran = place.run(&["ls", "d", "--rank", "3"]);
    assert_eq!((ran.code, ran.err.as_str()), (2, "error: d: expected rank 3, found ranks 0, 10\n"));
}

#[test]
fn a_filter_is_a_part_or_a_pattern_in_any_spelling() {
    let place = Workspace::new();
    training(&place);
    for (filter, expected) in [
        ("softmax_0_forward", 1),
        ("softmax.0", 2),
        ("Softmax", 1),
        ("*.backward", 1),
        ("F*d", 2),
        ("Module_act_Softmax_0_forward", 1),
        ("act.Softmax.0.forward", 1),
    ] {
        let ran = place.run(&["ls", "d/step0/rank0", "--filter", filter]);
        assert_eq!(ran.out.lines().count(), 1 + expected, "{filter}: {}", ran.out);
    }
}

#[test]
fn json_says_what_each_entry_is() {
    let place = Workspace::new();
    training(&place);
    let ran = place.run(&["ls", "d", "--json"]);
    let json = ran.json();
    assert_eq!((&json["path"], &json["errors"]), (&json!("d"), &json!([])));
    let ranks = json["ranks"].as_array().unwrap();
    assert_eq!(ranks.len(), 4);
    assert_eq!(
        (&ranks[1]["step"], &ranks[1]["rank"], &ranks[1]["name"], &ranks[1]["tool"]),
        (&json!(0), &json!(10), &json!("rank10"), &json!("msprobe"))
    );
    let call = &ranks[0]["calls"][0];
    assert_eq!(call["module"], json!("Module.act.Softmax.forward.0"));
    assert_eq!(
        (&call["base"], &call["index"], &call["kind"]),
        (&json!("Functional.softmax"), &json!(0), &json!("forward"))
    );
    assert_eq!(
        call["entries"][0],
        json!({
            "name": "Functional.softmax.0.forward.input.0", "role": "input", "path": "0", "type": "tensor",
            "dtype": "float32", "shape": [2, 3], "data": "none",
        })
    );
    assert_eq!(
        call["entries"][1],
        json!({
            "name": "Functional.softmax.0.forward.input.dim", "role": "input", "path": "dim", "type": "int",
            "value": 1,
        })
    );
}

#[test]
fn a_damaged_dump_is_listed_as_far_as_it_goes() {
    let place = Workspace::new();
    training(&place);
    let whole = place.text("d/step0/rank0/dump.json");
    place.put_text("d/step0/rank0/dump.json", &whole[..whole.len() - 200]);
    let ran = place.run(&["ls", "d", "--step", "0"]);
    assert_eq!(ran.code, 2);
    assert_eq!(ran.out.lines().count(), 2 + 2 + 3, "{}", ran.out);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(ran.err.starts_with("error: d/step0/rank0/dump.json: line 4, byte "), "{}", ran.err);
    let json = place.run(&["ls", "d", "--step", "0", "--json"]).json();
    assert_eq!(json["errors"].as_array().unwrap().len(), 1);
}

#[test]
fn checkpoints_and_files_are_listed_too() {
    let place = Workspace::new();
    let weight = Value::Tensor(floats(&[2], &[1.0, 2.0]));
    place.put("last.pt", &dict(&[("model", dict(&[("w", weight.clone())])), ("step", Value::Int(3))]));
    place.put("x.npy", &weight);
    assert_eq!(
        place.run(&["ls", "last.pt"]).out,
        "last.pt (tensor files, 2 values)\n    1  model.w  float32[2]\n    1  step  3\n"
    );
    assert_eq!(place.run(&["ls", "x.npy"]).out, "x.npy (tensor files, 1 value)\n    1  x  float32[2]\n");
}

#[test]
fn what_is_no_dump_says_what_is_there() {
    let place = Workspace::new();
    place.put_text("d/notes.txt", "");
    let ran = place.run(&["ls", "d"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(
        ran.err.starts_with("error: d: expected a dump (dump.json, debug.json or journal.jsonl"),
        "{}",
        ran.err
    );
    assert!(ran.err.ends_with("found notes.txt\n"), "{}", ran.err);
}

#[test]
fn names_cannot_move_the_cursor() {
    let place = Workspace::new();
    let text = format!(
        r#"{{"task": "statistics", "dump_data_dir": null, "data": {{"a\u001b[2J.0.forward": {{"output": [{TENSOR}]}}}}}}"#
    );
    place.put_text("dump.json", &text);
    for command in [&["ls", "dump.json"][..], &["show", "dump.json", "a"], &["ls", ".", "--json"]] {
        let ran = place.run(command);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(!ran.out.chars().any(|c| c.is_control() && c != '\n'), "{:?}", ran.out);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_path_that_is_no_text_is_shown_as_well_as_it_goes() {
    use std::os::unix::ffi::OsStrExt;

    let place = Workspace::new();
    training(&place);
    let odd = std::ffi::OsStr::from_bytes(b"d\xff");
    std::fs::rename(place.path("d"), place.path("").join(odd)).unwrap();
    let output = place.command(&["ls", "--json"]).arg(odd).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["path"], json!("d\u{fffd}"));
    assert_eq!(json["ranks"][0]["path"], json!("d\u{fffd}/step0/rank0/dump.json"));
}
