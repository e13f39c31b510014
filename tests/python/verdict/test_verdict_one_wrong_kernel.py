"""A kernel that goes wrong once, under a mode of the program that sees operators.

Because of that mode, one of the runs records operators that the other does not. They say nothing of it.
"""

from pathlib import Path

import pytest

import ulpscope
from faults.models import build
from one_wrong_kernel import CHANGES, KERNELS, WrongKernel


def dump(path: Path, model: str, task: str) -> Path:
    program = build(model, 0)
    with ulpscope.capture(path, model=program.model, level="mix", task=task):
        program.step()
    return path


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize(("model", "operator"), KERNELS)
def test_a_wrong_kernel_is_named(tmp_path: Path, model: str, operator: str, task: str) -> None:
    golden = dump(tmp_path / "golden", model, task)
    # Statistics do not show that rows changed places, and hardly that one float32 was rounded to bfloat16.
    for name in CHANGES if task == "tensor" else ["scaled", "one element"]:
        with WrongKernel(operator, 5, CHANGES[name]):
            target = dump(tmp_path / name, model, task)
        found = ulpscope.compare(target, golden).divergences
        assert [one.call for one in found] == [KERNELS[model, operator]], name
