"""Predictions as a table on disk: node, label or labels, probability."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from torch import Tensor

from bliss.errors import InputError
from bliss.files import replacing

FORMATS = (".csv", ".parquet")


def check_format(out: Path) -> None:
    """Raise an error if the file name does not end in .csv or .parquet."""
    if out.suffix not in FORMATS:
        raise InputError(f"out={str(out)!r} must end in .csv or .parquet: rename it.")


def write_predictions(out: Path, chances: Tensor, is_multilabel: bool) -> None:
    """Write the table atomically. chances [V, C]: probabilities."""
    columns = _columns(chances, is_multilabel)
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


def _columns(chances: Tensor, is_multilabel: bool) -> dict[str, list[Any]]:
    """Best class and its probability, or all labels above one half, separated by spaces."""
    nodes = list(range(chances.size(0)))
    if not is_multilabel:
        best = chances.max(dim=1)
        return {"node": nodes, "label": best.indices.tolist(), "probability": best.values.tolist()}
    labels, values = [], []
    for row in chances:
        chosen = (row > 0.5).nonzero().view(-1)
        labels.append(" ".join(str(c) for c in chosen.tolist()))
        values.append(" ".join(f"{v:.6g}" for v in row[chosen].tolist()))
    return {"node": nodes, "label": labels, "probability": values}
