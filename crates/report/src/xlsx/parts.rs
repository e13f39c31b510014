//! The parts of a workbook around its cells.
//!
//! Sheets come first and the list of sheets last, because only then their number, and with it their names, is
//! known. Parts are found by references, so their order in the archive is free.

use std::fmt::Write;

use super::cell::{WIDEST, push_escaped};

/// The names of the parts. Those of the sheets are numbered from 1.
pub(super) const ROOT: &str = "_rels/.rels";
pub(super) const STYLES: &str = "xl/styles.xml";
pub(super) const WORKBOOK: &str = "xl/workbook.xml";
pub(super) const RELATIONS: &str = "xl/_rels/workbook.xml.rels";
pub(super) const CONTENT_TYPES: &str = "[Content_Types].xml";

/// Characters of the narrowest column.
const NARROWEST: usize = 8;

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";
const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const REFERENCES: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006";
const CONTENT: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml";

/// A sheet that is written.
pub(super) struct WrittenSheet {
    pub name: String,
    /// The cells that filters apply to (`A1:C9`); none if there are no columns.
    pub filtered: Option<Range>,
}

/// The cells from the first of a sheet to the given one.
pub(super) struct Range {
    pub column: String,
    pub row: u32,
}

/// The file of a sheet within its folder.
fn sheet_file(index: usize) -> String {
    format!("worksheets/sheet{}.xml", index + 1)
}

/// The part of a sheet.
pub(super) fn sheet_part(index: usize) -> String {
    format!("xl/{}", sheet_file(index))
}

/// The letters of a column, counted from 0.
pub(super) fn letters(column: usize) -> String {
    let mut letters = Vec::new();
    let mut left = column + 1;
    while left > 0 {
        letters.push(char::from(b'A' + ((left - 1) % 26) as u8));
        left = (left - 1) / 26;
    }
    letters.iter().rev().collect()
}

/// The reference from the archive to the workbook.
pub(super) fn root() -> String {
    format!(
        "{DECLARATION}<Relationships xmlns=\"{PACKAGE}/relationships\">\
         <Relationship Id=\"rId1\" Type=\"{REFERENCES}/officeDocument\" Target=\"{WORKBOOK}\"/></Relationships>"
    )
}

/// The cell styles, in the order of [`Style`](super::cell::Style): plain, bold, yellow, red. Excel reserves the
/// first two fills, whatever their content.
pub(super) fn styles() -> String {
    let font = "<sz val=\"11\"/><color rgb=\"FF000000\"/><name val=\"Calibri\"/><family val=\"2\"/>";
    let fill = |colour: &str| {
        format!(
            "<fill><patternFill patternType=\"solid\"><fgColor rgb=\"{colour}\"/><bgColor indexed=\"64\"/>\
             </patternFill></fill>"
        )
    };
    let look = |font: u8, fill: u8| {
        let applied = match (font, fill) {
            (0, 0) => "",
            (_, 0) => " applyFont=\"1\"",
            _ => " applyFill=\"1\"",
        };
        format!("<xf numFmtId=\"0\" fontId=\"{font}\" fillId=\"{fill}\" borderId=\"0\" xfId=\"0\"{applied}/>")
    };
    let (yellow, red) = (fill("FFFFFF00"), fill("FFFF0000"));
    let looks = [look(0, 0), look(1, 0), look(0, 2), look(0, 3)].concat();
    format!(
        "{DECLARATION}<styleSheet xmlns=\"{MAIN}\">\
         <fonts count=\"2\"><font>{font}</font><font><b/>{font}</font></fonts>\
         <fills count=\"4\"><fill><patternFill patternType=\"none\"/></fill>\
         <fill><patternFill patternType=\"gray125\"/></fill>{yellow}{red}</fills>\
         <borders count=\"1\"><border><left/><right/><top/><bottom/><diagonal/></border></borders>\
         <cellStyleXfs count=\"1\"><xf numFmtId=\"0\" fontId=\"0\" fillId=\"0\" borderId=\"0\"/></cellStyleXfs>\
         <cellXfs count=\"4\">{looks}</cellXfs>\
         <cellStyles count=\"1\"><cellStyle name=\"Normal\" xfId=\"0\" builtinId=\"0\"/></cellStyles>\
         </styleSheet>"
    )
}

