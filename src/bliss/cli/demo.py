"""`bliss demo`."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Compare bliss with neighbour sampling in the same seconds, on built-in graphs.

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
        say(f"Every network is trained for {seconds:g} s and scored on test nodes or test links.")
        say('"neighbour sampling, 5" keeps 5 neighbours of each node.')
        attempts: list[Attempt] = []
        for attempt in demonstrate(seconds, out):
            if not attempts or attempts[-1].exercise != attempt.exercise:
                metric = short_name(attempt.result.metric)
                say("")
                say(f"{attempt.exercise}: {metric}")
            attempts.append(attempt)
            show(attempt)
        page = write_report([attempt.folder for attempt in attempts], out / "report.html")
        summarise(attempts)
        say("")
        say(f"Curves, times and settings: open {page}")
        say("Next, with your own graph: bliss data import, then bliss train --seconds 60")


def show(attempt: Attempt) -> None:
    """Print a bar."""
    result = attempt.result
    style = "green" if attempt.sampler == "bliss" else "yellow"
    bar = "█" * round(BAR * result.test_score)
    console().print(f"  {attempt.sampler:24}{result.steps:5d} steps  ", end="")
    console().print(bar, style=style, end="")
    console().print(f" {result.test_score:.3f}")


def summarise(attempts: Sequence[Attempt]) -> None:
    """Print the score of bliss beside the best one of neighbour sampling, by exercise."""
    say("")
    say(f"{'After the same seconds':54}{'bliss':>8}{'neighbour sampling':>21}")
    for exercise in dict.fromkeys(attempt.exercise for attempt in attempts):
        runs = [attempt for attempt in attempts if attempt.exercise == exercise]
        own, *others = (attempt.result.test_score for attempt in runs)
        title = f"{exercise}, {short_name(runs[0].result.metric)}"
        say(f"  {title:52}{own:8.3f}{max(others):21.3f}")
