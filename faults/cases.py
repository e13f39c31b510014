"""Which cases there are, and how one is run.

    case ──► target: the fault in one call          ─┐
         └─► golden: the benign change, if any       ┴──► two dumps, and the truth of which call is wrong

Goldens and truths are kept under the folder, by what they are of, and made once.
"""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

import ulpscope
from faults.benign import BENIGN, PLAIN, ULPS, Benign, threads
from faults.catalogue import FAULTS
from faults.models import MODELS, Program, build
from faults.planting import Call, Planted, plant, sites, watch

SEEDS = range(6)
# Not looked at while the method is worked on: a third of the seeds, and one model.
HELD_OUT_SEEDS = (4, 5)
HELD_OUT_MODEL = "unet"
DEPTHS = ("early", "middle", "late")
# What faults are also run on top of.
OTHER_KERNEL = dict.fromkeys(MODELS, "threads")


@dataclass(frozen=True)
class Case:
    """A pair of runs. ``fault`` is in the target, the golden runs under ``benign``."""

    model: str
    fault: str | None
    benign: str | None
    seed: int
    depth: str
    task: str

    @property
    def name(self) -> str:
        """Unique, and good as a path: ``gpt/scale-1.5/early/seed0/on-bf16/tensor``."""
        planted = f"{self.fault}/{self.depth}" if self.fault else "benign"
        on = f"on-{self.benign}" if self.benign else "alone"
        return f"{self.model}/{planted}/seed{self.seed}/{on}/{self.task}"


@dataclass(frozen=True)
class Truth:
    """What a right answer names, and whether the fault can be seen above the noise."""

    call: str | None
    accepted: tuple[str, ...]
    module: str | None
    effect: float
    floor: float

    @property
    def counts(self) -> bool:
        """Whether the fault does more than twice what rounding does."""
        return self.effect > 2 * self.floor


def cases(held_out: bool) -> list[Case]:
    """All cases: those for the final run, or the others."""
    return [case for case in _all() if _is_held_out(case) == held_out]


def _is_held_out(case: Case) -> bool:
    return case.model == HELD_OUT_MODEL or case.seed in HELD_OUT_SEEDS


def _all() -> Iterator[Case]:
    for task in ("tensor", "statistics"):
        for model in MODELS:
            for benign in BENIGN.values():
                if model in benign.models:
                    yield from (Case(model, None, benign.name, seed, "", task) for seed in SEEDS)
            for name in FAULTS:
                for seed in SEEDS:
                    for depth in _depths(model, name, seed):
                        for on in (None, "bf16", OTHER_KERNEL[model]):
                            yield Case(model, name, on, seed, depth, task)


@cache
def _calls(model: str, seed: int) -> list[Call]:
    with threads(1):
        return watch(build(model, seed))


def _depths(model: str, fault: str, seed: int) -> tuple[str, ...]:
    """Where there are fewer calls than depths, each call is taken once."""
    count = len(sites(FAULTS[fault], _calls(model, seed)))
    return {0: (), 1: ("middle",), 2: ("early", "late")}.get(count, DEPTHS)


def _site(case: Case) -> Call:
    """The call a fault is planted in: some call of the right third of those it can be in."""
    assert case.fault is not None
    found = sites(FAULTS[case.fault], _calls(case.model, case.seed))
    depths = _depths(case.model, case.fault, case.seed)
    if case.depth not in depths:
        raise ValueError(f"{case.name}: expected one of the depths {depths}")
    place, parts = depths.index(case.depth), len(depths)
    third = found[place * len(found) // parts : (place + 1) * len(found) // parts]
    # Neighbouring seeds take calls that are far from each other, of different kinds.
    return third[(case.seed * 7 + len(case.fault)) % len(third)]


def run(case: Case, folder: Path) -> tuple[Path, Path, Truth]:
    """Makes both dumps of a case. Returns the target, the golden and the truth."""
    golden = _golden(case, BENIGN[case.benign] if case.benign else PLAIN, case.task, folder)
    if case.fault is None:
        return _golden(case, PLAIN, case.task, folder), golden, Truth(None, (), None, 0.0, 0.0)
    target, _ = _target(case, case.task, folder)
    return target, golden, _truth(case, folder)


def _golden(case: Case, benign: Benign, task: str, folder: Path) -> Path:
    path = folder / "goldens" / case.model / f"seed{case.seed}" / benign.name / task
    if not path.exists():
        program = build(case.model, case.seed)
        benign.prepare(program)
        _capture(program, path, task, benign.around())
    return path


def _target(case: Case, task: str, folder: Path) -> tuple[Path, Planted]:
    """The run with the fault; kept as long as nobody deletes it."""
    assert case.fault is not None
    path = folder / "targets" / case.model / case.fault / case.depth / f"seed{case.seed}" / task
    program, site = build(case.model, case.seed), _site(case)
    with plant(FAULTS[case.fault], program, site, case.seed) as planted:
        if not path.exists():
            _capture(program, path, task, contextlib.nullcontext())
    return path, planted


def _capture(program: Program, path: Path, task: str, around: AbstractContextManager[object]) -> None:
    """Records a step. The dump is there when it is complete, whoever else makes the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        made = Path(scratch) / "dump"
        with threads(1), around, ulpscope.capture(made, model=program.model, level="mix", task=task):
            program.step()
        with contextlib.suppress(OSError):
            made.rename(path)
    if not path.exists():
        raise RuntimeError(f"{path}: expected the dump of a run, found nothing")


def _truth(case: Case, folder: Path) -> Truth:
    """From the tensors of the fault alone, and of the benign change alone."""
    path = folder / "truths" / f"{case.name.replace('/', '_')}.json"
    if not path.exists():
        target, planted = _target(case, "tensor", folder)
        plain = _golden(case, PLAIN, "tensor", folder)
        other = _golden(case, BENIGN[case.benign] if case.benign else ULPS, "tensor", folder)
        if planted.takes_the_same:
            _check_inputs(planted, target, plain)
        module = json.loads((_rank(target) / "construct.json").read_text()).get(planted.call)
        effect, floor = (_error(planted.entry, one, plain) for one in (target, other))
        truth = Truth(planted.call, planted.accepted, module, effect, floor)
        if not effect > 0:
            raise RuntimeError(f"{case.name}: expected a fault at {planted.entry}, found none")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(truth)))
    found = json.loads(path.read_text())
    return Truth(**{**found, "accepted": tuple(found["accepted"])})


def _rank(dump: Path) -> Path:
    return dump / "step0" / "rank"


def _tensor(dump: Path, entry: str) -> Tensor:
    tensor: Tensor = torch.load(_rank(dump) / "dump_tensor_data" / f"{entry}.pt", weights_only=True)
    return tensor


def _error(entry: str, one: Path, other: Path) -> float:
    """The relative L2 error of an entry, which NaN and infinities make infinite."""
    found, wanted = (_tensor(dump, entry).double() for dump in (one, other))
    error = float((found - wanted).norm() / wanted.norm())
    return error if not math.isnan(error) else math.inf


def _check_inputs(planted: Planted, target: Path, plain: Path) -> None:
    """A fault that is not where it is said to be would make every answer wrong."""
    names = [one.stem for one in (_rank(plain) / "dump_tensor_data").glob(f"{planted.call}.input.*")]
    for name in names:
        if not torch.equal(_tensor(target, name), _tensor(plain, name)):
            raise RuntimeError(f"{planted.call}: expected the same {name} with and without the fault")
