"""Tables of studies and results on the terminal."""

from __future__ import annotations

from rich.table import Table

from bliss.cli.console import console, say
from bliss.studies.records import Comparison, ComparisonRow, Variance
from bliss.train.results import RunResult, short_name

SPLITS = ("train", "validation", "test")


def show_variance(found: Variance) -> None:
    """Print each policy's V by layer, relative to PLADIES and to the limit."""
    table = Table(
        "layer",
        "budget",
        "policy",
        "over PLADIES",
        "over limit",
        "relative: over PLADIES",
        "over limit",
        "over training",
        title="V relative to PLADIES and to the limit, means over the second half of training",
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
    console().print(table)
    numbered = list(enumerate(found.layers, start=1))
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


def course(found: Variance, layer: int, policy: str) -> str:
    """V relative to PLADIES over training: first value, bars from 0 to the largest, last value."""
    measured = [moment.layers[layer] for moment in found.history]
    ratios = [one.policies[policy] / one.pladies for one in measured if one.pladies > 0]
    bars = "▁▂▃▄▅▆▇█"
    drawn = "".join(bars[round((len(bars) - 1) * r / (max(ratios) or 1))] for r in ratios)
    return f"{ratios[0]:.2f} {drawn} {ratios[-1]:.2f}" if ratios else ""


def show_comparison(found: Comparison) -> None:
    """Print one line for each row of a comparison: results first, then what they cost."""
    plural = "s" if len(found.seeds) > 1 else ""
    same = f", as many {found.match} per step" if found.match else ""
    score = short_name(found.metric)
    has_errors = any(row.test_mse is not None for row in found.rows)
    table = Table(
        "model",
        "sampler",
        "share",
        "rank",
        f"test {score}",
        *(["test MSE"] if has_errors else []),
        "difference",
        "p",
        f"s to {score} {found.target_score:.3f}",
        title=f"{found.dataset}, {len(found.seeds)} seed{plural}{same}: "
        f"test {score} ± 95% interval",
    )
    for row in found.rows:
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
    show_conditions(found)
    for one in found.skipped:
        say(f"Left out: {one.sampler} with {one.model}: {one.why}")


def show_conditions(found: Comparison) -> None:
    """Print what each row of a comparison was run with, and what a step of it cost."""
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
        title=f"sizes and cost; estimator {found.estimator}",
    )
    for row in found.rows:
        size = row.budgets or ([row.batch_size] if row.unit == "subgraph" else [])
        table.add_row(
            row.sampler,
            f"{row.unit} {', '.join(map(str, size))}" if size else "",
            "" if row.match is None else f"{row.match:.2f}",
            row.estimator or "\u2013",
            "" if row.lr is None else f"{row.lr:g}",
            "" if row.dropout is None else f"{row.dropout:g}",
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


def spread(value: float, deviation: float | None, places: int) -> str:
    """Mean with its standard deviation or interval, if there is more than one seed."""
    return f"{value:.{places}f}" + ("" if deviation is None else f" ± {deviation:.{places}f}")


def show_result(result: RunResult) -> None:
    """Print the result of a run in two or three lines."""
    say(
        f"{result.metric} of the best step ({result.best_step}): train {result.train_score:.4f}, "
        f"validation {result.val_score:.4f}, test {result.test_score:.4f}"
    )
    errors = (result.train_mse, result.val_mse, result.test_mse)
    shown = [f"{name} {e:.4g}" for name, e in zip(SPLITS, errors, strict=True) if e is not None]
    if shown:
        say(f"mean squared error: {', '.join(shown)}")
    parts = ", ".join(f"{name} {ms:.1f}" for name, ms in result.step_ms.items())
    say(f"{result.seconds:.1f} s; median ms per step: {parts}")
