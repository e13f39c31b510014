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
    assert!(ran.out.contains("Conv2D.a_long_name.3.5"), "{}", ran.out);
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
    assert!(ran.err.contains("weights.h5 (1 file)"), "{}", ran.err);
}

#[test]
fn documents_are_a_note() {
    let place = with_digits(1.0);
    place.put_text("t/README.txt", "how this was made");
    place.put_text("t/run.log", "step 1\n");
    let ran = place.run(&["compare", "t", "g"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert!(
        ran.err.contains("not compared, as it holds no tensors: README.txt, run.log (2 files)"),
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
    assert!(ran.err.contains("z.npy, extra/y.npy (2 files)"), "{}", ran.err);
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
