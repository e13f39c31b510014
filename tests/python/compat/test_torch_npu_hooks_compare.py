"""``compare`` of torch_npu.hooks' face: which operators match, and what the three numbers mean."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import ulpscope
from ulpscope.compat.torch_npu_hooks import dumping, register_hook, set_dump_path, wrap_acc_cmp_hook
from ulpscope.compat.torch_npu_hooks.tools import compare

Rows = list[dict[str, str]]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    dumping.close()


def dump(path: str, program: Callable[[], object], sample: bool = False) -> None:
    set_dump_path(path)
    register_hook(torch.nn.ReLU(), wrap_acc_cmp_hook, sample=sample)
    program()
    dumping.close()


def table(npu: Callable[[], object], cpu: Callable[[], object], shape_flag: bool = False) -> Rows:
    dump("npu.pkl", npu)
    dump("cpu.pkl", cpu)
    compare("npu.pkl", "cpu.pkl", "result.csv", shape_flag)
    with Path("result.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def names(rows: Rows) -> list[str]:
    return [row["NPU Name"].split("_", 1)[1] for row in rows]


def output(npu: torch.Tensor, cpu: torch.Tensor) -> dict[str, str]:
    """The row of the output of one operator."""
    (row,) = (
        row
        for row in table(lambda: torch.clone(npu), lambda: torch.clone(cpu))
        if row["NPU Name"].endswith("_output")
    )
    return row


TWO, THREE = torch.ones(2), torch.ones(3)


def test_with_shapes_operators_of_other_sizes_do_not_match(caplog: pytest.LogCaptureFixture) -> None:
    """By name alone they do, and nothing can be calculated."""

    def npu() -> None:
        torch.tanh(TWO)
        torch.exp(TWO)

    def cpu() -> None:
        torch.tanh(THREE)
        torch.exp(TWO)

    by_name = table(npu, cpu)
    assert names(by_name) == [
        f"Torch_{name}_forward_{part}" for name in ("tanh", "exp") for part in ("input.0", "output")
    ]
    assert by_name[0]["Cosine"] == "cannot be calculated "
    by_shape = table(npu, cpu, shape_flag=True)
    assert names(by_shape) == ["Torch_exp_forward_input.0", "Torch_exp_forward_output"]
    assert "only in the target: 0_Torch_tanh_forward" in caplog.text


@pytest.mark.parametrize(
    ("npu", "cpu"),
    [
        (lambda: torch.stack([TWO, TWO]), lambda: torch.stack([TWO, TWO, TWO])),
        (lambda: torch.tanh(TWO), lambda: torch.tanh(TWO.double())),
        (lambda: torch.tanh(TWO), lambda: torch.exp(TWO)),
    ],
    ids=["number of inputs", "dtype", "name"],
)
def test_what_makes_operators_different(npu: Callable[[], object], cpu: Callable[[], object]) -> None:
    assert table(npu, cpu, shape_flag=True) == []


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
def test_different_kernels_of_one_computation_match() -> None:
    """Names are those of the functions that the program calls, whatever runs below."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16, 2)
    )
    x = torch.randn(2, 3, 4, 4)

    def program() -> None:
        net(x).sum().backward()

    def with_other_kernels() -> None:
        with torch.backends.mkldnn.flags(enabled=False):
            program()

    rows = table(program, with_other_kernels, shape_flag=True)
    dump("again.pkl", program)
    assert len(rows) == len(Path("again.pkl").read_text().splitlines())
    assert {row["NPU Name"] == row["Bench Name"] for row in rows} == {True}


def test_cosine_is_as_in_the_tool() -> None:
    """0.5 + 0.5 cos: 1 for the same direction, 0 for the opposite; nan if one side is all zeros."""
    x = torch.tensor([1.0, 2.0])
    assert float(output(x * 3, x)["Cosine"]) == pytest.approx(1.0)
    assert float(output(-x, x)["Cosine"]) == pytest.approx(0.0)
    assert float(output(torch.tensor([2.0, -1.0]), x)["Cosine"]) == pytest.approx(0.5)
    assert output(torch.zeros(2), x)["Cosine"] == "nan"


