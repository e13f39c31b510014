//! `--json`: every command prints one JSON object, whatever happens.

use serde_json::{Value as Json, json};
use ulpscope_formats::Value;

use crate::workspace::{Workspace, floats};

#[test]
fn a_command_that_fails_says_so_in_json() {
    let place = Workspace::new();
    place.put("one.npy", &Value::Tensor(floats(&[1], &[1.0])));
    place.put_text("notes.txt", "no tensors");
    for args in [
        &["compare", "absent", "one.npy", "--json"][..],
        &["compare", "one.npy", "one.npy", "-o", "notes.txt", "--json"],
        &["diff", "one.npy", "absent.npy", "--json"],
        &["explain", "absent", "--json"],
        &["ls", "absent", "--json"],
        &["show", "absent", "call", "--json"],
        &["merge", "absent.csv", "--json"],
        &["convert", "one.npy", "-o", "x.unknown", "--json"],
        &["stats", "one.npy", "--txt=notes.txt", "--json"],
    ] {
        let ran = place.run(args);
        let error = &ran.json()["error"];
        assert_eq!((ran.code, &error["exit_code"]), (2, &json!(2)), "{args:?}");
        let message = error["message"].as_str().unwrap();
        assert_eq!(ran.err.lines().last().unwrap(), format!("error: {message}"), "{args:?}");
    }
}

#[test]
fn a_command_line_that_is_wrong_says_so_in_json() {
    let place = Workspace::new();
    for (args, message) in [
        (&["compare", "--json", "a", "b", "--nosuch"][..], "unexpected argument '--nosuch' found"),
        (&["diff", "--json"], "the following required arguments were not provided:"),
        (&["frobnicate", "--json"], "unrecognized subcommand 'frobnicate'"),
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code, 2);
        let said = ran.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(said.starts_with(message), "{said}");
        assert!(ran.err.starts_with(&format!("error: {message}")), "{}", ran.err);
    }
    // What follows `--` is no flag.
    assert_eq!(place.run(&["diff", "--", "--json"]).out, "");
}

#[test]
fn convert_says_what_became_of_each_file() {
    let place = Workspace::new();
    place.put("d/one.npy", &Value::Tensor(floats(&[1], &[1.0])));
    place.put_text("d/notes.txt", "no tensors");
    place.put_bytes("d/torn.npy", b"\x93NUMPY");
    let ran = place.run(&["convert", "d", "-o", "out", "--to", "pt", "--json"]);
    let json: Json = ran.json();
    assert_eq!((&json["found"], &json["converted"], &json["written"]), (&json!(3), &json!(1), &json!(1)));
    assert_eq!(json["files"], json!([{ "source": "d/one.npy", "written": ["out/one.pt"] }]));
    assert_eq!(json["notes"], json!(["1 of 3 files are of no known format"]));
    assert_eq!(ran.code, 2);
    let errors = json["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{json}");
    assert!(errors[0].as_str().unwrap().starts_with("d/torn.npy: "), "{json}");
}
