"""A bug of a model of transformers, with the goldens that the model has.

A bug may leave out a computation. Then the line that takes its result is edited, too, in a way that changes
nothing, so that the calls of that line count.
"""

from __future__ import annotations

from ports.bugs.bug import EDITED, Bug, Pairs
from ports.runs import OLD, Edit, Run, Where, run

Goldens = tuple[tuple[str, Run], ...]
# Where transformers has a model whose folder has another name.
FOLDERS = {"t5_gated": "t5", "ast": "audio_spectrogram_transformer"}


def release(architecture: str) -> Goldens:
    return (("other release", run(f"hf/{architecture}", OLD)),)


def fused(architecture: str) -> Goldens:
    return (("eager and SDPA", run(f"hf/{architecture}", attention="sdpa")),)


def written(architecture: str) -> Goldens:
    return (("other implementation", run(f"hand/{architecture}")),)


def bug(
    architecture: str,
    name: str,
    *edits: tuple[str, str] | Edit,
    goldens: Goldens = (),
    where: Where = EDITED,
    elsewhere: Pairs = (),
    nth: int = 0,
) -> Bug:
    """A bug of one model, whose file is edited unless an edit says another; `nth` is of the first edit."""
    module = f"transformers.models.{FOLDERS.get(architecture, architecture)}"
    module = f"{module}.modeling_{module.rpartition('.')[2]}"
    made = tuple(
        edit if isinstance(edit, Edit) else Edit(module, *edit, 0 if number else nth)
        for number, edit in enumerate(edits)
    )
    return Bug(
        f"{architecture}/{name}", run(f"hf/{architecture}"), made, where, (True, False), elsewhere, goldens
    )
