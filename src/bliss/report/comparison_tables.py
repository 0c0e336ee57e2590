"""Tables of a comparison: scores, conditions, cost, time of a step, smaller budgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bliss.report.cells import (
    Cell,
    ReportTable,
    chance,
    fixed,
    number,
    rounded,
    score_cell,
    score_spread,
    short,
    signed,
    text,
    whole_numbers,
)
from bliss.report.significance import corrected
from bliss.studies.comparison.comparison_record import Comparison, ComparisonRow

Columns = dict[str, Callable[[ComparisonRow], Cell]]
Label = Callable[[ComparisonRow], str]
INTERVAL = "half the 95% interval of the mean"
"""What stands after the sign ± of test scores."""


def rank(row: ComparisonRow) -> Cell:
    """The rank, with an equals sign if it is shared."""
    shown = fixed(row.rank, 0) + ("=" if row.is_tied else "")
    return Cell(shown, row.rank)


WHO: Columns = {
    "Sampler": lambda row: text(row.sampler),
    "Policy": lambda row: text(row.policy),
}
TESTED: Columns = {
    "Difference": lambda row: signed(row.difference),
    "p": lambda row: chance(row.p_value),
}


def tested(score: str) -> Columns:
    """The score of the test nodes ("F1" or "R2"), and its difference to the first sampler."""
    return {
        f"Test {score}": lambda row: score_spread(row.test_score, row.test_score_interval),
        **TESTED,
    }


def scores(rows: Sequence[ComparisonRow], label: Label, score: str) -> ReportTable:
    """Test scores with ranks and differences first, then the rest."""
    after = {id(row): p for row, p in corrected(rows)}
    columns: Columns = {
        "Sampler": lambda row: text(label(row)),
        "Rank": rank,
        f"Test {score}": tested(score)[f"Test {score}"],
        "Difference": TESTED["Difference"],
        "p, Holm": lambda row: chance(after.get(id(row))),
        "p": TESTED["p"],
        f"Validation {score}": lambda row: score_spread(row.val_score, row.val_score_std),
        f"Training {score}": lambda row: score_cell(row.train_score),
        **({"Test MSE": lambda row: rounded(row.test_mse)} if score != "F1" else {}),
        "Seeds": lambda row: number(row.seeds),
        "Policy": lambda row: text(row.policy),
    }
    ranked = (
        " Samplers that are not significantly worse than the best of a rank share it (=)."
        if any(row.rank is not None for row in rows)
        else ""
    )
    return ReportTable.of(
        "Scores",
        rows,
        columns,
        f"{'Micro-F1' if score == 'F1' else score}, means over seeds. Test {score} ± "
        f"{INTERVAL}, validation {score} ± one standard deviation. Difference is test "
        f"{score} minus that of {label(rows[0])} with the same seeds, and p is its paired t-test, "
        "also with Holm's correction over the rows of this table." + ranked,
    )


def conditions(
    file: Comparison, rows: Sequence[ComparisonRow], label: Label, score: str
) -> ReportTable:
    """What each sampler was run with."""
    note = "Sizes are sources per layer, neighbours per target, or the batch size of a subgraph."
    if file.match:
        note += (
            f" Match is the {file.match} of a step over those of {label(rows[0])}, means over all "
            "steps."
        )
    if any(row.search for row in rows):
        note += (
            f" Learning rate and dropout are those of the best validation {score} in the search."
        )
    columns: Columns = {
        "Sampler": lambda row: text(label(row)),
        "Size": lambda row: text(size(row)),
        "Match": lambda row: number(row.match, 2),
        "Estimator": lambda row: text(row.estimator),
        "Learning rate": lambda row: short(row.lr),
        "Dropout": lambda row: short(row.dropout),
        "Search, runs": lambda row: number(len(row.search.trials) if row.search else None),
        "Search, s": lambda row: rounded(row.search.seconds if row.search else None),
    }
    return ReportTable.of("Sizes and settings", rows, columns, note)


def size(row: ComparisonRow) -> str:
    """'layer 4,096 / 2,048 / 1,024', 'subgraph 6,000'."""
    if row.unit == "subgraph":
        return f"subgraph {row.batch_size:,}"
    return f"{row.unit} {whole_numbers(row.budgets)}".strip()


def costs(rows: Sequence[ComparisonRow], score: str, target: float) -> ReportTable:
    """Time, counts and memory."""
    return ReportTable.of(
        "Cost",
        rows,
        WHO
        | {
            "Step, ms": lambda row: rounded(row.step_ms.get("total")),
            "Nodes per step": lambda row: number(row.nodes),
            "Edges per step": lambda row: number(row.edges),
            "Peak, MB": lambda row: number(row.peak_mb),
            "Training, s": lambda row: rounded(row.seconds),
            "To target, s": lambda row: rounded(row.seconds_to_target),
            "Seeds at target": lambda row: number(row.reached),
        },
        "Nodes are those of the input layer, edges those of all layers: means over steps. The "
        f"target is a validation {score} of {target:.3g}; its time is a mean over the seeds that "
        "reach it.",
    )


def step_parts(rows: Sequence[ComparisonRow]) -> ReportTable:
    """Milliseconds of a step by part."""

    def time(part: str) -> Callable[[ComparisonRow], Cell]:
        return lambda row: rounded(row.step_ms.get(part))

    parts = dict.fromkeys(part for row in rows for part in row.step_ms)
    columns = WHO | {part.capitalize(): time(part) for part in parts}
    return ReportTable.of("Time of a step, in milliseconds", rows, columns, "Medians over steps.")


def shares(rows: Sequence[ComparisonRow], score: str) -> ReportTable:
    """Scores at every share of the size."""
    columns: Columns = {
        "Share": lambda row: short(row.budget_share) if row.budgets or row.unit else number(None),
        **tested(score),
        "Rank": rank,
        "Nodes per step": lambda row: number(row.nodes),
        "Step, ms": lambda row: rounded(row.step_ms.get("total")),
        "Size": lambda row: text(size(row)),
        "Policy": WHO["Policy"],
    }
    note = "Differences are taken at the same share; p is not corrected."
    return ReportTable.of(
        "As the budget shrinks", rows, {"Sampler": WHO["Sampler"]} | columns, note
    )
