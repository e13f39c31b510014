"""The same scripts dumped by mindstudio-probe: names, numbers, and its own commands on our dumps."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import mindstudio
from capture_twins import DUMPS
from places import SUPPORT

pytestmark = pytest.mark.peer

SCRIPT = SUPPORT / "capture_twins.py"
PROGRAMS = SCRIPT.with_name("twin_programs.py")
STATISTICS = [dump for dump in DUMPS if dump[1] == "statistics"]


class Dumps(NamedTuple):
    """Both tools' dumps of every script, and the environment of the other tool."""

    ours: Path
    theirs: Path
    peer: Path

    def ranks(self, dump: tuple[str, str, str]) -> list[tuple[Path, Path]]:
        """Ours and theirs, step by step."""
        name = "_".join(dump)
        theirs = sorted((self.theirs / name).glob("step*/proc*"))
        assert len(theirs) == (2 if dump[0] == "gpt" else 1)
        return [(self.ours / name / rank.parent.name / "rank", rank) for rank in theirs]


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Dumps:
    """Made once for all tests."""
    peer = mindstudio.environment()
    folder = tmp_path_factory.mktemp("twins")
    for name, python in (("mindstudio", str(peer / "bin" / "python")), ("ulpscope", sys.executable)):
        ended = subprocess.run(
            [python, str(SCRIPT), name, str(folder / name)], capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
    return Dumps(folder / "ulpscope", folder / "mindstudio", peer)


def is_of_one_node(name: str, value: Any) -> bool:
    """Whether a row is not about the call but about one node that autograd has for it.

    As the gradients that an API gives, mindstudio-probe writes what the last node of the API gives: a weight
    transposed, a bias first, nothing for a number. Ours are the gradients of the tensors that the API was
    given, in their order. A call that was cut short returned nothing: a row there, and none here.
    """
    is_given = name.startswith(("Tensor.", "Torch.", "Functional.", "VF.")) and ".backward.output." in name
    return is_given or (value is None and (".backward" in name or ".output." in name))


@pytest.mark.parametrize("dump", DUMPS, ids="_".join)
def test_its_rows_pair_by_exact_name(dumps: Dumps, dump: tuple[str, str, str]) -> None:
    """At least 99 of 100 in every step of every dump. What is left is `1 / x`: one call here, two there."""
    for ours, theirs in dumps.ranks(dump):
        given, wanted = mindstudio.rows(ours), mindstudio.rows(theirs)
        counted = [name for name, value in wanted.items() if not is_of_one_node(name, value)]
        assert len(counted) >= 48
        lost = [name for name in counted if name not in given]
        assert len(lost) <= 0.01 * len(counted), lost


def test_rows_of_single_nodes_pair_as_well(dumps: Dumps) -> None:
    """Nearly all of them, and so 99 of 100 of all rows there are."""
    rows, nodes, missing, missing_nodes = 0, 0, 0, 0
    for ours, theirs in (ranks for dump in DUMPS for ranks in dumps.ranks(dump)):
        given = mindstudio.rows(ours)
        for name, value in mindstudio.rows(theirs).items():
            rows += 1
            nodes += is_of_one_node(name, value)
            missing += name not in given
            missing_nodes += name not in given and is_of_one_node(name, value)
    assert missing_nodes <= 0.05 * nodes
    assert missing <= 0.01 * rows


@pytest.mark.parametrize("dump", DUMPS, ids="_".join)
def test_arguments_have_the_same_type_and_shape(dumps: Dumps, dump: tuple[str, str, str]) -> None:
    """Of forward rows. A dtype given by position is `{}` there: ours says which."""
    for ours, theirs in dumps.ranks(dump):
        given = mindstudio.rows(ours)
        for name, wanted in mindstudio.rows(theirs).items():
            if ".forward" in name and name in given and wanted is not None:
                for key in ("type", "dtype", "shape", "requires_grad", "value"):
                    if key in wanted:
                        assert given[name][key] == wanted[key], (name, key)


def close(given: Any, wanted: Any) -> bool:
    """To 1e-5, with NaN equal to NaN."""
    if isinstance(wanted, bool):
        return given is wanted
    if not math.isfinite(wanted):
        return math.isnan(given) if math.isnan(wanted) else given == wanted
    return math.isclose(given, wanted, rel_tol=1e-5, abs_tol=1e-5)


@pytest.mark.parametrize("dump", STATISTICS, ids="_".join)
def test_forward_statistics_agree(dumps: Dumps, dump: tuple[str, str, str]) -> None:
    """To 1e-5, where it has a number. Its mean and norm of 16-bit tensors are rounded to 16 bits."""
    for ours, theirs in dumps.ranks(dump):
        given = mindstudio.rows(ours)
        checked = 0
        for name, wanted in mindstudio.rows(theirs).items():
            if ".forward" not in name or name not in given or not isinstance(wanted, dict):
                continue
            rounded = wanted.get("dtype") in ("torch.bfloat16", "torch.float16")
            for key in ("Max", "Min") if rounded else ("Max", "Min", "Mean", "Norm"):
                if wanted.get(key) is not None:
                    assert close(given[name][key], wanted[key]), (name, key, given[name], wanted)
                    checked += 1
        assert checked > 50


@pytest.mark.parametrize("dump", STATISTICS, ids="_".join)
def test_arriving_gradients_agree(dumps: Dumps, dump: tuple[str, str, str]) -> None:
    """Those that arrive at the results of APIs, and those of parameters: both tools mean the same by them."""
    for ours, theirs in dumps.ranks(dump):
        given, checked = mindstudio.rows(ours), 0
        for name, wanted in mindstudio.rows(theirs).items():
            arrives = ".backward.input." in name and not name.startswith("Module.")
            if not (arrives or ".parameters_grad." in name) or wanted is None:
                continue
            assert given[name]["shape"] == wanted["shape"], name
            for key in ("Max", "Min"):
                assert close(given[name][key], wanted[key]), (name, key, given[name], wanted)
                checked += 1
        assert checked >= 10


@pytest.mark.parametrize("dump", DUMPS, ids="_".join)
def test_parents_and_source_lines_are_the_same(dumps: Dumps, dump: tuple[str, str, str]) -> None:
    """Modules in construct.json, and the innermost line of the script in stack.json, of forward calls."""
    for ours, theirs in dumps.ranks(dump):
        given, wanted = (json.loads((rank / "construct.json").read_text()) for rank in (ours, theirs))
        shared = [name for name in wanted if ".forward" in name and name in given]
        assert [given[name] for name in shared] == [wanted[name] for name in shared]
        given, wanted = source_lines(ours), source_lines(theirs)
        shared = [name for name in wanted if name in given]
        assert len(shared) >= 0.99 * len(wanted)
        assert [given[name] for name in shared] == [wanted[name] for name in shared]


def source_lines(rank: Path) -> dict[str, str | None]:
    """For each call the innermost line of the script that led to it."""
    lines = {}
    for names, frames in json.loads((rank / "stack.json").read_text()).values():
        inside = [frame for frame in frames if PROGRAMS.name in frame]
        for name in names:
            lines[name] = inside[0] if inside else None
    return lines


def test_its_own_commands_take_our_dumps(dumps: Dumps, tmp_path: Path) -> None:
    """It finds no error in what both tools recorded of the same calls.

    It does warn of differences in the last digit of a norm, which are its own: it sums in float32. Tensors
    that are together in one file get a file each for it.
    """
    lines = []
    for dump in DUMPS:
        ours, theirs = dumps.ranks(dump)[0]
        if dump[1] == "tensor":
            packed, ours = ours, tmp_path / "unpacked" / "_".join(dump)
            command = ["convert", str(packed), "-o", str(ours), "--to", "pt"]
            subprocess.run([sys.executable, "-m", "ulpscope", *command], check=True)
        sides = ["-tp", str(ours / "dump.json"), "-gp", str(theirs / "dump.json")]
        lines.append(["compare", *sides, "-o", str(tmp_path / "_".join(dump))])
    checked = dumps.ours / "edges_statistics_L1" / "step0"
    lines.append(["overflow_check", "-i", str(checked), "-o", str(tmp_path / "overflow")])
    printed = mindstudio.commands(dumps.peer, lines)

    for dump in DUMPS:
        (result,) = (tmp_path / "_".join(dump)).glob("compare_result_*.csv")
        with result.open(newline="") as file:
            found = list(csv.DictReader(file))
        paired = [
            row for row in found if row["Bench Name"] != "N/A" and not is_of_one_node(row["NPU Name"], "")
        ]
        forward = [row for row in paired if ".forward" in row["NPU Name"]]
        assert len(forward) >= 25, printed
        wrong = [row for row in forward if row["Result"] == "error"]
        assert not wrong, wrong[:3]
    (overflow,) = (tmp_path / "overflow").glob("anomaly_analyze_*.json")
    ((first, *_),) = json.loads(overflow.read_text()).values()
    assert first["op_name"] == "Torch.div.0.forward"
