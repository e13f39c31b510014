"""ptdbg_ascend's tables: those it wrote, row by row, and the numbers NumPy says it would have written."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import golden

Array = npt.NDArray[Any]
Row = list[str]

COLOURS = {"FFFF0000": "red", "FFFFFF00": "yellow", "00FFFF00": "yellow"}
SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
EPSILON = np.finfo(float).eps


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden.unpack("ptdbg", tmp_path_factory.mktemp("golden"))


def compare(style: str, target: Path, expected: Path, folder: Path, formats: str = "csv") -> Path:
    """Runs the command. Its exit code says whether rows fail, and is not checked here."""
    program = str(Path(sys.executable).parent / "ulpscope")
    arguments = ["compare", target, expected, "-o", folder, "--style", style, "--format", formats]
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return folder


def only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.rglob(pattern))
    assert len(found) == 1, f"{pattern} in {folder}: {found}"
    return found[0]


def table(folder: Path) -> list[Row]:
    with only(folder, "compare_result*.csv").open(newline="") as file:
        return list(csv.reader(file))


# --- what the tool wrote ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "target", "expected"),
    [
        ("same", "all_base", "all_base"),
        ("scale", "all_scale", "all_base"),
        ("scale_stack", "stack_scale", "stack_base"),
    ],
)
def test_tables_of_4_0_are_the_same_bytes(
    archive: Path, tmp_path: Path, case: str, target: str, expected: str
) -> None:
    dumps = archive / "v4.0.T2" / "dumps"
    written = archive / "v4.0.T2" / "compare" / case
    compare("ptdbg", only(dumps / target, "*.pkl"), only(dumps / expected, "*.pkl"), tmp_path)
    found = only(tmp_path, "compare_result*.csv").read_text()
    assert found.splitlines() == only(written, "*.csv").read_text().splitlines()
    assert found == only(written, "*.csv").read_text()
    assert only(tmp_path, "advisor*.txt").read_text() == only(written, "advisor*.txt").read_text()


@pytest.mark.parametrize(
    ("case", "target", "expected", "rows"),
    [
        ("scale", "all_scale", "all_base", 156),
        ("stack", "stack_scale", "stack_base", 156),
        ("summary", "sum_scale", "sum_base", 206),
    ],
)
def test_tables_of_6_0_have_the_same_values_and_colours(
    archive: Path, tmp_path: Path, case: str, target: str, expected: str, rows: int
) -> None:
    dumps = archive / "v6.0" / "dumps"
    written = archive / "v6.0" / "compare" / case
    compare("ptdbg-6", only(dumps / target, "*.pkl"), only(dumps / expected, "*.pkl"), tmp_path, "csv,xlsx")
    wanted = list(workbook(only(written, "*.xlsx")))
    found = table(tmp_path)
    assert len(found) == len(wanted) == rows + 1
    for ours, (theirs, _) in zip(found, wanted, strict=True):
        assert len(ours) == len(theirs)
        for name, our, their in zip(found[0], ours, theirs, strict=True):
            assert same_value(our, their), f"{ours[0]}, {name}: expected {their!r}, found {our!r}"
    colours = [colour for _, colour in wanted[1:]]
    assert [colour for _, colour in workbook(only(tmp_path, "*.xlsx"))][1:] == colours
    assert {"red", "yellow"} & set(colours)
    assert only(tmp_path, "advisor*.txt").read_text() == only(written, "advisor*.txt").read_text()


def same_value(ours: str, theirs: str) -> bool:
    """The same text, or the same number: workbooks keep sixteen digits, and no sign of a zero."""
    if ours == theirs:
        return True
    try:
        return f"{float(ours) + 0:.16g}" == f"{float(theirs) + 0:.16g}"
    except ValueError:
        return False


def workbook(path: Path) -> Iterator[tuple[Row, str]]:
    """The rows of a workbook's only sheet, and their colours."""
    with zipfile.ZipFile(path) as parts:
        styles = ElementTree.fromstring(parts.read("xl/styles.xml"))
        sheet = ElementTree.fromstring(parts.read("xl/worksheets/sheet1.xml"))
        shared = (
            [text_of(item) for item in ElementTree.fromstring(parts.read("xl/sharedStrings.xml"))]
            if "xl/sharedStrings.xml" in parts.namelist()
            else []
        )
    fills = [fill.find(f".//{SHEET}fgColor") for fill in styles.iterfind(f"{SHEET}fills/{SHEET}fill")]
    formats = [
        fills[int(format.get("fillId", "0"))] for format in styles.iterfind(f"{SHEET}cellXfs/{SHEET}xf")
    ]
    width = 0
    for row in sheet.iter(f"{SHEET}row"):
        cells = {column(cell.get("r", "")): cell for cell in row.iter(f"{SHEET}c")}
        width = width or max(cells)
        fill = formats[int(cells[1].get("s", "0"))]
        colour = "" if fill is None else COLOURS.get(fill.get("rgb", ""), "")
        yield [value(cells[at], shared) if at in cells else "" for at in range(1, width + 1)], colour


