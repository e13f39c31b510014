"""Writes the files of tests/hostile/sheet: result sheets that would take far more memory than their size justifies.

    python tests/hostile/make_sheet.py

Needs nothing but Python; running it again gives identical files.
"""

import pathlib
import zipfile

FOLDER = pathlib.Path(__file__).parent / "sheet"

WORKBOOK = '<workbook xmlns:r="r"><sheets><sheet name="a" r:id="r1"/></sheets></workbook>'
RELATIONS = (
    '<Relationships><Relationship Id="r1" Target="worksheets/sheet1.xml" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet"/></Relationships>'
)


def cell(place, content):
    return f'<c r="{place}" t="inlineStr"><is><t>{content}</t></is></c>'


def far_column():
    """A header whose last cell stands in the last column, above 4,000 rows of one cell."""
    header = cell("A1", "target_name") + cell("B1", "verdict") + cell("XFD1", "far")
    rows = f"<row>{header}</row>" + f"<row>{cell('A2', 'x')}</row>" * 4000
    parts = {
        "xl/workbook.xml": WORKBOOK,
        "xl/_rels/workbook.xml.rels": RELATIONS,
        "xl/worksheets/sheet1.xml": f"<worksheet><sheetData>{rows}</sheetData></worksheet>",
    }
    with zipfile.ZipFile(FOLDER / "far_column.xlsx", "w") as out:
        for name, content in parts.items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            out.writestr(info, content)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    far_column()
