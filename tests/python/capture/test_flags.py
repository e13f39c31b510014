"""The flags of ``ulpscope run`` are the settings, and the help and the manual page list all of them."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

from ulpscope._capture.launch.flags import FLAGS, parser
from ulpscope._capture.settings import Settings

# Settings that are for the program's own loop, or change nothing.
WITHOUT_FLAG = {"init_step", "custom_op_namespaces"}


def test_every_setting_has_a_flag_and_every_flag_is_documented(tmp_path: Path) -> None:
    flags = {flag for action in parser()._actions for flag in action.option_strings}
    for setting in dataclasses.fields(Settings):
        flag = FLAGS.get(setting.name, "--" + setting.name.replace("_", "-"))
        assert (flag in flags) != (setting.name in WITHOUT_FLAG), setting.name
    command = [sys.executable, "-m", "ulpscope", "run", "--help"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*(?=[ ,\n])", shown)) >= flags


def test_the_manual_page_has_every_flag_with_its_value_and_help(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ulpscope", "man", "run"]
    page = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    options = page.split(".SH OPTIONS\n")[1].split(".SH ")[0]
    plain = re.sub(r"\\f[A-Z]", "", options).replace("\\-", "-").replace("\\*(Aq", "'").replace("\\(aq", "'")
    shown = dict(re.findall(r"^\.TP\n(--\S+(?: \S+)?)(?: \[.*\])?\n(.*)$", plain, re.MULTILINE))
    for action in parser()._actions:
        if action.dest != "help":
            (flag,) = action.option_strings
            named = flag if action.nargs == 0 else f"{flag} <{action.metavar}>"
            assert shown.pop(named, None) == action.help, (named, shown)
    # What is left are the options of the program.
    assert not {name.split()[0] for name in shown} - {"--threads", "--color", "--wide"}