def column(place: str) -> int:
    """The number of a cell's column, from 1: `AB12` is in the 28th."""
    number = 0
    for letter in filter(str.isalpha, place):
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def text_of(item: ElementTree.Element) -> str:
    return "".join(text.text or "" for text in item.iter(f"{SHEET}t"))


def value(cell: ElementTree.Element, shared: list[str]) -> str:
    if cell.get("t") == "inlineStr":
        return text_of(cell)
    found = cell.findtext(f"{SHEET}v") or ""
    if cell.get("t") == "s":
        return shared[int(found)]
    return {"1": "True", "0": "False"}[found] if cell.get("t") == "b" else found


# --- what the tool would have written -----------------------------------------------------------------------


def pairs() -> list[tuple[Array, Array]]:
    """Pairs of every kind the tool treats differently."""
    random = np.random.default_rng(5)
    found: list[tuple[Any, Any]] = []
    for kind in (np.float16, np.float32, np.float64):
        base = random.standard_normal((5, 7)).astype(kind)
        near = (base * (1 + random.standard_normal(base.shape) * 0.003)).astype(kind)
        zeros = base.copy()
        zeros[0] = 0
        odd = random.standard_normal(20).astype(kind)
        odd[[3, 5, 9]] = [np.nan, np.inf, 0]
        turned = odd.copy()
        turned[5], turned[7] = -np.inf, 2
        elsewhere = odd.copy()
        elsewhere[4] = np.nan
        small = (random.standard_normal(300) * 1e-4).astype(kind)
        small[random.integers(0, 300, 60)] = 0
        found += [(near, base), (near, zeros), (turned, odd), (elsewhere, odd)]
        found += [((small + random.standard_normal(300) * 1e-6).astype(kind), small)]
        found += [(np.full(6, 2, kind), np.zeros(6, kind)), (np.zeros(6, kind), np.full(6, 2, kind))]
        found += [(np.zeros(4, kind), np.zeros(4, kind)), (np.zeros((0, 3), kind), np.zeros((0, 3), kind))]
        found += [(np.array([3.5], kind), np.array([3.0], kind))]
        found += [(np.array([1e4, -1e4, 6e4], kind), np.array([-1e4, 1e4, -6e4], kind))]
        found += [(np.array(a, kind), np.array(b, kind)) for a, b in [(0.9, 0.7), (2, 0), (np.nan, 1)]]
        found += [(np.array(np.inf, kind), np.array(np.inf, kind))]
    single = random.standard_normal(30).astype(np.float32)
    single[::5] = 0
    half = single.astype(np.float16)
    found += [
        ((single + 0.001).astype(np.float16), single),
        (half.astype(np.float32) + np.float32(0.002), half),
    ]
    for whole in (np.int64, np.int32, np.uint8, np.int8):
        found += [(random.integers(0, 99, 12).astype(whole), random.integers(0, 99, 12).astype(whole))]
        found += [(np.array(3, whole), np.array(7, whole)), (np.array(3, whole), np.array(0, whole))]
    found += [(random.integers(0, 2, 9) > 0, random.integers(0, 2, 9) > 0), (np.array(True), np.array(False))]
    return found


