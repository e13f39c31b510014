"""The flags of ``ulpscope run`` are the settings, and the help and the manual page list all of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import ulpscope

# Settings that are for the program's own loop or change nothing, and those for the faces of older tools.
WITHOUT_FLAG = {"init_step", "custom_op_namespaces", "apis", "stack_form"}
WITHOUT_FLAG |= {"layout", "layout_path", "sample", "strides", "inner_calls", "gradients"}
WITHOUT_FLAG |= {"parameter_gradients", "list_match", "skip_single_values", "backward_stacks"}

# Names of flags that are not the setting's name with dashes.
NAMES = {"file_format": "--format", "stacks": "--no-stacks"}

# Flags that are no settings.
OTHER_FLAGS = {"--config", "--drop-in", "--dry-run", "--force", "--help", "--json"}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ulpscope", "run", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_every_setting_has_a_flag_and_every_flag_is_documented(tmp_path: Path) -> None:
    settings = ulpscope.capture(tmp_path / "dump").settings
    flags = {NAMES.get(name, "--" + name.replace("_", "-")) for name in settings.keys() - WITHOUT_FLAG}
    told = run(tmp_path, "--help").stdout
    listed = dict(re.findall(r"^  (?:-h, )?(--[a-z-]+)(?: ([A-Z]\S*))?(?:  |$)", told, re.MULTILINE))
    assert listed.keys() == flags | OTHER_FLAGS
    # All that the help lists is known: the only thing that is wrong is the missing script.
    del listed["--help"]
    words = [word for flag, value in listed.items() for word in (flag, value) if word]
    refused = run(tmp_path, *words)
    assert refused.returncode == 2
    assert "the script to run is missing" in refused.stderr


def test_the_manual_page_has_every_flag_with_its_value_and_help(tmp_path: Path) -> None:
    told = run(tmp_path, "--help").stdout.split("\noptions:\n")[1].split("\nexamples:")[0]
    # A help text goes on below its beginning, or begins below a long flag.
    entry = r"^  (?:-h, )?(--[a-z-]+)(?: ([A-Z]\S*))?(?:  +|\n +)(\S.*(?:\n   +.*)*)"
    listed = {
        f"{flag} <{value}>" if value else flag: " ".join(text.split())
        for flag, value, text in re.findall(entry, told, re.MULTILINE)
    }
    del listed["--help"]
    command = [sys.executable, "-m", "ulpscope", "man", "run"]
    page = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    options = page.split(".SH OPTIONS\n")[1].split(".SH ")[0]
    plain = re.sub(r"\\f[A-Z]", "", options).replace("\\-", "-").replace("\\*(Aq", "'").replace("\\(aq", "'")
    shown = dict(re.findall(r"^\.TP\n(--\S+(?: \S+)?)(?: \[.*\])?\n(.*)$", plain, re.MULTILINE))
    # The others are options of the program.
    others = {name for name in shown if name.split()[0] in {"--threads", "--color", "--wide"}}
    assert {name: text for name, text in shown.items() if name not in others} == listed
