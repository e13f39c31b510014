"""Functions that turn a small relative error into a large one are not blamed for it."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import ulpscope

WIDTH = 16


class Rotary(nn.Module):
    """Cosines and sines of positions times frequencies."""

    def __init__(self) -> None:
        super().__init__()
        frequencies = 1.0 / (10000 ** (torch.arange(0, WIDTH, 2).float() / WIDTH))
        self.inv_freq: Tensor
        self.register_buffer("inv_freq", frequencies, persistent=False)

    def forward(self, length: int) -> tuple[Tensor, Tensor]:
        angles = torch.arange(length).float()[:, None] @ self.inv_freq.float()[None]
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()


def rotated(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        query, key, value = self.query(x), self.key(x), self.value(x)
        query, key = query * cos + rotated(query) * sin, key * cos + rotated(key) * sin
        return x + ((query @ key.T) / WIDTH**0.5).softmax(-1) @ value


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rotary, self.head = Rotary(), nn.Linear(WIDTH, 8)
        self.layers = nn.ModuleList([Attention() for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        cos, sin = (part.to(x.dtype) for part in self.rotary(len(x)))
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(x)


def run(path: Path, way: str, length: int) -> Path:
    torch.manual_seed(0)
    net, x = Net(), torch.randn(length, WIDTH)
    if way == "all in bfloat16":
        net, x = net.to(torch.bfloat16), x.bfloat16()
    if way == "frequencies in bfloat16":
        net.rotary.inv_freq = net.rotary.inv_freq.bfloat16()
    with ulpscope.capture(path, model=net, level="mix", task="tensor"):
        F.cross_entropy(net(x).float(), torch.arange(length) % 8).backward()
    return path


@pytest.mark.parametrize("length", [32, 512])
def test_rounded_frequencies_of_a_coarse_run_are_noted(length: int, tmp_path: Path) -> None:
    golden = run(tmp_path / "golden", "", length)
    compared = ulpscope.compare(run(tmp_path / "target", "all in bfloat16", length), golden)
    assert compared.divergences == []
    notes = [note for note in compared.notes if "inv_freq" in note]
    assert len(notes) == 1
    assert notes[0].startswith("buffer rotary.inv_freq has a coarser dtype on one side and differs by")
    assert "Tensor.sin.0.forward turns this into" in notes[0]


@pytest.mark.parametrize("length", [32, 512])
def test_rounded_frequencies_in_a_fine_run_are_the_cause(length: int, tmp_path: Path) -> None:
    golden = run(tmp_path / "golden", "", length)
    compared = ulpscope.compare(run(tmp_path / "target", "frequencies in bfloat16", length), golden)
    assert [(found.call, found.kind) for found in compared.divergences] == [
        ("Tensor.float.1.forward", "origin differs")
    ]
    assert "rotary.inv_freq" in compared.explain()


@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
def test_a_cosine_of_its_own_error_is_still_named(tmp_path: Path) -> None:
    """Cosines of large angles are exact to the last bit: one that loses four digits is wrong."""
    golden = run(tmp_path / "golden", "", 512)
    library = torch.library.Library("aten", "IMPL")

    def wrong(x: Tensor) -> Tensor:
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            return torch.sin(x + (torch.pi / 2 + 1e-3))

    library.impl("cos", wrong, "CPU")
    try:
        target = run(tmp_path / "target", "", 512)
    finally:
        library._destroy()
    compared = ulpscope.compare(target, golden)
    assert [found.call for found in compared.divergences] == ["Tensor.cos.0.forward"]


@pytest.mark.parametrize("function", ["softmax", "log_softmax", "exp", "cross_entropy"])
def test_scores_that_are_large_make_large_errors(function: str, tmp_path: Path) -> None:
    """Scores of up to 60 with a relative error of 0.2 % have an absolute one of 0.1."""

    class Scores(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.ModuleList([nn.Linear(32, 32) for _ in range(3)])

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.inner:
                x = layer(x)
            scores = 15 * x / x.std()
            scores = scores.clamp(max=60).float()
            if function == "cross_entropy":
                return F.cross_entropy(scores, torch.arange(64) % 32)
            if function == "exp":
                return scores.clamp(max=20).exp()
            return getattr(scores, function)(-1)

    def captured(path: Path, dtype: torch.dtype) -> Path:
        torch.manual_seed(1)
        net, x = Scores().to(dtype), torch.randn(64, 32).to(dtype)
        with ulpscope.capture(path, model=net, level="mix", task="tensor"):
            net(x).square().mean().backward()
        return path

    golden = captured(tmp_path / "golden", torch.float32)
    compared = ulpscope.compare(captured(tmp_path / "target", torch.bfloat16), golden)
    assert compared.divergences == []


NORMS = {
    "layer": lambda: nn.LayerNorm(64),
    "batch": lambda: nn.BatchNorm1d(64),
    "group": lambda: nn.GroupNorm(4, 64),
    "rms": lambda: nn.RMSNorm(64),
}


class Normalised(nn.Module):
    """Normalises values about a mean that is much larger than their spread."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.inner = nn.ModuleList([nn.Linear(64, 64) for _ in range(3)])
        self.norm, self.head = NORMS[kind](), nn.Linear(64, 8)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.inner:
            x = layer(x)
        return self.head(self.norm(4 * x + 3000))


def normalise(path: Path, kind: str, dtype: torch.dtype) -> Path:
    torch.manual_seed(2)
    net, x = Normalised(kind).to(dtype), torch.randn(48, 64).to(dtype)
    with ulpscope.capture(path, model=net, level="mix", task="tensor"):
        net(x).square().mean().backward()
    return path


@pytest.mark.parametrize("kind", NORMS)
def test_norms_see_the_input_without_its_mean(kind: str, tmp_path: Path) -> None:
    """In float32, 3000 is off by 1e-4: nothing beside the mean, and much of what a norm leaves."""
    golden = normalise(tmp_path / "golden", kind, torch.float64)
    compared = ulpscope.compare(normalise(tmp_path / "target", kind, torch.float32), golden)
    assert compared.divergences == []


@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
def test_a_norm_of_its_own_error_is_still_named(tmp_path: Path) -> None:
    golden = normalise(tmp_path / "golden", "layer", torch.float32)
    library = torch.library.Library("aten", "IMPL")

    def wrong(
        x: Tensor, shape: list[int], weight: Tensor, bias: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
            scale = (variance + eps).rsqrt()
            return 1.001 * (x - mean) * scale * weight + bias, mean, scale

    library.impl("native_layer_norm", wrong, "CPU")
    try:
        target = normalise(tmp_path / "target", "layer", torch.float32)
    finally:
        library._destroy()
    compared = ulpscope.compare(target, golden)
    assert [found.call for found in compared.divergences] == ["Functional.layer_norm.0.forward"]
