"""`bliss variance`, `compare`, `reproduce` and `report`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from bliss.cli.console import errors, say, shown_steps, shown_study
from bliss.cli.options import (
    Debug,
    Figures,
    Root,
    Threads,
    folder,
    names,
    numbers,
    parse_seeds,
    set_threads,
    takes_settings,
)
from bliss.studies.records import TABLES

Out = Annotated[
    Path,
    typer.Option(
        help="Folder of the study; run the same command again to continue it.",
        parser=folder,
        metavar="PATH",
    ),
]


UNUSED = (
    *("sampler", "prefetch", "patience", "evaluate", "evaluate_draws", "survey"),
    *("shards", "reduction"),
)
"""Settings that the study of variance does not use."""


@takes_settings(without=UNUSED, sampler=False)
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
    embeddings, on the same frontiers for all policies. The limit is the smallest V of any
    probabilities that keep the same number of sources on average.
    """
    with errors(debug):
        from msgspec.structs import replace

        from bliss.cli.console_tables import show_variance
        from bliss.data import load_dataset
        from bliss.errors import InputError
        from bliss.report import save_figures
        from bliss.storage import records
        from bliss.storage.files import refuse_folder
        from bliss.studies import VarianceStudy
        from bliss.studies.runs import graph_facts, machine, today
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
            found = study.run(move)
        found = replace(found, machine=machine(), date=today(), graph=graph_facts(loaded))
        show_variance(found)
        if json is None and figures is not None:
            json = figures / "variance.json"
        if json is not None:
            records.write(json, found)
            say(f"Written to {json}; for a report, run: bliss report {json}")
        if figures is not None and json is not None:
            say(f"{len(save_figures([json], figures))} figures written to {figures}")


@takes_settings(without=("model", "sampler", "seed", "budgets", "estimator", "reduction"))
def compare(
    settings: dict[str, Any],
    out: Out,
    more: Annotated[
        list[str] | None,
        typer.Argument(
            help="More budgets, as after --budgets.",
            metavar="[UNIT=NUMBERS]...",
            show_default=False,
        ),
    ] = None,
    samplers: Annotated[
        str,
        typer.Option(
            help="Names, or all; bliss:exp3 selects a policy, bliss+history an option. The others "
            "are compared with the first."
        ),
    ] = "bliss,pladies,ladies",
    models: Annotated[str, typer.Option(help="Networks, separated by commas.")] = "sage",
    seeds: Annotated[str, typer.Option(help="Seeds, or their number: 0,1,2 or 3.")] = "5",
    budgets: Annotated[
        str | None,
        typer.Option(
            help="Sizes by unit: layer=4096,2048,1024 node=10,10,10 subgraph=6000 (sources per "
            "layer, neighbours per target, batch size of subgraph samplers; input layer first). "
            "Without a unit: layer. With --match, the size of the first sampler.",
            show_default="the recipe's",
        ),
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(
            help="Give samplers the size at which a step has as many nodes, edges or ms as one of "
            "the first sampler; none: the sizes of --budgets.",
            show_default="nodes; none if --budgets has units",
        ),
    ] = None,
    sizes: Annotated[
        str,
        typer.Option(
            help="authors: the sizes that samplers' authors published for the data set.",
            show_default=False,
        ),
    ] = "",
    estimator: Annotated[
        str | None,
        typer.Option(
            help="Estimator of all samplers that offer it; own: the default of each.",
            show_default="the recipe's, otherwise hajek",
        ),
    ] = None,
    search: Annotated[
        int,
        typer.Option(
            help="Number of settings of learning rate and dropout to try for each sampler; the "
            "best by validation score is used."
        ),
    ] = 0,
    shares: Annotated[
        str, typer.Option(help="Shares of the size, above 0 and at most 1, such as 1,0.5,0.25.")
    ] = "1",
    target_score: Annotated[
        float | None,
        typer.Option(
            help="Target validation score for timing; default the highest all runs reached."
        ),
    ] = None,
    threads: Threads = None,
    root: Root = None,
    debug: Debug = False,
) -> None:
    """Compare samplers on the same data, recipe, work per step, estimator and seeds."""
    with errors(debug):
        from bliss.cli.console_tables import show_comparison
        from bliss.studies import EVERYTHING
        from bliss.studies import compare as run_comparison

        set_threads(threads)
        given = " ".join([*([budgets] if budgets is not None else []), *(more or [])])
        with shown_study() as move:
            found = run_comparison(
                settings,
                names(samplers, EVERYTHING),
                names(models),
                parse_seeds(seeds),
                numbers("shares", shares, "1,0.5,0.25"),
                out,
                budgets=given if budgets is not None or more else None,
                match=match,
                sizes=sizes,
                estimator=estimator,
                search=search,
                root=root,
                target_score=target_score,
                command=command_line(),
                say=say,
                on_progress=move,
            )
        show_comparison(found)
        say(f"Written to {out / 'compare.json'}; for a report, run: bliss report {out}")


def reproduce(
    out: Out = Path("reproduction"),
    preset: Annotated[
        str, typer.Option(help="paper (like the released code), ours, or both: paper,ours.")
    ] = "paper,ours",
    tables: Annotated[
        str, typer.Option(help="Tables: f1, time, variance (measured complexity and variance).")
    ] = ",".join(TABLES),
    figures: Annotated[bool, typer.Option(help="Also write the figures, as PNG and SVG.")] = False,
    datasets: Annotated[
        str, typer.Option(help="Data sets: citeseer, cora, flickr, pubmed, reddit, yelp, or all.")
    ] = "all",
    models: Annotated[str, typer.Option(help="Networks: gat, sage or both.")] = "gat,sage",
    seeds: Annotated[int, typer.Option(help="Number of runs per cell.")] = 5,
    steps: Annotated[
        int | None, typer.Option(help="Training steps; default the published number.")
    ] = None,
    threads: Threads = None,
    root: Root = None,
    debug: Debug = False,
) -> None:
    """Rerun the paper's tables and figures, and compare each number with the published one.

    Each data set takes 40 runs with the defaults. Finished runs in --out are not repeated.
    """
    with errors(debug):
        from bliss.cli.console_tables import show_reproduction
        from bliss.report import save_figures
        from bliss.studies import reproduce as run_reproduction

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
        say(f"Written to {out / 'reproduce.json'}; for a report, run: bliss report {out}")


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folders of runs, comparisons or reproductions; files of variance."),
    ],
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("report.html"),
    figures: Figures = None,
    debug: Debug = False,
) -> None:
    """Write a self-contained HTML page about runs, comparisons, reproductions or variance."""
    with errors(debug):
        from bliss.report import save_figures, write_report

        say(f"Written to {write_report(folders, out)}")
        if figures is not None:
            say(f"{len(save_figures(folders, figures))} figures written to {figures}")


def command_line() -> str:
    """The command line, stored with the results."""
    return " ".join(["bliss", *sys.argv[1:]])
