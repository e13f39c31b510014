"""Compiled parts of a model: what is compiled, and how often, must not depend on who is watching."""

from __future__ import annotations

import shutil
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch._inductor import config as inductor_config

from capture_programs.registry import Observed, Watch, program, train

# Inductor writes C++ for the CPU.
BACKEND = "inductor" if shutil.which("g++") or shutil.which("clang++") else "aot_eager"
# It tries every instruction set by compiling a program for each, which takes half a minute.
PLAIN_CODE = {"cpp.vec_isa_ok": False, "compile_threads": 1}


class Feed(nn.Module):
    """What is worth compiling: element-wise work between two matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.up(x)) * 1.5 + 0.25)


def bent(x: Tensor) -> Tensor:
    """A function to compile."""
    return torch.tanh(x * 2) + x.cos()


@program
def compiled_function_and_submodule(watch: Watch) -> Observed:
    torch._dynamo.reset()
    first, second = Feed(), Feed()
    model = nn.Sequential(first, torch.compile(second, backend=BACKEND), nn.LayerNorm(4))
    fast = torch.compile(bent, backend=BACKEND)
    with inductor_config.patch(PLAIN_CODE):
        return train(watch, model, [torch.randn(3, 4)] * 3, lambda x: fast(model(x)).sum())


@program
def compiled_with_hooks_inside(watch: Watch) -> Observed:
    torch._dynamo.reset()
    model = Feed()
    heard: list[Any] = []
    model.up.register_forward_hook(lambda module, args, output: output * 0.5)
    whole = torch.compile(nn.Sequential(model, nn.ReLU()), backend="aot_eager")
    whole.register_full_backward_hook(lambda module, given, got: heard.append(got[0].clone()))
    seen = train(watch, whole, [torch.randn(3, 4)] * 2, lambda x: whole(x).square().sum())
    return {**seen, "heard": heard}


@program
def compiled_before_and_after(watch: Watch) -> Observed:
    """Code compiled before capture runs during it, and the other way round; graph breaks included."""
    torch._dynamo.reset()
    compiled: list[int] = []

    def count(graph: torch.fx.GraphModule, example: list[Tensor]) -> Any:
        compiled.append(len(list(graph.graph.nodes)))
        return graph.forward

    @torch.compile(backend=count)
    def broken(x: Tensor) -> Tensor:
        y = x.sin() + 1
        torch._dynamo.graph_break()
        return y * 2

    x = torch.randn(3)
    made = [broken(x)]
    with watch(None) as run:
        made += [broken(x), broken(x)]
        run.step()
    made.append(broken(x))
    return {"made": made, "graphs": len(set(compiled))}


@program
def scripted_and_exported(watch: Watch) -> Observed:
    model = Feed()
    x = torch.randn(2, 4)
    traced = torch.jit.trace(model, x)
    with watch(model) as run:
        made = [traced(x)]
        exported = torch.export.export(model, (x,))
        made.append(exported.module()(x))
        run.step()
    return {"made": made, "nodes": [node.op for node in exported.graph.nodes]}
