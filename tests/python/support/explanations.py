"""The parts of an explanation."""

from __future__ import annotations


def sections(text: str) -> dict[str, list[str]]:
    """The lines under each heading; what follows a heading in its own line is the first."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("  "):
            found[list(found)[-1]].append(line[2:])
        else:
            heading, _, rest = line.partition(":")
            found[heading] = [rest.strip()] if rest else []
    return found
