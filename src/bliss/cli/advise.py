"""`bliss advise`, and budgets="auto" of `bliss train`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bliss.cli.console import console, errors, say
from bliss.cli.options import Debug, Root, Threads, set_threads, takes_settings

if TYPE_CHECKING:
    from bliss.data import Dataset
    from bliss.studies import Advice
    from bliss.studies.advice.advice_record import AdviceRow
    from bliss.train import TrainConfig


@takes_settings(
    without=("budgets", "shards", "reduction"), basic=("pilot_steps", "limit", "json", "threads")
)
def advise(
    settings: dict[str, Any],
    pilot_steps: Annotated[int, typer.Option(help="Steps that the network is trained for.")] = 60,
    limit: Annotated[
        float, typer.Option(help="Largest relative error of the gradient that is accepted.")
    ] = 0.1,
    json: Annotated[
        Path | None,
        typer.Option(help="Write the advice to this file, with the fitted models and their fit."),
    ] = None,
    threads: Threads = None,
    root: Root = None,
    debug: Debug = False,
) -> None:
    """Choose sampler, estimator, first hop, history and budgets for a graph and a network.

    A short pilot measures the error of the gradient and the time of a step for each kind of
    sampler at several budgets. The choice has the least time x (1 + error) with an error of at most
    --limit. Settings of the sampler that are given stay as they are. See docs/advice.md.
    """
    with errors(debug):
        from bliss.data import load_dataset
        from bliss.storage import records
        from bliss.storage.files import refuse_folder
        from bliss.studies import advise as find_advice
        from bliss.train import resolve

        set_threads(threads)
        if json is not None:
            refuse_folder("json", json, "advice.json")
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


def show_nothing(advice: Advice) -> None:
    """Print why nothing is recommended, and the likely causes."""
    say(f"{advice.reason} Likely causes, the likeliest first:")
    for number, cause in enumerate(advice.causes, start=1):
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
