"""The face of the package: names, how results print, what it imports, the command it brings."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import ulpscope
from judges import DTYPES, assert_same, dtype_name, tensor_of

STATS = [
    "shape",
    "dtype",
    "max",
    "min",
    "mean",
    "norm",
    "nan",
    "pos_inf",
    "neg_inf",
    "zeros",
    "subnormals",
    "finite_max",
    "finite_min",
]
DIFF = [
    "cosine",
    "euclid",
    "rel_l2",
    "rmse",
    "mape",
    "max_abs",
    "mean_abs",
    "max_rel",
    "mean_rel",
    "under_1e3",
    "under_5e3",
    "max_ulp",
    "mean_ulp",
    "equal",
    "over_tolerance",
    "needed_atol",
    "needed_rtol",
    "worst_index",
]
# What a diff says beyond that, in Python and in JSON.
DIFF_BOTH = ["accumulated_rel", "count", "exponents", "finite", "kl", "zero_golden"]
DIFF_PYTHON = ["agrees", "first_failing", "non_finite_mismatched", "ok", "to_json", "worst"]
DIFF_JSON = ["target", "golden", "non_finite"]

ODD = torch.tensor([[1.5, math.nan, math.inf], [-math.inf, 0.0, 1e-40]])


def public(x: object) -> set[str]:
    return {name for name in dir(x) if not name.startswith("_")}


def strict_json(text: str) -> Any:
    def refuse(token: str) -> Any:
        raise AssertionError(f"{token} is not JSON")

    return json.loads(text, parse_constant=refuse)


def as_json(value: Any) -> Any:
    """What an attribute becomes in JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return list(value) if isinstance(value, tuple) else value


def test_everything_public_is_there_and_documented() -> None:
    for name in ulpscope.__all__:
        assert getattr(ulpscope, name).__doc__, name
    # These need torch, so a star import leaves them out.
    with_torch = {"CallGain", "Capture", "EntryBits", "Finding", "Perturbation", "SignificantBits"}
    assert public(ulpscope) == {*ulpscope.__all__, *with_torch} - {"__version__"}


@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_name)
def test_stats_has_the_same_names_in_python_and_json(dtype: torch.dtype) -> None:
    stats = ulpscope.stats(tensor_of(dtype, 3, 5))
    assert public(stats) == {*STATS, "to_json"}
    found = strict_json(stats.to_json())
    assert list(found) == STATS
    assert found == {name: as_json(getattr(stats, name)) for name in STATS}


def test_stats_of_odd_values() -> None:
    stats = ulpscope.stats(ODD)
    assert (stats.shape, stats.dtype) == ((2, 3), "float32")
    assert [stats.nan, stats.pos_inf, stats.neg_inf, stats.zeros, stats.subnormals] == [1, 1, 1, 1, 1]
    assert (stats.finite_max, stats.finite_min) == (1.5, 0.0)
    assert math.isnan(stats.max)
    assert math.isnan(stats.norm)


@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_name)
def test_diff_has_the_same_names_in_python_and_json(dtype: torch.dtype) -> None:
    target, golden = tensor_of(dtype, 2, 30)
    diff = ulpscope.diff(target, golden)
    assert public(diff) == {*DIFF, *DIFF_BOTH, *DIFF_PYTHON}
    found = strict_json(diff.to_json())
    assert set(found) == {*DIFF, *DIFF_BOTH, *DIFF_JSON}
    for name in {*DIFF, *DIFF_BOTH} - {"exponents"}:
        assert found[name] == as_json(getattr(diff, name)), name
    assert found["exponents"]["rows"] == [list(row) for row in diff.exponents]
    assert found["non_finite"]["mismatched"] == diff.non_finite_mismatched
    assert found["golden"] == {"shape": [30], "dtype": dtype_name(dtype)}


def test_the_command_says_the_same_as_the_objects(tmp_path: Path) -> None:
    golden, target = tmp_path / "golden.npy", tmp_path / "target.npy"
    ulpscope.save(golden, torch.arange(6.0).reshape(2, 3))
    ulpscope.save(target, ODD)
    shown = strict_json(run("stats", "--json", target).stdout)["tensors"][0]
    assert {name: shown[name] for name in STATS} == strict_json(ulpscope.stats(target).to_json())
    done = run("diff", "--json", target, golden)
    diff = ulpscope.diff(target, golden)
    shown = strict_json(done.stdout)["pairs"][0]
    assert {name: shown[name] for name in strict_json(diff.to_json())} == strict_json(diff.to_json())
    assert (done.returncode, bool(diff), diff.agrees) == (1, False, False)
    assert [element["index"] for element in shown["worst"]] == [element.index for element in diff.worst]


