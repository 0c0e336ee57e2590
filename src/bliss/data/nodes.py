"""The nodes of a user's own graph, and how files refer to them: by number, or by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bliss import checks
from bliss.arrays import Array, IntArray
from bliss.data.names import LONGEST, NodeNames, shown
from bliss.data.safe_reading import in_one_sentence
from bliss.data.tables import INDEX, Table
from bliss.errors import InputError
from bliss.text import printable

ID_NAMES = ("node", "id", "node_id", "name")
"""Names of a column of ids."""


@dataclass(frozen=True)
class Nodes:
    """V nodes, in the order of the rows of the features."""

    number: int
    names: NodeNames | None = None  # None: ids are 0 to V - 1

    def ids(self, numbers: IntArray) -> list[Any]:
        """The user's ids of nodes. int64[N]."""
        names = self.names
        return numbers.tolist() if names is None else [names[node] for node in numbers.tolist()]

    def find(self, field: str, ids: Any) -> IntArray:
        """Numbers of nodes from ids: a NumPy array, or a pyarrow array. int64[N]."""
        import pyarrow as arrow

        if self.names is not None:
            if isinstance(ids, np.ndarray):
                if ids.dtype.kind not in "iu" or ids.ndim != 1:
                    raise InputError(
                        f"{field} has type {ids.dtype} and shape {ids.shape}, but must be a flat "
                        "list of ids: convert it."
                    )
                ids = arrow.array(ids.astype(np.int64))
            return self.names.find(field, ids)
        if not isinstance(ids, np.ndarray) and str(ids.type) != "int64":
            raise InputError(
                f"{field} has names as ids, such as {shown(ids[0].as_py())}, but the features have "
                "no column of ids: pass features as .csv or .parquet with a first column called id."
            )
        numbers: IntArray = checks.node_ids(field, np.asarray(ids), self.number).astype(np.int64)
        return numbers


def nodes_of(column: Any | None, number: int, are_distinct: bool = True) -> Nodes:
    """Nodes with the ids of a column, or without one; ids 0 to V - 1 in order are not names.

    With `are_distinct=False`, an id that occurs more than once counts once.
    """
    if column is None:
        return Nodes(number)
    names = NodeNames.of(column if are_distinct else column.unique(), "features")
    if are_distinct and not names.is_text and bool((names.values == np.arange(number)).all()):
        return Nodes(number)
    return Nodes(number, names)


def named_place(option: str, name: str, field: str, file: Path, names: Sequence[str]) -> int:
    """Position of the one column of a name that the user gave."""
    places = [place for place, own in enumerate(names) if own.strip() == name.strip()]
    if len(places) != 1:
        raise InputError(
            f"{option}={name!r} must name one column of {field}={str(file)!r}, which has "
            f"{', '.join(map(printable, names[:20])) or 'no names'}: choose one of them."
        )
    return places[0]


def id_place(field: str, file: Path, table: Table, given: str = "") -> int | None:
    """Position of the column of ids: `given`, or the first, if its name is known or an index."""
    if given:
        return named_place("id_column", given, field, file, table.names)
    if len(table.columns) < 2 or not table.names or table.has_counting_index():
        return None
    first = table.names[0].strip().lower()
    return 0 if first in (*ID_NAMES, *INDEX) else None


def id_column(field: str, table: Table, place: int) -> Any:
    """A column of ids as a pyarrow array: int64, or large_string.

    Numbers with leading zeros, hexadecimal ones, and those of more than 64 bits, are names.
    """
    import pyarrow as arrow
    from pyarrow import compute, types

    column = table.columns[place]
    name = table.names[place] if table.names else str(place + 1)
    if column.null_count or len(column) == 0:
        raise InputError(
            f"{field} has {column.null_count} empty entries in column {name!r}: fill them or "
            "remove their rows."
        )
    if types.is_integer(column.type) and not table.is_padded:
        try:
            return column.cast(arrow.int64())
        except arrow.ArrowInvalid:  # of uint64
            return column.cast(arrow.large_string())
    text = table.as_text(place)
    if types.is_floating(text.type) or types.is_nested(text.type):
        raise InputError(
            f"{field} has ids of type {text.type} in column {name!r}, but ids are whole numbers or "
            "text: convert them."
        )
    with in_one_sentence(f"column {name!r} of {field}", "ids", "write it as UTF-8"):
        text = compute.utf8_trim_whitespace(text.cast(arrow.large_string()))
    if types.is_floating(column.type):
        is_whole = compute.match_substring_regex(text, r"^[+-]?[0-9]+$")
        if not compute.all(is_whole).as_py():
            wrong = text.filter(compute.invert(is_whole))[0].as_py()
            raise InputError(
                f"{field} has the id {wrong} in column {name!r}, but ids are whole numbers or "
                "text: correct it."
            )
    sizes = compute.min_max(compute.binary_length(text)).as_py()
    if sizes["min"] == 0:
        raise InputError(f"{field} has empty entries in column {name!r}: fill them.")
    if sizes["max"] > LONGEST:
        raise InputError(
            f"{field} has an id of {sizes['max']:,} bytes in column {name!r}, but names have at "
            f"most {LONGEST:,}: shorten it."
        )
    return _canonical(text)


def _canonical(text: Any) -> Any:
    """Text as int64 if that loses nothing."""
    import pyarrow as arrow

    try:
        numbers = text.cast(arrow.int64())
    except arrow.ArrowInvalid:
        return text
    return numbers if numbers.cast(text.type).equals(text) else text


def as_rows(field: str, nodes: Nodes, ids: IntArray, values: Array, missing: Any) -> Array:
    """Values by node, `missing` for nodes that are not listed. ids int64[N], values [N]."""
    if np.unique(ids).size != ids.size:
        raise InputError(f"{field} lists a node more than once: keep one row per node.")
    placed = np.full(nodes.number, missing, values.dtype)
    placed[ids] = values
    return placed
