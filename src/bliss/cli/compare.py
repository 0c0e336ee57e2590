"""`bliss compare`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bliss.cli.console import console, errors, say, shown_study, spread
from bliss.cli.options import (
    Debug,
    Root,
    Threads,
    folder,
    names,
    numbers,
    parse_seeds,
    set_threads,
    takes_settings,
)
from bliss.text import printable
from bliss.train.budget_text import budgets_text
from bliss.train.results import short_name

if TYPE_CHECKING:
    from bliss.studies import Comparison
    from bliss.studies.comparison.comparison_record import ComparisonRow

Out = Annotated[
    Path,
    typer.Option(
        help="Folder of the study; run the same command again to continue it.",
        parser=folder,
        metavar="PATH",
    ),
]


@takes_settings(
    without=("model", "sampler", "seed", "budgets", "estimator", "reduction"),
    basic=("samplers", "models", "seeds", "match", "estimator", "out", "threads"),
)
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
            "Without a unit: layer. With types, as in `bliss train`: layer=author=64,paper=128/32 "
            "node=author,writes,paper=5/10. With --match, the size of the first sampler.",
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
            help="Estimator of all samplers that offer it; own: that of each in `bliss train`.",
            show_default="own",
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
        from bliss.studies import ALL_SAMPLERS
        from bliss.studies import compare as run_comparison

        set_threads(threads)
        given = " ".join([*([budgets] if budgets is not None else []), *(more or [])])
        with shown_study() as move:
            comparison = run_comparison(
                settings,
                names(samplers, ALL_SAMPLERS),
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
        show_comparison(comparison)
        say(f"Written to {out / 'compare.json'}; for a report, run: bliss report {out}")


def show_comparison(comparison: Comparison) -> None:
    """Print one line for each row of a comparison: results first, then what they cost."""
    from rich.table import Table

    plural = "s" if len(comparison.seeds) > 1 else ""
    same = f", as many {comparison.match} per step" if comparison.match else ""
    score = short_name(comparison.metric, comparison.ranks)
    has_errors = any(row.test_mse is not None for row in comparison.rows)
    table = Table(
        "model",
        "sampler",
        "share",
        "rank",
        f"test {score}",
        *(["test MSE"] if has_errors else []),
        "difference",
        "p",
        f"s to {score} {comparison.target_score:.3f}",
        title=f"{comparison.dataset}, {len(comparison.seeds)} seed{plural}{same}: "
        f"test {score} ± 95% interval",
    )
    for row in comparison.rows:
        wait = row.seconds_to_target
        table.add_row(
            row.model,
            row.sampler,
            f"{row.budget_share:.0%}" if row.unit else "",
            rank(row),
            spread(row.test_score, row.test_score_interval, 4),
            *(["" if row.test_mse is None else f"{row.test_mse:.4g}"] if has_errors else []),
            "" if row.difference is None else f"{row.difference:+.4f}",
            "" if row.p_value is None else f"{row.p_value:.3f}",
            "never" if wait is None else f"{wait:.1f} ({row.reached}/{row.seeds})",
        )
    console().print(table)
    if any(row.is_tied for row in comparison.rows):
        say(
            "Tied: not significantly worse than the best of the rank, by paired t-tests over "
            f"{len(comparison.seeds)} seed{plural} (5% level, Holm's correction). With more "
            "--seeds, smaller differences become significant."
        )
    show_conditions(comparison)
    for skipped in comparison.skipped:
        say(f"Left out: {skipped.sampler} with {skipped.model}: {skipped.why}")


def show_conditions(comparison: Comparison) -> None:
    """Print what each row of a comparison was run with, and what a step of it cost."""
    from rich.table import Table

    table = Table(
        "sampler",
        "size",
        "match",
        "estimator",
        "lr",
        "dropout",
        "search",
        "ms/step",
        "nodes",
        "edges",
        "peak MB",
        title=f"sizes and cost; estimator {comparison.estimator}",
    )
    for row in comparison.rows:
        size = row.budgets or ([row.batch_size] if row.unit == "subgraph" else [])
        table.add_row(
            row.sampler,
            printable(f"{row.unit} {budgets_text(size).replace(',', ', ')}") if size else "",
            "" if row.match is None else f"{row.match:.2f}",
            row.estimator or "\u2013",
            f"{row.lr:g}",
            f"{row.dropout:g}",
            f"{len(row.search.trials)} runs, {row.search.seconds:.0f} s" if row.search else "",
            f"{row.step_ms['total']:.1f}",
            f"{row.nodes:,.0f}",
            f"{row.edges:,.0f}",
            f"{row.peak_mb:,.0f}",
        )
    console().print(table)


def rank(row: ComparisonRow) -> str:
    """The rank, with "tied" if it is shared."""
    return "" if row.rank is None else f"{row.rank}{' tied' if row.is_tied else ''}"


def command_line() -> str:
    """The command line, stored with the results."""
    return " ".join(["bliss", *sys.argv[1:]])
