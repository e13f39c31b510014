"""Callbacks for the trainers of transformers and Lightning, and capture by environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ulpscope
from captured import Captured


def digests(model: nn.Module) -> list[str]:
    return [ulpscope.digest(parameter.detach()) for parameter in model.parameters()]


def steps_in(dump: Path) -> list[str]:
    return sorted(path.name for path in dump.iterdir() if path.is_dir())


def forwards(dump: Path, step: int, name: str) -> int:
    return sum(call.startswith(name) and "forward" in call for call in Captured(dump, step).calls)


class Regression(nn.Module):
    """A model as transformers wants it: it returns its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        found = self.layers(x)
        return {"loss": nn.functional.mse_loss(found, labels), "logits": found}


def with_transformers(folder: Path, callbacks: list[Any], accumulate: int = 1, **arguments: Any) -> list[str]:
    from transformers import Trainer, TrainingArguments

    torch.manual_seed(0)
    data = [{"x": torch.randn(4), "labels": torch.randn(1)} for _ in range(12)]
    model = Regression()
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(folder),
            max_steps=3,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=accumulate,
            eval_strategy="steps",
            eval_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            **arguments,
        ),
        train_dataset=data,
        eval_dataset=data[:4],
        callbacks=callbacks,
    )
    trainer.train()
    trainer.evaluate()
    return digests(model)


def with_lightning(folder: Path, callbacks: list[Any], accumulate: int = 1) -> list[str]:
    import lightning.pytorch as pl

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            x, y = batch
            return nn.functional.mse_loss(self.layers(x), y)

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.training_step(batch, batch_idx)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    torch.manual_seed(0)
    model = Module()
    data = torch.utils.data.TensorDataset(torch.randn(12, 4), torch.randn(12, 1))
    loader = torch.utils.data.DataLoader(data, batch_size=2)
    trainer = pl.Trainer(
        max_steps=3,
        accumulate_grad_batches=accumulate,
        val_check_interval=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=callbacks,
    )
    trainer.fit(model, loader, loader)
    trainer.validate(model, loader, verbose=False)
    return digests(model)


def transformers_callback(*args: Any, **keywords: Any) -> Any:
    from ulpscope.integrations.transformers import CaptureCallback

    return CaptureCallback(*args, **keywords)


def lightning_callback(*args: Any, **keywords: Any) -> Any:
    from ulpscope.integrations.lightning import CaptureCallback

    return CaptureCallback(*args, **keywords)


Library = tuple[Callable[..., Any], Callable[..., list[str]]]


@pytest.fixture(params=["transformers", "lightning"])
def library(request: pytest.FixtureRequest) -> Library:
    """The callback of a library, and a training: three updates, a validation after each and at the end."""
    pytest.importorskip(request.param)
    return {
        "transformers": (transformers_callback, with_transformers),
        "lightning": (lightning_callback, with_lightning),
    }[request.param]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_steps_are_updates_and_validation_is_none(tmp_path: Path, library: Library, accumulate: int) -> None:
    callback, train = library
    dump = tmp_path / "dump"
    trained = train(tmp_path / "with", [callback(dump)], accumulate)
    assert steps_in(dump) == ["step0", "step1", "step2"]
    for step in range(3):
        # Two linear layers, for each batch whose gradients are accumulated, and none of a validation.
        assert forwards(dump, step, "Functional.linear") == 2 * accumulate
        assert forwards(dump, step, "Module.layers.0.Linear") == accumulate
        assert any("backward" in call for call in Captured(dump, step).calls)
    # Nothing that was computed is different.
    assert trained == train(tmp_path / "without", [], accumulate)


def test_only_wanted_steps(tmp_path: Path, library: Library) -> None:
    callback, train = library
    train(tmp_path / "out", [callback(tmp_path / "dump", level="L1", task="tensor", step=1)])
    assert steps_in(tmp_path / "dump") == ["step1"]
    assert list((tmp_path / "dump/step1/rank/dump_tensor_data").iterdir())


def test_two_trainings_agree(tmp_path: Path, library: Library) -> None:
    callback, train = library
    for name in ("golden", "target"):
        train(tmp_path / "out", [callback(tmp_path / name, task="tensor")])
    result = ulpscope.compare(tmp_path / "target", tmp_path / "golden")
    assert result.agreement == "agree", result.reason


def test_a_wrong_setting_is_an_error_where_the_callback_is_made(tmp_path: Path, library: Library) -> None:
    with pytest.raises(ulpscope.SettingsError, match="level is 'L3'"):
        library[0](tmp_path, level="L3")


TRAIN = """\
{first}
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
{last}
"""

EVALUATE = "with torch.no_grad():\n    print(float(model(torch.ones(2, 4)).sum()))"


def training(first: str = "import ulpscope.auto", last: str = EVALUATE) -> str:
    return TRAIN.format(first=first, last=last)


