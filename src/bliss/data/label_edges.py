"""Label edges: the links to learn and to score, where they are not simply the edges of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from bliss import checks
from bliss.arrays import Array, IntArray
from bliss.data.nodes import Nodes
from bliss.data.npy import read_npy
from bliss.data.pairs import table_pairs
from bliss.data.tables import Table
from bliss.data.timestamps import NUMBER, column_times, common_unit
from bliss.errors import InputError
from bliss.graph import EdgeType, Graph, GraphTypes

SPLITS = ("train", "val", "test")
TIMES = ("time", "timestamp", "date")
"""Names of a column of times."""
_FILES = {"pairs": "label_edges.npy", "split": "label_split.npy", "time": "label_time.npy"}


@dataclass(frozen=True, eq=False)
class LabelEdges:
    """Pairs of nodes with, by choice, the split and the time of each."""

    pairs: IntArray  # int64[2, P] sources over targets
    split: Array | None = None  # int8[P] position in SPLITS
    time: Array | None = None  # int64[P] or float64[P]
    time_unit: str = ""  # of times; see `timestamps`
    edge_type: EdgeType | None = None  # relation of the pairs, in a heterogeneous graph

    def check(self, graph: Graph) -> None:
        """Raise an error for pairs out of range, and for splits or times that do not fit."""
        pairs = checks.node_pairs("label_edges", self.pairs, graph.num_nodes)
        if graph.types is not None:
            self._check_type(pairs, graph.types)
        size = pairs.shape[1]
        for name, kinds in (("split", "i"), ("time", "if")):
            values = getattr(self, name)
            if values is not None and (values.shape != (size,) or values.dtype.kind not in kinds):
                raise InputError(
                    f"label_edges has {name} of type {values.dtype} and shape {values.shape}, but "
                    f"{size} pairs: give one number per pair."
                )
        known = range(len(SPLITS))
        if self.split is not None and not np.isin(self.split, known).all():
            raise InputError(
                "label_edges has splits other than 0 (train), 1 (val) and 2 (test): correct them."
            )
        if self.time is not None and not np.isfinite(self.time).all():
            raise InputError("label_edges has a time that is not a finite number: correct it.")

    def _check_type(self, pairs: IntArray, types: GraphTypes) -> None:
        if self.edge_type not in types.edge_types:
            raise InputError(
                f"label_edges are of the relation {self.edge_type}, but must be of one of "
                f"{', '.join(map(str, types.edge_types))}: name it."
            )
        for ids, name in zip(pairs, self.edge_type[::2], strict=True):
            own = types.range_of(name)
            if ids.size and not own.start <= int(ids.min()) <= int(ids.max()) < own.stop:
                raise InputError(
                    f"label_edges hold nodes that are not of type {name!r}, an end of their "
                    "relation: pass ids of the graph, see graph.types.range_of."
                )

    @property
    def files(self) -> dict[str, Array]:
        """The arrays by the name of their file in a store."""
        found = {file: getattr(self, name) for name, file in _FILES.items()}
        return {file: array for file, array in found.items() if array is not None}

    @property
    def header(self) -> dict[str, Any]:
        """What dataset.json says about them."""
        return {} if self.edge_type is None else {"label_edge_type": list(self.edge_type)}

    @classmethod
    def open(cls, folder: Path, header: Mapping[str, Any]) -> LabelEdges | None:
        """Those of a store with this dataset.json; None if it has none."""
        files = header["files"]
        if _FILES["pairs"] not in files:
            return None
        found = {name: read_npy(folder / f) for name, f in _FILES.items() if f in files}
        unit = str(header.get("time_unit", "")) if "time" in found else ""
        names = header.get("label_edge_type")
        given = tuple(map(str, names)) if isinstance(names, list) else None
        edge_type = cast("EdgeType | None", given)  # `check` compares it with those of the graph
        return cls(found["pairs"], found.get("split"), found.get("time"), unit, edge_type)

    @classmethod
    def read(
        cls,
        files: Sequence[Path],
        sources: Nodes,
        targets: Nodes,
        edge_type: EdgeType | None = None,
    ) -> LabelEdges:
        """Read one table, or three, of train, val and test.

        Columns are src and dst, or called as the types of a relation, or the first two; of one
        table, by choice split, with the words train, val and test, and time, a number.
        """
        if len(files) not in (1, len(SPLITS)):
            raise InputError(
                f"label_edges has {len(files)} files, but must have one, or three, of train, val "
                "and test: pass that many."
            )
        parts = [_read_table(file, sources, targets, edge_type) for file in files]
        if len(parts) == 1:
            return parts[0]
        pairs = np.concatenate([part.pairs for part in parts], axis=1)
        number = [part.pairs.shape[1] for part in parts]
        split = np.repeat(np.arange(len(SPLITS), dtype=np.int8), number)
        times = [part.time for part in parts if part.time is not None]
        if len(times) < len(parts):
            return cls(pairs, split)
        units = {file.name: part.time_unit for file, part in zip(files, parts, strict=True)}
        return cls(pairs, split, np.concatenate(times), common_unit(**units))


def _read_table(
    file: Path, sources: Nodes, targets: Nodes, edge_type: EdgeType | None
) -> LabelEdges:
    pairs, table = table_pairs("label_edges", file, sources, targets, edge_type)
    splits, times = table.places("split"), table.places(*TIMES)
    split = _split_numbers(file, table, splits[0]) if splits else None
    if not times:
        return LabelEdges(pairs, split)
    return LabelEdges(pairs, split, *_times(table, times[0]))


def _split_numbers(file: Path, table: Table, place: int) -> Array:
    words = [str(word).strip().lower() for word in table.columns[place].to_pylist()]
    for word in set(words) - set(SPLITS):
        raise InputError(
            f"label_edges={str(file)!r} has the split {word!r}, but splits are train, val and "
            "test: rename it."
        )
    return np.array([SPLITS.index(word) for word in words], np.int8)


def _times(table: Table, place: int) -> tuple[Array, str]:
    """Times and their unit; numbers may have fractions, because they only order the links."""
    column: Any = table.columns[place]
    if str(column.type) == "double" and not column.null_count:
        values: Array = np.asarray(column)
        if not (values == np.round(values)).all():
            return values, NUMBER
    return column_times("label_edges", table.names[place], column)
