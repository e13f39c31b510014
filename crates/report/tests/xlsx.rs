//! Workbooks, read back as a sheet and, where that does not show, as the XML that Excel sees.
#![allow(clippy::unwrap_used)]

use std::io::{Cursor, Read};
use std::path::Path;

use proptest::prelude::*;
use ulpscope_report::sheet::{self, Sheet};
use ulpscope_report::xlsx::{MAX_CELL_CHARACTERS, MAX_SHEET_COLUMNS, SheetNames, XlsxWriter};
use ulpscope_report::{Cell, Emphasis, Row};
use zip::ZipArchive;

fn plain(cells: Vec<Cell>) -> Row {
    Row { cells, emphasis: Emphasis::Plain }
}

fn bytes(writer: XlsxWriter) -> Vec<u8> {
    writer.finish(Cursor::new(Vec::new())).unwrap().into_inner()
}

fn written(columns: &[&str], rows: &[Row]) -> Vec<u8> {
    let mut writer = XlsxWriter::new(columns).unwrap();
    rows.iter().for_each(|row| writer.row(row).unwrap());
    bytes(writer)
}

fn read(bytes: &[u8]) -> Sheet {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sheet.xlsx");
    std::fs::write(&path, bytes).unwrap();
    sheet::read(Path::new(&path)).unwrap()
}

fn part(bytes: &[u8], name: &str) -> String {
    let mut text = String::new();
    let mut archive = ZipArchive::new(Cursor::new(bytes)).unwrap();
    archive.by_name(name).unwrap().read_to_string(&mut text).unwrap();
    text
}

