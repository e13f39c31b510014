"""The programs of `twin_programs`, dumped by Ulpscope or by mindstudio-probe.

    python capture_twins.py ulpscope FOLDER        python capture_twins.py mindstudio FOLDER

Every dump is made in a forked process, because mindstudio-probe changes torch for good. Both tools write
FOLDER/{program}_{task}_{level}/step{N}/...
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

import torch
from torch import nn

from twin_programs import PROGRAMS, Tool

DUMPS = [
    *((program, "statistics", level) for program in ("gpt", "edges") for level in ("L0", "L1", "mix")),
    *((program, "statistics", level) for program in ("conv", "recurrent", "moe") for level in ("L1", "mix")),
    ("gpt", "tensor", "mix"),
    ("edges", "tensor", "L1"),
]


def ulpscope_tool(folder: Path, task: str, level: str) -> Iterator[Tool]:
    """A run around all steps."""
    import ulpscope

    run = ulpscope.capture(folder, level=level, task=task)

    @contextmanager
    def iteration(model: nn.Module) -> Iterator[None]:
        run.start(model)
        yield
        run.stop()
        run.step()

    yield iteration
    run.close()


def mindstudio_tool(folder: Path, task: str, level: str) -> Iterator[Tool]:
    """All calls, not only those of the default risk level."""
    from msprobe.pytorch import PrecisionDebugger

    options = {"scope": [], "list": [], "data_mode": ["all"]}
    config = {"task": task, "dump_path": str(folder), "rank": [], "step": [], "level": level}
    file = folder.with_suffix(".json")
    file.write_text(json.dumps({**config, "risk_level": "ALL", task: options}))
    debugger = PrecisionDebugger(config_path=str(file))

    @contextmanager
    def iteration(model: nn.Module) -> Iterator[None]:
        debugger.start(model=model)
        yield
        debugger.stop()
        debugger.step()

    yield iteration


def main() -> int:
    """Makes all dumps with one of the tools."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    # What either tool and torch (with an optimizer) load at first use is loaded once, not in every process.
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    if name == "mindstudio":
        import msprobe.pytorch  # noqa: F401
    else:
        import ulpscope

        with ulpscope.capture(folder / "nothing"):
            torch.ones(1)
    tool = contextmanager({"ulpscope": ulpscope_tool, "mindstudio": mindstudio_tool}[name])
    for program, task, level in DUMPS:
        child = os.fork()
        if child == 0:
            try:
                torch.set_num_threads(1)
                torch.manual_seed(1234)
                with tool(folder / f"{program}_{task}_{level}", task, level) as around:
                    PROGRAMS[program](around)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
