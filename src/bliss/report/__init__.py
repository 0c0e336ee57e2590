"""Figures, tables and an HTML page from saved results; nothing here trains.

load.py          paths -> records of runs and studies
charts.py        numbers -> matplotlib figures, with the colours and lines of style.py
svg.py           figures -> SVG that follows the theme of the page
cells.py         numbers -> cells with rounded text and an exact sorting key
sections.py      the parts of a page
*_section.py     records -> sections; those of studies are named by `bliss.studies.registry`
significance.py  rows of a comparison -> which differences are significant
build.py         paths -> sections
page.py          sections -> page.html, with page.css and page.js included

matplotlib is imported only when a report is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bliss.storage.files import refuse_folder

__all__ = ["save_figures", "write_report"]


def write_report(paths: Sequence[Path], out: Path) -> Path:
    """Write one self-contained HTML page about runs, comparisons and variance."""
    from bliss.report.build import build
    from bliss.report.page import write_page

    refuse_folder("out", out := Path(out), "report.html")
    return write_page(build(paths), out)


def save_figures(
    paths: Sequence[Path], folder: Path, formats: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Write the figures of the page as files: white background, 300 dpi, text as text."""
    from bliss.report.build import build
    from bliss.report.page import write_figures
    from bliss.report.style import file_formats

    formats = file_formats(formats)
    return write_figures(build(paths), Path(folder), formats)
