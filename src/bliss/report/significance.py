"""Significance of differences between samplers, by the paired tests of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bliss.report.cells import plural, plus, probability, sentence_list
from bliss.studies.comparison.comparison_record import ComparisonRow
from bliss.studies.comparison.ranking import LEVEL, holm


def corrected(rows: Sequence[ComparisonRow]) -> list[tuple[ComparisonRow, float]]:
    """The rows that were tested, with their p-values after Holm's correction."""
    tested = [(row, row.p_value) for row in rows if row.p_value is not None]
    after = holm([p for _, p in tested])
    return [(row, p) for (row, _), p in zip(tested, after, strict=True)]


def verdict(
    rows: Sequence[ComparisonRow], label: Callable[[ComparisonRow], str], score: str = "F1"
) -> str:
    """Sentence about the significance of the differences to the first sampler."""
    if all(row.difference is None for row in rows):
        return ""
    first, tested = label(rows[0]), corrected(rows)
    if not tested:
        return (
            f" The differences to {first} were not tested: a paired test needs two seeds with "
            "different results."
        )
    test = (
        "paired t-test over equal seeds, Holm's correction for "
        f"{plural(len(tested), 'comparison')}, 5% level"
    )
    significant = [
        f"{label(row)} ({plus(row.difference, 3)}, p {equals(p)})" for row, p in tested if p < LEVEL
    ]
    if not significant:
        return f" No sampler differs significantly from {first} in test {score} ({test})."
    verb = "differs" if len(significant) == 1 else "differ"
    return (
        f" {sentence_list(significant)} {verb} significantly from {first} in test {score} ({test})."
    )


def standing(rows: Sequence[ComparisonRow], label: Callable[[ComparisonRow], str]) -> str:
    """Sentence about who is first; samplers that do not differ significantly share the rank."""
    first = [label(row) for row in rows if row.rank == 1]
    if not first or len(rows) < 2:
        return ""
    if len(first) == len(rows):
        return " All samplers share the first rank: none is significantly worse than the best."
    if len(first) > 1:
        return f" {sentence_list(first)} share the first rank; the others are significantly worse."
    return f" {first[0]} is first; all others are significantly worse."


def equals(p: float) -> str:
    """'= 0.034' or '< 0.001'."""
    shown = probability(p)
    return shown if shown.startswith("<") else f"= {shown}"
