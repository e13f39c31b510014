//! `ulpscope explain --region`: the calls among which two programs part.

use serde_json::{Value as Json, json};

use crate::compare::wrong_mul;
use crate::workspace::Workspace;

fn call(name: &str, at: u64, line: &str) -> Json {
    json!({
        "name": name,
        "at": at,
        "module": "Module.block.Block.forward.0",
        "code": line,
        "results": [{ "dtype": "torch.float32", "shape": [2, 3] }],
    })
}

/// A region with calls in another order than they were made.
fn region(first: &str) -> Json {
    json!({
        "target": {
            "computing": [call(first, 7, "port.py:9 forward: x * s"), call("Torch.exp.0.forward", 3, "port.py:7 forward: e")],
            "others": [call("Tensor.view.4.forward", 5, "port.py:8 forward: v")],
        },
        "golden": { "computing": [call("Functional.softmax.0.forward", 2, "model.py:3 forward: s")], "others": [] },
        "partner": "Functional.softmax.0.forward",
        "after": [[call("Torch.add.0.forward", 1, "port.py:5 forward: a"), call("Torch.add.3.forward", 1, "model.py:2 forward: a")]],
        "before": [call("Functional.linear.1.forward", 9, "port.py:11 forward: o"), call("Functional.linear.4.forward", 4, "model.py:5 forward: o")],
    })
}

/// A result with regions at the first of some calls.
fn result(place: &Workspace, firsts: &[&str]) {
    let plain = json!({ "call": "Torch.mul.0.forward", "region": null });
    let found = firsts.iter().map(|first| {
        json!({ "call": first, "golden_call": "Functional.softmax.0.forward", "confidence": 0.5, "error": 0.1,
                "floor": 1e-6, "region": region(first) })
    });
    let divergences: Vec<Json> = std::iter::once(plain).chain(found).collect();
    let ranks = json!([{ "step": 0, "target": "rank0", "golden": "rank0", "divergences": divergences }]);
    let document = json!({ "schema": "ulpscope.compare/1", "explanation": "text\n", "ranks": ranks });
    place.put_text("out/result.json", &document.to_string());
}

#[test]
fn calls_of_both_programs_are_listed_in_execution_order() {
    let place = Workspace::new();
    result(&place, &["Torch.mul.1.forward", "Torch.mul.2.forward"]);
    let ran = place.run(&["explain", "out", "--region", "2"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let module = "Module.block.Block.forward.0";
    let expected = format!(
        "Where:
  after   Torch.add.0.forward (agrees; in the golden: Torch.add.3.forward)
    target  port.py:5 forward: a
    golden  model.py:2 forward: a
  before  Functional.linear.1.forward (differs; in the golden: Functional.linear.4.forward)
    target  port.py:11 forward: o
    golden  model.py:5 forward: o
  step    0
  rank    rank0
Between, in the target (in execution order, * first to look at):
    Torch.exp.0.forward    float32 [2, 3]  {module}  port.py:7 forward: e
  - Tensor.view.4.forward  float32 [2, 3]  {module}  port.py:8 forward: v
  * Torch.mul.2.forward    float32 [2, 3]  {module}  port.py:9 forward: x * s
  - only moves elements, or is computed from no parameter
Between, in the golden (in execution order, * first to look at):
  * Functional.softmax.0.forward  float32 [2, 3]  {module}  model.py:3 forward: s
"
    );
    assert_eq!(ran.out, expected);
    let chinese = place.run(&["explain", "out", "--region", "2", "--lang", "zh"]);
    assert_eq!((chinese.code, chinese.out.lines().count()), (0, ran.out.lines().count()));
    assert!(chinese.out.contains("  * Torch.mul.2.forward    float32 [2, 3]"), "{}", chinese.out);
}

#[test]
fn programs_get_the_same_calls_as_json() {
    let place = Workspace::new();
    result(&place, &["Torch.mul.1.forward"]);
    let ran = place.run(&["explain", "out", "--region", "1", "--json"]);
    let found: Json = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &found["region"], &found["regions"]), (0, &json!(1), &json!(1)));
    let listed = |side: &str| -> Vec<(Json, Json)> {
        let calls = found[side].as_array().unwrap().iter();
        calls.map(|call| (call["name"].clone(), call["role"].clone())).collect()
    };
    assert_eq!(
        listed("target"),
        [
            (json!("Torch.exp.0.forward"), json!("computes")),
            (json!("Tensor.view.4.forward"), json!("other")),
            (json!("Torch.mul.1.forward"), json!("first")),
        ]
    );
    assert_eq!(listed("golden"), [(json!("Functional.softmax.0.forward"), json!("first"))]);
    assert_eq!(
        (&found["call"], &found["step"], &found["error"]),
        (&json!("Torch.mul.1.forward"), &json!(0), &json!(0.1))
    );
}

#[test]
fn a_region_that_is_not_there_is_refused_with_what_is() {
    let place = Workspace::new();
    result(&place, &["Torch.mul.1.forward", "Torch.mul.2.forward"]);
    for (number, told) in [
        ("3", "has 2 regions: expected --region 1 to 2, found --region 3"),
        ("0", "--region must be at least 1"),
        ("first", "expected the number of a region, found \"first\""),
    ] {
        let ran = place.run(&["explain", "out", "--region", number]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert!(ran.err.contains(told), "{}", ran.err);
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    let ran = place.run(&["explain", "out", "--region", "1"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(
        ran.err.contains("has no region: it names single calls, or none; `ulpscope explain out` shows"),
        "{}",
        ran.err
    );
    let ran = place.run(&["explain", "out", "--region", "1", "--json"]);
    assert!(ran.out.contains("\"exit_code\": 2"), "{}", ran.out);
}

#[test]
fn names_in_a_region_cannot_drive_a_terminal() {
    let place = Workspace::new();
    result(&place, &["Torch.\u{1b}[31mmul\n.1.forward"]);
    let ran = place.run(&["explain", "out", "--region", "1"]);
    assert_eq!(ran.code, 0);
    assert!(!ran.out.contains('\u{1b}'), "{:?}", ran.out);
    assert_eq!(ran.out.lines().filter(|line| line.starts_with("  * ")).count(), 2);
}
