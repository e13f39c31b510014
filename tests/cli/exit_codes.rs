//! The one table of exit codes, command by command: 0 done, 1 differs or no match, 2 not read, compared or written.

use ulpscope_formats::Value;

use crate::workspace::{Workspace, dict, floats};

const CALL: &str = r#"{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1], "Max": 1.0, "Min": 1.0, "Mean": 1.0, "Norm": 1.0}"#;

/// Files and dumps, whole and torn, and what each command says of them.
fn place() -> Workspace {
    let place = Workspace::new();
    let one = Value::Tensor(floats(&[1], &[1.0]));
    let two = Value::Tensor(floats(&[1], &[2.0]));
    let wide = Value::Tensor(floats(&[3], &[1.0, 2.0, 3.0]));
    place.put("one.npy", &one);
    place.put("two.npy", &two);
    place.put("wide.npy", &wide);
    place.put("ab.pt", &dict(&[("a", one.clone()), ("b", one.clone())]));
    place.put("ac.pt", &dict(&[("a", one.clone()), ("c", one.clone())]));
    place.put("a2.pt", &dict(&[("a", two.clone()), ("b", one.clone())]));
    place.put_unread("torn_a.safetensors", "b", &[("a", 1.0)]);
    place.put_unread("torn_a2.safetensors", "b", &[("a", 2.0)]);
    place.put_bytes("torn.npy", b"\x93NUMPY");
    place.put_text("foreign/notes.txt", "no tensors here");
    std::fs::create_dir_all(place.path("empty/deeper")).unwrap();
    let dump = |calls: &[&str]| {
        let calls: Vec<String> =
            calls.iter().map(|name| format!(r#""{name}": {{"output": [{CALL}]}}"#)).collect();
        format!(r#"{{"task": "statistics", "dump_data_dir": null, "data": {{{}}}}}"#, calls.join(", "))
    };
    let whole = dump(&["Torch.add.0.forward", "Torch.mul.0.forward"]);
    place.put_text("whole/dump.json", &whole);
    place.put_text("torn/dump.json", &whole[..whole.len() - 60]);
    place.put_text("fewer/dump.json", &dump(&["Torch.add.0.forward"]));
    let line = "[\"Tensor_add_0_forward_input.0\", 0, [], \"torch.float32\", [2], [1.0, 0.5, 0.75]]\n";
    place.put_text("whole.pkl", line);
    place.put_text("torn.pkl", &format!("{line}[\"torn"));
    place.put_text("file", "");
    place
}

#[test]
fn every_command_ends_by_the_same_table() {
    let place = place();
    place.run(&["compare", "whole", "whole", "-o", "result"]);
    let table: &[(u8, &[&str])] = &[
        (0, &["stats", "one.npy"]),
        (0, &["stats", "whole/dump.json"]),
        (0, &["stats", "whole.pkl"]),
        (2, &["stats", "torn.pkl"]),
        (2, &["stats", "torn/dump.json"]),
        (2, &["stats", "torn.npy"]),
        (2, &["stats", "one.npy", "absent.npy"]),
        (2, &["stats", "empty"]),
        (2, &["stats", "foreign"]),
        (0, &["stats", "one.npy", "--json"]),
        (2, &["stats", "torn.pkl", "--json"]),
        (2, &["stats", "empty", "--json"]),
        (0, &["ls", "whole"]),
        (1, &["ls", "whole", "--filter", "softmax"]),
        (2, &["ls", "torn"]),
        (2, &["ls", "torn", "--filter", "softmax"]),
        (2, &["ls", "torn.pkl"]),
        (2, &["ls", "empty"]),
        (2, &["ls", "absent"]),
        (0, &["show", "whole", "Torch.add"]),
        (1, &["show", "whole", "softmax"]),
        (2, &["show", "torn", "Torch.add"]),
        (2, &["show", "torn", "softmax"]),
        (2, &["show", "empty", "add"]),
        (0, &["overflow", "whole"]),
        (2, &["overflow", "torn"]),
        (2, &["overflow", "empty"]),
        (2, &["overflow", "absent"]),
        (2, &["overflow", "whole", "-o", "file"]),
        (0, &["diff", "one.npy", "one.npy"]),
        (1, &["diff", "one.npy", "two.npy"]),
        (1, &["diff", "ab.pt", "ac.pt"]),
        (1, &["diff", "ab.pt", "a2.pt"]),
        (1, &["diff", "one.npy", "wide.npy"]),
        (1, &["compare", "one.npy", "wide.npy"]),
        (2, &["diff", "torn_a.safetensors", "torn_a.safetensors"]),
        (1, &["diff", "torn_a.safetensors", "torn_a2.safetensors"]),
        (2, &["diff", "one.npy", "absent.npy"]),
        (0, &["compare", "whole", "whole"]),
        (0, &["compare", "one.npy", "one.npy"]),
        (1, &["compare", "one.npy", "two.npy"]),
        (1, &["compare", "ab.pt", "ac.pt"]),
        (1, &["compare", "whole", "fewer"]),
        (2, &["compare", "empty", "empty"]),
        (2, &["compare", "whole", "absent"]),
        (2, &["compare", "one.npy", "two.npy", "-o", "file"]),
        (0, &["explain", "result"]),
        (2, &["explain", "empty"]),
        (0, &["merge", "result"]),
        (1, &["merge", "result", "--filter", "softmax"]),
        (2, &["merge", "empty"]),
        (2, &["merge", "nosuch"]),
        (2, &["merge", "result", "--metric", "max_abs"]),
        (2, &["merge", "result", "-o", "absent/all.csv"]),
        (0, &["convert", "one.npy", "-o", "done.pt"]),
        (2, &["convert", "one.npy", "-o", "done.pt"]),
        (2, &["convert", "empty", "-o", "into", "--to", "npy"]),
        (2, &["convert", "foreign", "-o", "into", "--to", "npy"]),
        (2, &["convert", "torn.npy", "-o", "t.pt"]),
        (2, &["stats"]),
        (2, &["frobnicate"]),
        (0, &["--help"]),
    ];
    for (code, args) in table {
        let ran = place.run(args);
        assert_eq!(ran.code, i32::from(*code), "ulpscope {}\n{}{}", args.join(" "), ran.out, ran.err);
        if *code == 2 {
            assert!(
                ran.err.lines().any(|line| !line.starts_with("note:")),
                "ulpscope {} says why",
                args.join(" ")
            );
        }
    }
}

#[test]
fn an_empty_folder_is_said_to_be_empty() {
    let place = place();
    for args in [&["stats", "empty"][..], &["convert", "empty", "-o", "into", "--to", "npy"]] {
        assert_eq!(place.run(args).err, "error: empty: there is no file in this folder\n");
    }
    let ran = place.run(&["stats", "foreign"]);
    assert_eq!(ran.err, "error: no file has a known format (1 file)\n");
    // Beside something to read, it is a note.
    let ran = place.run(&["stats", "foreign", "one.npy"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "note: 1 of 2 files are of no known format\n"));
}
