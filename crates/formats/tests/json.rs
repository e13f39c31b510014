//! JSON as Python writes it: what the reader returns, what the writer prints, and that both agree.
#![allow(clippy::unwrap_used)]

use std::borrow::Cow;

use proptest::prelude::*;
use ulpscope_formats::json::{self, Event, Json, Layout, MAX_DEPTH, Reader, Writer, python_float_repr};

fn events(text: &str) -> Vec<Event<'_>> {
    let mut reader = Reader::new(text.as_bytes());
    let mut events = Vec::new();
    while let Some(event) = reader.event().unwrap() {
        events.push(event);
    }
    events
}

fn written(value: &Json, layout: Layout) -> String {
    let mut out = Vec::new();
    json::write(value, layout, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn error(text: &[u8]) -> String {
    json::read(text).unwrap_err().to_string()
}

#[test]
fn events_of_a_document() {
    let text = r#" {"a": [1, 1.0, -0.5e-3, true, null], "b": {}, "a": "x"} "#;
    assert_eq!(
        events(text),
        [
            Event::ObjectStart,
            Event::Key("a".into()),
            Event::ListStart,
            Event::Int(1),
            Event::Float(1.0),
            Event::Float(-0.0005),
            Event::Bool(true),
            Event::Null,
            Event::ListEnd,
            Event::Key("b".into()),
            Event::ObjectStart,
            Event::ObjectEnd,
            Event::Key("a".into()),
            Event::Str("x".into()),
            Event::ObjectEnd,
        ]
    );
}

#[test]
fn integers_and_floats_are_distinguished() {
    assert_eq!(events("63"), [Event::Int(63)]);
    assert_eq!(events("63.0"), [Event::Float(63.0)]);
    assert_eq!(events("-0"), [Event::Int(0)]);
    assert!(matches!(events("-0.0")[..], [Event::Float(zero)] if zero == 0.0 && zero.is_sign_negative()));
    assert_eq!(events("123456789012345678"), [Event::Int(123_456_789_012_345_678)]);
    assert_eq!(events("18446744073709551615"), [Event::Int(u64::MAX.into())]);
    assert_eq!(events(&i128::MIN.to_string()), [Event::Int(i128::MIN)]);
    assert_eq!(events(&i128::MAX.to_string()), [Event::Int(i128::MAX)]);
    // One beyond the largest integer is a float.
    assert_eq!(events("170141183460469231731687303715884105728"), [Event::Float(2f64.powi(127))]);
}

#[test]
fn the_bare_words_of_python() {
    let seen = events("[NaN, Infinity, -Infinity]");
    assert!(matches!(seen[1], Event::Float(value) if value.is_nan()));
    assert_eq!(seen[2..4], [Event::Float(f64::INFINITY), Event::Float(f64::NEG_INFINITY)]);
    let value = json::read(b"[NaN,Infinity,-Infinity]").unwrap();
    assert_eq!(written(&value, Layout::OneLine), "[NaN, Infinity, -Infinity]");
}

#[test]
fn text_is_borrowed_unless_it_has_escapes() {
    assert!(matches!(&events("\"plain\u{e9}\"")[..], [Event::Str(Cow::Borrowed("plain\u{e9}"))]));
    assert!(matches!(&events(r#""a\nb""#)[..], [Event::Str(Cow::Owned(text))] if text == "a\nb"));
}

#[test]
fn escapes_are_decoded() {
    let read = |text: &str| json::read(text.as_bytes()).unwrap();
    assert_eq!(read(r#""\"\\\/\b\f\n\r\t\u00e9""#), Json::Str("\"\\/\u{8}\u{c}\n\r\t\u{e9}".to_owned()));
    assert_eq!(read(r#""\ud83d\ude00""#), Json::Str("\u{1f600}".to_owned()));
    // Python writes unpaired surrogates, which are not characters.
    assert_eq!(read(r#""\ud83d""#), Json::Str("\u{fffd}".to_owned()));
    assert_eq!(read(r#""\ud83dx\ude00""#), Json::Str("\u{fffd}x\u{fffd}".to_owned()));
    assert_eq!(read(r#""\ud83d\ud83d\ude00""#), Json::Str("\u{fffd}\u{1f600}".to_owned()));
}

#[test]
fn text_is_written_in_ascii() {
    let text = Json::Str("\"\\/\u{8}\u{c}\n\r\t\u{1}\u{7f}\u{e9}\u{1f600}~".to_owned());
    assert_eq!(written(&text, Layout::OneLine), r#""\"\\/\b\f\n\r\t\u0001\u007f\u00e9\ud83d\ude00~""#);
}

#[test]
fn layouts_are_pythons() {
    let value = json::read(br#"{"a":[1,[],{}, {"b":null}],"c":"d"}"#).unwrap();
    assert_eq!(written(&value, Layout::OneLine), r#"{"a": [1, [], {}, {"b": null}], "c": "d"}"#);
    assert_eq!(
        written(&value, Layout::Indented(1)),
        "{\n \"a\": [\n  1,\n  [],\n  {},\n  {\n   \"b\": null\n  }\n ],\n \"c\": \"d\"\n}"
    );
    assert_eq!(written(&json::read(b"[]").unwrap(), Layout::Indented(1)), "[]");
}

#[test]
fn a_copy_by_events_is_the_copy_by_tree() {
    let text = br#"{"a": [1, 2.5, {"b": "\u00e9"}], "a": null}"#;
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, Layout::OneLine);
    let mut reader = Reader::new(text);
    while let Some(event) = reader.event().unwrap() {
        writer.event(&event).unwrap();
    }
    writer.finish().unwrap();
    assert_eq!(out, text);
    assert_eq!(written(&json::read(text).unwrap(), Layout::OneLine).as_bytes(), text);
}

#[test]
fn the_last_of_two_equal_keys_counts() {
    let value = json::read(br#"{"a": 1, "a": 2}"#).unwrap();
    assert_eq!(value.get("a"), Some(&Json::Int(2)));
    assert!(matches!(&value, Json::Object(pairs) if pairs.len() == 2));
}

/// The output of `repr` in Python 3.11.
const REPR: [(u64, &str); 26] = [
    (0x0000000000000000, "0.0"),
    (0x8000000000000000, "-0.0"),
    (0x3ff0000000000000, "1.0"),
    (0x404f800000000000, "63.0"),
    (0x3fb999999999999a, "0.1"),
    (0x3f1a36e2eb1c432d, "0.0001"),
    (0x3ee4f8b588e368f1, "1e-05"),
    (0x3ee92a737110e454, "1.2e-05"),
    (0x430c6bf526340000, "1000000000000000.0"),
    (0x4341c37937e07fff, "9999999999999998.0"),
    (0x4341c37937e08000, "1e+16"),
    (0x4341c37937e08001, "1.0000000000000002e+16"),
    (0x44b52d02c7e14af6, "1e+23"),
    (0x44b52d02c7e14af7, "1.0000000000000001e+23"),
    (0x0000000000000001, "5e-324"),
    (0x000fffffffffffff, "2.225073858507201e-308"),
    (0x0010000000000000, "2.2250738585072014e-308"),
    (0x7fefffffffffffff, "1.7976931348623157e+308"),
    (0x54b249ad2594c37d, "1e+100"),
    (0x2b2bff2ee48e0530, "1e-100"),
    // Two shortest forms are equally near: the even digit wins. The first is a float32, which is common in dumps.
    (0x402168aa00000000, "8.704421997070312"),
    (0xc30fa36fd398d412, "-1113178120592002.2"),
    (0x42d9636d03665f08, "111659285584252.12"),
    (0x433ffffffffffffe, "9007199254740990.0"),
    (0x4340000000000001, "9007199254740994.0"),
    (0x4020000000000001, "8.000000000000002"),
];

#[test]
fn floats_are_printed_as_python_prints_them() {
    for (bits, text) in REPR {
        assert_eq!(python_float_repr(f64::from_bits(bits)), text, "{bits:#x}");
    }
    assert_eq!(python_float_repr(f64::NAN), "nan");
    assert_eq!(python_float_repr(f64::INFINITY), "inf");
    assert_eq!(python_float_repr(f64::NEG_INFINITY), "-inf");
}

#[test]
fn depth_ends_at_its_cap() {
    let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
    assert!(json::read(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(error(&nested(MAX_DEPTH + 1)), "line 1, byte 1024: nested deeper than 1024 levels");
    // As deep as its size allows: refused at the limit, not at the end.
    assert_eq!(error(&vec![b'['; 1_000_000]), "line 1, byte 1024: nested deeper than 1024 levels");
    assert_eq!(error(&b"{\"a\":".repeat(300_000)), "line 1, byte 5120: nested deeper than 1024 levels");
}

#[test]
fn a_tree_ends_at_the_budget_of_its_text() {
    // A value of 96 bytes, including what is built from it, for two bytes of text.
    let text = [b"[".to_vec(), b"1,".repeat(1 << 20), b"1]".to_vec()].concat();
    assert_eq!(
        error(&text),
        "line 1, byte 1: values of a JSON document need 201326608 bytes of memory; the limit for a file of 2097155 \
         bytes is 100663344 (16 × its size + 64 MiB): store numbers as tensors, or split the file"
    );
    // Text costs little more than its length, however long it is.
    let long = format!("[\"{}\"]", "x".repeat(100 << 20));
    assert!(json::read(long.as_bytes()).is_ok());
    // The reader itself has no such limit.
    let mut reader = Reader::new(&text);
    while reader.skip_event().unwrap() {}
}

#[test]
fn places_are_lines_and_bytes() {
    assert_eq!(error(b"[1,\n 2,\n x]"), "line 3, byte 9: expected a value, found 'x'");
    let mut part = Reader::within(b"[1, y]", 7, 100);
    let message = std::iter::from_fn(|| Some(part.event())).find_map(Result::err).unwrap().to_string();
    assert_eq!(message, "line 7, byte 104: expected a value, found 'y'");
}

#[test]
fn a_writer_that_fails_is_an_error() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("no space left"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let failed = json::write(&Json::Null, Layout::OneLine, &mut Full).unwrap_err();
    assert_eq!(failed.to_string(), "no space left");
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any::<i128>().prop_map(Json::Int),
        any::<f64>().prop_filter("NaN is not equal to itself", |value| !value.is_nan()).prop_map(Json::Float),
        any::<String>().prop_map(Json::Str),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Json::List),
            prop::collection::vec((any::<String>(), inner), 0..8).prop_map(Json::Object),
        ]
    })
}

proptest! {
    #[test]
    fn written_values_are_read_back(value in any_json()) {
        for layout in [Layout::OneLine, Layout::Indented(1), Layout::Indented(4)] {
            let text = written(&value, layout);
            prop_assert_eq!(&json::read(text.as_bytes()).unwrap(), &value);
            prop_assert!(text.is_ascii());
        }
    }

    #[test]
    fn a_printed_float_reads_back_bit_for_bit(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        prop_assume!(!value.is_nan());
        let text = python_float_repr(value);
        prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = json::read(&bytes);
    }
}

#[test]
fn room_can_be_left_for_containers_around_a_value() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for (depth, fits) in [(MAX_DEPTH - 2, true), (MAX_DEPTH - 1, false)] {
        let text = nested(depth);
        assert_eq!(Reader::new(text.as_bytes()).leaving_room(2).skip_value().is_ok(), fits);
        assert_eq!(json::read(format!("[[{text}]]").as_bytes()).is_ok(), fits);
    }
}

#[test]
fn the_end_of_a_value_is_found_without_reading_it() {
    assert_eq!(json::end_of_value(b"7, {\"a\": [\"}\"]} ]", 2), Some(15));
    assert_eq!(json::end_of_value(b"{\"a\": ", 0), None);
    assert_eq!(json::end_of_value(b"", 3), None);
}
