"""Numbers -> matplotlib figures, each used twice: as a file for papers and inside the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from bliss.report.cells import DASH, Number, fixed, significant
from bliss.report.style import GRID, INK, PAPER, SERIES, WIDTH, look, settings
from bliss.text import printable

DODGE = 0.06  # distance between lines over shares, in powers of 2
HUGE = 1e30  # larger numbers, or smaller than its inverse, would flatten all others and overflow


@dataclass(frozen=True)
class Chart:
    """A figure with its title and description; `name` is unique and fit for a file."""

    name: str
    title: str
    alt: str  # whole sentences with the numbers
    figure: Figure


@dataclass(frozen=True)
class Series:
    """One line: y over x, with deviations of y and x if known. NaN leaves a gap."""

    label: str
    x: list[float]
    y: list[float]
    deviation: list[float]
    across: list[float]  # deviation of x
    index: int  # sets colour, marker and line style

    @classmethod
    def of(
        cls,
        label: str,
        x: Iterable[Number],
        y: Iterable[Number],
        deviation: Iterable[Number] = (),
        across: Iterable[Number] = (),
        index: int = 0,
    ) -> Series:
        """A line of numbers that may be None."""
        lists = [_drawable(values) for values in (x, y, deviation, across)]
        return cls(label, lists[0], lists[1], lists[2], lists[3], index)

    @property
    def is_drawable(self) -> bool:
        """Whether there is a point."""
        return any(math.isfinite(a + b) for a, b in zip(self.x, self.y, strict=True))


@dataclass(frozen=True)
class Level:
    """A horizontal line, such as a target."""

    label: str
    y: float


def curves(series: Sequence[Series], x: str, y: str, level: Level | None = None) -> Figure:
    """Lines with a band of one deviation."""
    beneath = {lower for lower, _ in coincidences(series)}
    with drawing() as (figure, axes):
        for place, line in enumerate(series):
            plot(axes, line, is_beneath=place in beneath)
            if any(map(math.isfinite, line.deviation)):
                low = [a - d for a, d in zip(line.y, line.deviation, strict=True)]
                high = [a + d for a, d in zip(line.y, line.deviation, strict=True)]
                colour = look(line.index)["color"]
                axes.fill_between(line.x, low, high, color=colour, alpha=0.16, linewidth=0)
        if level:
            label = short_label(level.label)
            axes.axhline(level.y, label=label, color=INK, linewidth=1, dashes=(1, 2))
        axes.set(xlabel=x, ylabel=y)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=x in ("step", "window")))
        axes.yaxis.set_major_locator(MaxNLocator(6))
        finish(figure, axes)
    return figure


def ratio_chart(series: Sequence[Series], limit: Series, x: str, y: str) -> Figure:
    """Lines from 0 up, with a reference line at 1 and a dotted limit."""
    with drawing() as (figure, axes):
        axes.axhline(1, label="PLADIES", color=INK, linewidth=0.8, alpha=0.6)
        beneath = {lower for lower, _ in coincidences(series)}
        for place, line in enumerate(series):
            plot(axes, line, is_beneath=place in beneath)
        if limit.is_drawable:
            axes.plot(limit.x, limit.y, label=limit.label, color=INK, linestyle=":", linewidth=1.6)
        axes.set(xlabel=x, ylabel=y)
        highest = max(y for line in series for y in [1, *line.y] if math.isfinite(y))
        axes.set_ylim(0, 1.08 * highest)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        finish(figure, axes)
    return figure


def shrinking(series: Sequence[Series], x: str, y: str) -> Figure:
    """Points with error bars over shares of a budget: the largest left, on a log scale.

    Lines are set apart a little, so that bars at the same share do not hide each other.
    """
    with drawing() as (figure, axes):
        for place, line in enumerate(series):
            aside = 2 ** (DODGE * (place - (len(series) - 1) / 2))
            moved = replace(line, x=[x * aside for x in line.x])
            points(axes, moved, elinewidth=1, capsize=1.5, markersize=4)
        axes.set_xscale("log", base=2)
        axes.invert_xaxis()
        axes.set_xticks(sorted({share for line in series for share in line.x}))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set(xlabel=x, ylabel=y)
        finish(figure, axes)
    return figure


def stacks(labels: Sequence[str], parts: Mapping[str, Sequence[float]], x: str) -> Figure:
    """One stacked bar per label; the first label at the top."""
    with drawing(height=0.75 + 0.36 * len(labels)) as (figure, axes):
        places = range(len(labels))
        ends = [0.0] * len(labels)
        for number, (part, widths) in enumerate(parts.items()):
            widths = [width if 0 < width < HUGE else 0.0 for width in widths]
            axes.barh(
                places,
                widths,
                left=ends,
                height=0.62,
                label=short_label(part),
                color=SERIES[number % len(SERIES)],
                edgecolor=PAPER,
                linewidth=1,
            )
            ends = [end + width for end, width in zip(ends, widths, strict=True)]
        for place, end in zip(places, ends, strict=True):
            axes.annotate(
                significant(end), (end, place), (4, 0), textcoords="offset points", va="center"
            )
        axes.set_yticks(list(places), [short_label(label, 24) for label in labels])
        _finish_bars(figure, axes, x, margin=0.14)
    return figure


def bars(labels: Sequence[str], series: Mapping[str, Sequence[float]], x: str) -> Figure:
    """One bar per label and series, with its value; the first label at the top."""
    with drawing(height=0.75 + 0.6 * len(labels)) as (figure, axes):
        thickness = 0.78 / len(series)
        for number, (name, values) in enumerate(series.items()):
            places = [
                place + (number - (len(series) - 1) / 2) * thickness for place in range(len(labels))
            ]
            widths = [value if 0 < value < HUGE else 0.0 for value in values]
            drawn = axes.barh(
                places, widths, height=0.92 * thickness, label=name, color=SERIES[number]
            )
            axes.bar_label(drawn, [fixed(value, 3) for value in values], padding=4)
        axes.set_yticks(range(len(labels)), labels)
        _finish_bars(figure, axes, x, margin=0.2)
    return figure


def _finish_bars(figure: Figure, axes: Axes, x: str, margin: float) -> None:
    """Style horizontal bars that start at 0, the first at the top, with room for their values."""
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.margins(x=margin)
    axes.set_xlim(left=0)
    axes.set_xlabel(x)
    axes.spines["left"].set_visible(False)
    finish(figure, axes, grid="x")


@contextmanager
def drawing(height: float = 2.9) -> Iterator[tuple[Figure, Axes]]:
    """Context manager that gives an empty figure of a height in inches, and its axes."""
    with settings():
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
        axes.margins(0.07)  # markers stay off the axes
        yield figure, axes


def finish(figure: Figure, axes: Axes, grid: str = "y") -> None:
    """Add the grid, and the legend below."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color=GRID, linewidth=0.7)  # type: ignore[arg-type]
    handles, labels = axes.get_legend_handles_labels()
    widths = [38 + 5.7 * len(label) for label in labels]  # points
    room = max(1, int(WIDTH * 72 // max(widths)))
    rows = 1 if sum(widths) < WIDTH * 72 else math.ceil(len(labels) / room)
    columns = math.ceil(len(labels) / rows)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)
    figure.set_figheight(figure.get_figheight() + 0.19 * rows)  # room for the legend


def coincidences(series: Sequence[Series]) -> list[tuple[int, int]]:
    """Pairs of lines (lower, upper) that would hide each other, by their place.

    They are closer than 1% of the range of all values at most of the places that they share.
    """
    values = [y for line in series for y in line.y if math.isfinite(y)]
    close = 0.01 * (max(values) - min(values)) if values else 0.0
    pairs = []
    for upper, line in enumerate(series):
        at = dict(zip(line.x, line.y, strict=True))
        for lower in range(upper):
            other = zip(series[lower].x, series[lower].y, strict=True)
            gaps = [abs(at[x] - y) for x, y in other if x in at and math.isfinite(at[x] - y)]
            if gaps and 2 * sum(gap <= close for gap in gaps) > len(gaps):
                pairs.append((lower, upper))
    return pairs


def coinciding(series: Sequence[Series]) -> list[str]:
    """Which lines coincide, as words."""
    return [f"{series[a].label} and {series[b].label} coincide" for a, b in coincidences(series)]


def plot(axes: Axes, line: Series, is_beneath: bool) -> None:
    """A line; one beneath another is wide and pale. Markers of lines are not at the same places."""
    every = max(1, len(line.x) // 8)
    options = look(line.index)
    if is_beneath:
        options |= {"linewidth": 5, "alpha": 0.45, "markersize": 8, "linestyle": "-"}
    places = (line.index % every, every)
    axes.plot(line.x, line.y, label=short_label(line.label), markevery=places, **options)


def points(axes: Axes, line: Series, **changes: Any) -> None:
    """Points with error bars."""
    options = look(line.index) | changes | {"label": short_label(line.label)}
    axes.errorbar(line.x, line.y, _bars(line.deviation), _bars(line.across), **options)


def short_label(label: str, most: int = 36) -> str:
    """A label that fits; matplotlib would hide those that start with an underscore."""
    label = printable(label)
    label = label if len(label) <= most else label[: most - 1] + "…"
    return "\u200a" + label if label.startswith("_") else label or DASH


def _drawable(values: Iterable[Number]) -> list[float]:
    return [
        v if v is not None and (v == 0 or 1 / HUGE < abs(v) < HUGE) else math.nan for v in values
    ]


def _bars(deviation: Sequence[float]) -> list[float] | None:
    return [d if d > 0 else 0.0 for d in deviation] or None  # NaN: no bar
