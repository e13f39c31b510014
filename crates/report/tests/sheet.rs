//! Reads sheets of other programs: those of the older tools, and invalid ones.
#![allow(clippy::unwrap_used)]

use std::io::{Cursor, Write};

use proptest::prelude::*;
use ulpscope_report::sheet::{self, Sheet, SheetError};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const RELATIONS: &str = r#"<Relationships>
<Relationship Id="rId1" Type="x/worksheet" Target="/xl/worksheets/sheet1.xml"/>
<Relationship Id="rId2" Type="x/sharedStrings" Target="sharedStrings.xml"/>
</Relationships>"#;
const WORKBOOK: &str =
    r#"<workbook><sheets><sheet name="Sheet" sheetId="1" r:id="rId1"/></sheets></workbook>"#;
const SHARED: &str = "<sst><si><t>name</t></si><si><r><t>a</t></r><r><t> &amp;b</t></r>\
                      <rPh sb=\"0\" eb=\"1\"><t>hint</t></rPh></si><si/></sst>";

fn read(bytes: &[u8]) -> Result<Sheet, SheetError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sheet");
    std::fs::write(&path, bytes).unwrap();
    sheet::read(&path)
}

/// The error about a file, after its name.
fn refusal(bytes: &[u8]) -> String {
    let message = read(bytes).unwrap_err().to_string();
    message.split_once("/sheet: ").unwrap().1.to_owned()
}

