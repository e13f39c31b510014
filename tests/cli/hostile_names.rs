//! Names out of files that would drive a terminal, turn text around or hide in it: through every command and style, none
//! of their characters reaches anything that is shown or written, and JSON still says what they were.

use std::path::Path;

use serde_json::Value as Json;
use ulpscope_formats::Value;

use crate::workspace::{Ran, Workspace, dict, floats};

/// ESC, BEL, a control sequence of one character, DEL, two marks of direction, two of no width, a line break, NUL.
const MARKS: &str = "\u{1b}[2J\u{7}\u{9b}31m\u{7f}\u{202e}\u{2066}\u{200b}\u{feff}\n\0";

/// Those that the name of a file can have: all but NUL.
fn file_marks() -> &'static str {
    MARKS.trim_end_matches('\0')
}

/// A name with all of them.
fn name() -> String {
    format!("evil{MARKS}name")
}

/// Whether a character may be in a text that is shown.
fn is_shown(character: char) -> bool {
    let is_mark = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{200b}'..='\u{200f}' | '\u{feff}');
    character == '\n' || !(character.is_control() || is_mark)
}

fn assert_clean(what: &str, text: &str) {
    let found: Vec<String> =
        text.chars().filter(|c| !is_shown(*c)).map(|c| c.escape_unicode().to_string()).collect();
    assert!(found.is_empty(), "{what} has {found:?}:\n{}", text.escape_debug());
}

/// All texts of a JSON document, keys included.
fn texts(value: &Json, found: &mut Vec<String>) {
    match value {
        Json::String(text) => found.push(text.clone()),
        Json::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Json::Object(fields) => fields.iter().for_each(|(key, value)| {
            found.push(key.clone());
            texts(value, found);
        }),
        _ => {}
    }
}

fn dump(norm: f64) -> String {
    let tensor = format!(
        r#"{{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": {norm}, "Min": 0.0, "Mean": 0.5, "Norm": {norm}, "requires_grad": false}}"#
    );
    let call = serde_json::to_string(&format!("Torch.{}.0.forward", name())).unwrap();
    format!(
        r#"{{"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": null,
            "data": {{{call}: {{"input_args": [{tensor}], "input_kwargs": {{}}, "output": [{tensor}]}}}}}}"#
    )
}

/// A file of records whose own name is such a name.
fn records() -> String {
    format!("records{}.pkl", file_marks())
}

/// Dumps of two tools and tensor files, with such names in them.
fn place() -> Workspace {
    let place = Workspace::new();
    for (side, norm) in [("t", 1.0), ("g", 2.0)] {
        place.put_text(&format!("{side}/dump.json"), &dump(norm));
        let call = serde_json::to_string(&format!("Torch.{}.0.forward", name())).unwrap();
        place.put_text(
            &format!("{side}/stack.json"),
            &format!("{{{call}: [\"File evil.py, line 1, in f, \\n x\"]}}"),
        );
        let entry = serde_json::to_string(&format!("Torch_{}_0_forward_output", name())).unwrap();
        let line = format!("[{entry}, 0, [], \"torch.float32\", [2], [{norm}, 0.0, 0.5]]\n");
        place.put_text(&format!("{side}.pkl"), &line);
        let sampled = serde_json::to_string(&format!("0_Torch_{}_forward_output", name())).unwrap();
        let hooks = format!("[{sampled}, [0.5, {norm}, 0.5, 1.25], \"torch.float32\", [1]]\n");
        place.put_text(&format!("{side}_hooks.pkl"), &hooks);
        let tensor = Value::Tensor(floats(&[2], &[1.0, norm as f32]));
        place.put(&format!("{side}.safetensors"), &dict(&[(&name(), tensor.clone()), ("other", tensor)]));
    }
    place.put_text(&records(), &place.text("t.pkl"));
    place.put_unread("unread.safetensors", &serde_json::to_string(&name()).unwrap().replace('"', ""), &[]);
    place
}

/// What a run left on both streams is clean; JSON is, and says the name.
fn assert_ran(args: &[&str], ran: &Ran) {
    assert!(ran.code <= 2, "{args:?}");
    assert_clean(&format!("stdout of {args:?}"), &ran.out);
    assert_clean(&format!("stderr of {args:?}"), &ran.err);
    if args.contains(&"--json") {
        let mut found = Vec::new();
        texts(
            &serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{args:?}: {error}")),
            &mut found,
        );
        assert!(
            found.iter().any(|text| text.contains(file_marks())),
            "{args:?} says the name in JSON: {found:?}"
        );
    }
}

