"""The fault suite's judges and scores: what counts as found, what is shown, and that nothing gets lost."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import time
from itertools import pairwise
from pathlib import Path

import pytest

import mindstudio
from faults import outcome as kept
from faults.__main__ import main, sample
from faults.cases import Case, Truth, cases, run
from faults.judges import Judges, Msprobe, judgement, ranks
from faults.outcome import Answer, Judgement, Outcome
from faults.processes import Job, groups, outcomes
from faults.scoring import BARS, Replays, Score, alarms, holds, replays, score, tally
from faults.table import markdown, percent, plain, replay_table
from places import SUPPORT

FC = "Module.layers.3.fc.Linear"
TRUTH = Truth(
    "Functional.linear.7.forward",
    ("parameter:layers.3.fc.weight", "Functional.linear.6.forward"),
    f"{FC}.forward.0",
    0.5,
    1e-6,
)
BENIGN = Truth(None, (), None, 0.0, 0.0)


def answer(call: str, *names: str, module: str | None = None) -> Answer:
    return Answer(call, (call, *names), module, "diverged here")


ELSEWHERE = answer("Functional.relu.0.forward", module="Module.layers.3.ReLU.forward.0")
EXACT = answer("Functional.linear.7.forward", module=f"{FC}.forward.0")


def case(fault: str | None, seed: int = 0, benign: str | None = None, task: str = "tensor") -> Case:
    return Case("gpt", fault, benign, seed, "early" if fault else "", task)


def outcome(fault: str | None, *answers: Answer, seed: int = 0, truth: Truth | None = TRUTH) -> Outcome:
    truth = BENIGN if fault is None and truth is TRUTH else truth
    benign = None if fault else "fp64"
    said = {"ulpscope": Judgement(answers, len(answers))} if truth else {}
    error = None if truth else "Traceback\nRuntimeError: it broke"
    return Outcome(case(fault, seed, benign), truth, said, error)


@pytest.mark.parametrize(
    ("answers", "place", "within_three"),
    [
        ([EXACT], "exact", True),
        ([answer("Functional.add.0.forward", "Functional.linear.6.forward")], "exact", True),
        ([answer("Functional.add.0.forward", "parameter:layers.3.fc.weight")], "exact", True),
        ([answer("Functional.add.0.forward", module=TRUTH.module)], "module", False),
        ([answer("Tensor.mul.0.backward", module=f"{FC}.backward.0")], "module", False),
        ([answer(f"{FC}.forward.0", module="Module.layers.3.Block.forward.0")], "module", False),
        ([answer(f"{FC}.parameters_grad.0")], "module", False),
        ([answer("Functional.linear.70.forward", module=f"{FC}2.forward.0")], "elsewhere", False),
        ([answer("Module.layers.3.Block.forward.0")], "elsewhere", False),
        ([ELSEWHERE, ELSEWHERE, EXACT], "elsewhere", True),
        ([ELSEWHERE, ELSEWHERE, ELSEWHERE, EXACT], "elsewhere", False),
        ([], "missed", False),
    ],
)
def test_score_is_that_of_the_first_answer(answers: list[Answer], place: str, within_three: bool) -> None:
    assert score(TRUTH, Judgement(tuple(answers), len(answers))) == Score(place, within_three)


def test_a_tool_that_fails_has_found_nothing() -> None:
    failed = Outcome(case("scale"), TRUTH, {"ulpscope": Judgement((EXACT,), 1, error="it broke")})
    assert score(TRUTH, failed.judgements["ulpscope"]) == Score("error", False)
    found = tally([failed, outcome("scale", EXACT)], "ulpscope")
    assert (found.counted, found.exact, found.error, found.exact_share) == (2, 1, 1, 0.5)


def test_no_module_is_the_module_of_a_call_outside_of_modules() -> None:
    bare = Truth("Functional.linear.7.forward", (), None, 0.5, 1e-6)
    assert score(bare, Judgement((answer("Functional.relu.0.forward"),), 1)).place == "elsewhere"


def test_faults_below_the_floor_do_not_count_and_failed_cases_do() -> None:
    below = Truth("Functional.linear.7.forward", (), None, 1e-6, 0.6e-6)
    found = tally(
        [
            outcome("scale", truth=below),
            outcome("scale", EXACT, truth=below),
            outcome("scale", truth=None),
            outcome("scale", EXACT),
            outcome(None, EXACT),
        ],
        "ulpscope",
    )
    assert (found.counted, found.below, found.exact, found.within_three, found.error) == (2, 2, 1, 1, 1)


def test_any_answer_about_a_benign_pair_is_an_alarm() -> None:
    pairs = [outcome(None, seed=seed) for seed in range(59)]
    bar = next(bar for bar in BARS if bar.pairs == 60)
    assert holds(bar, pairs, "ulpscope") is False
    assert holds(bar, [*pairs, outcome(None)], "ulpscope") is True
    assert holds(bar, [*pairs, outcome(None), outcome(None, ELSEWHERE)], "ulpscope") is False
    assert holds(bar, [*pairs, outcome(None), outcome(None, truth=None)], "ulpscope") is False
    counted = alarms([*pairs, outcome(None, ELSEWHERE), outcome("scale", EXACT)], "ulpscope")
    assert (counted.pairs, counted.raised, counted.error) == (60, 1, 0)


def test_replays_are_counted_by_what_they_say_and_whether_it_is_true() -> None:
    def replayed(fault: str | None, answers: list[tuple[Answer, str]], refuted: list[Answer]) -> Outcome:
        said = tuple(dataclasses.replace(answer, proof=proof) for answer, proof in answers)
        told = {"ulpscope-prove": Judgement(said, len(said), refuted=tuple(refuted))}
        benign = None if fault else "fp64"
        return Outcome(case(fault, 0, benign), BENIGN if fault is None else TRUTH, told)

    faulty = [
        replayed("scale", [(EXACT, "proved"), (ELSEWHERE, "not replayable")], []),
        replayed("scale", [(ELSEWHERE, "proved")], [EXACT, ELSEWHERE]),
        # A case that could not be run says nothing.
        outcome("scale", truth=None),
    ]
    benign = [replayed(None, [], [ELSEWHERE]), replayed(None, [(EXACT, "proved")], [])]
    assert replays(faulty, "ulpscope-prove") == Replays(
        proved=2, not_replayable=1, refuted=2, true_refuted=1, false_proved=1
    )
    # Without a planted fault, a proof is wrong, and nothing that is refuted is true.
    assert replays(benign, "ulpscope-prove") == Replays(
        proved=1, not_replayable=0, refuted=1, true_refuted=0, false_proved=1
    )
    table = replay_table([*faulty, *benign], "ulpscope-prove")
    assert [row[1:] for row in table.rows] == [("2", "1", "1", "2", "1"), ("1", "1", "0", "1", "0")]
    assert table.head[1:] == ("proved", "of these elsewhere", "not replayable", "refuted", "of these planted")


def test_bars_are_kept_at_the_share_they_name_and_not_below() -> None:
    bar = BARS[0]
    assert (bar.exact, bar.within_three) == (0.95, 0.99)
    within = [outcome("scale", ELSEWHERE, EXACT)] * 5
    assert holds(bar, [*[outcome("scale", EXACT)] * 95, *within], "ulpscope") is True
    assert holds(bar, [*[outcome("scale", EXACT)] * 94, *within, *within[:1]], "ulpscope") is False
    outside = [outcome("scale", ELSEWHERE)] * 2
    assert holds(bar, [*[outcome("scale", EXACT)] * 98, *outside], "ulpscope") is False
    assert holds(bar, [outcome(None)], "ulpscope") is None


def test_every_case_is_covered_by_one_bar() -> None:
    for one in cases(held_out=False) + cases(held_out=True):
        assert sum(bar.covers(one) for bar in BARS) == 1, one.name


def write_rank(folder: Path, calls: dict[str, str | None]) -> None:
    folder.mkdir(parents=True)
    (folder / "dump.json").write_text(json.dumps({"task": "tensor", "data": {call: {} for call in calls}}))
    (folder / "construct.json").write_text(json.dumps(calls))


def test_rows_become_calls_by_the_names_in_the_dump(tmp_path: Path) -> None:
    calls: dict[str, str | None] = {
        "Functional.linear.1.forward": "Module.fc.Linear.forward.0",
        "Module.fc.Linear.forward.0": None,
        "Functional.linear.10.forward": None,
    }
    write_rank(tmp_path / "step0" / "rank", calls)
    (rank,) = ranks(tmp_path)
    said = judgement(
        [
            (0, rank, "Functional.linear.10.forward.output.0", "error"),
            (1, rank, "Functional.linear.1.forward.input.kwargs.weight", "error"),
            (2, rank, "Functional.linear.1.forward.output.0", "error"),
            (3, rank, "Module.fc.Linear.forward.0.output.0", "error"),
            (4, rank, "Nobody.knows.0.output.0", "error"),
        ]
    )
    assert said.total == 4
    assert [one.call for one in said.answers] == [
        "Functional.linear.10.forward",
        "Functional.linear.1.forward",
        "Module.fc.Linear.forward.0",
    ]
    assert [one.module for one in said.answers] == [None, "Module.fc.Linear.forward.0", None]


def test_the_earliest_row_of_any_rank_goes_first(tmp_path: Path) -> None:
    for number in range(2):
        write_rank(
            tmp_path / "step0" / f"rank{number}", {f"Functional.relu.{n}.forward": None for n in range(3)}
        )
    first, second = ranks(tmp_path)
    said = judgement(
        [
            (5, first, "Functional.relu.2.forward.output.0", "No"),
            (3, second, "Functional.relu.1.forward.output.0", "No"),
        ]
    )
    assert [one.call for one in said.answers] == ["Functional.relu.1.forward", "Functional.relu.2.forward"]


def test_a_folder_without_a_dump_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"found no dump\.json"):
        ranks(tmp_path)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Truth]:
    """A result half as large again in the middle of a model."""
    return run(Case("gpt", "scale-1.5", None, 0, "middle", "tensor"), tmp_path_factory.mktemp("pair"))


def test_judges_answer_and_a_failing_one_stops_no_other(
    planted: tuple[Path, Path, Truth], tmp_path: Path
) -> None:
    target, golden, truth = planted
    # An environment without the tool: what it runs ends at once.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("/bin/false")
    judges = Judges(("msprobe", "ulpscope", "ptdbg"), tmp_path)
    said = judges(target, golden)
    judges.close()
    assert said["msprobe"].error is not None
    assert "the process of mindstudio-probe ended with 1" in said["msprobe"].error
    assert score(truth, said["ulpscope"]).place == "exact"
    assert said["ptdbg"].error is None
    same = judges(golden, golden)
    judges.close()
    assert [same[tool].answers for tool in ("ulpscope", "ptdbg")] == [(), ()]


@pytest.mark.peer
def test_msprobe_says_what_its_command_says(planted: tuple[Path, Path, Truth], tmp_path: Path) -> None:
    target, golden, _ = planted
    peer = mindstudio.environment()
    (pair,) = zip(ranks(target), ranks(golden), strict=True)
    sides = ["-tp", str(pair[0].folder / "dump.json"), "-gp", str(pair[1].folder / "dump.json")]
    mindstudio.commands(peer, [["compare", *sides, "-o", str(tmp_path / "out")]])
    (table,) = (tmp_path / "out").glob("*.csv")
    with table.open(newline="") as lines:
        failing = [row["NPU Name"] for row in csv.DictReader(lines) if row["Result"] == "error"]
    assert failing, "the tool sees nothing: the test needs another fault"
    tool = Msprobe(peer)
    try:
        said = tool.compare(target, golden)
        first = tool.first_difference(target, golden)
        assert tool.compare(golden, golden) == Judgement()
        assert tool.first_difference(golden, golden) == Judgement()
    finally:
        tool.close()
    calls = list(dict.fromkeys(pair[0].call_of(row) for row in failing))
    assert ([one.call for one in said.answers], said.total) == (calls[:3], len(calls))
    assert first.total == 1


def run_or_die(one: Case, folder: Path) -> tuple[Path, Path, Truth]:
    """Stands for captures that go wrong in every way."""
    match one.depth:
        case "early":
            os._exit(7)
        case "middle":
            raise ValueError("no such luck")
        case "late":
            time.sleep(600)
    return folder, folder, TRUTH


@pytest.mark.slow
def test_a_case_that_crashes_is_reported_and_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), str(SUPPORT)]))
    wanted = [
        Case("gpt", "scale", None, seed, depth, "tensor")
        for seed in (0, 1)
        for depth in ("early", "middle", "late", "none")
    ]
    job = Job((), None, tmp_path, keep=False, run=run_or_die)
    found = {one.case: one for one in outcomes(wanted, job, 2, limit=5)}
    assert set(found) == set(wanted)
    last = {
        "early": "the process ended with 7",
        "middle": "ValueError: no such luck",
        "late": "the case took more than 5 seconds",
    }
    for one in wanted:
        error = found[one].error
        if one.depth == "none":
            assert (error, found[one].truth) == (None, TRUTH)
        else:
            assert error is not None
            assert error.splitlines()[-1] == last[one.depth]
    assert not [path for path in tmp_path.iterdir() if path.is_dir() and any(path.iterdir())]


def test_groups_share_captures_and_keep_a_target_together() -> None:
    found = groups(cases(held_out=False))
    assert sum(map(len, found.values())) == len(cases(held_out=False))
    for name, group in found.items():
        assert {f"{one.model}/seed{one.seed}" for one in group} == {name}
        planted = [(one.fault, one.depth) for one in group]
        changes = sum(a != b for a, b in pairwise(planted))
        assert changes == len(set(planted)) - 1


OUTCOMES = [
    outcome("scale", EXACT),
    outcome("scale", ELSEWHERE, EXACT, seed=1),
    outcome("nan", seed=2),
    outcome("nan", truth=None),
    outcome(None),
    outcome(None, ELSEWHERE, seed=1),
]


def test_tables_show_every_case_once() -> None:
    shown = plain(OUTCOMES, ["ulpscope"])
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "nan gpt 2 0 0/0/0/0/1 +1 failed" in lines
    assert "scale gpt 2 0 1/2/0/1/0" in lines
    assert "all 4 0 1/2/0/1/1 +1 failed" in lines
    assert "fp64 2 1" in lines
    assert "gpt/nan/early/seed0/alone/tensor RuntimeError: it broke" in lines
    assert any(line.startswith("gpt/benign/seed1/on-fp64/tensor false alarm") for line in lines)
    assert any(
        line.startswith("gpt/scale/early/seed1/alone/tensor elsewhere, within three") for line in lines
    )
    assert any("25.0 % exact, 50.0 % within three: not kept" in line for line in lines)


def test_markdown_rows_are_as_long_as_their_heads() -> None:
    text = markdown(OUTCOMES, ["ulpscope"])
    tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("|")]
    assert len(tables) >= 5
    for head, *rows in tables:
        assert {row.count("|") for row in rows} == {head.count("|")}


def test_shares_are_not_rounded_up() -> None:
    assert [percent(share) for share in (0.95, 0.94999, 1.0, 0.9999, None)] == [
        *("95.0 %", "94.9 %", "100.0 %", "99.9 %", "-")
    ]


def test_a_file_of_outcomes_shows_the_same_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"cases": [kept.as_json(one) for one in OUTCOMES]}))
    assert kept.read(file) == OUTCOMES
    assert main(["--read", str(file)]) == 0
    assert capsys.readouterr().out == plain(kept.by_name(OUTCOMES), ["ulpscope"])


def test_the_list_is_narrowed_by_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--model", "gpt", "--fault", "scale-1.5,none", "--benign", "none", "--all"]) == 0
    names = capsys.readouterr().out.split()
    assert names
    assert all(name.startswith("gpt/scale-1.5/") and "/alone/" in name for name in names)
    with pytest.raises(SystemExit, match=r"--model: expected some of .*gpt.*, found gtp"):
        main(["--list", "--model", "gtp"])


@pytest.mark.parametrize("held_out", [False, True])
def test_the_sample_leaves_out_no_fault_no_depth_and_no_seed(held_out: bool) -> None:
    everything = cases(held_out)
    chosen = sample(everything)
    assert 0 < len(chosen) < len(everything)
    for key in (
        lambda one: (one.model, one.fault, one.benign, one.task),
        lambda one: (one.model, one.fault, one.depth),
        lambda one: (one.model, one.seed),
    ):
        assert {key(one) for one in chosen} == {key(one) for one in everything}
    assert [one for one in everything if one.fault is None] == [one for one in chosen if one.fault is None]
