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
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

import ulpscope
from faults import ranks
from faults.benign import BENIGN, PLAIN, ULPS, Benign, threads
from faults.catalogue import FAULTS
from faults.models import MODELS, Program, build
from faults.planting import Call, Planted, plant, sites, watch
from faults.ranks import TASKS, Task

SEEDS = range(6)
# Not looked at while the method is worked on: a third of the seeds, and one model.
HELD_OUT_SEEDS = (4, 5)
HELD_OUT_MODEL = "unet"
DEPTHS = ("early", "middle", "late")
# What faults are also run on top of.
OTHER_KERNEL = {
    "gpt": "split-k",
    "encoder": "sdpa-math",
    "convnet": "channels-last",
    "rnn": "split-k",
    "moe": "split-k",
    "unet": "sdpa-math",
}
# For what takes seconds; one of these is held out.
SLOW_SEEDS = (0, 1, 4)
# The fault that takes two processes.
MISSING_SUM = "all-reduce-missing"


@dataclass(frozen=True)
class Case:
    """A pair of runs. ``fault`` is in the target, the golden runs under ``benign``."""

    model: str
    fault: str | None
    benign: str | None
    seed: int
    depth: str
    task: Task

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


def cases(held_out: bool, everything: bool = False) -> list[Case]:
    """Those for the final run, or the others.

    Every fault is planted once for each seed, at depths that take turns; with ``everything`` at all depths.
    Statistics are judged without a benign change beneath the fault.
    """
    return [case for case in _all(everything) if _is_held_out(case) == held_out]


def _is_held_out(case: Case) -> bool:
    return case.model == HELD_OUT_MODEL or case.seed in HELD_OUT_SEEDS


def _all(everything: bool) -> Iterator[Case]:
    for task in TASKS:
        for model in MODELS:
            for benign in BENIGN.values():
                if model in benign.models:
                    seeds = SLOW_SEEDS if benign.is_slow else SEEDS
                    yield from (Case(model, None, benign.name, seed, "", task) for seed in seeds)
            beneath = (None, "bf16", OTHER_KERNEL[model]) if task == "tensor" else (None,)
            for number, fault in enumerate((*FAULTS, MISSING_SUM)):
                for seed in SLOW_SEEDS if fault == MISSING_SUM else SEEDS:
                    depths = _depths(model, fault, seed)
                    if depths and not everything:
                        depths = (depths[(seed + number) % len(depths)],)
                    for depth in depths:
                        yield from (Case(model, fault, benign, seed, depth, task) for benign in beneath)


@cache
def _calls(model: str, seed: int) -> list[Call]:
    with threads(1):
        return watch(build(model, seed))


def _depths(model: str, fault: str, seed: int) -> tuple[str, ...]:
    """Where there are fewer calls than depths, each call is taken once."""
    if fault == MISSING_SUM:
        return DEPTHS if model in ranks.MODELS else ()
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


def _golden(case: Case, benign: Benign, task: Task, folder: Path) -> Path:
    two = "two-ranks-" if case.fault == MISSING_SUM else ""
    path = folder / "goldens" / case.model / f"seed{case.seed}" / f"{two}{benign.name}" / task

    def capture(dump: Path) -> None:
        if two:
            ranks.capture(case.model, case.seed, benign.name, task, -1, dump)
        else:
            program = build(case.model, case.seed)
            benign.prepare(program)
            _record(program, dump, task, benign.around())

    return _made(path, capture)


def _target(case: Case, task: Task, folder: Path) -> tuple[Path, Planted]:
    """The run with the fault; kept as long as nobody deletes it."""
    assert case.fault is not None
    path = folder / "targets" / case.model / case.fault / case.depth / f"seed{case.seed}" / task
    if case.fault == MISSING_SUM:
        count = ranks.parameters(case.model)
        number = (2 * DEPTHS.index(case.depth) + 1) * count // 6 + case.seed % (count // 6)
        call = f"{ranks.SUM}.{number}.forward"
        planted = Planted(call, f"{call}.output.0", rank=f"rank{ranks.FAULTY_RANK}")
        _made(path, lambda dump: ranks.capture(case.model, case.seed, PLAIN.name, task, number, dump))
        return path, planted
    program = build(case.model, case.seed)
    with plant(FAULTS[case.fault], program, _site(case), case.seed) as planted:
        _made(path, lambda dump: _record(program, dump, task, contextlib.nullcontext()))
    return path, planted


def _record(program: Program, dump: Path, task: Task, around: AbstractContextManager[object]) -> None:
    with (
        threads(1),
        around,
        ulpscope.capture(dump, model=program.model, level="mix", task=task, file_format="pt"),
    ):
        program.step()


def _made(path: Path, capture: Callable[[Path], None]) -> Path:
    """A dump that is there when it is complete, whoever else makes the same at the same time."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        dump = Path(scratch) / "dump"
        capture(dump)
        with contextlib.suppress(OSError):
            dump.rename(path)
    if not path.exists():
        raise RuntimeError(f"{path}: expected the dump of a run, found nothing")
    return path


def _truth(case: Case, folder: Path) -> Truth:
    """From the tensors of the fault alone, and of the benign change alone."""
    path = folder / "truths" / f"{case.name.replace('/', '_')}.json"
    if not path.exists():
        target, planted = _target(case, "tensor", folder)
        plain = _golden(case, PLAIN, "tensor", folder)
        other = _golden(case, BENIGN[case.benign] if case.benign else ULPS, "tensor", folder)
        if planted.takes_the_same:
            _check_inputs(planted, target, plain)
        construct = json.loads((target / "step0" / planted.rank / "construct.json").read_text())
        module, golden_entry = construct.get(planted.call), planted.golden_entry or planted.entry
        wanted = _tensor(plain, planted.rank, golden_entry)
        effect = _error(_tensor(target, planted.rank, planted.entry), wanted)
        floor = _error(_tensor(other, planted.rank, golden_entry), wanted)
        truth = Truth(planted.call, planted.accepted, module, effect, floor)
        if not effect > 0:
            raise RuntimeError(f"{case.name}: expected a fault at {planted.entry}, found none")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(truth)))
    found = json.loads(path.read_text())
    return Truth(**{**found, "accepted": tuple(found["accepted"])})


def _tensor(dump: Path, rank: str, entry: str) -> Tensor:
    file = dump / "step0" / rank / "dump_tensor_data" / f"{entry}.pt"
    tensor: Tensor = torch.load(file, weights_only=True)
    return tensor


def _error(found: Tensor, wanted: Tensor) -> float:
    """The relative L2 error, which NaN and infinities that are not on both sides make infinite."""
    found, wanted = found.double(), wanted.double()
    differs = found != wanted
    if not differs.any():
        return 0.0
    error = float((found - wanted)[differs].norm() / wanted[wanted.isfinite()].norm())
    return error if not math.isnan(error) else math.inf


def _check_inputs(planted: Planted, target: Path, plain: Path) -> None:
    """A fault that is not where it is said to be would make every answer wrong."""
    files = (plain / "step0" / planted.rank / "dump_tensor_data").glob(f"{planted.call}.input.*")
    for entry in sorted(file.stem for file in files):
        found, wanted = (_tensor(dump, planted.rank, entry) for dump in (target, plain))
        if not torch.equal(found, wanted):
            raise RuntimeError(f"{entry}: expected the same with the fault as without, found another")
