"""`bliss variance`, `compare`, `reproduce` and `report`: studies, and pages about them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from bliss import records
from bliss.cli.console import console, errors, say, shown_steps, shown_study
from bliss.cli.options import (
    Debug,
    Root,
    Threads,
    names,
    numbers,
    parse_seeds,
    parsed,
    set_threads,
    takes_settings,
)
from bliss.data import load_dataset
from bliss.errors import InputError
from bliss.files import refuse_folder
from bliss.report import save_figures, write_report
from bliss.studies import (
    EVERYTHING,
    TABLES,
    Comparison,
    Reproduction,
    Variance,
    VarianceStudy,
)
from bliss.studies import compare as run_comparison
from bliss.studies import reproduce as run_reproduction
from bliss.studies.records import Rerun
from bliss.train import resolve

Out = Annotated[Path, typer.Option(help="Folder of the study; the same one goes on with it.")]


@takes_settings(
    "sampler",
    "policy",
    "estimator",
    "thinning",
    "sampler_options",
    "prefetch",
    "patience",
    "validation",
)
def variance(
    settings: dict[str, Any],
    policies: Annotated[
        str, typer.Option(help="Policies to measure beside PLADIES, separated by commas.")
    ] = "static,exp3,node",
    every: Annotated[
        int | None, typer.Option(help="Steps between measurements; by default a tenth.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the numbers to this file.")] = None,
    figures: Annotated[
        Path | None,
        typer.Option(help="Write plots over training into this folder, as PNG and SVG."),
    ] = None,
    threads: Threads = None,
    root: Root = None,
    debug: Debug = False,
) -> None:
    """Measure how far each policy is from the best possible sampling, while a network trains.

    V is the expected squared error of a layer's aggregates, in closed form, on exact embeddings
    and the same frontiers for all. The limit is the least V that any probabilities reach which
    keep as many sources on average.
    """
    with errors(debug):
        set_threads(threads)
        config = resolve(**parsed(settings), sampler="pladies", patience=0)
        if json is not None:
            refuse_folder("json", json, "variance.json")
        chosen = names(policies)
        if not chosen:
            raise InputError(f"policies={policies!r} names none: static,exp3,node.")
        loaded = load_dataset(config.dataset, root, seed=config.seed)
        study = VarianceStudy(config, loaded, chosen, every or max(config.steps // 10, 1))
        with shown_steps(config.steps, "training step") as move:
            found = study.run(move)
        show_variance(found)
        if json is None and figures is not None:
            json = figures / "variance.json"
        if json is not None:
            records.write(json, found)
            say(f"Written to {json}; a page of it: bliss report {json}")
        if figures is not None and json is not None:
            say(f"{len(save_figures([json], figures))} figures written to {figures}")


def show_variance(found: Variance) -> None:
    """Print a table of each policy's V by layer, against PLADIES and the limit."""
    table = Table(
        "layer",
        "budget",
        "policy",
        "over PLADIES",
        "over limit",
        "relative: over PLADIES",
        "over limit",
        "over training",
        title="V over that of PLADIES and of the limit, means over the second half of training",
    )
    for number, layer in enumerate(found.layers):
        place = (str(number + 1), f"{layer.budget:,}")
        if not layer.is_sampled:
            table.add_row(*place, "nothing sampled", end_section=True)
            continue
        least = [
            decimals(value)
            for value in (layer.limit_over_pladies, layer.relative_limit_over_pladies)
        ]
        table.add_row(*place, "limit", least[0], "1.000", least[1], "1.000", "")
        for name, ratios in layer.policies.items():
            shown = (
                ratios.over_pladies,
                ratios.over_limit,
                ratios.relative_over_pladies,
                ratios.relative_over_limit,
            )
            table.add_row(*place, name, *map(decimals, shown), course(found, number, name))
        table.add_section()
    console.print(table)
    numbered = list(enumerate(found.layers, start=1))
    if whole := [str(number) for number, layer in numbered if not layer.is_sampled]:
        say(
            f"Nothing was sampled in layer {', '.join(whole)}: the budget covers every candidate. "
            "Lower --budgets."
        )
    if idle := [
        str(number) for number, layer in numbered if (layer.limit_over_pladies or 0) > 0.95
    ]:
        say(
            f"Little to gain in layer {', '.join(idle)}: the best possible is within 5% of PLADIES."
        )


