"""The flags of ``ulpscope run`` are the settings, and the help tells all of them."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

from ulpscope._capture.launch.flags import FLAGS, parser
from ulpscope._capture.settings import Settings

# Settings that are for the program's own loop, or change nothing.
WITHOUT_FLAG = {
    "init_step",
    "custom_op_namespaces",
    # For the faces of older tools.
    "layout",
    "layout_path",
    "sample",
    "strides",
    "inner_calls",
    "gradients",
}


def test_every_setting_has_a_flag_and_every_flag_is_told(tmp_path: Path) -> None:
    flags = {flag for action in parser()._actions for flag in action.option_strings}
    for setting in dataclasses.fields(Settings):
        flag = FLAGS.get(setting.name, "--" + setting.name.replace("_", "-"))
        assert (flag in flags) != (setting.name in WITHOUT_FLAG), setting.name
    command = [sys.executable, "-m", "ulpscope", "run", "--help"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*(?=[ ,\n])", told)) >= flags
