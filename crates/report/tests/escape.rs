//! How each medium shows characters that change how text is shown.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use ulpscope_report::{Align, Cell, Emphasis, Table, Terminal, escape, json};

/// Characters that no output may contain: cursor, colour, direction, no width.
const HIDDEN: [char; 12] = [
    '\u{1b}',
    '\u{7}',
    '\u{9b}',
    '\u{7f}',
    '\u{202e}',
    '\u{2066}',
    '\u{200b}',
    '\u{feff}',
    '\0',
    '\r',
    '\u{2028}',
    '\u{e0041}',
];

fn hostile() -> String {
    HIDDEN.iter().map(|character| format!("{character}x")).collect()
}

#[test]
fn a_terminal_shows_escapes() {
    assert_eq!(
        escape::terminal(&hostile()),
        "\\u{1b}x\\u{7}x\\u{9b}x\\u{7f}x\\u{202e}x\\u{2066}x\\u{200b}x\\u{feff}x\\u{0}x\\rx\\u{2028}x\\u{e0041}x"
    );
    assert_eq!(escape::terminal("a\nb\tc"), "a\\nb\\tc");
    assert_eq!(escape::lines("a\nb\tc"), "a\nb\\tc");
}

#[test]
fn json_reads_back_as_the_same_text() {
    let value = serde_json::json!({ hostile(): [hostile()] });
    for text in [json::line(&value), json::document(&value)] {
        assert!(!text.chars().any(|c| escape::is_hidden(c) && c != '\n'), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
    assert!(json::line(&value).contains("\\udb40\\udc41x"), "a pair of surrogates: {}", json::line(&value));
}

#[test]
fn html_has_neither_marks_nor_tags() {
    let mut table = Table::new(hostile(), &[(&hostile(), Align::Left)]);
    table.push(vec![Cell::Text(format!("<b>{}", hostile()))], Emphasis::Plain);
    let html = table.to_html();
    assert!(!html.contains(escape::is_hidden) && !html.contains("<b>"), "{html:?}");
    assert_eq!(html.matches("\\u{202e}").count(), 3, "title, heading and cell: {html}");
}

#[test]
fn headings_and_titles_are_text_too() {
    let table = Table::new(hostile(), &[(&hostile(), Align::Left)]);
    let text = Terminal::default().render(&table);
    assert!(!text.chars().any(|c| escape::is_hidden(c) && c != '\n'), "{text:?}");
}

#[test]
fn ordinary_text_of_any_language_stays() {
    for text in ["", "model.layers.0", "\\u{1b}", "é中文 العربية עברית हिन्दी", "👍️", "a b"]
    {
        assert_eq!((escape::terminal(text).as_ref(), escape::json(text).as_ref()), (text, text));
    }
}

proptest! {
    #[test]
    fn json_of_any_text_is_the_same_text(text in any::<String>()) {
        let value = serde_json::Value::String(text);
        let written = json::line(&value);
        prop_assert!(!written.contains(escape::is_hidden));
        prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), value);
    }
}
