"""`compare(…, prove=True)`: blamed calls are replayed, which proves or refutes the verdict."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.overrides import TorchFunctionMode

import ulpscope
from faults.false_alarms import ALARMS, EXPLAINED, pair
from twin_programs import GPT

Change = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class Kernels(TorchFunctionMode):
    """Different kernels for some functions, below the recorder."""

    def __init__(self, replaced: dict[Any, Change]) -> None:
        super().__init__()
        self._replaced = replaced

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in self._replaced:
            return func(*args, **(kwargs or {}))
        return self._replaced[func](func, args, kwargs or {})


def scaled(func: Any, args: Any, kwargs: Any) -> Any:
    """A wrong kernel: everything is a thousandth too large, gradients too."""
    result = func(*args, **kwargs)
    with torch.no_grad(), torch._C.DisableTorchFunction():
        result.data.mul_(1.001)
    return result


def wrong_gradient(func: Any, args: Any, kwargs: Any) -> Any:
    result = func(*args, **kwargs)
    result.grad_fn.register_hook(lambda given, _: tuple(g if g is None else g * 1.01 for g in given))
    return result


def in_double(func: Any, args: Any, kwargs: Any) -> Any:
    """A right kernel that rounds differently."""
    with torch._C.DisableTorchFunction():
        doubled = [one.double() if isinstance(one, Tensor) else one for one in args]
        return func(*doubled, **kwargs).to(args[0].dtype)


def gpt(dump: Path, replaced: dict[Any, Change], task: str = "tensor") -> Path:
    torch.manual_seed(0)
    model = GPT()
    tokens = torch.randint(0, 32, (2, 8))
    with Kernels(replaced), ulpscope.capture(dump, model=model, level="L1", task=task):
        F.cross_entropy(model(tokens[:, :-1]).reshape(-1, 32), tokens[:, 1:].reshape(-1)).backward()
    return dump


def amplified(dump: Path, replaced: dict[Any, Change], then: Callable[[Tensor], Tensor]) -> Path:
    """A layer, and then something that makes much of its rounding."""
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(32, 32), torch.randn(64, 32)
    with Kernels(replaced), ulpscope.capture(dump, level="L1", task="tensor"):
        then(layer(x)).square().mean().backward()
    return dump


@pytest.mark.parametrize("wrong", ["target", "golden"])
def test_the_wrong_side_is_named_even_if_it_is_the_golden(wrong: str, tmp_path: Path) -> None:
    sides = {side: {F.gelu: scaled} if side == wrong else {} for side in ("target", "golden")}
    target, golden = (gpt(tmp_path / side, replaced) for side, replaced in sides.items())
    compared = ulpscope.compare(target, golden, prove=True)
    first = compared.first_divergence
    assert first is not None
    assert (first.call, first.proof, first.wrong_side) == ("Functional.gelu.0.forward", "proved", wrong)
    assert first.confidence == 1.0
    errors = {"target": first.target_own_error, "golden": first.golden_own_error}
    for side, error in errors.items():
        assert error is not None
        assert error == pytest.approx(1e-3, rel=0.1) if side == wrong else error < 1e-6
    assert f"Proved by replay: the {wrong} is wrong." in compared.explain("en")
    assert {"target": "目标有错", "golden": "标杆有错"}[wrong] in compared.explain("zh")


def test_a_wrong_gradient_is_proved(tmp_path: Path) -> None:
    target, golden = gpt(tmp_path / "target", {F.layer_norm: wrong_gradient}), gpt(tmp_path / "golden", {})
    first = ulpscope.compare(target, golden, prove=True).first_divergence
    assert first is not None
    assert first.call.startswith("Functional.layer_norm.")
    assert (first.direction, first.proof, first.wrong_side) == ("backward", "proved", "target")


@pytest.mark.parametrize("name", ALARMS)
def test_a_call_that_only_amplifies_rounding_is_refuted(name: str, tmp_path: Path) -> None:
    target, golden = pair(ALARMS[name], tmp_path)
    alarm = ulpscope.compare(target, golden).first_divergence
    assert alarm is not None, "without replay it is a false alarm"
    compared = ulpscope.compare(target, golden, prove=True)
    assert compared.divergences == []
    assert (compared.refuted[0].call, compared.refuted[0].proof) == (alarm.call, "refuted")
    assert f"{alarm.call}: Refuted by replay" in compared.explain("en")


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_function_of_known_condition_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert ulpscope.compare(*pair(EXPLAINED[name], tmp_path)).divergences == []


def test_gradients_that_differ_are_not_called_clean_where_all_is_refuted(tmp_path: Path) -> None:
    def then(y: Tensor) -> Tensor:
        return 1 / (y - y.mean())

    target = amplified(tmp_path / "target", {}, then)
    golden = amplified(tmp_path / "golden", {F.linear: in_double}, then)
    compared = ulpscope.compare(target, golden, prove=True)
    assert (compared.agreement, compared.divergences) == ("inconclusive", [])
    assert "no replayable call explains the difference" in compared.explain("en")


def test_the_next_candidate_is_named(tmp_path: Path) -> None:
    def then(y: Tensor) -> Tensor:
        return F.gelu(1 / (y - y.mean()))

    target = amplified(tmp_path / "target", {F.gelu: lambda *call: scaled(*call) * 1.1}, then)
    golden = amplified(tmp_path / "golden", {F.linear: in_double}, then)
    blamed = ulpscope.compare(target, golden).first_divergence
    assert blamed is not None
    assert blamed.call == "Tensor.__rdiv__.0.forward"
    compared = ulpscope.compare(target, golden, prove=True)
    first = compared.first_divergence
    assert first is not None
    assert (first.call, first.proof, first.wrong_side) == ("Functional.gelu.0.forward", "proved", "target")
    assert [one.call for one in compared.refuted] == ["Tensor.__rdiv__.0.forward"]


def test_statistics_are_not_replayable_and_stay_blamed(tmp_path: Path) -> None:
    target = gpt(tmp_path / "target", {F.gelu: scaled}, task="statistics")
    golden = gpt(tmp_path / "golden", {}, task="statistics")
    plain = ulpscope.compare(target, golden).first_divergence
    first = ulpscope.compare(target, golden, prove=True).first_divergence
    assert plain is not None
    assert first is not None
    assert (first.call, first.confidence) == (plain.call, plain.confidence)
    assert first.proof == "not replayable"
    assert "not in the dump" in str(first.proof_reason)


def test_a_custom_operator_is_not_replayable(tmp_path: Path) -> None:
    factor = [1.0]

    @torch.library.custom_op("ulpscope_tests::scaled_copy", mutates_args=())
    def scaled_copy(x: Tensor) -> Tensor:
        return x * factor[0]

    def run(name: str) -> Path:
        torch.manual_seed(0)
        x = torch.randn(16, 16)
        with ulpscope.capture(tmp_path / name, level="L1", task="tensor"):
            torch.ops.ulpscope_tests.scaled_copy(F.relu(x)).exp().sum()
        return tmp_path / name

    golden = run("golden")
    factor[0] = 1.01
    first = ulpscope.compare(run("target"), golden, prove=True).first_divergence
    assert first is not None
    assert first.proof == "not replayable"
    assert first.proof_reason


def test_the_command_proves_and_its_files_have_the_numbers(tmp_path: Path) -> None:
    target, golden = gpt(tmp_path / "target", {F.gelu: scaled}), gpt(tmp_path / "golden", {})
    out = tmp_path / "out"
    # A process of its own, in which nothing has imported torch before.
    command = [sys.executable, "-m", "ulpscope", "compare", target, golden, "--prove", "-o", out]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    assert "Proved by replay: the target is wrong." in done.stdout
    document = json.loads((out / "result.json").read_text())
    proof = document["first_divergence"]["proof"]
    assert (proof["verdict"], proof["wrong_side"]) == ("proved", "target")
    assert proof["target"]["error"] > 100 * proof["golden"]["error"]
    assert proof["target"]["status"] == "error"
    assert document["ranks"][0]["refuted"] == []
    (sheet,) = out.glob("compare_result_*.csv")
    rows = list(csv.DictReader(sheet.read_text().splitlines()))
    proved = [row for row in rows if row["proof"]]
    assert [(row["call"], row["proof"], row["wrong_side"]) for row in proved] == [
        ("Functional.gelu.0.forward", "proved", "target"),
        # Beside the known error it does not stand out; replayed, it is wrong too.
        ("Functional.gelu.1.forward", "proved", "target"),
    ]
    assert float(proved[0]["target_own_error"]) == proof["target"]["error"]


def test_a_rule_of_an_older_tool_cannot_be_proved(tmp_path: Path) -> None:
    dump = gpt(tmp_path / "dump", {})
    with pytest.raises(ulpscope.FormatError, match="--prove is for the native style"):
        ulpscope.compare(dump, dump, style="ptdbg", prove=True)


def test_without_torch_the_message_says_so(tmp_path: Path) -> None:
    dump = gpt(tmp_path / "dump", {})
    program = "import sys; sys.modules['torch'] = None; import ulpscope; "
    program += f"ulpscope.compare({str(dump)!r}, {str(dump)!r}, prove=True)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "replay needs torch" in done.stderr


def test_healthy_runs_need_no_replay(tmp_path: Path) -> None:
    target, golden = gpt(tmp_path / "target", {}), gpt(tmp_path / "golden", {})
    compared = ulpscope.compare(target, golden, prove=True)
    assert compared
    assert compared.refuted == []
