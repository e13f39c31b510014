"""The extension module and the tests share one build: no crate has other features in the tests."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "check_shared_build"


def check(*arguments: str | Path) -> tuple[int, str]:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
    return done.returncode, done.stderr


def test_the_workspace_shares_its_build() -> None:
    assert check() == (0, "")


def test_a_crate_with_other_features_is_named(tmp_path: Path) -> None:
    extension, workspace = tmp_path / "extension", tmp_path / "workspace"
    extension.write_text("zip v9 [deflate]\nrandom v0 []\n")
    workspace.write_text("\nzip v9 [deflate] (*)\nrandom v0 [std]\nproptest v1 []\n")
    message = (
        "random v0 [] in the extension, random v0 [std] in the tests; "
        "give it the features of both in crates/py/Cargo.toml\n"
    )
    assert check("--trees", extension, workspace) == (1, message)
