"""What a step leaves in the parameters is compared, whoever writes it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import ulpscope

RATE, DECAY, STEPS = 1e-2, 0.1, 2

Step = Callable[[], None]


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))


def of_torch(net: nn.Module, **options: bool) -> Step:
    return torch.optim.AdamW(net.parameters(), RATE, weight_decay=DECAY, **options).step


def by_hand(net: nn.Module, rate: float = RATE, decay: float = DECAY, fault: str = "") -> Step:
    """AdamW as one writes it down."""
    state = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in net.parameters()]
    counted: Iterator[int] = iter(range(1, STEPS + 1))

    @torch.no_grad()
    def step() -> None:
        number = next(counted)
        for parameter, mean, square in state:
            gradient = parameter.grad
            assert gradient is not None
            parameter.mul_(1 - rate * decay)
            mean.mul_(0.9).add_(gradient, alpha=0.1)
            square.mul_(0.999).addcmul_(gradient, gradient, value=1 - 0.999)
            size = (square / (1 - 0.999**number if fault != "square" else 1)).sqrt() + 1e-8
            parameter.sub_(rate * (mean / (1 - 0.9**number)) / size)
            if fault == "cut off" and parameter is state[0][0]:
                parameter.clamp_(-0.1, 0.1)

    return step


def plain(net: nn.Module) -> Step:
    """SGD as one writes it down."""

    @torch.no_grad()
    def step() -> None:
        for parameter in net.parameters():
            parameter -= RATE * parameter.grad

    return step


def clipped(net: nn.Module, most: float = 0.05, assigns: bool = False, spared: int = -1) -> Step:
    """SGD on gradients that are made shorter by hand: in place, or by assigning new ones; all but one."""
    parameters, step = [*net.parameters()], torch.optim.SGD(net.parameters(), RATE, foreach=False).step

    @torch.no_grad()
    def clip_and_step() -> None:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
        for number, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
            share = (most / (norm + 1e-6)).clamp(max=1.0) if number != spared else 1.0
            if assigns:
                parameter.grad = gradient * share
            else:
                gradient.mul_(share)
        step()

    return clip_and_step


def clipped_by_torch(net: nn.Module) -> Step:
    step = torch.optim.SGD(net.parameters(), RATE, foreach=False).step

    def clip_and_step() -> None:
        nn.utils.clip_grad_norm_(net.parameters(), 0.05)
        step()

    return clip_and_step


def trained(path: Path, optimizer: Callable[[nn.Module], Step], task: str = "tensor") -> Path:
    torch.manual_seed(0)
    net, batches = model(), torch.randn(STEPS, 8, 16)
    step = optimizer(net)
    with ulpscope.capture(path, model=net, level="mix", task=task) as run:
        for batch in batches:
            net.zero_grad()
            net(batch).square().mean().backward()
            step()
            run.step()
    return path


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize(
    ("target", "golden"),
    [
        (by_hand, lambda net: of_torch(net, foreach=False)),
        (lambda net: of_torch(net, foreach=True), lambda net: of_torch(net, foreach=False)),
        (lambda net: of_torch(net, fused=True), lambda net: of_torch(net, foreach=True)),
        (by_hand, lambda net: of_torch(net, foreach=True)),
        (plain, lambda net: torch.optim.SGD(net.parameters(), RATE).step),
        (clipped, clipped_by_torch),
        (lambda net: clipped(net, assigns=True), clipped_by_torch),
    ],
    ids=[
        "by hand",
        "all at once",
        "fused",
        "by hand against all at once",
        "plain",
        "clipped",
        "clipped anew",
    ],
)
def test_a_different_way_to_update_raises_nothing(
    target: Callable[[nn.Module], Step], golden: Callable[[nn.Module], Step], task: str, tmp_path: Path
) -> None:
    compared = ulpscope.compare(
        trained(tmp_path / "target", target, task), trained(tmp_path / "golden", golden, task)
    )
    assert compared.divergences == []
    assert compared.ok


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_parameters_without_a_gradient_but_rounding_raise_nothing(task: str, tmp_path: Path) -> None:
    """No score depends on the bias of keys, and AdamW makes whole steps of what rounding leaves there."""

    def run(name: str, **options: bool) -> Path:
        torch.manual_seed(0)
        net, batches = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), torch.randn(3, 4, 6, 16)
        step = of_torch(net, **options)
        with ulpscope.capture(tmp_path / name, model=net, level="mix", task=task) as capture:
            for batch in batches:
                net.zero_grad()
                F.cross_entropy(net(batch).mean(1), torch.arange(4)).backward()
                step()
                capture.step()
        return tmp_path / name

    assert ulpscope.compare(run("target", fused=True), run("golden", foreach=False)).ok


def test_long_steps_in_a_coarser_dtype_raise_nothing(tmp_path: Path) -> None:
    """A tenth of a weight in each step, with signs of small gradients open."""

    def run(name: str, is_coarse: bool) -> Path:
        torch.manual_seed(0)
        net, batches = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)), torch.randn(4, 32, 64)
        step = of_torch(net)
        with ulpscope.capture(tmp_path / name, model=net, level="mix", task="tensor") as capture:
            for batch in batches:
                net.zero_grad()
                with torch.autocast("cpu", torch.bfloat16, enabled=is_coarse):
                    made = net(batch)
                made.float().square().mean().backward()
                step()
                capture.step()
        return tmp_path / name

    assert ulpscope.compare(run("target", True), run("golden", False)).divergences == []


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize(
    "wrong",
    [lambda net: by_hand(net, rate=2 * RATE), lambda net: by_hand(net, decay=0.0)],
    ids=["twice the rate", "no decay"],
)
def test_a_different_update_is_named(wrong: Callable[[nn.Module], Step], task: str, tmp_path: Path) -> None:
    golden = trained(tmp_path / "golden", lambda net: of_torch(net, foreach=True), task)
    compared = ulpscope.compare(trained(tmp_path / "target", wrong, task), golden)
    assert compared.divergences[0].step == 0
    assert compared.divergences[0].kind == "different program"
    assert compared.divergences[0].call == "Tensor.sub_.0.forward"
    assert compared.agreement == "differ"


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("foreach", [True, False], ids=["all at once", "one by one"])
def test_calls_of_an_update_between_values_that_agree_are_listed(
    foreach: bool, task: str, tmp_path: Path
) -> None:
    golden = trained(tmp_path / "golden", lambda net: of_torch(net, foreach=foreach), task)
    target = trained(tmp_path / "target", lambda net: by_hand(net, fault="square"), task)
    compared = ulpscope.compare(target, golden)
    region = compared.divergences[0].region
    assert region is not None
    computing = {one.name for one in region.target if one.role in ("first", "computes")}
    # The running means of both programs agree: what is computed from them lies between.
    assert {"Tensor.__add__.0.forward", "Tensor.sub_.0.forward"} <= computing
    assert not computing & {"Tensor.add_.0.forward", "Tensor.addcmul_.0.forward", "Tensor.mul_.1.forward"}
    last = "Torch._foreach_addcdiv_.0.forward" if foreach else "Tensor.addcdiv_.0.forward"
    assert [one.name for one in region.before] == ["Tensor.sub_.0.forward", last]
    said = compared.explain()
    assert "For the first parameter, the cause is among the calls listed below." in said
    assert "Between, in the golden" in said


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("foreach", [True, False], ids=["all at once", "one by one"])
def test_a_step_that_is_longer_in_one_parameter_does_not_agree(
    foreach: bool, task: str, tmp_path: Path
) -> None:
    """Rounding may turn the step of a few parameters, and never makes it longer."""
    golden = trained(tmp_path / "golden", lambda net: of_torch(net, foreach=foreach), task)
    compared = ulpscope.compare(
        trained(tmp_path / "target", lambda net: by_hand(net, fault="cut off"), task), golden
    )
    assert compared.agreement == "differ"
    assert compared.divergences[0].step == 0


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("is_target", [True, False])
def test_an_update_that_one_side_leaves_out_is_named(is_target: bool, task: str, tmp_path: Path) -> None:
    def first_layer_alone(net: nn.Module) -> Step:
        return torch.optim.SGD([*net.parameters()][:2], RATE, foreach=False).step

    def all_layers(net: nn.Module) -> Step:
        return torch.optim.SGD(net.parameters(), RATE, foreach=False).step

    dumps = trained(tmp_path / "part", first_layer_alone, task), trained(tmp_path / "all", all_layers, task)
    first = ulpscope.compare(*(dumps if is_target else dumps[::-1])).divergences[0]
    assert (first.step, first.call, first.kind) == (0, "Tensor.add_.2.forward", "different program")


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_gradients_that_are_clipped_otherwise_are_named(task: str, tmp_path: Path) -> None:
    golden = trained(tmp_path / "golden", clipped_by_torch, task)
    compared = ulpscope.compare(trained(tmp_path / "target", lambda net: clipped(net, 0.04), task), golden)
    assert compared.divergences[0].step == 0
    assert compared.divergences[0].kind == "different program"


def learnt(path: Path, pieces: int, scale: float, way: str, task: str = "tensor") -> Path:
    """One step on a batch in so many pieces, each with a backward pass."""
    torch.manual_seed(0)
    net, batch, classes = model(), torch.randn(8, 16), torch.arange(8) % 4
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    loaded = list(zip(batch.clone().chunk(pieces), classes.clone().chunk(pieces), strict=True))
    with ulpscope.capture(path, model=net, level="mix", task=task):
        cut: list[tuple[Tensor, Tensor]] = loaded
        if way == "cut inside" and pieces > 1:
            cut = list(zip(batch.chunk(pieces), classes.chunk(pieces), strict=True))
        for inputs, wanted in cut:
            (F.cross_entropy(net(inputs), wanted) * scale).backward()
        optimizer.step()
    return path


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("way", ["cut outside", "cut inside"])
@pytest.mark.parametrize(("target", "golden"), [(4, 1), (1, 4), (4, 2)])
def test_gradients_that_pile_up_raise_nothing(
    target: int, golden: int, way: str, task: str, tmp_path: Path
) -> None:
    compared = ulpscope.compare(
        learnt(tmp_path / "target", target, 1 / target, way, task),
        learnt(tmp_path / "golden", golden, 1 / golden, way, task),
    )
    assert compared.divergences == []


@pytest.mark.parametrize("way", ["cut outside", "cut inside"])
def test_gradients_that_pile_up_too_high_are_named(way: str, tmp_path: Path) -> None:
    golden = learnt(tmp_path / "golden", 1, 1.0, way)
    compared = ulpscope.compare(learnt(tmp_path / "target", 2, 1.0, way), golden)
    assert compared.divergences != []
    assert compared.agreement == "differ"


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_gradient_that_is_assigned_and_wrong_is_no_agreement(task: str, tmp_path: Path) -> None:
    golden = trained(tmp_path / "golden", clipped_by_torch, task)
    wrong = trained(tmp_path / "wrong", lambda net: clipped(net, assigns=True, spared=0), task)
    assert ulpscope.compare(wrong, golden).agreement in ("differ", "inconclusive")
