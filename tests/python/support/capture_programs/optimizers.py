"""What happens to gradients and parameters between the backward pass and the next step."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from capture_programs.networks import Transformer, next_token_loss, sentences
from capture_programs.registry import Observed, Watch, program, state, train


@program
def foreach_and_fused_optimizers(watch: Watch) -> Observed:
    seen: Observed = {}
    for kind, options in (
        (torch.optim.Adam, {"foreach": True}),
        (torch.optim.AdamW, {"fused": True, "amsgrad": True}),
        (torch.optim.RMSprop, {"foreach": False, "momentum": 0.5}),
    ):
        model = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2))
        optimizer = kind(model.parameters(), lr=0.01, **options)
        x = torch.randn(2, 3)
        seen[kind.__name__] = train(
            watch, model, [x, x], lambda batch, model=model: model(batch).square().sum(), optimizer
        )
        seen[f"{kind.__name__} state"] = [
            {key: value for key, value in kept.items() if isinstance(value, Tensor)}
            for kept in optimizer.state.values()
        ]
    return seen


@program
def clipped_gradients(watch: Watch) -> Observed:
    model = Transformer(layers=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    norms = []
    with watch(model) as run:
        for batch in sentences():
            optimizer.zero_grad()
            next_token_loss(model, batch).backward()
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5))
            nn.utils.clip_grad_value_(model.parameters(), 0.05)
            optimizer.step()
            schedule.step()
            run.step()
    return {"norms": norms, **state(model)}


@program
def optimizer_with_closure(watch: Watch) -> Observed:
    model = nn.Linear(3, 1)
    x, y = torch.randn(6, 3), torch.randn(6, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3, line_search_fn="strong_wolfe")
    losses = []

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        losses.append(loss.detach())
        return loss

    with watch(model) as run:
        for _ in range(2):
            optimizer.step(closure)
            run.step()
    return {"losses": losses, **state(model)}


@program
def autocast_and_gradient_scaler(watch: Watch) -> Observed:
    model = Transformer(layers=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=1)
    losses = []
    with watch(model) as run:
        for batch in sentences(3):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = next_token_loss(model, batch)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss)
            run.step()
    return {"losses": losses, "scale": scaler.get_scale(), **state(model)}


@program
def scaler_skips_a_step(watch: Watch) -> Observed:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with watch(model) as run:
        for factor in (1.0, float("inf"), 1.0):
            optimizer.zero_grad()
            scaler.scale(model(torch.ones(1, 2)).sum() * factor).backward()
            scaler.step(optimizer)
            scaler.update()
            run.step()
    return {"scale": scaler.get_scale(), **state(model)}


@program
def sparse_embedding_gradients(watch: Watch) -> Observed:
    model = nn.ModuleDict(
        {"rows": nn.Embedding(8, 3, sparse=True), "bags": nn.EmbeddingBag(8, 3, sparse=True, mode="sum")}
    )
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.1)
    batches = [torch.tensor([[1, 2, 2], [0, 7, 1]]), torch.tensor([[3, 3, 3], [4, 5, 6]])]
    return train(
        watch,
        model,
        batches,
        lambda batch: model["rows"](batch).square().sum() + model["bags"](batch).exp().sum(),
        optimizer,
    )


@program
def averaged_and_reparametrized(watch: Watch) -> Observed:
    """Parameters that are computed anew in every forward, and an averaged copy of the model."""
    model = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)),
        nn.utils.parametrizations.spectral_norm(nn.Linear(4, 2)),
    )
    average = torch.optim.swa_utils.AveragedModel(model)
    x = torch.randn(2, 3)

    def loss_of(batch: Tensor) -> Tensor:
        average.update_parameters(model)
        return model(batch).square().sum()

    return {**train(watch, model, [x, x], loss_of), "average": state(average)}
