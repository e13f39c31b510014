//! `.npy` compared with files that NumPy wrote (tests/golden/make_npy.py).
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use ulpscope_formats::{Bytes, Tensor, npy};
use ulpscope_tensor::{DType, Encoding, Scalar, View};

const NUMPY_CODES: [(&str, DType); 14] = [
    ("f2", DType::F16),
    ("f4", DType::F32),
    ("f8", DType::F64),
    ("i1", DType::I8),
    ("i2", DType::I16),
    ("i4", DType::I32),
    ("i8", DType::I64),
    ("u1", DType::U8),
    ("u2", DType::U16),
    ("u4", DType::U32),
    ("u8", DType::U64),
    ("b1", DType::Bool),
    ("c8", DType::C64),
    ("c16", DType::C128),
];

fn golden(name: &str) -> Bytes {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/npy");
    std::fs::read(folder.join(format!("{name}.npy"))).unwrap().into()
}

fn read(name: &str) -> Tensor {
    npy::read(&golden(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn written(view: &View<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    npy::write(view, &mut out).unwrap();
    out
}

/// The value that the golden script writes at row-major position `index`.
fn expected(dtype: DType, index: usize) -> Scalar {
    let number = index as i128 - 2;
    match dtype {
        DType::Bool => Scalar::Bool(number != 0),
        DType::C64 | DType::C128 => Scalar::Complex(number as f64, 10.0 * index as f64),
        _ if dtype.is_float() => Scalar::Float(number as f64),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
            Scalar::Int(number.rem_euclid(1 << (8 * dtype.size())))
        }
        _ => Scalar::Int(number),
    }
}

fn assert_holds(name: &str, tensor: &Tensor, dtype: DType, shape: &[usize]) {
    assert_eq!(tensor.dtype(), dtype, "{name}");
    assert_eq!(tensor.shape(), shape, "{name}");
    let view = tensor.view();
    for index in 0..view.len() {
        assert_eq!(view.get(index), expected(dtype, index), "{name}, element {index}");
    }
}

#[test]
fn every_numpy_dtype_in_both_orders_and_both_endiannesses() {
    for (code, dtype) in NUMPY_CODES {
        for suffix in ["", "_fortran", "_big", "_big_fortran"] {
            if suffix.starts_with("_big") && dtype.size() == 1 {
                continue;
            }
            let name = format!("{code}{suffix}");
            let tensor = read(&name);
            assert_holds(&name, &tensor, dtype, &[2, 3]);
            let size = dtype.size() as isize;
            let strides = if suffix.ends_with("fortran") { [size, 2 * size] } else { [3 * size, size] };
            assert_eq!(tensor.strides(), strides, "{name}");
        }
    }
}

#[test]
fn little_endian_elements_are_not_copied() {
    for name in ["f4", "f4_fortran", "c16", "bfloat16", "float8_e4m3fn_named"] {
        let bytes = golden(name);
        let tensor = npy::read(&bytes).unwrap();
        let size = tensor.view().packed_size();
        let data = bytes.slice(bytes.len() - size..bytes.len());
        assert!(tensor.storage().is_same(&data), "{name}");
    }
}

#[test]
fn every_version_and_every_odd_header_that_numpy_opens() {
    let same = [
        "version_1",
        "version_2",
        "version_3",
        "python_2",
        "odd_spacing",
        "nameless_field",
        "full_name",
        "trailing_bytes",
    ];
    for name in same {
        assert_holds(name, &read(name), DType::F32, &[2, 3]);
    }
    assert_holds("scalar", &read("scalar"), DType::F32, &[]);
    assert_holds("empty", &read("empty"), DType::F32, &[0, 3]);
    assert_holds("one_dimension", &read("one_dimension"), DType::F32, &[5]);
    assert_holds("fortran_3d", &read("fortran_3d"), DType::I16, &[2, 3, 4]);
    assert_holds("rank_64", &read("rank_64"), DType::F32, &[1; 64]);
    let flags = read("question_mark");
    assert_eq!([flags.view().get(0), flags.view().get(1)], [Scalar::Bool(true), Scalar::Bool(false)]);
}

#[test]
fn bfloat16_and_the_8_bit_floats() {
    for name in ["bfloat16", "bfloat16_named", "bfloat16_named_big"] {
        assert_holds(name, &read(name), DType::BF16, &[2, 3]);
    }
    assert_holds("float8_e5m2", &read("float8_e5m2"), DType::F8E5M2, &[2, 3]);
    for dtype in DType::ALL.into_iter().filter(|dtype| matches!(dtype.encoding(), Encoding::Float8(_))) {
        let tensor = read(&format!("{dtype}_named"));
        assert_eq!((tensor.dtype(), tensor.shape()), (dtype, [256].as_slice()));
        let codes: Vec<u8> = (0..=255).collect();
        assert_eq!(tensor.view().as_packed().unwrap(), codes, "{dtype}");
    }
    let error = npy::read(&golden("float8_e4m3fn_unnamed")).unwrap_err().to_string();
    assert_eq!(
        error,
        "header key descr: one opaque byte per element, descr '<V1': NumPy writes every 8-bit float and 4-bit \
         integer of ml_dtypes so, and the file does not say which it is; save the tensor as .safetensors or .pt"
    );
}

#[test]
fn writing_what_was_read_gives_numpys_bytes() {
    let mut names: Vec<String> = NUMPY_CODES.iter().map(|(code, _)| code.to_string()).collect();
    names.extend(NUMPY_CODES.iter().map(|(code, _)| format!("{code}_fortran")));
    names.extend(
        DType::ALL
            .into_iter()
            .filter(|dtype| matches!(dtype.encoding(), Encoding::Float8(_)))
            .map(|dtype| format!("{dtype}_named")),
    );
    let others = [
        "version_1",
        "scalar",
        "empty",
        "one_dimension",
        "fortran_3d",
        "rank_64",
        "header_exactly_full",
        "bfloat16",
    ];
    names.extend(others.map(String::from));
    for name in names {
        assert_eq!(written(&read(&name).view()), &golden(&name)[..], "{name}");
    }
}

#[test]
fn any_other_strides_are_packed_on_the_way_out() {
    let whole: Vec<u8> = (0..24i16).flat_map(|index| f32::from(index - 2).to_le_bytes()).collect();
    let view = View::strided(DType::F32, vec![2, 2], vec![48, 12], &whole, 0).unwrap();
    assert_eq!(written(&view), &golden("packed_from_strides")[..]);
}

#[test]
fn a_strided_view_longer_than_one_block_is_written_completely() {
    let count = 700_001;
    let bytes: Vec<u8> = (0..count as u32).flat_map(u32::to_le_bytes).collect();
    let backwards = View::strided(DType::U32, vec![count], vec![-4], &bytes, bytes.len() - 4).unwrap();
    let tensor = npy::read(&written(&backwards).into()).unwrap();
    assert_eq!(tensor.shape(), [count]);
    for index in [0, 1, 262_143, 262_144, 524_288, count - 1] {
        assert_eq!(tensor.view().get(index), Scalar::Int((count - 1 - index) as i128), "element {index}");
    }
}

#[test]
fn every_dtype_is_restored() {
    for dtype in DType::ALL {
        let bytes: Vec<u8> = (0..6 * dtype.size()).map(|byte| byte as u8).collect();
        let view = View::contiguous(dtype, vec![3, 1, 2], &bytes).unwrap();
        let tensor = npy::read(&written(&view).into()).unwrap();
        assert_eq!((tensor.dtype(), tensor.shape()), (dtype, [3, 1, 2].as_slice()));
        assert_eq!(tensor.view().as_packed().unwrap(), bytes, "{dtype}");
    }
}

#[test]
fn more_dimensions_than_numpy_has_are_refused() {
    let view = View::contiguous(DType::U8, vec![1; 65], &[7]).unwrap();
    let error = npy::write(&view, &mut Vec::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a tensor of 65 dimensions does not fit .npy, which has at most 64; reshape it first"
    );
}
