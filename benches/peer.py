"""mindstudio-probe in an environment of its own: what the benchmarks and the tests measure Ulpscope against.

It comes from PyPI, once, with a tail of packages that have no place in the environment of the project.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import torch
import uv

VERSION = "26.2.0"
FOLDER = Path(__file__).resolve().parents[1] / "target" / f"mindstudio-probe-{VERSION}"


def environment(folder: Path = FOLDER) -> Path:
    """The environment, made where it is missing; the torch in it is the one that runs here.

    Raises `subprocess.CalledProcessError` when the package index cannot be reached.
    """
    if not (folder / "bin" / "msprobe").exists():
        # The uv of this environment, whatever is on PATH.
        command = uv.find_uv_bin()
        subprocess.run([command, "venv", "--quiet", "--allow-existing", str(folder)], check=True)
        python = str(folder / "bin" / "python")
        packages = [f"mindstudio-probe=={VERSION}", f"torch=={torch.__version__.split('+')[0]}"]
        subprocess.run(
            [command, "pip", "install", "--quiet", "--python", python, *packages],
            check=True,
            capture_output=True,
            text=True,
        )
    return folder
