"""One rank of a replay of collectives: joins the others over gloo, and makes its calls one by one.

Started by `collectives`, which writes a request to its standard input; it writes a line for each call.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ulpscope._core import DumpCall, DumpTensor, DumpValue, judge_result, open_dump
from ulpscope._replay.arguments import Rebuilder, Rebuilt, leaves, loaded
from ulpscope._replay.execution import SHIFTS, Way, converted
from ulpscope._replay.functions import NotReplayableError
from ulpscope._replay.results import CheckedTensor

# Those that add, compare or multiply; all others only move their inputs.
_REDUCE = "reduce"
# Their tensors have one size on all ranks.
_EQUAL_SIZES = ("broadcast", "all_reduce", "reduce", "reduce_scatter_tensor", "all_gather_into_tensor")
# They write to their first tensor.
_CHANGED = ("broadcast", "all_reduce", "reduce")
_ROOTS = ("src", "dst")
_FUNCTIONS = frozenset(
    [
        *(
            "send",
            "recv",
            "isend",
            "irecv",
            "broadcast",
            "all_reduce",
            "reduce",
            "barrier",
            "gather",
            "scatter",
        ),
        *("all_gather", "all_gather_into_tensor", "_all_gather_base", "all_to_all", "all_to_all_single"),
        *("reduce_scatter", "reduce_scatter_tensor", "_reduce_scatter_base"),
    ]
)
# In torch.distributed._functional_collectives.
_FUNCTIONAL = frozenset(
    [
        *("all_reduce", "broadcast", "all_gather_tensor", "reduce_scatter_tensor", "all_to_all_single"),
        "permute_tensor",
    ]
)


class RankProcess:
    """The calls of one rank."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._ranks: list[int] = request["ranks"]
        self._index: int = request["index"]
        own = self._ranks[self._index]
        ranks, _ = open_dump(Path(request["dump"]), request["step"], own)
        (self._rank,) = [rank for rank in ranks if rank.number == own and rank.step == request["step"]]
        self._groups: dict[tuple[int, ...], Any] = {tuple(self._ranks): dist.group.WORLD}
        for group in request["groups"]:
            self._groups[tuple(group)] = dist.new_group([self._ranks.index(rank) for rank in group])

    def make(self, number: int, name: str, group: tuple[int, ...]) -> dict[str, Any]:
        """Makes a call; a reason, if that is not possible."""
        process_group = self._groups[group]
        reason, sizes, prepared = "", 0, None
        try:
            prepared = self._prepared(number, name, process_group, len(group))
            sizes = sum(tensor.numel() for tensor in prepared.sent())
        except (NotReplayableError, RuntimeError, ValueError, TypeError, LookupError, OSError) as error:
            reason = str(error)
        # No rank starts what another cannot: it would wait.
        agreed = torch.tensor([int(prepared is not None), sizes, -sizes], dtype=torch.int64)
        dist.all_reduce(agreed, dist.ReduceOp.MIN, process_group)
        if reason or not agreed[0] or prepared is None:
            return {"reason": f"a collective: {reason or 'a different rank cannot make it'}"}
        if prepared.name in _EQUAL_SIZES and not prepared.is_functional and agreed[1] != -agreed[2]:
            return {"reason": "a collective: its tensors have different sizes on the ranks"}
        try:
            return {"tensors": [dataclasses.asdict(one) for one in prepared.judged()]}
        except (NotReplayableError, RuntimeError, ValueError, TypeError, NotImplementedError) as error:
            return {"reason": f"a collective: {str(error).splitlines()[0][:300] if str(error) else error!r}"}

    def _prepared(self, number: int, name: str, group: Any, size: int) -> PreparedCall:
        call = self._rank.call(number)
        if call is None:
            raise NotReplayableError(f"{self._rank.tool} does not record all arguments of a call")
        return PreparedCall(name, call, group, size, self._ranks, self._index)


