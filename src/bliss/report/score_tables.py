"""Tables of all scores of runs, of their classes, and of a run's confusion matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bliss.report.cells import Cell, ReportTable, number, rounded, score_cell, text
from bliss.report.load import Run
from bliss.train.results import METRICS, ClassScores, RunResult, short_name

SPLIT_NAMES = {"train": "training", "val": "validation", "test": "test"}
MOST_ROWS = 200
"""Classes that a table shows."""


def score_tables(runs: Sequence[Run]) -> list[ReportTable]:
    """Scores by split and metric; of a single run, also by class, and the confusion matrix."""
    finished = [run.result for run in runs if run.result]
    tables = [_scores(runs)] if any(result.scores for result in finished) else []
    if len(runs) == 1 and finished:
        tables += [_classes(finished[0].classes)] if finished[0].classes else []
        tables += [_confusion(finished[0])] if finished[0].confusion else []
    return tables


def ranks_of(runs: Sequence[Run]) -> dict[str, int]:
    """K of the metrics of links, where it is the same in all runs that have a result."""
    found = [run.result.ranks for run in runs if run.result]
    return {k: v for k, v in (found or [{}])[0].items() if all(one.get(k) == v for one in found)}


def _scores(runs: Sequence[Run]) -> ReportTable:
    """A row for each run and split, a column for each metric."""
    rows = [
        (run, split, values)
        for run in runs
        if run.result
        for split, values in run.result.scores.items()
    ]
    metrics = dict.fromkeys(metric for *_, values in rows for metric in values)

    def column(metric: str) -> Callable[[tuple[Run, str, dict[str, float]]], Cell]:
        is_score = metric not in METRICS or METRICS[metric].is_score
        return lambda row: (score_cell if is_score else rounded)(row[2].get(metric))

    return ReportTable.of(
        "All scores",
        rows,
        {
            "Run": lambda row: text(row[0].name),
            "Nodes": lambda row: text(SPLIT_NAMES.get(row[1], row[1])),
            **{short_name(metric, ranks_of(runs)): column(metric) for metric in metrics},
        },
        "Scores of the best step with full neighbourhoods. AUC and AP (average precision) of "
        "several labels are means over labels.",
    )


def _classes(classes: Sequence[ClassScores]) -> ReportTable:
    shown = sorted(classes, key=lambda one: -one.nodes)[:MOST_ROWS]
    note = "Precision is the share of nodes predicted as a class that have it, recall the share of "
    note += "its nodes that are predicted as it."
    if len(shown) < len(classes):
        note += f" The table shows the {MOST_ROWS} largest of {len(classes):,} classes."
    return ReportTable.of(
        "Classes, on test nodes",
        shown,
        {
            "Class": lambda one: text(one.name),
            "Nodes": lambda one: number(one.nodes),
            "Predicted": lambda one: number(one.predicted),
            "Precision": lambda one: score_cell(one.precision),
            "Recall": lambda one: score_cell(one.recall),
        },
        note,
    )


def _confusion(result: RunResult) -> ReportTable:
    names = [one.name for one in result.classes] or list(map(str, range(len(result.confusion))))
    rows = list(zip(names, result.confusion, strict=False))

    def column(place: int) -> Callable[[tuple[str, list[int]]], Cell]:
        return lambda row: number(row[1][place] if place < len(row[1]) else None)

    return ReportTable(
        "Confusion matrix, on test nodes",
        ["Class", *(f"as {name}" for name in names)],
        [[text(row[0]), *(column(place)(row) for place in range(len(names)))] for row in rows],
        "Nodes of a class (row) by the class that is predicted for them (column).",
    )
