"""One SQLite file for a whole result: every row of every rank. docs/scale.md describes its tables."""

from __future__ import annotations

import csv
import json
import sqlite3
import sys
import uuid
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

NAME = "result.sqlite"

# Changes with every incompatible change of the tables.
_SCHEMA = "ulpscope.result/1"

# Rows that are inserted at a time; no more are in memory.
_BATCH = 10_000

_TABLES = """
CREATE TABLE result (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE ranks (
    id INTEGER PRIMARY KEY, step INTEGER, rank TEXT, golden TEXT, rows INTEGER, passed INTEGER,
    warned INTEGER, failed INTEGER, not_compared INTEGER, bytes INTEGER, failing_calls INTEGER,
    divergence_count INTEGER, first_divergence TEXT, sheet TEXT, error TEXT
);
CREATE TABLE divergences (
    rank_id INTEGER REFERENCES ranks, position INTEGER, call TEXT, golden_call TEXT, kind TEXT,
    entry TEXT, module TEXT, code TEXT, why TEXT, confidence REAL, error NUMERIC, line INTEGER,
    PRIMARY KEY (rank_id, position)
) WITHOUT ROWID;
CREATE TABLE failing (rank_id INTEGER REFERENCES ranks, call TEXT, rows INTEGER);
CREATE TABLE problems (rank_id INTEGER REFERENCES ranks, problem TEXT);
"""

_RANK = [
    "step",
    "target",
    "golden",
    "rows",
    "passed",
    "warned",
    "failed",
    "not_compared",
    "bytes",
    "failing_calls",
]
_DIVERGENCE = ["call", "golden_call", "kind", "entry", "module", "code", "why", "confidence", "error", "line"]


def write(folder: str) -> str:
    """Makes the file from result.json and the .csv sheets of a folder. It is complete or absent."""
    results = Path(folder)
    document = json.loads((results / "result.json").read_text(encoding="utf-8"))
    unfinished = results / f".ulpscope-{uuid.uuid4().hex}.tmp"
    try:
        with sqlite3.connect(unfinished, isolation_level=None) as database:
            # Nobody sees the file before it is complete.
            database.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {_TABLES}")
            database.execute("BEGIN")
            _fill(database, document, results)
            database.execute("COMMIT")
        database.close()
        unfinished.replace(results / NAME)
    finally:
        unfinished.unlink(missing_ok=True)
    return str(results / NAME)


def _fill(database: sqlite3.Connection, document: dict[str, Any], results: Path) -> None:
    plain = {name: value for name, value in document.items() if isinstance(value, (str, int, float, bool))}
    known = {**plain, "schema": _SCHEMA}
    database.executemany("INSERT INTO result VALUES (?, ?)", sorted(known.items()))
    columns: list[str] = []
    for number, rank in enumerate(document["ranks"]):
        sheet = next((Path(file).name for file in rank.get("files", ()) if file.endswith(".csv")), None)
        first = (rank.get("first_divergence") or {}).get("call")
        facts = [rank.get(name) for name in _RANK]
        facts += [rank.get("divergence_count"), first, sheet, rank.get("error")]
        _insert(database, "ranks", [[number, *facts]])
        divergences = enumerate(rank.get("divergences", ()))
        _insert(
            database,
            "divergences",
            ([number, at, *(one.get(name) for name in _DIVERGENCE)] for at, one in divergences),
        )
        _insert(database, "failing", ([number, one["call"], one["rows"]] for one in rank.get("failing", ())))
        _insert(database, "problems", ([number, problem] for problem in rank.get("problems", ())))
        if sheet is not None:
            _insert_sheet(database, number, results / sheet, columns)
    _insert(database, "problems", ([None, problem] for problem in document["problems"]))
    if columns:
        database.execute('CREATE INDEX rows_of_rank ON "rows" (rank_id, line)')


def _insert_sheet(database: sqlite3.Connection, rank: int, path: Path, columns: list[str]) -> None:
    # A cell may hold the stack of a call.
    csv.field_size_limit(sys.maxsize)
    with path.open(newline="", encoding="utf-8-sig") as file:
        sheet = csv.reader(file)
        headings = next(sheet, [])
        if not columns:
            made = ", ".join(f"{_quoted(name)} NUMERIC" for name in headings)
            database.execute(f'CREATE TABLE "rows" (rank_id INTEGER REFERENCES ranks, line INTEGER, {made})')
            columns.extend(headings)
        # An older tool's columns depend on what a rank recorded.
        for name in headings:
            if name not in columns:
                database.execute(f'ALTER TABLE "rows" ADD COLUMN {_quoted(name)} NUMERIC')
                columns.append(name)
        named = ", ".join(["rank_id", "line", *map(_quoted, headings)])
        rows = ([rank, line, *cells] for line, cells in enumerate(sheet, 2) if len(cells) == len(headings))
        _insert(database, f'"rows" ({named})', rows)


def _insert(database: sqlite3.Connection, table: str, rows: Iterable[list[Any]]) -> None:
    batches: Iterator[list[Any]] = iter(rows)
    while batch := list(islice(batches, _BATCH)):
        places = ", ".join("?" * len(batch[0]))
        database.executemany(f"INSERT INTO {table} VALUES ({places})", batch)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
