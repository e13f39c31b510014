"""The flags of ``ulpscope run`` are the settings, and the help tells all of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import ulpscope

# Settings that are for the program's own loop, or change nothing.
WITHOUT_FLAG = {"init_step", "custom_op_namespaces"}

# Names of flags that are not the setting's name with dashes.
NAMES = {"file_format": "--format", "stacks": "--no-stacks"}

# Flags that are no settings.
OTHER_FLAGS = {"--config", "--dry-run", "--help", "--json"}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ulpscope", "run", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_every_setting_has_a_flag_and_every_flag_is_told(tmp_path: Path) -> None:
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
