"""Networks as people build them."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from capture_programs.registry import Observed, Watch, program, state, train

WIDTH, HEADS, TOKENS, VOCABULARY = 16, 2, 6, 20


class Block(nn.Module):
    """A transformer layer, with attention written out or torch's own."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        parts = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        query, key, value = (part.view(batch, tokens, HEADS, -1).transpose(1, 2) for part in parts)
        if self.fused:
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = query @ key.transpose(-2, -1) / math.sqrt(width // HEADS)
            later = torch.triu(torch.ones(tokens, tokens, dtype=torch.bool), diagonal=1)
            mixed = F.softmax(scores.masked_fill(later, -math.inf), dim=-1) @ value
        x = x + self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, tokens, width)))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """A language model; `tied` uses the embedding for the output as well."""

    def __init__(self, *, fused: bool = False, tied: bool = False, layers: int = 2) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleList(Block(fused) for _ in range(layers))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def sentences(steps: int = 2) -> list[Tensor]:
    """Batches of token numbers."""
    return [torch.randint(0, VOCABULARY, (2, TOKENS + 1)) for _ in range(steps)]


def next_token_loss(model: nn.Module, batch: Tensor) -> Tensor:
    """Cross entropy of the following token."""
    return F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


@program
def transformer(watch: Watch) -> Observed:
    model = Transformer()
    return train(watch, model, sentences(), lambda batch: next_token_loss(model, batch))


@program
def transformer_with_fused_attention(watch: Watch) -> Observed:
    model = Transformer(fused=True)
    return train(watch, model, sentences(), lambda batch: next_token_loss(model, batch))


@program
def tied_weights(watch: Watch) -> Observed:
    model = Transformer(tied=True)
    seen = train(watch, model, sentences(), lambda batch: next_token_loss(model, batch))
    return {**seen, "still tied": model.head.weight is model.tokens.weight}


@program
def torch_encoder_layer(watch: Watch) -> Observed:
    """torch's own layer: has a fast path in evaluation that looks for hooks and overrides."""
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True), 2, enable_nested_tensor=False
    )
    x = torch.randn(2, TOKENS, WIDTH)
    seen = train(watch, model, [x, x], lambda batch: model(batch).square().mean())
    model.eval()
    with watch(model), torch.no_grad():
        seen["evaluated"] = model(x)
    return seen


class Residual(nn.Module):
    """Convolutions with in-place ReLU before and after an in-place sum."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.conv2, self.norm2 = nn.Conv2d(4, 4, 3, padding=1, groups=2), nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        y += x
        return self.relu(y)


@program
def convolutions_with_residual_sums(watch: Watch) -> Observed:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2),
        nn.ReLU(inplace=True),
        Residual(),
        Residual(),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Hardtanh(inplace=True),
        nn.Dropout(0.2, inplace=True),
        nn.Linear(4, 3),
    )
    batches = [(torch.randn(2, 3, 12, 12), torch.tensor([0, 2])) for _ in range(2)]
    return train(watch, model, batches, lambda batch: F.cross_entropy(model(batch[0]), batch[1]))


@program
def channels_last(watch: Watch) -> Observed:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU(inplace=True), nn.Conv2d(4, 2, 1))
    model.to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    return train(watch, model, [x], lambda batch: model(batch).square().sum())


def recurrent(watch: Watch, kind: type[nn.LSTM] | type[nn.GRU]) -> Observed:
    """A recurrent network over padded sequences, and its single-step cell."""
    model = nn.ModuleDict({"rnn": kind(4, 5, num_layers=2, dropout=0.1, bidirectional=True)})
    model["cell"] = (nn.LSTMCell if kind is nn.LSTM else nn.GRUCell)(10, 3)
    batches = [torch.randn(6, 2, 4) for _ in range(2)]

    def loss_of(batch: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(batch, torch.tensor([6, 4]))
        outputs, _ = nn.utils.rnn.pad_packed_sequence(model["rnn"](packed)[0])
        hidden = None
        for output in outputs:
            hidden = model["cell"](output, hidden)
        last = hidden[0] if isinstance(hidden, tuple) else hidden
        return last.square().mean() + outputs.mean()

    return train(watch, model, batches, loss_of)


@program
def lstm(watch: Watch) -> Observed:
    return recurrent(watch, nn.LSTM)


@program
def gru(watch: Watch) -> Observed:
    return recurrent(watch, nn.GRU)


@program
def only_some_outputs_are_used(watch: Watch) -> Observed:
    """Calls and modules with several results of which the loss needs one, or parts of one."""

    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(4, 6), nn.Linear(4, 6)

        def forward(self, x: Tensor, *, extra: bool = False) -> dict[str, object]:
            first, second, third = self.one(x).split(2, dim=-1)
            values, places = torch.max(self.two(x), dim=-1)
            top = torch.topk(third, 1, dim=-1)
            return {"first": first, "unused": (second, places), "values": values, "top": top, "extra": extra}

    model = Several()
    x = torch.randn(3, 4)

    def loss_of(batch: Tensor) -> Tensor:
        made = model(batch, extra=True)
        return made["first"].sum() + made["values"][0] + made["top"].values.mean()  # type: ignore[union-attr,index]

    return train(watch, model, [x, x], loss_of)


@program
def evaluation_between_training_steps(watch: Watch) -> Observed:
    model = Transformer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen: Observed = {"scores": []}
    with watch(model) as run:
        for batch in sentences():
            next_token_loss(model, batch).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                seen["scores"].append(model(batch[:, :-1]))
            with torch.inference_mode():
                seen["scores"].append(model(batch[:, :-1]))
            model.train()
            run.step()
    return {**seen, **state(model)}