def decimals(value: float | None) -> str:
    """Three decimal places; a dash for a number that does not exist."""
    return "\u2013" if value is None else f"{value:.3f}"


def course(found: Variance, layer: int, policy: str) -> str:
    """V over that of PLADIES during training, as bars from 0 to the largest, with both ends."""
    measured = [moment.layers[layer] for moment in found.history]
    ratios = [one.policies[policy] / one.pladies for one in measured if one.pladies > 0]
    bars = "▁▂▃▄▅▆▇█"
    drawn = "".join(bars[round((len(bars) - 1) * r / (max(ratios) or 1))] for r in ratios)
    return f"{ratios[0]:.2f} {drawn} {ratios[-1]:.2f}" if ratios else ""


@takes_settings("model", "sampler", "policy", "sampler_options", "seed")
def compare(
    settings: dict[str, Any],
    out: Out,
    samplers: Annotated[
        str,
        typer.Option(
            help="Names, or all; bliss:exp3 chooses a policy. Others are held against the first."
        ),
    ] = "bliss,pladies,ladies",
    models: Annotated[str, typer.Option(help="Networks, separated by commas.")] = "sage",
    seeds: Annotated[str, typer.Option(help="Seeds, or how many: 0,1,2 or 3.")] = "3",
    shares: Annotated[
        str, typer.Option(help="Shares of the budget, above 0 and at most 1, in any order.")
    ] = "1,0.5,0.25",
    target_f1: Annotated[
        float | None,
        typer.Option(help="Validation F1 to time; by default the largest that all runs reached."),
    ] = None,
    threads: Threads = None,
    root: Root = None,
    debug: Debug = False,
) -> None:
    """Set samplers side by side: the same data, recipe, budget and seeds."""
    with errors(debug):
        set_threads(threads)
        with shown_study() as move:
            found = run_comparison(
                parsed(settings),
                names(samplers, EVERYTHING),
                names(models),
                parse_seeds(seeds),
                numbers("shares", shares, "1,0.5,0.25"),
                out,
                root=root,
                target_f1=target_f1,
                command=command_line(),
                say=say,
                on_progress=move,
            )
        show_comparison(found)
        say(f"Written to {out / 'compare.json'}; a page of it: bliss report {out}")


def show_comparison(found: Comparison) -> None:
    """Print one line for each row of a comparison."""
    table = Table(
        "model",
        "sampler",
        "budget",
        "test F1",
        "difference",
        "p",
        "ms a step",
        "nodes",
        "edges",
        "peak MB",
        f"s to F1 {found.target_f1:.3f}",
        title=f"{found.dataset}, {len(found.seeds)} seed{'s' if len(found.seeds) > 1 else ''}",
    )
    for row in found.rows:
        wait = row.seconds_to_target
        table.add_row(
            row.model,
            row.sampler,
            f"{row.budget_share:.0%}" if row.budgets else "",
            spread(row.test_f1, row.test_f1_std, 4),
            "" if row.difference is None else f"{row.difference:+.4f}",
            "" if row.p_value is None else f"{row.p_value:.3f}",
            f"{row.step_ms['total']:.1f}",
            f"{row.nodes:,.0f}",
            f"{row.edges:,.0f}",
            f"{row.peak_mb:,.0f}",
            "never" if wait is None else f"{wait:.1f} ({row.reached}/{row.seeds})",
        )
    console.print(table)
    for one in found.skipped:
        say(f"Left out: {one.sampler} with {one.model}: {one.why}")


