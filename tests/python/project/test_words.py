"""No message, no help text and no name of a test uses a phrase of tests/words."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LISTS = ROOT / "tests" / "words"

# Comments, then the literals: raw, with escapes, or of one character.
RUST = re.compile(
    r"""//[^\n]*|/\*.*?\*/|r(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes)|"(?P<text>(?:[^"\\]|\\.)*)"|'(?:[^'\\]|\\.)'""",
    re.DOTALL,
)


# A test in Rust, with other attributes between the one that makes it a test and its name.
RUST_TEST = re.compile(r"#\[test\](?:\s*#\[[^\n]*\])*\s*fn (\w+)")
PYTHON_TEST = re.compile(r"^ *def (test_\w+)", re.MULTILINE)


def phrases(name: str) -> Iterator[tuple[re.Pattern[str], str]]:
    for line in (LISTS / name).read_text().splitlines():
        if line and not line.startswith("#"):
            phrase, instead = line.split(" => ")
            begin = r"\b" if phrase[0].isalnum() else ""
            end = r"\b" if phrase[-1].isalnum() else ""
            words = r"\s+".join(map(re.escape, phrase.split()))
            yield re.compile(begin + words + end, re.IGNORECASE), instead


PHRASES = list(phrases("phrases.txt"))
IN_NAMES = [*PHRASES, *phrases("names.txt")]


def rust_literals(path: Path) -> Iterator[str]:
    source = path.read_text()
    # What tests say is read by whoever mends them.
    source = source.split("#[cfg(test)]")[0]
    for found in RUST.finditer(source):
        text = found["raw"] if found["raw"] is not None else found["text"]
        if text is not None:
            # A backslash at the end of a line continues the text on the next.
            yield re.sub(r"\\\n\s*", "", text)


def python_literals(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def refused(text: str, phrases: list[tuple[re.Pattern[str], str]] = PHRASES) -> list[str]:
    """The phrases in a text, each with what to write instead."""
    found = ((pattern.search(text), instead) for pattern, instead in phrases)
    return [f"{match[0]!r} in {text!r}: write {instead!r}" for match, instead in found if match]


def sources(folder: str, pattern: str) -> list[Path]:
    found = sorted(path for path in (ROOT / folder).glob(pattern) if "/tests/" not in str(path))
    assert found, (folder, pattern)
    return found


@pytest.mark.parametrize("crate", sorted(path.name for path in (ROOT / "crates").iterdir()))
def test_messages_of_a_crate_are_in_plain_words(crate: str) -> None:
    literals = [
        (path, text) for path in sources(f"crates/{crate}", "src/**/*.rs") for text in rust_literals(path)
    ]
    bad = [f"{path.relative_to(ROOT)}: {one}" for path, text in literals for one in refused(text)]
    assert not bad, "\n".join(bad)


def test_messages_of_the_package_are_in_plain_words() -> None:
    literals = [(path, text) for path in sources("python", "**/*.py") for text in python_literals(path)]
    bad = [f"{path.relative_to(ROOT)}: {one}" for path, text in literals for one in refused(text)]
    assert not bad, "\n".join(bad)


def names_of_tests() -> Iterator[tuple[Path, str]]:
    for folder, pattern, test in [
        ("tests", "**/*.py", PYTHON_TEST),
        ("tests", "**/*.rs", RUST_TEST),
        ("crates", "**/*.rs", RUST_TEST),
    ]:
        for path in sorted((ROOT / folder).glob(pattern)):
            yield from ((path, name) for name in test.findall(path.read_text()))


def test_names_of_tests_are_in_plain_words() -> None:
    named = list(names_of_tests())
    assert {path.suffix for path, _ in named} == {".py", ".rs"}
    words = ((path, name.replace("_", " ")) for path, name in named)
    bad = [f"{path.relative_to(ROOT)}: {one}" for path, name in words for one in refused(name, IN_NAMES)]
    assert not bad, "\n".join(bad)


COMMANDS = [
    "",
    *[
        "check",
        "compare",
        "completions",
        "convert",
        "diff",
        "explain",
        "graph",
        "locate",
        "ls",
        "man",
        "merge",
        "overflow",
        "report",
        "run",
    ],
    *["precision-tool", "shell", "show", "stats", "view"],
]


def helped(command: str) -> str:
    words = [word for word in (command, "--help") if word]
    done = subprocess.run(
        [sys.executable, "-m", "ulpscope", *words], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_every_command_is_read() -> None:
    listed = helped("").split("Commands:\n")[1].split("\n\n")[0]
    assert sorted(re.findall(r"^  ([\w-]+) ", listed, re.MULTILINE)) == sorted([*COMMANDS[1:], "help"])


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_in_plain_words(command: str) -> None:
    bad = refused(helped(command))
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    "text",
    [
        "Torch.mul.0 gives another result",
        "calls that are put\n    together",
        "Very sure (0.98).",
        "its inputs are OFF BY 3",
    ],
)
def test_a_phrase_is_found(text: str) -> None:
    assert refused(text)


def test_names_of_tests_are_found() -> None:
    rust = '#[test]\n    #[ignore = "slow"]\n    fn a_note_is_told() {}\nfn is_told() {}\n'
    python = "def test_a_note_is_told() -> None: ...\n    def test_b() -> None: ...\ndef told(): ...\n"
    assert RUST_TEST.findall(rust) == ["a_note_is_told"]
    assert PYTHON_TEST.findall(python) == ["test_a_note_is_told", "test_b"]
    assert refused("a note is told", IN_NAMES)
    assert not refused("a note is told")


def test_literals_are_found_and_comments_are_not(tmp_path: Path) -> None:
    source = tmp_path / "a.rs"
    source.write_text(
        '// is another\nlet c = \'"\'; let a = "one \\\n     two"; /* "is another" */ let b = r#"a "b" c"#;\n'
        '#[cfg(test)]\nmod tests { let a = "is another"; }\n'
    )
    assert list(rust_literals(source)) == ["one two", 'a "b" c']