def run_program(folder: Path, script: str = training(), **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(script)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ULPSCOPE_")}
    return subprocess.run(
        [sys.executable, "train.py"], cwd=folder, env={**kept, **variables}, capture_output=True, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("first", ["import ulpscope.auto", "import torch\nimport ulpscope.auto"])
def test_the_environment_does_what_ulpscope_run_does(tmp_path: Path, first: str) -> None:
    plain = run_program(tmp_path, training(first))
    assert (plain.returncode, plain.stderr) == (0, "")
    assert steps_in(tmp_path) == []
    ran = run_program(
        tmp_path, training(first), ULPSCOPE_DUMP="auto", ULPSCOPE_LEVEL="mix", ULPSCOPE_NO_STACKS="1"
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == plain.stdout
    assert ran.stderr == f"ulpscope: the dump is in {tmp_path / 'auto'}\n"
    assert steps_in(tmp_path / "auto") == ["after_last_step", "step0", "step1", "step2"]
    run = [sys.executable, "-m", "ulpscope", "run", "--dump-path", "run", "--level", "mix", "--no-stacks"]
    subprocess.run([*run, "--", "train.py"], cwd=tmp_path, check=True, capture_output=True)
    for step in ("step1", "step2", "after_last_step"):
        assert list(Captured(tmp_path / "auto", step).calls) == list(Captured(tmp_path / "run", step).calls)
    assert ulpscope.compare(tmp_path / "auto", tmp_path / "run").agreement == "agree"


@pytest.mark.slow
def test_selection_by_the_environment(tmp_path: Path) -> None:
    variables = {"ULPSCOPE_STEP": "1", "ULPSCOPE_CALL": "re:relu", "ULPSCOPE_DATA_MODE": "forward,output"}
    ran = run_program(tmp_path, ULPSCOPE_DUMP="dump", **variables)
    assert ran.returncode == 0, ran.stderr
    assert steps_in(tmp_path / "dump") == ["step1"]
    assert list(Captured(tmp_path / "dump", 1).calls) == ["Functional.relu.0.forward"]


@pytest.mark.slow
def test_an_error_that_ends_the_program_ends_a_step(tmp_path: Path) -> None:
    ran = run_program(
        tmp_path, training(last=EVALUATE + "\nraise ValueError('of its own')"), ULPSCOPE_DUMP="dump"
    )
    assert ran.returncode == 1
    assert "of its own" in ran.stderr
    assert steps_in(tmp_path / "dump") == ["step0", "step1", "step2", "step3"]


def test_a_training_that_begins_after_the_last_selected_step_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes on from a checkpoint."""
    pytest.importorskip("transformers")
    from types import SimpleNamespace

    from ulpscope.integrations.transformers import CaptureCallback

    callback = CaptureCallback(tmp_path / "dump", step="0-2")
    callback.on_train_begin(None, SimpleNamespace(global_step=100), None, model=Regression())
    assert "nothing is recorded: training begins at step 100, after the last selected step" in caplog.text
    callback.close()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"ULPSCOPE_LEVLE": "mix"},
            "ULPSCOPE_LEVLE is not among the known variables; did you mean",
        ),
        ({"ULPSCOPE_LEVEL": "L3"}, "ulpscope.SettingsError: ULPSCOPE_LEVEL is 'L3'"),
        ({"ULPSCOPE_STRICT": "maybe"}, "ULPSCOPE_STRICT is 'maybe'; expected one of 1, true, 0, false"),
        ({"ULPSCOPE_MAX_CALLS": "many"}, "ULPSCOPE_MAX_CALLS is 'many'"),
        ({"ULPSCOPE_FORMAT": "bin"}, "ULPSCOPE_FORMAT is 'bin'"),
    ],
)
def test_a_wrong_variable_ends_the_program_at_once(
    tmp_path: Path, variables: dict[str, str], message: str
) -> None:
    ran = run_program(tmp_path, ULPSCOPE_DUMP="dump", **variables)
    assert ran.returncode == 1
    assert message in ran.stderr.splitlines()[-1]
    assert not (tmp_path / "dump").exists()


@pytest.mark.parametrize("variable", ["ULPSCOPE_DUMP_PATH", "ULPSCOPE_LEVEL"])
def test_variables_without_the_switch_are_reported(tmp_path: Path, variable: str) -> None:
    script = "import ulpscope.auto\nimport torch\ntorch.sin(torch.ones(2))\n"
    ran = run_program(tmp_path, script=script, **{variable: "mix"})
    assert (ran.returncode, ran.stderr) == (
        0,
        f"ulpscope: {variable} is set, but ULPSCOPE_DUMP is not: nothing is recorded; "
        "set ULPSCOPE_DUMP to the folder to write to\n",
    )
    switched_off = run_program(tmp_path, script=script, ULPSCOPE_DUMP="", **{variable: "mix"})
    assert (switched_off.returncode, switched_off.stderr) == (0, "")


def test_without_torch_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("import ulpscope.auto\nprint(ulpscope.auto.is_recording)\n")
    # Variables with other uses are no settings.
    environment = {**os.environ, "ULPSCOPE_DUMP": "dump", "ULPSCOPE_LANG": "zh", "ULPSCOPE_TEST_ALL": "1"}
    command = [sys.executable, "plain.py"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "True\n")
    assert "torch was not imported" in ran.stderr
    assert not (tmp_path / "dump").exists()
