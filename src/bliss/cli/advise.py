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


@takes_settings(without=("budgets", "shards", "reduction"))
def advise(
    settings: dict[str, Any],
    pilot_steps: Annotated[int, typer.Option(help="Steps that the network is trained for.")] = 60,
    limit: Annotated[
        float, typer.Option(help="Largest relative error of the gradient that is accepted.")
    ] = 0.1,
    json: Annotated[Path | None, typer.Option(help="Write the advice to this file.")] = None,
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
    say(f"budgets=auto, after {advice.seconds:.0f} s: {advice.reason} {described(advice.choice)}")
    return advice.config


def show_advice(advice: Advice) -> None:
    """Print the table, the fits, the notes and the command."""
    from rich.table import Table

    table = Table(
        "",
        "settings",
        "budgets",
        "error by layer",
        "gradient error",
        "error, measured",
        "ms/step",
        "ms, measured",
        "ms x (1 + error)",
        title=f"{advice.dataset}, {advice.model}, batches of {advice.batch_size}",
    )
    for row in advice.rows:
        table.add_row(
            f"> {row.name}" if row.name == advice.choice.name else row.name,
            described(row),
            ",".join(map(str, row.budgets)),
            " ".join(f"{error:.2g}" for error in row.errors),
            f"{row.gradient_error:.3f}",
            "" if row.measured_error is None else f"{row.measured_error:.3f}",
            f"{row.ms:.1f}",
            "" if row.measured_ms is None else f"{row.measured_ms:.1f}",
            f"{row.cost:.1f}",
        )
    console().print(table)
    for fit in advice.fits:
        say(
            f"Fit of {fit.name}: times within {fit.ms_residual:.0%}, gradient errors within "
            f"{fit.gradient_residual:.0%} (medians); {fit.base_ms:.1f} ms + us per source "
            f"{listed(fit.source_us)}, per edge {listed(fit.edge_us)}"
        )
    say(advice.variance_note)
    say(advice.reason)
    say(f"Run: {advice.command}")


def listed(values: list[float]) -> str:
    """Numbers separated by slashes, one per layer."""
    return "/".join(f"{value:.2g}" for value in values)


def described(row: AdviceRow) -> str:
    """Sampler, estimator, first hop and history of a row."""
    hop = "exact first hop" if row.first_hop == "exact" and row.history == "none" else ""
    history = f"history {row.history}" if row.history not in ("", "none") else ""
    return ", ".join(part for part in (row.sampler, row.estimator, hop, history) if part)
