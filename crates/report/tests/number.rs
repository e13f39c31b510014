//! Numbers as text, compared with what C's `%.6g` and Python's `repr` print.

use ulpscope_report::{format_number, format_number_up, format_ratio, format_shortest, format_shortest_f32};

#[test]
fn rounding_up_is_never_less() {
    for (value, text) in [
        (0.496, "0.496"),
        (0.123_456_4, "0.123457"),
        (0.123_456_6, "0.123457"),
        (0.999_999_1, "1"),
        (1.000_000_1, "1.00001"),
        (1_234_561.5, "1234570"),
        (7.0, "7"),
        (1.234_561e-9, "1.23457e-09"),
        (-0.123_456_6, "-0.123456"),
        (5e-324, "4.94066e-324"),
        (f64::INFINITY, "inf"),
        (f64::NAN, "nan"),
    ] {
        assert_eq!(format_number_up(value), text);
    }
}

#[test]
fn table_numbers() {
    for (value, text) in [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-7.0, "-7"),
        (123_456_789.0, "123456789"),
        (0.1, "0.1"),
        (1.0 / 3.0, "0.333333"),
        (-2.0 / 3.0, "-0.666667"),
        (12345.678, "12345.7"),
        (123_456.7, "123457"),
        (999_999.9, "1e+06"),
        (1_234_567.8, "1.23457e+06"),
        (0.0001, "0.0001"),
        (0.000_012_345_67, "1.23457e-05"),
        (1e15, "1e+15"),
        (-1e300, "-1e+300"),
        (5e-324, "4.94066e-324"),
        (f64::NAN, "nan"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
    ] {
        assert_eq!(format_number(value), text);
    }
}

#[test]
fn shortest_numbers_read_back() {
    for (value, text) in [
        (0.1, "0.1"),
        (1.0, "1"),
        (-0.0, "-0"),
        (100.0, "100"),
        (1e16, "1e+16"),
        (1.5e-5, "1.5e-05"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1_234_567_890.125, "1234567890.125"),
        (f64::NAN, "nan"),
        (f64::NEG_INFINITY, "-inf"),
    ] {
        assert_eq!(format_shortest(value), text);
        assert_eq!(text.parse::<f64>().map(f64::to_bits).ok(), Some(value.to_bits()));
    }
    assert_eq!(format_shortest_f32(0.1), "0.1");
    assert_eq!(format_shortest_f32(16_777_216.0), "16777216");
    assert_eq!(format_shortest_f32(f32::MIN_POSITIVE), "1.1754944e-38");
}

#[test]
fn ratios_have_three_digits_and_grouped_thousands() {
    for (ratio, text) in
        [(21_734.0, "21,700"), (999.0, "999"), (999.9, "1,000"), (1.25, "1.25"), (1.5e12, "1.5e+12")]
    {
        assert_eq!(format_ratio(ratio), text);
    }
}
