"""Replays every call of two bench models, healthy and with five wrong kernels; says which calls are named.

The 8-layer GPT of `benches/capture.py` (10.5 M parameters) and the convolutional network of the tests, one
training step each, recorded with whole tensors. The wrong kernels are below the recorder: four change the
first result of a function, one the gradients. Ends with 1 if a healthy call fails, or if the named calls are
not exactly the wrong ones.

    python benches/check.py FOLDER
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from capture_workload import workload
from torch import Tensor

import ulpscope

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "python" / "support"))

from twin_programs import ConvNet
from wrong_kernels import Wrong

Faults = dict[Any, Callable[[Tensor], Any]]


def first_element(y: Tensor) -> None:
    """One wrong element."""
    y.view(-1)[0].add_(0.01)


def gpt() -> tuple[torch.nn.Module, Callable[[], None]]:
    """The GPT, and one step of it."""
    return workload("GPT")


def conv_net() -> tuple[torch.nn.Module, Callable[[], None]]:
    """The convolutional network, and one step of it."""
    torch.manual_seed(0)
    model, x = ConvNet(), torch.randn(4, 3, 16, 16)
    return model, lambda: model(x).square().mean().backward()


# The wrong kernels of each model by the call that they are the first of; the last one has wrong gradients.
MODELS: dict[str, tuple[Any, dict[str, tuple[Any, Any]], tuple[str, Any]]] = {
    "GPT": (
        gpt,
        {
            "Functional.gelu.0": (F.gelu, lambda y: y.mul_(1.0001)),
            "Functional.softmax.0": (F.softmax, first_element),
            "Functional.layer_norm.0": (F.layer_norm, lambda y: y.copy_(y.bfloat16().float())),
            "Functional.linear.0": (F.linear, lambda y: y.add_(1e-3)),
        },
        ("Functional.embedding.0", F.embedding),
    ),
    "ConvNet": (
        conv_net,
        {
            "Functional.conv2d.0": (F.conv2d, lambda y: y.mul_(1.0001)),
            "Functional.batch_norm.0": (F.batch_norm, first_element),
            "Tensor.square.0": (Tensor.square, lambda y: y.copy_(y.bfloat16().float())),
            "Tensor.mean.0": (Tensor.mean, lambda y: y.add_(1e-3)),
        },
        ("Functional.max_pool2d.0", F.max_pool2d),
    ),
}


def checked(folder: Path, program: Any, forward: Faults, backward: Any) -> tuple[ulpscope.CheckResult, float]:
    """Records a step and replays it."""
    model, step = program()
    with Wrong(forward, backward), ulpscope.capture(folder, model=model, level="L1", task="tensor"):
        step()
    before = time.perf_counter()
    return ulpscope.check(folder), time.perf_counter() - before


def main() -> int:
    """Checks and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    code = 0
    print("| model | wrong kernels | calls | pass | doubtful | wrong | not replayed | named | s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, (program, forward, (call, backward)) in MODELS.items():
        planted: list[tuple[Faults, Any, set[str]]] = [
            ({}, None, set()),
            (dict(forward.values()), backward, {*forward, call}),
        ]
        for number, (faults, gradients, expected) in enumerate(planted):
            result, seconds = checked(options.folder / f"{name}{number}", program, faults, gradients)
            found = {one.call for one in result.failed}
            counts = result.counts()
            said = "exactly these" if found == expected else f"{sorted(found)}, expected {sorted(expected)}"
            cells = [name, str(len(expected)), str(len(result.calls)), *map(str, counts.values())]
            print(
                f"| {' | '.join([*cells, said if found or expected else 'none', f'{seconds:.1f}'])} |",
                flush=True,
            )
            for one in result.skipped:
                print(f"not replayed: {one.call}: {one.message}", file=sys.stderr)
            code |= found != expected
    return code


if __name__ == "__main__":
    sys.exit(main())
