//! Workbooks, read back as a sheet and, where that is not enough, as the XML that Excel reads.
#![allow(clippy::unwrap_used)]

use std::io::{self, Cursor, Read, Write};
use std::path::Path;
use std::rc::Rc;

use proptest::prelude::*;
use ulpscope_report::sheet::{self, Sheet, SheetRow};
use ulpscope_report::xlsx::{MAX_CELL_CHARACTERS, MAX_SHEET_COLUMNS, SheetNames, XlsxWriter};
use ulpscope_report::{Cell, Emphasis, Row, escape};
use zip::ZipArchive;

fn plain(cells: Vec<Cell>) -> Row {
    Row { cells, emphasis: Emphasis::Plain }
}

fn written(columns: &[&str], rows: &[Row]) -> Vec<u8> {
    let mut writer = XlsxWriter::new(Vec::new(), columns).unwrap();
    rows.iter().for_each(|row| writer.row(row).unwrap());
    writer.finish().unwrap()
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
    let columns: Vec<String> = (0..13).map(|index| format!("c{index}")).collect();
    let mut writer = XlsxWriter::new(Vec::new(), &columns).unwrap();
    let cells = vec![
        Cell::text("=1+1"),
        Cell::Missing,
        Cell::Int(-3),
        Cell::Int(i128::from(u64::MAX)),
        Cell::Int(i128::MIN),
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
    let bytes = writer.finish().unwrap();
    let sheet = read(&bytes);
    assert_eq!(sheet.columns, columns);
    assert_eq!(
        sheet.rows,
        [[
            "=1+1",
            "",
            "-3",
            "18446744073709551615",
            "-170141183460469231731687303715884105728",
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
    assert!(xml.contains("<c r=\"J2\"><v>0.5</v></c>"), "{xml}");
    assert!(xml.contains("<c r=\"K2\" t=\"b\"><v>1</v></c>"), "{xml}");
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
fn rows_that_do_not_fit_continue_in_another_sheet() {
    let row = |index: u32| plain(vec![Cell::Int(index.into())]);
    let bytes_of = |rows: u32| {
        let mut writer = XlsxWriter::with_names(Vec::new(), &["n"], SheetNames::default(), 3).unwrap();
        (0..rows).for_each(|index| writer.row(&row(index)).unwrap());
        writer.finish().unwrap()
    };
    assert_eq!(sheet_names(&bytes_of(2)), ["Sheet1"]);
    let parts = bytes_of(5);
    assert_eq!(sheet_names(&parts), ["part_0", "part_1", "part_2"]);
    let sheet = read(&parts);
    assert_eq!(sheet.columns, ["n"]);
    assert_eq!(sheet.rows.iter().flat_map(SheetRow::iter).collect::<Vec<_>>(), ["0", "1", "2", "3", "4"]);
    assert!(part(&parts, "xl/worksheets/sheet3.xml").contains("<autoFilter ref=\"A1:A2\"/>"));

    let names = SheetNames { single: "all".into(), part: "step0_part_".into() };
    let mut writer = XlsxWriter::with_names(Vec::new(), &["n"], names, 2).unwrap();
    (0..2).for_each(|index| writer.row(&row(index)).unwrap());
    assert_eq!(sheet_names(&writer.finish().unwrap()), ["step0_part_0", "step0_part_1"]);
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
fn content_beyond_excels_limits_is_refused() {
    let error = |result: io::Result<XlsxWriter<Vec<u8>>>| result.err().unwrap().to_string();
    assert_eq!(
        error(XlsxWriter::new(Vec::new(), &vec!["c"; MAX_SHEET_COLUMNS + 1])),
        "an Excel sheet has at most 16384 columns, found 16385; write .csv instead"
    );
    assert_eq!(
        error(XlsxWriter::with_names(Vec::new(), &["c"], SheetNames::default(), 1_048_577)),
        "an Excel sheet has 2 to 1048576 rows with its header, found 1048577"
    );
    for (single, part) in [
        ("a/b", "p"),
        ("", "p"),
        ("'a", "p"),
        ("a\n", "p"),
        ("a", "[p"),
        ("a", "this name has no room for 999"),
        ("this name has 32 characters, ahem", "p"),
    ] {
        let names = SheetNames { single: single.into(), part: part.into() };
        let message = error(XlsxWriter::with_names(Vec::new(), &["c"], names, 2));
        assert!(message.starts_with("the name of an Excel sheet has 1 to 31 characters"), "{message}");
    }
    let mut writer = XlsxWriter::new(Vec::new(), &["a", "b"]).unwrap();
    let error = writer.row(&plain(vec![])).unwrap_err();
    assert_eq!(error.to_string(), "row 0 of a sheet: expected 2 cells, one per column, found 0");
}

/// A disk that is full after this many bytes, until space is freed.
struct Full {
    room: usize,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.room == 0 {
            self.room = usize::MAX;
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_wherever_it_is_met() {
    // Digits that deflate badly, so that several pieces are written before the end; two sheets.
    let row = |index: u64| {
        let number = f64::from_bits(0x3ff0_0000_0000_0000 | index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 12);
        plain(vec![Cell::Number(number); 8])
    };
    let write = |room: usize| -> io::Result<()> {
        let mut writer = XlsxWriter::with_names(Full { room }, &["c"; 8], SheetNames::default(), 5_000)?;
        if let Err(error) = (0..8_000).try_for_each(|index| writer.row(&row(index))) {
            assert!(writer.finish().is_err(), "a workbook with a hole was finished");
            return Err(error);
        }
        writer.finish().map(drop)
    };
    let size = {
        let mut writer = XlsxWriter::with_names(Vec::new(), &["c"; 8], SheetNames::default(), 5_000).unwrap();
        (0..8_000).for_each(|index| writer.row(&row(index)).unwrap());
        writer.finish().unwrap().len()
    };
    assert!(size > 250_000, "{size}");
    let steps = (0..40).map(|step| step * size / 40);
    for room in steps.chain([1, 29, 30, 100, size - 100, size - 22, size - 1]) {
        let error = write(room).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "room for {room} of {size} bytes");
    }
    write(size).unwrap();
}

/// Counts the bytes written to it.
#[derive(Clone, Default)]
struct Counted(Rc<std::cell::Cell<usize>>);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.set(self.0.get() + bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn rows_are_written_as_they_come() {
    let out = Counted::default();
    let row = |index: u64| {
        // Text that deflates badly.
        let word = |place: u64| format!("{:x}", (index * 1000 + place).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        plain(vec![Cell::text((0..2000).map(word).collect::<String>())])
    };
    let mut writer = XlsxWriter::new(out.clone(), &["a"]).unwrap();
    let written = |writer: &mut XlsxWriter<Counted>, rows: std::ops::Range<u64>| {
        rows.for_each(|index| writer.row(&row(index)).unwrap());
        out.0.get()
    };
    // The first rows wait for each other, but not beyond a megabyte.
    assert_eq!(written(&mut writer, 0..10), 0);
    let after_sample = written(&mut writer, 10..50);
    assert!(after_sample > 300_000, "{after_sample}");
    let later = written(&mut writer, 50..100);
    assert!(later > after_sample + 250_000, "{later}");
    writer.finish().unwrap();
}

#[test]
fn characters_that_xml_does_not_allow_are_escaped_as_in_excel() {
    let texts =
        ["a\n\tc", "_x0041_", "_x0041_x0042_", "_x0041\u{ffff}", "\u{ffff}", " a<&>\"b\" ", "_x41_", "é_"];
    let bytes = written(&["a"], &texts.map(|text| plain(vec![Cell::text(text)])));
    let xml = part(&bytes, "xl/worksheets/sheet1.xml");
    let stored: Vec<&str> = xml.split("<t").skip(2).map(|rest| rest.split_once("</t>").unwrap().0).collect();
    assert_eq!(
        stored,
        [
            ">a\n\tc",
            ">_x005F_x0041_",
            ">_x005F_x0041_x005F_x0042_",
            ">_x005F_x0041_xFFFF_",
            ">_xFFFF_",
            " xml:space=\"preserve\"> a&lt;&amp;&gt;&quot;b&quot; ",
            ">_x41_",
            ">é_",
        ]
    );
    assert_eq!(read(&bytes).rows.iter().flat_map(SheetRow::iter).collect::<Vec<_>>(), texts);
    let all: String = (0..0x100).filter_map(char::from_u32).collect();
    let shown = spelled_out(&all);
    assert_eq!(
        read(&written(&[&all], &[plain(vec![Cell::text(&all)])])),
        Sheet { columns: vec![shown.clone()], rows: vec![vec![shown].into()] }
    );
}

/// The text as sheets escape it.
fn spelled_out(text: &str) -> String {
    let is_spelled = |c: char| escape::is_hidden(c) && !matches!(c, '\n' | '\t');
    text.chars().map(|c| if is_spelled(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

#[test]
fn names_of_sheets_are_quoted() {
    let names = SheetNames { single: "a&\"b\" 'c".into(), part: "p".into() };
    let writer = XlsxWriter::with_names(Vec::new(), &["n"; 28], names, 2).unwrap();
    let workbook = part(&writer.finish().unwrap(), "xl/workbook.xml");
    assert!(
        workbook.contains("<sheet name=\"a&amp;&quot;b&quot; 'c\" sheetId=\"1\" r:id=\"rId1\"/>"),
        "{workbook}"
    );
    assert!(workbook.contains(">'a&amp;&quot;b&quot; ''c'!$A$1:$AB$1</definedName>"), "{workbook}");
}

#[test]
fn a_sheet_without_columns() {
    let bytes = written(&[], &[plain(vec![])]);
    let xml = part(&bytes, "xl/worksheets/sheet1.xml");
    assert!(
        xml.ends_with("<sheetData><row r=\"1\"></row><row r=\"2\"></row></sheetData></worksheet>"),
        "{xml}"
    );
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
    fn written_cells_are_read_back(
        texts in proptest::collection::vec(("([-='_x005FD\t\r\n&<>\u{1}\u{fffe} é]|_x|_x00[04][1A]|_){0,12}", any::<String>()), 1..6)
    ) {
        let row = |(a, b): &(String, String)| plain(vec![Cell::text(a), Cell::text(b), Cell::text("x")]);
        let rows: Vec<Row> = texts.iter().map(row).collect();
        let expected: Vec<Vec<String>> =
            texts.iter().map(|(a, b)| vec![spelled_out(a), spelled_out(b), "x".to_owned()]).collect();
        prop_assert_eq!(read(&written(&["a", "b", "c"], &rows)).rows, expected);
    }
}
