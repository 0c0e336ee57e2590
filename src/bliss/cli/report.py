"""`bliss report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bliss.cli.console import errors, say
from bliss.cli.options import Debug, Figures


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folders of runs and comparisons; files of variance."),
    ],
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("report.html"),
    figures: Figures = None,
    debug: Debug = False,
) -> None:
    """Write a self-contained HTML page about runs, comparisons and variance."""
    with errors(debug):
        from bliss.report import save_figures, write_report

        say(f"Written to {write_report(folders, out)}")
        if figures is not None:
            say(f"{len(save_figures(folders, figures))} figures written to {figures}")
