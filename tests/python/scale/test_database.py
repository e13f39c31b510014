"""`--format sqlite`: the whole result in one file, with the rows of every rank."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path

import pytest

from dumps import chain, run, write_rank


@pytest.fixture
def result(tmp_path: Path) -> Path:
    for rank in range(3):
        fault = {1: 1.5} if rank == 2 else None
        write_rank(tmp_path / "target" / "step0" / f"rank{rank}", chain(3, seed=rank, fault=fault))
        write_rank(tmp_path / "golden" / "step0" / f"rank{rank}", chain(3, seed=rank))
    # A rank that cannot be read is a line.
    write_rank(tmp_path / "target" / "step0" / "rank3", chain(1))
    damaged = write_rank(tmp_path / "golden" / "step0" / "rank3", chain(1))
    (damaged / "dump.json").write_text("[]")
    out = tmp_path / "out"
    ran = run("compare", tmp_path / "target", tmp_path / "golden", "-o", out, "--format", "sqlite")
    assert ran.returncode == 1
    assert f"wrote {out / 'result.sqlite'}" in ran.stdout
    return out


def test_every_row_of_every_rank_is_there(result: Path) -> None:
    database = sqlite3.connect(result / "result.sqlite")
    database.row_factory = sqlite3.Row
    for rank in range(3):
        [sheet] = result.glob(f"compare_result_rank{rank}-rank{rank}_*.csv")
        with sheet.open(newline="", encoding="utf-8-sig") as file:
            expected = list(csv.DictReader(file))
        rows = database.execute('SELECT * FROM "rows" WHERE rank_id = ? ORDER BY line', [rank]).fetchall()
        assert [row["line"] for row in rows] == list(range(2, len(expected) + 2))
        for row, of_sheet in zip(rows, expected, strict=True):
            for name, text in of_sheet.items():
                cell = row[name]
                assert float(text) == cell if isinstance(cell, (int, float)) else text == cell


def test_questions_over_ranks_are_plain_sql(result: Path) -> None:
    database = sqlite3.connect(result / "result.sqlite")
    worst = database.execute(
        "SELECT rank, first_divergence, failed FROM ranks WHERE error IS NULL ORDER BY failed DESC LIMIT 1"
    ).fetchone()
    assert worst[:2] == ("rank2", "Functional.linear.1.forward")
    assert worst[2] > 0
    calls = database.execute(
        "SELECT ranks.rank, kind FROM divergences JOIN ranks ON ranks.id = rank_id WHERE position = 0"
    ).fetchall()
    assert calls == [("rank2", "diverged here")]
    [(error,)] = database.execute("SELECT error FROM ranks WHERE rank = 'rank3'")
    document = json.loads((result / "result.json").read_text())
    assert error is not None
    assert error == document["ranks"][3]["error"]
    [(agreement,)] = database.execute("SELECT value FROM result WHERE name = 'agreement'")
    assert agreement == document["agreement"]
    [(largest,)] = database.execute("""SELECT max(rel_l2) FROM "rows" WHERE typeof(rel_l2) = 'real'""")
    assert largest > 0.1


def test_ranks_unlike_the_others_are_named(result: Path) -> None:
    document = json.loads((result / "result.json").read_text())
    [unlike] = document["deviating_ranks"]
    assert unlike == {
        "step": 0,
        "rank": "rank2",
        "first_divergence": "Functional.linear.1.forward",
        "others": None,
    }
