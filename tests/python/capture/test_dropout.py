"""Dropout that was taken out stays so for as long as any capture records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import ulpscope


def is_out() -> bool:
    x = torch.ones(1000)
    return torch.equal(torch.nn.functional.dropout(x, 0.5, training=True), x)


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    with ulpscope.seed_all(rm_dropout=True):
        yield


def test_another_capture_that_ends_leaves_it_out(tmp_path: Path) -> None:
    with ulpscope.capture(tmp_path / "a") as run:
        with ulpscope.capture(tmp_path / "b", level="debug") as other:
            other.save(torch.ones(1), "x")
            assert is_out()
        assert is_out()
        run.stop()
        assert not is_out()
        run.start()
        assert is_out()
    assert not is_out()


def test_a_capture_that_never_started_leaves_it_out(tmp_path: Path) -> None:
    ulpscope.capture(tmp_path / "never").close()
    assert is_out()
    with ulpscope.capture(tmp_path / "a"):
        ulpscope.capture(tmp_path / "never").close()
        assert is_out()


def test_a_capture_whose_steps_are_over_leaves_it_out_for_the_other(tmp_path: Path) -> None:
    with ulpscope.capture(tmp_path / "a"), ulpscope.capture(tmp_path / "b", level="debug", step=[0]) as other:
        other.step()
        assert is_out()
    assert not is_out()


def test_it_may_be_asked_for_while_calls_are_recorded(tmp_path: Path) -> None:
    with ulpscope.seed_all(rm_dropout=True):
        pass
    assert not is_out()
    with ulpscope.capture(tmp_path):
        ulpscope.seed_all(rm_dropout=True)
        assert is_out()
    assert not is_out()
