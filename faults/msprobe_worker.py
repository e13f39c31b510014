"""Runs inside the environment of mindstudio-probe: compares pairs of dumps with it, one request to a line.

Importing the tool takes ten seconds and comparing a small pair less than one, so it is imported once and
every comparison is a forked process, which leaves nothing behind in this one. A request is a JSON object with
the arguments of its command line (`arguments`) and the folder its results go to (`out`); the reply has the
rows of its tables whose `Result` is not `pass` (`rows`), and the calls that its analysis of the first
difference names (`first`), or `error`.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

# The command, which prepares the path of imports, then what it would only import when it is given.
IMPORTED = (
    "msprobe.msprobe",
    "msprobe.core.compare.compare_cli",
    "msprobe.core.compare.find_first.analyzer",
    "msprobe.pytorch.compare.pt_compare",
    "msprobe.pytorch.api_accuracy_checker.compare.api_precision_compare",
)
# Stacks of a deep program in one cell.
csv.field_size_limit(1 << 28)


def in_child(arguments: list[str], log: Path, run: Any) -> int:
    """Carries out one command of the tool in a forked process; its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            printed = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
            os.dup2(printed, 1)
            os.dup2(printed, 2)
            sys.argv = ["msprobe", *arguments]
            run()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def results(out: Path) -> dict[str, Any]:
    """What the tool left in its folder."""
    rows: list[list[str]] = []
    for table in sorted(out.glob("*.csv")):
        with table.open(newline="", encoding="utf-8") as lines:
            rows += [
                [row["NPU Name"], row["Result"], row["Err_message"]]
                for row in csv.DictReader(lines)
                if row["Result"] != "pass"
            ]
    first: list[str] = []
    for analysis in sorted(out.glob("diff_analyze_*.json")):
        for nodes in json.loads(analysis.read_text()).values():
            first += [node["op_name"] for node in nodes]
    return {"rows": rows, "first": first}


def main() -> int:
    """Answers the requests of standard input."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # The tool prints as it likes; nothing of it may get between the replies.
    os.dup2(2, 1)
    modules = [import_module(name) for name in IMPORTED]

    for line in sys.stdin:
        request = json.loads(line)
        out = Path(request["out"])
        log = out.with_suffix(".log")
        code = in_child(request["arguments"], log, modules[0].main)
        # The tool may fail and yet end with 0: then there is no result.
        if code != 0 or not any(out.glob("compare_result*")):
            tail = log.read_text(errors="replace")[-2000:] if log.exists() else ""
            reply: dict[str, Any] = {"error": f"msprobe ended with {code}: {tail}"}
        else:
            reply = results(out)
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