class Expected:
    """Cosine, largest errors, shares, message and verdict of a pair."""

    def __init__(self, target: Array, base: Array, release: int) -> None:
        self.spell: Callable[[Any], str] = spell_4 if release == 4 else spell_6
        target, base = target.copy(), base.copy()
        self.message = ""
        # 6.0 divides first, and what division by zero makes of the elements is what it goes on with.
        errors = relative(target, base) if release == 6 else None
        if target.ndim == 0:
            largest = np.abs(number(target) - number(base))
            self.figures = [
                "unsupported",
                self.spell(largest),
                self.largest(target, base, errors),
                "Nan",
                "Nan",
            ]
            self.message = "This is type of scalar data, can not compare."
        elif target.size == 0:
            self.figures = ["unsupported", "0", "0", "0", "0"]
            self.message = "This is empty data, can not compare."
        elif any((kind(target) != kind(base)).any() for kind in (np.isnan, np.isinf)):
            self.figures = ["N/A"] * 5
            self.message = "The position of inf or nan in NPU and bench Tensor do not match."
        else:
            for side in (target, base):
                side[~np.isfinite(side)] = 0
            target, base = target.ravel().astype(float), base.ravel().astype(float)
            cosine, largest = self.cosine(target, base), np.abs(target - base).max()
            top = self.largest(target, base, errors)
            if top == "Nan":
                self.message = "Cannot compare by MaxRelativeError, the data contains nan in dump data."
            shares = ["", ""]
            if errors is not None:
                shares = [self.spell(np.mean(errors < limit)) for limit in (0.001, 0.005)]
            self.figures = [cosine, self.spell(largest), top, *shares]
        self.verdict = verdict(*self.figures[:2])

    def largest(self, target: Array, base: Array, errors: Array | None) -> str:
        found = np.max(relative(target, base) if errors is None else errors)
        return "Nan" if np.isnan(found) else self.spell(found)

    def cosine(self, target: Array, base: Array) -> str:
        lengths = [np.linalg.norm(side) for side in (target, base)]
        zero = [length <= EPSILON for length in lengths]
        if target.size == 1:
            return "unsupported"
        if any(zero):
            return "1.0" if all(zero) else "Nan"
        found = target @ base / (lengths[0] * lengths[1])
        return "1.0" if found > 0.99999 else self.spell(found)


def number(value: Array) -> Array:
    return value.astype(float) if value.dtype == bool else value


def relative(target: Array, base: Array) -> Array:
    """The relative error. Floats are changed in place."""
    if base.dtype.kind != "f":
        target, base = target.astype(float), base.astype(float)
    zero = base == 0
    epsilon = np.finfo(base.dtype).eps
    base[zero] += epsilon
    target[zero] += epsilon
    with np.errstate(all="ignore"):
        return np.abs((target - base) / base)


def spell_4(value: Any) -> str:
    return f"{value:.12f}"


def spell_6(value: Any) -> str:
    rounded = float(f"{value:.12f}")
    return repr(rounded) if np.isfinite(rounded) else f"{rounded}\t"


def verdict(cosine: str, largest: str) -> str:
    if "Nan" in (cosine, largest) or cosine == "unsupported":
        return "Nan"
    if cosine == "N/A":
        return "No"
    angle, error = float(cosine), float(largest)
    return "No" if (angle < 0.99 and error > 0.001) or angle < 0.9 or error > 1 else "Yes"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("style", "release", "mark"), [("ptdbg", 4, "_"), ("ptdbg-6", 6, ".")])
def test_numbers_are_numpys(tmp_path: Path, style: str, release: int, mark: str) -> None:
    arrays = pairs()
    for side, folder in enumerate(("target", "golden")):
        data = tmp_path / folder / "dump"
        data.mkdir(parents=True)
        with data.with_suffix(".pkl").open("w") as lines:
            for index, pair in enumerate(arrays):
                for end in ("input.0", "output"):
                    name = mark.join(["Torch", "add", str(index), "forward", end])
                    array = pair[side]
                    stats = [1.0, 2.0, 3.0, 4.0][: 3 if release == 4 else 4]
                    line = [name, 0, [], f"torch.{array.dtype}", array.shape, stats]
                    lines.write(json.dumps(line) + "\n")
                    np.save(data / f"{name}.npy", array)
    folders = [tmp_path / folder / "dump.pkl" for folder in ("target", "golden")]
    header, *rows = table(compare(style, *folders, tmp_path / "out"))
    assert len(rows) == 2 * len(arrays)
    columns = [
        "Cosine",
        "MaxAbsErr",
        "MaxRelativeErr",
        "One Thousandth Err Ratio",
        "Five Thousandths Err Ratio",
    ]
    for index, (target, base) in enumerate(arrays):
        found = dict(zip(header, rows[2 * index], strict=True))
        expected = Expected(target, base, release)
        for name, figure in zip(columns, expected.figures, strict=True):
            if name in found:
                assert found[name] == figure, f"{name} of {target!r} and {base!r}"
        assert found["Err_message"] == expected.message
        assert found["Accuracy Reached or Not"] == expected.verdict, f"{target!r} and {base!r}"
