"""Backward calls: the gradients that arrive at results, and those given to arguments, against autograd."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from captured import capture_of


def gradients_of(captured, call):
    """The saved gradients of a backward call: at its results, and at its arguments."""
    found = captured.calls[call]
    read = lambda items: [None if item is None else captured.tensor(item) for item in items]  # noqa: E731
    return read(found["input"]), read(found["output"])


def same(found, wanted):
    """Whether two lists of tensors, with gaps, hold the same elements in the same shapes."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.shape == other.shape
            assert torch.equal(one, other)


def leaf(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


CALLS = {
    "linear in two dimensions": (
        "Functional.linear",
        lambda x, w, b: F.linear(x, w, b),
        [(5, 4), (3, 4), (3,)],
    ),
    "linear in three dimensions": (
        "Functional.linear",
        lambda x, w, b: F.linear(x, w, b),
        [(2, 5, 4), (3, 4), (3,)],
    ),
    "matmul of batches": ("Torch.matmul", torch.matmul, [(2, 3, 4), (2, 4, 5)]),
    "convolution": (
        "Functional.conv2d",
        lambda x, w, b: F.conv2d(x, w, b),
        [(1, 2, 6, 6), (3, 2, 3, 3), (3,)],
    ),
    "layer norm": (
        "Functional.layer_norm",
        lambda x, w, b: F.layer_norm(x, (4,), w, b),
        [(2, 3, 4), (4,), (4,)],
    ),
    "a list": ("Torch.cat", lambda a, b: torch.cat([a, b]), [(2, 3), (4, 3)]),
    "broadcasting": ("Tensor.__mul__", lambda a, b: a * b, [(2, 3, 4), (4,)]),
    "einsum": ("Torch.einsum", lambda a, b: torch.einsum("ij,jk->ik", a, b), [(2, 3), (3, 4)]),
    "attention": (
        "Functional.scaled_dot_product_attention",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        [(1, 2, 5, 4), (1, 2, 5, 4), (1, 2, 5, 4)],
    ),
    "softmax": ("Functional.softmax", lambda x: F.softmax(x, dim=-1), [(3, 4)]),
    "cross entropy": (
        "Functional.cross_entropy",
        lambda x: F.cross_entropy(x, torch.tensor([1, 0, 2])),
        [(3, 4)],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_gradients_are_those_of_the_call(tmp_path, name):
    base, function, shapes = CALLS[name]
    torch.manual_seed(0)
    leaves = [leaf(*shape) for shape in shapes]
    outside = [x.sin() for x in leaves]
    plain = function(*outside)
    arriving = torch.randn_like(plain)
    wanted = torch.autograd.grad(plain, outside, arriving)

    def program():
        # The arguments are used elsewhere, too: what comes from there is not the call's.
        inner = [x.sin() for x in leaves]
        extra = sum(x.neg().sum() for x in inner)
        (function(*inner) * arriving).sum().add(extra).backward()

    captured = capture_of(tmp_path, program, task="tensor")
    at_results, at_arguments = gradients_of(captured, f"{base}.0.backward")
    same(at_results, [arriving])
    same(at_arguments[: len(wanted)], list(wanted))


def test_every_result_has_its_gradient(tmp_path):
    x = leaf(6, 4)
    weights = [leaf(2, 4) for _ in range(2)]

    def program():
        first, _unused, third = x.chunk(3)
        ((first * weights[0]).sum() + (third * weights[1]).sum()).backward()

    captured = capture_of(tmp_path, program, task="tensor")
    at_results, at_arguments = gradients_of(captured, "Tensor.chunk.0.backward")
    assert torch.equal(at_results[0], weights[0])
    assert torch.equal(at_results[2], weights[1])
    same(at_arguments, [torch.cat([weights[0], torch.zeros(2, 4).double(), weights[1]])])


def test_a_tensor_given_twice_gets_two_gradients(tmp_path):
    x, y = leaf(3), torch.randn(3, dtype=torch.float64)

    def program():
        z = x.exp()
        (torch.mul(z, z) * y).sum().backward()

    captured = capture_of(tmp_path, program, task="tensor")
    _, at_arguments = gradients_of(captured, "Torch.mul.0.backward")
    same(at_arguments, [x.exp() * y, x.exp() * y])


def test_a_tensor_given_twice_to_linear_gets_two_gradients(tmp_path):
    """Its weight is transposed on the way, its input is not."""
    w, b, arriving = leaf(4, 4), leaf(4), torch.randn(4, 4, dtype=torch.float64)
    first, second = (w.detach().clone().requires_grad_() for _ in range(2))
    wanted = torch.autograd.grad(F.linear(first, second, b), [first, second, b], arriving)
    program = lambda: (F.linear(w, w, b) * arriving).sum().backward()  # noqa: E731
    captured = capture_of(tmp_path, program, task="tensor")
    _, at_arguments = gradients_of(captured, "Functional.linear.0.backward")
    same(at_arguments, list(wanted))
    assert captured.ledger["notes"] == []


@pytest.mark.parametrize(
    ("base", "function"),
    [
        # Which of them it takes first depends on the equation.
        ("Torch.einsum", lambda a, b: torch.einsum("ij,kj->ik", a, b)),
        ("Torch.einsum", lambda a, b: torch.einsum("ij,jk->ki", a, b)),
        # One of them is used more than once.
        ("Functional.kl_div", lambda a, b: F.kl_div(a, b, reduction="none")),
        ("Functional.cosine_similarity", F.cosine_similarity),
    ],
)
def test_a_tensor_given_twice_whose_gradients_come_as_one_is_noted(tmp_path, base, function):
    x = torch.rand(3, 3, dtype=torch.float64).requires_grad_()
    first, second = (x.detach().clone().requires_grad_() for _ in range(2))
    arriving = torch.randn_like(function(first, second))
    parts = torch.autograd.grad(function(first, second), [first, second], arriving)
    program = lambda: (function(x, x) * arriving).sum().backward()  # noqa: E731
    captured = capture_of(tmp_path, program, task="tensor")
    note = f"{base} was given one tensor for several arguments: the gradient of all is at the first of them"
    assert captured.ledger["notes"] == [note]
    _, at_arguments = gradients_of(captured, f"{base}.0.backward")
    torch.testing.assert_close(at_arguments[0], parts[0] + parts[1])
    assert at_arguments[1] is None
    whole, *_ = captured.calls[f"{base}.0.backward"]["output"]
    assert whole["shared_with"] == [1]


@pytest.mark.parametrize(("twins", "alone"), [([0, 1, 2], []), ([1, 2], [0])])
@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_that_uses_one_of_two_for_both_is_noted(tmp_path, twins, alone, need_weights):
    weight, bias, out = (torch.randn(*shape, dtype=torch.float64) for shape in [(12, 4), (12,), (4, 4)])

    def attention(*given):
        rest = (4, 2, weight, bias, None, None, False, 0.0, out, torch.zeros(4, dtype=torch.float64))
        return F.multi_head_attention_forward(*given, *rest, need_weights=need_weights)[0]

    x, other = (torch.randn(3, 1, 4, dtype=torch.float64).requires_grad_() for _ in range(2))
    given = [x if place in twins else other for place in range(3)]
    apart = [one.detach().clone().requires_grad_() for one in given]
    arriving = torch.randn(3, 1, 4, dtype=torch.float64)
    parts = torch.autograd.grad(attention(*apart), apart, arriving)
    captured = capture_of(tmp_path, lambda: attention(*given).backward(arriving), task="tensor")
    base = "Functional.multi_head_attention_forward"
    note = f"{base} was given one tensor for several arguments: the gradient of all is at the first of them"
    assert captured.ledger["notes"] == [note]
    _, at_arguments = gradients_of(captured, f"{base}.0.backward")
    first, *others = twins
    torch.testing.assert_close(at_arguments[first], sum(parts[place] for place in twins))
    for place in alone:
        torch.testing.assert_close(at_arguments[place], parts[place])
    assert [at_arguments[place] for place in others] == [None] * len(others)
    assert captured.calls[f"{base}.0.backward"]["output"][first]["shared_with"] == others


def test_gradients_are_numbered_by_tensors_as_the_older_tools_do(tmp_path):
    """What is no tensor has no number among them: neither an equation nor a dimension."""
    a, b = leaf(2, 3), leaf(3, 4)
    captured = capture_of(tmp_path, lambda: torch.einsum("ij,jk->ik", a, b).sum().backward())
    forward, backward = (captured.calls[f"Torch.einsum.0.{way}"] for way in ("forward", "backward"))
    assert [entry.get("shape") for entry in forward["input_args"]] == [None, [2, 3], [3, 4]]
    assert [entry["shape"] for entry in backward["output"]] == [[2, 3], [3, 4]]


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)
        self.up = torch.nn.Linear(4, 8)
        self.act = torch.nn.ReLU(inplace=True)
        self.down = torch.nn.Linear(8, 4)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_gradients_of_modules(tmp_path, level):
    torch.manual_seed(0)
    model = torch.nn.ModuleDict({"first": Residual(), "second": Residual()}).double()
    model.forward = lambda x: model["second"](model["first"](x))
    x = leaf(2, 3, 4)
    hidden = model["first"](x)
    out = model["second"](hidden)
    arriving = torch.randn_like(out)
    wanted = torch.autograd.grad(out, [hidden, *model["second"].parameters()], arriving)

    def program():
        (model(x) * arriving).sum().backward()

    captured = capture_of(tmp_path, program, model=model, level=level, task="tensor")
    at_results, at_arguments = gradients_of(captured, "Module.second.Residual.backward.0")
    same(at_results, [arriving])
    same(at_arguments, [wanted[0]])
    # In-place activations and their predecessors keep their gradients.
    for name in ("act.ReLU", "up.Linear", "down.Linear", "norm.LayerNorm"):
        assert all(g is not None for g in gradients_of(captured, f"Module.second.{name}.backward.0")[0])
    grads = captured.calls["Module.second.up.Linear.parameters_grad.0"]
    names = dict(model["second"].named_parameters())
    index = list(names).index("up.weight") + 1
    assert torch.equal(captured.tensor(grads["weight"][0]), wanted[index])


def test_in_place_on_a_view(tmp_path):
    x = leaf(4, 6)
    arriving = torch.randn(4, 6, dtype=torch.float64)

    def program():
        y = x * 2
        y[:, :3].mul_(5)
        (y * arriving).sum().backward()

    captured = capture_of(tmp_path, program, task="tensor")
    at_results, at_arguments = gradients_of(captured, "Tensor.mul_.0.backward")
    same(at_results, [arriving[:, :3]])
    same(at_arguments, [arriving[:, :3] * 5])
    full = arriving.clone()
    full[:, :3] *= 5
    same(gradients_of(captured, "Tensor.__mul__.0.backward")[0], [full])


def test_a_graph_walked_twice_is_recorded_twice(tmp_path):
    x = leaf(3)

    def program():
        y = (x * x).sum()
        y.backward(retain_graph=True)
        y.backward()

    calls = capture_of(tmp_path, program).calls
    assert {"Tensor.__mul__.0.backward", "Tensor.__mul__@2.0.backward"} <= calls.keys()


def test_a_custom_function_has_its_own_call(tmp_path):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    x = leaf(3)
    captured = capture_of(tmp_path, lambda: Double.apply(x).sum().backward(), task="tensor")
    same(gradients_of(captured, "Autograd.Double.0.backward")[1], [torch.full((3,), 2.0).double()])


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_recomputed_forward_is_marked(tmp_path, reentrant):
    layer = torch.nn.Linear(4, 4)
    x = torch.randn(2, 4, requires_grad=True)

    def program():
        checkpoint(lambda t: torch.tanh(layer(t)), x, use_reentrant=reentrant).sum().backward()

    calls = capture_of(tmp_path, program).calls
    first, again = (calls[f"Functional.linear.{n}.forward"]["input_args"][0] for n in range(2))
    assert "is_recompute" not in first
    assert again["is_recompute"] is True
    assert "Functional.linear.0.backward" in calls or "Functional.linear.1.backward" in calls


def test_a_changed_argument_has_its_gradient(tmp_path):
    x, value = leaf(4), leaf(2)
    arriving = torch.randn(4, dtype=torch.float64)

    def program():
        y = x * 1
        y[1:3] = value
        (y * arriving).sum().backward()

    captured = capture_of(tmp_path, program, task="tensor")
    at_results, at_arguments = gradients_of(captured, "Tensor.__setitem__.0.backward")
    same(at_results, [arriving])
    kept = arriving.clone()
    kept[1:3] = 0
    same(at_arguments, [kept, arriving[1:3]])


class TestResultsThatTheCallGoesOnToUse:
    """What a call gives to its own result does not arrive there from outside."""

    @staticmethod
    def module(forward):
        inner = torch.nn.Identity()
        inner.forward = forward
        model = torch.nn.ModuleDict({"m": inner})
        model.forward = lambda x: model["m"](x)
        return model

    @pytest.mark.parametrize("level", ["L0", "mix"])
    @pytest.mark.parametrize(
        "forward",
        [
            lambda x: (h := x * 2, h * 10),
            lambda x: (v := (x * 2).view(2, 1), v * 10),
            lambda x: ((h := x * 2).view(2, 1), (h * 10).view(2, 1)),
            lambda x: (h := x * 2, h * 4 + h * 6),
        ],
    )
    def test_of_a_module(self, tmp_path, level, forward):
        model = self.module(forward)
        x = torch.ones(2, dtype=torch.float64, requires_grad=True)

        def program():
            first, second = model(x)
            (first * 3 + second).sum().backward()

        captured = capture_of(tmp_path, program, model=model, level=level, task="tensor")
        at_results, at_arguments = gradients_of(captured, "Module.m.Identity.backward.0")
        like = forward(x)[0]
        same(at_results, [torch.full_like(like, 3), torch.full_like(like, 1)])
        same(at_arguments, [torch.full((2,), 26).double()])

    def test_of_an_lstm_cell(self, tmp_path):
        torch.manual_seed(0)
        cell = torch.nn.LSTMCell(3, 2)
        x = torch.randn(1, 3)
        arriving = torch.randn(1, 2), torch.randn(1, 2)

        def program():
            h, c = cell(x)
            torch.autograd.backward((h, c), arriving)

        captured = capture_of(tmp_path, program, task="tensor")
        at_results, _ = gradients_of(captured, "VF.lstm_cell.0.backward")
        assert torch.equal(at_results[0], arriving[0])
        torch.testing.assert_close(at_results[1], arriving[1], rtol=1e-6, atol=1e-6)

    def test_of_views_that_are_changed_later(self, tmp_path):
        model = self.module(lambda x: ((h := x * 2)[:1], h[1:]))
        x = torch.ones(2, dtype=torch.float64, requires_grad=True)

        def program():
            first, second = model(x)
            first.mul_(5)
            (first * 3 + second).sum().backward()

        captured = capture_of(tmp_path, program, model=model, level="L0", task="tensor")
        at_results, _ = gradients_of(captured, "Module.m.Identity.backward.0")
        same(at_results, [torch.tensor([15.0]).double(), torch.tensor([1.0]).double()])

    def test_of_two_passes(self, tmp_path):
        model = self.module(lambda x: (h := x * 2, h * 10))
        x = torch.ones(2, dtype=torch.float64, requires_grad=True)

        def program():
            first, second = model(x)
            (first * 3 + second).sum().backward(retain_graph=True)
            first.backward(torch.full((2,), 7.0).double())

        captured = capture_of(tmp_path, program, model=model, level="L0", task="tensor")
        again, _ = gradients_of(captured, "Module.m.Identity@2.backward.0")
        assert torch.equal(again[0], torch.full((2,), 7.0).double())
