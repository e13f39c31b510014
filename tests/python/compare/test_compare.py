"""Comparing two dumps: what is found, and what is said of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import ulpscope
from dumps import chain, read_csv, run, write_rank


def test_equal_runs_agree(tmp_path: Path) -> None:
    write_rank(tmp_path / "a", chain(4))
    write_rank(tmp_path / "b", chain(4))
    result = ulpscope.compare(tmp_path / "a", tmp_path / "b")
    assert result.ok
    assert result.first_divergence is None
    assert {row["verdict"] for row in result.rows} == {"equal"}
    ran = run("compare", tmp_path / "a", tmp_path / "b")
    assert ran.returncode == 0
    assert "AGREE" in ran.stdout


def test_the_faulty_call_is_named(pair: tuple[Path, Path]) -> None:
    result = ulpscope.compare(*pair)
    assert not result.ok
    first = result.first_divergence
    assert first is not None
    assert first.call == "Functional.linear.3.forward"
    assert first.kind == "diverged here"
    assert first.entry == "Functional.linear.3.forward.output.0"
    assert 0.5 < first.confidence <= 1
    assert run("compare", *pair).returncode == 1


def test_a_wrong_weight_is_an_origin(tmp_path: Path) -> None:
    golden = chain(4)
    target = []
    for name, inputs, outputs in golden:
        if name == "Functional.linear.2.forward":
            inputs = [inputs[0], inputs[1] * 1.05, None]
            outputs = [torch.nn.functional.linear(inputs[0], inputs[1])]
        target.append((name, inputs, outputs))
    write_rank(tmp_path / "golden", golden)
    write_rank(tmp_path / "target", target)
    first = ulpscope.compare(tmp_path / "target", tmp_path / "golden").first_divergence
    assert first is not None
    assert (first.call, first.kind) == ("Functional.linear.2.forward", "origin differs")
    assert first.entry == "Functional.linear.2.forward.input.1"


def test_metrics_are_those_of_numpy(pair: tuple[Path, Path]) -> None:
    target, golden = pair
    rows = {row["target_name"]: row for row in ulpscope.compare(target, golden).rows}
    name = "Functional.gelu.3.forward.output.0"
    one, other = (
        np.asarray(ulpscope.load(side / "dump_tensor_data" / f"{name}.pt"), np.float64) for side in pair
    )
    row = rows[name]
    assert row["euclid"] == pytest.approx(np.linalg.norm(one - other), rel=1e-12)
    assert row["max_abs"] == np.abs(one - other).max()
    assert row["rel_l2"] == pytest.approx(np.linalg.norm(one - other) / np.linalg.norm(other), rel=1e-12)
    cosine = one.ravel() @ other.ravel() / np.linalg.norm(one) / np.linalg.norm(other)
    assert row["cosine"] == pytest.approx(cosine, rel=1e-12)
    assert row["rmse"] == pytest.approx(np.sqrt(((one - other) ** 2).mean()), rel=1e-12)


def test_bf16_against_fp32_agrees_within_its_precision(tmp_path: Path) -> None:
    write_rank(tmp_path / "golden", chain(6))
    write_rank(tmp_path / "bf16", chain(6, dtype=torch.bfloat16))
    result = ulpscope.compare(tmp_path / "bf16", tmp_path / "golden")
    assert result.ok, result.first_divergence
    assert result.summary["paired"] == {"exact": 13}
    assert any(row["verdict"] == "noise" for row in result.rows)


def test_one_extra_call_does_not_shift_the_rest(tmp_path: Path) -> None:
    def adds(extra: bool) -> list[tuple[str, list[torch.Tensor], list[torch.Tensor]]]:
        x = torch.linspace(0, 1, 24).reshape(4, 6)
        calls = []
        for layer in range(6):
            for amount in (0, 1) if extra and layer == 2 else (1,):
                y = x + amount
                number = sum(name.startswith("Tensor.__add__") for name, _, _ in calls)
                calls.append((f"Tensor.__add__.{number}.forward", [x], [y]))
                x = y
            x = torch.nn.functional.pad(y, (0, 1))
            calls.append((f"Functional.pad.{layer}.forward", [y], [x]))
        return calls

    write_rank(tmp_path / "golden", adds(extra=False))
    write_rank(tmp_path / "target", adds(extra=True))
    result = ulpscope.compare(tmp_path / "target", tmp_path / "golden")
    lone = [name for side, name, _ in result.partnerless]
    assert len(lone) == 1
    assert lone[0].startswith("Tensor.__add__")
    assert result.summary["failed"] == 0, [row for row in result.rows if row["verdict"] == "differs"]
    assert result.summary["paired"]["aligned"] >= 3
    # Nothing differs in value, but the two are not the same.
    assert result.agreement == "inconclusive"
    assert {side for side, _, _ in result.partnerless} == {"target"}


def test_statistics_are_compared_where_one_side_has_no_tensors(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    write_rank(tmp_path / "statistics", chain(6), tensors=False)
    result = ulpscope.compare(pair[0], tmp_path / "statistics")
    bases = {row["basis"] for row in result.rows}
    assert bases == {"statistics", "value"}
    assert result.first_divergence is not None
    assert result.first_divergence.call == "Functional.linear.3.forward"


def test_nan_on_one_side_is_found(tmp_path: Path) -> None:
    calls = chain(3)
    name, inputs, [output] = calls[2]
    broken = output.clone()
    broken[1, 3] = float("nan")
    write_rank(tmp_path / "golden", calls)
    write_rank(tmp_path / "target", [*calls[:2], (name, inputs, [broken]), *calls[3:]])
    first = ulpscope.compare(tmp_path / "target", tmp_path / "golden").first_divergence
    assert first is not None
    assert (first.call, first.kind) == (name, "non-finite born here")


def test_nan_everywhere_is_no_agreement(tmp_path: Path) -> None:
    nan = torch.full((3, 4), float("nan"))
    for side in ("target", "golden"):
        write_rank(tmp_path / side, [("Functional.relu.0.forward", [nan], [nan])])
    ran = run("compare", tmp_path / "target", tmp_path / "golden", "-o", tmp_path / "out")
    assert ran.returncode == 2
    assert {row["verdict"] for row in read_csv(tmp_path / "out")} == {"both NaN"}


def test_infinities_of_a_mask_are_values_like_any_other(tmp_path: Path) -> None:
    mask = torch.full((4, 4), float("-inf")).triu(1)
    scores = torch.randn(4, 4, generator=torch.Generator().manual_seed(3)) + mask
    wrong = scores.clone()
    wrong[2, 1] += 1
    for side, values in (("golden", scores), ("same", scores), ("wrong", wrong)):
        for tensors in (True, False):
            calls = [("Tensor.masked_fill.0.forward", [3], [values])]
            write_rank(tmp_path / f"{side}_{tensors}", calls, tensors=tensors)
    assert ulpscope.compare(tmp_path / "same_True", tmp_path / "golden_True").ok
    assert ulpscope.compare(tmp_path / "same_False", tmp_path / "golden_False").ok
    result = ulpscope.compare(tmp_path / "wrong_True", tmp_path / "golden_True")
    assert result.first_divergence is not None
    assert result.first_divergence.call == "Tensor.masked_fill.0.forward"


def test_what_cannot_be_judged_is_no_agreement(tmp_path: Path) -> None:
    """Two runs that make the same NaN of finite numbers are both wrong, however equal."""
    nan = torch.tensor([1.0, float("nan"), 2.0])
    for side in ("target", "golden"):
        write_rank(tmp_path / side, [("Functional.relu.0.forward", [torch.ones(3)], [nan])])
    result = ulpscope.compare(tmp_path / "target", tmp_path / "golden")
    assert (result.agreement, result.summary["failed"], result.summary["passed"]) == ("differ", 1, 1)
    assert result.first_divergence is not None
    assert result.first_divergence.kind == "non-finite born here"
    worse = torch.tensor([1.0, float("nan"), 3.0])
    write_rank(tmp_path / "worse", [("Functional.relu.0.forward", [torch.ones(3)], [worse])])
    assert ulpscope.compare(tmp_path / "worse", tmp_path / "golden").agreement == "differ"


def test_a_tensor_that_one_side_lacks_is_inconclusive(tmp_path: Path) -> None:
    x = torch.ones(3)
    write_rank(tmp_path / "target", [("Torch.split.0.forward", [x], [x, x])])
    write_rank(tmp_path / "golden", [("Torch.split.0.forward", [x], [x])])
    result = ulpscope.compare(tmp_path / "target", tmp_path / "golden")
    assert result.agreement == "inconclusive"
    [(side, name, _)] = result.partnerless
    assert (side, name) == ("target", "Torch.split.0.forward.output.1")


def test_a_scalar_loss_is_judged(tmp_path: Path) -> None:
    write_rank(tmp_path / "golden", [("Tensor.sum.0.forward", [], [torch.tensor(2.5)])])
    write_rank(tmp_path / "same", [("Tensor.sum.0.forward", [], [torch.tensor(2.5)])])
    write_rank(tmp_path / "other", [("Tensor.sum.0.forward", [], [torch.tensor(2.6)])])
    assert ulpscope.compare(tmp_path / "same", tmp_path / "golden").ok
    assert not ulpscope.compare(tmp_path / "other", tmp_path / "golden").ok


def test_files_and_checkpoints(tmp_path: Path) -> None:
    weights = {"a.weight": torch.randn(4, 4), "b.bias": torch.randn(4)}
    ulpscope.save(tmp_path / "golden.safetensors", weights)
    ulpscope.save(tmp_path / "same.pt", weights)
    ulpscope.save(tmp_path / "other.safetensors", {**weights, "b.bias": weights["b.bias"] + 1})
    assert ulpscope.compare(tmp_path / "same.pt", tmp_path / "golden.safetensors").ok
    result = ulpscope.compare(tmp_path / "other.safetensors", tmp_path / "golden.safetensors")
    assert result.first_divergence is not None
    assert result.first_divergence.call == "b.bias"
    np.save(tmp_path / "one.npy", np.arange(6.0))
    np.save(tmp_path / "two.npy", np.arange(6.0))
    assert ulpscope.compare(tmp_path / "one.npy", tmp_path / "two.npy").ok


def test_memory_does_not_grow_with_the_tensors(tmp_path: Path) -> None:
    for side in ("target", "golden"):
        calls = []
        for number in range(6):
            x = torch.full((16 << 20,), float(number))
            calls.append((f"Functional.relu.{number}.forward", [], [x]))
        write_rank(tmp_path / side, calls)
    # The peak of this process alone: what the operating system tells of children counts their parents too.
    script = (
        "import sys, ulpscope\n"
        "assert ulpscope.compare(sys.argv[1], sys.argv[2]).ok\n"
        "status = open('/proc/self/status').read()\n"
        "print(status.split('VmHWM:')[1].split()[0])\n"
    )
    command = [sys.executable, "-c", script, tmp_path / "target", tmp_path / "golden"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    # 768 MiB were compared.
    assert int(ran.stdout) < 300 * 1024


def test_a_coarse_tensor_that_is_equal_makes_nothing_coarser(tmp_path: Path) -> None:
    """A bfloat16 flag that feeds nothing does not excuse a float32 weight that is 3 % off."""
    flag = torch.ones((), dtype=torch.bfloat16)
    weight = torch.randn(8, 8, generator=torch.Generator().manual_seed(1))
    for side, factor in (("golden", 1.0), ("target", 1.03)):
        calls = [
            ("Tensor.any.0.forward", [flag], [flag]),
            ("Functional.linear.0.forward", [torch.ones(2, 8), weight * factor], [torch.ones(2, 8) @ weight]),
        ]
        write_rank(tmp_path / side, calls)
    first = ulpscope.compare(tmp_path / "target", tmp_path / "golden").first_divergence
    assert first is not None
    assert first.entry == "Functional.linear.0.forward.input.1"


def test_a_gradient_that_cancels_out_is_rounding(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(2)
    gradient = torch.randn(64, generator=generator) * 1e-3
    for side in ("golden", "target"):
        noise = torch.randn(64, generator=generator) * 1e-9
        write_rank(tmp_path / side, [("Functional.linear.0.backward", [gradient], [gradient * 2, noise])])
        path = tmp_path / side / "dump.json"
        data = json.loads(path.read_text())
        weight, bias = data["data"].pop("Functional.linear.0.backward")["output"]
        data["data"]["Module.fc.Linear.parameters_grad.0"] = {"weight": [weight], "bias": [bias]}
        path.write_text(json.dumps(data))
    assert ulpscope.compare(tmp_path / "target", tmp_path / "golden").ok


def test_large_arguments_do_not_excuse_wrong_results(tmp_path: Path) -> None:
    scores = torch.randn(4, 8, generator=torch.Generator().manual_seed(7))
    scores[:, 5:] = -1e9
    for factor in (1.5, -1.0, 0.0):
        for tensors in (True, False):
            for side, scale in (("golden", 1.0), ("target", factor)):
                calls = [("Torch.softmax.0.forward", [scores], [scores.softmax(-1) * scale])]
                write_rank(tmp_path / side, calls, tensors=tensors)
            first = ulpscope.compare(tmp_path / "target", tmp_path / "golden").first_divergence
            assert first is not None, (factor, tensors)
            assert first.kind == "diverged here"


def test_a_different_shape_of_as_many_elements_is_compared_in_order(tmp_path: Path) -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    for tensors in (True, False):
        write_rank(tmp_path / "golden", [("Tensor.float.0.backward", [x], [x])], tensors=tensors)
        flat = [("Tensor.float.0.backward", [x.reshape(6, 4)], [x])]
        write_rank(tmp_path / "target", flat, tensors=tensors)
        result = ulpscope.compare(tmp_path / "target", tmp_path / "golden")
        assert result.ok
        assert "shape [6, 4] against [2, 3, 4]" in result.rows[0]["why"]


def test_digests_that_differ_are_followed_by_statistics(tmp_path: Path) -> None:
    def dump(folder: Path, values: torch.Tensor, digest: str) -> Path:
        write_rank(folder, [("Functional.relu.0.forward", [3], [values])], tensors=False)
        data = json.loads((folder / "dump.json").read_text())
        data["data"]["Functional.relu.0.forward"]["output"][0]["md5"] = digest
        (folder / "dump.json").write_text(json.dumps(data))
        return folder

    x = torch.linspace(1, 2, 50)
    golden = dump(tmp_path / "golden", x, "00000001")
    assert ulpscope.compare(dump(tmp_path / "same", x, "00000001"), golden).ok
    assert ulpscope.compare(dump(tmp_path / "close", x * (1 + 2e-6), "00000002"), golden).ok
    assert ulpscope.compare(dump(tmp_path / "far", x * 1.01, "00000003"), golden).agreement == "differ"
    # Reordered: nothing but the digest can tell, and it does not say how much.
    assert (
        ulpscope.compare(dump(tmp_path / "flipped", x.flip(0), "00000004"), golden).agreement
        == "inconclusive"
    )


def test_an_unpaired_call_before_the_divergence_is_named_with_it(tmp_path: Path) -> None:
    x = torch.linspace(1, 2, 12)
    golden = [("Functional.relu.0.forward", [x], [x]), ("Functional.gelu.0.forward", [x], [x.sqrt()])]
    scaled = x * 1.5
    target = [
        golden[0],
        ("Tensor.mul_.0.forward", [x, 1.5], [scaled]),
        ("Functional.gelu.0.forward", [scaled], [scaled.sqrt()]),
    ]
    write_rank(tmp_path / "golden", golden)
    write_rank(tmp_path / "target", target)
    first = ulpscope.compare(tmp_path / "target", tmp_path / "golden").first_divergence
    assert first is not None
    assert first.call == "Functional.gelu.0.forward"
    assert "just before it, Tensor.mul_.0.forward is only in the target" in first.why
