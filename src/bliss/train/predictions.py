"""Predictions as a table on disk: node, label or labels, probability; or node and targets."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from bliss.data import Dataset
from bliss.errors import InputError
from bliss.files import replacing
from bliss.train.evaluation import full_logits
from bliss.train.metrics import probabilities
from bliss.train.task import Task

FORMATS = (".csv", ".parquet")


def check_format(out: Path) -> None:
    """Raise an error if the file name does not end in .csv or .parquet."""
    if out.suffix not in FORMATS:
        raise InputError(f"out={str(out)!r} must end in .csv or .parquet: rename it.")


def prediction_columns(task: Task) -> dict[str, list[Any]]:
    """Predictions of all nodes from full neighbourhoods, by column.

    Nodes have the user's ids, and classes their names. With one class per node, the columns are
    node, label and probability. With several labels per node, label and probability list all labels
    above one half, separated by blanks, or by semicolons if they have names. For regression there
    is a column per target, in the user's units, called prediction if there is one without a name.
    """
    dataset, outputs = task.dataset, full_logits(task)
    names = dataset.node_names
    columns: dict[str, list[Any]] = {
        "node": list(range(dataset.graph.num_nodes)) if names is None else names.tolist()
    }
    if dataset.is_regression:
        return columns | _targets(dataset, task.predictions(outputs))
    chances = probabilities(outputs, dataset.is_multilabel)
    if dataset.is_multilabel:
        return columns | _several(chances, dataset.class_names)
    best = chances.max(dim=1)
    labels: list[Any] = best.indices.tolist()
    if dataset.class_names:
        labels = [dataset.class_names[label] for label in labels]
    return columns | {"label": labels, "probability": best.values.tolist()}


def write_predictions(out: Path, columns: dict[str, list[Any]]) -> None:
    """Write a table of predictions atomically."""
    with replacing(out) as scratch:
        if out.suffix == ".csv":
            with open(scratch, "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(columns)
                writer.writerows(zip(*columns.values(), strict=True))
        else:
            import pyarrow
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.table(columns), scratch)


def _targets(dataset: Dataset, predicted: Tensor) -> dict[str, list[Any]]:
    numbered = [f"prediction_{number}" for number in range(predicted.size(1))]
    names = list(dataset.class_names) or (["prediction"] if len(numbered) == 1 else numbered)
    names = [f"{name}_" if name == "node" else name for name in names]
    return {name: predicted[:, n].tolist() for n, name in enumerate(names)}


def _several(chances: Tensor, names: Sequence[str]) -> dict[str, list[Any]]:
    """All labels above one half, and their probabilities."""
    labels, values, mark = [], [], ";" if names else " "
    for row in chances:
        chosen = (row > 0.5).nonzero().view(-1)
        labels.append(mark.join(names[c] if names else str(c) for c in chosen.tolist()))
        values.append(mark.join(f"{v:.6g}" for v in row[chosen].tolist()))
    return {"label": labels, "probability": values}
