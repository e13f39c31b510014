"""The cost of perturbation: CPU seconds of a training step with it, over those of the same step without it.

Every call of the 8-layer GPT of `benches/capture.py` (10 M parameters, batch 2 x 64, one thread) is checked
in the forward pass; for the backward stage every linear layer. With and without take turns, and each number
is the median of the steps, so that other load on the machine affects both.

    python benches/perturb.py [--mode NAME] [--steps N]
"""

from __future__ import annotations

import argparse
import logging
import resource
import statistics
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from capture_workload import Lap, workload

import ulpscope

# Mode, stage, dtype; with the goal for a check of all forward calls.
ROWS: list[tuple[str, str, torch.dtype, float | None]] = [
    ("amplification", "forward", torch.float32, 4.0),
    ("amplification", "forward", torch.bfloat16, 4.0),
    ("bit_noise", "forward", torch.float32, 4.0),
    ("add_noise", "forward", torch.float32, 4.0),
    ("change_value", "forward", torch.float32, 4.0),
    ("no_change", "forward", torch.float32, 4.0),
    ("to_cpu", "forward", torch.float32, 4.0),
    ("improve_precision", "forward", torch.bfloat16, 4.0),
    ("bit_noise", "backward", torch.float32, None),
]


def ratio(
    mode: Any, stage: Any, step: Callable[[], None], steps: int, folder: str
) -> tuple[float, float, float]:
    """CPU seconds of a step without and with a check, and their ratio."""
    listed = ["Functional.linear"] if stage == "backward" else []
    check = ulpscope.check.perturb(folder, pert_mode=mode, fuzz_stage=stage, list=listed, max_sample=1000)
    plain, checked = [], []
    for number in range(steps + 2):
        without = Lap(step).cpu
        check.start()
        with_check = Lap(step).cpu
        check.stop()
        check.step()
        # The first steps allocate memory, and look at the first call of each kind.
        if number >= 2:
            plain.append(without)
            checked.append(with_check)
    check.close()
    before, after = statistics.median(plain), statistics.median(checked)
    return before, after, after / before


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", default="", help="only this pert_mode")
    parser.add_argument("--steps", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    # Calls without a tensor are reported one by one.
    logging.getLogger("ulpscope.check").setLevel(logging.ERROR)
    print("| pert_mode | stage | parameters | CPU s/step without | with | ratio | goal | peak MB |")
    print("|---|---|---|---|---|---|---|---|")
    for mode, stage, dtype, goal in ROWS:
        if options.mode not in ("", mode):
            continue
        model, step = workload("GPT")
        model.to(dtype)
        with tempfile.TemporaryDirectory() as folder:
            before, after, times = ratio(mode, stage, step, options.steps, folder)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        wanted = "" if goal is None else f"{goal:.0f} x"
        kind = str(dtype).removeprefix("torch.")
        cells = [mode, stage, kind, f"{before:.3f}", f"{after:.3f}", f"{times:.2f} x", wanted, f"{peak:.0f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
