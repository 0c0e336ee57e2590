"""Figures of a reproduction: ours against published, and growth on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from bliss.report.charts import Series, drawing, finish, plot, points, short_label
from bliss.report.style import INK


def against(series: Sequence[Series], x: str, y: str, is_log: bool = False) -> Figure:
    """Points on a square with its diagonal: above it, y is larger than x."""
    with drawing(height=4.0) as (figure, axes):
        for line in series:
            points(axes, line, elinewidth=0.7, linestyle="none", markersize=5, alpha=0.85)
        if is_log:
            _log_axis(axes, "x")
            _log_axis(axes, "y")
        low = min(axes.get_xlim()[0], axes.get_ylim()[0])
        high = max(axes.get_xlim()[1], axes.get_ylim()[1])
        axes.plot([low, high], [low, high], color=INK, linewidth=0.8, alpha=0.6)
        axes.set(xlabel=x, ylabel=y, xlim=(low, high), ylim=(low, high))
        axes.set_aspect("equal")
        finish(figure, axes)
    return figure


def growth(series: Sequence[Series], x: str, y: str) -> Figure:
    """Lines on logarithmic axes: the slope is the exponent."""
    with drawing() as (figure, axes):
        for line in series:
            plot(axes, line, is_beneath=False)
        _log_axis(axes, "x")
        _log_axis(axes, "y")
        axes.set(xlabel=short_label(x), ylabel=short_label(y))
        finish(figure, axes)
    return figure


def _log_axis(axes: Axes, which: str) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 200 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _power(value)))
    axis.set_minor_formatter(NullFormatter())


def _power(value: float) -> str:
    """0.2, 50, 10,000; very small and large numbers as powers of ten."""
    if 1e-4 < value < 1e6:
        return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
    exponent = math.floor(math.log10(value) + 1e-9)
    factor = f"{value / 10**exponent:.0f}"
    raised = str(exponent).translate(str.maketrans("-0123456789", "\u207b⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if factor == "1" else f"{factor}·10{raised}"