#[test]
fn no_command_lets_them_through() {
    let place = place();
    let records = records();
    let commands: &[&[&str]] = &[
        &["stats", "t.safetensors"],
        &["stats", "t.safetensors", "--txt=text"],
        &["stats", "unread.safetensors"],
        &["stats", "t", &records],
        &["ls", "t"],
        &["ls", "t.pkl"],
        &["ls", "t_hooks.pkl"],
        &["ls", "t.safetensors"],
        &["ls", "t", "--filter", "nothing like it"],
        &["show", "t", "Torch"],
        &["show", "t.pkl", "Torch"],
        &["show", "t.safetensors", "evil"],
        &["diff", "t.safetensors", "g.safetensors"],
        &["diff", "t.safetensors", "unread.safetensors"],
        &["compare", "t", "g"],
        &["compare", "t.safetensors", "g.safetensors"],
        &["compare", "t.safetensors", "unread.safetensors"],
    ];
    for args in commands {
        assert_ran(args, &place.run(args));
        // What there is to say of this has no name in it.
        if !matches!(args, ["ls", "t", "--filter", ..]) {
            let args = [args, &["--json"][..]].concat();
            assert_ran(&args, &place.run(&args));
        }
    }
    place.run(&["convert", "t.safetensors", "-o", "npy", "--to", "npy"]);
    place.run(&["convert", "t.pkl", "-o", "converted/dump.json"]);
    for file in place.files().into_iter().filter(|file| *file != records) {
        assert_clean("the name of a file", &file);
    }
    let hostile = format!("absent{MARKS}").replace('\0', "");
    for args in [&["stats", &hostile][..], &["ls", &hostile], &[&hostile], &["diff", "a", "b", &hostile]] {
        assert_ran(args, &place.run(args));
    }
}

/// Every cell of a workbook, as its reader gets it.
fn cells(path: &Path) -> String {
    let sheet = ulpscope_report::sheet::read(path).unwrap();
    let cells = sheet.rows.iter().flat_map(|row| row.iter());
    sheet.columns.iter().map(String::as_str).chain(cells).collect::<Vec<_>>().join("\n").replace('\t', " ")
}

#[test]
fn no_file_of_any_style_has_them() {
    let place = place();
    for (style, target, golden) in [
        ("native", "t", "g"),
        ("native", "t.safetensors", "g.safetensors"),
        ("msprobe", "t", "g"),
        ("msprobe-1", "t", "g"),
        ("ptdbg-6", "t", "g"),
        ("ptdbg", "t.pkl", "g.pkl"),
        ("torch_npu", "t_hooks.pkl", "g_hooks.pkl"),
    ] {
        let folder = format!("out_{style}_{target}");
        let args =
            ["compare", target, golden, "--style", style, "-o", &folder, "--format", "csv,xlsx", "-da"];
        let ran = place.run(&args);
        assert_ran(&args, &ran);
        let files: Vec<String> = place.files().into_iter().filter(|file| file.starts_with(&folder)).collect();
        let mut seen = Vec::new();
        for file in &files {
            let text = if file.ends_with(".xlsx") { cells(&place.path(file)) } else { place.text(file) };
            assert_clean(file, &text);
            if file.ends_with(".csv") || file.ends_with(".xlsx") {
                assert!(text.contains("\\u{1b}[2J\\u{7}\\u{9b}31m\\u{7f}\\u{202e}"), "{file}: {text}");
            }
            if file.ends_with("result.json") {
                let mut found = Vec::new();
                texts(&serde_json::from_str(&text).unwrap(), &mut found);
                let has_name = found.iter().any(|text| text.contains(MARKS));
                assert!(has_name || style != "native", "{style}: {found:?}");
            }
            seen.push(file.rsplit('.').next().unwrap());
        }
        assert!(
            seen.contains(&"csv") && seen.contains(&"xlsx") && seen.contains(&"json"),
            "{style}: {files:?} {}",
            ran.err
        );
        assert_ran(&["explain", &folder], &place.run(&["explain", &folder]));
        for args in [
            &["merge", &folder][..],
            &["merge", &folder, "-o", "all.csv"],
            &["merge", &folder, "-o", "all.xlsx"],
        ] {
            let ran = place.run(args);
            assert_eq!(ran.code, 0, "{style}: {}", ran.err);
            assert_ran(args, &ran);
        }
        assert_clean("the merged sheet", &place.text("all.csv"));
        assert_clean("the merged workbook", &cells(&place.path("all.xlsx")));
    }
}
