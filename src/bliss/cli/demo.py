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
    from bliss.report.demonstration_section import ExerciseScores
    from bliss.studies.demonstration import Attempt

BAR = 40
"""Width of a bar for the score 1."""


def demo(
    seconds: Annotated[float, typer.Option(help="Training time of each network.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder for the runs and the report.")] = Path("demo"),
    threads: Threads = 1,
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
        from bliss.report.build import build
        from bliss.report.demonstration_section import demonstration_section
        from bliss.report.page import write_page
        from bliss.storage.files import refuse_folder
        from bliss.studies.demonstration import demonstrate

        if not 0.1 <= seconds <= 3600:
            raise InputError(f"seconds={seconds} must be from 0.1 to 3600: use for instance 3.")
        refuse_folder("out", page := out / "report.html", "report.html")
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
        found = scores_of(attempts)
        chart(found, seconds)
        folders = [attempt.folder for attempt in attempts]
        write_page([demonstration_section(found, seconds), *build(folders)], page)
        say("")
        say(f"Curves, times and settings: open {page}")
        say("Next, with your own graph: bliss data import, then bliss train --seconds 60")


def show(attempt: Attempt) -> None:
    """Print what one sampler reached."""
    result = attempt.result
    say(f"  {attempt.sampler:24}{result.steps:5d} steps  {result.test_score:.3f}")


def scores_of(attempts: Sequence[Attempt]) -> list[ExerciseScores]:
    """The score of bliss and the best one of neighbour sampling, by exercise."""
    from bliss.report.demonstration_section import ExerciseScores

    found = []
    for exercise in dict.fromkeys(attempt.exercise for attempt in attempts):
        runs = [attempt.result for attempt in attempts if attempt.exercise == exercise]
        own, *others = (run.test_score for run in runs)
        found.append(ExerciseScores(f"{exercise}, {short_name(runs[0].metric)}", own, max(others)))
    return found


def chart(found: Sequence[ExerciseScores], seconds: float) -> None:
    """Print two bars for each exercise."""
    say("")
    say(f"After {seconds:g} s of training each:")
    for one in found:
        say("")
        say(f"  {one.exercise}")
        for sampler, score, style in (
            ("bliss", one.own, "green"),
            ("neighbour sampling", one.other, "yellow"),
        ):
            console().print(f"  {sampler:20}", end="")
            console().print("█" * round(BAR * score), style=style, end="")
            console().print(f" {score:.3f}")
