"""``ulpscope run``: the script runs as without it, and its dump has the steps that were asked for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TRAIN = """\
import sys
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).square().mean()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
"""


def script(folder: Path, text: str, name: str = "train.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def python(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, words)], cwd=folder, capture_output=True, text=True)


def run(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """``ulpscope run --dump-path dump`` and more words, in a folder."""
    return python(folder, "-m", "ulpscope", "run", "--dump-path", "dump", *words)


def steps(folder: Path) -> dict[str, list[str]]:
    """The calls of each step of the dump."""
    return {
        path.name: list(json.loads((path / "rank" / "dump.json").read_text())["data"])
        for path in sorted((folder / "dump").iterdir())
    }


def forward(calls: list[str]) -> list[str]:
    return [call for call in calls if call.endswith("forward") and "linear" in call]


def test_steps_come_from_the_optimizer(tmp_path: Path) -> None:
    script(tmp_path, TRAIN)
    plain = python(tmp_path, "train.py")
    ran = run(tmp_path, "--", "train.py")
    assert (ran.returncode, ran.stdout) == (0, plain.stdout), ran.stderr
    assert ran.stderr == plain.stderr + f"ulpscope: the dump is in {tmp_path / 'dump'}\n"
    recorded = {step: forward(calls) for step, calls in steps(tmp_path).items()}
    linear = ["Functional.linear.0.forward", "Functional.linear.1.forward"]
    # What follows the last step of the optimizer, the printing, is none.
    assert recorded == {f"step{n}": linear for n in range(4)} | {"after_last_step": []}


EVALUATION = """\
with torch.no_grad():
    print(model(torch.ones(2, 4)).sum().item().hex())
