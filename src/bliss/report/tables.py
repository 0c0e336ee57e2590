"""Numbers -> cells: what is shown is rounded, what is sorted by is exact."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

DASH = "\u2013"


@dataclass(frozen=True)
class Cell:
    """Text to show, and the number behind it: NaN shows as a dash, and None means text."""

    text: str
    value: float | None = None

    @property
    def key(self) -> str:
        """The exact number to sort by, or nothing where there is none."""
        return repr(self.value) if self.value is not None and math.isfinite(self.value) else ""


@dataclass(frozen=True)
class Table:
    """A captioned table; a column is numeric if its cells are."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    @property
    def is_numeric(self) -> list[bool]:
        """Which columns hold numbers."""
        return [
            any(row[n].value is not None for row in self.rows) for n in range(len(self.columns))
        ]

    def without_empty(self) -> Table:
        """Leave out columns that hold a number for no row, and texts that are all empty."""
        kept = [
            n for n in range(len(self.columns)) if any(row[n].text != DASH for row in self.rows)
        ]
        rows = [[row[n] for n in kept] for row in self.rows]
        return Table(self.caption, [self.columns[n] for n in kept], rows, self.note)


def text(value: str) -> Cell:
    """A cell of text."""
    return Cell(value or DASH)


def f1(value: float, deviation: float = math.nan) -> Cell:
    """A score, with its deviation over seeds where there is one."""
    spread = f" ± {deviation:.4f}" if math.isfinite(deviation) else ""
    return Cell(fixed(value, 4) + spread if math.isfinite(value) else DASH, value)


def number(value: float, places: int = 0) -> Cell:
    """A number with a fixed number of decimal places."""
    return Cell(fixed(value, places), value)


def rounded(value: float, deviation: float = math.nan, digits: int = 3) -> Cell:
    """A number with a fixed number of significant digits."""
    spread = f" ± {significant(deviation, 2)}" if math.isfinite(deviation) else ""
    return Cell(significant(value, digits) + (spread if math.isfinite(value) else ""), value)


def share(value: float) -> Cell:
    """A share, with no more digits than it needs."""
    return Cell(f"{value:.4g}" if math.isfinite(value) else DASH, value)


def signed(value: float, places: int = 4) -> Cell:
    """A difference, with its sign."""
    return Cell(plus(value, places), value)


def chance(value: float) -> Cell:
    """A p-value."""
    return Cell(probability(value), value)


def fixed(value: float, places: int) -> str:
    """1234.5 -> '1,234.5', with a real minus; a dash for what is no number."""
    if not math.isfinite(value):
        return DASH
    shown = f"{value:,.{places}f}" if abs(value) < 1e15 else f"{value:.2e}"
    return shown.replace("-", "\u2212")


def significant(value: float, digits: int = 3) -> str:
    """0.012345 -> '0.0123', 12345.6 -> '12,346'."""
    if not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    if places > 8:
        return f"{value:.{digits - 1}e}".replace("-", "\u2212")
    return fixed(value, max(0, places))


def plus(value: float, places: int = 4) -> str:
    """A number with its sign: '+0.0120'."""
    return ("+" if value >= 0 else "") + fixed(value, places)


def probability(value: float) -> str:
    """A p-value to three places, '< 0.001' below."""
    return "< 0.001" if value < 0.001 else fixed(value, 3)


def whole_numbers(values: Iterable[float]) -> str:
    """'4,096 / 2,048 / 1,024'."""
    return " / ".join(fixed(value, 0) for value in values)


def sentence_list(items: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]])) if items else ""
