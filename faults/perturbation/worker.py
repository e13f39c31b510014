"""Runs every case under one tool, each in a forked process; prints the calls that it names as JSON.

    python -m faults.perturbation.worker TOOL MODE FOLDER

The tool is `ulpscope` or `msprobe`, in whose environment this runs.
"""

from __future__ import annotations

import csv
import importlib
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

# See tests/python/conftest.py.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

import torch
import torch.distributed as dist

from faults.perturbation.bad import CASES, Bad, planted
from faults.perturbation.healthy import NETWORKS, Step

# Steps of training of a healthy network.
STEPS = 2


# Runs a case, and calls what it gets after every step.
Program = Callable[[Callable[[], Any]], None]


def programs() -> dict[str, Callable[[], Program]]:
    """Every case by its name; a function that prepares it, before the tool starts."""
    found: dict[str, Callable[[], Program]] = {}
    for case in CASES:

        def prepare_bad(case: Bad = case) -> Program:
            def run(step: Callable[[], Any]) -> None:
                with planted(case):
                    case.program()
                step()

            return run

        found[case.fault] = prepare_bad
    for network in NETWORKS:

        def prepare_healthy(network: Callable[[], Step] = network) -> Program:
            torch.manual_seed(0)
            train = network()

            def run(step: Callable[[], Any]) -> None:
                for _ in range(STEPS):
                    train()
                    step()

            return run

        found[network.__name__] = prepare_healthy
    return found


def under_ulpscope(mode: Any, folder: Path, program: Program) -> list[str]:
    """The calls that Ulpscope names."""
    import ulpscope

    with ulpscope.check.perturb(folder, pert_mode=mode) as check:
        program(check.step)
    return [one.api_name for one in check.findings]


def under_msprobe(mode: str, folder: Path, program: Program) -> list[str]:
    """The calls that mindstudio-probe names."""
    debuggers: Any = importlib.import_module("msprobe.pytorch")

    folder.mkdir(parents=True, exist_ok=True)
    # Without a group the tool loses what it finds.
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=0, world_size=1)
    section = {
        "scope": [],
        "list": [],
        "fuzz_device": "npu",
        "pert_mode": mode,
        "handler_type": "check",
        "fuzz_level": "L1",
        "fuzz_stage": "forward",
        "if_preheat": False,
        "preheat_step": 15,
        "max_sample": 20,
    }
    config = {"task": "free_benchmark", "dump_path": str(folder), "rank": [], "step": [], "level": "L1"}
    file = folder / "config.json"
    file.write_text(json.dumps(config | {"free_benchmark": section}))
    debugger = debuggers.PrecisionDebugger(config_path=str(file))
    debugger.start()

    def step() -> None:
        debugger.stop()
        debugger.step()
        debugger.start()

    program(step)
    debugger.stop()
    tables = sorted(folder.rglob("free_benchmark.csv"))
    return [row["api_name"] for table in tables for row in csv.DictReader(table.open())]


def main() -> None:
    """Runs all cases."""
    tool, mode, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    warnings.simplefilter("ignore")
    under = {"ulpscope": under_ulpscope, "msprobe": under_msprobe}[tool]
    # Once, before the processes are forked: it takes seconds.
    importlib.import_module({"ulpscope": "ulpscope", "msprobe": "msprobe.pytorch"}[tool])
    # Optimizers load it.
    importlib.import_module("torch._dynamo")
    torch.set_num_threads(1)
    for number, (name, prepare) in enumerate(programs().items()):
        # What the tools print does not belong to the result.
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            try:
                answer: Any = under(mode, folder / str(number), prepare())
            except BaseException as error:
                answer = f"{type(error).__name__}: {error}"[:300]
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(json.dumps(answer).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answers:
            text = answers.read()
        os.waitpid(child, 0)
        print(json.dumps([name, json.loads(text or b'"ended without an answer"')]), flush=True)


if __name__ == "__main__":
    main()
