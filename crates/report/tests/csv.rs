//! Whole `.csv` files, byte by byte, compared with what pandas and Python's `csv` module write.
#![allow(clippy::unwrap_used)]

use std::io::{self, Write};

use proptest::prelude::*;
use ulpscope_report::csv::CsvWriter;
use ulpscope_report::{Cell, Emphasis, Record, Row, escape, sheet};

fn written(columns: &[&str], rows: &[Vec<Cell>]) -> String {
    let mut writer = CsvWriter::new(Vec::new(), columns).unwrap();
    for cells in rows {
        writer.row(&Row { cells: cells.clone(), emphasis: Emphasis::Plain }).unwrap();
    }
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

/// The first cell of a sheet. A second one keeps the row from being empty.
fn one(cell: Cell) -> String {
    let text = written(&["a", "b"], &[vec![cell, Cell::text("x")]]);
    text.strip_prefix("a,b\n").unwrap().strip_suffix(",x\n").unwrap().to_owned()
}

#[test]
fn numbers_are_pythons() {
    for (value, text) in [
        (0.1, "0.1"),
        (1.0, "1.0"),
        (1e-7, "1e-07"),
        (1e16, "1e+16"),
        (-0.0, "-0.0"),
        (0.1 + 0.2, "0.30000000000000004"),
        (f64::NAN, "nan"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
    ] {
        assert_eq!(one(Cell::Number(value)), text);
        assert_eq!(one(Cell::Exact(value)), text);
        assert_eq!(one(Cell::Share(value)), text);
    }
    assert_eq!(one(Cell::ExactSingle(0.1)), "0.1");
    assert_eq!(one(Cell::ExactSingle(16_777_216.0)), "16777216.0");
    assert_eq!(one(Cell::Int(i128::MAX)), "170141183460469231731687303715884105727");
}

#[test]
fn other_values_are_pythons_too() {
    assert_eq!(one(Cell::Missing), "");
    assert_eq!(one(Cell::Flag(true)), "True");
    assert_eq!(one(Cell::sizes(&[2, 8, 96])), "\"[2, 8, 96]\"");
    assert_eq!(one(Cell::sizes(&[4])), "[4]");
    assert_eq!(one(Cell::sizes(&[])), "[]");
    assert_eq!(one(Cell::Index { flat: 7, coordinates: vec![1, 2] }), "\"[1, 2]\"");
    assert_eq!(one(Cell::Complex(-1.0, -2.5)), "(-1.0-2.5j)");
    let list = vec![Cell::Number(1.0), Cell::Missing, Cell::Flag(false), Cell::text("it's\n")];
    assert_eq!(one(Cell::List(list)), "\"[1.0, None, False, 'it\\'s\\n']\"");
    assert_eq!(one(Cell::Record(Record::new(vec![("max", Cell::Number(0.5))]))), "\"{\"\"max\"\":0.5}\"");
}

/// What `csv.writer(lineterminator="\n")` of Python writes for each text.
#[test]
fn quotes_are_pythons() {
    for (text, expected) in [
        ("a,b", "\"a,b\""),
        ("a\"b", "\"a\"\"b\""),
        ("a\nb", "\"a\nb\""),
        ("", ""),
        (" a ", " a "),
        ("#a", "#a"),
        ("it's", "it's"),
        ("a;b", "a;b"),
        ("a\tb", "a\tb"),
        ("é中", "é中"),
    ] {
        assert_eq!(one(Cell::text(text)), expected);
    }
    assert_eq!(written(&["a"], &[vec![Cell::text("")], vec![Cell::Missing]]), "a\n\"\"\n\"\"\n");
}

#[test]
fn nothing_runs_in_a_spreadsheet_and_nothing_is_lost() {
    for (text, expected) in [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+x", "'+x"),
        ("-x", "'-x"),
        ("@x", "'@x"),
        ("\tx", "'\tx"),
        ("＝x", "'＝x"),
        ("'=x", "''=x"),
        ("a;=x", "a;'=x"),
        ("a\n=x", "\"a\n'=x\""),
        // The first line is a number, the cell is a formula.
        ("-1\n+x()", "\"'-1\n'+x()\""),
        ("-1+x()", "'-1+x()"),
        // Neither of these runs.
        ("-1.5e-05", "-1.5e-05"),
        ("-inf", "-inf"),
        (" -inf", " -inf"),
        ("+1", "+1"),
        ("-", "-"),
        ("1.5;-2.5", "1.5;-2.5"),
        ("a=b", "a=b"),
        ("'a'", "'a'"),
    ] {
        assert_eq!(one(Cell::text(text)), expected);
    }
    assert_eq!(written(&["=a", "b"], &[]), "'=a,b\n");
}

#[test]
fn a_row_must_fit_the_header() {
    let mut writer = CsvWriter::new(Vec::new(), &["a", "b"]).unwrap();
    let error = writer.row(&Row { cells: vec![Cell::Missing], emphasis: Emphasis::Plain }).unwrap_err();
    assert_eq!(error.to_string(), "row 0 of a sheet: expected 2 cells, one per column, found 1");
    assert_eq!(writer.finish().unwrap(), b"a,b\n");
}

#[test]
fn a_full_disk_is_an_error() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let writer = CsvWriter::new(Full, &["a"]).unwrap();
    assert_eq!(writer.finish().map(|_| ()).unwrap_err().kind(), io::ErrorKind::StorageFull);
}

/// The text as sheets escape it.
fn spelled_out(text: &str) -> String {
    let is_spelled = |c: char| escape::is_hidden(c) && !matches!(c, '\n' | '\t');
    text.chars().map(|c| if is_spelled(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

proptest! {
    #[test]
    fn written_cells_are_read_back(
        texts in proptest::collection::vec(("[-=+@';\t\r\n\"', a1＝é]{0,8}", any::<String>()), 1..8)
    ) {
        let rows: Vec<Vec<Cell>> =
            texts.iter().map(|(a, b)| vec![Cell::text(a), Cell::text(b), Cell::text("x")]).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sheet.csv");
        std::fs::write(&path, written(&["a", "b", "c"], &rows)).unwrap();
        let expected: Vec<Vec<String>> =
            texts.iter().map(|(a, b)| vec![spelled_out(a), spelled_out(b), "x".to_owned()]).collect();
        prop_assert_eq!(sheet::read(&path).unwrap().rows, expected);
    }
}
