"""Outcomes → tables, in plain text for the terminal and in Markdown for the README."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from faults.cases import Case
from faults.outcome import Outcome
from faults.scoring import BARS, Bar, Tally, alarms, holds, replays, score, tally

COLUMNS = ("exact", "within three", "module", "elsewhere", "missed")
TITLES = {
    "ulpscope": "Ulpscope",
    "ulpscope-prove": "Ulpscope --prove",
    "msprobe": "mindstudio-probe",
    "msprobe-da": "mindstudio-probe -da",
    "ptdbg": "ptdbg rule",
}


@dataclass(frozen=True)
class Table:
    """Text in rows under a heading."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def plain(self) -> str:
        """Columns of even width; the first ones are names, the others numbers."""
        widths = [max(len(row[index]) for row in (self.head, *self.rows)) for index in range(len(self.head))]
        numeric = [
            all(row[index][:1].isdigit() or row[index] in ("", "-") for row in self.rows)
            for index in range(len(self.head))
        ]
        lines = []
        for row in (self.head, *self.rows):
            cells = [
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(row, widths, numeric, strict=True)
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join([self.title, *(f"  {line}" for line in lines)])

    def markdown(self) -> str:
        """A table as GitHub shows it."""
        escaped = [[cell.replace("|", "\\|") for cell in row] for row in (self.head, *self.rows)]
        lines = [f"| {' | '.join(row)} |" for row in escaped]
        lines.insert(1, "|" + "---|" * len(self.head))
        return "\n".join([f"**{self.title}**", "", *lines])


def places(found: Tally) -> str:
    """The five numbers of a tally: `exact/within three/module/elsewhere/missed`, and what failed."""
    numbers = (found.exact, found.within_three, found.module, found.elsewhere, found.missed)
    failed = f" +{found.error} failed" if found.error else ""
    return "/".join(map(str, numbers)) + failed


def percent(share: float | None) -> str:
    """A share, rounded towards zero: 94.99 % is not 95 %."""
    return "-" if share is None else f"{int(share * 1000 + 1e-9) / 10:.1f} %"


def in_order(values: Iterable[str]) -> list[str]:
    """Each value once, where it came first."""
    return list(dict.fromkeys(values))


def fault_table(
    title: str, outcomes: Sequence[Outcome], tools: Sequence[str], columns: tuple[str, ...]
) -> Table:
    """One row per fault, or per model and fault, as `columns` (attributes of a case) say."""

    def key(outcome: Outcome) -> tuple[str, ...]:
        return tuple(str(getattr(outcome.case, column)) for column in columns)

    chosen = [outcome for outcome in outcomes if outcome.case.fault is not None]
    rows = []
    for one in dict.fromkeys(sorted(map(key, chosen))):
        part = [outcome for outcome in chosen if key(outcome) == one]
        tallies = [tally(part, tool) for tool in tools]
        rows.append((*one, str(tallies[0].counted), str(tallies[0].below), *map(places, tallies)))
    totals = [tally(chosen, tool) for tool in tools]
    names = ("all", *("",) * (len(columns) - 1))
    rows.append((*names, str(totals[0].counted), str(totals[0].below), *map(places, totals)))
    head = (*columns, "above 2 x floor", "below", *(TITLES.get(tool, tool) for tool in tools))
    return Table(f"{title}: {'/'.join(COLUMNS)}", head, tuple(rows))


def benign_table(title: str, outcomes: Sequence[Outcome], tools: Sequence[str]) -> Table:
    """One row per benign change: pairs, and false alarms of each tool."""
    chosen = [outcome for outcome in outcomes if outcome.case.fault is None]
    names = in_order(sorted(str(outcome.case.benign) for outcome in chosen))
    rows = []
    for name in (*names, "all"):
        part = [outcome for outcome in chosen if name in ("all", str(outcome.case.benign))]
        counted = [alarms(part, tool) for tool in tools]
        cells = [f"{one.raised}" + (f" +{one.error} failed" if one.error else "") for one in counted]
        rows.append((name, str(len(part)), *cells))
    head = ("benign change", "pairs", *(TITLES.get(tool, tool) for tool in tools))
    return Table(f"{title}: false alarms", head, tuple(rows))


def bar_row(bar: Bar, outcomes: Sequence[Outcome], tools: Sequence[str]) -> tuple[str, ...] | None:
    """What each tool reached of one bar; None where no case is about it."""
    covered = [outcome for outcome in outcomes if bar.covers(outcome.case)]
    if not covered:
        return None
    cells, goal, size = [], "", ""
    for tool in tools:
        if bar.pairs is not None or covered[0].case.fault is None:
            raised = alarms(covered, tool)
            goal = "0 alarms" + (f" on >= {bar.pairs} pairs" if bar.pairs and bar.pairs > 1 else "")
            size = f"{raised.pairs} pairs"
            said = f"{raised.raised} alarm{'s' * (raised.raised != 1)}" + (
                f", {raised.error} failed" if raised.error else ""
            )
        else:
            found = tally(covered, tool)
            goal = f"exact >= {bar.exact:.0%}" if bar.exact is not None else ""
            goal += f", within three >= {bar.within_three:.0%}" if bar.within_three is not None else ""
            size = f"{found.counted} faults"
            said = f"{percent(found.exact_share)} exact, {percent(found.within_three_share)} within three"
        kept = holds(bar, covered, tool)
        cells.append(said + {True: ": kept", False: ": not kept", None: ""}[kept])
    return (bar.title, size, goal, *cells)


def summary(outcomes: Sequence[Outcome], tools: Sequence[str]) -> Table:
    """Every bar, and what each tool reached."""
    rows = [row for bar in BARS if (row := bar_row(bar, outcomes, tools)) is not None]
    return Table(
        "Summary", ("cases", "number", "bar", *(TITLES.get(tool, tool) for tool in tools)), tuple(rows)
    )


def misses(outcomes: Sequence[Outcome], tool: str) -> Table:
    """Every case in which a tool's first answer is not the exact call, and every false alarm."""
    rows = []
    for outcome in outcomes:
        said = outcome.judgements.get(tool)
        if outcome.truth is None or said is None:
            continue
        answer = said.error or ", ".join(f"{one.call} ({one.kind})" for one in said.answers) or "nothing"
        if outcome.case.fault is None:
            if said.answers or said.error is not None:
                rows.append((outcome.case.name, "false alarm", "", answer))
        elif outcome.truth.counts and (found := score(outcome.truth, said)).place != "exact":
            place = found.place + (", within three" if found.within_three else "")
            truth = (
                f"{outcome.truth.call} (effect {outcome.truth.effect:.2g}, floor {outcome.truth.floor:.2g})"
            )
            rows.append((outcome.case.name, place, truth, answer))
    head = ("case", "first answer", "planted in", "answers")
    # One line of an error is enough here.
    short = tuple(tuple(cell.strip().splitlines()[-1] if cell else "" for cell in row) for row in rows)
    return Table(f"{TITLES.get(tool, tool)}: misses and false alarms", head, short)


def replay_table(outcomes: Sequence[Outcome], tool: str) -> Table:
    """What replay says of the first answers, and of those that it took back."""
    rows = []
    for title, part in parts(outcomes):
        found = replays(part, tool)
        numbers = (
            found.proved,
            found.false_proved,
            found.not_replayable,
            found.refuted,
            found.true_refuted,
        )
        rows.append((title, *map(str, numbers)))
    head = ("cases", "proved", "of these elsewhere", "not replayable", "refuted", "of these planted")
    return Table(f"{TITLES.get(tool, tool)}: replay", head, tuple(rows))


def failures(outcomes: Sequence[Outcome]) -> Table:
    """Cases that could not be run."""
    rows = tuple(
        (outcome.case.name, outcome.error.strip().splitlines()[-1]) for outcome in outcomes if outcome.error
    )
    return Table("Cases that failed", ("case", "error"), rows)


def parts(outcomes: Sequence[Outcome]) -> list[tuple[str, list[Outcome]]]:
    """The outcomes by what the bars tell apart, without the empty parts."""
    titled: list[tuple[str, Callable[[Case], bool]]] = [(bar.title, bar.covers) for bar in BARS]
    found = [(title, [outcome for outcome in outcomes if covers(outcome.case)]) for title, covers in titled]
    return [(title, part) for title, part in found if part]


def tables(outcomes: Sequence[Outcome], tools: Sequence[str], by_model: bool) -> list[Table]:
    """All tables in the order they are shown; `by_model`: a row per model and fault instead of per fault."""
    columns = ("fault", "model") if by_model else ("fault",)
    made = []
    for title, part in parts(outcomes):
        if part[0].case.fault is None:
            made.append(benign_table(title, part, tools))
        else:
            made.append(fault_table(title, part, tools, columns))
            if not by_model:
                made.append(fault_table(f"{title}, by model", part, tools, ("model",)))
    made += [misses(outcomes, tool) for tool in ("ulpscope", "ulpscope-prove") if tool in tools]
    if "ulpscope-prove" in tools:
        made.append(replay_table(outcomes, "ulpscope-prove"))
    made.append(failures(outcomes))
    return [*(table for table in made if table.rows), summary(outcomes, tools)]


def plain(outcomes: Sequence[Outcome], tools: Sequence[str]) -> str:
    """Everything, for the terminal."""
    return "\n\n".join(table.plain() for table in tables(outcomes, tools, by_model=True)) + "\n"


def markdown(outcomes: Sequence[Outcome], tools: Sequence[str]) -> str:
    """What goes into the README: the summary first, then the details."""
    made = tables(outcomes, tools, by_model=False)
    return "\n\n".join(table.markdown() for table in (made[-1], *made[:-1])) + "\n"
