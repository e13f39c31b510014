//! Every format of result sheets: written, found by its name, and read back.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::path::Path;

use ulpscope_report::{Cell, Emphasis, Row, SheetFormat, sheet};

fn rows() -> Vec<Row> {
    let row = |cells, emphasis| Row { cells, emphasis };
    vec![
        row(vec![Cell::text("a\tb, \"c\"\nd"), Cell::Exact(0.1), Cell::Int(-3)], Emphasis::Bad),
        row(vec![Cell::text("=run()"), Cell::Missing, Cell::Flag(true)], Emphasis::Plain),
    ]
}

#[test]
fn every_format_is_written_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    for format in SheetFormat::ALL {
        let path = folder.path().join("result").with_extension(format.name());
        let mut writer = format.open(File::create(&path).unwrap(), &["name", "error", "other"]).unwrap();
        rows().iter().for_each(|row| writer.row(row).unwrap());
        writer.finish().unwrap();
        let read = sheet::read(&path).unwrap();
        assert_eq!(read.columns, ["name", "error", "other"], "{format:?}");
        let cells: Vec<Vec<&str>> = read.rows.iter().map(|row| (0..3).map(|at| &row[at]).collect()).collect();
        let expected = [["a\tb, \"c\"\nd", "0.1", "-3"], ["=run()", "", "True"]];
        assert_eq!(cells, expected, "{format:?}");
    }
}

#[test]
fn a_name_promises_its_format() {
    for format in SheetFormat::ALL {
        let path = Path::new("folder").join("result.x").with_extension(format.name());
        assert_eq!(SheetFormat::of_extension(&path), Some(format));
        assert!(SheetFormat::extensions().contains(&format!(".{}", format.name())));
        assert!(!format.about().is_empty(), "{format:?}");
    }
    assert_eq!(SheetFormat::of_extension(Path::new("result.json")), None);
    assert_eq!(SheetFormat::of_extension(Path::new("result")), None);
}

#[test]
fn a_row_of_the_wrong_width_is_refused() {
    for format in SheetFormat::ALL {
        let mut writer = format.open(Vec::new(), &["name"]).unwrap();
        let narrow = Row { cells: Vec::new(), emphasis: Emphasis::Plain };
        let message = writer.row(&narrow).unwrap_err().to_string();
        assert_eq!(message, "row 0 of a sheet: expected 1 cells, one per column, found 0", "{format:?}");
    }
}