fn archive(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in parts {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn workbook(rows: &str) -> Vec<u8> {
    let xml = format!("<worksheet><sheetData>{rows}</sheetData></worksheet>");
    archive(&[
        ("xl/workbook.xml", WORKBOOK.as_bytes()),
        ("xl/_rels/workbook.xml.rels", RELATIONS.as_bytes()),
        ("xl/sharedStrings.xml", SHARED.as_bytes()),
        ("xl/worksheets/sheet1.xml", xml.as_bytes()),
    ])
}

#[test]
fn every_kind_of_cell() {
    let sheet = read(&workbook(
        r#"<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>b</t></is></c>
           <c t="str"><v>c</v></c><c r="D1"><v>7</v></c></row>
           <row/><row r="3"><c r="B3"><v>-0.04567486047744751</v></c></row>
           <row><c t="s"><v>1</v></c><c t="b"><v>1</v></c><c><f>1/0</f><v>1E-7</v></c><c t="e"><v>#DIV/0!</v></c></row>
           <row><c t="s"><v>2</v></c><c t="inlineStr"/><c r="C5"><v>-0</v></c>
           <c t="inlineStr"><is><t xml:space="preserve"> _x000D_&#10;_x_<![CDATA[<]]></t></is></c><c r="ZZ5"/></row>"#,
    ));
    let sheet = sheet.unwrap();
    assert_eq!(sheet.columns, ["name", "b", "c", "7"]);
    assert_eq!(
        sheet.rows,
        [
            ["", "-0.04567486047744751", "", ""],
            ["a &b", "True", "1e-07", "#DIV/0!"],
            ["", "", "-0.0", " \r\n_x_<"]
        ]
    );
}

#[test]
fn a_csv_of_any_tool() {
    let sheet = read("\u{feff}a,b\r\n\"x\"\"y\n\",'=z\r\n\r\n,\r\n1.0,\r\n".as_bytes()).unwrap();
    assert_eq!(sheet.columns, ["a", "b"]);
    assert_eq!(sheet.rows, [["x\"y\n", "=z"], ["1.0", ""]]);
}

#[test]
fn an_invalid_csv() {
    assert_eq!(refusal(b""), "the file: expected a header row, found an empty file");
    assert_eq!(refusal(b"a,b\n1\n"), "line 2: expected 2 cells, as in the header, found 1");
    assert_eq!(refusal(b"a,b\n1,2\n1,2,3\n"), "line 3: expected 2 cells, as in the header, found 3");
    assert_eq!(refusal(b"a\n\xff\x1b[2J\n"), "line 2: expected text in UTF-8, found '\u{fffd}\\u{1b}[2J'");
    assert_eq!(
        refusal(",".repeat(20_000).as_bytes()),
        "line 1: expected at most 16384 columns, found 20001; split the sheet"
    );
    assert_eq!(
        refusal(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
        "the file: expected a .csv or .xlsx file, found a .xls workbook; save it as .xlsx"
    );
}

#[test]
fn paths_that_are_not_files() {
    let folder = tempfile::tempdir().unwrap();
    let message = sheet::read(folder.path()).unwrap_err().to_string();
    assert!(message.ends_with("the file: expected a .csv or .xlsx file, found something that is not a file"));
    assert!(matches!(sheet::read(&folder.path().join("none")), Err(SheetError::Io { .. })));
    let path = folder.path().join("huge.csv");
    std::fs::File::create(&path).unwrap().set_len(sheet::MAX_BYTES + 1).unwrap();
    let message = sheet::read(&path).unwrap_err().to_string();
    assert!(message.ends_with("expected at most 1073741824 bytes, found 1073741825; split the sheet"));
}

#[test]
fn an_invalid_workbook() {
    let part = "xl/worksheets/sheet1.xml";
    for (rows, message) in [
        ("", "{part}: expected a header row, found no rows"),
        (
            "<row><c t=\"s\"><v>3</v></c></row>",
            "{part}: row 1, column 1: expected the number of one of 3 shared texts, found '3'",
        ),
        (
            "<row><c r=\"B1\" t=\"s\"><v>-1</v></c></row>",
            "{part}: row 1, column 2: expected the number of one of 3 shared texts, found '-1'",
        ),
        ("<row><c><v>1x</v></c></row>", "{part}: row 1, column 1: expected a number, found '1x'"),
        ("<row><c t=\"b\"><v>2</v></c></row>", "{part}: row 1, column 1: expected 0 or 1, found '2'"),
        (
            "<row><c r=\"XFE1\"><v>1</v></c></row>",
            "{part}: expected a cell such as 'B7', up to column XFD, found 'XFE1'",
        ),
        (
            "<row><c r=\"7\"><v>1</v></c></row>",
            "{part}: expected a cell such as 'B7', up to column XFD, found '7'",
        ),
        (
            "<row><c r=\"B1\"><v>1</v></c><c r=\"A1\"><v>1</v></c></row>",
            "{part}: row 1, column 1: expected cells from left to right, found a cell left of the previous one",
        ),
        (
            "<row><c><v>1</v></c></row><row><c r=\"XFD2\"><v>1</v></c></row>",
            "{part}: row 2: expected 1 cells, as in the header, found 16384",
        ),
        (
            "<row><c t=\"str\"><v>&bomb;</v></c></row>",
            "{part}: expected one of the entities of XML, found '&bomb;'",
        ),
    ] {
        assert_eq!(refusal(&workbook(rows)), message.replace("{part}", part));
    }
    let cut = refusal(&archive(&[
        ("xl/workbook.xml", WORKBOOK.as_bytes()),
        ("xl/_rels/workbook.xml.rels", b"<Relationships>"),
    ]));
    assert_eq!(cut, "xl/_rels/workbook.xml.rels: expected the end of the document, found a file cut short");
    assert!(refusal(b"PK\x03\x04").starts_with("the file: expected a zip archive, found"));
    let missing = refusal(&archive(&[("a", b"")]));
    assert!(
        missing.starts_with(
            "xl/_rels/workbook.xml.rels: expected this part in the archive of a workbook, found"
        )
    );
}

#[test]
fn sheets_of_one_workbook_have_one_header() {
    let relations = r#"<Relationships><Relationship Id="a" Target="a.xml"/>
                       <Relationship Id="b" Target="b.xml"/></Relationships>"#;
    let contents = r#"<workbook><sheets><sheet name="part_0" r:id="a"/><sheet name="part_1" r:id="b"/></sheets></workbook>"#;
    let page = |header: &str| {
        format!(
            "<worksheet><row><c t=\"str\"><v>{header}</v></c></row><row><c><v>1</v></c></row></worksheet>"
        )
    };
    let both = |second: &str| {
        archive(&[
            ("xl/_rels/workbook.xml.rels", relations.as_bytes()),
            ("xl/workbook.xml", contents.as_bytes()),
            ("xl/a.xml", page("x").as_bytes()),
            ("xl/b.xml", page(second).as_bytes()),
        ])
    };
    assert_eq!(read(&both("x")).unwrap().rows, [["1"], ["1"]]);
    assert_eq!(
        refusal(&both("y")),
        "xl/b.xml: row 1: expected the columns of the first sheet, 'x' among them, found 'y'"
    );
}

/// Overwrites every statement of a size in the archive.
fn restate(bytes: &mut [u8], size: usize, claim: u32) {
    let size = (size as u32).to_le_bytes();
    let places: Vec<usize> = (0..bytes.len() - 4).filter(|&place| bytes[place..place + 4] == size).collect();
    assert_eq!(places.len(), 2, "once before the part and once in the directory");
    for place in places {
        bytes[place..place + 4].copy_from_slice(&claim.to_le_bytes());
    }
}

#[test]
fn bombs() {
    let blanks = [b"<Relationships>".as_slice(), &vec![b' '; 1 << 26]].concat();
    let mut bytes = archive(&[("xl/_rels/workbook.xml.rels", &blanks)]);
    assert!(bytes.len() < 1 << 20);
    let found = "xl/_rels/workbook.xml.rels: expected XML, found 'I/O error:";
    let message = refusal(&bytes);
    assert!(message.starts_with(&format!("{found} more than 16777216 bytes without a tag'")), "{message}");
    restate(&mut bytes, blanks.len(), 1000);
    let message = refusal(&bytes);
    assert!(message.starts_with(&format!("{found} File is larger than its declared")), "{message}");
}

#[test]
fn parts_that_claim_too_much_together() {
    let mut bytes = workbook("<row/>");
    restate(&mut bytes, RELATIONS.len(), 0xf000_0000);
    restate(&mut bytes, WORKBOOK.len(), 0x1000_0001);
    assert_eq!(
        refusal(&bytes),
        "xl/workbook.xml: expected at most 4294967296 bytes in all parts, found 4294967297; split the sheet"
    );
}

/// One long text in many cells: a small file with a sheet that is larger than memory.
#[test]
fn a_text_shared_by_too_many_cells() {
    let shared = format!("<sst><si><t>{}</t></si></sst>", "x".repeat(1 << 23));
    let rows = "<row><c t=\"s\"><v>0</v></c></row>".repeat(200);
    let bytes = archive(&[
        ("xl/workbook.xml", WORKBOOK.as_bytes()),
        ("xl/_rels/workbook.xml.rels", RELATIONS.as_bytes()),
        ("xl/sharedStrings.xml", shared.as_bytes()),
        ("xl/worksheets/sheet1.xml", rows.as_bytes()),
    ]);
    assert_eq!(
        refusal(&bytes),
        "xl/worksheets/sheet1.xml: row 8: expected at most 67251856 bytes of memory (16 × the file's size + 64 MiB), \
         found 75498056; split the sheet"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        part in 0..4_usize,
    ) {
        let rows = "<row r=\"1\"><c r=\"A1\" t=\"s\"><v>0</v></c><c t=\"b\"><v>1</v></c></row>\
                    <row><c><v>1.5</v></c><c t=\"inlineStr\"><is><t>_x000D_&amp;</t></is></c></row>";
        let mut parts = [
            ("xl/workbook.xml", WORKBOOK.as_bytes().to_vec()),
            ("xl/_rels/workbook.xml.rels", RELATIONS.as_bytes().to_vec()),
            ("xl/sharedStrings.xml", SHARED.as_bytes().to_vec()),
            ("xl/worksheets/sheet1.xml", rows.as_bytes().to_vec()),
        ];
        for (place, byte) in &edits {
            let bytes = &mut parts[part].1;
            let place = place.index(bytes.len());
            bytes[place] = *byte;
        }
        let parts: Vec<(&str, &[u8])> = parts.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
        let mut whole = archive(&parts);
        let _ = read(&whole);
        for (place, byte) in &edits {
            let place = place.index(whole.len());
            whole[place] = *byte;
        }
        let _ = read(&whole);
    }
}
