"""`python -m experiments.paper.page`: write report.html and figures/ from the stored results."""

from __future__ import annotations

from pathlib import Path

from bliss.report.page import write_figures, write_page
from bliss.report.sections import Names
from experiments.paper.record import reproduction
from experiments.paper.section import reproduction_section

HERE = Path(__file__).parent


def write(folder: Path) -> tuple[Path, list[Path]]:
    """Write the page and the figures of a folder's reproduction; returns their paths."""
    sections = [reproduction_section(reproduction(folder).read(), Names())]
    page = write_page(sections, folder / "report.html")
    return page, write_figures(sections, folder / "figures", ("png", "svg"))


if __name__ == "__main__":
    write(HERE)
