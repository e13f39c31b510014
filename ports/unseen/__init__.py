"""Unseen cases: written after the others, with other models, without a look at any result.

They are run once, when the judgement is finished, and reported as they come out. From then on they are seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ports.runs import Case
from ports.unseen import decoders, encoders, images, scripts
from ports.unseen.healthy import healthy

FILES = (decoders, encoders, images, scripts)


def unseen() -> Iterator[Case]:
    """Healthy ports, and every bug with every golden."""
    yield from healthy()
    for file in FILES:
        for bug in file.BUGS:
            for case in bug.cases({}):
                # What other goldens call otherwise is no name for a place of the same code.
                yield replace(case, where=bug.where) if case.kind == "same code" else case