def spread(value: float, deviation: float | None, places: int) -> str:
    """A mean with its deviation, which a single seed does not have."""
    return f"{value:.{places}f}" + ("" if deviation is None else f" ± {deviation:.{places}f}")


def reproduce(
    out: Out = Path("reproduction"),
    preset: Annotated[
        str, typer.Option(help="paper (as the released code), ours, or both: paper,ours.")
    ] = "paper,ours",
    tables: Annotated[
        str, typer.Option(help="f1, time and variance (complexity and variance, measured).")
    ] = ",".join(TABLES),
    figures: Annotated[bool, typer.Option(help="Also write the figures, as PNG and SVG.")] = False,
    datasets: Annotated[
        str, typer.Option(help="Of citeseer, cora, flickr, pubmed, reddit, yelp; or all.")
    ] = "all",
    models: Annotated[str, typer.Option(help="gat, sage or both.")] = "gat,sage",
    seeds: Annotated[int, typer.Option(help="Runs of each cell.")] = 5,
    steps: Annotated[
        int | None, typer.Option(help="Training steps, where not the published number.")
    ] = None,
    threads: Threads = None,
    root: Root = None,
    debug: Debug = False,
) -> None:
    """Rerun the paper's tables and figures, each number beside the published one.

    It can be stopped and continued: what is finished in --out is not run again.
    """
    with errors(debug):
        set_threads(threads)
        with shown_study() as move:
            found = run_reproduction(
                out,
                presets=names(preset),
                tables=names(tables),
                datasets=None if datasets == "all" else names(datasets),
                models=names(models),
                seeds=seeds,
                steps=steps,
                root=root,
                command=command_line(),
                say=say,
                on_progress=move,
            )
        show_reproduction(found)
        if figures:
            written = save_figures([out], out / "figures")
            say(f"{len(written)} figures written to {out / 'figures'}")
        say(f"Written to {out / 'reproduce.json'}; a page of it: bliss report {out}")


def show_reproduction(found: Reproduction) -> None:
    """Print test F1, time and fitted exponents beside the published ones."""
    names = ("preset", "data", "model", "sampler")
    if found.tables.f1:
        table = Table(*names, "split", "ours", "published", title="micro-F1")
        for score in found.tables.f1:
            table.add_row(*who(score), score.split, *ours_and_published(score, 3))
        console.print(table)
    if found.tables.time:
        table = Table(*names, "ours", "published", title="seconds a step")
        for pace in found.tables.time:
            table.add_row(*who(pace), *ours_and_published(pace, 4))
        console.print(table)
    if found.tables.variance:
        table = Table("quantity", "sampler", "grows with", "exponent", "stated")
        for row in found.tables.variance:
            stated = row.stated if isinstance(row.stated, str) else f"{row.stated:g}"
            table.add_row(row.quantity, row.sampler, row.grows_with, f"{row.exponent:.2f}", stated)
        console.print(table)


def who(row: Rerun) -> tuple[str, ...]:
    """The cells that identify a row of a reproduction."""
    return row.preset, row.dataset, row.model, row.sampler


def ours_and_published(row: Rerun, places: int) -> tuple[str, str]:
    """Our number and the published one, each with its deviation."""
    return (
        spread(row.ours, row.ours_std, places),
        spread(row.published, row.published_std, 3),
    )


def report(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders of runs, comparisons, reproductions.")
    ],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    figures: Annotated[
        Path | None, typer.Option(help="Also write the figures into this folder, PNG and SVG.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Make one page, without any network, of runs, comparisons, reproductions or variance."""
    with errors(debug):
        say(f"Written to {write_report(folders, out)}")
        if figures is not None:
            say(f"{len(save_figures(folders, figures))} figures written to {figures}")


def command_line() -> str:
    """The command as it was given, for the record."""
    return " ".join(["bliss", *sys.argv[1:]])
