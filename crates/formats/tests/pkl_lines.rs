//! The JSON-lines dumps with the suffix `.pkl`, one small file per variant (tests/golden/pkl_lines).
#![allow(clippy::unwrap_used)]

use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use ulpscope_formats::json::Json;
use ulpscope_formats::pkl_lines::{
    Frame, Kind, Line, LineWriter, Lines, MAX_LINE_BYTES, Payload, Shape, Values, dtype_named, kind,
    tensor_of, to_value,
};
use ulpscope_formats::{Access, Bytes, Value};
use ulpscope_tensor::{DType, Scalar};

const FILES: [(&str, Kind); 7] = [
    ("hooks_sample.pkl", Kind::HooksSample),
    ("hooks_full.pkl", Kind::HooksFull),
    ("hooks_overflow.pkl", Kind::HooksOverflow),
    ("ptdbg4.pkl", Kind::Ptdbg4),
    ("ptdbg4_modules.pkl", Kind::Ptdbg4),
    ("ptdbg6.pkl", Kind::Ptdbg6),
    ("ptdbg6_md5.pkl", Kind::Ptdbg6),
];

fn golden(name: &str) -> Bytes {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/pkl_lines");
    Bytes::map(&folder.join(name), Access::ReadOnly).unwrap()
}

fn lines(name: &str) -> Vec<Line> {
    Lines::new(&golden(name)).map(|line| line.unwrap().1).collect()
}

fn bytes(text: &str) -> Bytes {
    Bytes::from(text.as_bytes().to_vec())
}

#[test]
fn every_variant_is_detected() {
    for (name, expected) in FILES {
        assert_eq!(kind(&golden(name)), Some(expected), "{name}");
    }
}

#[test]
fn no_other_file_is_taken_for_one() {
    // A pickle, a zip, a JSON document, nothing at all.
    for other in
        [&b"\x80\x02]q\x00(K\x01e."[..], b"PK\x03\x04", b"{\"task\": 1}", b"", b"[1, 2]\n", b"[\n 1\n]"]
    {
        assert_eq!(kind(&Bytes::from(other.to_vec())), None, "{other:?}");
    }
}

#[test]
fn thirteen_values_of_thirteen_elements_are_judged_by_their_order() {
    let sample = "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, -1.0, 5.5]";
    let full = "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0]";
    let line =
        |values: &str| format!("[\"0_Torch_relu_forward_output\", {values}, \"torch.float32\", [13]]\n");
    assert_eq!(kind(&bytes(&line(sample))), Some(Kind::HooksSample));
    assert_eq!(kind(&bytes(&line(full))), Some(Kind::HooksFull));
    // A different line is stronger evidence than any order.
    let certain = "[\"1_Torch_relu_forward_output\", [1.0], \"torch.float32\", [1]]\n";
    assert_eq!(kind(&bytes(&(line(sample) + certain))), Some(Kind::HooksFull));
}

#[test]
fn rewriting_gives_the_same_bytes() {
    for (name, _) in FILES {
        let mut out = Vec::new();
        let mut writer = LineWriter::new(&mut out);
        for line in lines(name) {
            assert!(!matches!(line, Line::Other(_)), "{name}: {line:?}");
            writer.line(&line).unwrap();
        }
        writer.finish().unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            String::from_utf8(golden(name).to_vec()).unwrap(),
            "{name}"
        );
    }
}

#[test]
fn the_parts_of_a_ptdbg_line() {
    let lines = lines("ptdbg4.pkl");
    assert_eq!(
        lines[1],
        Line::PtdbgEntry {
            name: "Functional_conv2d_0_forward_input.3.0".to_owned(),
            dump_step: 0,
            payload: Payload::Values(Values::Floats(vec![])),
            dtype: "<class 'int'>".to_owned(),
            shape: Shape::Text("[]".to_owned()),
            stats: vec![Json::Int(1), Json::Int(1), Json::Int(1)],
        }
    );
    assert!(matches!(&lines[8], Line::PtdbgEntry { shape: Shape::Dims(dims), stats, .. }
        if dims == &[2] && stats == &[const { Json::List(vec![]) }; 3]));
    let Line::Stack { name, frames } = &lines[5] else { panic!("{:?}", lines[5]) };
    assert_eq!(name, "Functional_conv2d_0_forward_stack_info");
    assert_eq!(
        frames[0],
        Frame {
            file: "/case/conv.py".to_owned(),
            line: "10".to_owned(),
            function: "conv".to_owned(),
            code: Some("return conv(x)".to_owned()),
        }
    );
    assert_eq!(frames[2].code, None);
}

#[test]
fn six_point_zero_has_digests_and_a_norm() {
    assert!(
        matches!(&lines("ptdbg6_md5.pkl")[0], Line::PtdbgEntry { payload: Payload::Digest(digest), stats, .. }
        if digest == "7cdf25f4" && stats[3] == Json::Float(1.25))
    );
    assert!(matches!(&lines("ptdbg6.pkl")[2], Line::PtdbgEntry { stats, .. }
        if stats[3] == Json::Str("Nan".to_owned())));
}

