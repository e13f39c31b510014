//! One row for each dtype: every name and code leads back to it, and to no other.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashSet;

use ulpscope_tensor::DType;

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
        assert_eq!(dtype.float8_table().is_some(), dtype.is_float() && dtype.size() == 1);
    }
    let names: Vec<_> = DType::ALL.into_iter().filter_map(DType::safetensors_name).collect();
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
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
        let Some(row) = dtype.float8() else { continue };
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