"""

GRADIENTS_LEFT = "model(torch.ones(2, 4)).sum().backward()\n"


@pytest.mark.parametrize("level", ["L0", "L1", "mix", "L2"])
def test_an_evaluation_after_training_is_no_step(tmp_path: Path, level: str) -> None:
    script(tmp_path, TRAIN + EVALUATION)
    assert run(tmp_path, "--level", level, "--", "train.py").returncode == 0
    found = steps(tmp_path)
    assert sorted(found) == ["after_last_step", "step0", "step1", "step2", "step3"]
    evaluated = [call for call in found["after_last_step"] if "inear" in call or "addmm" in call]
    assert len(evaluated) == (4 if level == "mix" else 2), found["after_last_step"]


@pytest.mark.parametrize("level", ["L0", "L1", "mix", "L2"])
def test_a_backward_pass_after_the_last_step_is_part_of_a_step(tmp_path: Path, level: str) -> None:
    """As that of an iteration whose step a gradient scaler left out."""
    script(tmp_path, TRAIN + GRADIENTS_LEFT)
    assert run(tmp_path, "--level", level, "--", "train.py").returncode == 0
    assert sorted(steps(tmp_path)) == [f"step{n}" for n in range(5)]


def test_what_an_error_ends_is_a_step(tmp_path: Path) -> None:
    script(tmp_path, TRAIN + "model(torch.ones(2, 4)); model(torch.ones(2, 3))\n")
    assert run(tmp_path, "--", "train.py").returncode == 1
    assert sorted(steps(tmp_path)) == [f"step{n}" for n in range(5)]


def test_two_runs_with_an_evaluation_are_compared_to_the_end(tmp_path: Path) -> None:
    script(tmp_path, TRAIN + EVALUATION)
    script(tmp_path, TRAIN + EVALUATION.replace(".sum()", ".sum().mul(2)"), "other.py")
    for name, text in (("a", "train.py"), ("b", "train.py"), ("c", "other.py")):
        words = ["-m", "ulpscope", "run", "--dump-path", name, "--task", "tensor", "--", text]
        assert python(tmp_path, *words).returncode == 0
    same = python(tmp_path, "-m", "ulpscope", "compare", "a", "b", "--json")
    assert same.returncode == 0, same.stdout + same.stderr
    assert [rank["step"] for rank in json.loads(same.stdout)["ranks"]] == [0, 1, 2, 3, None]
    other = python(tmp_path, "-m", "ulpscope", "compare", "a", "c")
    assert other.returncode == 1, other.stdout + other.stderr


def test_a_forked_child_does_not_speak_of_a_dump(tmp_path: Path) -> None:
    text = TRAIN + "import os\nif (child := os.fork()) != 0:\n    os.waitpid(child, 0)\n"
    script(tmp_path, text)
    ran = run(tmp_path, "--", "train.py")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("the dump is in") == 1, ran.stderr


def test_a_forked_child_without_torch_leaves_the_folder_alone(tmp_path: Path) -> None:
    wait = "    os.waitpid(child, 0)\n    print(os.path.exists('dump'))\n"
    script(tmp_path, f"import os\nif (child := os.fork()) != 0:\n{wait}")
    ran = run(tmp_path, "--", "train.py")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "True\n"
    assert ran.stderr.count("torch was not imported") == 1, ran.stderr


def test_only_the_wanted_steps_are_recorded(tmp_path: Path) -> None:
    script(tmp_path, TRAIN)
    ran = run(tmp_path, "--step", "0,2", "train.py")
    assert ran.returncode == 0, ran.stderr
    assert sorted(steps(tmp_path)) == ["step0", "step2"]


def test_after_the_last_wanted_step_torch_is_as_without_us(tmp_path: Path) -> None:
    text = TRAIN + (
        "from torch.overrides import _get_current_function_mode_stack as modes\n"
        "assert modes() == [], modes()\n"
    )
    script(tmp_path, text)
    ran = run(tmp_path, "--step", "0", "--", "train.py")
    assert ran.returncode == 0, ran.stderr


def test_stacks_begin_with_the_script(tmp_path: Path) -> None:
    # The folder of a clone has the name of the package.
    folder = tmp_path / "ulpscope" / "_capture"
    script(folder, TRAIN)
    assert run(folder, "--level", "mix", "--step", "0", "--", "train.py").returncode == 0
    stacks = json.loads((folder / "dump/step0/rank/stack.json").read_text())
    outermost = {frames[-1].split(", line")[0] for _, frames in stacks.values()}
    assert outermost == {f"File {folder / 'train.py'}"}


def test_of_two_optimizers_the_first_counts_the_steps(tmp_path: Path) -> None:
    text = TRAIN.replace(
        "for step",
        "second = torch.optim.SGD(model.parameters(), lr=0.1)\nfor step",
    ).replace("    optimizer.step()", "    optimizer.step(); second.step()")
    script(tmp_path, text)
    assert run(tmp_path, "--step", "0-9", "--", "train.py").returncode == 0
    assert [step for step, calls in steps(tmp_path).items() if forward(calls)] == [
        f"step{n}" for n in range(4)
    ]


def test_without_an_optimizer_all_is_step_0(tmp_path: Path) -> None:
    script(
        tmp_path,
        "import torch\nfor _ in range(3):\n    torch.nn.functional.linear(torch.ones(1), torch.ones(3, 1))\n",
    )
    assert run(tmp_path, "--", "train.py").returncode == 0
    assert {step: len(forward(calls)) for step, calls in steps(tmp_path).items()} == {"step0": 3}


def test_at_levels_with_modules_the_model_is_found(tmp_path: Path) -> None:
    script(tmp_path, TRAIN)
    assert run(tmp_path, "--level", "L0", "--step", "0", "--", "train.py").returncode == 0
    assert "Module.0.Linear.forward.0" in steps(tmp_path)["step0"]


def test_flags_count_before_the_file(tmp_path: Path) -> None:
    script(tmp_path, TRAIN)
    config = {"dump_path": "elsewhere", "step": [1], "level": "L0", "task": "structure"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    ran = run(tmp_path, "--config", "config.json", "--level", "L1", "--task", "statistics", "--", "train.py")
    assert ran.returncode == 0, ran.stderr
    assert {step: forward(calls) for step, calls in steps(tmp_path).items()} == {
        "step1": ["Functional.linear.0.forward", "Functional.linear.1.forward"]
    }


WHO_AM_I = """\
import sys
import __main__
import beside
print(sys.argv, sys.path[0], __name__, __file__, __package__, __spec__ and __spec__.name, __doc__)
print(__main__.__dict__ is globals(), sorted(globals()), "torch" in sys.modules, beside.__name__)
"""


def test_a_script_sees_what_it_sees_without_us(tmp_path: Path) -> None:
    script(tmp_path, '"""A doc."""\n' + WHO_AM_I, "folder/who.py")
    script(tmp_path, "", "folder/beside.py")
    words = ["folder/who.py", "--help", "-m", "--", "x"]
    plain = python(tmp_path, *words)
    assert plain.returncode == 0, plain.stderr
    for dashes in (["--"], []):
        assert run(tmp_path, *dashes, *words).stdout == plain.stdout


def test_a_link_to_a_script_finds_what_is_beside_the_script(tmp_path: Path) -> None:
    script(tmp_path, WHO_AM_I, "folder/who.py")
    script(tmp_path, "", "folder/beside.py")
    (tmp_path / "link.py").symlink_to("folder/who.py")
    plain = python(tmp_path, "link.py")
    assert plain.returncode == 0, plain.stderr
    assert run(tmp_path, "--", "link.py").stdout == plain.stdout


@pytest.mark.parametrize("name", ["pack.who", "pack"])
def test_a_module_sees_what_it_sees_without_us(tmp_path: Path, name: str) -> None:
    script(tmp_path, "", "pack/__init__.py")
    script(tmp_path, WHO_AM_I, "pack/who.py")
    script(tmp_path, WHO_AM_I, "pack/__main__.py")
    script(tmp_path, "", "beside.py")
    plain = python(tmp_path, "-m", name, "--level", "x")
    assert plain.returncode == 0, plain.stderr
    for dashes in (["--"], []):
        assert run(tmp_path, *dashes, "-m", name, "--level", "x").stdout == plain.stdout


@pytest.mark.parametrize(
    "end",
    [
        "raise ValueError('boom')",
        "sys.exit(7)",
        "sys.exit('last words')",
        "sys.exit()",
        "raise KeyboardInterrupt",
        "try:\n    {}[1]\nexcept KeyError as error:\n    raise OSError('then') from error",
        "torch.nn.functional.linear(torch.ones(2, 3), torch.ones(2, 4))",
        "import nothing_of_that_name",
        "exec('x = = 1')",
        "import threading; threading.Thread(target=lambda: print('still here')).start(); sys.exit(3)",
        "import atexit; atexit.register(lambda: print('bye'))",
    ],
)
def test_the_script_ends_as_without_us(tmp_path: Path, end: str) -> None:
    script(tmp_path, f"import sys\nimport torch\ntorch.ones(2) + 1\n{end}\n")
    plain = python(tmp_path, "train.py")
    ran = run(tmp_path, "--", "train.py")
    dump = f"ulpscope: the dump is in {tmp_path / 'dump'}\n"
    assert (ran.returncode, ran.stdout) == (plain.returncode, plain.stdout)
    assert ran.stderr.replace(dump, "") == plain.stderr
    assert dump in ran.stderr
    assert (tmp_path / "dump" / "step0" / "rank" / "dump.json").exists(), "the capture was closed"


def test_a_script_that_is_no_python_fails_as_without_us(tmp_path: Path) -> None:
    script(tmp_path, "x = = 1\n")
    plain = python(tmp_path, "train.py")
    ran = run(tmp_path, "--", "train.py")
    assert ran.returncode == plain.returncode == 1
    assert ran.stderr.endswith(plain.stderr)
    assert "ulpscope: torch was not imported, nothing was recorded" in ran.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_signal_kills_as_without_us(tmp_path: Path) -> None:
    script(tmp_path, "import os, signal, torch\ntorch.ones(1) + 1\nos.kill(os.getpid(), signal.SIGTERM)\n")
    assert run(tmp_path, "--", "train.py").returncode == -signal.SIGTERM
    assert (tmp_path / "dump" / "step0" / "rank" / "journal.jsonl").exists()


def test_the_users_own_excepthook_is_called(tmp_path: Path) -> None:
    text = (
        "import sys, traceback\n"
        "def hook(kind, value, trace):\n"
        "    print(kind.__name__, [frame.name for frame in traceback.extract_tb(trace)])\n"
        "sys.excepthook = hook\n"
        "1 / 0\n"
    )
    script(tmp_path, text)
    assert run(tmp_path, "--", "train.py").stdout == "ZeroDivisionError ['<module>']\n"


def test_what_the_script_sets_before_torch_counts(tmp_path: Path) -> None:
    script(
        tmp_path,
        "import os\nos.environ['OMP_NUM_THREADS'] = '1'\nimport torch\nprint(torch.get_num_threads())\n",
    )
    assert run(tmp_path, "--", "train.py").stdout == "1\n"


def test_torch_keeps_its_loader(tmp_path: Path) -> None:
    script(
        tmp_path,
        "import torch\nprint(type(torch.__loader__).__name__, type(torch.__spec__.loader).__name__)\n",
    )
    assert run(tmp_path, "--", "train.py").stdout == python(tmp_path, "train.py").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--", "none.py"], "none.py does not exist; expected a Python script, or -m and a module"),
        (["--", "."], ". is a folder; expected a Python script, or -m and a module"),
        (["--", "-m"], "-m has no module after it"),
        (["--", "-m", "no.such.module"], "no module named no.such.module that can be run"),
        ([], "the script to run is missing; give it after --"),
        (["--level", "L9", "--", "train.py"], "--level is 'L9'; expected one of L0, L1, mix, L2, debug"),
        (
            ["--format", "bin", "--", "train.py"],
            "--format is 'bin'; expected one of pack, pt, npy, safetensors",
        ),
        (["--data-mode", "in", "train.py"], "--data-mode is ['in']; expected words out of"),
        (["--task", "free_benchmark", "train.py"], "--task is 'free_benchmark', which is not supported"),
        (["--max-calls", "many", "train.py"], "--max-calls is 'many'; expected a number above 0"),
        (["--frobnicate", "train.py"], "unknown option --frobnicate; ulpscope run --help lists the options"),
        (["--lvl", "L1", "--", "train.py"], "unknown option --lvl; did you mean --level?"),
        (["--steps=1", "--", "train.py"], "unknown option --steps; did you mean --step?"),
        (["--config", "none.json", "train.py"], "none.json cannot be read: No such file"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_runs(
    tmp_path: Path, words: list[str], message: str
) -> None:
    script(tmp_path, "print('ran')")
    ran = run(tmp_path, *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert not (tmp_path / "dump").exists()


def test_data_loaders_do_not_drive_the_steps_of_the_command(tmp_path: Path) -> None:
    script(tmp_path, "print('ran')")
    (tmp_path / "config.json").write_text('{"dump_path": "dump", "enable_dataloader": true}')
    ran = run(tmp_path, "--config", "config.json", "--", "train.py")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "enable_dataloader is true in config.json" in ran.stderr


def test_a_folder_that_cannot_be_made_is_said_before_anything_runs(tmp_path: Path) -> None:
    script(tmp_path, "print('ran')\nimport torch\n")
    (tmp_path / "file").touch()
    ran = python(tmp_path, "-m", "ulpscope", "run", "--dump-path", "file/dump", "train.py")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert (
        f"dump_path is '{tmp_path / 'file' / 'dump'}', a folder that cannot be made: Not a dir" in ran.stderr
    )


def test_without_torch_no_folder_is_left(tmp_path: Path) -> None:
    script(tmp_path, "print('ran')")
    ran = python(tmp_path, "-m", "ulpscope", "run", "--dump-path", "new/dump", "train.py")
    assert (ran.returncode, ran.stdout) == (0, "ran\n")
    assert ran.stderr == "ulpscope: torch was not imported, nothing was recorded\n"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("flags", "body", "why"),
    [
        ((), "", "no call of torch was seen"),
        (("--step", "0"), "", "no call of torch was seen"),
        (("--step", "5-7"), "torch.ones(2) + 1", "step 5 was not reached"),
        (("--rank", "1"), "torch.ones(2) + 1", "rank 0 is not selected"),
        (
            ("--task", "overflow_check"),
            "torch.ones(2) + 1",
            "overflow_check: no call returned NaN or infinity that its inputs do not have",
        ),
    ],
)
def test_where_nothing_was_recorded_no_folder_is_left(
    tmp_path: Path, flags: tuple[str, ...], body: str, why: str
) -> None:
    script(tmp_path, f"import os\nos.environ['RANK'] = '0'\nimport torch\n{body}\nprint('ran')\n")
    ran = python(tmp_path, "-m", "ulpscope", "run", "--dump-path", "new/dump", *flags, "train.py")
    assert (ran.returncode, ran.stdout) == (0, "ran\n")
    assert ran.stderr == f"ulpscope: {why}, nothing was recorded\n"
    assert not (tmp_path / "new").exists()


def test_an_error_at_the_end_of_capture_does_not_hide_that_of_the_script(tmp_path: Path) -> None:
    text = (
        "import shutil, torch\ntorch.ones(1) + 1\nshutil.rmtree('dump')\nraise ValueError('of the script')\n"
    )
    script(tmp_path, text)
    plain = python(tmp_path, "-c", "raise ValueError('of the script')")
    ran = run(tmp_path, "--strict", "--", "train.py")
    assert ran.returncode == plain.returncode == 1
    assert ran.stderr.splitlines()[-1] == "ValueError: of the script"
    assert "ulpscope: error: the dump may be incomplete:" in ran.stderr
    assert "During handling" not in ran.stderr


def test_a_folder_that_is_gone_where_recording_begins_does_not_end_the_script(tmp_path: Path) -> None:
    """The folder was there, and is gone when torch is imported."""
    body = "import os\nos.rmdir('dump')\nopen('dump', 'w').close()\nimport torch\nprint('ran')\n"
    script(tmp_path, body)
    ran = run(tmp_path, "--", "train.py")
    assert (ran.returncode, ran.stdout) == (0, "ran\n")
    assert "a folder that cannot be made: File exists; nothing is recorded" in ran.stderr
    assert "torch was not imported" not in ran.stderr


def test_without_a_folder_it_asks_for_one(tmp_path: Path) -> None:
    script(tmp_path, "print('ran')")
    ran = python(tmp_path, "-m", "ulpscope", "run", "train.py")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "--dump-path is missing; give the folder to write to" in ran.stderr


def test_help_lists_every_flag(tmp_path: Path) -> None:
    ran = python(tmp_path, "-m", "ulpscope", "run", "--help")
    assert ran.returncode == 0
    assert "ulpscope run --dump-path dumps/cpu -- train.py" in ran.stdout
    flags = ["level", "task", "step", "rank", "list", "scope", "data-mode", "digest", "format", "max-bytes"]
    for flag in [*flags, "max-calls", "strict", "config"]:
        assert f"--{flag} " in ran.stdout


@pytest.mark.parametrize(
    ("flags", "body", "said"),
    [
        (("--would-overflow", "float16"), "torch.full((2,), 1e9) + 1", "would_overflow.csv"),
        ((), "torch.full((2,), float('nan')) + 1", "passed NaN on"),
    ],
)
def test_a_check_without_overflow_says_what_it_left(
    tmp_path: Path, flags: tuple[str, ...], body: str, said: str
) -> None:
    script(tmp_path, f"import torch\n{body}\n")
    ran = python(
        tmp_path, "-m", "ulpscope", "run", "--task", "overflow_check", "--dump-path", "d", *flags, "train.py"
    )
    assert "no call returned NaN or infinity that its inputs do not have" in ran.stderr
    assert said in ran.stderr
    assert "the dump is in" not in ran.stderr
