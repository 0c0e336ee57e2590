"""Labels of a user's own graph: classes, several labels per node, or numbers to predict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bliss.arrays import Array
from bliss.data.formats import is_table, reader
from bliss.data.names import LONGEST
from bliss.data.nodes import ID_NAMES, Nodes, as_rows, id_column, id_place
from bliss.data.tables import Table
from bliss.errors import InputError
from bliss.storage.files import check_regular
from bliss.text import printable

AUTO = ("auto", "classes", "labels", "regression")
HEADER = (*ID_NAMES, "label", "labels", "class", "y", "target", "category", "value")


class Labels(NamedTuple):
    """What a network has to predict."""

    y: Array  # int64[V] classes, -1: none; float32[V, C] of 0 and 1; float32[V, T], NaN: unknown
    task: str  # "classes", "labels" or "regression"
    num_classes: int  # C; 0 for regression
    names: tuple[str, ...] = ()  # of classes, labels or targets; empty if they are numbers
    notes: tuple[str, ...] = ()


def no_labels(number: int) -> Labels:
    """Labels of a graph that has none."""
    return Labels(np.full(number, -1, np.int64), "classes", 0)


def read_labels(
    file: Path, nodes: Nodes, label: str = "", task: str = "auto", id_name: str = ""
) -> Labels:
    """Read labels from a .npy, .csv or .parquet file.

    Rows are in the order of the nodes, unless the first column is called node, id, node_id or name:
    then it holds the ids of nodes, and nodes that are not listed are unlabelled. `id_name` is the
    name of the column of ids of the features, which may be anywhere. `label` chooses one column;
    otherwise all others are labels. `task` is as in `make_labels`.
    """
    check_regular(file, f"labels={str(file)!r}")
    read = reader("labels", file, "table", "values")
    if not is_table(file):
        if label:
            raise InputError(
                f"label={label!r} names a column, but labels={str(file)!r} has no names: leave it "
                "out."
            )
        return make_labels(read(file), nodes.number, task)
    known = (*HEADER, *(name.lower() for name in (label, id_name) if name))
    table: Table = read("labels", file, known)
    place = id_place("labels", file, table, id_name if id_name in table.names else "")
    left = [p for p in range(len(table.columns)) if p != place]
    if table.has_counting_index():
        left = left[1:]
    if label:
        left = [p for p in left if table.names and table.names[p] == label]
        if len(left) != 1:
            raise InputError(
                f"label={label!r} must name one column of labels={str(file)!r}, which has "
                f"{', '.join(map(printable, table.names[:20])) or 'no names'}: choose one of them."
            )
    ids = None if place is None else nodes.find("labels", id_column("labels", table, place))
    columns, names = [table.columns[p] for p in left], [table.names[p] for p in left if table.names]
    return label_columns(columns, names, nodes, ids, task)


def label_columns(
    columns: Sequence[Any], names: Sequence[str], nodes: Nodes, ids: Any, task: str
) -> Labels:
    """Labels from pyarrow columns, in the order of the nodes or with `ids` int64[N]."""
    from pyarrow import types

    is_text = [types.is_string(c.type) or types.is_large_string(c.type) for c in columns]
    if len(columns) == 1 and is_text[0]:
        if task not in ("auto", "classes"):
            raise InputError(
                f"labels holds text, but task={task!r} needs numbers: leave it out, or choose "
                "another column."
            )
        return _named(columns[0], nodes, ids)
    if any(is_text):
        wrong = names[is_text.index(True)] if names else is_text.index(True) + 1
        raise InputError(
            f"labels has text in column {wrong!r} beside other columns: choose one column with "
            "label=..., or --label."
        )
    named = list(names) or [str(n + 1) for n in range(len(columns))]
    if len(set(named)) < len(named):
        raise InputError(
            f"labels has columns of the same name ({', '.join(named)}): rename them, or choose one "
            "with label=..., or --label."
        )
    is_regression = task == "regression"
    values = [
        _numbers(column, name, is_regression) for column, name in zip(columns, named, strict=True)
    ]
    if ids is not None:
        is_one = len(values) == 1 or is_regression
        missing = {"f": np.nan if is_one else 0}
        values = [
            as_rows("labels", nodes, ids, v, missing.get(v.dtype.kind, -1 if is_one else 0))
            for v in values
        ]
    matrix = values[0] if len(values) == 1 else np.stack(values, axis=1)
    return make_labels(matrix, nodes.number, task, tuple(names))


def make_labels(
    labels: Array, num_nodes: int, task: str = "auto", names: Sequence[str] = ()
) -> Labels:
    """Labels from an array [V] or [V, C].

    With task "auto", whole numbers [V] are classes, a matrix of 0 and 1 several labels per node,
    and fractions [V] targets of a regression.
    """
    if task not in AUTO:
        raise InputError(f"task={task!r} is not known: choose one of {', '.join(AUTO)}.")
    if labels.ndim == 2 and labels.shape[1] == 1 and task != "labels":
        labels = labels[:, 0]
    if labels.ndim not in (1, 2) or len(labels) != num_nodes:
        raise InputError(
            f"labels has shape {labels.shape}, but there are {num_nodes} nodes: give a class or a "
            "number per node, or a row of 0 and 1."
        )
    if labels.dtype.kind not in "biuf":
        raise InputError(f"labels has type {labels.dtype}, but must hold numbers: convert it.")
    if task == "regression" or (task == "auto" and _is_fractional(labels)):
        return _targets(labels, names)
    if labels.ndim == 1 and task != "labels":
        return _classes(labels)
    return _hot(labels if labels.ndim == 2 else labels[:, None], names)


def _is_fractional(labels: Array) -> bool:
    """Whether a column holds fractions; whole numbers in floats are refused."""
    if labels.ndim != 1 or labels.dtype.kind != "f":
        return False
    known = labels[~np.isnan(labels)]
    if known.size and (known == np.round(known)).all():
        raise InputError(
            f"labels has type {labels.dtype} but holds whole numbers, which may be classes or "
            "targets of a regression: pass task='classes' or task='regression' (--task)."
        )
    return True


def _classes(labels: Array) -> Labels:
    if labels.dtype.kind == "f":
        known = np.isfinite(labels)
        if (labels[known] != np.round(labels[known])).any() or np.isinf(labels).any():
            raise InputError(
                "labels holds fractions, but classes are whole numbers or text: pass "
                "task='regression' (--task), or correct them."
            )
        labels = np.where(known, labels, -1)
    with np.errstate(invalid="ignore"):
        numbers = labels.astype(np.int64)
    low, high = int(numbers.min()), int(numbers.max())
    if low < -1:
        raise InputError(
            f"labels[{int(numbers.argmin())}] is {low}, but class ids start at 0, with -1 for no "
            "label: shift them."
        )
    if high < 0:
        raise InputError("labels is -1 everywhere: label some nodes, or leave labels out.")
    classes = np.unique(numbers[numbers >= 0])
    if classes.size == high + 1:
        return Labels(numbers, "classes", high + 1)
    y = np.where(numbers >= 0, np.searchsorted(classes, numbers), -1)
    few = ", ".join(map(str, classes[:8].tolist())) + (", ..." if classes.size > 8 else "")
    note = (
        f"The class ids ({few}) leave gaps: they became the classes 0 to {classes.size - 1}, with "
        "the ids as their names."
    )
    return Labels(y, "classes", classes.size, tuple(map(str, classes.tolist())), (note,))


def _hot(labels: Array, names: Sequence[str]) -> Labels:
    if labels.shape[1] == 0:
        raise InputError(f"labels has shape {labels.shape}: there must be columns.")
    wrong = (labels != 0) & (labels != 1)
    if wrong.any():
        row, column = (int(place[0]) for place in np.nonzero(wrong))
        raise InputError(
            f"labels[{row}, {column}] is {labels[row, column]}, but several labels per node are "
            "0 or 1: correct it, pass one column of classes, or task='regression' (--task)."
        )
    return Labels(labels.astype(np.float32), "labels", labels.shape[1], tuple(names))


def _targets(labels: Array, names: Sequence[str]) -> Labels:
    matrix = labels if labels.ndim == 2 else labels[:, None]
    with np.errstate(over="ignore"):
        y = matrix.astype(np.float32)
    if np.isinf(y).any():
        row, column = (int(place[0]) for place in np.nonzero(np.isinf(y)))
        raise InputError(
            f"labels[{row}, {column}] is {matrix[row, column]}, but targets must be finite in "
            "float32, or NaN where unknown: correct it."
        )
    if np.isnan(y).all(axis=0).any():
        raise InputError("labels has a column without a number: fill it, or leave it out.")
    return Labels(y, "regression", 0, tuple(names))


def _numbers(column: Any, name: str, as_floats: bool) -> Array:
    """A column of numbers: integers with -1, or floats with NaN, where fields are empty. [N]."""
    import pyarrow as arrow
    from pyarrow import compute, types

    if types.is_boolean(column.type):
        column = column.cast(arrow.int64())
    if not (types.is_integer(column.type) or types.is_floating(column.type)):
        raise InputError(
            f"labels has column {name!r} of type {column.type}, but must hold text or numbers: "
            "convert or drop it."
        )
    if as_floats:
        column = column.cast(arrow.float64())
    missing = np.nan if types.is_floating(column.type) else -1
    filled: Array = np.asarray(compute.fill_null(column, missing) if column.null_count else column)
    return filled


def _named(column: Any, nodes: Nodes, ids: Any) -> Labels:
    """Classes from text, sorted by name; empty fields are unlabelled."""
    import pyarrow as arrow
    from pyarrow import compute

    text = compute.utf8_trim_whitespace(column.cast(arrow.large_string()).fill_null(""))
    if (size := compute.max(compute.binary_length(text)).as_py()) > LONGEST:
        raise InputError(
            f"labels has a class name of {size:,} bytes, but names have at most {LONGEST:,}: "
            "choose another column."
        )
    names = sorted(name for name in compute.unique(text).to_pylist() if name)
    if not names:
        raise InputError("labels is empty everywhere: label some nodes, or leave labels out.")
    y = compute.index_in(text, value_set=arrow.array(names, arrow.large_string())).fill_null(-1)
    values = np.asarray(y).astype(np.int64)
    if ids is not None:
        values = as_rows("labels", nodes, ids, values, -1)
    if len(values) != nodes.number:
        raise InputError(
            f"labels has {len(values)} rows, but there are {nodes.number} nodes: give each node "
            "one row, or add a first column called id."
        )
    return Labels(values, "classes", len(names), tuple(names))
