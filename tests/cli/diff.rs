//! `ulpscope diff`.

use serde_json::json;
use ulpscope_formats::{Tensor, Value};
use ulpscope_report::fields;
use ulpscope_tensor::DType;

use crate::workspace::{Workspace, dict, floats, ints};

fn two(target: &[f32], golden: &[f32]) -> Workspace {
    let place = Workspace::new();
    place.put("target.npy", &Value::Tensor(floats(&[2, target.len() / 2], target)));
    place.put("golden.npy", &Value::Tensor(floats(&[2, golden.len() / 2], golden)));
    place
}

#[test]
fn everything_about_a_pair_that_differs() {
    let place = two(&[1.0, 2.0, 3.0, 4.5], &[1.0, 2.0, 3.0, 4.0]);
    let ran = place.run(&["diff", "target.npy", "golden.npy"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert_eq!(
        ran.out,
        "\
target           float32 [2, 2] target.npy
golden           float32 [2, 2] golden.npy
count            4
finite           4
equal            false
cosine           0.998295
euclid           0.5
rel_l2           0.0912871
rmse             0.25
mape             3.125
max_abs          0.5
mean_abs         0.125
max_rel          0.125
mean_rel         0.03125
accumulated_rel  0.125
kl               0.0029615
under_1e3        75%
under_5e3        75%
max_ulp          1048576
mean_ulp         262144
zero_golden      0
non_finite       none
over_tolerance   1
needed_atol      0.496
needed_rtol      0.12475
worst_index      [1, 1]

errors by power of two
   0  3  ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇
2^-1  1  ▇▇▇▇▇▇▇▇▇▇▇▇▇

first failing elements
index   target  golden  abs    rel
───────────────────────────────────
[1, 1]     4.5       4  0.5  0.125

worst elements
index   target  golden  abs    rel
───────────────────────────────────
[1, 1]     4.5       4  0.5  0.125

differ: 1 of 4 elements are beyond 0.001 + 0.001 * |golden|; it takes --atol 0.496001 or --rtol 0.124751
"
    );
}

#[test]
fn the_tolerance_decides() {
    let place = two(&[1.0, 2.0, 3.0, 4.5], &[1.0, 2.0, 3.0, 4.0]);
    let diff = |flags: &[&str]| {
        let ran = place.run(&[&["diff", "target.npy", "golden.npy"], flags].concat());
        (ran.code, ran.out.lines().last().unwrap().to_owned())
    };
    assert_eq!(
        diff(&["--atol", "0.5", "--rtol", "0"]),
        (0, "agree: all 4 elements are within 0.5 + 0 * |golden|".to_owned())
    );
    assert_eq!(diff(&["--atol", "0.49", "--rtol", "0"]).0, 1);
    assert_eq!(diff(&["--atol", "0", "--rtol", "0.125"]).0, 0);
}

#[test]
fn the_tolerance_that_is_called_enough_is_enough() {
    // An error of 0.1234564 on the way from 0, which six digits round down to 0.123456.
    let place = two(&[0.123_456_4, 0.0], &[0.0, 0.0]);
    let ran = place.run(&["diff", "target.npy", "golden.npy", "--rtol", "0"]);
    let (_, enough) = ran.out.trim_end().split_once("it takes --atol ").unwrap();
    let enough = enough.split(' ').next().unwrap();
    assert_eq!(enough, "0.123457");
    assert_eq!(place.run(&["diff", "target.npy", "golden.npy", "--rtol", "0", "--atol", enough]).code, 0);
}

#[test]
fn equal_bits_are_said_to_be_equal() {
    let place = two(&[1.0, f32::NAN], &[1.0, f32::NAN]);
    let ran = place.run(&["diff", "target.npy", "golden.npy", "--atol", "0", "--rtol", "0"]);
    assert_eq!(ran.code, 0);
    assert_eq!(ran.out.lines().last(), Some("agree: equal bit by bit"));
    assert!(!ran.out.contains("elements"), "{}", ran.out);
}

#[test]
fn a_nan_on_one_side_is_beyond_any_tolerance() {
    let place = two(&[1.0, f32::NAN], &[1.0, 2.0]);
    let ran = place.run(&["diff", "target.npy", "golden.npy", "--atol", "1e30"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("non_finite.target_nan  1\nnon_finite.mismatched  1\n"), "{}", ran.out);
    assert!(ran.out.contains("[1, 0]     nan       2  nan    -\n"), "{}", ran.out);
    assert!(
        ran.out.ends_with("differ: 1 of 2 elements are beyond 1e+30 + 0.001 * |golden|\n"),
        "{}",
        ran.out
    );
}

#[test]
fn other_dtypes_compare_by_value_and_it_is_said() {
    let place = Workspace::new();
    place.put("f.npy", &Value::Tensor(floats(&[2], &[1.0, 2.0])));
    place.put("i.npy", &Value::Tensor(ints(&[2], &[1, 2])));
    let ran = place.run(&["diff", "f.npy", "i.npy"]);
    assert_eq!(ran.code, 0);
    assert!(
        ran.out.ends_with(
            "the dtypes differ: target is float32, golden is int64; compared by value\n\
             agree: all 2 elements are within 0.001 + 0.001 * |golden|\n"
        ),
        "{}",
        ran.out
    );
}

#[test]
fn what_cannot_be_compared_is_neither_agreement_nor_difference() {
    let place = two(&[1.0, 2.0], &[1.0, 2.0, 3.0, 4.0]);
    place.put_text("bad.npy", "junk");
    place.put_text(
        "dump.pkl",
        "[\"Tensor_add_0_forward_input.0\", 0, [], \"torch.float32\", [2], [1, 0, 1]]\n",
    );
    for (golden, message) in [
        ("missing.npy", "error: missing.npy: No such file or directory (os error 2)\n"),
        (".", "error: .: expected a regular file, found a folder\n"),
        ("dump.pkl", "error: dump.pkl: holds records, not tensors\n"),
    ] {
        let ran = place.run(&["diff", "target.npy", golden]);
        assert_eq!((ran.code, ran.err.as_str()), (2, message));
    }
    assert_eq!(place.run(&["diff", "bad.npy", "golden.npy"]).code, 2);
}

#[test]
fn different_shapes_are_a_difference_as_in_compare() {
    let place = two(&[1.0, 2.0], &[1.0, 2.0, 3.0, 4.0]);
    let ran = place.run(&["diff", "target.npy", "golden.npy"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert_eq!(
        ran.out,
        "shapes differ: target has [2, 1], golden has [2, 2]\n\
         differ: 1 tensor has no counterpart, or a different shape\n"
    );
    assert_eq!(place.run(&["compare", "target.npy", "golden.npy"]).code, 1);
}

#[test]
fn tensors_pair_by_name_and_the_worst_comes_first() {
    let place = Workspace::new();
    let lone = |values: &[f32]| Value::Tensor(floats(&[2], values));
    let shared = [("same", lone(&[1.0, 1.0])), ("near", lone(&[1.0, 2.0])), ("far", lone(&[1.0, 2.0]))];
    let mut golden = shared.to_vec();
    golden.push(("only golden", lone(&[0.0, 0.0])));
    let mut target = shared.to_vec();
    target[1].1 = lone(&[1.0, 2.0001]);
    target[2].1 = lone(&[1.0, 3.0]);
    target.insert(0, ("only target", lone(&[0.0, 0.0])));
    place.put("t.pt", &dict(&target));
    place.put("g.safetensors", &dict(&golden));
    let ran = place.run(&["diff", "t.pt", "g.safetensors"]);
    let rows: Vec<Vec<&str>> =
        ran.out.lines().skip(2).take(3).map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(rows, [["far", "differs", "1"], ["near", "agrees", "0"], ["same", "equal", "0"]]);
    assert!(ran.out.contains("\nthe worst pair: far\n"), "{}", ran.out);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let end = "\
t.pt:only target: has no counterpart in g.safetensors
g.safetensors:only golden: has no counterpart in t.pt
differ: 2 tensors have no counterpart, or a different shape
";
    assert!(ran.out.ends_with(end), "{}", ran.out);

    let json = place.run(&["diff", "t.pt", "g.safetensors", "--json"]).json();
    let pairs: Vec<(&str, bool)> = json["pairs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| (pair["name"].as_str().unwrap(), pair["agree"].as_bool().unwrap()))
        .collect();
    assert_eq!(pairs, [("same", true), ("near", true), ("far", false)]);
    assert_eq!(json["agree"], json!(false));
    assert_eq!(json["unpaired"].as_array().unwrap().len(), 2);
    assert_eq!(json["shape_mismatch"], json!([]));
}

#[test]
fn what_could_not_be_read_was_not_compared() {
    let place = Workspace::new();
    place.put("good.npz", &dict(&[("a", Value::Tensor(floats(&[], &[1.0])))]));
    place.put("both.npz", &dict(&["a", "b"].map(|name| (name, Value::Tensor(floats(&[], &[1.0]))))));
    place.put_unread("bad.safetensors", "b", &[("a", 1.0)]);
    let reason = "bad.safetensors:b: 4-bit floats, two to a byte (dtype \"F4\", shape [2]), are not read; \
                  convert them to float16 or float32 first";
    for (target, golden) in [
        ("bad.safetensors", "good.npz"),
        ("good.npz", "bad.safetensors"),
        ("bad.safetensors", "both.npz"),
        ("both.npz", "bad.safetensors"),
    ] {
        let ran = place.run(&["diff", target, golden]);
        assert_eq!((ran.code, ran.err), (2, format!("error: {reason}\n")), "{target} {golden}");
        let json = place.run(&["diff", target, golden, "--json"]).json();
        assert_eq!((&json["agree"], &json["errors"]), (&json!(false), &json!([reason])));
        assert_eq!(json["pairs"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn two_single_tensors_are_paired_whatever_their_names() {
    let place = Workspace::new();
    place.put("a.npy", &Value::Tensor(floats(&[1], &[1.0])));
    place.put("b.safetensors", &dict(&[("weight", Value::Tensor(floats(&[1], &[1.0])))]));
    assert_eq!(place.run(&["diff", "a.npy", "b.safetensors"]).code, 0);
}

#[test]
fn json_has_every_metric_in_order() {
    let place = two(&[1.0, f32::INFINITY, 3.0, 0.5], &[1.0, 2.0, 3.0, 0.0]);
    let ran = place.run(&["diff", "target.npy", "golden.npy", "--json", "-p", "1"]);
    assert_eq!(ran.code, 1);
    let json = ran.json();
    let pair = &json["pairs"][0];
    let names: Vec<&str> = pair.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = vec!["name", "agree"];
    expected.extend(fields::DIFF.map(|(name, _)| name));
    expected.extend(["first_failing", "worst"]);
    assert_eq!(names, expected);
    assert_eq!(pair["target"], json!({"shape": [2, 2], "dtype": "float32"}));
    assert_eq!(pair["worst_index"], json!(1));
    assert_eq!(pair["needed_atol"], json!("Infinity"));
    assert_eq!(pair["exponents"], json!({"zeros": 2, "rows": [[-1, 1]]}));
    assert_eq!(
        pair["worst"],
        json!([{
            "index": 1, "coordinates": [0, 1], "target": "Infinity", "golden": 2.0, "abs": "NaN", "rel": null
        }])
    );
}

#[test]
fn empty_and_scalar_tensors_compare() {
    let place = Workspace::new();
    let empty = Tensor::contiguous(DType::F32, vec![0, 3], Vec::new().into()).unwrap();
    place.put("empty.npy", &Value::Tensor(empty));
    place.put("one.npy", &Value::Tensor(floats(&[], &[1.0])));
    place.put("two.npy", &Value::Tensor(floats(&[], &[2.0])));
    assert_eq!(place.run(&["diff", "empty.npy", "empty.npy"]).code, 0);
    let ran = place.run(&["diff", "two.npy", "one.npy"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("worst_index      []\n"), "{}", ran.out);
}
