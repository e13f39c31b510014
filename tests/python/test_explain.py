"""What a comparison says in plain words."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import torch

import ulpscope
from dumps import chain, run, write_rank

MODULE = "Module.layers.2.Linear.forward.0"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A target whose third linear layer is 20 % too large, and its golden."""
    name = "Functional.linear.2.forward"
    stack = ["File /home/me/model.py, line 48, in forward, \n x = self.fc(x)"]
    for side, fault in (("target", {2: 1.2}), ("golden", None)):
        write_rank(tmp_path / side, chain(4, fault=fault), stacks={name: stack}, parents={name: MODULE})
    return tmp_path / "target", tmp_path / "golden"


def sections(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("  "):
            found[list(found)[-1]].append(line[2:])
        else:
            found[line.removesuffix(":")] = []
    return found


def test_call_module_and_line_are_named(pair: tuple[Path, Path]) -> None:
    said = sections(ulpscope.compare(*pair).explain())
    assert said["What broke"][0].startswith("Functional.linear.2.forward gives another result")
    assert said["Where"][:3] == [
        "call    Functional.linear.2.forward (forward pass)",
        f"module  {MODULE}",
        "code    /home/me/model.py:48 forward: x = self.fc(x)",
    ]
    assert "as if multiplied by 1.2" in said["How large"][0]


def test_every_face_says_the_same(pair: tuple[Path, Path], tmp_path: Path) -> None:
    result = ulpscope.compare(*pair)
    text = result.explain()
    assert json.loads(result.to_json())["explanation"] == text
    run("compare", *pair, "-o", tmp_path / "out")
    ran = run("explain", tmp_path / "out")
    assert (ran.returncode, ran.stderr, ran.stdout) == (0, "", text)
    classes = json.loads(run("explain", tmp_path / "out", "--json").stdout)["classes"]
    assert classes == result.summary["classes"]
    assert classes["diverged here"] == 1
    assert sum(classes.values()) == 9


def test_the_next_command_shows_the_error(pair: tuple[Path, Path]) -> None:
    command = sections(ulpscope.compare(*pair).explain())["Next"][1]
    program, *arguments = shlex.split(command)
    assert (program, arguments[0]) == ("ulpscope", "diff")
    compared = json.loads(run(*arguments, "--json").stdout)
    assert "0.19999" in json.dumps(compared) or "0.2000" in json.dumps(compared)


def test_without_tensors_the_next_capture_is_of_the_module(pair: tuple[Path, Path]) -> None:
    for side, fault in zip(pair, ({2: 1.2}, None), strict=True):
        name = "Functional.linear.2.forward"
        for file in side.rglob("*.pt"):
            file.unlink()
        write_rank(side, chain(4, fault=fault), tensors=False, parents={name: MODULE})
    said = sections(ulpscope.compare(*pair).explain())
    assert "No elements were compared" in said["Not seen"][0]
    assert "--level mix --task tensor --list Module.layers.2.Linear. --" in said["Next"][1]
    assert said["Next"][3].strip().startswith('ulpscope.capture("NEW_DUMP", model=model')


def test_the_capture_it_asks_for_holds_the_module(tmp_path: Path) -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(3)))
    with ulpscope.capture(
        tmp_path, model=model, level="mix", task="tensor", step=0, list=["Module.1.Linear."]
    ):
        model(torch.ones(2, 4)).sum().backward()
    calls = json.loads((tmp_path / "step0" / "rank" / "dump.json").read_text())["data"]
    assert {"Functional.linear.1.forward", "Module.1.Linear.forward.0"} <= set(calls)
    assert not any(name.startswith(("Module.0.", "Functional.linear.0.")) for name in calls)


def test_a_healthy_pair_is_said_to_agree(tmp_path: Path) -> None:
    for side in ("target", "golden"):
        write_rank(tmp_path / side, chain(3))
    text = ulpscope.compare(tmp_path / "target", tmp_path / "golden").explain()
    assert text == (
        "What broke:\n  Nothing. The two runs agree.\nCompared:\n  7 calls; no difference was seen in them.\n"
    )


def test_a_checkpoint_that_differs_is_no_random_draw(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(8)}, tmp_path / "target.pt")
    torch.save({"w": torch.full((8,), 1.5)}, tmp_path / "golden.pt")
    text = ulpscope.compare(tmp_path / "target.pt", tmp_path / "golden.pt").explain()
    assert "random" not in text.split("Next:")[0]
