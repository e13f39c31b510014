//! `.pt` compared with files that torch wrote (tests/golden/make_pt.py), and written files compared with read ones.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use ulpscope_formats::{Bytes, Tensor, Value, pt};
use ulpscope_tensor::{DType, Scalar};

fn golden(name: &str) -> Bytes {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/pt");
    std::fs::read(folder.join(format!("{name}.pt"))).unwrap().into()
}

fn read(name: &str) -> Value {
    pt::read(&golden(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn written(value: &Value) -> Bytes {
    let mut out = Vec::new();
    pt::write(value, &mut out).unwrap();
    out.into()
}

/// The first `size` bytes of every storage of the golden script.
fn pattern(dtype: DType, size: usize) -> Vec<u8> {
    let modulus = if dtype == DType::Bool { 2 } else { 256 };
    (0..size).map(|index| ((37 * index + 11) % 256 % modulus) as u8).collect()
}

fn is_within(tensor: &Tensor, file: &Bytes) -> bool {
    tensor.storage().is_empty() || file.as_ptr_range().contains(&tensor.storage().as_ptr())
}

fn in_elements(tensor: &Tensor) -> Vec<isize> {
    tensor.strides().iter().map(|stride| stride / tensor.dtype().size() as isize).collect()
}

/// A value as text, with tensors in full: equal text, equal values.
fn shown(value: &Value) -> String {
    match value {
        Value::Tensor(tensor) => {
            format!("{} {:?} {:02x?}", tensor.dtype(), tensor.shape(), tensor.view().to_packed())
        }
        Value::List(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Tuple(items) => format!("({})", items.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Dict(pairs) => {
            let pairs: Vec<_> =
                pairs.iter().map(|(key, value)| format!("{}: {}", shown(key), shown(value))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        plain => format!("{plain:?}"),
    }
}

#[test]
fn every_dtype_is_read() {
    for (name, in_place) in [
        ("every_dtype", true),
        ("every_dtype_legacy", true),
        ("every_dtype_deflated", false),
        ("every_dtype_big_endian", false),
    ] {
        let file = golden(name);
        let value = pt::read(&file).unwrap();
        let tensors = value.tensors();
        let expected: Vec<DType> = DType::ALL.into_iter().filter(|&dtype| dtype != DType::HiF8).collect();
        assert_eq!(tensors.iter().map(|(_, tensor)| tensor.dtype()).collect::<Vec<_>>(), expected, "{name}");
        for (key, tensor) in tensors {
            assert_eq!(key, tensor.dtype().name(), "{name}");
            assert_eq!(tensor.shape(), [2, 3], "{name}.{key}");
            let packed = tensor.view().to_packed().into_owned();
            assert_eq!(packed, pattern(tensor.dtype(), packed.len()), "{name}.{key}");
            if in_place {
                assert!(is_within(tensor, &file), "{name}.{key}");
            }
        }
    }
}

#[test]
fn every_protocol_and_stride_is_read_in_place() {
    for protocol in 2..=5 {
        for form in ["", "_legacy"] {
            let name = format!("strides_protocol_{protocol}{form}");
            let file = golden(&name);
            let value = pt::read(&file).unwrap();
            let tensors = value.tensors();
            let layout: Vec<_> = tensors
                .iter()
                .map(|(key, tensor)| (key.as_str(), tensor.shape(), in_elements(tensor), tensor.origin()))
                .collect();
            let expected: [(&str, &[usize], Vec<isize>, usize); 7] = [
                ("contiguous", &[4, 6], vec![6, 1], 0),
                ("transposed", &[6, 4], vec![1, 6], 0),
                ("rows", &[2, 6], vec![6, 1], 24),
                ("scattered", &[3, 3], vec![18, 3], 76),
                ("expanded", &[2, 3, 4], vec![0, 1, 0], 0),
                ("scalar", &[], vec![], 0),
                ("empty", &[3, 0, 2], vec![2, 2, 1], 0),
            ];
            assert_eq!(layout, expected, "{name}");
            for (key, tensor) in &tensors {
                assert!(is_within(tensor, &file), "{name}.{key}");
                let size = tensor.storage().len();
                assert_eq!(tensor.storage()[..], pattern(DType::F32, size), "{name}.{key}");
            }
            let storage = |index: usize| tensors[index].1.storage();
            assert!(storage(0).is_same(storage(1)) && storage(0).is_same(storage(2)), "{name}");
            assert!(!storage(0).is_same(storage(3)), "{name}");
        }
    }
}

#[test]
fn a_bare_tensor_and_parameters_are_read() {
    let Value::Tensor(bare) = read("bare") else { panic!("a tensor") };
    assert_eq!(bare.view().to_packed()[..], pattern(DType::F32, 24));

    let value = read("parameters");
    let parameters = value.tensors();
    let shapes: Vec<_> = parameters.iter().map(|(_, tensor)| tensor.shape()).collect();
    assert_eq!(shapes, [[4, 6], [3, 6], [4, 6]]);
    assert!(parameters[0].1.storage().is_same(parameters[1].1.storage()));
    assert!(parameters[0].1.storage().is_same(parameters[2].1.storage()));
}

#[test]
fn constructors_of_old_and_of_npu_files_are_known() {
    let file = golden("by_hand_legacy");
    let value = pt::read(&file).unwrap();
    let tensors = value.tensors();
    let bytes = pattern(DType::F32, 32);
    let found: Vec<_> =
        tensors.iter().map(|(key, tensor)| (key.as_str(), tensor.shape(), in_elements(tensor))).collect();
    assert_eq!(
        found,
        [("whole", &[2, 4][..], vec![4, 1]), ("part", &[3], vec![1]), ("npu", &[4, 2], vec![1, 4])]
    );
    assert_eq!(tensors[0].1.view().to_packed()[..], bytes[..]);
    // Element 1 of the part that begins at element 2.
    assert_eq!(tensors[1].1.view().to_packed()[..], bytes[12..24]);
    assert_eq!(tensors[2].1.storage()[..], bytes[..]);
    assert!(tensors.iter().all(|(_, tensor)| is_within(tensor, &file)));
}

#[test]
fn a_state_dict_is_read_in_order() {
    let value = read("state_dict");
    let tensors: Vec<_> =
        value.tensors().iter().map(|(name, tensor)| (name.clone(), tensor.shape().to_vec())).collect();
    let expected: [(&str, &[usize]); 7] = [
        ("0.weight", &[2, 3]),
        ("0.bias", &[2]),
        ("1.weight", &[2]),
        ("1.bias", &[2]),
        ("1.running_mean", &[2]),
        ("1.running_var", &[2]),
        ("1.num_batches_tracked", &[]),
    ];
    assert_eq!(tensors, expected.map(|(name, shape)| (name.to_owned(), shape.to_vec())));
}

#[test]
fn conjugate_and_negative_bits_are_applied() {
    let value = read("flags");
    let flipped = |dtype: DType, is_flipped: fn(usize) -> bool| {
        let mut bytes = pattern(dtype, 6 * dtype.size());
        for (index, number) in bytes.chunks_exact_mut(4).enumerate() {
            number[3] ^= if is_flipped(index) { 0x80 } else { 0 };
        }
        bytes
    };
    let tensors = value.tensors();
    assert_eq!(tensors[0].1.view().to_packed()[..], flipped(DType::C64, |index| index % 2 == 1));
    assert_eq!(tensors[1].1.view().to_packed()[..], flipped(DType::F32, |_| true));
}

#[test]
fn plain_values_are_read() {
    for protocol in [2, 5] {
        let value = read(&format!("plain_protocol_{protocol}"));
        let expected = concat!(
            r#"{Str("ints"): [Int(0), Int(255), Int(256), Int(-1), Int(2147483648), Int(-2147483648), "#,
            r#"Int(9223372036854775808), Int(-1267650600228229401496703205376), "#,
            r#"Int(170141183460469231731687303715884105727)], "#,
            r#"Str("floats"): [Float(0.5), Float(inf), Float(-0.0)], "#,
            r#"Str("words"): (Str(""), Str("é"), Str("漢字"), Bytes([0, 255]), Bytes([114, 97, 119])), "#,
            r#"Str("others"): [None, Bool(true), Bool(false), "#,
            r#"{Int(1): Str("one"), (Int(2), Str("b")): Str("two")}], "#,
            r#"Str("torch"): [(Int(2), Int(3)), Str("torch.bfloat16"), Str("cuda:1")]}"#,
        );
        assert_eq!(shown(&value), expected, "protocol {protocol}");
        assert_eq!(shown(&pt::read(&written(&value)).unwrap()), expected, "written from protocol {protocol}");
    }
}

#[test]
fn numpy_arrays_are_read() {
    for protocol in [2, 5] {
        let Value::Dict(pairs) = read(&format!("numpy_protocol_{protocol}")) else { panic!("a dictionary") };
        let array = |index: usize, dtype: DType| match &pairs[index].1 {
            Value::Tensor(tensor) => {
                assert_eq!((tensor.dtype(), tensor.shape()), (dtype, &[2, 3][..]));
                (0..6).map(|index| tensor.view().get(index)).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(array(0, DType::F32), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0].map(Scalar::Float));
        assert_eq!(array(1, DType::I16), [0, 1, 2, 3, 4, 5].map(Scalar::Int));
        assert_eq!(array(2, DType::F64), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0].map(Scalar::Float));
        assert!(matches!(pairs[3].1, Value::Float(1.5)));
        assert!(matches!(pairs[4].1, Value::Unread(_)));
    }
}

#[test]
fn unknown_objects_do_not_lose_the_rest() {
    for name in ["around_protocol_2", "around_protocol_5", "around_legacy"] {
        let value = read(name);
        let tensors = value.tensors();
        assert_eq!(tensors.len(), 1, "{name}");
        assert_eq!(tensors[0].1.view().to_packed()[..], pattern(DType::F32, 24), "{name}");
        let opaque: Vec<_> =
            value.opaque().into_iter().map(|(path, what)| format!("{path}: {what}")).collect();
        assert_eq!(
            opaque,
            [
                "function: the class or function torch.nn.functional.relu, by name only",
                "complex: complex(1, 2)",
                "slice: slice(1, None, 2)",
            ],
            "{name}"
        );
        assert_eq!(
            value.unread(),
            [
                ("sparse".to_owned(), "a sparse tensor; only dense ones are read"),
                ("quantized".to_owned(), "a quantized tensor; only plain ones are read"),
            ],
            "{name}"
        );
        assert!(shown(&value).contains(r#"Str("set"): [Int(7)]"#), "{name}");
        assert!(shown(&value).contains(r#"Str("__class__"): Str("argparse.Namespace")"#), "{name}");
    }
}

#[test]
fn a_torchscript_program_is_refused() {
    let error = pt::read(&golden("torchscript")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a TorchScript program, not saved tensors; load it with torch.jit.load and torch.save its state_dict()"
    );
}
