"""Releases: the notes come from the changelog, and packages are checked by using them."""

import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CHANGELOG = """# Changelog

## 1.2.0 (2026-02-03)

### Added

- a thing

## 1.1.0 (2026-01-02)

- an older thing
"""
CARGO = """[workspace.package]
version = "1.2.0"
"""


def script(name: str, *arguments: str | Path) -> tuple[int, str, str]:
    command = [sys.executable, ROOT / "scripts" / name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def notes(root: Path, tag: str, changelog: str) -> tuple[int, str, str]:
    (root / "Cargo.toml").write_text(CARGO)
    (root / "CHANGELOG.md").write_text(changelog)
    return script("release_notes", tag, "--root", root)


def test_the_notes_are_the_newest_section(tmp_path: Path) -> None:
    assert notes(tmp_path, "v1.2.0", CHANGELOG) == (0, "### Added\n\n- a thing\n", "")


@pytest.mark.parametrize(
    ("tag", "heading", "message"),
    [
        ("v1.3.0", "1.2.0 (2026-02-03)", "the tag is v1.3.0, but the version in Cargo.toml is 1.2.0"),
        ("1.2.0", "1.2.0 (2026-02-03)", "the tag is 1.2.0, but the version in Cargo.toml is 1.2.0"),
        ("v1.2.0", "1.2.0 (unreleased)", "the newest section of CHANGELOG.md is '1.2.0 (unreleased)'"),
        ("v1.2.0", "1.1.0 (2026-02-03)", "the newest section of CHANGELOG.md is '1.1.0 (2026-02-03)'"),
    ],
)
def test_a_release_that_is_not_ready_is_refused(tmp_path: Path, tag: str, heading: str, message: str) -> None:
    code, out, err = notes(tmp_path, tag, f"# Changelog\n\n## {heading}\n\n- a thing\n")
    assert (code, out) == (1, "")
    assert err.startswith(message)


def test_the_changelog_is_for_the_version_of_the_workspace() -> None:
    (version,) = re.findall(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0].split()[0] == version


def test_packages_are_built_by_make_alone() -> None:
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        assert not re.search(r"\b(maturin|cargo|pip)\b", path.read_text()), path.name


def test_a_folder_without_packages_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "ulpscope-1.2.0-cp310-abi3-manylinux_2_28_riscv64.whl").touch()
    code, out, err = script("check_packages", tmp_path)
    assert code == 1
    assert "not checked, since it is for another processor: ulpscope-1.2.0-cp310-abi3-" in out
    assert err == f"{tmp_path} has no package for this machine: run make wheels sdist\n"


def test_a_package_whose_command_has_a_different_version_is_refused(tmp_path: Path) -> None:
    name = f"ulpscope-1.2.0-py3-none-manylinux_2_17_{platform.machine()}.whl"
    with zipfile.ZipFile(tmp_path / name, "w") as wheel:
        information = "ulpscope-1.2.0.dist-info"
        wheel.writestr("ulpscope.py", "def main():\n    print('ulpscope 1.1.0')\n")
        wheel.writestr(f"{information}/METADATA", "Metadata-Version: 2.1\nName: ulpscope\nVersion: 1.2.0\n")
        wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\n")
        wheel.writestr(f"{information}/entry_points.txt", "[console_scripts]\nulpscope = ulpscope:main\n")
        wheel.writestr(f"{information}/RECORD", "")
    code, out, err = script("check_packages", tmp_path)
    assert (code, out) == (1, "")
    assert err == (
        f"{name}: ulpscope --version differs:\nfound:\nulpscope 1.1.0\n\nexpected:\nulpscope 1.2.0\n\n"
    )
