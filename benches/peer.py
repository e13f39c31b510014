"""mindstudio-probe in a separate environment: the benchmarks and the tests compare Ulpscope with it.

It is installed once from PyPI, with many dependencies that do not belong in the environment of the project.
"""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

import torch
import uv

VERSION = "26.2.0"
TARGET = Path(__file__).resolve().parents[1] / "target"


def environment(version: str = VERSION) -> Path:
    """The environment of a release, created if it is missing, with the version of torch that runs here.

    Raises `subprocess.CalledProcessError` if the package index cannot be reached.
    """
    TARGET.mkdir(parents=True, exist_ok=True)
    folder = TARGET / f"mindstudio-probe-{version}"
    # Tests run in several processes: one installs, the others wait for it.
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "bin" / "msprobe").exists():
            install(folder, version)
    return folder


def install(folder: Path, version: str) -> None:
    """Creates the environment of a release."""
    # The uv of this environment, whatever is on PATH.
    command = uv.find_uv_bin()
    subprocess.run([command, "venv", "--quiet", "--allow-existing", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    packages = [f"mindstudio-probe=={version}", f"torch=={torch.__version__.split('+')[0]}"]
    subprocess.run(
        [command, "pip", "install", "--quiet", "--python", python, *packages],
        check=True,
        capture_output=True,
        text=True,
    )
