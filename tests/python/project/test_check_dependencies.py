"""The dependency-direction script accepts the workspace as it is and names each way to break it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "check_dependencies"


def check(*arguments: str) -> tuple[int, list[str]]:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
    return done.returncode, done.stderr.splitlines()


def test_the_workspace_obeys() -> None:
    assert check() == (0, [])


@pytest.mark.parametrize(
    ("crate", "dependency", "message"),
    [
        ("tensor", "ulpscope-kernels", "tensor depends on kernels; it may depend on none of our crates"),
        ("formats", "ulpscope-kernels", "formats depends on kernels; it may depend on tensor"),
        ("kernels", "ulpscope-formats", "kernels depends on formats; it may depend on tensor"),
        ("dump", "ulpscope-report", "dump depends on report; it may depend on formats, kernels, tensor"),
        (
            "capture",
            "ulpscope-report",
            "capture depends on report; it may depend on dump, formats, kernels, tensor",
        ),
        ("capture", "pyo3", "capture depends on pyo3; only py may"),
        ("report", "ulpscope-formats", "report depends on formats; it may depend on tensor"),
        (
            "cli",
            "ulpscope-py",
            "cli depends on py; it may depend on compare, dump, formats, graph, kernels, page, report, "
            "session, shell, store, tensor",
        ),
        (
            "session",
            "ulpscope-cli",
            "session depends on cli; it may depend on compare, dump, formats, report, tensor",
        ),
        ("kernels", "pyo3", "kernels depends on pyo3; only py may"),
        ("py", "clap", "py depends on clap; only cli may"),
        ("formats", "anyhow", "formats depends on anyhow; only cli may"),
        ("report", "indicatif", "report depends on indicatif; only cli may"),
        ("formats", "rayon", "formats depends on rayon; only cli and compare and kernels and shell may"),
        ("gadgets", "ulpscope-tensor", "gadgets: unknown crate; give it a row in ALLOWED"),
    ],
)
def test_each_step_up_the_hill_is_named(crate: str, dependency: str, message: str, tmp_path: Path) -> None:
    metadata = tmp_path / "metadata.json"
    package = {
        "name": f"ulpscope-{crate}",
        # One allowed neighbour, and the offender once per kind: it is reported once.
        "dependencies": [{"name": "half"}, {"name": dependency}, {"name": dependency, "kind": "dev"}],
    }
    metadata.write_text(json.dumps({"packages": [package]}))
    assert check("--metadata", str(metadata)) == (1, [message])