class PreparedCall:
    """A call with its arguments."""

    def __init__(
        self, name: str, call: DumpCall, group: Any, size: int, ranks: list[int], index: int
    ) -> None:
        self._full_name, self.name = name, name.split(".")[1]
        self._call, self._group, self._size, self._ranks, self._index = call, group, size, ranks, index
        results = list(call.results)
        # The buffers after a call have the places of the arguments. Functional ones return their result.
        self.is_functional = len(results) != len(call.positional) + len(call.keyword)
        known = _FUNCTIONAL if self.is_functional else _FUNCTIONS
        if self.name not in known:
            raise NotReplayableError(f"{self.name} is not among the collectives that are made again")
        self._averages = False
        self._arguments = Rebuilt()
        # The buffers that the call writes to, by the numbers of their tensors.
        self._written = {0} if self.name in _CHANGED else set()
        rebuilder = Rebuilder(0)
        given = [*call.positional, *call.keyword.values()]
        values = [
            self._value(value, None if self.is_functional else results[place], rebuilder)
            for place, value in enumerate(given)
        ]
        count = len(call.positional)
        self._arguments.positional = values[:count]
        self._arguments.keyword = dict(zip(call.keyword, values[count:], strict=True))
        if self._arguments.is_drawn:
            raise NotReplayableError("its elements are not recorded: record with task tensor")

    def sent(self) -> list[torch.Tensor]:
        """The tensors among its arguments that have one size on all ranks."""
        return [one.tensor for one in self._arguments.tensors[:1]]

    def _value(self, value: Any, result: Any, rebuilder: Rebuilder) -> Any:
        described = value.value if isinstance(value, DumpValue) else None
        kind = value.kind if isinstance(value, DumpValue) else ""
        if isinstance(described, dict) and described.get("type") == "torch.ProcessGroup":
            return self._group
        if kind.endswith("ReduceOp"):
            return self._operation(str(described))
        if value is None and any(isinstance(one, DumpTensor) for one in leaves(result)):
            # A buffer that only receives. What it has before must not look like what it receives.
            first = len(self._arguments.tensors)
            made = rebuilder.add(result, f"{self._full_name}.input", self._arguments)
            for number, buffer in list(enumerate(self._arguments.tensors))[first:]:
                has_nan = buffer.tensor.is_floating_point() or buffer.tensor.is_complex()
                blank = torch.full_like(buffer.tensor, torch.nan) if has_nan else ~buffer.tensor
                self._arguments.tensors[number] = dataclasses.replace(buffer, tensor=blank)
                self._written.add(number)
            return made
        return rebuilder.add(value, f"{self._full_name}.input", self._arguments)

    def _operation(self, text: str) -> Any:
        word = text.rpartition(".")[2]
        if word == "AVG":
            # Gloo has no mean.
            self._averages = True
            word = "SUM"
        if word not in ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
            raise NotReplayableError(f"gloo has no {text}")
        return getattr(dist.ReduceOp, word)

    def judged(self) -> list[CheckedTensor]:
        """Makes the call, and compares the recorded results of this rank."""
        reduces = _REDUCE in self.name
        exact = self._run(Way(torch.float64 if reduces else None))
        shift = SHIFTS[torch.float64]
        moved = [self._run(Way(torch.float64, size)) for size in (shift, shift / 16)] if reduces else []
        found = []
        for number, recorded in enumerate(leaves(list(self._call.results))):
            reference = exact[number] if number < len(exact) else None
            if not isinstance(recorded, DumpTensor) or not isinstance(reference, torch.Tensor):
                continue
            name = f"{self._full_name}.forward.output.{number}"
            result = loaded(recorded, name)
            if result is None:
                continue
            if result.shape != reference.shape:
                message = f"shape {tuple(result.shape)}, expected {tuple(reference.shape)}"
                found.append(CheckedTensor(name, "error", message, "recorded"))
                continue
            others = [one[number] for one in moved]
            found.append(self._tensor(name, result, reference, others if reduces else None))
        return found

    def _tensor(
        self, name: str, result: torch.Tensor, reference: torch.Tensor, moved: list[torch.Tensor] | None
    ) -> CheckedTensor:
        pair = None if moved is None or not reference.is_floating_point() else (moved[0], moved[1])
        judged = judge_result(
            self.name, result, reference, moved=pair, shift=SHIFTS[torch.float64], terms=float(self._size)
        )
        status: str = judged.status
        message = judged.message
        if moved is None:
            different = int((~torch.isclose(result, reference, 0, 0, equal_nan=True)).sum())
            status = "error" if different else "pass"
            message = f"{different} of {result.numel()} elements are not what was sent" if different else ""
        if status == "error":
            message = f"{message}; computed from the {self._size} ranks of its group in the dump"
        return CheckedTensor(
            name,
            status,
            message,
            "recorded",
            tuple(judged.measured()),
            judged.error,
            judged.floor,
            judged.ratio,
            judged.standard,
            judged.by_standard or "",
        )

    def _run(self, way: Way) -> list[Any]:
        tensors = [
            converted(given.tensor, way, 1000 * self._index + number).clone()
            for number, given in enumerate(self._arguments.tensors)
        ]
        args, kwargs = self._arguments.filled(tensors, lambda value: value, None)
        if self.is_functional:
            from torch.distributed import _functional_collectives as functional

            returned = getattr(functional, self.name)(*args, **kwargs)
            return [one.wait() if hasattr(one, "wait") else one for one in leaves(returned)]
        written = {id(tensors[number]) for number in self._written}
        buffers = list(leaves([*args, *kwargs.values()]))
        bound = inspect.signature(getattr(dist, self.name)).bind(*args, **kwargs)
        given = bound.arguments
        if "async_op" in given:
            given["async_op"] = False
        given.update(
            {key: self._ranks.index(given[key]) for key in _ROOTS if isinstance(given.get(key), int)}
        )
        self._call_gloo(given)
        return [
            (one / self._size if self._averages else one) if id(one) in written else None for one in buffers
        ]

    def _call_gloo(self, given: dict[str, Any]) -> None:
        if self.name == "all_to_all":
            _all_to_all(**given)
            return
        work = getattr(dist, self.name)(**given)
        if isinstance(work, dist.Work):
            work.wait()


def _all_to_all(
    output_tensor_list: list[torch.Tensor], input_tensor_list: list[torch.Tensor], group: Any = None, **_: Any
) -> None:
    """Gloo has it for one tensor only."""
    sizes = [[one.numel() for one in listed] for listed in (output_tensor_list, input_tensor_list)]
    sent = torch.cat([one.reshape(-1) for one in input_tensor_list])
    received = sent.new_empty(sum(sizes[0]))
    dist.all_to_all_single(received, sent, sizes[0], sizes[1], group=group)
    for one, part in zip(output_tensor_list, torch.split(received, sizes[0]), strict=True):
        one.copy_(part.reshape(one.shape))


def main() -> None:
    """Makes the calls of a request."""
    request = json.load(sys.stdin)
    # The ranks are on this machine.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{request['folder']}/store",
        rank=request["index"],
        world_size=len(request["ranks"]),
        timeout=timedelta(seconds=request["limit"]),
    )
    rank = RankProcess(request)
    for number, name, group in request["calls"]:
        print(json.dumps(rank.make(number, name, tuple(group))), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
