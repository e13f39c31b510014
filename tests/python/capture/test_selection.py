"""Which calls, directions and sides a capture records, and how much."""

import pytest
import torch

import ulpscope
from captured import Captured, Net, capture_of, forward_of

SELECTIONS = {
    "list": ({"list": ["tanh"]}, {"Torch.tanh.0.forward", "Torch.tanh.1.forward", "Torch.tanh.2.forward"}),
    "scope": (
        {"scope": ["Torch.tanh.0.forward", "Functional.linear.1.forward"]},
        {"Torch.tanh.0.forward", "Functional.linear.1.forward"},
    ),
    "max_calls": ({"max_calls": 2}, {"Functional.linear.0.forward", "Torch.tanh.0.forward"}),
    "a module by its name": (
        {"level": "mix", "list": ["layers.1"]},
        {"Module.layers.1.Linear.forward.0", "Functional.linear.1.forward"},
    ),
    "the first of repeated layers": (
        {"level": "L0", "layers": "first"},
        {"Module.layers.0.Linear.forward.0"},
    ),
    "the last of repeated layers": ({"level": "L0", "layers": "last"}, {"Module.layers.2.Linear.forward.0"}),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_selection(tmp_path, name):
    settings, wanted = SELECTIONS[name]
    net = Net()
    captured = capture_of(tmp_path, forward_of(net, torch.randn(2, 4)), model=net, **settings)
    assert set(captured.calls) == wanted
    ledger = captured.ledger
    assert ledger["recorded"] == len(wanted)
    skipped = sum(count for reason, count in ledger["skipped"].items() if reason != "metadata")
    assert skipped + ledger["recorded"] == ledger["seen"] - ledger["skipped"].get("metadata", 0)
    assert "began as the step ended" not in ledger["skipped"]


@pytest.mark.parametrize(
    ("mode", "forward", "backward"),
    [
        (["forward"], {"input_args", "input_kwargs", "output"}, None),
        (["backward"], None, {"input", "output"}),
        (["input"], {"input_args", "input_kwargs"}, {"input"}),
        (["output"], {"output"}, {"output"}),
        (["forward", "output"], {"output"}, None),
    ],
)
def test_data_mode(tmp_path, mode, forward, backward):
    x = torch.randn(3, requires_grad=True)
    calls = capture_of(tmp_path, lambda: torch.tanh(x).sum().backward(), data_mode=mode).calls
    names = ("Torch.tanh.0.forward", "Torch.tanh.0.backward")
    assert [set(calls[name]) if name in calls else None for name in names] == [forward, backward]


LEFT_OUT = "the backward calls of calls that were left out are neither watched nor counted"
NO_BACKWARD = "backward calls are not selected: they are neither watched nor counted"


@pytest.mark.parametrize(
    ("settings", "note"),
    [
        ({"list": ["sum"]}, None),
        ({"layers": "last"}, LEFT_OUT),
        ({"max_calls": 2}, LEFT_OUT),
        ({"data_mode": ["forward"]}, NO_BACKWARD),
        ({"data_mode": ["backward"]}, None),
        ({}, None),
    ],
)
def test_backward_calls_that_no_counter_has_are_noted(tmp_path, settings, note):
    net, x = Net(), torch.randn(2, 4)
    captured = capture_of(tmp_path, lambda: net(x).sum().backward(), model=net, level="mix", **settings)
    assert [text for text in captured.ledger["notes"] if "backward" in text] == ([note] if note else [])


@pytest.mark.parametrize("layers", ["first", "last", "all"])
def test_modules_that_are_left_out_are_counted(tmp_path, layers):
    net = Net()
    captured = capture_of(tmp_path, forward_of(net, torch.randn(2, 4)), model=net, level="L0", layers=layers)
    ledger = captured.ledger
    assert ledger["seen"] == 3
    assert ledger["skipped"] == ({} if layers == "all" else {"in a repeated layer": 2})


def test_scalars_and_integers_can_be_left_out(tmp_path):
    x, index = torch.randn(4), torch.tensor([0, 1])
    settings = {"skip_scalars": True, "skip_ints": True}
    calls = capture_of(tmp_path, lambda: torch.index_select(x, 0, index), **settings).calls
    first, *rest = calls["Torch.index_select.0.forward"]["input_args"]
    assert first["shape"] == [4]
    assert rest == [None, None]


def test_only_what_is_no_tensor_is_a_scalar_and_flags_are_integers(tmp_path):
    x = torch.tensor([2.0])
    calls = capture_of(tmp_path / "scalars", lambda: torch.clamp(x, 1, 3.0), skip_scalars=True).calls
    first, *rest = calls["Torch.clamp.0.forward"]["input_args"]
    assert (first["shape"], rest) == ([1], [None, None])
    flag = torch.tensor([True])
    calls = capture_of(tmp_path / "ints", lambda: torch.where(flag, x, 1), skip_ints=True).calls
    mask, kept, number = calls["Torch.where.0.forward"]["input_args"]
    assert (mask, kept["shape"], number["value"]) == (None, [1], 1)


def test_operators_of_every_namespace(tmp_path):
    with torch.library._scoped_library("ulpscope_test", "DEF") as library:
        library.define("doubled(Tensor x) -> Tensor")
        library.impl("doubled", lambda x: x * 2, "CompositeExplicitAutograd")
        operators = torch.ops.ulpscope_test

        def program():
            operators.doubled(torch.ones(2))
            operators.doubled.default(torch.ones(2))

        for level in ("L1", "L2"):
            calls = capture_of(tmp_path / level, program, level=level, custom_op_namespaces=[]).calls
            named = [name for name in calls if name.startswith("ulpscope_test.")]
            assert named == ["ulpscope_test.doubled.0.forward", "ulpscope_test.doubled.1.forward"]


def test_an_unused_hint_names_no_other_call(tmp_path):
    """That of a `2 * x` which was not recorded."""
    x = torch.ones(2)
    with ulpscope.capture(tmp_path) as run:
        run.end_forward()
        2 * x
        run.start()
        x * 2
        2 * x
    assert list(Captured(tmp_path).calls) == ["Tensor.__mul__.0.forward", "Tensor.__rmul__.0.forward"]


def test_tensors_of_some_calls(tmp_path):
    x = torch.randn(4)
    calls = capture_of(tmp_path, lambda: torch.sin(torch.cos(x)), tensor_list=["sin"]).calls
    has_file = {name: "data_name" in call["output"][0] for name, call in calls.items()}
    assert has_file == {"Torch.cos.0.forward": False, "Torch.sin.0.forward": True}


def test_limits_hold_for_the_whole_run(tmp_path):
    x = torch.ones(2, requires_grad=True)
    with ulpscope.capture(tmp_path, max_calls=3) as run:
        for _ in range(3):
            torch.sin(x).sum().backward()
            run.step()
    ledgers = [Captured(tmp_path, step=step).ledger for step in range(3)]
    assert [ledger["recorded"] for ledger in ledgers] == [3, 0, 0]
    assert all(ledger["skipped"]["over max_calls"] > 0 for ledger in ledgers)


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_saved_values_are_limited_too(tmp_path, limit):
    with ulpscope.capture(tmp_path, level="debug", max_calls=limit) as run:
        for _ in range(4):
            run.save(torch.ones(2), "x")
    found = Captured(tmp_path)
    kept = min(limit, 4)
    assert list(found.document("debug.json")["data"]) == [f"x.{number}.debug" for number in range(kept)]
    ledger = found.ledger
    assert (ledger["seen"], ledger["recorded"]) == (4, kept)
    assert ledger["skipped"] == ({"over max_calls": 4 - kept} if kept < 4 else {})


class TwoWays(torch.nn.Module):
    """Modules that are called like the directions of calls."""

    def __init__(self):
        super().__init__()
        self.forward_net = torch.nn.Linear(2, 2)
        self.backward_net = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.backward_net(self.forward_net(x))


def there_and_back(net):
    return lambda: net(torch.ones(1, 2)).sum().backward()


@pytest.mark.parametrize("way", ["forward", "backward"])
def test_scope_of_a_module_that_is_called_like_a_direction(tmp_path, way):
    net = TwoWays()
    base = f"Module.{way}_net.Linear"
    scope = [f"{base}.forward.0"] * 2
    found = capture_of(tmp_path / "forward", there_and_back(net), model=net, level="L0", scope=scope)
    assert set(found.calls) == {f"{base}.forward.0"}
    scope = [f"{base}.backward.0"] * 2
    found = capture_of(tmp_path / "backward", there_and_back(net), model=net, level="L0", scope=scope)
    assert set(found.calls) == {f"{base}.backward.0", f"{base}.parameters_grad.0"}


def test_parents_that_are_called_like_directions(tmp_path):
    net = TwoWays()
    found = capture_of(tmp_path, there_and_back(net), model=net, level="mix")
    parents = found.document("construct.json")
    for number, way in enumerate(["forward", "backward"]):
        for direction in ("forward", "backward"):
            call = f"Functional.linear.{number}.{direction}"
            assert parents[call] == f"Module.{way}_net.Linear.{direction}.0"


SCOPE_FIRST = "scope: no call {} was seen in this step: nothing of it is recorded"
SCOPE_LAST = "scope: no call {} was seen after {} in this step: everything from there to its end is recorded"
LISTED = 'list: "{}" is part of no name that was seen in this step'
TANH, LINEAR, TYPO = "Torch.tanh.0.forward", "Functional.linear.1.forward", "Functional.tanh.0.forward"


@pytest.mark.parametrize(
    ("settings", "notes"),
    [
        ({"scope": [TANH, LINEAR]}, []),
        ({"scope": [TANH, TANH]}, []),
        ({"scope": [TYPO, LINEAR]}, [SCOPE_FIRST.format(TYPO)]),
        ({"scope": [TANH, TYPO]}, [SCOPE_LAST.format(TYPO, TANH)]),
        # The wrong way round.
        ({"scope": [LINEAR, TANH]}, [SCOPE_LAST.format(TANH, LINEAR)]),
        ({"scope": ["Torch.tanh.0.backward", "Torch.tanh.9.backward"]}, None),
        ({"list": ["tanh", "linear"]}, []),
        ({"list": ["tanh", "conv", "Linear"]}, [LISTED.format("Linear"), LISTED.format("conv")]),
        ({"level": "mix", "list": ["layers.1", "layers.2"]}, []),
        ({"level": "mix", "list": ["layers.0.Linear.parameters_grad"]}, []),
        # Level L1 knows no modules.
        ({"list": ["layers.1", "layers.2"]}, [LISTED.format("layers.1"), LISTED.format("layers.2")]),
    ],
)
def test_names_that_select_nothing_are_noted(tmp_path, caplog, settings, notes):
    net = Net()
    if notes is None:
        notes = [SCOPE_LAST.format(*reversed(settings["scope"]))]
    with ulpscope.capture(tmp_path, model=net, **settings) as run:
        for _ in range(2):
            net(torch.ones(2, 4)).sum().backward()
            run.step()
    for step in range(2):
        found = Captured(tmp_path, step=step).ledger["notes"]
        assert [note for note in found if note.startswith(("scope", "list"))] == notes
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert sorted(warnings) == notes


def test_a_step_without_calls_knows_no_names(tmp_path, caplog):
    with ulpscope.capture(tmp_path, scope=[TANH, LINEAR]) as run:
        run.step()
    assert Captured(tmp_path).ledger["notes"] == []
    assert not caplog.records