def test_a_diff_is_true_when_its_sides_agree() -> None:
    assert ulpscope.diff(torch.ones(3), torch.ones(3) + 1e-4)
    assert not ulpscope.diff(torch.ones(3), torch.ones(3) + 1e-4, atol=0, rtol=0)


def test_results_cannot_be_changed() -> None:
    for result, name in ((ulpscope.stats(ODD), "max"), (ulpscope.diff(ODD, ODD), "cosine")):
        with pytest.raises(AttributeError):
            setattr(result, name, 0)
        with pytest.raises(TypeError):
            type(result)()


def test_tolerances_go_by_name() -> None:
    with pytest.raises(TypeError, match="positional arguments"):
        ulpscope.diff(ODD, ODD, 1e-3)  # type: ignore[misc]


def test_stats_print_as_a_table() -> None:
    shown = repr(ulpscope.stats(ODD))
    assert "\x1b" not in shown
    assert not shown.endswith("\n")
    title, *rows = shown.splitlines()
    assert title == "Stats"
    assert [row.split()[0] for row in rows] == STATS
    assert [row.split(maxsplit=1)[1] for row in rows[:3]] == ["[2, 3]", "float32", "nan"]
    assert str(ulpscope.stats(ODD)) == shown


def test_a_diff_prints_its_numbers_and_its_worst_elements() -> None:
    golden = torch.zeros(2, 3)
    target = golden.clone()
    target[1, 2] = 0.25
    diff = ulpscope.diff(target, golden)
    shown = repr(diff)
    assert "\x1b" not in shown
    assert not shown.endswith("\n")
    rows = {row.split()[0]: row.split()[1:] for row in shown.splitlines() if row.split()}
    assert {*DIFF, "kl", "count"} <= set(rows)
    assert (rows["max_abs"], rows["worst_index"]) == (["0.25"], ["[1,", "2]"])
    assert shown.splitlines()[-1].split() == ["[1,", "2]", "0.25", "0", "0.25", "-"]
    (worst,) = diff.worst
    assert (worst.coordinates, worst.index, worst.target, worst.golden) == ((1, 2), 5, 0.25, 0.0)
    assert (worst.abs, worst.rel) == (0.25, None)
    assert repr(worst) == "ElementDiff(at [1, 2]: target 0.25, golden 0.0, abs 0.25)"
    (worst,) = ulpscope.diff(torch.tensor([math.nan]), torch.zeros(1)).worst
    assert repr(worst) == "ElementDiff(at [0]: target nan, golden 0.0, abs nan)"


def cells(html: str) -> list[list[str]]:
    """The texts of an HTML fragment's rows; a fragment with anything unescaped is no XML."""
    document = ElementTree.fromstring(f"<div>{html}</div>")
    return [["".join(cell.itertext()) for cell in row] for row in document.iter("tr")]


def test_results_show_in_a_notebook() -> None:
    stats = ulpscope.stats(ODD)
    rows = cells(stats._repr_html_())
    assert [name for name, _ in rows] == STATS
    assert dict(rows)["shape"] == "[2, 3]"
    golden = torch.ones(2, 3)
    rows = cells(ulpscope.diff(ODD, golden)._repr_html_())
    assert set(DIFF) <= {row[0] for row in rows}
    # The worst elements have a table of their own.
    assert ["index", "target", "golden", "abs", "rel"] in rows
    assert ["[0, 1]", "nan", "1", "nan", "-"] in rows


def test_every_number_of_a_diff_has_a_tooltip() -> None:
    document = ElementTree.fromstring(f"<div>{ulpscope.diff(ODD, ODD)._repr_html_()}</div>")
    titled = {cell.text for cell in document.iter("td") if cell.get("title")}
    assert set(DIFF) <= titled


@pytest.mark.parametrize(
    "call",
    [ulpscope.stats, ulpscope.digest, lambda x: ulpscope.diff(x, x)],
    ids=["stats", "digest", "diff"],
)
def test_other_threads_run_meanwhile(call: Callable[[Any], Any]) -> None:
    # A view of one element as many: long to measure, small to hold.
    x = torch.ones(1).expand(1 << 24)
    ticks, done = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(1e-4)

    interval = sys.getswitchinterval()
    # Nobody is made to hand over: the other thread runs only when the call itself lets it.
    sys.setswitchinterval(60)
    other = threading.Thread(target=tick)
    try:
        other.start()
        before = ticks
        call(x)
        after = ticks
    finally:
        done.set()
        sys.setswitchinterval(interval)
        other.join()
    assert after > before


