"""The cost of `compare --prove`: the time of a comparison with it, over that of the same one without it.

The dumps are one training step of the 8-layer GPT of `benches/capture.py` (10.5 M parameters, whole tensors),
healthy and with one wrong call. Every comparison is the first of a new process that has imported torch, as in
a script of a user; with and without take turns, and each number is a median. A last column has the whole
command `ulpscope compare`, with the import of torch that only `--prove` needs.

    python benches/prove.py FOLDER [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# See tests/python/conftest.py.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

GOAL = 2.0
# The wrong call of each case: function, number, and whether its gradients are wrong instead of its result.
CASES = {
    "gelu, forward": ("gelu", 3, False),
    "linear, forward": ("linear", 12, False),
    "linear of the head, forward": ("linear", 32, False),
    "layer_norm, backward": ("layer_norm", 5, True),
}

# Prints seconds of wall and CPU time, the calls that were blamed, and the proof of the first.
MEASURED = """
import json, resource, sys, time
import torch, ulpscope
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
before = time.perf_counter(), cpu()
found = ulpscope.compare(sys.argv[1], sys.argv[2], prove=sys.argv[3] == "prove")
after = time.perf_counter(), cpu()
first = found.first_divergence
blamed = [one.call for one in found.divergences]
print(json.dumps([after[0] - before[0], after[1] - before[1], blamed, first and first.proof]))
"""


def make_dump(folder: Path, case: tuple[str, int, bool] | None) -> None:
    """A step of the GPT, with a wrong call."""
    import torch
    import torch.nn.functional as F  # noqa: N812
    from capture_workload import workload
    from torch.overrides import TorchFunctionMode

    import ulpscope

    class Wrong(TorchFunctionMode):
        seen = 0

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if case is None or func is not getattr(F, case[0]):
                return result
            self.seen += 1
            if self.seen - 1 != case[1]:
                return result
            with torch.no_grad(), torch._C.DisableTorchFunction():
                if case[2]:
                    result.grad_fn.register_hook(
                        lambda given, _: tuple(one if one is None else one * 1.001 for one in given)
                    )
                else:
                    result.data.mul_(1.001)
            return result

    model, step = workload("GPT")
    with Wrong(), ulpscope.capture(folder, model=model, level="L1", task="tensor"):
        step()


def compared(target: Path, golden: Path, mode: str) -> tuple[float, float, list[str], str | None]:
    """A comparison in a new process."""
    command = [sys.executable, "-c", MEASURED, str(target), str(golden), mode]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    wall, cpu, blamed, proof = json.loads(made.stdout)
    return wall, cpu, blamed, proof


def command(target: Path, golden: Path, *flags: str) -> float:
    """The wall time of `ulpscope compare`."""
    before = time.perf_counter()
    given = [sys.executable, "-m", "ulpscope", "compare", str(target), str(golden), *flags]
    made = subprocess.run(given, check=False, capture_output=True)
    assert made.returncode == 1, made.stderr
    return time.perf_counter() - before


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--case", choices=CASES, help="only this one")
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    golden = options.folder / "golden"
    make_dump(golden, None)
    columns = ["wrong call", "CPU s without", "with `--prove`", "ratio", "wall s without", "with", "ratio"]
    columns += ["goal", "command, wall s"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for number, (name, case) in enumerate(CASES.items()):
        if options.case not in (None, name):
            continue
        target = options.folder / f"target{number}"
        make_dump(target, case)
        plain, proving = [], []
        for _ in range(options.rounds):
            plain.append(compared(target, golden, "plain"))
            proving.append(compared(target, golden, "prove"))
        _, _, blamed, proof = proving[0]
        assert (len(blamed), proof) == (1, "proved"), f"{name}: {blamed}, {proof}"
        cells = [name]
        for part in (1, 0):
            without, with_proof = (statistics.median(one[part] for one in side) for side in (plain, proving))
            cells += [f"{without:.3f}", f"{with_proof:.3f}", f"{with_proof / without:.2f} x"]
        commands = [command(target, golden), command(target, golden, "--prove")]
        cells += [f"{GOAL:.0f} x", " / ".join(f"{one:.1f}" for one in commands)]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
