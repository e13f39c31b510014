"""Dumps of runs, made once each by a worker of their environment."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ports.edits import Span
from ports.runs import Run

ROOT = Path(__file__).resolve().parents[1]


class CaptureError(RuntimeError):
    """A run that failed; the text is its traceback."""


@dataclass(frozen=True)
class Captured:
    """What a run leaves."""

    dump: Path
    results: Path
    """The final results, by name."""
    spans: tuple[Span, ...]
    """The edited lines."""


def spans_of(read: list[list[Any]]) -> tuple[Span, ...]:
    """The edited lines, as a worker reports them."""
    return tuple((path, first, last) for path, first, last in read)


class Captures:
    """Makes dumps below a folder and remembers them; those that an earlier run left there are used again."""

    def __init__(self, environments: dict[str, Path], folder: Path) -> None:
        self._environments, self._folder = environments, folder
        self._workers: dict[str, subprocess.Popen[str]] = {}
        self._made: dict[str, Captured] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def _worker(self, environment: str) -> subprocess.Popen[str]:
        worker = self._workers.get(environment)
        if worker is None or worker.poll() is not None:
            paths = (str(ROOT / "python"), str(ROOT), os.environ.get("PYTHONPATH", ""))
            with (self._folder / f"{environment}.log").open("a") as log:
                worker = subprocess.Popen(
                    [str(self._environments[environment] / "bin" / "python"), "-m", "ports.worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    cwd=ROOT,
                    env={
                        **os.environ,
                        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                        "OMP_NUM_THREADS": "1",
                        # Without AMX, bfloat16 products have the same bits on every machine with AVX-512.
                        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
                        "HF_HUB_OFFLINE": "1",
                    },
                )
            self._workers[environment] = worker
        return worker

    def made(self, run: Run, task: str, backward: bool) -> Captured:
        """The dump of a run; raises what went wrong in it."""
        key = f"{run.key()} {task} {backward}"
        if key not in self._made:
            self._made[key] = self._make(run, task, backward, hashlib.sha256(key.encode()).hexdigest()[:16])
        return self._made[key]

    def _make(self, run: Run, task: str, backward: bool, name: str) -> Captured:
        dump, results = self._folder / name, self._folder / f"{name}.pt"
        done = self._folder / f"{name}.json"
        if done.exists():
            return Captured(dump, results, spans_of(json.loads(done.read_text())))
        request: dict[str, Any] = {
            "program": run.program,
            "options": dict(run.options),
            "edits": [asdict(edit) for edit in run.edits],
            "task": task,
            "backward": backward,
            "dump": str(dump),
            "results": str(results),
        }
        worker = self._worker(run.environment)
        assert worker.stdin is not None
        assert worker.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.write(json.dumps(request) + "\n")
            worker.stdin.flush()
        line = worker.stdout.readline()
        if not line:
            log = (self._folder / f"{run.environment}.log").read_text(errors="replace")
            raise CaptureError(f"the worker ended with {worker.wait()}: {log[-1500:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise CaptureError(f"{run.program}: {answer['error']}")
        # Written last: what it stands beside is whole.
        done.write_text(json.dumps(answer["spans"]))
        return Captured(dump, results, spans_of(answer["spans"]))

    def forget(self) -> None:
        """Removes every dump."""
        for captured in self._made.values():
            shutil.rmtree(captured.dump, ignore_errors=True)
            captured.results.unlink(missing_ok=True)
            captured.results.with_suffix(".json").unlink(missing_ok=True)
        self._made.clear()

    def close(self) -> None:
        """Ends the workers."""
        for worker in self._workers.values():
            assert worker.stdin is not None
            assert worker.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                worker.stdin.close()
            worker.wait()
            worker.stdout.close()
        self._workers.clear()
