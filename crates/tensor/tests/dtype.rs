//! One row for each dtype: every name and code leads back to it, and to no other.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashSet;

use ulpscope_tensor::{DType, Encoding, Scalar};

#[test]
fn every_name_and_code_leads_back_to_its_dtype() {
    for (place, dtype) in DType::ALL.into_iter().enumerate() {
        assert_eq!(dtype as usize, place);
        assert_eq!(dtype.name().parse(), Ok(dtype));
        assert_eq!(dtype.printed_name().parse(), Ok(dtype));
        if let Some(code) = dtype.numpy_code() {
            assert_eq!(DType::from_numpy(&code[1..]), Some(dtype));
            assert_eq!(code.starts_with('|'), dtype.size() == 1, "{code}");
        }
        if let Some(class) = dtype.storage_class() {
            assert_eq!(DType::from_storage_class(class), Some(dtype));
        }
        assert_eq!(dtype.is_in_torch(), dtype != DType::HiF8);
    }
    let names: Vec<_> = DType::ALL.into_iter().filter_map(DType::safetensors_name).collect();
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    let types: Vec<_> = DType::ALL.into_iter().filter_map(DType::acl_type).collect();
    let unique = |values: Vec<String>| assert_eq!(values.iter().collect::<HashSet<_>>().len(), types.len());
    unique(types.iter().map(|acl| acl.header.to_string()).collect());
    unique(types.iter().map(|acl| acl.runtime.to_string()).collect());
    unique(types.iter().map(|acl| acl.name.to_owned()).collect());
}

#[test]
fn precision_and_range_are_those_of_the_elements() {
    for dtype in DType::ALL {
        let Some(limits) = dtype.float_limits() else {
            assert!(!dtype.is_float() && !dtype.is_complex(), "{dtype}");
            continue;
        };
        let step = 2f64.powi(-(limits.mantissa_bits as i32));
        if dtype.is_complex() {
            continue;
        }
        let is_exact = |value: f64| Scalar::Float(value).write_exact(dtype, &mut Vec::new());
        for exact in [1.0, 1.0 + step, limits.max, limits.min_positive] {
            assert!(is_exact(exact), "{dtype} {exact:e}");
        }
        assert!(limits.mantissa_bits == 52 || !is_exact(1.0 + step / 2.0), "{dtype}");
        assert!(!is_exact(limits.min_positive / 2.0) || limits.min_positive / 2.0 == 0.0, "{dtype}");
        assert!(!is_exact(limits.max * (1.0 + step)) || limits.mantissa_bits == 52, "{dtype}");
    }
    let [f16, e4m3] = [DType::F16, DType::F8E4M3FN].map(|dtype| dtype.float_limits().unwrap());
    assert_eq!((f16.mantissa_bits, f16.max, f16.min_positive), (10, 65504.0, 2f64.powi(-24)));
    assert_eq!((e4m3.mantissa_bits, e4m3.max, e4m3.min_positive), (3, 448.0, 2f64.powi(-9)));
    let digits = [DType::F64, DType::BF16, DType::I16, DType::U64, DType::Bool, DType::C64, DType::HiF8];
    assert_eq!(digits.map(DType::significant_bits), [53, 8, 16, 64, 1, 24, 4]);
}

#[test]
fn what_is_written_exactly_is_read_back() {
    let values =
        [0.0, -0.0, 1.0, -1.0, 127.0, 255.0, 256.0, 0.5, 448.0, 65504.0, 1e300, f64::NAN, f64::INFINITY];
    for dtype in DType::ALL {
        let mut written = 0;
        for value in values {
            let mut bytes = Vec::new();
            let is_exact = Scalar::Float(value).write_exact(dtype, &mut bytes);
            assert_eq!(bytes.len(), if is_exact { dtype.size() } else { 0 }, "{dtype} {value}");
            if is_exact {
                let back = Scalar::read(dtype, &bytes).to_f64();
                assert!(back == value || back.is_nan() && value.is_nan(), "{dtype} {value} became {back}");
                written += 1;
            }
        }
        assert_eq!(written == 0, dtype.is_complex(), "{dtype}");
    }
    let mut bytes = Vec::new();
    assert!(Scalar::Int(i128::from(i64::MAX)).write_exact(DType::I64, &mut bytes));
    assert_eq!(bytes, i64::MAX.to_le_bytes());
    assert!(!Scalar::Int(i128::from(i64::MAX)).write_exact(DType::F64, &mut bytes));
    assert!(!Scalar::Float(9_223_372_036_854_775_808.0).write_exact(DType::I64, &mut bytes));
    assert!(!Scalar::Int(2).write_exact(DType::Bool, &mut bytes));
}

#[test]
fn dlpack_distinguishes_dtypes_by_kind_and_bits() {
    let known: Vec<(u8, u8, DType)> = (0..=u8::MAX)
        .flat_map(|code| [8, 16, 32, 64, 128].map(|bits| (code, bits)))
        .filter_map(|(code, bits)| Some((code, bits, DType::from_dlpack(code, bits)?)))
        .collect();
    let expected = [
        (0, 8, DType::I8),
        (0, 16, DType::I16),
        (0, 32, DType::I32),
        (0, 64, DType::I64),
        (1, 8, DType::U8),
        (1, 16, DType::U16),
        (1, 32, DType::U32),
        (1, 64, DType::U64),
        (2, 16, DType::F16),
        (2, 32, DType::F32),
        (2, 64, DType::F64),
        (4, 16, DType::BF16),
        (5, 64, DType::C64),
        (5, 128, DType::C128),
        (6, 8, DType::Bool),
        (10, 8, DType::F8E4M3FN),
        (11, 8, DType::F8E4M3FNUZ),
        (12, 8, DType::F8E5M2),
        (13, 8, DType::F8E5M2FNUZ),
        (14, 8, DType::F8E8M0),
    ];
    assert_eq!(known, expected);
}

#[test]
fn an_eight_bit_float_has_its_full_mantissa_from_its_smallest_normal_number_on() {
    for dtype in DType::ALL {
        let Encoding::Float8(row) = dtype.encoding() else { continue };
        let Some(exponent) = row.min_normal_exponent else {
            // Powers of two alone: none of them is subnormal.
            assert_eq!(dtype, DType::F8E8M0);
            continue;
        };
        let normal = 2f32.powi(exponent);
        assert!(row.table.contains(&normal), "{dtype}");
        let below = row.table.iter().filter(|value| **value > 0.0 && **value < normal).count();
        assert!(below > 0, "{dtype}");
    }
}

#[test]
fn short_spellings_are_known_and_others_are_not() {
    assert_eq!("torch.half".parse(), Ok(DType::F16));
    assert_eq!("bool_".parse(), Ok(DType::Bool));
    assert_eq!("float8_e8m0".parse(), Ok(DType::F8E8M0));
    assert!("float9".parse::<DType>().is_err());
}
