"""The command line of ``ulpscope check``.

The list has to match ``crates/cli/src/args/check_options.rs``, for completions and the manual page.
"""

from __future__ import annotations

import argparse

EXAMPLES = """\
examples:
  ulpscope check dump/ -o check/
  ulpscope check dump/ --white-list linear,softmax --device cuda
  ulpscope check dump/ -o check/ -j 8 --resume
  ulpscope check dump/ --module torch.nn:Linear --module 'model:Block(64)'
  ulpscope check dump/ -o check/ --engine ray --located auto
  ulpscope check -forward forward_info_0.json -backward backward_info_0.json

exit codes:
  0  calls were replayed, and none failed
  1  a result or gradient is wrong
  2  nothing could be replayed, or something could not be read
"""


def parser() -> argparse.ArgumentParser:
    """The parser of all options."""
    made = argparse.ArgumentParser(
        prog="ulpscope check",
        description="Makes the calls of a dump again, alone, and judges each result by raised precision.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument(
        "dump", metavar="DUMP", nargs="?", help="a dump with arguments: Ulpscope's or msprobe's"
    )
    add = made.add_argument
    add("-o", "--output", metavar="DIR", help="write the result files into DIR")
    add("--step", metavar="N", help="steps to check, such as 0,2,4-6 (default: all)")
    add("--rank", metavar="N", help="ranks to check, likewise")
    add("--white-list", metavar="A,B", type=words, default=[], help="only these APIs: linear, Tensor.add")
    add("--black-list", metavar="A,B", type=words, default=[], help="all but these APIs")
    add(
        "--module",
        metavar="P:C",
        action="append",
        default=[],
        help="make the calls of this module again: package:Class, package:function, model:Block(8)",
    )
    add(
        "--collectives",
        action="store_true",
        help="make collectives again too, with a gloo process for each rank",
    )
    add(
        "--bench",
        metavar="FILE",
        help="the details of a check on a different device: judge the ratios of errors",
    )
    add("--device", metavar="D", help="judge what this device computes, too: cuda, npu, cpu")
    add(
        "--standard",
        metavar="S",
        default="native",
        choices=("native", "msprobe"),
        help="native (default): more than rounding explains; msprobe: that tool's standard for each API",
    )
    add("--seed", metavar="N", type=int, default=1234, help="for inputs that are drawn (default: 1234)")
    add("-j", "--jobs", metavar="N", type=int, default=1, help="processes (default: 1)")
    add("--resume", action="store_true", help="go on where a check with the same DIR was interrupted")
    add("--engine", metavar="E", choices=("threads", "ray"), help="ray: ranks are tasks of a Ray cluster")
    add("--address", metavar="A", help="the Ray cluster: auto, local, HOST:PORT or ray://HOST:PORT")
    add("--located", metavar="L", help="every node has ranks of its own: auto, or a map of ulpscope locate")
    add(
        "--rank-cores",
        metavar="N",
        type=int,
        help="cores for each rank",
    )
    add("--no-repro", action="store_true", help="write no scripts for failing calls")
    add("--config", metavar="FILE", help="a config.json with task run_ut: its white_list and black_list")
    add("--json", action="store_true", help="print one JSON object")
    add(
        "-forward",
        metavar="FILE",
        help="a forward_info_PID.json of an overflow check: which overflows are normal",
    )
    add("-backward", metavar="FILE", help="its backward_info_PID.json")
    return made


def words(text: str) -> list[str]:
    """Words between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]