def run(*arguments: str | Path, script: bool = True) -> subprocess.CompletedProcess[str]:
    program = (
        [str(Path(sys.executable).parent / "ulpscope")] if script else [sys.executable, "-m", "ulpscope"]
    )
    return subprocess.run([*program, *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.parametrize("script", [True, False], ids=["script", "python -m"])
def test_the_package_brings_the_command(script: bool, tmp_path: Path) -> None:
    assert run("--version", script=script).stdout == f"ulpscope {version('ulpscope')}\n"
    ulpscope.save(tmp_path / "a.npy", torch.ones(3))
    ulpscope.save(tmp_path / "b.npy", torch.zeros(3))
    codes = [
        run("diff", tmp_path / "a.npy", tmp_path / other, script=script).returncode
        for other in ("a.npy", "b.npy", "missing.npy")
    ]
    assert codes == [0, 1, 2]
    assert "stats" in run("--help", script=script).stdout


def python(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_importing_the_package_imports_no_framework(tmp_path: Path) -> None:
    ulpscope.save(tmp_path / "x.npy", torch.ones(3))
    code = "import ulpscope, sys; ulpscope.stats('x.npy'); print({'torch', 'numpy'} & set(sys.modules))"
    assert python(code, tmp_path) == "set()"


def test_where_there_is_no_torch_files_are_loaded_as_arrays(tmp_path: Path) -> None:
    ulpscope.save(tmp_path / "x.pt", {"x": torch.ones(3)})
    code = "import sys; sys.modules['torch'] = None; import ulpscope; print(type(ulpscope.load('x.pt')['x']))"
    assert python(code, tmp_path) == "<class 'numpy.ndarray'>"


class OlderTensor:
    """A tensor of a torch without an exchange table: all it has is methods."""

    def __init__(self, x: torch.Tensor, calls: list[str]) -> None:
        self.x, self.calls = x, calls
        self.dtype, self.shape, self.layout = x.dtype, x.shape, x.layout

    def data_ptr(self) -> int:
        return self.x.data_ptr()

    def stride(self) -> tuple[int, ...]:
        return self.x.stride()

    def __getattr__(self, name: str) -> Callable[[], OlderTensor]:
        if name not in ("detach", "cpu", "resolve_conj", "resolve_neg"):
            raise AttributeError(name)
        self.calls.append(name)
        return lambda: OlderTensor(getattr(self.x, name)(), self.calls)


@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_name)
def test_a_torch_without_an_exchange_table(dtype: torch.dtype, tmp_path: Path) -> None:
    whole = tensor_of(dtype, 6, 8)
    for x in (whole, whole.T, whole[1::2, ::3], whole[0].expand(5, 8), whole[2, 3], whole[:0]):
        calls: list[str] = []
        older = OlderTensor(x, calls)
        assert ulpscope.stats(older).to_json() == ulpscope.stats(x).to_json()
        assert calls == ["detach", "cpu", "resolve_conj", "resolve_neg"]
        assert ulpscope.diff(older, x).equal
        assert ulpscope.digest(older) == ulpscope.digest(x)
        ulpscope.save(tmp_path / "x.pt", {"x": older})
        assert_same(torch.load(tmp_path / "x.pt", weights_only=True)["x"], x)


def test_what_an_older_torch_leaves_pending() -> None:
    z = torch.randn(6, dtype=torch.complex64, requires_grad=True)
    for x in (z.conj(), z.conj().imag):
        assert ulpscope.diff(OlderTensor(x, []), x.detach().resolve_conj().resolve_neg()).equal
    with pytest.raises(ValueError, match=r"found torch\.sparse_coo"):
        ulpscope.stats(OlderTensor(torch.eye(2).to_sparse(), []))


def test_subclasses_of_tensors_are_tensors() -> None:
    class Weight(torch.Tensor):
        pass

    x = torch.randn(4, 3)
    for same in (x.as_subclass(Weight), torch.nn.Parameter(x), torch.nn.Buffer(x)):
        assert ulpscope.diff(same, x).equal
