"""Numbers -> cells: the text is rounded, the sorting key exact. None shows as a dash."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

DASH = "\u2013"

Number = float | None
T = TypeVar("T")


@dataclass(frozen=True)
class Cell:
    """Text to show, and the number behind it if the cell holds one."""

    text: str
    value: Number = None
    is_number: bool = True

    @property
    def key(self) -> str:
        """The exact number to sort by; empty without one."""
        return repr(self.value) if is_known(self.value) else ""


@dataclass(frozen=True)
class ReportTable:
    """A table with a caption; a column is numeric if its cells are."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    @classmethod
    def of(
        cls,
        caption: str,
        rows: Iterable[T],
        columns: Mapping[str, Callable[[T], Cell]],
        note: str = "",
    ) -> ReportTable:
        """One row for each item. Columns that show a dash in every row are left out."""
        cells = [[make(row) for make in columns.values()] for row in rows]
        kept = [n for n in range(len(columns)) if any(row[n].text != DASH for row in cells)]
        names = list(columns)
        return cls(
            caption, [names[n] for n in kept], [[row[n] for n in kept] for row in cells], note
        )

    @property
    def is_numeric(self) -> list[bool]:
        """Which columns hold numbers."""
        return [any(row[n].is_number for row in self.rows) for n in range(len(self.columns))]


def is_known(value: Number) -> bool:
    """Whether there is a number, and a finite one."""
    return value is not None and math.isfinite(value)


def text(value: str) -> Cell:
    """A cell of text."""
    return Cell(value or DASH, is_number=False)


def score_cell(value: Number) -> Cell:
    """A score."""
    return Cell(fixed(value, 4), value)


def score_spread(value: Number, deviation: Number) -> Cell:
    """A mean score with its deviation over seeds, a dash for one seed."""
    return Cell(f"{fixed(value, 4)} ± {fixed(deviation, 4)}", value)


def number(value: Number, places: int = 0) -> Cell:
    """A number with a fixed number of decimal places."""
    return Cell(fixed(value, places), value)


def rounded(value: Number) -> Cell:
    """A number with three significant digits."""
    return Cell(significant(value), value)


def short(value: Number) -> Cell:
    """A number with no more digits than it needs."""
    return Cell(DASH if value is None else f"{value:.4g}", value)


def signed(value: Number) -> Cell:
    """A difference, with its sign."""
    return Cell(plus(value, 4), value)


def chance(value: Number) -> Cell:
    """A p-value."""
    return Cell(probability(value), value)


def fixed(value: Number, places: int) -> str:
    """1234.5 -> '1,234.5', with a real minus sign; a dash without a number."""
    if value is None or not math.isfinite(value):
        return DASH
    shown = f"{value:,.{places}f}" if abs(value) < 1e15 else f"{value:.2e}"
    return shown.replace("-", "\u2212")


def significant(value: Number, digits: int = 3) -> str:
    """0.012345 -> '0.0123', 12345.6 -> '12,346'."""
    if value is None or not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    if places > 8:
        return f"{value:.{digits - 1}e}".replace("-", "\u2212")
    return fixed(value, max(0, places))


def plus(value: Number, places: int = 4) -> str:
    """A number with its sign: '+0.0120'."""
    return ("+" if value is not None and value >= 0 else "") + fixed(value, places)


def probability(value: Number) -> str:
    """A p-value to three places, '< 0.001' below."""
    return "< 0.001" if value is not None and value < 0.001 else fixed(value, 3)


def whole_numbers(values: Iterable[float | Mapping[str, float]]) -> str:
    """'4,096 / 2,048 / 1,024'; with types 'author 64, paper 128 / 32'."""
    return " / ".join(
        ", ".join(f"{name} {fixed(number, 0)}" for name, number in value.items())
        if isinstance(value, Mapping)
        else fixed(value, 0)
        for value in values
    )


def sentence_list(items: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]])) if items else ""


def plural(count: int, noun: str) -> str:
    """'1 seed', '5 seeds'."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
