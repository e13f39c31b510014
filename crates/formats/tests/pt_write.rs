//! Writing `.pt`: what is read back, which bytes are written, and what cannot be written.
#![allow(clippy::unwrap_used)]

use std::io::{self, Write};

use proptest::prelude::*;
use ulpscope_formats::{Bytes, Tensor, Value, pt};
use ulpscope_tensor::DType;

fn written(value: &Value) -> Bytes {
    let mut out = Vec::new();
    pt::write(value, &mut out).unwrap();
    out.into()
}

fn back(value: &Value) -> Value {
    pt::read(&written(value)).unwrap()
}

fn ramp(size: usize) -> Bytes {
    (0..size).map(|index| index as u8).collect::<Vec<_>>().into()
}

fn tensor(dtype: DType, shape: &[usize], element_strides: &[isize], bytes: &Bytes, first: usize) -> Tensor {
    let size = dtype.size();
    let strides = element_strides.iter().map(|stride| stride * size as isize).collect();
    Tensor::strided(dtype, shape.to_vec(), strides, bytes.clone(), first * size).unwrap()
}

fn list(tensors: &[Tensor]) -> Value {
    Value::List(tensors.iter().cloned().map(Value::Tensor).collect())
}

#[track_caller]
fn assert_same_elements(found: &Tensor, expected: &Tensor) {
    assert_eq!(found.dtype(), expected.dtype());
    assert_eq!(found.shape(), expected.shape());
    assert_eq!(found.view().to_packed(), expected.view().to_packed());
}

#[test]
fn every_dtype_comes_back() {
    for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::HiF8) {
        let original = tensor(dtype, &[2, 3], &[3, 1], &ramp(6 * dtype.size()), 0);
        let Value::Tensor(found) = back(&Value::Tensor(original.clone())) else { panic!("a tensor") };
        assert_same_elements(&found, &original);
    }
}

#[test]
fn strides_come_back_and_shared_storages_are_written_once() {
    let bytes = ramp(4 * 24);
    let tensors = [
        tensor(DType::F32, &[4, 6], &[6, 1], &bytes, 0),
        tensor(DType::F32, &[6, 4], &[1, 6], &bytes, 0),
        tensor(DType::F32, &[2, 2], &[12, 3], &bytes, 7),
        tensor(DType::F32, &[5, 2], &[0, 1], &bytes, 3),
    ];
    let value = back(&list(&tensors));
    let found = value.tensors();
    for ((_, found), original) in found.iter().zip(&tensors) {
        assert_same_elements(found, original);
        assert_eq!((found.strides(), found.origin()), (original.strides(), original.origin()));
        assert_eq!(found.storage()[..], bytes[..]);
    }
    assert!(found.iter().all(|(_, tensor)| tensor.storage().is_same(found[0].1.storage())));
}

#[test]
fn one_memory_of_two_dtypes_becomes_two_storages() {
    // Torch has one dtype per storage, and would give the second tensor that of the first.
    let bytes = ramp(16);
    let tensors = [tensor(DType::F32, &[4], &[1], &bytes, 0), tensor(DType::I16, &[8], &[1], &bytes, 0)];
    let value = back(&list(&tensors));
    for ((_, found), original) in value.tensors().iter().zip(&tensors) {
        assert_same_elements(found, original);
    }
}

#[test]
fn only_the_bytes_that_are_used_are_written() {
    let bytes = ramp(1 << 10);
    let stored = |original: &Tensor| match back(&Value::Tensor(original.clone())) {
        Value::Tensor(found) => {
            assert_same_elements(&found, original);
            found.storage().len()
        }
        _ => panic!("a tensor"),
    };
    // The rows between: from the first to the last element.
    assert_eq!(stored(&tensor(DType::U8, &[4, 10], &[16, 1], &bytes, 100)), 3 * 16 + 10);
    // A column: packed.
    assert_eq!(stored(&tensor(DType::U8, &[10], &[16], &bytes, 0)), 10);
    // Expanded: once.
    assert_eq!(stored(&tensor(DType::U8, &[100, 3], &[0, 1], &bytes, 5)), 3);
    // Reversed, and misaligned: torch can express neither.
    assert_eq!(stored(&tensor(DType::F32, &[5], &[-1], &bytes, 4)), 20);
    let uneven = Tensor::strided(DType::F32, vec![3], vec![6], bytes.clone(), 1).unwrap();
    assert_eq!(stored(&uneven), 12);
    assert_eq!(stored(&tensor(DType::F64, &[0, 3], &[3, 1], &bytes, 0)), 0);
}