/// A sheet up to its rows. `widths` are characters.
pub(super) fn sheet_head(widths: &[usize], is_first: bool) -> String {
    let selected = if is_first { " tabSelected=\"1\"" } else { "" };
    let mut out = format!(
        "{DECLARATION}<worksheet xmlns=\"{MAIN}\"><sheetViews><sheetView{selected} workbookViewId=\"0\">\
         <pane ySplit=\"1\" topLeftCell=\"A2\" activePane=\"bottomLeft\" state=\"frozen\"/>\
         <selection pane=\"bottomLeft\"/></sheetView></sheetViews><sheetFormatPr defaultRowHeight=\"15\"/>"
    );
    if !widths.is_empty() {
        out.push_str("<cols>");
        for (column, &width) in (1..).zip(widths) {
            let width = column_width(width.clamp(NARROWEST, WIDEST));
            let _ =
                write!(out, "<col min=\"{column}\" max=\"{column}\" width=\"{width}\" customWidth=\"1\"/>");
        }
        out.push_str("</cols>");
    }
    out.push_str("<sheetData>");
    out
}

/// Excel measures widths in digits of its default font, 7 pixels each, plus 5 for the margins, rounded to 256ths.
fn column_width(characters: usize) -> f64 {
    ((characters * 7 + 5) * 256 / 7) as f64 / 256.0
}

/// A sheet after its rows.
pub(super) fn sheet_tail(filtered: Option<&Range>) -> String {
    let filter = filtered.map(|Range { column, row }| format!("<autoFilter ref=\"A1:{column}{row}\"/>"));
    format!("</sheetData>{}</worksheet>", filter.unwrap_or_default())
}

/// The list of sheets, and of the cells their filters apply to.
pub(super) fn workbook(sheets: &[WrittenSheet]) -> String {
    let (mut listed, mut filters) = (String::new(), String::new());
    for (index, sheet) in sheets.iter().enumerate() {
        let (number, name) = (index + 1, escaped(&sheet.name));
        let _ = write!(listed, "<sheet name=\"{name}\" sheetId=\"{number}\" r:id=\"rId{number}\"/>");
        if let Some(Range { column, row }) = &sheet.filtered {
            let name = name.replace('\'', "''");
            let _ = write!(
                filters,
                "<definedName name=\"_xlnm._FilterDatabase\" localSheetId=\"{index}\" hidden=\"1\">\
                 '{name}'!$A$1:${column}${row}</definedName>"
            );
        }
    }
    if !filters.is_empty() {
        filters = format!("<definedNames>{filters}</definedNames>");
    }
    format!(
        "{DECLARATION}<workbook xmlns=\"{MAIN}\" xmlns:r=\"{REFERENCES}\"><workbookPr/>\
         <bookViews><workbookView xWindow=\"0\" yWindow=\"0\" windowWidth=\"28800\" windowHeight=\"15000\"/></bookViews>\
         <sheets>{listed}</sheets>{filters}</workbook>"
    )
}

/// The part of each reference of the workbook.
pub(super) fn relations(sheets: usize) -> String {
    let mut out = format!("{DECLARATION}<Relationships xmlns=\"{PACKAGE}/relationships\">");
    for index in 0..sheets {
        let (number, file) = (index + 1, sheet_file(index));
        let _ = write!(
            out,
            "<Relationship Id=\"rId{number}\" Type=\"{REFERENCES}/worksheet\" Target=\"{file}\"/>"
        );
    }
    let number = sheets + 1;
    let _ = write!(
        out,
        "<Relationship Id=\"rId{number}\" Type=\"{REFERENCES}/styles\" Target=\"styles.xml\"/></Relationships>"
    );
    out
}

/// The content type of each part.
pub(super) fn content_types(sheets: usize) -> String {
    let mut out = format!(
        "{DECLARATION}<Types xmlns=\"{PACKAGE}/content-types\">\
         <Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
         <Default Extension=\"xml\" ContentType=\"application/xml\"/>\
         <Override PartName=\"/{WORKBOOK}\" ContentType=\"{CONTENT}.sheet.main+xml\"/>\
         <Override PartName=\"/{STYLES}\" ContentType=\"{CONTENT}.styles+xml\"/>"
    );
    for index in 0..sheets {
        let part = sheet_part(index);
        let _ = write!(out, "<Override PartName=\"/{part}\" ContentType=\"{CONTENT}.worksheet+xml\"/>");
    }
    out.push_str("</Types>");
    out
}

fn escaped(name: &str) -> String {
    let mut out = Vec::new();
    push_escaped(&mut out, name);
    // Only ASCII was replaced by ASCII.
    String::from_utf8_lossy(&out).into_owned()
}
