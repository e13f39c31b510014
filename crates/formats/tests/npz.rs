//! `.npz` compared with files that NumPy wrote (tests/golden/make_npz.py).
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use ulpscope_formats::{Bytes, Tensor, Value, npz};
use ulpscope_tensor::{DType, Scalar};

fn golden(name: &str) -> Bytes {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/npz");
    std::fs::read(folder.join(name)).unwrap().into()
}

fn is_within(tensor: &Tensor, file: &Bytes) -> bool {
    file.as_ptr_range().contains(&tensor.storage().as_ptr())
}

fn assert_numbers(tensor: &Tensor, dtype: DType, number: impl Fn(usize) -> Scalar) {
    assert_eq!(tensor.dtype(), dtype);
    assert_eq!(tensor.shape(), [2, 3]);
    for index in 0..6 {
        assert_eq!(tensor.view().get(index), number(index), "{dtype}, element {index}");
    }
}

/// Checks the arrays of the golden script, stored or compressed.
fn assert_arrays(value: &Value) {
    let tensors = value.tensors();
    let names: Vec<&str> = tensors.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["f4", "big_endian", "fortran", "folder/bool", "scalar", "empty"]);
    assert_numbers(tensors[0].1, DType::F32, |index| Scalar::Float(index as f64));
    assert_numbers(tensors[1].1, DType::I32, |index| Scalar::Int(index as i128));
    assert_numbers(tensors[2].1, DType::F64, |index| Scalar::Float(index as f64));
    assert_numbers(tensors[3].1, DType::Bool, |index| Scalar::Bool(index % 2 == 0));
    assert_eq!(tensors[4].1.shape(), [0; 0]);
    assert_eq!(tensors[4].1.view().get(0), Scalar::Float(1.5));
    assert_eq!(tensors[5].1.shape(), [0, 3]);
}

#[test]
fn stored_arrays_are_read_in_place() {
    let file = golden("stored.npz");
    let value = npz::read(&file).unwrap();
    assert_arrays(&value);
    for (name, tensor) in value.tensors() {
        // Only swapping needs a copy.
        assert_eq!(is_within(tensor, &file), name != "big_endian", "{name}");
    }
}

#[test]
fn compressed_arrays_are_read() {
    assert_arrays(&npz::read(&golden("compressed.npz")).unwrap());
}

#[test]
fn an_object_array_does_not_lose_the_others() {
    let value = npz::read(&golden("objects.npz")).unwrap();
    assert_eq!(value.tensors().len(), 1);
    let unread = value.unread();
    assert_eq!(unread[0].0, "objects");
    assert!(unread[0].1.starts_with("an object array"), "{}", unread[0].1);
}

#[test]
fn a_damaged_array_does_not_lose_the_others() {
    let tensor = |value: f32| {
        Value::Tensor(Tensor::contiguous(DType::F32, vec![1], value.to_le_bytes().to_vec().into()).unwrap())
    };
    let pairs = vec![(Value::Str("a".to_owned()), tensor(1.0)), (Value::Str("b".to_owned()), tensor(2.0))];
    let mut file = Vec::new();
    npz::write(&Value::Dict(pairs), &mut file).unwrap();
    let magic = file.windows(6).rposition(|window| window == b"\x93NUMPY").unwrap();
    file[magic + 1] = b'n';
    let value = npz::read(&file.into()).unwrap();
    assert_eq!(value.tensors()[0].0, "a");
    let (name, reason) = &value.unread()[0];
    assert_eq!((name.as_str(), reason.starts_with("b.npy: not a .npy file")), ("b", true), "{reason}");
}

#[test]
fn an_archive_may_be_empty() {
    assert!(matches!(npz::read(&golden("nothing.npz")).unwrap(), Value::Dict(pairs) if pairs.is_empty()));
    let mut out = Vec::new();
    npz::write(&Value::Dict(Vec::new()), &mut out).unwrap();
    assert!(matches!(npz::read(&out.into()).unwrap(), Value::Dict(pairs) if pairs.is_empty()));
}

#[test]
fn written_arrays_come_back_aligned_and_in_place() {
    let value = npz::read(&golden("stored.npz")).unwrap();
    let mut out = Vec::new();
    npz::write(&value, &mut out).unwrap();
    let mut again = Vec::new();
    npz::write(&value, &mut again).unwrap();
    assert_eq!(out, again);

    let file = Bytes::from(out);
    let back = npz::read(&file).unwrap();
    assert_arrays(&back);
    for (name, tensor) in back.tensors().into_iter().filter(|(_, tensor)| !tensor.view().is_empty()) {
        assert!(is_within(tensor, &file), "{name}");
        let offset = tensor.storage().as_ptr().addr() - file.as_ptr().addr();
        assert_eq!(offset % 64, 0, "{name}");
    }
}

#[test]
fn values_that_an_npz_cannot_hold_are_refused() {
    let tensor = || Value::Tensor(Tensor::contiguous(DType::U8, vec![1], vec![0].into()).unwrap());
    let text = |text: &str| Value::Str(text.to_owned());
    let cases = [
        (tensor(), "an .npz holds named arrays only: give it a dictionary of tensors"),
        (Value::Dict(vec![(Value::Int(1), tensor())]), "the names of the arrays in an .npz are text"),
        (Value::Dict(vec![(text("a"), Value::None)]), "a: an .npz holds arrays only, not other values"),
        (
            Value::Dict(vec![(text("../a"), tensor())]),
            "\"../a.npy\" leads out of its folder; expected a plain relative name",
        ),
        (Value::Dict(vec![(text("a"), tensor()), (text("a"), tensor())]), "a: two arrays of the same name"),
    ];
    for (value, expected) in cases {
        let error = npz::write(&value, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
