"""What capture puts between a program and torch, and a program that does the same meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import ulpscope
from captured import Captured
from patches import left_behind, snapshot


def net() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(2, 2))


def modules(folder: Path, step: int = 0) -> list[str]:
    """The module calls of a dump."""
    names = Captured(folder, step).calls
    return [name for name in names if name.startswith("Module.") and ".forward." in name]


@pytest.fixture
def imported() -> Iterator[Any]:
    """Imports source as a module of the program."""
    names = []

    def load(source: str) -> types.ModuleType:
        module = types.ModuleType(f"imported_meanwhile_{len(names)}")
        sys.modules[module.__name__] = module
        names.append(module.__name__)
        exec(source, vars(module))
        return module

    yield load
    for name in names:
        del sys.modules[name]


class TestPatchesOfTheProgram:
    def test_one_made_meanwhile_stays(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        original = torch.nn.Module.__call__
        model, x, seen = net(), torch.ones(1, 2), []

        def around(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            seen.append(type(self).__name__)
            return found(self, *args, **kwargs)

        # The fixture puts back what was there before capture, whatever becomes of it here.
        monkeypatch.setattr(torch.nn.Module, "__call__", original)
        run = ulpscope.capture(tmp_path, level="mix")
        run.start()
        found = torch.nn.Module.__call__
        torch.nn.Module.__call__ = around  # type: ignore[method-assign]
        model(x)
        # A region that capture steps aside for takes everything away and puts it back.
        torch.jit.trace(torch.nn.Tanh(), x)
        model(x)
        run.step()
        model(x)
        run.stop()
        assert torch.nn.Module.__call__ is around
        model(x)
        run.start()
        model(x)
        run.close()
        assert torch.nn.Module.__call__ is around
        model(x)
        assert seen.count("Sequential") == 6
        assert len(modules(tmp_path)) == 2
        # Once each: the wrapper that the program's patch calls is of no effect any more.
        assert len(modules(tmp_path, 1)) == 2
        note = "torch.nn.modules.module.Module.__call__ was replaced by the program meanwhile"
        assert any(note in text for text in Captured(tmp_path, 1).ledger["notes"])

    def test_one_made_and_undone_meanwhile_leaves_ours(self, tmp_path: Path) -> None:
        before = snapshot()
        model, x = net(), torch.ones(1, 2)
        with ulpscope.capture(tmp_path, level="mix"):
            found = torch.nn.Module.__call__
            torch.nn.Module.__call__ = lambda self, *args: found(self, *args)  # type: ignore[method-assign]
            torch.jit.trace(torch.nn.Tanh(), x)
            torch.nn.Module.__call__ = found  # type: ignore[method-assign]
            model(x)
        assert len(modules(tmp_path)) == 1
        assert list(left_behind(before, snapshot())) == []

    def test_one_that_calls_what_it_found_after_capture(self, tmp_path: Path) -> None:
        """The wrapper does nothing then: no model is taken for one to record, no hook is put on it."""
        run = ulpscope.capture(tmp_path, level="mix")
        run.start()
        found = torch.nn.Module.__call__
        run.stop()
        model = net()
        found(model, torch.ones(1, 2)).sum().backward()
        assert not any(parameter._post_accumulate_grad_hooks for parameter in model.parameters())
        # The model to record is the first that is called from here on.
        run.start()
        other = torch.nn.Sequential(net())
        other(torch.ones(1, 2))
        run.close()
        assert sorted(modules(tmp_path)) == ["Module.0.0.Linear.forward.0", "Module.0.Sequential.forward.0"]


TAKES_ALONG = """\
import torch
from torch.jit import trace
from torch.distributed import all_reduce, init_process_group
import torch.distributed as dist
"""


class TestModulesImportedMeanwhile:
    def test_they_have_torchs_own_functions_afterwards(self, tmp_path: Path, imported: Any) -> None:
        before = snapshot()
        own = [torch.jit.trace, torch.distributed.all_reduce, torch.distributed.init_process_group]
        with ulpscope.capture(tmp_path):
            module = imported(TAKES_ALONG)
            assert module.all_reduce is not own[1]
        taken = [module.trace, module.all_reduce, module.init_process_group]
        assert all(one is other for one, other in zip(taken, own, strict=True))
        assert list(left_behind(before, snapshot())) == []

    def test_what_they_have_is_recorded_in_the_next_wanted_step(self, tmp_path: Path, imported: Any) -> None:
        run = ulpscope.capture(tmp_path, level="mix", step=[0, 2])
        run.start()
        # Kept in an unusual place.
        kept = {"trace": torch.jit.trace}
        module = imported(TAKES_ALONG)
        run.step()
        model, x = net(), torch.ones(1, 2)
        for trace in (kept["trace"], module.trace):
            trace(torch.nn.Tanh(), x)
        run.step()
        model(x)
        kept["trace"](torch.nn.Tanh(), x)
        model(x)
        run.close()
        assert not (tmp_path / "step1").exists()
        assert len(modules(tmp_path, 2)) == 2

    def test_a_wrapper_kept_anywhere_passes_on(self, tmp_path: Path) -> None:
        """Also when its capture records again, by another installation."""
        calls: list[int] = []
        mine = types.ModuleType("mine")
        mine.double = lambda x: calls.append(1) or x * 2  # type: ignore[attr-defined]
        run = ulpscope.capture(tmp_path, list=["mine"])
        run.register_custom_api(mine, "double")
        run.start()
        kept = mine.double
        kept(torch.ones(2))
        run.stop()
        kept(torch.ones(2))
        run.start()
        kept(torch.ones(2))
        mine.double(torch.ones(2))
        run.close()
        assert list(Captured(tmp_path).calls) == ["mine.double.0.forward", "mine.double.1.forward"]
        assert len(calls) == 4


# torch.compile replaces these by functions that call what it found, once in a process.
COMPILES = """\
import json, sys
import torch, ulpscope
from patches import ours_in_modules

