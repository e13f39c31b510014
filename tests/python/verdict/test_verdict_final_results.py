"""Two runs that end in different numbers never agree, even where no call can be blamed."""

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import ulpscope

WIDTH, HEADS, LENGTH, BATCH, WORDS, LAYERS = 32, 4, 12, 3, 50, 3


class Attention(nn.Module):
    """Attention by single operations, with a mask that is added, or by the fused one."""

    def __init__(self, way: str, scale: float) -> None:
        super().__init__()
        self.way, self.scale = way, scale
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        parts = (self.query, self.key, self.value)
        query, key, value = (part(x).view(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for part in parts)
        if self.way == "fused":
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=self.scale)
        else:
            scores = torch.matmul(query, key.transpose(2, 3)) * self.scale
            scores = scores + mask
            mixed = torch.matmul(F.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype), value)
        return self.out(mixed.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))


class Layer(nn.Module):
    def __init__(self, way: str, scale: float) -> None:
        super().__init__()
        self.before, self.attention, self.between = (
            nn.RMSNorm(WIDTH),
            Attention(way, scale),
            nn.RMSNorm(WIDTH),
        )
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.before(x), mask)
        return x + self.down(F.silu(self.up(self.between(x))))


class Llama(nn.Module):
    def __init__(self, way: str, unscaled: int | None) -> None:
        super().__init__()
        scale = 1 / math.sqrt(WIDTH // HEADS)
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer(way, 1.0 if at == unscaled else scale) for at in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        hidden = torch.finfo(x.dtype).min
        mask = torch.full((LENGTH, LENGTH), hidden, dtype=x.dtype).triu(1)[None, None]
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))


def captured(folder: Path, way: str, unscaled: int | None = None, dtype: torch.dtype = torch.float32) -> Path:
    torch.manual_seed(0)
    model = Llama(way, unscaled)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0, 0.3)
    model = model.to(dtype)
    ids = torch.randint(0, WORDS, (BATCH, LENGTH))
    with torch.no_grad(), ulpscope.capture(folder, model=model, level="mix", task="tensor"):
        model(ids)
    return folder


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("target", "golden"), [("by hand", "fused"), ("fused", "by hand")])
def test_a_port_with_a_fault_never_agrees(
    target: str, golden: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    """With calls of one side in between no call may be to blame: the result still shows the error."""
    faulty = captured(tmp_path / "faulty", target, 1, dtype)
    compared = ulpscope.compare(faulty, captured(tmp_path / "golden", golden, dtype=dtype))
    assert compared.agreement in ("differ", "inconclusive"), compared.reason
    assert not compared.ok
    if compared.agreement == "inconclusive":
        assert "Module.head.Linear.forward.0.output.0 differs by" in compared.reason
        assert "no call explains it" in compared.reason
        text = compared.explain()
        assert "The largest unexplained step towards it is " in text
        assert "module  Module.layers.1.attention.Attention.forward.0" in text
        assert compared.summary["failed"] > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("target", "golden"), [("by hand", "fused"), ("fused", "by hand")])
def test_the_same_port_without_it_agrees(
    target: str, golden: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    healthy = captured(tmp_path / "healthy", target, dtype=dtype)
    compared = ulpscope.compare(healthy, captured(tmp_path / "golden", golden, dtype=dtype))
    assert compared.ok, compared.reason


def test_bfloat16_against_float32_agrees(tmp_path: Path) -> None:
    coarse = captured(tmp_path / "coarse", "by hand", dtype=torch.bfloat16)
    compared = ulpscope.compare(coarse, captured(tmp_path / "fine", "by hand"))
    assert compared.ok, compared.reason


def test_a_mask_does_not_hide_an_error_of_the_scores(tmp_path: Path) -> None:
    """`scores + mask` has the norm of the mask: the call that scales is to be named, not the softmax."""
    faulty = captured(tmp_path / "faulty", "by hand", 1)
    compared = ulpscope.compare(faulty, captured(tmp_path / "golden", "by hand"))
    assert compared.agreement == "differ"
    first = compared.first_divergence
    assert first is not None
    assert first.call.startswith("Tensor.__mul__."), first
    assert len(compared.divergences) == 1, compared.divergences
