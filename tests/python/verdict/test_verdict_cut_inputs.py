"""Inputs that are cut differently: which part of one the other is, and what follows from that part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import ulpscope

WIDTH, HEADS, LENGTH, PADDED = 32, 4, 12, 16
IDS = torch.randint(0, 50, (2, LENGTH), generator=torch.Generator().manual_seed(5))

Past = list[list[Tensor]]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, mask: Tensor | None, past: list[Tensor] | None) -> Tensor:
        query, key, value = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)
        )
        if past is not None:
            if past:
                key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
            past[:] = [key, value]
        scores = query @ key.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5
        weights = (scores if mask is None else scores + mask).softmax(-1)
        found: Tensor = self.out((weights @ value).transpose(1, 2).flatten(2))
        return found


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.norm_2, self.attention = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor, mask: Tensor | None, past: list[Tensor] | None, scale: float) -> Tensor:
        x = x + scale * self.attention(self.norm(x), mask, past)
        found: Tensor = x + self.down(F.gelu(self.up(self.norm_2(x))))
        return found


class Model(nn.Module):
    def __init__(self, scale: float, last: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.positions = nn.Embedding(50, WIDTH), nn.Embedding(64, WIDTH)
        self.blocks, self.head = nn.ModuleList(Block() for _ in range(2)), nn.Linear(WIDTH, 50)
        self.scale, self.last = scale, last

    def forward(
        self, ids: Tensor, at: Tensor | None = None, mask: Tensor | None = None, past: Past | None = None
    ) -> Tensor:
        length = ids.shape[1]
        start = past[0][0].shape[2] if past and past[0] else 0
        x = self.tokens(ids) + self.positions(torch.arange(start, start + length) if at is None else at)
        if mask is None and length > 1:
            mask = torch.full((length, length + start), float("-inf")).triu(1 + start)
        for number, block in enumerate(self.blocks):
            # A fault of the second block.
            x = block(x, mask, past[number] if past else None, self.scale if number else 1.0)
        found: Tensor = self.head(x)
        return found if self.last == 1.0 else found * self.last


def whole(model: Model) -> Tensor:
    return model(IDS)  # type: ignore[no-any-return]


def padded(model: Model, fill: tuple[int, int] = (0, PADDED - LENGTH)) -> Tensor:
    given = F.pad(torch.ones(LENGTH), fill)
    mask = torch.full((PADDED, PADDED), float("-inf")).triu(1) + torch.where(given > 0, 0.0, -1e9)
    mask = torch.where(torch.eye(PADDED) > 0, torch.zeros(()), mask)
    found: Tensor = model(F.pad(IDS, fill), F.pad(torch.arange(LENGTH), fill), mask)
    return found


def padded_left(model: Model) -> Tensor:
    return padded(model, (PADDED - LENGTH, 0))


def packed(model: Model) -> Tensor:
    allowed = torch.block_diag(*[torch.ones(LENGTH, LENGTH).tril()] * 2)  # type: ignore[no-untyped-call]
    mask = torch.zeros(2 * LENGTH, 2 * LENGTH).masked_fill(allowed == 0, float("-inf"))
    found: Tensor = model(IDS.reshape(1, -1), torch.arange(LENGTH).repeat(2), mask)
    return found.reshape(2, LENGTH, -1)


def decoded(model: Model) -> Tensor:
    past: Past = [[] for _ in model.blocks]
    return torch.cat([model(IDS[:, at : at + 1], past=past) for at in range(LENGTH)], 1)


def continued(model: Model) -> Tensor:
    """A prompt at once, then token by token."""
    past: Past = [[] for _ in model.blocks]
    found: Tensor = model(IDS[:, :8], past=past)
    for at in range(8, LENGTH):
        found = model(IDS[:, at : at + 1], past=past)
    return found


def in_pieces(model: Model) -> Tensor:
    return torch.cat([model(piece) for piece in IDS.chunk(2)])


def first_row(model: Model) -> Tensor:
    return model(IDS[:1])  # type: ignore[no-any-return]


def run(
    path: Path,
    forward: Callable[[Model], Tensor],
    task: str = "tensor",
    scale: float = 1.0,
    last: float = 1.0,
) -> Path:
    model = Model(scale, last).eval()
    with ulpscope.capture(path, model=model, level="mix", task=task):
        forward(model)
    return path


PARTS = {
    padded: "of the golden is [:, 0:12] of",
    padded_left: "of the golden is [:, 4:16] of",
    packed: "in another shape",
    decoded: "of the target is [:, 0:1] of Functional.embedding.0.forward.input.0 of the golden, and so on "
    "up to [:, 11:12] (12 pieces",
    continued: "of the target is [:, 0:8] of",
    in_pieces: "of the target is [0:1, :] of",
    first_row: "of the target is [0:1, :] of",
}


def padded_by_hand(model: Model) -> Tensor:
    """The mask is made to the size of the padded batch, by the calls that make it for the other."""
    length = PADDED
    mask = torch.full((length, length), float("-inf")).triu(1)
    found: Tensor = model(F.pad(IDS, (0, PADDED - LENGTH)), mask=mask)
    return found


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("is_target", [True, False])
def test_masks_of_other_sizes_are_not_blamed(is_target: bool, task: str, tmp_path: Path) -> None:
    dumps = run(tmp_path / "padded", padded_by_hand, task), run(tmp_path / "whole", whole, task)
    compared = ulpscope.compare(*(dumps if is_target else dumps[::-1]))
    assert compared.divergences == []
    assert (compared.agreement == "agree") == (task == "tensor")


def first_sentences(compared: ulpscope.Comparison) -> list[str]:
    return [line.strip() for line in compared.explain().splitlines()[1:4]]


@pytest.mark.parametrize("cut", PARTS, ids=lambda cut: cut.__name__)
def test_what_corresponds_is_compared_and_the_cut_is_said_first(
    cut: Callable[[Model], Tensor], tmp_path: Path
) -> None:
    compared = ulpscope.compare(run(tmp_path / "target", cut), run(tmp_path / "golden", whole))
    assert (compared.divergences, compared.agreement) == ([], "agree")
    sentences = first_sentences(compared)
    assert sentences[0].startswith("The inputs are cut differently (dimension ")
    assert PARTS[cut] in sentences[0]


@pytest.mark.parametrize("cut", PARTS, ids=lambda cut: cut.__name__)
def test_a_fault_shows_in_the_part_that_both_have(cut: Callable[[Model], Tensor], tmp_path: Path) -> None:
    target = run(tmp_path / "target", cut, scale=1.25)
    compared = ulpscope.compare(target, run(tmp_path / "golden", whole))
    assert (compared.divergences, compared.agreement) == ([], "inconclusive")
    assert not compared.ok
    first, second, *_ = first_sentences(compared)
    assert first.startswith("The inputs are cut differently (dimension ")
    # The attention's last projection agrees; the scale behind it is the fault.
    assert "the first that differs is that of Functional.layer_norm." in second


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("cut", PARTS, ids=lambda cut: cut.__name__)
def test_a_fault_after_the_last_layer_never_agrees(
    cut: Callable[[Model], Tensor], task: str, tmp_path: Path
) -> None:
    """What is computed from parameters agrees in every part, and the results do not."""
    golden = run(tmp_path / "golden", whole, task)
    compared = ulpscope.compare(run(tmp_path / "target", cut, task, last=1.5), golden)
    assert (compared.divergences, compared.agreement) == ([], "inconclusive"), compared.reason
    assert not compared.ok


@pytest.mark.parametrize("cut", PARTS, ids=lambda cut: cut.__name__)
def test_what_both_do_after_the_last_layer_agrees(cut: Callable[[Model], Tensor], tmp_path: Path) -> None:
    target, golden = (run(tmp_path / way.__name__, way, last=1.5) for way in (cut, whole))
    compared = ulpscope.compare(target, golden)
    assert compared.ok, compared.reason


@pytest.mark.parametrize("cut", PARTS, ids=lambda cut: cut.__name__)
def test_with_statistics_no_call_is_blamed_for_a_cut(cut: Callable[[Model], Tensor], tmp_path: Path) -> None:
    target = run(tmp_path / "target", cut, "statistics")
    compared = ulpscope.compare(target, run(tmp_path / "golden", whole, "statistics"))
    assert compared.divergences == []
    assert "has other sizes than in the golden: dimension" in first_sentences(compared)[0]


def test_one_input_for_all_rows_is_no_cut(tmp_path: Path) -> None:
    """Positions may be given once, or once for each row."""

    def repeated(model: Model) -> Tensor:
        return model(IDS, torch.arange(LENGTH).expand(2, -1))  # type: ignore[no-any-return]

    def once(model: Model) -> Tensor:
        return model(IDS, torch.arange(LENGTH)[None])  # type: ignore[no-any-return]

    compared = ulpscope.compare(run(tmp_path / "target", repeated), run(tmp_path / "golden", once))
    assert compared.agreement == "agree"
    assert "cut differently" not in compared.explain()


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_data_that_enters_through_a_view_is_not_blamed(task: str, tmp_path: Path) -> None:
    """Pieces of a batch whose losses are added, and not averaged."""

    def trained(path: Path, pieces: int) -> Path:
        model, parts = Model(1.0), torch.cat([IDS, IDS.flip(0, 1)]).chunk(pieces)
        with ulpscope.capture(path, model=model, level="mix", task=task):
            total = torch.zeros(())
            for ids in parts:
                found = model(ids.view(-1, LENGTH))
                loss = F.cross_entropy(found.flatten(0, 1), ids.flatten())
                loss.backward()  # type: ignore[no-untyped-call]
                total = total + loss.detach()
        return path

    compared = ulpscope.compare(trained(tmp_path / "target", 2), trained(tmp_path / "golden", 1))
    assert (compared.divergences, compared.agreement) == ([], "inconclusive")
