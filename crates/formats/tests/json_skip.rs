//! Skipping a value ends where reading it ends, and fails where reading it fails.
#![allow(clippy::unwrap_used, missing_docs)]

use proptest::prelude::*;
use ulpscope_formats::json::Reader;

/// The end of a value according to a reader of all its events.
fn end_by_events(text: &[u8]) -> Result<usize, String> {
    let mut reader = Reader::new(text);
    loop {
        match reader.skip_event() {
            Ok(true) if reader.depth() == 0 => return Ok(reader.position()),
            Ok(true) => {}
            Ok(false) => return Err("nothing".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn end_by_skipping(text: &[u8]) -> Result<usize, String> {
    let mut reader = Reader::new(text);
    reader.skip_value().map(|()| reader.position()).map_err(|error| error.to_string())
}

#[test]
fn every_kind_of_value_is_skipped() {
    let deep = format!("{}1{}", "[".repeat(900), "]".repeat(900));
    let values = [
        "null",
        "true",
        "false",
        "NaN",
        "Infinity",
        "-Infinity",
        "0",
        "-0",
        "12",
        "-3.5e-7",
        "1E+9",
        "\"\"",
        "\"a\\\"b\\\\\"",
        "\"eight by\\n eight by eight\"",
        "\"é…\"",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "[[],{}]",
        "{\"a\": [1, {\"b\": null}], \"c\": \"]}\"}",
        "[1 , 2\n,\t3]",
        &deep,
    ];
    for value in values {
        for text in [value.to_owned(), format!("  {value} , 1]"), format!("{value}\n}}")] {
            let skipped = end_by_skipping(text.as_bytes());
            assert_eq!(skipped, end_by_events(text.as_bytes()), "{text}");
            assert_eq!(&text[..skipped.unwrap()].trim(), &value);
        }
    }
}

#[test]
fn malformed_values_are_refused_with_the_same_message() {
    let texts = [
        "",
        "  ",
        "]",
        "[1,]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\" 1}",
        "{a: 1}",
        "{\"a\": 1,}",
        "[}",
        "{]",
        "01",
        "1.",
        "1e",
        "-",
        "-x",
        "nul",
        "nope",
        "\"abc",
        "\"ab\tc\"",
        "\"ab\\",
        "[1",
        "{\"a\": [",
        "[\"a\": 1]",
    ];
    for text in texts {
        let skipped = end_by_skipping(text.as_bytes());
        assert!(skipped.is_err(), "{text}: {skipped:?}");
        assert_eq!(skipped, end_by_events(text.as_bytes()), "{text}");
    }
}

proptest! {
    #[test]
    fn any_bytes(text in prop::collection::vec(prop::sample::select(b"[]{},:\"\\ 01-.eENaIn\x1f\xc3a".to_vec()), 0..40)) {
        prop_assert_eq!(end_by_skipping(&text), end_by_events(&text));
    }
}
