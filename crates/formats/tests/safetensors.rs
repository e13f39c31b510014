//! `.safetensors` compared with files that its own package wrote (tests/golden/make_npy.py).
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use ulpscope_formats::{Bytes, Tensor, Value, safetensors};
use ulpscope_tensor::{DType, Scalar};

fn golden(name: &str) -> Bytes {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/safetensors");
    std::fs::read(folder.join(format!("{name}.safetensors"))).unwrap().into()
}

fn written(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    safetensors::write(value, &mut out).unwrap();
    out
}

fn text(text: &str) -> Value {
    Value::Str(text.into())
}

fn tensor(dtype: DType, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let bytes: Vec<u8> = (0..count * dtype.size()).map(|byte| byte as u8).collect();
    Tensor::contiguous(dtype, shape.to_vec(), bytes.into()).unwrap()
}

/// The JSON header as text, without the blanks at its end.
fn header(file: &[u8]) -> &str {
    let length = u64::from_le_bytes(*file.first_chunk().unwrap()) as usize;
    assert!(length.is_multiple_of(8), "the elements are aligned");
    str::from_utf8(&file[8..8 + length]).unwrap().trim_end()
}

#[test]
fn every_dtype_is_read_in_place_and_in_file_order() {
    let bytes = golden("every_dtype");
    let value = safetensors::read(&bytes).unwrap();
    let tensors = value.tensors();
    let mut end = bytes.as_ptr() as usize + bytes.len() - 1;
    for (name, tensor) in tensors.iter().rev() {
        let at = tensor.storage().as_ptr() as usize;
        assert!(at <= end && at >= bytes.as_ptr() as usize, "{name} shares the file's bytes, in order");
        end = at;
    }
    for dtype in DType::ALL.into_iter().filter(|dtype| !matches!(dtype, DType::HiF8 | DType::C128)) {
        let (_, tensor) = tensors.iter().find(|(name, _)| name == dtype.name()).unwrap();
        assert_eq!((tensor.dtype(), tensor.shape()), (dtype, [2, 3].as_slice()));
        let expected = match dtype {
            DType::Bool => Scalar::Bool(true),
            DType::C64 => Scalar::Complex(3.0, 50.0),
            // Codes 126 to 131, of which 127 is one.
            DType::F8E8M0 => Scalar::Float(16.0),
            _ if dtype.is_float() => Scalar::Float(3.0),
            _ => Scalar::Int(3),
        };
        assert_eq!(tensor.view().get(5), expected, "{dtype}");
    }
    let shape_of = |wanted: &str| tensors.iter().find(|(name, _)| name == wanted).unwrap().1.shape().to_vec();
    assert!(shape_of("scalar").is_empty());
    assert_eq!(shape_of("empty"), [0, 3]);
    assert_eq!(shape_of("layer.0.\"weight\"\n\u{e9}"), [4]);
}

#[test]
fn writing_what_was_read_gives_the_packages_bytes() {
    for name in ["every_dtype", "no_tensors"] {
        let bytes = golden(name);
        let value = safetensors::read(&bytes).unwrap();
        assert_eq!(safetensors::left_out(&value), [""; 0]);
        assert_eq!(written(&value), &bytes[..], "{name}");
    }
}

#[test]
fn metadata_is_the_first_entry() {
    let Value::Dict(pairs) = safetensors::read(&golden("every_dtype")).unwrap() else {
        panic!("a dictionary")
    };
    assert!(matches!(&pairs[0].0, Value::Str(key) if key == safetensors::METADATA));
    let Value::Dict(entries) = &pairs[0].1 else { panic!("a dictionary of text") };
    assert!(matches!(
        entries.as_slice(),
        [(Value::Str(key), Value::Str(text))] if key == "format" && text == "numpy \"quoted\""
    ));
}

#[test]
fn packed_4_bit_floats_lose_their_tensor_and_not_the_file() {
    let value = safetensors::read(&golden("float4")).unwrap();
    assert_eq!(
        value.unread(),
        [(
            "packed".to_owned(),
            "4-bit floats, two to a byte (dtype \"F4\", shape [8]), are not read; convert them to float16 or \
             float32 first"
        )]
    );
    let tensors = value.tensors();
    assert_eq!(tensors.len(), 1);
    assert_eq!(tensors[0].1.view().get(3), Scalar::Float(1.0));
    assert_eq!(safetensors::left_out(&value), ["packed"]);
}

