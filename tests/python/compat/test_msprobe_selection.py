"""`list` and `scope` by the names of calls, as msprobe has them: each direction by its own name."""

from __future__ import annotations

import pytest
import torch

import ulpscope
from captured import Captured, Net, capture_of

TANH, LINEAR = "Torch.tanh.{}.{}", "Functional.linear.{}.{}"


def there_and_back(net):
    return lambda: net(torch.ones(2, 4)).sum().backward()


def recorded(folder, **settings):
    net = Net()
    found = capture_of(folder, there_and_back(net), model=net, **settings)
    ledger = found.ledger
    left_out = sum(ledger["skipped"].values())
    assert ledger["recorded"] + left_out == ledger["seen"], ledger
    assert "began as the step ended" not in ledger["skipped"]
    assert not [note for note in ledger["notes"] if note.startswith(("list", "scope"))], ledger["notes"]
    return list(found.calls)


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        # A full backward name is that backward call alone, a full forward name comes without it.
        ([TANH.format(1, "backward")], [TANH.format(1, "backward")]),
        ([TANH.format(1, "forward")], [TANH.format(1, "forward")]),
        (
            [TANH.format(0, "forward"), LINEAR.format(2, "backward")],
            [TANH.format(0, "forward"), LINEAR.format(2, "backward")],
        ),
        # Part of a name is both directions.
        (["Torch.tanh.1"], [TANH.format(1, "forward"), TANH.format(1, "backward")]),
        (
            ["tanh"],
            [TANH.format(n, "forward") for n in range(3)] + [TANH.format(n, "backward") for n in (2, 1, 0)],
        ),
        (["sum.0.backward"], ["Tensor.sum.0.backward"]),
    ],
)
def test_a_list_selects_each_direction_by_its_own_name(tmp_path, names, wanted):
    assert recorded(tmp_path, list=names) == wanted


def test_the_backward_call_of_a_listed_name_has_its_gradients(tmp_path):
    """`["Functional.relu.0.backward"]` records that call, with its tensors, and nothing else."""
    x = torch.tensor([-1.0, 2.0], requires_grad=True)

    def program():
        torch.nn.functional.relu(x).sum().backward()

    only = ["Functional.relu.0.backward"]
    found = capture_of(tmp_path, program, list=only, task="tensor", file_format="pt")
    assert list(found.calls) == ["Functional.relu.0.backward"]
    call = found.calls["Functional.relu.0.backward"]
    assert [call["input"][0]["Max"], call["output"][0]["Max"], call["output"][0]["Min"]] == [1.0, 1.0, 0.0]
    assert len(list(tmp_path.rglob("*.pt"))) == 2


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            "layers.1",
            {
                "Module.layers.1.Linear.forward.0",
                "Module.layers.1.Linear.backward.0",
                "Module.layers.1.Linear.parameters_grad.0",
                LINEAR.format(1, "forward"),
                LINEAR.format(1, "backward"),
            },
        ),
        (
            "Module.layers.1.Linear.forward.0",
            {"Module.layers.1.Linear.forward.0", LINEAR.format(1, "forward")},
        ),
        (
            "Module.layers.1.Linear.backward.0",
            {
                "Module.layers.1.Linear.backward.0",
                "Module.layers.1.Linear.parameters_grad.0",
                LINEAR.format(1, "backward"),
            },
        ),
    ],
)
def test_a_listed_module_brings_what_runs_inside_it(tmp_path, name, wanted):
    """At level mix, in the directions that the name selects."""
    assert set(recorded(tmp_path, level="mix", list=[name])) == wanted


@pytest.mark.parametrize(
    ("scope", "wanted"),
    [
        # An interval of what runs.
        (
            [TANH.format(1, "forward"), LINEAR.format(2, "forward")],
            [TANH.format(1, "forward"), LINEAR.format(2, "forward")],
        ),
        (
            [TANH.format(2, "forward"), TANH.format(2, "backward")],
            [
                TANH.format(2, "forward"),
                "Tensor.__add__.0.forward",
                "Tensor.sum.0.forward",
                "Tensor.sum.0.backward",
                "Tensor.__add__.0.backward",
                TANH.format(2, "backward"),
            ],
        ),
        (
            [TANH.format(1, "backward"), TANH.format(0, "backward")],
            [TANH.format(1, "backward"), LINEAR.format(1, "backward"), TANH.format(0, "backward")],
        ),
    ],
)
def test_a_scope_is_an_interval_of_what_runs(tmp_path, scope, wanted):
    """Both ends included, at level L1."""
    assert recorded(tmp_path, scope=scope) == wanted


