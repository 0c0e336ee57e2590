"""Labels of a user's own graph: class ids, or a matrix of 0 and 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bliss import checks
from bliss.arrays import Array
from bliss.data.npy import read_npy
from bliss.data.tables import TEXT, read_csv, read_parquet, suffix
from bliss.errors import InputError
from bliss.files import check_regular

_ID_NAMES = ("node", "id", "node_id")


def read_labels(file: Path, num_nodes: int) -> tuple[Array, int]:
    """Read labels and the number of classes from a .npy, .csv or .parquet file.

    One column holds class ids and gives int64[V]. Several columns hold 0 and 1 and give
    float32[V, C]. Rows are in the order of the nodes, unless the first column is called node, id or
    node_id: then it holds node ids, and nodes that are not listed are unlabelled.
    """
    check_regular(file, f"labels={str(file)!r}")
    form = suffix(file)
    if form == ".npy":
        return check_labels(read_npy(file), num_nodes)
    if form == ".parquet":
        table = read_parquet("labels", file)
        names, columns = tuple(table), list(table.values())
    elif form in TEXT:
        names, columns = read_csv("labels", file)
    else:
        raise InputError(f"labels={str(file)!r} must be a .npy, .csv or .parquet file: convert it.")
    if len(columns) > 1 and names and names[0] in _ID_NAMES:
        columns = _by_node(columns[0], columns[1:], num_nodes)
    return check_labels(columns[0] if len(columns) == 1 else np.stack(columns, 1), num_nodes)


def check_labels(labels: Array, num_nodes: int) -> tuple[Array, int]:
    """Labels as int64[V] class ids (-1: none) or float32[V, C] of 0 and 1, and C."""
    if labels.ndim == 2 and labels.shape[1] == 1 and labels.dtype.kind in "iu":
        labels = labels[:, 0]
    if labels.ndim not in (1, 2) or len(labels) != num_nodes:
        raise InputError(
            f"labels has shape {labels.shape}, but there are {num_nodes} nodes: give a class id "
            "per node, or a row of 0 and 1."
        )
    return _classes(labels) if labels.ndim == 1 else _hot(labels)


def _classes(labels: Array) -> tuple[Array, int]:
    if labels.dtype.kind not in "iu":
        raise InputError(
            f"labels has type {labels.dtype}, but class ids are integers, with -1 for no "
            "label: convert it to int64."
        )
    low, high = int(labels.min()), int(labels.max())
    if low < -1:
        raise InputError(
            f"labels[{int(labels.argmin())}] is {low}, but class ids start at 0, with -1 for no "
            "label: shift them."
        )
    if high < 0:
        raise InputError("labels is -1 everywhere: label some nodes, or leave labels out.")
    if high >= labels.size:
        raise InputError(
            f"labels[{int(labels.argmax())}] is {high}, but {labels.size} nodes cannot have that "
            "many classes: number the classes from 0."
        )
    return labels.astype(np.int64), high + 1


def _hot(labels: Array) -> tuple[Array, int]:
    if labels.shape[1] == 0:
        raise InputError(f"labels has shape {labels.shape}: there must be columns.")
    wrong = (labels != 0) & (labels != 1)
    if wrong.any():
        row, column = (int(place[0]) for place in np.nonzero(wrong))
        raise InputError(
            f"labels[{row}, {column}] is {labels[row, column]}, but several labels per node are "
            "0 or 1: correct it, or pass one column of class ids."
        )
    return labels.astype(np.float32), labels.shape[1]


def _by_node(ids: Array, columns: list[Array], num_nodes: int) -> list[Array]:
    """Sort columns by node. Nodes that are not listed get -1, or 0 in several columns."""
    nodes = checks.node_ids("labels", ids, num_nodes)
    if np.unique(nodes).size != nodes.size:
        raise InputError("labels lists a node more than once: keep one row per node.")
    placed = []
    for column in columns:
        values = np.full(num_nodes, -1 if len(columns) == 1 else 0, column.dtype)
        values[nodes] = column
        placed.append(values)
    return placed
