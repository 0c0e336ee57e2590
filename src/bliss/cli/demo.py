"""`bliss demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bliss.cli.console import console, errors, say
from bliss.cli.options import Debug, Threads, set_threads
from bliss.train.results import short_name

if TYPE_CHECKING:
    from bliss.studies.demonstration import Attempt

BAR = 40
"""Width of a bar for the score 1."""


def demo(
    seconds: Annotated[float, typer.Option(help="Training time of each network.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder for the runs and the report.")] = Path("demo"),
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Compare bliss with neighbour sampling in the same seconds, on embedded graphs.

    Trains twelve networks: for labels with attention, labels with a history, links, and labels of a
    heterogeneous graph, with bliss and with neighbour sampling at two fanouts. It takes about a
    minute, and longer once, when the kernels are compiled.
    """
    with errors(debug):
        from shutil import rmtree

        from bliss.errors import InputError
        from bliss.report import write_report
        from bliss.studies.demonstration import demonstrate

        if not 0.1 <= seconds <= 3600:
            raise InputError(f"seconds={seconds} must be from 0.1 to 3600: use for instance 3.")
        set_threads(threads)
        for earlier in out.glob("[0-9]-*/config.json"):  # runs of the last demonstration
            rmtree(earlier.parent)
        say(f"Each network trains for {seconds:g} s. Test scores, from full neighbourhoods:")
        attempts: list[Attempt] = []
        for attempt in demonstrate(seconds, out):
            if not attempts or attempts[-1].exercise != attempt.exercise:
                metric = short_name(attempt.result.metric)
                say("")
                say(f"{attempt.exercise}: {metric}")
            attempts.append(attempt)
            show(attempt)
        page = write_report([attempt.folder for attempt in attempts], out / "report.html")
        say("")
        say(f"Curves, times and settings: open {page}")
        say("More on your own graph: bliss data import, bliss advise, bliss train --help")


def show(attempt: Attempt) -> None:
    """Print a bar."""
    result = attempt.result
    style = "green" if attempt.sampler == "bliss" else "yellow"
    bar = "█" * round(BAR * result.test_score)
    console().print(f"  {attempt.sampler:24}{result.steps:5d} steps  ", end="")
    console().print(bar, style=style, end="")
    console().print(f" {result.test_score:.3f}")
