"""The lines that ptdbg_ascend prints: ``2026-11-16 23:42:11(1000)-[INFO]text``, on stdout."""

from __future__ import annotations

import os
import time
from typing import Literal


def print_log(level: Literal["INFO", "WARNING", "ERROR"], text: str) -> None:
    """Prints a line with the time and the group id of the process, as the tool does."""
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime())
    # The tool calls this number a process id and takes the group id; Windows has none.
    group = os.getgid() if hasattr(os, "getgid") else os.getpid()
    print(f"{moment}({group})-[{level}]{printable(text)}", flush=True)


def print_switched_on(where: str) -> None:
    """Says that a dump begins, and where it is saved."""
    print_log("INFO", f"Dump switch is turned on. Dump data will be saved {where}. ")


def print_switched_off() -> None:
    """Says that a dump ends."""
    print_log("INFO", "Dump switch is turned off. ")


def printable(text: object) -> str:
    """The text for a terminal: what comes from a file may hold control characters."""
    return "".join(
        letter if letter.isprintable() or letter == "\n" else letter.encode("unicode_escape").decode()
        for letter in str(text)
    )
