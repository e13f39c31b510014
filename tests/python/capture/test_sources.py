"""Which call made a tensor: the edges along which values, and gradients, are followed."""

import copy

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from captured import capture_of


def source(captured, call, position=0):
    return captured.calls[call]["input_args"][position]["source"]


@pytest.mark.parametrize("name", ["T", "mT", "H", "mH", "real", "imag"])
def test_a_property_that_gives_another_tensor_is_a_call(tmp_path, name):
    x = torch.randn(2, 3, dtype=torch.complex64, requires_grad=True)

    def program():
        getattr(x.exp(), name).cos().abs().sum().backward()

    captured = capture_of(tmp_path, program, task="tensor")
    call = f"Tensor.{name}.0.forward"
    assert source(captured, call) == "Tensor.exp.0.forward.output.0"
    assert source(captured, "Tensor.cos.0.forward") == f"{call}.output.0"
    found = captured.tensor(captured.calls[call]["output"][0]).resolve_conj()
    assert torch.equal(found, getattr(x.exp(), name).resolve_conj())
    gradient = captured.calls[f"Tensor.{name}.0.backward"]["output"][0]
    assert gradient["shape"] == [2, 3]
    ledger = captured.ledger
    assert ledger["seen"] == ledger["recorded"]


HANDING_ON = {
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "contiguous": lambda x: x.contiguous(),
    "type_as": lambda x: x.type_as(x),
    "to": lambda x: x.to(torch.float32),
    "broadcast": lambda x: torch.broadcast_tensors(x, x),
    "real": lambda x: x.real,
}


@pytest.mark.parametrize("name", HANDING_ON)
def test_what_a_call_hands_on_stays_its_makers(tmp_path, name):
    def program():
        x = torch.ones(2).exp()
        HANDING_ON[name](x)
        torch.sin(x)

    captured = capture_of(tmp_path, program)
    wanted = "Tensor.exp.0.forward.output.0"
    assert source(captured, "Torch.sin.0.forward") == wanted


CHANGING = {
    "by its name": (lambda x: x.add_(1), "Tensor.add_.0.forward.output.0"),
    "by a flag": (lambda x: F.relu(x, inplace=True), "Functional.relu.0.forward.output.0"),
    "by a flag that is passed by position": (lambda x: F.relu(x, True), "Functional.relu.0.forward.output.0"),
    "as the place of the result": (lambda x: torch.add(x, 1, out=x), "Torch.add.0.forward.output.0"),
}


@pytest.mark.parametrize("name", CHANGING)
def test_what_a_call_changes_is_its_own(tmp_path, name):
    change, wanted = CHANGING[name]

    def program():
        x = torch.ones(2).exp()
        change(x)
        torch.sin(x)

    assert source(capture_of(tmp_path, program), "Torch.sin.0.forward") == wanted


ALIASES = {
    "data": lambda x: x.data.add_(1),
    "an element of data": lambda x: x.data.__setitem__(0, 5),
    "a detached one": lambda x: x.detach().add_(1),
    "a view of a detached one": lambda x: x.detach().view(-1).add_(1),
    "a detached one of a view": lambda x: x.view(-1).detach().add_(1),
    "detached twice": lambda x: x.detach().data.add_(1),
}


@pytest.mark.parametrize("name", ALIASES)
def test_what_is_changed_by_another_name_is_changed(tmp_path, name):
    def program():
        x = torch.ones(2).exp()
        ALIASES[name](x)
        torch.sin(x)

    captured = capture_of(tmp_path, program)
    call = "Tensor.__setitem__" if "element" in name else "Tensor.add_"
    assert source(captured, "Torch.sin.0.forward") == f"{call}.0.forward.input.0"


class TestModulesAlone:
    @pytest.mark.parametrize(
        ("module", "wanted"),
        [
            (torch.nn.Identity(), "Module.0.Linear.forward.0.output.0"),
            (torch.nn.ReLU(inplace=True), "Module.1.ReLU.forward.0.output.0"),
        ],
    )
    def test_they_hand_on_what_they_do_not_change(self, tmp_path, module, wanted):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), module, torch.nn.Linear(2, 2))
        captured = capture_of(tmp_path, lambda: model(torch.ones(1, 2)), model=model, level="L0")
        assert source(captured, "Module.2.Linear.forward.0") == wanted


def test_running_statistics_are_changed_by_the_call_that_keeps_them(tmp_path):
    mean, variance, x = torch.zeros(3), torch.ones(3), torch.randn(4, 3)

    def program():
        F.batch_norm(x, mean, variance, training=False)
        mean.sin()
        F.batch_norm(x, mean, variance, training=True)
        mean.sin()
        variance.sin()

    captured = capture_of(tmp_path, program)
    found = [source(captured, f"Tensor.sin.{number}.forward") for number in range(3)]
    assert found == ["outside"] + [f"Functional.batch_norm.1.forward.input.{place}" for place in (1, 2)]


@torch.jit.script
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + x


