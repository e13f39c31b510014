"""Selection by patterns: ``module`` over module paths, ``call`` over call names, at every level."""

from __future__ import annotations

import json
import logging
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ulpscope
from captured import Captured, capture_of


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(4), Mlp()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(self.norm(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def names(tmp_path: Path, level: str, with_model: bool = True, **selection: Any) -> list[str]:
    model = Net()

    def program() -> None:
        model(torch.ones(2, 4)).sum().backward()

    given = {"model": model} if with_model else {}
    return list(capture_of(tmp_path, program, level=level, **given, **selection).calls)


class Node(nn.Module):
    """A module that can have any others inside, and calls none of them."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1


def tree_of(paths: list[str]) -> nn.Module:
    """A module with modules at these paths, which are called one after the other."""

    class Tree(Node):
        def forward(self, x: Tensor) -> Tensor:
            for path in paths:
                x = self.get_submodule(path)(x)
            return x

    tree = Tree()
    for path in paths:
        owner: nn.Module = tree
        for part in path.split("."):
            if part not in owner._modules:
                owner.add_module(part, Node())
            owner = owner.get_submodule(part)
    return tree


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (
            "layers.*.mlp",
            ["layers.0.mlp", "layers.12.mlp"],
            ["layers.mlp", "layers.0.1.mlp", "x.layers.0.mlp"],
        ),
        ("**.mlp", ["mlp", "layers.0.mlp", "a.b.c.mlp"], ["layers.0.mlp.up", "xmlp"]),
        ("layers.**", ["layers.0", "layers.0.mlp.up"], ["layers", "other.0"]),
        ("layers.?.mlp", ["layers.1.mlp"], ["layers.11.mlp"]),
        ("layers.[0-2]", ["layers.0", "layers.2"], ["layers.3", "layers.[0-2]"]),
        ("layers.[!0]", ["layers.1"], ["layers.0"]),
        ("layers.0", ["layers.0"], ["layers.00", "layersx0", "layers.0.mlp"]),
        ("re:mlp|norm", ["layers.0.mlp.up", "norm"], ["layers.0"]),
        (r"re:^layers\.\d$", ["layers.3"], ["layers.33", "x.layers.3"]),
        ("a+b(", ["a+b("], ["aab("]),
        ("[", ["["], ["x"]),
    ],
)
def test_globs_and_regular_expressions(
    tmp_path: Path, pattern: str, matching: list[str], others: list[str]
) -> None:
    tree = tree_of([*matching, *others])

    def recorded(folder: Path, **selection: Any) -> list[str]:
        calls = capture_of(folder, lambda: tree(torch.ones(1)), model=tree, level="L0", **selection).calls
        return [call.removeprefix("Module.").removesuffix(".Node.forward.0") for call in calls]

    assert recorded(tmp_path / "all") == [*matching, *others]
    assert recorded(tmp_path / "selected", module=pattern) == matching


def linear_extra(x: Tensor) -> Tensor:
    """A function of the user whose name begins as one of torch does."""
    return x * 2


@pytest.mark.parametrize(
    ("pattern", "selected"),
    [
        ("Functional.linear", [f"Functional.linear.{number}.forward" for number in range(14)]),
        ("Functional.linear.3", ["Functional.linear.3.forward"]),
        ("Functional.linear_*", ["Functional.linear_extra.0.forward"]),
        ("Functional.*.0", ["Functional.linear.0.forward", "Functional.linear_extra.0.forward"]),
        ("Module.**.Linear", [f"Module.mlp.up.Linear.forward.{number}" for number in range(14)]),
        ("Module.mlp.up.Linear.forward.12", ["Module.mlp.up.Linear.forward.12"]),
        ("*near_e*", ["Functional.linear_extra.0.forward"]),
        ("re:linear.1\\d", [f"Functional.linear.{number}.forward" for number in range(10, 14)]),
    ],
)
def test_a_call_may_be_named_without_number_and_direction(
    tmp_path: Path, pattern: str, selected: list[str]
) -> None:
    model = nn.Module()
    model.mlp = Mlp()
    run = ulpscope.capture(tmp_path, model=model, level="mix", call=pattern)
    run.register_custom_api(sys.modules[__name__], "linear_extra", "Functional")
    with run:
        for _ in range(14):
            model.mlp.up(torch.ones(1, 4))
        linear_extra(torch.ones(1))
    assert list(Captured(tmp_path).calls) == selected


@pytest.mark.parametrize("level", ["L0", "L1", "mix", "L2"])
@pytest.mark.parametrize("with_model", [True, False])
def test_what_runs_in_a_module(tmp_path: Path, level: str, with_model: bool) -> None:
    chosen = names(tmp_path / "chosen", level, with_model, module="layers.1.mlp")
    everything = names(tmp_path / "all", level, with_model)
    assert 0 < len(chosen) < len(everything) / 2
    # Numbers are those of the whole run, so that dumps of different selections can be compared.
    assert set(chosen) <= set(everything)
    expected = {
        "L0": {"Module.layers.1.mlp.Mlp.forward.0", "Module.layers.1.mlp.Mlp.backward.0"},
        "L1": {"Torch.relu.1.forward", "Torch.relu.1.backward", "Functional.linear.2.forward"},
        "mix": {"Torch.relu.1.forward", "Module.layers.1.mlp.up.Linear.parameters_grad.0"},
        "L2": {"Aten.relu.1.forward"},
    }[level]
    assert expected <= set(chosen)
    assert [name for name in chosen if "layers.0" in name or "layer_norm" in name] == []


@pytest.mark.parametrize(
    ("level", "pattern", "prefixes"),
    [
        (
            "L0",
            "Module.layers.*.norm.*",
            {"Module.layers.0.norm", "Module.layers.1.norm", "Module.layers.2.norm"},
        ),
        ("L1", "Functional.lin*", {"Functional.linear"}),
        ("mix", r"re:relu|\.Mlp\.", {"Torch.relu", "Module.layers"}),
        ("L2", "Aten.relu", {"Aten.relu"}),
    ],
)
def test_calls_by_name(tmp_path: Path, level: str, pattern: str, prefixes: set[str]) -> None:
    found = names(tmp_path, level, call=pattern)
    assert found
    for prefix in prefixes:
        assert any(name.startswith(prefix) for name in found)
    assert all(name.startswith(tuple(prefixes)) for name in found)
    if level != "L2":
        assert any("backward" in name for name in found)


def test_all_given_selections_count(tmp_path: Path) -> None:
    both = names(tmp_path / "both", "L1", module="layers.[01].mlp", call=["re:relu", "Functional.linear"])
    assert sorted(name for name in both if name.endswith("forward")) == sorted(
        [f"Torch.relu.{n}.forward" for n in range(2)] + [f"Functional.linear.{n}.forward" for n in range(4)]
    )
    listed = names(tmp_path / "listed", "L1", module="layers.0.mlp", list="linear")
    assert [name for name in listed if name.endswith("forward")] == [
        "Functional.linear.0.forward",
        "Functional.linear.1.forward",
    ]
    scope = ["Torch.relu.0.forward", "Torch.relu.1.forward"]
    scoped = names(tmp_path / "scoped", "L1", call="Functional.linear", scope=scope)
    assert [name for name in scoped if name.endswith("forward")] == [
        "Functional.linear.1.forward",
        "Functional.linear.2.forward",
    ]


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    names(tmp_path, "L1", call="Torch.relu")
    ledger = Captured(tmp_path).ledger
    assert ledger["recorded"] == 6
    assert ledger["skipped"]["not selected"] > 10
    assert ledger["seen"] == ledger["recorded"] + sum(ledger["skipped"].values())


def test_a_pattern_that_matches_nothing_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = Net()
    with (
        caplog.at_level(logging.WARNING, "ulpscope"),
        ulpscope.capture(
            tmp_path, model=model, module=["layers.*.mlp", "block.*"], call=["re:relu", "Torch.no"]
        ) as run,
    ):
        for _ in range(2):
            model(torch.ones(2, 4))
            run.step()
    notes = [Captured(tmp_path, step).ledger["notes"] for step in range(2)]
    assert [[note.split(" matches")[0] for note in of_step] for of_step in notes] == [
        ["call: 'Torch.no'", "module: 'block.*'"],
        ["call: 'Torch.no'"],
    ]
    warned = [record.getMessage().split(" matches")[0] for record in caplog.records]
    assert warned == ["call: 'Torch.no'", "module: 'block.*'"]
    # The capture ends with its last step: a note makes no step of its own.
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["step0", "step1"]


@pytest.mark.parametrize(
    ("setting", "pattern", "hint"),
    [
        ("call", "relu", "; '*relu*' matches Torch.relu.0.forward"),
        ("call", "linear.0", "; '**linear.0**' matches Functional.linear.0.forward"),
        ("call", "*.up", "; * stops at dots: '**.up**' matches Module.layers.0.mlp.up.Linear.forward.0"),
        ("call", "re:nothing", ""),
        ("call", "nothing", ""),
        ("module", "mlp", ": nothing is recorded for it; '**mlp**' matches layers.0.mlp"),
        (
            "module",
            "*mlp*",
            ": nothing is recorded for it; * stops at dots: '**mlp**' matches layers.0.mlp",
        ),
        ("module", "nothing.*", ": nothing is recorded for it"),
    ],
)
def test_a_pattern_that_matches_nothing_is_reported_with_one_that_does(
    tmp_path: Path, setting: str, pattern: str, hint: str
) -> None:
    selection: dict[str, Any] = {setting: pattern}
    assert names(tmp_path / "none", "mix", **selection) == []
    (note,) = Captured(tmp_path / "none").ledger["notes"]
    what = {"call": "call of this step", "module": "module of the model"}[setting]
    assert note == f"{setting}: {pattern!r} matches no {what}{hint}"
    if " matches " in hint:
        wider = {setting: hint.split("'")[1]}
        assert names(tmp_path / "some", "mix", **wider) != []


@pytest.mark.parametrize("setting", ["module", "call"])
def test_a_wrong_expression_is_an_error_at_once(tmp_path: Path, setting: str) -> None:
    wrong: dict[str, Any] = {setting: "re:(linear"}
    with pytest.raises(ulpscope.SettingsError, match=rf"{setting} has 're:\(linear', which is no pattern"):
        ulpscope.capture(tmp_path / "dump", **wrong)
    assert not (tmp_path / "dump").exists()


def test_the_program_computes_the_same(tmp_path: Path) -> None:
    def trained(folder: Path | None) -> str:
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if folder is None:
            model(torch.ones(2, 4)).sum().backward()
        else:
            with ulpscope.capture(folder, model=model, level="mix", module="layers.*.mlp", call="re:linear"):
                model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        return json.dumps([ulpscope.digest(parameter.detach()) for parameter in model.parameters()])

    assert trained(tmp_path) == trained(None)


def test_ctrl_c_while_a_pattern_is_matched_ends_the_program(tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    values = torch.ones(2)
    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        # Three ways to match each character, and no match at the end: it takes hours.
        with ulpscope.capture(tmp_path / "dump", call=[r"re:(?:\w|\S|[^ ])*Z"]):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                torch.relu(values)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