def test_rmse_is_the_root_of_the_mean_squared_difference() -> None:
    assert float(output(torch.tensor([1.0, 5.0]), torch.tensor([1.0, 2.0]))["RMSE"]) == pytest.approx(
        3 / math.sqrt(2)
    )
    assert float(output(TWO, TWO)["RMSE"]) == 0


def test_mape_is_relative_to_the_reference() -> None:
    """The second file is right: 2 for 1 is an error of 100 %, 1 for 2 of 50 %. None where it is 0."""
    assert output(TWO * 2, TWO)["MAPE"] == "100.0%"
    assert output(TWO, TWO * 2)["MAPE"] == "50.0%"
    assert output(TWO, torch.zeros(2))["MAPE"] == "inf%"
    assert output(torch.zeros(2), torch.zeros(2))["MAPE"] == "nan%"


@pytest.mark.parametrize("first", ["sample", "full"])
def test_a_sample_against_all_elements_is_reported(first: str, caplog: pytest.LogCaptureFixture) -> None:
    x = torch.arange(1.0, 21.0)
    dump("a.pkl", lambda: torch.neg(x), sample=first == "sample")
    dump("b.pkl", lambda: torch.neg(x), sample=first != "sample")
    compare("a.pkl", "b.pkl", "result.csv")
    found = Path("result.csv").read_text()
    assert found.count("cannot be calculated ") == 2
    assert "1_Torch_neg_forward_output: expected as many values on both sides" in caplog.text
    assert "compare samples with samples" in caplog.text


def test_paths_of_no_file_are_refused(tmp_path: Path) -> None:
    dump("a.pkl", lambda: torch.neg(TWO))
    for paths, problem in (
        ((None, "a.pkl", "x.csv"), "pkl_path1 is None; give the path of a file"),
        (("a.pkl", ".", "x.csv"), "pkl_path2 is '.'; give the path of a file"),
        (("a.pkl", "a.pkl", str(tmp_path)), "output_path is .*; give the path of a file"),
    ):
        with pytest.raises(RuntimeError, match=problem):
            compare(*paths)
    with pytest.raises(FileNotFoundError):
        compare("a.pkl", "none.pkl", "x.csv")
    assert not Path("x.csv").exists()


def test_later_operators_are_not_blamed_for_the_first_one() -> None:
    """In the table the error goes on to the end; the native comparison names where it begins."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(5)))
    x = torch.randn(4, 8)

    def program(factor: float) -> Callable[[], None]:
        def run() -> None:
            y = x
            for number, layer in enumerate(net):
                y = torch.sigmoid(layer(y) * (factor if number == 1 else 1.0))

        return run

    rows = table(program(1.01), program(1.0))
    assert sum(float(row["RMSE"]) > 0 for row in rows) > 6
    (found,) = ulpscope.compare("npu.pkl", "cpu.pkl").divergences
    assert (found.kind, found.call) == ("diverged here", "Tensor.__mul__.1.forward")


def test_other_structure_and_other_parameters_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.randn(2, 4)
    small, large = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    rows = table(lambda: torch.tanh(small(x)), lambda: torch.relu(large(x)))
    assert "only in the target: 4_Torch_tanh_forward" in caplog.text
    assert "only in the golden: 4_Torch_relu_forward" in caplog.text
    different = {row["NPU Name"].split("_", 1)[1] for row in rows if float(row["RMSE"]) > 0}
    assert {"Functional_linear_forward_input.1", "Functional_linear_forward_input.2"} <= different
    # Parameters come from outside: no call is blamed for them.
    found = ulpscope.compare("npu.pkl", "cpu.pkl").first_divergence
    assert found is not None
    assert (found.kind, found.entry) == ("origin differs", "1_Functional_linear_forward_input.1")
