"""CUDA graphs of the posing GPU (``posing_gpu.py``).

What the program computes while one is captured runs again at each replay, in the order of the stream, with
the kernels that were launched in between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import posing_gpu
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

STREAM = 64


class Graph:
    """As ``torch.cuda.CUDAGraph``."""

    gpu: posing_gpu.Gpu
    # Whether a replay is over when it returns: what the program does on the host does not wait for it.
    waits = False

    def __init__(self) -> None:
        self._graph = 0
        self._program: _Program | None = None

    def capture_begin(self, *_: Any, **__: Any) -> None:
        """Work goes into the graph from here on."""
        self.gpu.begin_graph(STREAM)
        self._program = _Program(self.gpu)
        self._program.__enter__()

    def capture_end(self) -> None:
        """Ends that."""
        assert self._program is not None
        self._program.__exit__(None, None, None)
        self._graph = self.gpu.end_graph(STREAM)

    def replay(self, stream: int = STREAM) -> None:
        """Runs it."""
        self.gpu.replay(self._graph, stream)
        if self.waits:
            self.gpu.wait()


def use(gpu: posing_gpu.Gpu) -> None:
    """Makes this the class of torch's graphs."""
    Graph.gpu = gpu
    torch.cuda.CUDAGraph = Graph  # type: ignore[assignment, misc]
    torch.cuda.current_device = lambda: 0
    gpu.use_stream(STREAM)


def use_with_torch(gpu: posing_gpu.Gpu) -> None:
    """The same for ``torch.cuda.graph`` and ``make_graphed_callables``, with all their work on one stream."""
    use(gpu)
    Graph.waits = True
    cuda: Any = torch.cuda
    cuda.synchronize = gpu.wait
    cuda.empty_cache = torch._C._host_emptyCache = lambda: None
    cuda.Stream = object
    cuda.stream = contextlib.nullcontext
    torch.cuda.graphs.graph_pool_handle = lambda: (0, 1)


class _Program(TorchDispatchMode):
    """Adds each operator to the graph: it runs again into the same tensors."""

    def __init__(self, gpu: posing_gpu.Gpu) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # Operators of a backward pass are no calls of the program.
        with torch._C.DisableTorchFunction():
            made = func(*args, **kwargs)

        def again() -> None:
            with torch.no_grad():
                for old, new in zip(_tensors(made), _tensors(func(*args, **kwargs)), strict=True):
                    if old.data_ptr() != new.data_ptr():
                        old.data.copy_(new)

        self._gpu.run(again, STREAM)
        return made


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    yield from (leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor))
