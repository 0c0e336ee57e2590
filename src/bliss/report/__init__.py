"""Saved results become figures, tables and one HTML page; nothing here trains.

records.py       the JSON formats, as dataclasses; decode.py fills them and refuses what is off
load.py          paths -> records, checked
charts.py        numbers -> matplotlib figures, drawn in style.py's colours and lines
svg.py           figures that follow the theme of a page
tables.py        numbers -> cells that show one thing and sort by another
sections.py      what a page is made of; run.py, comparison.py, reproduction.py, variance.py fill it
build.py         paths -> sections
page.py          sections -> page.html with page.css and page.js inside

matplotlib is imported when a report is made, not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bliss.files import refuse_folder, replace_file

__all__ = ["save_figures", "write_report"]


def write_report(paths: Sequence[Path], out: Path) -> Path:
    """Write one self-contained HTML page about runs, comparisons, reproductions and variances."""
    from bliss.report.build import build
    from bliss.report.page import page

    refuse_folder("out", out := Path(out), "report.html")
    html = page(build(paths))
    return replace_file(out, html.encode())


def save_figures(
    paths: Sequence[Path], folder: Path, formats: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Write the figures of the same page as files: white, tight, 300 dpi, text kept as text."""
    from bliss.report.build import build
    from bliss.report.style import encode, file_formats

    formats = file_formats(formats)
    charts = [chart for section in build(paths) for chart in section.charts]
    files = {
        Path(folder) / f"{chart.name}.{ending}": encode(chart.figure, ending)
        for chart in charts
        for ending in formats
    }
    return [replace_file(path, content) for path, content in files.items()]
