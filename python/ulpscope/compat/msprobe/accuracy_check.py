"""The accuracy checker of msprobe: ``run_ut``, ``acc_check``, ``multi_…`` of both, ``api_precision_compare``.

They are ``ulpscope check`` with the tool's flags and standards.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

CHECKS = ("run_ut", "acc_check", "multi_run_ut", "multi_acc_check")
_MULTI = 8
_OUTPUT = "./"


def check(subcommand: str, arguments: Sequence[str]) -> int:
    """Checks the calls of a dump. Returns the exit code."""
    parser = argparse.ArgumentParser(prog=f"msprobe {subcommand}", allow_abbrev=False)
    parser.add_argument("-api_info", "--api_info_file", required=True, metavar="FILE")
    parser.add_argument("-o", "--out_path", default=_OUTPUT, metavar="DIR")
    parser.add_argument("-config", "--config_path", metavar="FILE")
    parser.add_argument("-csv_path", "--result_csv_path", metavar="FILE", help="continues its check")
    parser.add_argument("-save_error_data", action="store_true")
    # Every call is checked, and nothing is compiled: these have nothing to choose.
    parser.add_argument("-j", "--jit_compile", action="store_true", help="changes nothing")
    parser.add_argument("-f", "--filter_api", action="store_true", help="changes nothing")
    parser.add_argument("-d", "--device", type=int, nargs="+", metavar="ID", help="judges this NPU or GPU")
    if subcommand.startswith("multi_"):
        parser.add_argument("-n", "--num_splits", type=int, default=_MULTI, metavar="N")
    options = parser.parse_args(arguments)
    resumed = options.result_csv_path
    words = [options.api_info_file, "--output", str(Path(resumed).parent) if resumed else options.out_path]
    words += ["--standard", "msprobe"]
    words += ["--resume"] if resumed else []
    words += ["--config", options.config_path] if options.config_path else []
    words += [] if options.save_error_data else ["--no-repro"]
    words += ["--jobs", str(options.num_splits)] if "num_splits" in options else []
    words += _device(options.device[0]) if options.device else []
    from ulpscope._replay import command

    return command.run(words)


def _device(number: int) -> list[str]:
    """The device of a number: an NPU or a GPU. Without one, the recorded results are judged alone."""
    import torch

    kinds = (kind for kind in ("npu", "cuda") if hasattr(torch, kind))
    found = next((kind for kind in kinds if getattr(torch, kind).is_available()), None)
    return [] if found is None else ["--device", f"{found}:{number}"]


def api_precision_compare(arguments: Sequence[str]) -> int:
    """Judges the details of an NPU by those of a GPU. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="msprobe api_precision_compare", allow_abbrev=False)
    parser.add_argument("-npu", "--npu_csv_path", required=True, metavar="FILE")
    parser.add_argument("-gpu", "--gpu_csv_path", required=True, metavar="FILE")
    parser.add_argument("-o", "--out_path", default=_OUTPUT, metavar="DIR")
    options = parser.parse_args(arguments)
    from ulpscope._replay.command import compare_details

    own, peer = Path(options.npu_csv_path), Path(options.gpu_csv_path)
    return compare_details([own], peer, Path(options.out_path))
