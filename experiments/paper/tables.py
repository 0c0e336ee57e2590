"""`python -m experiments.paper.tables`: write tables.md from results.json."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from bliss.cli.console import spread
from experiments.paper import record
from experiments.paper.record import Growth, Pace, Reproduction, Score

HERE = Path(__file__).parent


def write_tables(folder: Path) -> Path:
    """Write tables.md of a folder's results; returns its path."""
    path = folder / "tables.md"
    path.write_text(page(folder), encoding="utf-8")
    return path


def page(folder: Path) -> str:
    """All tables of a folder; times are those that were measured apart, if there are any."""
    found, apart = record.reproduction(folder).read(), record.times(folder)
    facts, tables = found.machine, found.tables
    lines = [
        "# Reproduction of the paper's tables",
        "",
        f"    {found.command}",
        "",
        f"{facts.processor}, {facts.threads} thread{'s' if facts.threads > 1 else ''}, "
        f"torch {facts.torch}, {found.date}.",
    ]
    if tables.f1:
        lines += [
            "",
            "## Micro-F1",
            "",
            "| preset | data | network | sampler | split | ours | published | difference | seeds |",
            "|---|---|---|---|---|---|---|---|---|",
            *map(f1_line, tables.f1),
        ]
    if apart.exists():
        lines += ["", "## Seconds per step", "", *measured_apart(apart.read())]
    elif tables.time:
        lines += ["", "## Seconds per step", "", *times(tables.time)]
    if tables.variance:
        lines += [
            "",
            "## Growth of time, memory and variance",
            "",
            "| quantity | sampler | grows with | exponent | stated |",
            "|---|---|---|---|---|",
            *map(growth_line, tables.variance),
        ]
    if found.missing:
        lines += ["", "## Not run", ""]
        lines += [f"- {row.dataset}: the files were not available." for row in found.missing]
    return "\n".join(lines) + "\n"


def measured_apart(timed: Reproduction) -> list[str]:
    """Times that were measured apart, with the command."""
    note = f"60 steps, three seeds, nothing else running; {timed.date}."
    return [f"    {timed.command}", "", note, "", *times(timed.tables.time)]


def times(rows: Sequence[Pace]) -> list[str]:
    """Seconds of a step, and those of BLISS over those of PLADIES."""
    return [
        "| preset | data | network | sampler | ours | published | ours / published |",
        "|---|---|---|---|---|---|---|",
        *map(time_line, rows),
        "",
        "Time per step of BLISS divided by that of PLADIES:",
        "",
        "| preset | data | network | ours | published |",
        "|---|---|---|---|---|",
        *overheads(rows),
    ]


def f1_line(row: Score) -> str:
    """One row of the F1 table."""
    return (
        f"| {row.preset} | {row.dataset} | {row.model} | {row.sampler} | {row.split} | "
        f"{spread(row.ours, row.ours_std, 3)} | {spread(row.published, row.published_std, 3)} | "
        f"{row.difference:+.3f} | {row.seeds} |"
    )


def time_line(row: Pace) -> str:
    """One row of the table of times."""
    return (
        f"| {row.preset} | {row.dataset} | {row.model} | {row.sampler} | "
        f"{spread(row.ours, row.ours_std, 4)} | {spread(row.published, row.published_std, 3)} | "
        f"{row.ratio:.2f} |"
    )


def overheads(rows: Sequence[Pace]) -> list[str]:
    """Ratios of step times, BLISS to PLADIES, ours and published."""
    lines = []
    for key, group in groupby(rows, key=lambda row: (row.preset, row.dataset, row.model)):
        times = {row.sampler: row for row in group}
        ours = times["bliss"].ours / times["pladies"].ours
        published = times["bliss"].published / times["pladies"].published
        lines.append(f"| {' | '.join(key)} | {ours:.2f} | {published:.2f} |")
    return lines


def growth_line(row: Growth) -> str:
    """One row of the table of exponents."""
    names = f"{row.quantity} | {row.sampler} | {row.grows_with}"
    return f"| {names} | {row.exponent:.2f} | {row.stated_text} |"


if __name__ == "__main__":
    write_tables(HERE)