#[test]
fn a_type_newer_than_this_reader_loses_its_tensor_and_not_the_file() {
    let header = br#"{"n":{"dtype":"F2","shape":[16],"data_offsets":[0,4]},"u":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}}"#;
    let file = [&(header.len() as u64).to_le_bytes(), &header[..], &[1, 2, 3, 4, 5]].concat();
    let value = safetensors::read(&file.into()).unwrap();
    assert_eq!(
        value.unread(),
        [(
            "n".to_owned(),
            "elements of a type this version does not know (dtype \"F2\", shape [16]), are not read; convert \
             them to float16 or float32 first"
        )]
    );
    assert_eq!(value.tensors()[0].1.view().get(0), Scalar::Int(5));
}

#[test]
fn types_without_a_name_are_stored_as_plain_numbers_and_restored() {
    let value = Value::Dict(vec![
        (text("h"), Value::Tensor(tensor(DType::HiF8, &[3]))),
        (text("c"), Value::Tensor(tensor(DType::C128, &[2, 1]))),
        (text("s"), Value::Tensor(tensor(DType::C128, &[]))),
    ]);
    let file = written(&value);
    assert_eq!(
        header(&file),
        r#"{"__metadata__":{"ulpscope.dtype.c":"complex128","ulpscope.dtype.s":"complex128","ulpscope.dtype.h":"hifloat8"},"c":{"dtype":"F64","shape":[2,1,2],"data_offsets":[0,32]},"s":{"dtype":"F64","shape":[2],"data_offsets":[32,48]},"h":{"dtype":"U8","shape":[3],"data_offsets":[48,51]}}"#
    );
    let back = safetensors::read(&file.clone().into()).unwrap();
    let found: Vec<_> = back
        .tensors()
        .iter()
        .map(|(name, tensor)| (name.clone(), tensor.dtype(), tensor.shape().to_vec()))
        .collect();
    assert_eq!(
        found,
        [
            ("c".into(), DType::C128, vec![2, 1]),
            ("s".into(), DType::C128, vec![]),
            ("h".into(), DType::HiF8, vec![3])
        ]
    );
    assert_eq!(back.tensors()[0].1.view().as_packed(), tensor(DType::C128, &[2, 1]).view().as_packed());
    assert_eq!(written(&back), file, "the metadata entries are made anew, not kept twice");
}

#[test]
fn wider_elements_come_first_and_nesting_becomes_dots() {
    let value = Value::Dict(vec![
        (text("epoch"), Value::Int(3)),
        (text("flag"), Value::Tensor(tensor(DType::Bool, &[3]))),
        (
            text("model"),
            Value::List(vec![
                Value::Tensor(tensor(DType::BF16, &[1])),
                Value::Tensor(tensor(DType::I64, &[1])),
            ]),
        ),
    ]);
    assert_eq!(
        header(&written(&value)),
        r#"{"model.1":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"model.0":{"dtype":"BF16","shape":[1],"data_offsets":[8,10]},"flag":{"dtype":"BOOL","shape":[3],"data_offsets":[10,13]}}"#
    );
    assert_eq!(safetensors::left_out(&value), ["epoch"]);
}

#[test]
fn a_single_tensor_gets_a_name_and_strides_are_packed() {
    let bytes: Vec<u8> = (0..6).collect();
    let columns = Tensor::strided(DType::U8, vec![2, 3], vec![1, 2], bytes.into(), 0).unwrap();
    let file = written(&Value::Tensor(columns));
    assert_eq!(header(&file), r#"{"tensor":{"dtype":"U8","shape":[2,3],"data_offsets":[0,6]}}"#);
    assert_eq!(file[file.len() - 6..], [0, 2, 4, 1, 3, 5]);
}

#[test]
fn conflicting_names_are_refused() {
    let one = || Value::Tensor(tensor(DType::U8, &[1]));
    let refused = |value: &Value| safetensors::write(value, &mut Vec::new()).unwrap_err().to_string();
    let twice = Value::Dict(vec![(text("a.b"), one()), (text("a"), Value::Dict(vec![(text("b"), one())]))]);
    assert_eq!(refused(&twice), "tensor \"a.b\": two tensors have this dotted name; rename one");
    assert_eq!(
        refused(&Value::Dict(vec![(text("__metadata__"), one())])),
        "tensor \"__metadata__\": a tensor cannot have this name, which the format keeps for itself; rename it"
    );
}
