"""Captures again and again, and prints what the process has more of afterwards.

    python capture_cycles.py steps FOLDER TASK CYCLES   many steps of one run
    python capture_cycles.py runs FOLDER                many runs, each into the same folder

A process of its own: the memory of one that has run other tests grows by itself.
"""

import gc
import json
import logging
import resource
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn

import ulpscope

# Memory that is lost in each cycle is lost in each part of them. Memory that is taken once, whenever that
# happens, is not: the stack of a thread that starts late, or another arena of the allocator, of which many
# cores have many.
PARTS = 4
MEMORY = "resident bytes"


def grown(warm_up: int, cycles: int, once: Callable[[], None]) -> dict[str, int]:
    """How much more there is after the cycles than before; of memory, by the part that added least."""
    for _ in range(warm_up):
        once()
    counts = [there_is()]
    for _ in range(PARTS):
        for _ in range(cycles // PARTS):
            once()
        counts.append(there_is())
    more = {name: count - counts[0][name] for name, count in counts[-1].items()}
    more[MEMORY] = PARTS * min(after[MEMORY] - before[MEMORY] for before, after in pairwise(counts))
    return more


def there_is() -> dict[str, int]:
    """What this process has."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "objects": len(gc.get_objects()),
        MEMORY: pages * resource.getpagesize(),
        "open files": len(list(Path("/proc/self/fd").iterdir())),
    }


def steps(folder: Path, task: str, cycles: int) -> dict[str, int]:
    """Each step has everything that capture holds on to: graphs, hooks, stacks, names."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 1))
    x = torch.randn(2, 4)
    run = ulpscope.capture(folder, level="mix", task="tensor" if task == "tensor" else "statistics")

    def once() -> None:
        run.start(model)
        model(x).square().sum().backward()
        model(x)
        run.stop()
        run.step()

    found = grown(100, cycles, once)
    run.close()
    return found


def runs(folder: Path) -> dict[str, int]:
    """Each run is opened and closed."""
    # Each warns that the folder has an earlier one's step.
    logging.getLogger("ulpscope").setLevel(logging.ERROR)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))
    x = torch.randn(2, 4)

    def once() -> None:
        with ulpscope.capture(folder, model=model, level="mix") as run:
            model(x).sum().backward()
            run.step()

    return grown(50, 200, once)


if __name__ == "__main__":
    torch.set_num_threads(1)
    kind, folder, *rest = sys.argv[1:]
    found = steps(Path(folder), rest[0], int(rest[1])) if kind == "steps" else runs(Path(folder))
    print(json.dumps(found))
