"""The flags of ``ulpscope run``, and how they become settings."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ulpscope._capture.settings import Settings, SettingsError
from ulpscope._capture.settings.config import Config
from ulpscope._capture.settings.perturb_settings import PerturbSettings
from ulpscope._capture.settings.settings import FILE_FORMATS, renamed

_DESCRIPTION = """\
Runs a Python script and records the inputs and outputs of its torch calls.

The script runs as "python train.py ARGS" would run it. A step ends with the step of its optimizer; without
an optimizer all is step 0. What follows the last step of training (an evaluation) is recorded in the folder
after_last_step. After the last wanted step the script goes on at full speed."""

_EXAMPLES = """\
examples:
  ulpscope run --dump-path dumps/cpu -- train.py --epochs 1
  ulpscope run --dump-path dumps/cpu --step 0,2-4 --level mix --task tensor -- train.py
  ulpscope run --config config.json -- -m package.train
  ulpscope run --drop-in -- train_with_msprobe.py
  torchrun --nproc-per-node 2 -m ulpscope run --dump-path dumps/ddp -- train.py

then:
  ulpscope compare dumps/npu dumps/cpu"""

# Names of flags that are not the setting's name with dashes.
_FLAGS = {"file_format": "--format", "stacks": "--no-stacks"}


def flag_of(key: str) -> str:
    """The flag of a setting."""
    return _FLAGS.get(key, "--" + key.replace("_", "-"))


def settings_from(
    options: dict[str, Any], name_of: Callable[[str], str] = flag_of, folder: str | None = None
) -> Settings:
    """The settings from the values of the flags.

    ``name_of``: the name that the user gave a setting. ``folder``: the dump_path if none is given.
    """
    path = options.pop("config")
    given = {key: value for key, value in options.items() if value is not None}
    try:
        config = Config({}) if path is None else Config.read(path)
        if folder is not None and "dump_path" not in given and not config.keys.get("dump_path"):
            given["dump_path"] = folder
        settings = config.settings(**given)
        if isinstance(settings, PerturbSettings):
            raise SettingsError(
                "task",
                "is 'free_benchmark', which is not supported here; use PrecisionDebugger or "
                "ulpscope.check.perturb in the script",
            )
    except SettingsError as error:
        if error.key in given or (error.key == "dump_path" and path is None):
            raise renamed(error, name_of(error.key)) from None
        raise
    if config.enable_dataloader:
        raise SettingsError(
            "enable_dataloader",
            f"is true in {path}; here steps end with the optimizer's step: set it to false",
        )
    return settings


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _number(text: str) -> int | str:
    """A number; other text as it is, which the settings refuse by name."""
    return int(text) if text.lstrip("-").isdecimal() else text


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="ulpscope run",
        usage="ulpscope run --dump-path DIR [options] -- SCRIPT [ARGS ...]   (or: -- -m MODULE [ARGS ...])",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        argument_default=None,
    )
    add = made.add_argument_group("what to record").add_argument
    add("--level", metavar="L", help="L0 modules, L1 API calls (default), mix both, L2 every aten operator")
    add(
        "--task",
        metavar="T",
        help="statistics (default), tensor: the tensors too, structure: names only, "
        "overflow_check: only calls where NaN or infinity begins",
    )
    add("--step", metavar="N", help="steps wanted, as in 0,2-4 (default: all)")
    add("--rank", metavar="N", help="ranks wanted, as in 0,2-4 (default: all)")
    add("--list", metavar="A,B", type=_words, help="only calls whose name contains one of these")
    add(
        "--module",
        metavar="P",
        action="append",
        help="only inside modules whose path matches: 'layers.*.mlp'",
    )
    add(
        "--call",
        metavar="P",
        action="append",
        help="only calls whose name matches: 'Functional.*', 're:add|mul'",
    )
    add("--scope", metavar="A,B", type=_words, help="only from call A to call B, by their full names")
    add(
        "--data-mode", metavar="M", type=_words, help="out of forward, backward, input, output (default: all)"
    )
    add("--layers", metavar="WHICH", help="of repeated layers of one kind: all (default), first, last")
    add("--skip-scalars", action="store_true", default=None, help="leave out plain numbers and texts")
    add("--skip-ints", action="store_true", default=None, help="leave out tensors of integers and booleans")
    add = made.add_argument_group("what to write").add_argument
    add("--dump-path", metavar="DIR", help="the folder to write to; made where it is missing")
    add(
        "--digest",
        metavar="D",
        help="a digest of every tensor: xxh3, mix64 (on a GPU, too), or md5 (CRC-32, as in msprobe)",
    )
    add(
        "--tensor-list",
        metavar="A,B",
        type=_words,
        help="with task statistics: save the tensors of these calls",
    )
    default, *others = FILE_FORMATS
    formats = ", ".join([f"{default} (default)", *others])
    add("--format", metavar="F", dest="file_format", help=f"of saved tensors: {formats}")
    add("--no-stacks", action="store_false", default=None, dest="stacks", help="do not note the source lines")
    add("--max-bytes", metavar="SIZE", help="stop recording at this size, as in 500M or 10G")
    add("--max-calls", metavar="N", type=_number, help="stop recording after this many calls")
    add(
        "--device-statistics",
        metavar="WHERE",
        help="measure tensors on devices: auto (there; default), host (after a copy), torch (all by torch)",
    )
    add(
        "--cuda-graphs",
        action="store_true",
        default=None,
        help="record CUDA graphs at each replay: the kernels that measure stay in the graphs",
    )
    add = made.add_argument_group("task overflow_check").add_argument
    add(
        "--overflow-nums",
        metavar="N",
        type=_number,
        help="end the run at the N-th overflow (default: 1; -1: never)",
    )
    add(
        "--on-overflow",
        metavar="WHAT",
        help="at that number: raise ends the run (default; with --config: stop), stop ends only the check",
    )
    add(
        "--would-overflow",
        metavar="DTYPE",
        help="also count the values that this dtype would lose, such as float16 or float8_e4m3fn",
    )
    add = made.add_argument_group("other").add_argument
    add(
        "--dry-run",
        action="store_true",
        help="write no dump: run the script for one step, and print the calls, files and bytes of a step",
    )
    add("--json", action="store_true", help="with --dry-run: print the result as JSON")
    add(
        "--jitter",
        metavar="SEED",
        type=_number,
        help="measure noise: move parameters, buffers and inputs by one unit in the last place; "
        "what the script learns meanwhile is thrown away",
    )
    add(
        "--drop-in",
        action="store_true",
        help="run a script written for msprobe, ptdbg_ascend or torch_npu.hooks unmodified: its imports "
        "resolve to Ulpscope, and it records as it says; the only other option allowed is --force",
    )
    add("--force", action="store_true", help="with --drop-in: even if the older tool is installed")
    add("--config", metavar="FILE", help="a config.json as msprobe has it; the flags here count first")
    add(
        "--strict",
        action="store_true",
        default=None,
        help="raise where a call cannot be recorded, instead of noting it",
    )
    return made
