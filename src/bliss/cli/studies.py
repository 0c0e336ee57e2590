"""`bliss variance`, `compare`, `reproduce` and `report`: studies, and pages about them."""

from __future__ import annotations

import sys
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

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
from bliss.files import refuse_folder, replace_file
from bliss.report import save_figures, write_report
from bliss.studies import EVERYTHING, TABLES, VarianceStudy
from bliss.studies import compare as run_comparison
from bliss.studies import reproduce as run_reproduction
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
            replace_file(json, (dumps(found, indent=2) + "\n").encode())
            say(f"Written to {json}; a page of it: bliss report {json}")
        if figures is not None and json is not None:
            say(f"{len(save_figures([json], figures))} figures written to {figures}")


def show_variance(found: dict[str, Any]) -> None:
    """The table of a study: each policy by layer, against PLADIES and the limit."""
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
    for number, layer in enumerate(found["layers"]):
        place = (str(number + 1), f"{layer['budget']:,}")
        least = [f"{layer[f'{kind}limit_over_pladies']:.3f}" for kind in ("", "relative_")]
        table.add_row(*place, "limit", least[0], "1.000", least[1], "1.000", "")
        for name, ratios in layer["policies"].items():
            shown = [
                f"{ratios[f'{kind}over_{base}']:.3f}"
                for kind in ("", "relative_")
                for base in ("pladies", "limit")
            ]
            table.add_row(*place, name, *shown, course(found, number, name))
        table.add_section()
    console.print(table)
    idle = [
        str(number)
        for number, layer in enumerate(found["layers"], start=1)
        if layer["limit_over_pladies"] > 0.95
    ]
    if idle:
        say(
            f"Little to gain in layer {', '.join(idle)}: the best possible is within 5% of PLADIES."
        )


def course(found: dict[str, Any], layer: int, policy: str) -> str:
    """V over PLADIES' through training, as bars from 0 to the largest, with its two ends."""
    measured = [one["layers"][layer] for one in found["history"]]
    ratios = [one["policies"][policy] / one["pladies"] if one["pladies"] else 1 for one in measured]
    bars = "▁▂▃▄▅▆▇█"
    drawn = "".join(bars[round((len(bars) - 1) * r / max(ratios))] for r in ratios)
    return f"{ratios[0]:.2f} {drawn} {ratios[-1]:.2f}"


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
        str, typer.Option(help="Shares of the budget, for F1 as the budget shrinks; 1 for none.")
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


def show_comparison(found: dict[str, Any]) -> None:
    """One line for each sampler."""
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
        f"s to F1 {found['target_f1']:.3f}",
        title=f"{found['dataset']}, {len(found['seeds'])} seeds",
    )
    for row in found["rows"]:
        waited, reached = row["seconds_to_target"], f"{row['reached']}/{row['seeds']}"
        table.add_row(
            row["model"],
            row["sampler"],
            f"{row['budget_share']:.0%}",
            f"{row['test_f1']:.4f} ± {row['test_f1_std']:.4f}",
            "" if row["difference"] is None else f"{row['difference']:+.4f}",
            "" if row["p_value"] is None else f"{row['p_value']:.3f}",
            f"{row['step_ms']['total']:.1f}",
            f"{row['nodes']:,.0f}",
            f"{row['edges']:,.0f}",
            f"{row['peak_mb']:,.0f}",
            "never" if waited is None else f"{waited:.1f} ({reached})",
        )
    console.print(table)
    for one in found["skipped"]:
        say(f"Left out: {one['sampler']} with {one['model']}: {one['why']}")


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


def show_reproduction(found: dict[str, Any]) -> None:
    """Test F1 and time beside the published numbers."""
    for name, decimals in (("f1", 3), ("time", 4)):
        rows = found["tables"].get(name)
        if not rows:
            continue
        title = "micro-F1" if name == "f1" else "seconds a step"
        table = Table(
            "preset", "data", "model", "sampler", "split", "ours", "published", title=title
        )
        for row in rows:
            table.add_row(
                row["preset"],
                row["dataset"],
                row["model"],
                row["sampler"],
                row.get("split", ""),
                f"{row['ours']:.{decimals}f} ± {row['ours_std']:.{decimals}f}",
                f"{row['published']:.3f} ± {row['published_std']:.3f}",
            )
        console.print(table)
    if found["tables"].get("variance"):
        table = Table("quantity", "sampler", "grows with", "exponent", "stated")
        for row in found["tables"]["variance"]:
            table.add_row(
                row["quantity"],
                row["sampler"],
                row["grows_with"],
                f"{row['exponent']:.2f}",
                str(row["stated"]),
            )
        console.print(table)


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
