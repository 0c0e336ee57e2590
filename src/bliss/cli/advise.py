"""`bliss advise`, and budgets="auto" of `bliss train`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bliss.cli.console import console, errors, say
from bliss.cli.options import Debug, Root, Seconds, Threads, set_threads, takes_settings
from bliss.errors import InputError

if TYPE_CHECKING:
    from bliss.data import Dataset
    from bliss.studies import Advice
    from bliss.studies.advice.advice_record import AdviceRow
    from bliss.train import TrainConfig
    from bliss.train.seconds.choice import Choice


PILOT_STEPS, LIMIT = 60, 0.1
"""Defaults of `bliss.studies.advise`, which imports torch."""


@takes_settings(
    without=("shards", "reduction"),
    basic=("seconds", "pilot_steps", "limit", "json", "threads"),
)
def advise(
    settings: dict[str, Any],
    seconds: Seconds = None,
    pilot_steps: Annotated[
        int, typer.Option(help="Steps that the network is trained for.")
    ] = PILOT_STEPS,
    limit: Annotated[
        float, typer.Option(help="Largest relative error of the gradient that is accepted.")
    ] = LIMIT,
    json: Annotated[
        Path | None,
        typer.Option(help="Write the advice to this file, with the fitted models and their fit."),
    ] = None,
    threads: Threads = None,
    root: Root = None,
    debug: Debug = False,
) -> None:
    """Recommend a sampler, a history and budgets, for given steps or seconds.

    With --seconds, the choice is that of `bliss train --seconds`: the one that is expected to reach
    a given loss first, with as many steps as fit into the time. Settings that are given stay.

    Otherwise, a short pilot measures the error of the gradient and the time of a step for each kind
    of sampler at several budgets. The choice has the least time x (1 + error) with an error of at
    most --limit. See docs/advice.md.
    """
    with errors(debug):
        from bliss.data import load_dataset
        from bliss.storage import records
        from bliss.storage.files import refuse_folder
        from bliss.studies import advise as find_advice
        from bliss.train import resolve
        from bliss.train.seconds.choice import choose
        from bliss.train.seconds.timed_run import check_timed

        set_threads(threads)
        if json is not None:
            refuse_folder("json", json, "advice.json")
        if seconds is not None:
            if (pilot_steps, limit) != (PILOT_STEPS, LIMIT):
                raise InputError(
                    "pilot_steps and limit have no effect with --seconds, which sets the length of "
                    "the pilot and does not limit the error: leave them out."
                )
            config, started = check_timed(settings, seconds), perf_counter()
            loaded = load_dataset(config.data.dataset, root, seed=config.seed)
            choice = choose(settings, loaded, seconds, started=started, say=say)
            show_choice(choice, settings, root)
            if json is not None:
                records.write(json, choice)
                say(f"Written to {json}")
            return
        if "budgets" in settings:
            raise InputError(
                f"budgets={settings['budgets']} are what `bliss advise` chooses: leave them out, "
                "or pass --seconds, which chooses the rest."
            )
        config = resolve(**settings)
        loaded = load_dataset(config.data.dataset, root, seed=config.seed)
        advice = find_advice(
            settings, loaded, pilot_steps=pilot_steps, limit=limit, root=root, say=say
        )
        show_advice(advice)
        if json is not None:
            records.write(json, advice)
            say(f"Written to {json}")


def auto_config(settings: Mapping[str, Any], dataset: Dataset) -> TrainConfig:
    """Settings of a run with budgets="auto", from a pilot."""
    from bliss.studies import advise as find_advice

    advice = find_advice(settings, dataset, compare=False)
    if advice.choice is None:
        show_nothing(advice)
        say("Training goes on with the default budgets.")
    else:
        say(f"budgets=auto, after {advice.seconds:.0f} s: {choice_text(advice.choice)}")
    return advice.config


def show_advice(advice: Advice) -> None:
    """Print what was compared, the choice, the reason and the command."""
    if advice.choice is None:
        show_nothing(advice)
        return
    from rich.table import Table

    table = Table(
        "",
        "settings",
        "budgets",
        "ms/step, expected",
        "gradient error, expected",
        title=f"{advice.dataset}, {advice.model}, batches of {advice.batch_size}",
    )
    for row in advice.rows:
        table.add_row(
            f"> {row.name}" if row.name == advice.choice.name else row.name,
            described(row),
            ",".join(map(str, row.budgets)),
            f"{row.ms:.1f}",
            f"{row.gradient_error:.3f}",
        )
    console().print(table)
    say(f"Choice: {choice_text(advice.choice)}")
    say(f"Why: {advice.reason} {advice.variance_note}")
    say(f"Run: {advice.command}")


def show_choice(choice: Choice, settings: Mapping[str, Any], root: Path | None) -> None:
    """Print what was measured for a given time, the choice, the reason and the command."""
    from rich.table import Table

    from bliss.studies.advice.advice import command

    if choice.rows:
        table = Table("", "batch", "budgets", "ms/step", "gradient error", "time to a loss")
        for row in choice.rows:
            ratio = row.cost / choice.rows[0].cost
            sizes = f"{row.batch_size:,}", ",".join(map(str, row.budgets))
            table.add_row(
                row.name, *sizes, f"{row.ms:.1f}", f"{row.gradient_error:.3g}", f"{ratio:.2f}"
            )
        console().print(table)
    if choice.rows and choice.unmeasured:
        say(f"Not measured, for lack of time: {'; '.join(choice.unmeasured)}.")
    for line in choice.lines:
        say(line)
    say_causes(choice.causes)
    training, chosen = choice.config.training, choice.config.flat()
    names = ("batch_size", "steps", "evaluate_every", "schedule")
    options = {**settings, **{name: chosen[name] for name in names}}
    if training.patience == 0:
        options["patience"] = 0
    say(f"Run: {command(options, choice.config, root)}")


def show_nothing(advice: Advice) -> None:
    """Print why nothing is recommended, and the likely causes."""
    say(f"{advice.reason} Likely causes, the likeliest first:")
    say_causes(advice.causes)


def say_causes(causes: Sequence[str]) -> None:
    """Print causes, one per line."""
    for number, cause in enumerate(causes, start=1):
        say(f"  {number}. {cause}")


def choice_text(row: AdviceRow) -> str:
    """Sampler, options and budgets of a row."""
    budgets = f", budgets {','.join(map(str, row.budgets))}" if row.budgets else ""
    return f"{described(row)}{budgets}"


def described(row: AdviceRow) -> str:
    """Sampler, estimator, first hop and history of a row."""
    hop = "exact first hop" if row.first_hop == "exact" and row.history == "none" else ""
    history = f"history {row.history}" if row.history not in ("", "none") else ""
    return ", ".join(part for part in (row.sampler, row.estimator, hop, history) if part)
