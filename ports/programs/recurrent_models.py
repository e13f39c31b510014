"""A tagger of tokens on recurrent layers: torch's, its single cells, or hand-written ones."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from ports.handwritten.recurrent import Gru, Lstm
from ports.programs import batches
from ports.programs.program import Program, Results
from ports.programs.weights import fill

KINDS: dict[str, tuple[type[nn.Module], type[nn.Module]]] = {"lstm": (nn.LSTM, Lstm), "gru": (nn.GRU, Gru)}


class Tagger(nn.Module):
    """Embeddings, recurrent layers, a class for each token."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.embed, self.layers, self.head = nn.Embedding(97, 16), layers, nn.Linear(24, 7)

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        x = self.embed(tokens)
        if lengths is None:
            return self.head(self.layers(x)[0])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        unpacked, _ = nn.utils.rnn.pad_packed_sequence(self.layers(packed)[0], batch_first=True)
        return self.head(unpacked)


def build(family: str, name: str, by: str = "torch", packed: bool = False) -> Program:
    """`recurrent/{cell}`; `packed`: without computing what follows the end of the shorter text."""
    library, own = KINDS[name]
    settings: dict[str, Any] = {"batch_first": True} if by == "torch" else {}
    layers = (library if by == "torch" else own)(16, 24, 2, **settings)
    model = Tagger(layers)
    fill(model)
    tokens, wanted = batches.tokens(97, 10), batches.tokens(7, 10, seed=7)
    lengths = torch.tensor([10, 7])
    mask = torch.arange(10) < lengths[:, None]

    def step(backward: bool) -> Results:
        with torch.set_grad_enabled(backward):
            found = model(tokens, lengths) if packed else model(tokens)
            loss = F.cross_entropy(found.flatten(0, 1), wanted.masked_fill(~mask, -100).flatten())
        if backward:
            loss.backward()  # type: ignore[no-untyped-call]
        with torch._C.DisableTorchFunction():
            return {"output": found.detach() * mask[..., None], "loss": loss.detach()}

    return Program(model, step)
