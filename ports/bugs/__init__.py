"""Bugs: edits of a library's source, compared with the same code, other releases and implementations."""

from __future__ import annotations

from collections.abc import Iterator

from ports.bugs import bert, gpt2, images, llama, others, training, vit
from ports.runs import Case

FILES = (llama, gpt2, bert, vit, images, others, training)


def bugs() -> Iterator[Case]:
    """Every bug with every golden."""
    for file in FILES:
        for bug in file.BUGS:
            yield from bug.cases(file.GOLDENS)