#[test]
fn payloads_are_aligned_and_files_are_the_same_every_time() {
    let tensors: Vec<Tensor> =
        (1..20).map(|count| tensor(DType::U8, &[count], &[1], &ramp(count), 0)).collect();
    let file = written(&list(&tensors));
    assert_eq!(file[..], written(&list(&tensors))[..]);
    for (path, tensor) in pt::read(&file).unwrap().tensors() {
        let offset = tensor.storage().as_ptr().addr() - file.as_ptr().addr();
        assert_eq!(offset % 64, 0, "{path}");
    }
}

#[test]
fn values_that_torch_cannot_hold_are_refused() {
    let entry = |value: Value| Value::Dict(vec![(Value::Str("a".to_owned()), value)]);
    let hif8 = tensor(DType::HiF8, &[1], &[1], &ramp(1), 0);
    let cases = [
        (
            entry(Value::Tensor(hif8.clone())),
            "a: torch has no hifloat8; write .npy or .safetensors, or cast it first",
        ),
        (entry(Value::Unread("a sparse tensor".to_owned())), "a: a sparse tensor cannot be written"),
        (entry(Value::Opaque("a class".to_owned())), "a: a class cannot be written"),
        (
            Value::Dict(vec![(Value::List(Vec::new()), Value::None)]),
            "a dictionary key must be a plain value to be written",
        ),
    ];
    for (value, expected) in cases {
        let error = pt::write(&value, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_failing_disk_is_reported() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("no space left"))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let error = pt::write(&Value::None, &mut Full).unwrap_err();
    assert_eq!(error.to_string(), "no space left");
}

/// Run by hand: needs 9 GiB of memory.
#[test]
#[ignore = "needs 9 GiB of memory"]
fn a_storage_beyond_4_gib_comes_back() {
    let size = (4 << 30) + 5;
    let mut bytes = vec![0; size];
    bytes[size - 1] = 7;
    let bytes = Bytes::from(bytes);
    let tensors = [tensor(DType::U8, &[size], &[1], &bytes, 0), tensor(DType::U8, &[3], &[1], &ramp(3), 0)];
    let value = back(&list(&tensors));
    let found = value.tensors();
    assert_eq!(found[0].1.storage().len(), size);
    assert_eq!(found[0].1.storage()[size - 1], 7);
    // This one's entry begins beyond 4 GiB.
    assert_same_elements(found[1].1, &tensors[1]);
}

fn any_tensor() -> impl Strategy<Value = Tensor> {
    let dtype = prop::sample::select(
        DType::ALL.into_iter().filter(|&dtype| dtype != DType::HiF8).collect::<Vec<_>>(),
    );
    (dtype, prop::collection::vec((0..4usize, -3..7isize), 0..4)).prop_map(|(dtype, dims)| {
        let (shape, strides): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
        tensor(dtype, &shape, &strides, &ramp(100 * dtype.size()), 30)
    })
}

fn any_value() -> impl Strategy<Value = Value> {
    let plain = prop_oneof![
        Just(Value::None),
        any::<bool>().prop_map(Value::Bool),
        any::<i128>().prop_map(Value::Int),
        any::<i32>().prop_map(|number| Value::Int(number.into())),
        any::<f64>().prop_map(Value::Float),
        any::<String>().prop_map(Value::Str),
        any::<Vec<u8>>().prop_map(Value::Bytes),
        any_tensor().prop_map(Value::Tensor),
    ];
    plain.prop_recursive(4, 30, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::List),
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Tuple),
            prop::collection::btree_map(any::<String>(), inner, 0..5).prop_map(|map| {
                Value::Dict(map.into_iter().map(|(key, value)| (Value::Str(key), value)).collect())
            }),
        ]
    })
}

fn same(left: &Value, right: &Value) -> bool {
    let all = |left: &[Value], right: &[Value]| {
        left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
    };
    match (left, right) {
        (Value::Tensor(left), Value::Tensor(right)) => {
            left.dtype() == right.dtype()
                && left.shape() == right.shape()
                && left.view().to_packed() == right.view().to_packed()
        }
        (Value::List(left), Value::List(right)) | (Value::Tuple(left), Value::Tuple(right)) => {
            all(left, right)
        }
        (Value::Dict(left), Value::Dict(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| same(&left.0, &right.0) && same(&left.1, &right.1))
        }
        (Value::Float(left), Value::Float(right)) => left.to_bits() == right.to_bits(),
        (left, right) => format!("{left:?}") == format!("{right:?}"),
    }
}

proptest! {
    #[test]
    fn any_value_comes_back(value in any_value()) {
        let found = back(&value);
        prop_assert!(same(&found, &value), "{found:?}");
    }
}
