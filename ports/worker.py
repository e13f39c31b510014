"""Captures runs on request, in the environment whose Python runs this file.

A line of JSON on stdin asks for a run, a line on stdout answers. Each run is made in a forked process:
libraries are imported once, and what a run edits in them ends with it. Nothing is computed before a fork, so
that no thread of torch is lost in it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

LIMIT_SECONDS = 180.0


def capture(request: dict[str, Any]) -> dict[str, Any]:
    """Makes one run and its dump."""
    import torch

    import ulpscope
    from ports.edits import plant
    from ports.programs import build
    from ports.runs import Edit

    torch.set_num_threads(1)
    torch.manual_seed(0)
    spans = plant([Edit(**edit) for edit in request["edits"]])
    program = build(request["program"], request["options"])
    with ulpscope.capture(
        request["dump"], model=program.model, level="mix", task=request["task"]
    ) as recording:
        results = program.step(request["backward"])
        recording.step()
    kept = {name: value.detach().double() for name, value in results.items()}
    torch.save(kept, request["results"])
    return {"spans": spans}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Makes a run in a forked process and waits for it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            said: dict[str, Any] = capture(request)
        except BaseException:
            said = {"error": traceback.format_exc()}
        with os.fdopen(writing, "w") as pipe:
            pipe.write(json.dumps(said))
        sys.stderr.flush()
        os._exit(0)
    os.close(writing)
    end = time.monotonic() + LIMIT_SECONDS
    status: int | None = None
    while status is None and time.monotonic() < end:
        done, ended = os.waitpid(child, os.WNOHANG)
        status = ended if done else None
        if status is None:
            time.sleep(0.01)
    if status is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        return {"error": f"the run took more than {LIMIT_SECONDS:.0f} seconds"}
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    if not text:
        return {"error": f"the run ended with status {status}"}
    found: dict[str, Any] = json.loads(text)
    return found


def main() -> None:
    """Answers until stdin ends."""
    # What libraries print must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import torch
    import transformers.modeling_utils

    if transformers.__version__.startswith("4."):
        # Configurations of this release import it, which takes long.
        import transformers.onnx
    torch.set_num_threads(1)
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
