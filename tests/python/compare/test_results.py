"""Results as values: true or not, equal or not, shown, and carried to another process."""

from __future__ import annotations

import copy
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import ulpscope
from dumps import chain, write_rank


def test_a_comparison_is_true_when_everything_agrees(pair: tuple[Path, Path]) -> None:
    target, golden = pair
    assert not ulpscope.compare(target, golden)
    assert ulpscope.compare(golden, golden)
    with pytest.raises(AssertionError):
        assert ulpscope.compare(target, golden)


def test_a_diff_is_ok_as_the_command_is(tmp_path: Path) -> None:
    ulpscope.save(tmp_path / "a.npy", torch.ones(3))
    ulpscope.save(tmp_path / "b.npy", torch.tensor([1, 1, 1.5]))
    for other in ("a.npy", "b.npy"):
        paths = [tmp_path / "a.npy", tmp_path / other]
        result = ulpscope.diff(*paths)
        assert isinstance(result, ulpscope.Diff)
        command = [sys.executable, "-m", "ulpscope", "diff", *map(str, paths)]
        code = subprocess.run(command, capture_output=True).returncode
        assert result.ok is bool(result) is (code == 0)


RESULTS: dict[str, Callable[[tuple[Path, Path]], Any]] = {
    "stats": lambda _: ulpscope.stats(torch.tensor([1.5, float("nan"), float("-inf")])),
    "stats of integers": lambda _: ulpscope.stats(np.array([-(2**63), 2**63 - 1])),
    "stats of nothing": lambda _: ulpscope.stats(torch.empty(0, 3)),
    "diff": lambda _: ulpscope.diff(torch.tensor([1.0, 2, 3]), torch.tensor([1.0, 2.5, float("nan")])),
    "diff of complex": lambda _: ulpscope.diff(torch.ones(2, 2) * 1j, torch.ones(2, 2) * 2j),
    "element": lambda _: ulpscope.diff(torch.tensor([1.0, 2]), torch.tensor([1.0, 3])).worst[0],
    "comparison": lambda pair: ulpscope.compare(*pair),
    "comparison in an older style": lambda pair: ulpscope.compare(*pair, style="msprobe"),
    "divergence": lambda pair: ulpscope.compare(*pair).first_divergence,
}


def fields(result: Any) -> dict[str, str]:
    """All that a result shows, as text: a NaN equals itself there."""
    shown = {name: getattr(result, name) for name in dir(type(result)) if not name.startswith("_")}
    skipped = ("to_csv", "to_xlsx", "to_pandas", "save")
    return {
        name: repr(value() if callable(value) else value)
        for name, value in shown.items()
        if name not in skipped
    } | {"str": str(result), "repr": repr(result), "html": getattr(result, "_repr_html_", str)()}


@pytest.mark.parametrize("kind", RESULTS)
@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_results_come_back_from_a_pickle(kind: str, protocol: int, pair: tuple[Path, Path]) -> None:
    result = RESULTS[kind](pair)
    again = pickle.loads(pickle.dumps(result, protocol))
    assert type(again) is type(result)
    assert again == result
    assert hash(again) == hash(result)
    assert fields(again) == fields(result)
    for copied in (copy.copy(result), copy.deepcopy(result), copy.deepcopy([result])[0]):
        assert copied == result


def test_results_that_differ_are_not_equal(pair: tuple[Path, Path]) -> None:
    target, golden = pair
    x = torch.ones(3)
    assert ulpscope.stats(x) == ulpscope.stats(x.clone())
    assert ulpscope.stats(x) != ulpscope.stats(x * 2)
    assert ulpscope.diff(x, x) == ulpscope.diff(x, x)
    assert ulpscope.diff(x, x) != ulpscope.diff(x * 2, x)
    assert ulpscope.stats(x) != ulpscope.diff(x, x)
    assert ulpscope.stats(x) != "text"
    divergences = ulpscope.compare(target, golden).divergences
    assert divergences == ulpscope.compare(target, golden).divergences
    one, again = ulpscope.compare(target, golden), ulpscope.compare(target, golden)
    assert (one == again, hash(one)) == (True, hash(again))
    assert one != ulpscope.compare(golden, golden)