#[test]
fn early_releases_put_values_into_the_third_element() {
    let text =
        "[\"Functional_relu_0_forward_output\", 0, [1.0, 2.5], \"torch.float32\", [2], [2.5, 1.0, 1.75]]\n";
    let (_, line) = Lines::new(&bytes(text)).next().unwrap().unwrap();
    assert!(matches!(line, Line::PtdbgEntry { payload: Payload::Values(Values::Floats(values)), .. }
        if values == [1.0, 2.5]));
}

#[test]
fn unknown_line_forms_are_kept() {
    for text in [
        "[]\n",
        "[1, 2, 3]\n",
        "[\"name\", [1.0], \"torch.float32\", [-1]]\n",
        "[\"a_stack_info\", [[\"file\", 1]]]\n",
        "[\"a_stack_info\", [\"\"]]\n",
        "[\"name\", 0, [], \"torch.float32\", {\"rank\": 1}, []]\n",
        "[\"name\", 0, \"00000000\", \"torch.float32\", null, []]\n",
        "[\"name\", 0, null, \"torch.float32\", \"[]\", []]\n",
        "[1, [2, [3, [4]]], 5, 6, 7, 8, 9, 10, {\"a\": [true, false]}]\n",
    ] {
        let source = bytes(text);
        let (_, line) = Lines::new(&source).next().unwrap().unwrap();
        assert!(matches!(line, Line::Other(_)), "{line:?}");
        let mut out = Vec::new();
        let mut writer = LineWriter::new(&mut out);
        writer.line(&line).unwrap();
        writer.finish().unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}

#[test]
fn a_bad_line_is_one_error_and_the_next_is_read() {
    let text = "[\"a\", 1]\n\n[\"b\", }\r\n[\"c\", 3]\r\n[\"d\", [1.0, 2.";
    let source = bytes(text);
    let seen: Vec<String> = Lines::new(&source)
        .map(|line| match line {
            Ok((number, line)) => format!("{number} {}", line.name().unwrap()),
            Err(error) => error.to_string(),
        })
        .collect();
    assert_eq!(
        seen,
        [
            "1 a",
            "line 3, byte 16: expected a value, found '}'",
            "4 c",
            "line 5, byte 43: truncated: expected a digit after the decimal point, found the end",
        ]
    );
}

#[test]
fn a_line_over_the_limit_is_refused_and_the_next_is_read() {
    // A sparse file, which uses no disk space.
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(MAX_LINE_BYTES + 1).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b"\n[\"b\", 1]\n").unwrap();
    let source = Bytes::map(file.path(), Access::ReadOnly).unwrap();
    let mut lines = Lines::new(&source);
    let refused = lines.next().unwrap().unwrap_err().to_string();
    assert_eq!(refused, "line 1: a line of 1073741825 exceeds the limit of 1073741824");
    assert_eq!(lines.next().unwrap().unwrap().0, 2);
    assert!(lines.next().is_none());
}

#[test]
fn a_million_brackets_in_a_line_are_one_error() {
    let source = Bytes::from([vec![b'['; 1_000_000], b"\n[\"b\", 1]\n".to_vec()].concat());
    let seen: Vec<_> = Lines::new(&source).collect();
    assert_eq!(seen.len(), 2);
    let refused = seen[0].as_ref().unwrap_err().to_string();
    assert_eq!(refused, "line 1, byte 1024: nested deeper than 1024 levels");
    assert_eq!(seen[1].as_ref().unwrap().1.name(), Some("b"));
}

#[test]
fn tensors_of_a_full_file() {
    let value = to_value(&golden("hooks_full.pkl")).unwrap();
    let tensors = value.tensors();
    assert_eq!(tensors.len(), 14);
    let (name, first) = &tensors[0];
    assert_eq!(name, "0_Functional_linear_forward_input.0");
    assert_eq!((first.dtype(), first.shape()), (DType::F32, &[2, 6][..]));
    let expected: Vec<Scalar> = (0..12).map(|i| Scalar::Float(0.5 * f64::from(i) - 3.0)).collect();
    assert_eq!((0..12).map(|i| first.view().get(i)).collect::<Vec<_>>(), expected);
    // Exact in float16 and bfloat16, so returned in those types.
    assert_eq!((tensors[2].1.dtype(), tensors[2].1.shape()), (DType::F16, &[2, 1][..]));
    assert_eq!(tensors[2].1.view().get(1), Scalar::Float(-2.0));
    assert_eq!(tensors[4].1.dtype(), DType::BF16);
    assert!(matches!(tensors[6].1.view().get(1), Scalar::Float(value) if value.is_nan()));
}

