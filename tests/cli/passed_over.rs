//! What lies in a named folder and is not compared: listed, and if it could hold tensors, no agreement.

use std::fs;

use serde_json::json;
use ulpscope_formats::Value;

use crate::workspace::{Workspace, dict, floats};

/// The name of an ACL dump file, and one of digits that stands for a name that is too long.
const NAMED: &str = "Relu.relu.25.5.1767261601039759";
const DIGITS: &str = "16839245201148";

/// An ACL dump file under any name.
fn put_acl(place: &Workspace, name: &str, value: f32) {
    let made = format!("{name}.acl");
    place.put(&made, &dict(&[("output.0", Value::Tensor(floats(&[2], &[value, 2.0])))]));
    fs::rename(place.path(&made), place.path(name)).unwrap();
}

/// Two folders of ACL dump files, one of which has a name of digits only.
pub(crate) fn with_digits(target: f32) -> Workspace {
    let place = Workspace::new();
    for (side, value) in [("t", target), ("g", 1.0)] {
        put_acl(&place, &format!("{side}/{NAMED}"), 1.0);
        put_acl(&place, &format!("{side}/{DIGITS}"), value);
    }
    place
}

#[test]
fn acl_files_with_names_of_digits_are_compared() {
    let ran = with_digits(1.0).run(&["compare", "t", "g", "--json"]);
    assert_eq!((ran.code, &ran.json()["summary"]["passed"]), (0, &json!(2)), "{}", ran.err);
    let ran = with_digits(7.0).run(&["compare", "t", "g"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.out.contains("DIFFER") && ran.out.contains(DIGITS), "{}", ran.out);
    let ran = with_digits(1.0).run(&["ls", "t"]);
    assert!(ran.out.contains(DIGITS), "{}", ran.out);
}

#[test]
fn a_mapping_file_names_them() {
    let place = with_digits(1.0);
    fs::rename(place.path(&format!("t/{DIGITS}")), place.path("t/77")).unwrap();
    place.put_text("t/mapping.csv", "77,Conv2D.a_long_name.3.5.1767261601039760\n");
    place.put_text("g/mapping.csv", &format!("{DIGITS},Conv2D.a_long_name.3.5.1767261601039999\n"));
    let ran = place.run(&["compare", "t", "g"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let ran = place.run(&["ls", "t"]);
    assert!(ran.out.contains("Conv2D.a_long_name.0.forward"), "{}", ran.out);
}

#[test]
fn data_of_an_unknown_format_forbids_agreement() {
    let place = with_digits(1.0);
    fs::write(place.path("t/weights.h5"), b"\x89HDF\r\n\x1a\n\0\0\0").unwrap();
    let ran = place.run(&["compare", "t", "g"]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(
        ran.out.contains("INCONCLUSIVE: what was compared agrees, but 1 file or tensor could not be read"),
        "{}",
        ran.out
    );
    assert!(
        ran.err.contains(
            "not read: weights.h5 (1 file). It may hold tensors of the run: convert it, or move it"
        ),
        "{}",
        ran.err
    );
}

#[test]
fn documents_are_a_note() {
    let place = with_digits(1.0);
    place.put_text("t/README.txt", "how this was made");
    place.put_text("t/run.log", "step 1\n");
    let ran = place.run(&["compare", "t", "g"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert!(
        ran.err.contains("not compared (not a tensor file): README.txt, run.log (2 files)"),
        "{}",
        ran.err
    );
}

#[test]
fn tensors_beside_steps_forbid_agreement() {
    let place = Workspace::new();
    for side in ["t", "g"] {
        place.put(&format!("{side}/step0/x.npy"), &Value::Tensor(floats(&[1], &[1.0])));
    }
    assert_eq!(place.run(&["compare", "t", "g"]).code, 0);
    place.put("t/extra/y.npy", &Value::Tensor(floats(&[1], &[1.0])));
    place.put("t/z.npy", &Value::Tensor(floats(&[1], &[1.0])));
    let ran = place.run(&["compare", "t", "g"]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(ran.err.contains("z.npy, extra/y.npy (2 files). They may hold tensors"), "{}", ran.err);
    assert!(ran.out.contains("2 files or tensors could not be read"), "{}", ran.out);
    assert!(!ran.err.contains("more"), "{}", ran.err);
}

/// What a run of one call leaves.
const RECORDS: &str = r#"{"task": "statistics", "level": "L1", "dump_data_dir": null, "data": {
    "Functional.relu.0.forward": {"input_args": [], "input_kwargs": {}, "output": [
        {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 1.0,
         "requires_grad": false}]}}}"#;

/// Two runs that agree, each in a folder below the one that is compared.
fn with_records(folder: &str) -> Workspace {
    let place = Workspace::new();
    for side in ["t", "g"] {
        place.put_text(&format!("{side}/{folder}dump.json"), RECORDS);
        // What tools and people leave next to a dump.
        place.put_text(&format!("{side}/{folder}run.log"), "step 0\n");
        place.put_text(&format!("{side}/notes/README.md"), "how this was made");
    }
    let ran = place.run(&["compare", "t", "g"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(!ran.err.contains("not read") && !ran.err.contains("not compared ("), "{}", ran.err);
    place
}

/// That there is no agreement, and that the reason names what was not read.
fn assert_not_read(place: &Workspace, words: &str) {
    let ran = place.run(&["compare", "t", "g"]);
    assert_eq!(ran.code, 2, "{words}: {}{}", ran.out, ran.err);
    assert!(ran.err.contains(&format!("not read: {words}. ")), "{words}: {}", ran.err);
}

#[test]
fn tensors_around_a_nested_dump_forbid_agreement() {
    for nested in ["run/step0/", "run/", "a/b/step1/rank0/"] {
        let place = with_records(nested);
        place.put("t/extra/y.npy", &Value::Tensor(floats(&[1], &[1.0])));
        assert_not_read(&place, "extra/y.npy (1 file)");
        place.put("t/x.npy", &Value::Tensor(floats(&[1], &[1.0])));
        assert_not_read(&place, "x.npy, extra/y.npy (2 files)");
    }
}

#[test]
fn unknown_data_around_a_dump_forbids_agreement() {
    for (nested, beside) in
        [("step0/", "step0/w.h5"), ("step0/", "w.h5"), ("step0/", "extra/w.h5"), ("run/", "extra/w.h5")]
    {
        let place = with_records(nested);
        place.put_text(&format!("t/{beside}"), "\0HDF");
        assert_not_read(&place, &format!("{beside} (1 file)"));
    }
}

#[test]
fn a_second_dump_beside_steps_forbids_agreement() {
    for records in ["dump.json", "debug.json", "journal.jsonl"] {
        let place = with_records("step0/");
        place.put_text(&format!("t/other_run/{records}"), RECORDS);
        assert_not_read(&place, &format!("other_run/{records} (1 file)"));
    }
}

#[test]
fn files_of_an_asynchronous_dump_beside_steps_forbid_agreement() {
    let place = with_records("step0/");
    let name = "3_Functional_relu_forward_input0_shape[1]_stride[1]_offset[0]_format[2].npy";
    place.put(&format!("t/{name}"), &Value::Tensor(floats(&[1], &[1.0])));
    assert_not_read(&place, &format!("{name} (1 file)"));
}

#[test]
fn hidden_folders_are_skipped_and_named() {
    for place in [with_digits(1.0), with_records("step0/"), with_records("run/")] {
        place.put(
            "t/.git/lfs/objects/ab/cd/x.safetensors",
            &dict(&[("x", Value::Tensor(floats(&[1], &[1.0])))]),
        );
        place.put_text("t/.git/index", "DIRC\0");
        let ran = place.run(&["compare", "t", "g"]);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains("hidden folders are skipped: .git (1 folder)"), "{}", ran.err);
    }
}

#[cfg(unix)]
#[test]
fn links_and_pipes_beside_records_forbid_agreement() {
    for folder in ["step0/", ""] {
        let place = with_records("step0/");
        place.put("elsewhere.npy", &Value::Tensor(floats(&[1], &[1.0])));
        let link = format!("{folder}more.npy");
        std::os::unix::fs::symlink(place.path("elsewhere.npy"), place.path("t").join(&link)).unwrap();
        assert_not_read(&place, &format!("{link} (1 file)"));
        fs::remove_file(place.path("t").join(&link)).unwrap();
        let pipe = format!("{folder}pipe");
        let made = std::process::Command::new("mkfifo").arg(place.path("t").join(&pipe)).status().unwrap();
        assert!(made.success());
        assert_not_read(&place, &format!("{pipe} (1 file)"));
    }
}

#[cfg(unix)]
#[test]
fn links_that_are_not_followed_forbid_agreement() {
    let place = with_digits(1.0);
    put_acl(&place, "elsewhere", 3.0);
    std::os::unix::fs::symlink(place.path("elsewhere"), place.path("t/more.1.2.1767261601039759")).unwrap();
    let ran = place.run(&["compare", "t", "g"]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(ran.err.contains("more.1.2.1767261601039759 (1 file)"), "{}", ran.err);
}