def test_a_scope_of_modules_holds_what_runs_inside_them(tmp_path):
    """At level mix, in both directions."""
    name = "Module.layers.1.Linear.{}.0"
    calls = recorded(tmp_path / "forward", level="mix", scope=[name.format("forward")] * 2)
    assert calls == [LINEAR.format(1, "forward"), name.format("forward")]
    calls = recorded(tmp_path / "backward", level="mix", scope=[name.format("backward")] * 2)
    assert set(calls) == {
        LINEAR.format(1, "backward"),
        name.format("backward"),
        "Module.layers.1.Linear.parameters_grad.0",
    }
    calls = recorded(
        tmp_path / "L0", level="L0", scope=[name.format("forward"), "Module.layers.2.Linear.forward.0"]
    )
    assert calls == [name.format("forward"), "Module.layers.2.Linear.forward.0"]


@pytest.mark.parametrize(
    ("level", "scope"),
    [
        ("L1", [TANH.format(0, "forward")]),
        ("L1", [TANH.format(n, "forward") for n in range(3)]),
        ("L1", ["tanh", "linear"]),
        ("L1", ["Module.layers.1.Linear.forward.0", "Module.layers.2.Linear.forward.0"]),
        ("L0", [TANH.format(0, "forward"), TANH.format(1, "forward")]),
        ("mix", ["layers.1", "layers.2"]),
    ],
)
def test_a_scope_of_other_names_is_an_error(tmp_path, level, scope):
    """One name, three, short names, names of the wrong kind."""
    with pytest.raises(ulpscope.SettingsError, match="scope"):
        ulpscope.capture(tmp_path, level=level, scope=scope)


def test_list_and_scope_together_select_what_is_in_both(tmp_path):
    """Empty ones select everything."""
    scope = [TANH.format(1, "forward"), TANH.format(1, "backward")]
    calls = recorded(tmp_path / "both", scope=scope, list=["tanh"])
    names = [TANH.format(n, "forward") for n in (1, 2)] + [TANH.format(n, "backward") for n in (2, 1)]
    assert calls == names
    assert len(recorded(tmp_path / "all", scope=[], list=[])) == len(recorded(tmp_path / "plain")) == 17


@pytest.mark.parametrize(
    ("gradients", "of_function", "of_module"),
    [
        ("arguments", [[2, 3, 8], [4, 8], [4]], [[2, 3, 8]]),
        ("last_node", [[6, 4]], [[6, 4]]),
        ("functions_last_node", [[6, 4]], [[2, 3, 8]]),
    ],
)
def test_gradients_are_those_of_arguments_or_of_the_last_node(tmp_path, gradients, of_function, of_module):
    """A linear layer of three dimensions ends in a node that only changes the shape of its results."""
    net = torch.nn.Sequential(torch.nn.Linear(8, 4))
    x = torch.ones(2, 3, 8, requires_grad=True)
    settings = {"level": "mix", "gradients": gradients, "parameter_gradients": False}
    calls = capture_of(tmp_path, lambda: net(x).sum().backward(), model=net, **settings).calls

    def shapes(name):
        return [entry["shape"] for entry in calls[name]["output"] if entry is not None]

    assert shapes("Functional.linear.0.backward") == of_function
    assert shapes("Module.0.Linear.backward.0") == of_module


def test_a_backward_pass_inside_a_scope_is_recorded_and_one_outside_is_counted(tmp_path):
    """Two passes over one graph, the scope around the second."""
    x = torch.ones(2, requires_grad=True)

    def program():
        loss = torch.tanh(x).sum()
        loss.backward(retain_graph=True)
        torch.sin(x.detach())
        loss.backward()
        torch.cos(x.detach())

    scope = ["Torch.sin.0.forward", "Torch.cos.0.forward"]
    found = capture_of(tmp_path, program, scope=scope)
    assert list(found.calls) == [
        "Torch.sin.0.forward",
        "Tensor.sum@2.0.backward",
        "Torch.tanh@2.0.backward",
        "Tensor.detach.1.forward",
        "Torch.cos.0.forward",
    ]
    assert found.ledger["skipped"]["not selected"] == 5


def test_each_step_begins_before_its_scope(tmp_path):
    net = Net()
    with ulpscope.capture(tmp_path, scope=[TANH.format(2, "forward"), TANH.format(2, "backward")]) as run:
        for _ in range(2):
            there_and_back(net)()
            run.step()
    first, second = (list(Captured(tmp_path, step=step).calls) for step in range(2))
    assert first == second
    assert len(first) == 6
