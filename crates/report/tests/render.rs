//! Whole outputs of each renderer for one small report.
#![allow(clippy::unwrap_used)]

use serde_json::json;
use ulpscope_report::{Align, Bars, Cell, ColourChoice, Emphasis, Record, Table, Terminal};

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
fn colour_does_not_change_the_text() {
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
fn a_narrow_terminal_cuts_names_in_the_middle() {
    let expected = "\
two tensors
name            max
────────────────────
weight     0.123457
<b>\\…[31m       nan
";
    assert_eq!(Terminal { colour: false, width: Some(20) }.render(&sample()), expected);
}

/// Four tensors in files with long names, as `stats` shows them.
fn four_tensors(zeros: i128) -> Table {
    let numbers = ["max", "min", "mean", "norm", "nan", "pos_inf", "zeros"];
    let mut columns = vec![("name", Align::Left), ("shape", Align::Left), ("dtype", Align::Left)];
    columns.extend(numbers.map(|name| (name, Align::Right)));
    let mut table = Table::new("", &columns);
    for layer in 0..4 {
        let mut cells = vec![
            Cell::Text(format!("dump/step0/rank0/model.layers.{layer}.self_attention.query.weight.npy")),
            Cell::sizes(&[4096, 4096]),
            Cell::text("bfloat16"),
        ];
        cells.extend([0.123456, -0.123456, 0.000123456, 1234.56].map(Cell::Number));
        cells.extend([0, 0, zeros].map(Cell::Int));
        table.push(cells, Emphasis::Plain);
    }
    table
}

#[test]
fn a_table_that_is_too_wide_loses_columns_and_says_which() {
    let expected = "\
name                   shape         dtype          max        min         mean
────────────────────────────────────────────────────────────────────────────────
…l.layers.0.self_att…  [4096, 4096]  bfloat16  0.123456  -0.123456  0.000123456
…l.layers.1.self_att…  [4096, 4096]  bfloat16  0.123456  -0.123456  0.000123456
…l.layers.2.self_att…  [4096, 4096]  bfloat16  0.123456  -0.123456  0.000123456
…l.layers.3.self_att…  [4096, 4096]  bfloat16  0.123456  -0.123456  0.000123456
not shown in 80 characters: norm, zeros; no value above 0: nan, pos_inf; --wide
shows all columns
";
    assert_eq!(Terminal { colour: false, width: Some(80) }.render(&four_tensors(7)), expected);
}

#[test]
fn columns_of_zeros_go_first() {
    let text = Terminal { colour: false, width: Some(100) }.render(&four_tensors(7));
    let head = text.lines().next().unwrap();
    assert!(head.contains("zeros") && !head.contains("nan") && !head.contains("pos_inf"), "{text}");
}

#[test]
fn a_pipe_gets_everything() {
    let text = Terminal::default().render(&four_tensors(0));
    assert_eq!(text.lines().count(), 6);
    assert!(text.contains("pos_inf") && !text.contains('…'), "{text}");
}

#[test]
fn a_long_name_keeps_its_ends_without_a_width() {
    let shown = |name: String| {
        let mut table = Table::new("", &[("name", Align::Left), ("count", Align::Right)]);
        table.push(vec![Cell::Text(name), Cell::Int(1)], Emphasis::Plain);
        let text = Terminal::default().render(&table);
        text.lines().nth(2).unwrap().split_whitespace().next().unwrap().to_owned()
    };
    let fits = "ä".repeat(200);
    assert_eq!(shown(fits.clone()), fits);
    let cut = shown(format!("begin{}end", "ä".repeat(200)));
    assert_eq!(cut.chars().count(), 200);
    assert!(cut.starts_with("begin") && cut.contains('…') && cut.ends_with("end"), "{cut}");
    // The limit is the width, not the number of characters.
    assert_eq!(shown("中".repeat(1000)).chars().count(), 100);
}

#[test]
fn prose_breaks_at_blanks() {
    let terminal = Terminal { colour: false, width: Some(20) };
    assert_eq!(
        terminal.prose("  one two three four a/word/longer/than/a/line five"),
        ["  one two three four", "  a/word/longer/than/a/line", "  five"]
    );
    assert_eq!(Terminal::default().prose("one two three four five six"), ["one two three four five six"]);
}

#[test]
fn colour_is_decided_by_the_flag_then_the_environment_then_the_terminal() {
    let decided = |choice: ColourChoice, is_terminal: bool, set: &[(&str, &str)]| {
        choice.applies(is_terminal, |name| {
            set.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).into())
        })
    };
    let (auto, always, never) = (ColourChoice::Auto, ColourChoice::Always, ColourChoice::Never);
    for (choice, is_terminal, set, expected) in [
        (auto, true, &[][..], true),
        (auto, false, &[], false),
        (always, false, &[("NO_COLOR", "1"), ("TERM", "dumb")], true),
        (never, true, &[("FORCE_COLOR", "1"), ("CLICOLOR_FORCE", "1")], false),
        (auto, true, &[("NO_COLOR", "1"), ("FORCE_COLOR", "1")], false),
        (auto, true, &[("NO_COLOR", "")], true),
        (auto, false, &[("FORCE_COLOR", "1"), ("TERM", "dumb")], true),
        (auto, true, &[("FORCE_COLOR", "0")], false),
        (auto, false, &[("CLICOLOR_FORCE", "1"), ("CLICOLOR", "0")], true),
        (auto, false, &[("CLICOLOR_FORCE", "0")], false),
        (auto, true, &[("CLICOLOR", "0")], false),
        (auto, true, &[("TERM", "dumb")], false),
        (auto, true, &[("TERM", "xterm-256color")], true),
    ] {
        assert_eq!(decided(choice, is_terminal, set), expected, "{choice:?} {is_terminal} {set:?}");
    }
}

#[test]
fn a_line_is_painted_only_where_there_is_colour() {
    let coloured = Terminal { colour: true, width: None };
    assert_eq!(coloured.paint("DIFFER\u{1b}[2J", Emphasis::Bad), "\u{1b}[38;5;9mDIFFER\\u{1b}[2J\u{1b}[0m");
    assert_eq!(coloured.paint("x", Emphasis::Plain), "x");
    assert_eq!(Terminal::default().paint("DIFFER", Emphasis::Bad), "DIFFER");
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
