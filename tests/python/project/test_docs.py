"""What the documentation shows, done as it is printed: the quickstart, the how-to pages, and links."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ulpscope

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "examples" / "README.md"]


def blocks(text: str, language: str) -> list[str]:
    """The blocks of code of a language, without the indentation of a list they are in."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", text, re.DOTALL | re.MULTILINE)
    return [
        "".join(line.removeprefix(indent) for line in code.splitlines(keepends=True))
        for indent, code in found
    ]


def run_commands(code: str, folder: Path) -> str:
    """Runs a block line by line; a comment may say which exit code a line has. Returns what it printed."""
    scripts = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    printed = ""
    for line in code.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        told = re.search(r"# .*exit code (\d)", line)
        line = line.replace("--device cuda", "--device cpu")
        ran = subprocess.run(
            ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert ran.returncode == (int(told[1]) if told else 0), f"{line}\n{ran.stdout}\n{ran.stderr}"
        printed += ran.stdout
    return printed


@pytest.mark.slow
def test_the_quickstart_works_as_printed(tmp_path: Path) -> None:
    quickstart = README.split("## Quickstart")[1].split("\n## ")[0]
    (tmp_path / "train.py").write_text(blocks(quickstart, "python")[0])
    printed = run_commands(blocks(quickstart, "sh")[0], tmp_path)
    assert "Functional.layer_norm.0" in printed
    assert ulpscope.compare(tmp_path / "before", tmp_path / "before").ok


@pytest.mark.slow
@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_the_commands_of_a_how_to_page(page: Path, tmp_path: Path) -> None:
    """In an empty folder, with nothing but what the page names or shows."""
    text = page.read_text()
    for link in re.findall(r"\]\(\.\./\.\./(examples/\w+\.py)\)", text):
        shutil.copy(ROOT / link, tmp_path)
    for code in blocks(text, "python"):
        if named := re.match(r"# (\S+\.py)\n", code):
            (tmp_path / named[1]).write_text(code)
    commands = blocks(text, "sh")
    assert commands
    for code in commands:
        run_commands(code, tmp_path)


def test_every_how_to_page_is_in_the_readme() -> None:
    assert set(re.findall(r"\(docs/how-to/(\w+)\.md\)", README)) == {page.stem for page in HOW_TO}


def test_the_chinese_first_page_has_the_same_code() -> None:
    def blocks(text: str) -> list[str]:
        return re.findall(r"^```\w+\n.*?^```$", text, re.MULTILINE | re.DOTALL)

    first_part = README.split("## What it finds")[0]
    assert blocks((ROOT / "docs" / "zh" / "README.md").read_text()) == blocks(first_part)


def test_the_readme_is_short_and_about_now() -> None:
    assert len(README.splitlines()) <= 150
    assert not re.search(r"\brevision\b|\bgoal\b|\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b", README)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    missing = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        place, _, heading = link.partition("#")
        if place.startswith(("https://", "http://", "mailto:")):
            continue
        target = (page.parent / place) if place else page
        if not target.exists() or (
            heading and target.suffix == ".md" and heading not in headings(target.read_text())
        ):
            missing.append(link)
    assert missing == []


def headings(text: str) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_hosted_ci_uses_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert [path.stem for path in workflows] == ["ci", "release", "wheels"]
    used = {target for path in workflows for target in re.findall(r"run: make ([a-z-]+)", path.read_text())}
    assert used
    assert used <= targets
