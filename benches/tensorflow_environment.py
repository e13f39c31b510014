"""TensorFlow in a separate environment, for tests of scripts that use it: 1.3 GB, installed once."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

import uv

# The last release that has Estimator.
VERSION = "2.15.1"
# The newest Python it runs on.
PYTHON = "3.11"
TARGET = Path(__file__).resolve().parents[1] / "target"


def environment() -> Path:
    """The environment, created if it is missing.

    Raises `subprocess.CalledProcessError` if the package index cannot be reached.
    """
    TARGET.mkdir(parents=True, exist_ok=True)
    folder = TARGET / f"tensorflow-{VERSION}"
    # Tests run in several processes: one installs, the others wait for it.
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            command = uv.find_uv_bin()
            made = [command, "venv", "--quiet", "--allow-existing", "--python", PYTHON, str(folder)]
            subprocess.run(made, check=True, capture_output=True, text=True)
            python = str(folder / "bin" / "python")
            subprocess.run(
                [command, "pip", "install", "--quiet", "--python", python, f"tensorflow-cpu=={VERSION}"],
                check=True,
                capture_output=True,
                text=True,
            )
            (folder / "ready").touch()
    return folder
