"""A training process to be killed. It keeps its own record of the calls that returned to it.

    python capture_victim.py    reads JSON objects: {"folder": …, "wait": …, "limit": …, "format": …}

Importing torch takes seconds, so it is done once, and every victim is a fork. For each line the server prints
the process id, and its exit status once it has ended. A victim trains STEPS steps into folder/dump and writes
to folder/returned one line per call, right after it: the step, the name of the call, and for most of them
the CRC-32 of the first output. After the last step it writes folder/result, and waits if so asked.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import zlib
from pathlib import Path
from typing import Any

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import ulpscope

STEPS = 12


class Network(nn.Module):
    """Calls with names that are known in advance."""

    def __init__(self, diary: Diary) -> None:
        super().__init__()
        self.diary = diary
        self.up, self.norm, self.down = nn.Linear(8, 64), nn.LayerNorm(64), nn.Linear(64, 8)

    def forward(self, x: Tensor) -> Tensor:
        returned = self.diary.returned
        for again in range(3):
            h = self.up(x)
            returned(f"Functional.linear.{2 * again}.forward", h)
            returned(f"Module.up.Linear.forward.{again}", h)
            h = F.gelu(self.norm(h))
            returned(f"Functional.layer_norm.{again}.forward")
            returned(f"Module.norm.LayerNorm.forward.{again}")
            returned(f"Functional.gelu.{again}.forward", h)
            h = self.down(h)
            returned(f"Functional.linear.{2 * again + 1}.forward", h)
            returned(f"Module.down.Linear.forward.{again}", h)
            x = torch.add(x, h)
            returned(f"Torch.add.{again}.forward", x)
        return x


class Diary:
    """What has returned. It is written at once: nothing is left in a buffer when the end comes."""

    def __init__(self, file: Path) -> None:
        self.descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.step = 0

    def returned(self, call: str, output: Tensor | None = None) -> None:
        """A call came back, with this output."""
        digest = "-"
        if output is not None:
            with torch._C.DisableTorchFunction():
                digest = f"{zlib.crc32(output.detach().numpy().tobytes()):08x}"
        os.write(self.descriptor, f"{self.step} {call} {digest}\n".encode())

    def backward_returned(self) -> None:
        """All gradients have been computed."""
        for again in range(3):
            for call in (f"Functional.gelu.{again}", f"Torch.add.{again}", f"Functional.layer_norm.{again}"):
                self.returned(f"{call}.backward")
            self.returned(f"Functional.linear.{2 * again}.backward")
            self.returned(f"Functional.linear.{2 * again + 1}.backward")


def train(folder: Path, limit: int | None, file_format: Any) -> None:
    """The program. With a `limit` no file may have more bytes: a full disk, as far as a process can tell."""
    torch.set_num_threads(1)
    torch.manual_seed(11)
    diary = Diary(folder / "returned" if limit is None else Path(os.devnull))
    model = Network(diary)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(4, 8)
    losses = []
    start = time.perf_counter()
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    dump = folder / "dump"
    with ulpscope.capture(dump, model=model, level="mix", task="tensor", file_format=file_format) as run:
        for step in range(STEPS):
            diary.step = step
            loss = model(x).square().mean()
            loss.backward()
            diary.backward_returned()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item().hex())
            run.step()
    result = {"losses": losses, "seconds": time.perf_counter() - start}
    (folder / "result").write_text(json.dumps(result))


def serve(request: dict[str, Any]) -> None:
    """Forks a victim and sees it end."""
    folder = Path(request["folder"])
    child = os.fork()
    if child == 0:
        # Whoever asked reads these two; a victim's own words go to a file.
        said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT)
        os.dup2(said, 1)
        os.dup2(said, 2)
        try:
            train(folder, request["limit"], request["format"])
            if request["wait"]:
                signal.pause()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print(status, flush=True)


def warm_up() -> None:
    """Has torch and capture load what they load at first use; not the autograd engine, which cannot fork."""
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        torch.manual_seed(11)
        model = Network(Diary(Path(os.devnull)))
        torch.optim.SGD(model.parameters(), lr=0.05)
        with ulpscope.capture(folder, model=model, level="mix", task="tensor"):
            model(torch.randn(4, 8))


if __name__ == "__main__":
    warm_up()
    for line in sys.stdin:
        serve(json.loads(line))