class Scripted(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1


class TestTorchScript:
    @pytest.mark.parametrize("level", ["L1", "mix"])
    def test_a_function_is_one_call(self, tmp_path, level):
        x = torch.ones(2, requires_grad=True)
        before = torch._C.ScriptFunction.__call__

        captured = capture_of(tmp_path, lambda: doubled(x).cos().sum().backward(), level=level)
        assert source(captured, "Tensor.cos.0.forward") == "Script.doubled.0.forward.output.0"
        assert captured.calls["Script.doubled.0.backward"]["output"][0]["shape"] == [2]
        note = "Script.doubled was run by TorchScript: what runs inside it is not seen"
        assert note in captured.ledger["notes"]
        assert torch._C.ScriptFunction.__call__ is before

    def test_a_module_is_one_call(self, tmp_path):
        module = torch.jit.script(Scripted())
        captured = capture_of(tmp_path, lambda: module(torch.ones(2)).cos())
        assert source(captured, "Tensor.cos.0.forward") == "Script.Scripted.forward.0.forward.output.0"

    def test_modules_alone_have_a_note(self, tmp_path):
        model = torch.nn.Sequential(torch.jit.script(Scripted()))
        captured = capture_of(tmp_path, lambda: model(torch.ones(2)), model=model, level="L0")
        note = "Script.Scripted.forward was run by TorchScript: what runs inside it is not seen"
        assert note in captured.ledger["notes"]
        assert "Script.Scripted.forward.0.forward" not in captured.calls


STATISTICS = {
    "by position": lambda f, x, mean, var, flag: f(x, mean, var, **{flag: True}),
    "by name": lambda f, x, mean, var, flag: f(x, running_mean=mean, running_var=var, **{flag: True}),
    "in ways that code does not tell": lambda f, x, mean, var, flag: f(*(x, mean, var), **{flag: True}),
}


@pytest.mark.parametrize("way", STATISTICS)
@pytest.mark.parametrize(("name", "flag"), [("instance_norm", "use_input_stats"), ("batch_norm", "training")])
def test_running_statistics_are_changed(tmp_path, name, flag, way):
    """And are named as they are recorded."""
    x, mean, var = torch.randn(2, 3, 4), torch.zeros(3), torch.ones(3)

    def program():
        made = [mean.exp(), var.exp()]
        STATISTICS[way](getattr(F, name), x, *made, flag)
        torch.sin(made[0])
        torch.cos(made[1])

    captured = capture_of(tmp_path, program)
    call = captured.calls[f"Functional.{name}.0.forward"]
    for use, maker in (("sin", "Tensor.exp.0"), ("cos", "Tensor.exp.1")):
        prefix, _, place = source(captured, f"Torch.{use}.0.forward").rpartition(".")
        assert prefix == f"Functional.{name}.0.forward.input"
        entry = call["input_args"][int(place)] if place.isdigit() else call["input_kwargs"][place]
        assert entry["source"] == f"{maker}.forward.output.0"


@pytest.mark.parametrize("level", ["L1", "mix", "L2"])
def test_a_tensor_that_is_set_to_another(tmp_path, level):
    """Torch shows that to no function mode."""

    def program():
        x, other = torch.zeros(3), torch.ones(4) * 9
        x.set_(other)
        x.sin()
        other.cos()
        x.set_(other.untyped_storage(), 1, (2,))
        x.tan()

    captured = capture_of(tmp_path, program, level=level, task="tensor")
    space = "Aten" if level == "L2" else "Tensor"
    first, second = captured.calls[f"{space}.set_.0.forward"], captured.calls[f"{space}.set_.1.forward"]
    assert [item["shape"] for item in first["input_args"]] == [[3], [4]]
    assert captured.tensor(second["output"][0]).tolist() == [9.0, 9.0]
    assert source(captured, f"{space}.sin.0.forward") == f"{space}.set_.0.forward.output.0"
    assert source(captured, f"{space}.tan.0.forward") == f"{space}.set_.1.forward.output.0"
    assert "mul" in source(captured, f"{space}.cos.0.forward")
    ledger = captured.ledger
    assert ledger["seen"] == ledger["recorded"] + ledger["skipped"].get("metadata", 0)


def test_memory_is_set_within_a_call_unseen(tmp_path):
    """It is part of that call."""
    x = torch.ones(3)
    captured = capture_of(tmp_path, lambda: copy.deepcopy(x).sin())
    assert list(captured.calls) == ["Tensor.sin.0.forward"]
    assert "set_" not in vars(torch.Tensor)


class Tripled(torch.autograd.Function):
    """Whose backward calls functions of torch."""

    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


class Changed(torch.autograd.Function):
    """Whose backward changes what it has made."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        made = gradient.exp()
        made[0] = 0
        made.sin()
        made.add_(1)
        made.cos()
        return made


def test_a_sum_of_gradients_has_no_call_that_made_it(tmp_path):
    """Autograd adds to the first of them, where it lies."""
    x = torch.ones(3, requires_grad=True)

    def program():
        y = Tripled.apply(x)
        (Tripled.apply(y) + Tripled.apply(y) * 10).sum().backward()

    captured = capture_of(tmp_path / "sum", program)
    backward = [
        call["input_args"][0]
        for name, call in captured.calls.items()
        if name.startswith("Tensor.__mul__") and name.endswith(".forward")
    ][-1]
    assert (backward["Max"], backward["source"]) == (33.0, "outside")
    captured = capture_of(tmp_path / "single", lambda: Tripled.apply(Tripled.apply(x)).sum().backward())
    last = captured.calls["Tensor.__mul__.3.forward"]["input_args"][0]
    assert (last["Max"], last["source"]) == (3.0, "Tensor.__mul__.2.forward.output.0")


def test_what_a_backward_changes_by_calls_names_them(tmp_path):
    x = torch.ones(3, requires_grad=True)
    captured = capture_of(tmp_path, lambda: Changed.apply(x).sum().backward())
    assert source(captured, "Tensor.sin.0.forward") == "Tensor.__setitem__.0.forward.input.0"
    assert source(captured, "Tensor.cos.0.forward") == "Tensor.add_.0.forward.output.0"
