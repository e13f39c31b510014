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
WITHOUT_FLAG |= {
    "parameter_gradients",
    "list_match",
    "skip_single_values",
    "backward_stacks",
    "flush_interval",
    "check_mode",
}

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
    # The options of other commands, such as --threads, are unknown to run, and not listed.
    assert shown == listed


def test_the_options_of_other_commands_are_in_their_manual_pages(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ulpscope", "man", "compare"]
    page = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert all(option in page for option in ("threads", "color", "wide"))


def test_completions_offer_the_values_that_are_accepted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ulpscope", "completions", "fish"]
    script = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    entry = r'^complete .*subcommand run" -l ([a-z-]+) .*-r -f -a "([^"]*)"$'
    offered = {
        option: re.findall(r"^(\S+)\\t", values, re.MULTILINE)
        for option, values in re.findall(entry, script, re.MULTILINE)
    }
    assert 'subcommand run" -l threads' not in script
    assert offered.keys() == {
        "level",
        "task",
        "data-mode",
        "layers",
        "digest",
        "format",
        "device-statistics",
        "on-overflow",
        "would-overflow",
    }
    (tmp_path / "train.py").touch()
    for option, values in offered.items():
        refused = run(tmp_path, "--dump-path", "d", f"--{option}", "none-of-them", "--", "train.py")
        expected = re.split(r"expected (?:one of|words out of) ", refused.stderr)[1].split(" (")[0].strip()
        assert sorted(values) == sorted(set(expected.split(", ")) - {"None"})
