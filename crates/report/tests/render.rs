//! Whole outputs of each renderer for one small report.
#![allow(clippy::unwrap_used)]

use serde_json::json;
use ulpscope_report::{Align, Bars, Cell, Emphasis, Record, Table, Terminal};

fn sample() -> Table {
    let mut table = Table::new("two tensors", &[("name", Align::Left), ("max", Align::Right)]);
    table.push(vec![Cell::text("weight"), Cell::Number(0.1234567)], Emphasis::Good);
    table.push(vec![Cell::text("<b>\u{1b}[31m"), Cell::Number(f64::NAN)], Emphasis::Bad);
    table
}

#[test]
fn plain_text_has_no_escapes_and_no_wrapping() {
    let expected = "\
two tensors
name                max
────────────────────────
weight         0.123457
<b>\\u{1b}[31m       nan
";
    assert_eq!(Terminal::default().render(&sample()), expected);
}

#[test]
fn colour_adds_to_the_text_and_changes_none_of_it() {
    let coloured = Terminal { colour: true, width: None }.render(&sample());
    assert!(coloured.contains("\u{1b}["));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    let trimmed: Vec<&str> = plain.lines().map(str::trim_end).collect();
    assert_eq!(trimmed.join("\n") + "\n", Terminal::default().render(&sample()));
}

#[test]
fn each_emphasis_has_its_colour() {
    for (emphasis, html, ansi) in [
        (Emphasis::Plain, "<tr>", "x"),
        (Emphasis::Good, "<tr style=\"color: green\">", "\u{1b}[38;5;10mx"),
        (Emphasis::Warn, "<tr style=\"color: goldenrod\">", "\u{1b}[38;5;11mx"),
        (Emphasis::Bad, "<tr style=\"color: crimson\">", "\u{1b}[38;5;9mx"),
    ] {
        let mut table = Table::new("", &[("", Align::Left)]);
        table.push(vec![Cell::text("x")], emphasis);
        assert!(table.to_html().contains(&format!("{html}<td")), "{}", table.to_html());
        let text = Terminal { colour: true, width: None }.render(&table);
        assert!(text.starts_with(ansi), "{text:?}");
    }
}

#[test]
fn a_title_cannot_move_the_cursor() {
    let table = Table::new("x.pt:\u{1b}[2J\n", &[("", Align::Left)]);
    assert_eq!(Terminal::default().render(&table), "x.pt:\\u{1b}[2J\\n\n");
}

#[test]
fn a_narrow_terminal_wraps() {
    let text = Terminal { colour: false, width: Some(20) }.render(&sample());
    assert!(text.lines().all(|line| line.chars().count() <= 20), "{text}");
}

#[test]
fn json_is_strict() {
    assert_eq!(
        sample().to_json(),
        json!([{"name": "weight", "max": 0.1234567}, {"name": "<b>\u{1b}[31m", "max": "NaN"}])
    );
    let record = Record::new(vec![
        ("low", Cell::Number(f64::NEG_INFINITY)),
        ("high", Cell::Number(f64::INFINITY)),
        ("whole", Cell::Int(u64::MAX.into())),
        ("wide", Cell::Int(i128::MAX)),
        ("pair", Cell::Complex(1.0, -2.0)),
        ("none", Cell::Missing),
        ("at", Cell::Index { flat: 7, coordinates: vec![1, 2] }),
        ("inner", Cell::Record(Record::new(vec![("shape", Cell::sizes(&[2, 5]))]))),
    ]);
    assert_eq!(
        record.to_json().to_string(),
        r#"{"low":"-Infinity","high":"Infinity","whole":18446744073709551615,"wide":"170141183460469231731687303715884105727","pair":[1.0,-2.0],"none":null,"at":7,"inner":{"shape":[2,5]}}"#
    );
}

#[test]
fn html_is_escaped_and_explains_known_fields() {
    assert_eq!(
        sample().to_html(),
        "<table class=\"ulpscope\"><caption>two tensors</caption><thead><tr>\
         <th style=\"text-align: left\">name</th>\
         <th style=\"text-align: right\" title=\"largest element; NaN if there is any NaN\">max</th>\
         </tr></thead><tbody>\
         <tr style=\"color: green\"><td style=\"text-align: left\">weight</td>\
         <td style=\"text-align: right\">0.123457</td></tr>\
         <tr style=\"color: crimson\"><td style=\"text-align: left\">&lt;b&gt;\\u{1b}[31m</td>\
         <td style=\"text-align: right\">nan</td></tr></tbody></table>"
    );
}

#[test]
fn a_column_of_elements_is_not_explained_as_a_side() {
    let html = Table::new("worst elements", &[("target", Align::Right)]).to_html();
    assert!(html.contains("title=\"the element of the side under suspicion\">target</th>"), "{html}");
    let record = Record::new(vec![("target", Cell::text("float32"))]);
    let html = Table::of_record("", &record).to_html();
    assert!(html.contains("title=\"shape and dtype of the side under suspicion\">target</td>"), "{html}");
}

#[test]
fn records_open_up_into_dotted_rows() {
    let record = Record::new(vec![
        ("equal", Cell::Flag(false)),
        ("non_finite", Cell::Record(Record::new(vec![("mismatched", Cell::count(3))]))),
        ("under_1e3", Cell::Share(0.5)),
        ("worst_index", Cell::Index { flat: 7, coordinates: vec![1, 2] }),
    ]);
    assert_eq!(
        Terminal::default().render(&Table::of_record("", &record)),
        "\
equal                  false
non_finite.mismatched  3
under_1e3              50%
worst_index            [1, 2]
"
    );
}

#[test]
fn bars_are_in_proportion_and_never_hide_a_count() {
    let bars = Bars {
        title: "errors".into(),
        counts: vec![("2^-3".into(), 1000), ("2^-2".into(), 1), ("2^-1".into(), 0)],
    };
    let expected = format!("errors\n2^-3  1000  {}\n2^-2     1  ▇\n2^-1     0\n", "▇".repeat(40));
    assert_eq!(Terminal::default().render(&bars.to_table()), expected);
}
