"""Capture changes nothing: not one bit of any result, and nothing in torch that outlives it."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ulpscope
from capture_programs import PROGRAMS, Watch, changed, differences, observe
from capture_programs.networks import Transformer, next_token_loss, sentences
from levels import LEVELS
from patches import hooks_on_modules, hooks_on_node, hooks_on_tensor, left_behind, snapshot
from places import SUPPORT

TORCH = tuple(int(number) for number in torch.__version__.split("+")[0].split(".")[:2])
# Programs whose tensors are also written to disk: memory that is shared, short-lived or odd.
WRITTEN = [
    "transformer",
    "convolutions_with_residual_sums",
    "lstm",
    "writes_to_slices",
    "writes_through_views",
    "memory_shared_with_numpy",
    "freed_and_reused_memory",
    "storages_resized_to_nothing",
    "checkpoints_not_reentrant",
    "every_dtype",
    "complex_numbers",
    "sparse_tensors",
    "sparse_embedding_gradients",
    "nested_and_meta_tensors",
    "empty_and_zero_dimensional",
    "not_finite",
    "tensor_subclasses",
    "threads",
    "data_loader_workers",
    "no_grad_and_inference_mode",
]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Small programs gain nothing from more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def small_numbers() -> None:
    """Code that torch 2.1 compiles leaves the processor flushing small numbers to zero for good."""
    torch.set_flush_denormal(False)


@functools.cache
def alone(name: str) -> dict[str, Any]:
    """A program without capture. The first run is thrown away: torch loads and caches things in it."""
    try:
        observe(name)
    except (AttributeError, ImportError, RuntimeError, AssertionError) as error:
        if TORCH < (2, 6):
            pytest.skip(f"this release of torch cannot run it: {error!s:.80}")
        raise
    return observe(name)


def watching(folder: Path, **settings: Any) -> Watch:
    """Capture around the steps of a program. A program may open it more than once."""
    opened = iter(range(100))
    return lambda model: ulpscope.capture(folder / str(next(opened)), model=model, **settings)


def ledgers(folder: Path) -> list[dict[str, Any]]:
    """What the dumps under a folder say about themselves."""
    return [json.loads(file.read_text()) for file in sorted(folder.glob("**/ledger.json"))]


def leave_out_what_no_mode_allows(name: str, level: str) -> None:
    """Torch before 2.6 refuses `as_subclass` under any dispatch mode, the empty one included."""
    if TORCH < (2, 6) and (name, level) == ("tensor_subclasses", "L2"):
        pytest.skip("this release of torch has no as_subclass under a dispatch mode")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_bit_is_the_same(name: str, level: str, tmp_path: Path) -> None:
    alone(name)
    leave_out_what_no_mode_allows(name, level)
    before = snapshot()
    found = observe(name, watching(tmp_path, level=level, strict=True))
    assert changed(alone(name), found, level) == []
    assert list(left_behind(before, snapshot())) == []
    written = ledgers(tmp_path)
    in_dumps = [len(json.loads(file.read_text())["data"]) for file in sorted(tmp_path.glob("**/dump.json"))]
    assert written
    # Calls that raised are there as well, without results.
    present = [ledger["recorded"] + sum(ledger["raised"].values()) for ledger in written]
    assert present == in_dumps
    for ledger, calls in zip(written, present, strict=True):
        assert ledger["seen"] == calls + sum(ledger["skipped"].values())
        assert "began as the step ended" not in ledger["skipped"]
        assert ledger["failed"] == {}
        assert ledger["ended"] is None


@pytest.mark.parametrize("level", ["mix", "L2"])
@pytest.mark.parametrize("name", WRITTEN)
def test_every_bit_is_the_same_when_tensors_are_written(name: str, level: str, tmp_path: Path) -> None:
    leave_out_what_no_mode_allows(name, level)
    wanted = alone(name)
    found = observe(name, watching(tmp_path, level=level, task="tensor", strict=True))
    assert changed(wanted, found, level) == []
    assert all(ledger["failed"] == {} for ledger in ledgers(tmp_path))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_bit_is_the_same_when_calls_are_checked(name: str, tmp_path: Path) -> None:
    wanted, before = alone(name), snapshot()
    settings = {"task": "overflow_check", "overflow_nums": -1, "strict": True}
    found = observe(name, watching(tmp_path, level="L1", **settings))
    assert changed(wanted, found, "L1") == []
    assert list(left_behind(before, snapshot())) == []
    assert all(ledger["failed"] == {} for ledger in ledgers(tmp_path))


@pytest.mark.parametrize(
    "settings",
    [
        {"level": "mix", "task": "overflow_check", "overflow_nums": -1, "would_overflow": "float16"},
        {"level": "L2", "task": "overflow_check", "overflow_nums": -1},
        {"level": "L1", "task": "overflow_check", "overflow_nums": -1, "device_statistics": "torch"},
        {"level": "mix", "task": "structure"},
        {"level": "mix", "digest": "md5"},
        {"level": "L1", "digest": "xxh3"},
        {"level": "L1", "task": "tensor", "file_format": "npy"},
        {"level": "L1", "task": "tensor", "file_format": "safetensors"},
        {"level": "mix", "list": ["linear"]},
        {"level": "L1", "data_mode": ["forward"]},
        {"level": "mix", "step": [1]},
        {"level": "L1", "stacks": False, "max_calls": 20},
        {"level": "L1", "task": "tensor", "max_bytes": 4096},
    ],
    ids=lambda settings: "-".join(str(value) for value in settings.values()),
)
@pytest.mark.parametrize("name", ["transformer", "writes_to_slices", "checkpoints_reentrant"])
def test_no_setting_changes_a_bit(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    found = observe(name, watching(tmp_path, **settings))
    assert changed(alone(name), found, settings["level"]) == []


def test_the_comparison_of_runs_finds_the_last_bit() -> None:
    """Of a single parameter; otherwise nothing above proves anything."""

    class Nudge(nn.Module):
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            weight = next(model.parameters())
            with torch.no_grad():
                weight.view(-1).view(torch.int32)[0] ^= 1

        def __enter__(self) -> Nudge:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def step(self) -> None:
            pass

    found = list(differences(alone("transformer"), observe("transformer", Nudge)))  # type: ignore[arg-type]
    assert any("parameters" in line for line in found)


@pytest.mark.parametrize("level", LEVELS)
def test_no_hook_is_left(level: str, tmp_path: Path) -> None:
    """On the model, on its parameters, on what it made, and on the graph of what it made."""
    model = Transformer()
    model.blocks[0].register_forward_hook(lambda module, args, output: None)
    before, own = snapshot(), hooks_on_modules(model)
    (batch,) = sentences(1)
    with ulpscope.capture(tmp_path, model=model, level=level) as run:
        next_token_loss(model, batch).backward()
        kept = model(batch[:, :-1])
        nodes = [next_token_loss(model, batch).grad_fn, model(batch[:, :-1]).grad_fn]
        nodes.append((model.head.weight * 2).grad_fn)
        run.step()
        of_a_later_step = (model.head.weight * 2).exp().grad_fn
    assert hooks_on_modules(model) == own
    assert list(left_behind(before, snapshot())) == []
    assert hooks_on_tensor(kept) == {}
    assert [hooks_on_node(node) for node in [*nodes, of_a_later_step]] == [0, 0, 0, 0]


def test_stop_is_enough(tmp_path: Path) -> None:
    """Between stop and start torch is untouched as well, and nothing is recorded."""
    model = Transformer(layers=1)
    (batch,) = sentences(1)
    before, own = snapshot(), hooks_on_modules(model)
    run = ulpscope.capture(tmp_path, level="mix")
    assert list(left_behind(before, snapshot())) == []
    run.start(model)
    model(batch[:, :-1])
    run.stop()
    assert list(left_behind(before, snapshot())) == []
    assert hooks_on_modules(model) == own
    torch.sin(torch.ones(2))
    run.start(model)
    torch.cos(torch.ones(2))
    run.stop()
    run.step()
    run.close()
    dump = json.loads((tmp_path / "step0" / "rank" / "dump.json").read_text())["data"]
    assert "Torch.cos.0.forward" in dump
    assert "Torch.sin.0.forward" not in dump


def grown_after(*arguments: object) -> dict[str, int]:
    """What a process has more of after many captures."""
    script = [sys.executable, str(SUPPORT / "capture_cycles.py"), *map(str, arguments)]
    ran = subprocess.run(script, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, int] = json.loads(ran.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("task", "cycles"), [("statistics", 1000), ("tensor", 200)])
def test_a_thousand_steps_do_not_grow(task: str, cycles: int, tmp_path: Path) -> None:
    grown = grown_after("steps", tmp_path, task, cycles)
    assert grown["objects"] < 20
    # Two kilobytes a step: less than one forgotten graph, dictionary or stack.
    assert grown["resident bytes"] < 2 << 20
    assert grown["open files"] == 0
    assert len(list(tmp_path.glob("step*/rank/dump.json"))) == 100 + cycles


@pytest.mark.slow
def test_many_runs_do_not_grow(tmp_path: Path) -> None:
    grown = grown_after("runs", tmp_path)
    assert grown["objects"] < 20
    assert grown["resident bytes"] < 2 << 20
    assert grown["open files"] == 0


@pytest.mark.distributed
def test_two_gloo_ranks(tmp_path: Path) -> None:
    """DDP, both kinds of FSDP, distributed tensors and every collective, on two real processes."""
    script = SUPPORT / "capture_ranks.py"
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    printed = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(printed)
    for rank in range(2):
        found = json.loads((tmp_path / f"rank{rank}.json").read_text())
        assert len(found) == (6 if TORCH >= (2, 6) else 3) * len(LEVELS)
        assert {name: lines for name, lines in found.items() if lines} == {}
    for rank in range(2):
        dump = tmp_path / "collectives_L1" / "step1" / f"rank{rank}" / "dump.json"
        names = list(json.loads(dump.read_text())["data"])
        assert "Distributed.all_reduce.1.forward" in names
        assert "Distributed.batch_isend_irecv.0.forward" in names
