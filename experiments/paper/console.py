"""Tables of a reproduction on the terminal."""

from __future__ import annotations

from rich.table import Table

from bliss.cli.console import console, spread
from experiments.paper.record import Reproduction, Rerun


def show_reproduction(reproduction: Reproduction) -> None:
    """Print F1, times and fitted exponents next to the published ones."""
    names = ("preset", "data", "model", "sampler")
    if reproduction.tables.f1:
        table = Table(*names, "split", "ours", "published", title="micro-F1")
        for score in reproduction.tables.f1:
            table.add_row(*who(score), score.split, *ours_and_published(score, 3))
        console().print(table)
    if reproduction.tables.time:
        table = Table(*names, "ours", "published", title="seconds per step")
        for pace in reproduction.tables.time:
            table.add_row(*who(pace), *ours_and_published(pace, 4))
        console().print(table)
    if reproduction.tables.variance:
        table = Table("quantity", "sampler", "grows with", "exponent", "stated")
        for row in reproduction.tables.variance:
            growth = (row.quantity, row.sampler, row.grows_with)
            table.add_row(*growth, f"{row.exponent:.2f}", row.stated_text)
        console().print(table)


def who(row: Rerun) -> tuple[str, ...]:
    """Cells that identify a row of a reproduction."""
    return row.preset, row.dataset, row.model, row.sampler


def ours_and_published(row: Rerun, places: int) -> tuple[str, str]:
    """Our number and the published one, each with its standard deviation."""
    return (
        spread(row.ours, row.ours_std, places),
        spread(row.published, row.published_std, 3),
    )