def test_a_comparison_writes_the_same_files_in_another_process(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    result = ulpscope.compare(*pair)
    result.to_csv(tmp_path / "here.csv")
    (tmp_path / "result.pickle").write_bytes(pickle.dumps(result))
    code = """
import pickle, sys
result = pickle.load(open("result.pickle", "rb"))
result.to_csv("there.csv"); result.to_json("there.json"); result.to_xlsx("there.xlsx")
sys.stdout.write(str(result))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout == str(result)
    assert (tmp_path / "there.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()
    assert (tmp_path / "there.json").read_text() == result.to_json()
    assert (tmp_path / "there.xlsx").stat().st_size > 0


def test_several_ranks_come_back(tmp_path: Path) -> None:
    for side, fault in (("golden", {}), ("target", {1: 1.5})):
        for rank in (0, 1):
            write_rank(tmp_path / side / "step0" / f"rank{rank}", chain(2, fault=fault))
    result = ulpscope.compare(tmp_path / "target", tmp_path / "golden")
    again = pickle.loads(pickle.dumps(result))
    assert [row["rank"] for row in again.rows] == [row["rank"] for row in result.rows]
    assert again.to_json() == result.to_json()


def test_what_was_not_read_comes_back(tmp_path: Path) -> None:
    torch.save({"x": torch.ones(2), "odd": torch.eye(2).to_sparse()}, tmp_path / "x.pt")
    loaded = ulpscope.load(tmp_path / "x.pt")
    assert isinstance(loaded["odd"], ulpscope.Unread)
    again = pickle.loads(pickle.dumps(loaded["odd"]))
    assert (again.reason, again) == (loaded["odd"].reason, loaded["odd"])


def test_damaged_pickles_are_errors() -> None:
    restore, (kind, state) = ulpscope.stats(torch.ones(3)).__reduce__()
    for broken in (state[:-1], state + b"x", b"", state[:9]):
        with pytest.raises(ValueError, match="pickle"):
            restore(kind, broken)
    with pytest.raises(ValueError, match="no result"):
        restore("int", state)
    with pytest.raises(ValueError, match="different version"):
        restore(kind, b"\x09" + state[1:])


def number(value: int) -> bytes:
    return struct.pack("<Q", value)


def text(value: str) -> bytes:
    return number(len(value.encode())) + value.encode()


def comparison(document: bytes, cells: bytes) -> bytes:
    """The bytes of a comparison of one sheet, with the columns `a` and `b` and one row."""
    columns = number(2) + text("a") + text("b")
    sheet = number(0) + b"\0" + text("rank0") + columns + number(1) + cells + b"\0"
    return number(3) + document + b"\1" + number(1) + sheet + number(0) * 6


def test_pickles_that_do_not_fit_together_are_errors() -> None:
    restore, _ = ulpscope.stats(torch.ones(1)).__reduce__()
    ranks = b"\7" + number(1) + text("ranks")
    whole_document = ranks + b"\6" + number(1) + b"\7" + number(0)
    missing = b"\0"
    whole = restore("Comparison", comparison(whole_document, number(2) + missing * 2))
    assert whole.rows == [{"step": None, "rank": "rank0", "a": None, "b": None}]
    assert '"rows_to_look_at"' in whole.to_json()
    # As deep as a stack does not reach: lists of one item each.
    deep_document = (b"\6" + number(1)) * 1_000_000 + b"\0"
    deep_object = (b"\7" + number(1) + text("x")) * 1_000_000 + b"\0"
    deep_cell = (b"\x09" + number(1)) * 1_000_000 + missing
    row = number(2) + missing * 2
    for broken in (
        comparison(whole_document, number(1) + missing),
        comparison(whole_document, number(2) + missing + deep_cell),
        comparison(deep_document, row),
        comparison(deep_object, row),
        comparison(b"\0", row),
        comparison(b"\6" + number(0), row),
        comparison(ranks + b"\0", row),
        comparison(ranks + b"\6" + number(0), row),
        comparison(ranks + b"\6" + number(1) + b"\1\1", row),
    ):
        with pytest.raises(ValueError, match="damaged"):
            restore("Comparison", broken)


HOSTILE = "evil\x1b[2J\x9b31m\x7f\u202e\u200b"


def is_shown(text: str) -> bool:
    return not set("\x1b\x9b\x7f\u202e\u200b") & set(text)


def test_names_out_of_files_cannot_drive_a_terminal(tmp_path: Path) -> None:
    call = f"Functional.{HOSTILE}.0.forward"
    write_rank(tmp_path / "golden", [(call, [torch.ones(3)], [torch.ones(3)])])
    write_rank(tmp_path / "target", [(call, [torch.ones(3)], [torch.full((3,), 2.0)])])
    result = ulpscope.compare(tmp_path / "target", tmp_path / "golden")
    first = result.first_divergence
    assert first is not None
    assert first.call == call, "a program gets the name as it is"
    for shown in (repr(result), str(result), result.explain(), repr(first), str(first)):
        assert is_shown(shown), shown
        assert "evil" in shown
    path = tmp_path / f"{HOSTILE}.pt"
    torch.save({HOSTILE: torch.eye(2).to_sparse(), "x": torch.ones(2)}, path)
    with pytest.warns(UserWarning, match="evil") as warned:
        ulpscope.stats(path)
    messages = [str(one.message) for one in warned]
    with pytest.raises(ValueError, match="evil") as raised:
        ulpscope.diff(path, path)
    messages.append(str(raised.value))
    path.write_bytes(b"\x93NUMPY")
    with pytest.raises(ulpscope.FormatError, match="evil") as refused:
        ulpscope.load(path)
    messages.append(str(refused.value))
    assert all(map(is_shown, messages)), messages


def test_comparisons_show_as_tables(pair: tuple[Path, Path]) -> None:
    result = ulpscope.compare(*pair)
    first = result.first_divergence
    assert first is not None
    shown = str(result)
    assert shown.splitlines()[0] == "Comparison"
    for word in ("differ", "Functional.linear.3.forward", "diverged here", str(pair[0])):
        assert word in shown
    assert "divergences" in shown
    assert repr(result).startswith("<Comparison: differ, ")
    for word in ("Divergence", "Functional.linear.3.forward", "diverged here", first.why[:20]):
        assert word in str(first)


def test_comparisons_show_in_a_notebook_with_everything_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "<b>&amp;"
    write_rank(folder / "golden", [("Functional.<i>.0.forward", [torch.ones(3)], [torch.ones(3)])])
    write_rank(folder / "target", [("Functional.<i>.0.forward", [torch.ones(3)], [torch.full((3,), 2.0)])])
    result = ulpscope.compare(folder / "target", folder / "golden")
    first = result.first_divergence
    assert first is not None
    for html in (result._repr_html_(), first._repr_html_()):
        document = ElementTree.fromstring(f"<div>{html}</div>")
        assert document.findall(".//table")
        assert not document.findall(".//i")
        assert not document.findall(".//b")
        assert "Functional.<i>.0.forward" in "".join(document.itertext())


def steps_of(result: ulpscope.Comparison) -> list[int]:
    return sorted({row["step"] for row in result.rows})


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ("0,2-3", [0, 2, 3]),
        (" 1 , 3", [1, 3]),
        ([0, "2-3"], [0, 2, 3]),
        (("1", 2), [1, 2]),
        (range(1, 3), [1, 2]),
        ({0, 3}, [0, 3]),
        ([], [0, 1, 2, 3]),
        (None, [0, 1, 2, 3]),
    ],
    ids=str,
)
def test_steps_are_chosen_as_for_capture(step: Any, found: list[int], tmp_path: Path) -> None:
    for number in range(4):
        write_rank(tmp_path / "a" / f"step{number}" / "rank0", chain(1))
    assert steps_of(ulpscope.compare(tmp_path / "a", tmp_path / "a", step=step)) == found


def test_ranks_are_chosen_likewise(tmp_path: Path) -> None:
    for number in range(4):
        write_rank(tmp_path / "a" / "step0" / f"rank{number}", chain(1))
    rows = ulpscope.compare(tmp_path / "a", tmp_path / "a", rank="0,2-3").rows
    assert sorted({row["rank"] for row in rows}) == ["rank0", "rank2", "rank3"]


@pytest.mark.parametrize(
    ("step", "error"),
    [
        *[(step, ValueError) for step in ("", "1-", "x", "3-1", ["x"])],
        *[(step, TypeError) for step in (1.5, [None], -1, b"1", True)],
    ],
    ids=str,
)
def test_steps_that_are_none(step: Any, error: type[Exception], tmp_path: Path) -> None:
    write_rank(tmp_path / "a", chain(1))
    with pytest.raises(error, match="expected"):
        ulpscope.compare(tmp_path / "a", tmp_path / "a", step=step)


def test_dictionaries_are_compared_name_by_name(tmp_path: Path) -> None:
    golden = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).state_dict()
    target = {name: tensor.clone() for name, tensor in golden.items()}
    target["0.weight"][1, 2] += 1
    result = ulpscope.diff(target, golden)
    assert list(result) == list(golden)
    assert [name for name, one in result.items() if not one.ok] == ["0.weight"]
    assert result["0.weight"].worst_index == 5
    # Against files of the same, and nested.
    torch.save(golden, tmp_path / "golden.pt")
    assert ulpscope.diff(target, tmp_path / "golden.pt") == result
    assert ulpscope.diff(tmp_path / "golden.pt", golden)["0.weight"].equal
    nested = ulpscope.diff({"model": target, "step": 3}, {"model": golden, "step": 4})
    assert list(nested) == [f"model.{name}" for name in golden]
    assert list(ulpscope.stats({"a": [torch.ones(2), np.zeros(3)], "lr": 0.1})) == ["a.0", "a.1"]
    # One tensor in a dictionary is still one with a name.
    torch.save({"x": torch.ones(2)}, tmp_path / "one.pt")
    assert list(ulpscope.diff({"x": torch.ones(2)}, tmp_path / "one.pt")) == ["x"]


def test_dictionaries_that_do_not_fit(tmp_path: Path) -> None:
    x = torch.ones(2)
    with pytest.raises(
        ValueError, match=r'different tensors: only in target \["b"\], only in golden \["c"\]'
    ):
        ulpscope.diff({"a": x, "b": x}, {"a": x, "c": x})
    with pytest.raises(ValueError, match=r"^a\.w: .*shape"):
        ulpscope.diff({"a": {"w": x}}, {"a": {"w": torch.ones(3)}})
    with pytest.raises(TypeError, match=r"^a: expected a torch tensor.*found object"):
        ulpscope.diff({"a": object()}, {"a": object()})
    with pytest.raises(TypeError, match="found a dictionary without tensors"):
        ulpscope.diff({}, {"lr": 0.1})
    with pytest.raises(ValueError, match="one side is one tensor, the other holds 1"):
        ulpscope.diff({"a": x}, x)


def test_loading_without_a_framework_says_what_to_install(tmp_path: Path) -> None:
    ulpscope.save(tmp_path / "x.npy", torch.ones(3))
    code = """
import sys
sys.modules["torch"] = sys.modules["numpy"] = None
import ulpscope
print(ulpscope.stats("x.npy").max)
for framework in (None, "numpy", "torch"):
    try:
        ulpscope.load("x.npy", framework)
    except ImportError as error:
        print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    stats, *lines = ran.stdout.splitlines()
    assert stats == "1.0"
    assert lines == [
        "ulpscope.load needs torch or numpy, which is not installed: pip install numpy; "
        "ulpscope.stats and ulpscope.diff read files without",
    ] * 2 + [
        "ulpscope.load needs torch, which is not installed: pip install torch; "
        "ulpscope.stats and ulpscope.diff read files without",
    ]
