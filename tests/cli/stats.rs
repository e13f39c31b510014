//! `ulpscope stats`.

use serde_json::json;
use ulpscope_formats::Value;
use ulpscope_report::fields;

use crate::workspace::{Workspace, dict, floats, ints};

#[test]
fn one_tensor_is_shown_in_full() {
    let place = Workspace::new();
    place.put("x.npy", &Value::Tensor(floats(&[2, 3], &[1.0, -2.0, 0.0, f32::NAN, f32::INFINITY, 1e-40])));
    let ran = place.run(&["stats", "x.npy", "--first", "4", "--digest", "crc32"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(
        ran.out,
        "\
x.npy
shape       [2, 3]
dtype       float32
max         nan
min         nan
mean        nan
norm        nan
nan         1
pos_inf     1
neg_inf     0
zeros       1
subnormals  1
finite_max  1
finite_min  -2
crc32       74bc3484
first       [1, -2, 0, nan]
"
    );
}

#[test]
fn several_tensors_are_a_table_in_the_order_people_count_in() {
    let place = Workspace::new();
    let lone = Value::Tensor(ints(&[2], &[3, -4]));
    for name in ["d/rank10/x.npy", "d/rank2/x.npy"] {
        place.put(name, &lone);
    }
    place.put("d/rank2/m.pt", &dict(&[("w", lone.clone()), ("deep", dict(&[("b", lone)]))]));
    place.put_text("d/notes.txt", "not a tensor");
    let ran = place.run(&["stats", "d"]);
    assert_eq!(
        ran.out,
        "\
name                 shape  dtype  max  min  mean  norm  nan  pos_inf  neg_inf  zeros  subnormals
──────────────────────────────────────────────────────────────────────────────────────────────────
d/rank2/m.pt:w       [2]    int64    3   -4  -0.5     5    0        0        0      0           0
d/rank2/m.pt:deep.b  [2]    int64    3   -4  -0.5     5    0        0        0      0           0
d/rank2/x.npy        [2]    int64    3   -4  -0.5     5    0        0        0      0           0
d/rank10/x.npy       [2]    int64    3   -4  -0.5     5    0        0        0      0           0
"
    );
    assert_eq!((ran.code, ran.err.as_str()), (0, "note: 1 of 4 files are of no known format\n"));
}

#[test]
fn json_has_the_fields_in_order_and_no_bare_nan() {
    let place = Workspace::new();
    place.put("x.npy", &Value::Tensor(floats(&[2], &[f32::NAN, f32::NEG_INFINITY])));
    let ran = place.run(&["stats", "x.npy", "--json"]);
    let tensor = &ran.json()["tensors"][0];
    let names: Vec<&str> = tensor.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = vec!["file", "name"];
    expected.extend(fields::STATS.map(|(name, _)| name));
    expected.push("first");
    assert_eq!(names, expected);
    assert_eq!(tensor["first"], json!(["NaN", "-Infinity"]));
    assert_eq!((&tensor["max"], &tensor["finite_max"]), (&json!("NaN"), &json!(null)));
}

#[test]
fn a_bad_file_does_not_lose_the_others() {
    let place = Workspace::new();
    place.put("d/good.npy", &Value::Tensor(floats(&[1], &[1.0])));
    place.put_text("d/bad.npy", "junk");
    let ran = place.run(&["stats", "d", "missing.npy"]);
    assert_eq!(ran.code, 2);
    assert!(ran.out.starts_with("d/good.npy\n"), "{}", ran.out);
    let errors: Vec<&str> = ran.err.lines().collect();
    assert_eq!(errors.len(), 2, "{}", ran.err);
    assert!(errors[0].starts_with("error: d/bad.npy: "), "{}", errors[0]);
    assert_eq!(errors[1], "error: missing.npy: No such file or directory (os error 2)");

    let json = place.run(&["stats", "d", "--json"]).json();
    assert_eq!(json["tensors"].as_array().unwrap().len(), 1);
    assert_eq!(json["errors"].as_array().unwrap().len(), 1);
}

#[test]
fn a_tensor_that_cannot_be_read_is_an_error() {
    let place = Workspace::new();
    place.put_unread("x.safetensors", "b", &[("a", 1.0)]);
    let ran = place.run(&["stats", "x.safetensors", "--json"]);
    assert_eq!(ran.code, 2);
    let json = ran.json();
    assert_eq!(json["tensors"][0]["name"], json!("a"));
    assert!(json["errors"][0].as_str().unwrap().starts_with("x.safetensors:b: 4-bit floats"), "{json}");
    assert!(ran.err.starts_with("error: x.safetensors:b: 4-bit floats"), "{}", ran.err);
}

#[test]
fn what_is_no_tensor_is_a_note_and_what_is_one_an_error() {
    let place = Workspace::new();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/pt/around_protocol_2.pt");
    std::fs::copy(golden, place.path("x.pt")).unwrap();
    assert_eq!(
        place.run(&["stats", "x.pt"]).err,
        "\
note: x.pt:function: the class or function torch.nn.functional.relu, by name only
note: x.pt:complex: complex(1, 2)
note: x.pt:slice: slice(1, None, 2)
error: x.pt:sparse: a sparse tensor; only dense ones are read
error: x.pt:quantized: a quantized tensor; only plain ones are read
"
    );
}

#[test]
fn names_cannot_move_the_cursor() {
    let place = Workspace::new();
    let name = "a\u{1b}[2J\u{9b}31m";
    let lone = Value::Tensor(floats(&[1], &[1.0]));
    place.put("one.pt", &dict(&[(name, lone.clone())]));
    place.put("two.pt", &dict(&[(name, lone.clone()), ("b", lone)]));
    place.put_unread("bad.safetensors", "a\\u001b[2J", &[]);
    for file in ["one.pt", "two.pt", "bad.safetensors"] {
        let ran = place.run(&["stats", file]);
        let shown = ran.out + &ran.err;
        assert!(shown.contains("a\\u{1b}[2J"), "{shown:?}");
        assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
    }
}

#[test]
fn a_file_named_by_the_user_must_be_a_known_one() {
    let place = Workspace::new();
    place.put_text("notes.txt", "hello, world");
    let ran = place.run(&["stats", "notes.txt"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (2, "error: notes.txt: of no known format: it begins with hello, w\n")
    );
}

#[cfg(unix)]
#[test]
fn links_out_of_the_tree_are_not_followed() {
    let place = Workspace::new();
    place.put("outside.npy", &Value::Tensor(floats(&[1], &[1.0])));
    place.put("d/inside.npy", &Value::Tensor(floats(&[1], &[2.0])));
    for (link, target) in [("out.npy", "../outside.npy"), ("again.npy", "inside.npy"), ("loop", ".")] {
        std::os::unix::fs::symlink(target, place.path("d").join(link)).unwrap();
    }
    let ran = place.run(&["stats", "d", "--json"]);
    let files: Vec<String> = ran.json()["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tensor| tensor["file"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(files, ["d/again.npy", "d/inside.npy"]);
    let notes = ran.json()["notes"].as_array().unwrap().clone();
    let notes: String = notes.iter().map(|note| format!("note: {}\n", note.as_str().unwrap())).collect();
    assert_eq!(notes, ran.err);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (
            0,
            "note: d/loop: not followed: a link that leads out of the folder, or to a folder\n\
             note: d/out.npy: not followed: a link that leads out of the folder, or to a folder\n"
        )
    );
}

#[test]
fn values_are_written_as_text_that_reads_back() {
    let place = Workspace::new();
    place.put("x.npy", &Value::Tensor(floats(&[2, 2], &[0.1, -0.0, f32::NAN, 1e-40])));
    let hostile = dict(&[("../../up", Value::Tensor(ints(&[2], &[i64::MAX, -1])))]);
    place.put("m.safetensors", &hostile);
    let ran = place.run(&["stats", "x.npy", "m.safetensors", "--txt=t"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(place.text("t/x.npy.txt"), "0.1 -0\nnan 1e-40\n");
    assert_eq!(place.text("t/m.safetensors..._.._up.txt"), "9223372036854775807 -1\n");
    assert_eq!(place.files(), ["m.safetensors", "t/m.safetensors..._.._up.txt", "t/x.npy.txt", "x.npy"]);
}

#[test]
fn records_are_summed_up() {
    let place = Workspace::new();
    let item = r#"{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}"#;
    place.put_text(
        "dump.json",
        &format!(
            r#"{{"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": null,
                "data": {{"Tensor.add.0.forward": {{"input_args": [{item}, {item}], "output": [{item}]}}}}}}"#
        ),
    );
    place.put_text(
        "dump.pkl",
        "[\"Tensor_add_0_forward_input.0\", 0, [], \"torch.float32\", [2], [1.0, 0.5, 0.75]]\n[\"torn",
    );
    let ran = place.run(&["stats", "dump.json", "dump.pkl"]);
    assert_eq!(ran.code, 2, "a torn line is not read, as in ls");
    assert!(ran.err.starts_with("error: dump.pkl: line 2") && ran.err.lines().count() == 1, "{}", ran.err);
    assert_eq!(
        ran.out,
        "\
dump.json
kind       msprobe dump
task       statistics
level      L1
framework  pytorch
calls      1
tensors    3

dump.pkl
kind              ptdbg_ascend before 6.0
entries           1
stacks            0
other_lines       0
unreadable_lines  1
"
    );
}

#[test]
fn threads_change_nothing() {
    let place = Workspace::new();
    let values: Vec<f32> = (0..500_000).map(|value| (value as f32 * 0.37).sin()).collect();
    place.put("x.npy", &Value::Tensor(floats(&[500_000], &values)));
    let one = place.run(&["stats", "x.npy", "--json", "--threads", "1"]);
    let three = place.run(&["--threads", "3", "stats", "x.npy", "--json"]);
    assert_eq!(one.code, 0);
    assert_eq!(one.out, three.out);
}
