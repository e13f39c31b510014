//! Special values of the 8-bit float tables. `tests/python` compares all 256 codes with torch and the reference
//! tables.

use ulpscope_tensor::{DType, Encoding};

fn value(dtype: DType, code: usize) -> f32 {
    match dtype.encoding() {
        Encoding::Float8(float) => float.table[code],
        other => panic!("{dtype} is no 8-bit float: {other:?}"),
    }
}

#[test]
fn corners_of_every_format() {
    let cases = [
        (DType::F8E4M3FN, 0x7e, 448.0),
        (DType::F8E4M3FN, 0x01, 2f32.powi(-9)),
        (DType::F8E4M3FN, 0x80, -0.0),
        (DType::F8E5M2, 0x7b, 57344.0),
        (DType::F8E5M2, 0xfc, f32::NEG_INFINITY),
        (DType::F8E4M3FNUZ, 0x7f, 240.0),
        (DType::F8E4M3FNUZ, 0xff, -240.0),
        (DType::F8E5M2FNUZ, 0x7f, 57344.0),
        (DType::F8E8M0, 0x00, 2f32.powi(-127)),
        (DType::F8E8M0, 0x7f, 1.0),
        (DType::HiF8, 0x00, 0.0),
        (DType::HiF8, 0x07, 2f32.powi(-16)),
        (DType::HiF8, 0x08, 1.0),
        (DType::HiF8, 0x0f, 1.875),
        (DType::HiF8, 0x6e, 32768.0),
        (DType::HiF8, 0x6f, f32::INFINITY),
        (DType::HiF8, 0xef, f32::NEG_INFINITY),
    ];
    for (dtype, code, expected) in cases {
        let found = value(dtype, code);
        assert_eq!(found.to_bits(), expected.to_bits(), "{dtype} {code:#04x}: {found} is not {expected}");
    }
    for (dtype, code) in [
        (DType::F8E4M3FN, 0x7f),
        (DType::F8E4M3FN, 0xff),
        (DType::F8E5M2, 0x7d),
        (DType::F8E4M3FNUZ, 0x80),
        (DType::F8E5M2FNUZ, 0x80),
        (DType::F8E8M0, 0xff),
        (DType::HiF8, 0x80),
    ] {
        assert!(value(dtype, code).is_nan(), "{dtype} {code:#04x}");
    }
}

#[test]
fn names_round_trip() {
    for dtype in DType::ALL {
        assert_eq!(dtype.name().parse::<DType>(), Ok(dtype));
        assert_eq!(format!("torch.{dtype}").parse::<DType>(), Ok(dtype));
    }
    assert!("float7".parse::<DType>().is_err());
}
