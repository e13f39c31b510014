"""Whether each fault is in the call that it is said to be in, and nowhere before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from captured import Captured
from faults import ranks
from faults.benign import BENIGN
from faults.cases import MISSING_SUM, Case, Truth, cases, run
from faults.catalogue import FAULTS
from faults.models import MODELS, build
from faults.planting import sites, watch

# What the last layer's numbers may differ by.
TOLERANCES = {"bf16": 0.05, "bf16-autocast": 0.05, "fp16-autocast": 0.01}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all tests of this file leave their runs, so that goldens are made once."""
    return tmp_path_factory.mktemp("faults")


def one_case_of_each_fault() -> Iterator[Case]:
    """Models and depths take turns."""
    everything = cases(held_out=False, everything=True) + cases(held_out=True, everything=True)
    for number, fault in enumerate(FAULTS):
        fitting = [
            case
            for case in everything
            if (case.fault, case.benign, case.task, case.seed) == (fault, None, "tensor", 0)
        ]
        assert fitting, f"no model has a call for {fault}"
        yield fitting[number % len(fitting)]


def names_of_differing_outputs(target: Path, golden: Path) -> Iterator[str]:
    """The calls of a target, in order, that give something else than in the golden. Modules are left out."""
    ours, theirs = Captured(target), Captured(golden)
    for name, call in ours.calls.items():
        if name.startswith("Module."):
            continue
        files = [item["data_name"] for item in call.get("output", []) if isinstance(item, dict)]
        for file in files:
            other = theirs.folder / "dump_tensor_data" / file
            found = torch.load(ours.folder / "dump_tensor_data" / file, weights_only=True)
            if not other.exists() or not torch.equal(found, torch.load(other, weights_only=True)):
                yield name
                break


@pytest.mark.slow
@pytest.mark.parametrize("case", list(one_case_of_each_fault()), ids=lambda case: case.name)
def test_the_named_call_is_the_first_that_returns_something_else(case: Case, folder: Path) -> None:
    """That it takes the same is checked by every run of a case."""
    target, golden, truth = run(case, folder)
    assert truth.counts
    differing = list(names_of_differing_outputs(target, golden))
    if truth.call is not None and truth.call.endswith(".backward"):
        assert truth.call in differing
        assert not [name for name in differing if name.endswith(".forward")]
    else:
        assert differing[0] == truth.call
    assert Captured(target).document("construct.json")[truth.call] == truth.module


def test_a_gradient_reaches_what_comes_after_it(folder: Path) -> None:
    """The wrong gradient is what the rest of the backward pass goes on with."""
    target, golden, truth = run(Case("gpt", "gradient-zeroed", None, 0, "late", "tensor"), folder)
    assert truth.call in names_of_differing_outputs(target, golden)
    weight = "Module.blocks.0.attention.qkv.Linear.parameters_grad.0"
    ours, theirs = (Captured(dump).calls[weight]["weight"][0]["Norm"] for dump in (target, golden))
    assert ours != theirs


@pytest.mark.distributed
def test_a_sum_that_one_process_never_gets(folder: Path) -> None:
    case = Case("gpt", MISSING_SUM, None, 0, "middle", "statistics")
    target, golden, truth = run(case, folder)
    assert truth.call is not None
    assert truth.call.startswith(f"{ranks.SUM}.")
    for rank in range(ranks.RANKS):
        ours, theirs = (Captured(dump, rank=f"rank{rank}").calls[truth.call] for dump in (target, golden))
        assert ours["input_args"][0]["Norm"] == theirs["input_args"][0]["Norm"]
        assert (ours["output"] != theirs["output"]) == (rank == ranks.FAULTY_RANK)


@pytest.mark.parametrize("benign", list(BENIGN))
def test_benign_changes_lead_to_the_same_numbers(benign: str, folder: Path) -> None:
    model = next(model for model in ("encoder", "convnet", "gpt") if model in BENIGN[benign].models)
    target, golden, truth = run(Case(model, None, benign, 0, "", "tensor"), folder)
    assert truth == Truth(None, (), None, 0.0, 0.0)
    ours, theirs = Captured(target), Captured(golden)
    name = "Module.head.Linear.forward.0"
    found, wanted = (
        one.tensor(one.calls[name]["output"][0]).double()[: 2 if benign == "micro-batches" else None]
        for one in (ours, theirs)
    )
    assert float((found - wanted).norm() / wanted.norm()) < TOLERANCES.get(benign, 1e-5)


@pytest.mark.parametrize("benign", ["checkpointed", "renamed", "no-op", "fused", "other-formula", "compiled"])
def test_benign_changes_of_the_program_show_in_the_dump(benign: str, folder: Path) -> None:
    """Else there would be nothing to be mistaken about."""
    target, golden, _ = run(Case("encoder", None, benign, 0, "", "tensor"), folder)
    assert set(Captured(target).calls) != set(Captured(golden).calls)


@pytest.mark.parametrize("benign", ["split-batch", "split-k", "sdpa-math", "fp64"])
def test_benign_changes_of_the_numbers_show_in_the_dump(benign: str, folder: Path) -> None:
    target, golden, _ = run(Case("encoder", None, benign, 0, "", "tensor"), folder)
    assert set(Captured(target).calls) == set(Captured(golden).calls)
    assert any(names_of_differing_outputs(target, golden))


@pytest.mark.parametrize("model", MODELS)
def test_calls_have_the_names_of_the_dump(model: str, folder: Path) -> None:
    """Counted by the mode as by the recorder: every kind as often as it is recorded."""
    _, golden, _ = run(Case(model, None, "threads", 0, "", "tensor"), folder)
    watched = [f"{call.name}.forward" for call in watch(build(model, 0))]
    kinds = {name.rsplit(".", 2)[0] for name in watched}
    recorded = [name for name in Captured(golden).calls if name.rsplit(".", 2)[0] in kinds]
    assert watched == [name for name in recorded if name.endswith(".forward")]


def test_experts_are_chosen_alike_in_few_bits() -> None:
    """Another choice would be another program, and no benign change."""
    for seed in range(6):
        chosen = []
        for dtype in (torch.float32, torch.bfloat16):
            program = build("moe", seed)
            program.to(dtype)
            calls = watch(program)
            chosen.append([call.tensors[1].tolist() for call in calls if call.kind == "Torch.index_select"])
        assert chosen[0] == chosen[1], seed


def test_the_final_run_is_kept_apart() -> None:
    seen, held_out = cases(held_out=False), cases(held_out=True)
    names = [case.name for case in seen + held_out]
    assert len(names) == len(set(names))
    assert not {(case.model, case.seed) for case in seen} & {(case.model, case.seed) for case in held_out}
    assert {case.fault for case in seen} == {None, MISSING_SUM, *FAULTS}
    benign = {(case.model, case.benign, case.seed) for case in seen if case.fault is None}
    assert len(benign) >= 60


def test_every_fault_has_calls_at_every_depth() -> None:
    calls = {model: watch(build(model, 0)) for model in MODELS}
    for fault in FAULTS.values():
        assert max(len(sites(fault, found)) for found in calls.values()) >= 3, fault.name


def test_truths_are_kept(folder: Path) -> None:
    """A second run of the same case tells the same, without the dumps it was learnt from."""
    case = Case("convnet", "scale-1.5", None, 0, "early", "statistics")
    first = run(case, folder)[2]
    for file in (folder / "truths").glob("convnet_scale-1.5_*.json"):
        assert json.loads(file.read_text())["call"] == first.call
    assert run(case, folder)[2] == first
