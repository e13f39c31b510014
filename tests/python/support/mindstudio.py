"""mindstudio-probe for tests: its environment, its commands, and the rows of a dump as it counts them.

Run as a script, in its environment, it carries out commands: one JSON list to a line of standard input, each
in a forked process. Importing the tool takes several seconds, so it is done once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def environment(version: str | None = None) -> Path:
    """The environment of a release, by default of the current one.

    Without a package index the test is skipped, unless ULPSCOPE_TEST_ALL is set.
    """
    import pytest
    from peer import environment as made

    from places import TEST_ALL

    try:
        return made() if version is None else made(version)
    except subprocess.CalledProcessError as error:
        reason = f"mindstudio-probe cannot be installed: {getattr(error, 'stderr', None) or error}"
        if os.environ.get(TEST_ALL):
            pytest.fail(reason)
        pytest.skip(reason)


def commands(peer: Path, lines: list[list[str]]) -> str:
    """Runs commands of mindstudio-probe; what they printed. Any failure is an error."""
    ended = subprocess.run(
        [str(peer / "bin" / "python"), __file__],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
    )
    printed = ended.stdout + ended.stderr
    assert ended.returncode == 0, printed
    return printed


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The rows of an argument or result. A list or dictionary without elements has none."""
    if isinstance(value, dict) and "type" not in value:
        for key, part in value.items():
            yield from leaves(part, f"{path}.{key}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from leaves(part, f"{path}.{index}")
    else:
        yield path, value


def rows(rank: Path) -> dict[str, Any]:
    """Every row of a dump by its name."""
    found: dict[str, Any] = {}
    for call, sections in json.loads((rank / "dump.json").read_text())["data"].items():
        for section, value in sections.items():
            role = {"input_args": ".input", "input_kwargs": ".input", "input": ".input"}.get(
                section, f".{section}"
            )
            found.update(leaves(value, f"{call}{role}"))
    return found


def main() -> int:
    """Carries out the commands of standard input."""
    from msprobe.msprobe import main as msprobe

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            sys.argv = ["msprobe", *json.loads(line)]
            code = 1
            try:
                msprobe()
                code = 0
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if status:
            print(f"failed: {line}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