#[test]
fn an_overflow_file_keeps_values_that_are_not_tensors() {
    let value = to_value(&golden("hooks_overflow.pkl")).unwrap();
    let names: Vec<String> = value.tensors().into_iter().map(|(name, _)| name).collect();
    let inputs = ["input.0", "input.1", "input.2", "output"];
    assert_eq!(names, inputs.map(|input| format!("Functional_relu_forward_{input}")));
    assert_eq!(value.tensors()[1].1.dtype(), DType::I64);
    assert_eq!(value.tensors()[2].1.shape(), &[] as &[usize]);
    let Value::Dict(pairs) = &value else { panic!("{value:?}") };
    assert!(matches!(pairs[5].1, Value::Bool(true)));
    assert!(matches!(pairs[6].1, Value::None));
}

#[test]
fn files_without_whole_tensors_say_where_they_are() {
    let message = |name| to_value(&golden(name)).unwrap_err().to_string();
    assert_eq!(
        message("hooks_sample.pkl"),
        "holds samples of tensors, not whole tensors: record it again with sample=False"
    );
    assert_eq!(
        message("ptdbg4.pkl"),
        "holds statistics only: the tensors are in the .npy files of the folder beside it"
    );
    assert_eq!(
        to_value(&bytes("[1]\n")).unwrap_err().to_string(),
        "expected lines of [name, values, dtype, shape], found no line of that form among the first"
    );
}

#[test]
fn one_bad_tensor_does_not_lose_the_others() {
    let text = "[\"0_Torch_a_forward_output\", [1.0, 2.0], \"torch.float32\", [2]]\n\
                [\"1_Torch_b_forward_output\", [1.0, 2.0], \"torch.float32\", [3]]\n\
                [\"2_Torch_c_forward_output\", [1.0], \"torch.float33\", [1]]\n\
                [\"3_Torch_d_forward_output\", [1.0";
    let value = to_value(&bytes(text)).unwrap();
    assert_eq!(value.tensors().len(), 1);
    let unread: Vec<String> =
        value.unread().into_iter().map(|(name, why)| format!("{name}: {why}")).collect();
    assert_eq!(
        unread,
        [
            "1_Torch_b_forward_output: line 2: expected 3 values for the shape [3], found 2",
            "2_Torch_c_forward_output: line 3: expected the name of a torch dtype, found \"torch.float33\"",
            "unreadable line: line 4, byte 217: truncated: expected \",\" or \"]\", found the end",
        ]
    );
}

#[test]
fn the_named_dtype_is_taken_only_when_exact() {
    let dtype = |values: Values, name: &str, shape: &[u64]| tensor_of(&values, name, shape).unwrap().dtype();
    let floats = Values::Floats;
    assert_eq!(dtype(floats(vec![1.0, 0.5]), "torch.float16", &[2]), DType::F16);
    assert_eq!(dtype(floats(vec![0.1f32.into()]), "torch.float16", &[1]), DType::F32);
    assert_eq!(dtype(floats(vec![0.1]), "torch.float16", &[1]), DType::F64);
    assert_eq!(dtype(floats(vec![0.1]), "torch.float64", &[1]), DType::F64);
    assert_eq!(dtype(floats(vec![127.0, -128.0]), "torch.int8", &[2]), DType::I8);
    assert_eq!(dtype(floats(vec![128.0]), "torch.int8", &[1]), DType::F32);
    assert_eq!(dtype(floats(vec![2f64.powi(63)]), "torch.int64", &[1]), DType::F32);
    assert_eq!(dtype(Values::Ints(vec![i64::MAX]), "torch.int64", &[1]), DType::I64);
    assert_eq!(dtype(floats(vec![1.0, 0.0]), "torch.bool", &[2]), DType::Bool);
    assert_eq!(dtype(floats(vec![448.0, f64::NAN]), "torch.float8_e4m3fn", &[2]), DType::F8E4M3FN);
    let tensor = tensor_of(&floats(vec![448.0, -0.0]), "torch.float8_e4m3fn", &[2]).unwrap();
    assert_eq!(tensor.view().get(0), Scalar::Float(448.0));
    assert!(matches!(tensor.view().get(1), Scalar::Float(zero) if zero.is_sign_negative()));
    assert_eq!(
        tensor_of(&Values::Ints(vec![i64::MAX]), "torch.float32", &[1]).unwrap_err().to_string(),
        "expected numbers, found a value that is not a number or not exact in any float type"
    );
    assert_eq!(
        tensor_of(&floats(vec![1.0]), "torch.float32", &[2, 3]).unwrap_err().to_string(),
        "expected 6 values for the shape [2, 3], found 1"
    );
    assert_eq!(
        tensor_of(&floats(vec![1.0]), "torch.float32", &[u64::MAX, 2]).unwrap_err().to_string(),
        "expected a shape that fits an address, found [18446744073709551615, 2]"
    );
}

#[test]
fn dtypes_by_name() {
    assert_eq!(dtype_named("torch.bfloat16"), Some(DType::BF16));
    assert_eq!(dtype_named("<class 'float'>"), None);
    assert_eq!(dtype_named("float32"), None);
}
