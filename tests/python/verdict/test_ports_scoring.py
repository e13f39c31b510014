"""The suite of ports: how sources are edited, what counts as found, and what the tables say."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ports.__main__ import main
from ports.cases import cases, unseen_cases
from ports.dumps import Dump, forward_name, module_path, only_dump
from ports.edits import EditError, edited, plant, source_path
from ports.held_out import is_held_out
from ports.outcome import Outcome, as_outcomes, as_text
from ports.runs import Edit, Where, run
from ports.scoring import Answer, Truth, answers_of, is_exact, place, truth_of
from ports.table import line, markdown

SOURCE = "def double(x):\n    y = x\n    return y + x\n\n\nKEPT = double\n"
ATTENTION = "Module.layers.0.attn.Attention.forward.0"
MODEL_FILE = "/env/site-packages/library/model.py"


def frame(file: str, number: int) -> str:
    return f"File {file}, line {number}, in forward, \n x = f(x)"


TORCH_FRAME = frame("/env/site-packages/torch/nn/modules/module.py", 1790)


@pytest.fixture
def dump(tmp_path: Path) -> Dump:
    """A module with two calls: one of line 10, one of a function that line 20 calls."""
    folder = tmp_path / "step0" / "rank"
    folder.mkdir(parents=True)
    inner, outer = frame(MODEL_FILE, 10), frame(MODEL_FILE, 30)
    stacks = {
        "0": [["Torch.matmul.0.forward"], [inner, TORCH_FRAME, outer]],
        "1": [
            ["Tensor.__mul__.0.forward"],
            [frame(MODEL_FILE, 3), frame(MODEL_FILE, 20), TORCH_FRAME, outer],
        ],
        "2": [[ATTENTION], [TORCH_FRAME, outer]],
    }
    (folder / "stack.json").write_text(json.dumps(stacks))
    parents = {
        "Torch.matmul.0.forward": ATTENTION,
        "Tensor.__mul__.0.forward": [ATTENTION, 0],
        ATTENTION: None,
    }
    (folder / "construct.json").write_text(json.dumps({**parents, "Tensor.mean.0.forward": None}))
    return only_dump(tmp_path)


def answer(call: str, golden_call: str | None = None) -> Answer:
    return Answer(call, golden_call, None, "diverged here", 0.9)


def outcome(**values: object) -> Outcome:
    known = Outcome("bugs/a@same-code/tensor/backward", "bugs", "same code", "a", "tensor", True, False)
    return replace(known, **values)  # type: ignore[arg-type]


def test_an_edit_says_which_lines_it_changed() -> None:
    source, span = edited(
        SOURCE, Edit("m", "    y = x\n    return y + x", "    y = x\n    return y - x"), "f.py"
    )
    assert "return y - x" in source
    assert span == ("f.py", 3, 3)


@pytest.mark.parametrize(
    ("old", "new", "nth", "message"),
    [
        ("nothing", "something", 0, "found fewer"),
        ("y = x", "y = x * 2", 1, "found fewer"),
        ("y = x\n", "y = x", 0, "different number of lines"),
        ("y = x", "y = x", 0, "changes nothing"),
    ],
)
def test_an_edit_that_cannot_be_made_is_refused(old: str, new: str, nth: int, message: str) -> None:
    with pytest.raises(EditError, match=message):
        edited(SOURCE, Edit("m", old, new, nth), "f.py")


@pytest.mark.parametrize("is_imported", [False, True])
def test_edits_reach_modules_before_and_after_their_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_imported: bool
) -> None:
    name = f"edited_library_{is_imported}"
    package = tmp_path / name
    package.mkdir()
    # A package that imports its module, as libraries do.
    (package / "__init__.py").write_text(f"from {name}.model import KEPT\n")
    (package / "model.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    held = importlib.import_module(name).KEPT if is_imported else None
    spans = plant([Edit(f"{name}.model", "return y + x", "return y * 10")])
    assert spans == [(str(package / "model.py"), 3, 3)]
    assert (held or importlib.import_module(name).KEPT)(2) == 20
    assert (package / "model.py").read_text() == SOURCE


def test_a_module_that_is_not_there_is_refused() -> None:
    with pytest.raises(EditError, match="no such module"):
        source_path("ports.no_such_module")


def test_names_of_calls() -> None:
    assert module_path(ATTENTION) == "layers.0.attn"
    assert module_path("Torch.matmul.0.forward") is None
    assert forward_name("Torch.matmul.0.backward") == "Torch.matmul.0.forward"
    assert forward_name("Module.a.B.backward.3") == "Module.a.B.forward.3"


def test_calls_of_a_line_include_those_of_functions_but_not_of_modules(dump: Dump) -> None:
    def calls(first: int, last: int) -> frozenset[str]:
        return truth_of(dump, dump, [(MODEL_FILE, first, last)], Where()).calls

    assert calls(10, 10) == {"Torch.matmul.0.forward"}
    assert calls(20, 20) == {"Tensor.__mul__.0.forward"}
    # The line that calls the module is the line of that call alone.
    assert calls(30, 30) == {ATTENTION}


def test_a_case_may_name_calls_by_module_and_lines_after(dump: Dump) -> None:
    spans = [(MODEL_FILE, 9, 9)]
    assert truth_of(dump, dump, spans, Where()).calls == frozenset()
    assert truth_of(dump, dump, spans, Where(after=1)).calls == {"Torch.matmul.0.forward"}
    where = Where((("layers.*.attn", "Tensor.*"), ("", "parameter:*")), ((".", "Tensor.mean"),), lines=False)
    truth = truth_of(dump, dump, spans, where)
    assert truth.calls == {"Tensor.__mul__.0.forward"}
    assert truth.golden_calls == {"Tensor.__mul__.0.forward", "Tensor.mean.0.forward"}
    assert truth.modules == {"layers.0.attn"}
    assert truth.patterns == ("parameter:*",)


TRUTH = Truth(
    frozenset({"Torch.matmul.0.forward"}),
    frozenset({"Tensor.mul.5.forward"}),
    frozenset({"layers.0.attn"}),
    ("parameter:*",),
)
EXACT = answer("Torch.matmul.0.forward")
OTHER = answer("Tensor.mean.0.forward")


@pytest.mark.parametrize(
    ("answers", "exit_code", "error", "found"),
    [
        ([EXACT], 1, 0.5, "exact"),
        ([answer("Torch.matmul.0.backward"), OTHER], 1, 0.5, "exact"),
        ([answer("Tensor.mul.5.forward", "Tensor.mul.5.forward")], 1, 0.5, "exact"),
        ([answer("parameter:a.weight")], 1, 0.5, "exact"),
        ([answer("Tensor.__mul__.0.forward")], 1, 0.5, "module"),
        ([answer(ATTENTION)], 1, 0.5, "module"),
        ([OTHER, EXACT], 1, 0.5, "cut"),
        ([*[OTHER] * 11, EXACT], 1, 0.5, "cut"),
        ([*[OTHER] * 12, EXACT], 1, 0.5, "elsewhere"),
        # A call of the target that has the name of a call of the golden is not that one.
        ([answer("Tensor.mul.5.forward")], 1, 0.5, "elsewhere"),
        ([], 1, 0.5, "nothing"),
        ([], 2, 0.5, "nothing"),
        ([], 0, 0.5, "clean"),
        ([], 0, 1e-7, "no effect"),
    ],
)
def test_places(dump: Dump, answers: list[Answer], exit_code: int, error: float, found: str) -> None:
    assert place(answers, TRUTH, dump, exit_code, error) == found


def test_answers_are_those_of_all_ranks() -> None:
    one = {"call": "a", "golden_call": None, "module": None, "kind": "diverged here", "confidence": 0.5}
    two = {**one, "call": "b", "golden_call": "c"}
    found = answers_of({"ranks": [{"divergences": [one]}, {"error": "unreadable"}, {"divergences": [two]}]})
    assert [(answer.call, answer.golden_call) for answer in found] == [("a", None), ("b", "c")]
    assert not is_exact(found[0], TRUTH)


def test_the_suite_is_large_enough_and_half_is_held_out() -> None:
    found = cases()
    healthy = {case.name: case for case in found if case.part == "healthy"}
    bugs = {case.name.partition("@")[0]: case for case in found if case.part == "bugs"}
    assert len(healthy) >= 60
    assert len({case.architecture for case in healthy.values()}) >= 25
    assert len(bugs) >= 60
    for part in (healthy, bugs):
        share = sum(case.held_out for case in part.values()) / len(part)
        assert 0.4 <= share <= 0.6
    assert len({case.full_name for case in found}) == len(found)
    kinds = Counter(case.kind for case in found if case.part == "bugs")
    assert {"same code", "other release", "other implementation"} <= set(kinds)


def test_a_case_stays_on_its_side_whatever_its_golden_and_capture() -> None:
    assert is_held_out("bugs/a/b@same-code") == is_held_out("bugs/a/b@other-release")
    sides: dict[str, set[bool]] = {}
    for case in cases():
        sides.setdefault(case.name.partition("@")[0], set()).add(case.held_out)
    assert all(len(side) == 1 for side in sides.values())


def test_unseen_cases_are_apart_from_all_others() -> None:
    unseen = unseen_cases()
    assert all(case.unseen and not case.held_out for case in unseen)
    assert not any(case.unseen for case in cases())
    assert not {case.name for case in unseen} & {case.name for case in cases()}
    assert len({case.full_name for case in unseen}) == len(unseen)


def test_the_unseen_cases_are_many_and_of_further_architectures() -> None:
    unseen = unseen_cases()
    healthy = {case.name for case in unseen if case.part == "healthy"}
    kinds: dict[str, set[str]] = {}
    for case in unseen:
        if case.part == "bugs":
            kinds.setdefault(case.name.partition("@")[0], set()).add(case.kind)
    assert len(healthy) >= 24
    assert len(kinds) >= 24
    assert all("same code" in found for found in kinds.values())
    assert sum(len(found) > 1 for found in kinds.values()) >= 24
    architectures = {case.architecture for case in unseen}
    assert len(architectures) >= 16
    assert len(architectures - {case.architecture for case in cases()}) >= 10
    assert {(case.task, case.backward) for case in unseen} == {
        ("tensor", True),
        ("tensor", False),
        ("statistics", True),
    }


def test_every_bug_has_a_place_and_no_healthy_port_has_one() -> None:
    for case in [*cases(), *unseen_cases()]:
        assert (case.where is not None) == (case.part == "bugs"), case.name
        assert bool(case.target.edits) == (case.part == "bugs"), case.name
        assert not case.golden.edits, case.name


def test_runs_are_distinguished_by_all_that_they_are() -> None:
    edit = Edit("m", "a", "b")
    runs = [run("hf/llama"), run("hf/llama", "old"), run("hf/llama", dtype="bfloat16"), run("hf/bert")]
    runs += [replace(runs[0], edits=(edit,)), replace(runs[0], edits=(replace(edit, nth=1),))]
    assert len({one.key() for one in runs}) == len(runs)


def test_tables_count_by_kind_and_keep_failures_apart() -> None:
    found = [
        outcome(place="exact", exit_code=1, named=1, answers=("a (diverged here, 0.90)",), final_error=0.5),
        outcome(place="clean", exit_code=0, final_error=0.5),
        outcome(error="Traceback\nRuntimeError: it broke"),
        outcome(part="healthy", kind="other release", exit_code=0),
        outcome(part="healthy", kind="other release", exit_code=1),
        outcome(part="healthy", kind="other release", exit_code=1, named=2),
    ]
    text = markdown(found)
    assert "| all | tensor, with backward | 3 | 1 (33 %) | 1 | 1 | 0 |" in text
    assert "| same code | tensor, with backward | 3 | 1 (50 %) | 0 | 0 | 0 | 0 | 1 | 0 | 1 |" in text
    assert line(found[2]).endswith("FAILED TO RUN: RuntimeError: it broke")
    assert "exact, exit code 1, 1 named, final results differ by 5.0e-01; first: a" in line(found[0])


def test_results_are_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = [outcome(place="exact", exit_code=1, named=1, answers=("a",), wanted=("b",))]
    path = tmp_path / "results.json"
    path.write_text(as_text(found))
    assert as_outcomes(path.read_text()) == found
    assert main(["--read", str(path)]) == 0
    assert "| same code | tensor, with backward | 1 | 1 (100 %) |" in capsys.readouterr().out


def test_cases_are_chosen_by_name_part_and_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--everything", "--part", "bugs", "--case", "bugs/llama/scale-missing@*"]) == 0
    names = capsys.readouterr().out.split()
    assert "bugs/llama/scale-missing@same-code/tensor/backward" in names
    assert len(names) == 12
    with pytest.raises(SystemExit, match="no case has all"):
        main(["--case", "no-such-case"])


def test_unseen_cases_are_run_only_when_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    listed: dict[str, set[str]] = {}
    for option in ("--unseen", "--held-out", "--everything"):
        assert main(["--list", option]) == 0
        listed[option] = set(capsys.readouterr().out.split())
    assert main(["--list"]) == 0
    development = set(capsys.readouterr().out.split())
    assert listed["--unseen"] == {case.full_name for case in unseen_cases()}
    assert listed["--everything"] == development | listed["--held-out"]
    assert not listed["--unseen"] & listed["--everything"]
    assert not development & listed["--held-out"]


def test_rows_of_earlier_results_are_read() -> None:
    row = json.loads(as_text([outcome(exit_code=0)]))["cases"][0]
    del row["unseen"]
    assert as_outcomes(json.dumps({"cases": [row]})) == [outcome(exit_code=0)]


def test_a_worker_answers_what_went_wrong_in_a_run() -> None:
    request = {"program": "unknown/x", "options": {}, "edits": [], "task": "tensor", "backward": True}
    code = (
        "import json, sys; from ports.worker import answer; "
        f"print(json.dumps(answer({request | {'dump': '/nowhere', 'results': '/nowhere'}!r})))"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert "unknown/x: expected a program of" in json.loads(done.stdout)["error"]
