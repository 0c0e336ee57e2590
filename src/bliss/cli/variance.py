"""`bliss variance`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bliss.cli.console import console, errors, say, shown_steps
from bliss.cli.options import Debug, Figures, Root, Threads, names, set_threads, takes_settings

if TYPE_CHECKING:
    from bliss.studies import Variance

UNUSED = (
    *("sampler", "prefetch", "patience", "evaluate", "evaluate_draws", "survey"),
    *("shards", "reduction"),
)
"""Settings that the study of variance does not use."""


@takes_settings(
    without=UNUSED,
    sampler=False,
    basic=("policies", "every", "json", "figures", "threads"),
)
def variance(
    settings: dict[str, Any],
    policies: Annotated[
        str, typer.Option(help="Policies to compare with PLADIES, separated by commas.")
    ] = "static,exp3,node",
    every: Annotated[
        int | None, typer.Option(help="Steps between measurements; default a tenth of --steps.")
    ] = None,
    survey_every: Annotated[
        int,
        typer.Option(help="Also measure policies surveyed every so many steps; 0: no surveys."),
    ] = 0,
    history: Annotated[
        bool, typer.Option(help="Also measure each policy with a history of every node.")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="Write the numbers to this file.")] = None,
    figures: Figures = None,
    threads: Threads = None,
    root: Root = None,
    debug: Debug = False,
) -> None:
    """Measure the sampling variance of policies against its lower limit, while a network trains.

    V is the expected squared error of a layer's aggregates, computed in closed form from exact
    embeddings, on the same frontiers for all policies; the weighted V counts each target by its
    influence on the loss. The limit is the smallest V of any probabilities that keep the same
    number of sources on average. r is the error that sampling adds to the gradient of a batch,
    over the gradient itself, measured after the last step.
    """
    with errors(debug):
        from msgspec.structs import replace

        from bliss.data import load_dataset
        from bliss.errors import InputError
        from bliss.report import save_figures
        from bliss.storage import records
        from bliss.storage.files import refuse_folder
        from bliss.studies import VarianceStudy
        from bliss.studies.provenance import graph_facts, machine, today
        from bliss.train import resolve

        set_threads(threads)
        config = resolve(**settings, sampler="pladies", patience=0)
        if json is not None:
            refuse_folder("json", json, "variance.json")
        chosen = names(policies)
        if not chosen:
            raise InputError(
                f"policies={policies!r} names no policy: write for instance static,exp3,node."
            )
        loaded = load_dataset(config.data.dataset, root, seed=config.seed)
        every = every or max(config.training.steps // 10, 1)
        study = VarianceStudy(config, loaded, chosen, every, survey_every, history)
        with shown_steps(config.training.steps, "training step") as move:
            measured = study.run(move)
        measured = replace(measured, machine=machine(), date=today(), graph=graph_facts(loaded))
        show_variance(measured)
        if json is None and figures is not None:
            json = figures / "variance.json"
        if json is not None:
            records.write(json, measured)
            say(f"Written to {json}; for a report, run: bliss report {json}")
        if figures is not None and json is not None:
            say(f"{len(save_figures([json], figures))} figures written to {figures}")


def show_variance(record: Variance) -> None:
    """Print each policy's V by layer, relative to PLADIES and to the limit."""
    from rich.table import Table

    table = Table(
        "layer",
        "budget",
        "policy",
        "over PLADIES",
        "over limit",
        "weighted: over PLADIES",
        "over limit",
        "over training",
        title="V relative to PLADIES and to the limit, means over the second half of training",
    )
    for number, layer in enumerate(record.layers):
        place = (str(number + 1), f"{layer.budget:,}")
        if not layer.is_sampled:
            table.add_row(*place, "nothing sampled", end_section=True)
            continue
        least = [
            decimals(value)
            for value in (layer.limit_over_pladies, layer.weighted_limit_over_pladies)
        ]
        table.add_row(*place, "limit", least[0], "1.000", least[1], "1.000", "")
        for name, ratios in layer.policies.items():
            shown = (
                ratios.over_pladies,
                ratios.over_limit,
                ratios.weighted_over_pladies,
                ratios.weighted_over_limit,
            )
            table.add_row(*place, name, *map(decimals, shown), course(record, number, name))
        table.add_section()
    console().print(table)
    errors_of_gradient = Table(
        "policy", "r", "95% interval", "over PLADIES", title="Error of the gradient, last step"
    )
    base = record.gradient_error["pladies"].mean
    for name, found in record.gradient_error.items():
        span = f"{found.low:.3f} to {found.high:.3f}"
        ratio = decimals(found.mean / base if base > 0 else None)
        errors_of_gradient.add_row(name, decimals(found.mean), span, ratio)
    console().print(errors_of_gradient)
    numbered = list(enumerate(record.layers, start=1))
    if whole := [str(number) for number, layer in numbered if not layer.is_sampled]:
        say(
            f"Nothing was sampled in layer {', '.join(whole)}, because the budget covers every "
            "candidate: lower --budgets."
        )
    if idle := [
        str(number) for number, layer in numbered if (layer.limit_over_pladies or 0) > 0.95
    ]:
        say(f"Little to gain in layer {', '.join(idle)}: the limit is within 5% of PLADIES.")


def decimals(value: float | None) -> str:
    """Three decimal places; a dash for a number that does not exist."""
    return "\u2013" if value is None else f"{value:.3f}"


def course(record: Variance, layer: int, policy: str) -> str:
    """V relative to PLADIES over training: first value, bars from 0 to the largest, last value."""
    measured = [moment.layers[layer] for moment in record.history]
    ratios = [at.policies[policy] / at.pladies for at in measured if at.pladies > 0]
    bars = "▁▂▃▄▅▆▇█"
    drawn = "".join(bars[round((len(bars) - 1) * r / (max(ratios) or 1))] for r in ratios)
    return f"{ratios[0]:.2f} {drawn} {ratios[-1]:.2f}" if ratios else ""