fn sheet_names(bytes: &[u8]) -> Vec<String> {
    let workbook = part(bytes, "xl/workbook.xml");
    let names = workbook.split("<sheet name=\"").skip(1);
    names.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn every_kind_of_cell_comes_back() {
    let columns: Vec<String> = (0..12).map(|index| format!("c{index}")).collect();
    let mut writer = XlsxWriter::new(&columns).unwrap();
    let cells = vec![
        Cell::text("=1+1"),
        Cell::Missing,
        Cell::Int(-3),
        Cell::Int(i128::from(u64::MAX)),
        Cell::Number(0.1 + 0.2),
        Cell::Number(1e-7),
        Cell::Number(f64::NAN),
        Cell::Number(f64::NEG_INFINITY),
        Cell::Share(0.5),
        Cell::Flag(true),
        Cell::sizes(&[2, 8]),
        Cell::Number(1e300),
    ];
    writer.row(&plain(cells)).unwrap();
    let bytes = bytes(writer);
    let sheet = read(&bytes);
    assert_eq!(sheet.columns, columns);
    assert_eq!(
        sheet.rows,
        [[
            "=1+1",
            "",
            "-3",
            "18446744073709551615",
            "0.30000000000000004",
            "1e-07",
            "nan",
            "-inf",
            "0.5",
            "True",
            "[2, 8]",
            "1e+300",
        ]]
    );
    let xml = part(&bytes, "xl/worksheets/sheet1.xml");
    assert!(!xml.contains("<f>"), "{xml}");
    assert!(xml.contains("<c r=\"I2\"><v>0.5</v></c>"), "{xml}");
    assert!(xml.contains("<c r=\"J2\" t=\"b\"><v>1</v></c>"), "{xml}");
}

#[test]
fn the_header_is_bold_and_stays_and_filters() {
    let long = "x".repeat(500);
    let bytes = written(&["name", "max"], &[plain(vec![Cell::text(long), Cell::Number(0.5)])]);
    let xml = part(&bytes, "xl/worksheets/sheet1.xml");
    assert!(
        xml.contains("<pane ySplit=\"1\" topLeftCell=\"A2\" activePane=\"bottomLeft\" state=\"frozen\"/>")
    );
    assert!(xml.contains("<autoFilter ref=\"A1:B2\"/>"), "{xml}");
    assert!(xml.contains("<c r=\"A1\" s=\"1\" t=\"inlineStr\"><is><t>name</t></is></c>"), "{xml}");
    assert!(part(&bytes, "xl/styles.xml").contains("<b/>"));
    let widths: Vec<f64> =
        xml.split(" width=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect();
    assert!(widths[0] > 60.0 && widths[0] < 61.0 && widths[1] > 8.0 && widths[1] < 9.0, "{widths:?}");
}

#[test]
fn whole_rows_are_filled_by_emphasis() {
    let row = |emphasis| Row { cells: vec![Cell::text("a"), Cell::Missing], emphasis };
    let rows = [Emphasis::Plain, Emphasis::Good, Emphasis::Warn, Emphasis::Bad].map(row);
    let bytes = written(&["a", "b"], &rows);
    let xml = part(&bytes, "xl/worksheets/sheet1.xml");
    for (cell, style) in [("A2", ""), ("A3", ""), ("A4", " s=\"2\""), ("A5", " s=\"3\"")] {
        assert!(xml.contains(&format!("<c r=\"{cell}\"{style} t=\"inlineStr\">")), "{cell} {xml}");
    }
    assert!(!xml.contains("\"B3\"") && xml.contains("<c r=\"B4\" s=\"2\"/><"), "{xml}");
    let styles = part(&bytes, "xl/styles.xml");
    let (warn, bad) =
        (styles.find("<fgColor rgb=\"FFFFFF00\"/>"), styles.find("<fgColor rgb=\"FFFF0000\"/>"));
    assert!(warn.unwrap() < bad.unwrap(), "{styles}");
}

#[test]
fn what_does_not_fit_goes_on_in_another_sheet() {
    let row = |index: u32| plain(vec![Cell::Int(index.into())]);
    let bytes_of = |rows: u32| {
        let mut writer = XlsxWriter::with_names(&["n"], SheetNames::default(), 3).unwrap();
        (0..rows).for_each(|index| writer.row(&row(index)).unwrap());
        bytes(writer)
    };
    assert_eq!(sheet_names(&bytes_of(2)), ["Sheet1"]);
    let parts = bytes_of(5);
    assert_eq!(sheet_names(&parts), ["part_0", "part_1", "part_2"]);
    let sheet = read(&parts);
    assert_eq!(sheet.columns, ["n"]);
    assert_eq!(sheet.rows.concat(), ["0", "1", "2", "3", "4"]);
    assert!(part(&parts, "xl/worksheets/sheet3.xml").contains("<autoFilter ref=\"A1:A2\"/>"));

    let names = SheetNames { single: "all".into(), part: "step0_part_".into() };
    let mut writer = XlsxWriter::with_names(&["n"], names, 2).unwrap();
    (0..2).for_each(|index| writer.row(&row(index)).unwrap());
    assert_eq!(sheet_names(&bytes(writer)), ["step0_part_0", "step0_part_1"]);
}

#[test]
fn a_long_text_is_cut_and_says_so() {
    let fits = "é".repeat(MAX_CELL_CHARACTERS);
    // Each of these is two characters to Excel.
    let too_long = "𝕏".repeat(MAX_CELL_CHARACTERS);
    let rows = [plain(vec![Cell::text(&fits)]), plain(vec![Cell::text(&too_long)])];
    let sheet = read(&written(&["a"], &rows));
    assert_eq!(sheet.rows[0][0], fits);
    let cut = &sheet.rows[1][0];
    assert!(cut.ends_with("𝕏 … [cut: 65534 characters]"), "{}", &cut[cut.len() - 60..]);
    let length = cut.encode_utf16().count();
    assert!(length <= MAX_CELL_CHARACTERS && length > MAX_CELL_CHARACTERS - 2, "{length}");
}

#[test]
fn what_excel_cannot_hold_is_refused() {
    let error = |result: std::io::Result<XlsxWriter>| result.err().unwrap().to_string();
    assert_eq!(
        error(XlsxWriter::new(&vec!["c"; MAX_SHEET_COLUMNS + 1])),
        "an Excel sheet has at most 16384 columns, found 16385; write .csv instead"
    );
    assert_eq!(
        error(XlsxWriter::with_names(&["c"], SheetNames::default(), 1_048_577)),
        "an Excel sheet has 2 to 1048576 rows with its header, found 1048577"
    );
    let names = SheetNames { single: "a/b".into(), part: "p".into() };
    let writer = XlsxWriter::with_names(&["c"], names, 2).unwrap();
    assert!(writer.finish(Cursor::new(Vec::new())).is_err());
    let mut writer = XlsxWriter::new(&["a", "b"]).unwrap();
    let error = writer.row(&plain(vec![])).unwrap_err();
    assert_eq!(error.to_string(), "row 0 of a sheet: expected 2 cells, one per column, found 0");
}

#[test]
fn the_same_rows_give_the_same_file() {
    let rows = [plain(vec![Cell::text("a"), Cell::Number(1.5)])];
    let first = written(&["a", "b"], &rows);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(first, written(&["a", "b"], &rows));
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        texts in proptest::collection::vec(("[-='_x005FD\t\r\n&<>\u{1}\u{fffe} é]{0,12}", any::<String>()), 1..6)
    ) {
        let row = |(a, b): &(String, String)| plain(vec![Cell::text(a), Cell::text(b), Cell::text("x")]);
        let rows: Vec<Row> = texts.iter().map(row).collect();
        let expected: Vec<Vec<String>> =
            texts.into_iter().map(|(a, b)| vec![a, b, "x".to_owned()]).collect();
        prop_assert_eq!(read(&written(&["a", "b", "c"], &rows)).rows, expected);
    }
}