def compiled():
    torch.compile(torch.nn.Linear(2, 2), backend="eager")(torch.ones(1, 2))

def function(x):
    return torch.tanh(x) + 1

folder, when = sys.argv[1:]
x, module = torch.ones(2), torch.nn.Tanh()
own = [torch.jit.trace, torch.jit.trace_module, torch.jit._get_trace_graph, torch.fx.Tracer.trace]
if when == "before":
    compiled()
with ulpscope.capture(folder):
    if when == "meanwhile":
        compiled()
    torch.jit.trace(function, x, check_trace=False)
    torch.jit.trace(module, x, check_trace=False)
    torch.jit.trace_module(module, {"forward": x}, check_trace=False)
    torch.jit._get_trace_graph(module, (x,))
    torch.fx.symbolic_trace(module)
found = [torch.jit.trace, torch.jit.trace_module, torch.jit._get_trace_graph, torch.fx.Tracer.trace]
print(json.dumps({
    "replaced by torch": [one is not other for one, other in zip(found, own)],
    "left": ours_in_modules(),
}))
"""


class TestFunctionsThatCompilingReplaces:
    @pytest.mark.parametrize("when", ["before", "meanwhile"])
    def test_nothing_stays_inside_and_capture_is_suspended_in_them(self, tmp_path: Path, when: str) -> None:
        support = Path(sys.modules["patches"].__file__ or "").parent
        ended = subprocess.run(
            [sys.executable, "-c", COMPILES, str(tmp_path), when],
            env=os.environ | {"PYTHONPATH": str(support)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        result = json.loads(ended.stdout.splitlines()[-1])
        assert result["replaced by torch"] == [True] * 4
        assert result["left"] == []
        captured = Captured(tmp_path)
        assert [name for name in captured.calls if "tanh" in name] == []
        notes = captured.ledger["notes"]
        assert "a model was traced or exported: what runs meanwhile is not seen (5 times)" in notes
        assert not any("was replaced by the program" in note for note in notes)


class TestOtherThreads:
    def test_the_ledger_counts_what_they_did_unseen(self, tmp_path: Path) -> None:
        """While one thread traces, everybody is without wrappers."""
        inside, done = threading.Event(), threading.Event()

        class Slow(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                inside.set()
                done.wait(60)
                return x + 1

        model, x = net(), torch.ones(1, 2)
        with ulpscope.capture(tmp_path, model=model, level="mix"):
            thread = threading.Thread(
                target=lambda: torch.jit.trace(Slow(), torch.ones(2), check_trace=False)
            )
            thread.start()
            assert inside.wait(60)
            model(x)
            done.set()
            thread.join()
            model(x)
        assert len(modules(tmp_path)) == 1
        notes = Captured(tmp_path).ledger["notes"]
        assert any("stepped aside for one thread while there were others" in note for note in notes)

    def test_a_thread_on_its_own_has_nothing_to_tell(self, tmp_path: Path) -> None:
        if threading.active_count() > 1:
            pytest.skip("another test has left a thread behind")
        with ulpscope.capture(tmp_path):
            torch.jit.trace(torch.nn.Tanh(), torch.ones(2))
        assert not any("there were others" in note for note in Captured(tmp_path).ledger["notes"])
