"""The files of an import: what they hold, and their problems."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bliss import checks
from bliss.arrays import IntArray
from bliss.data.dataset import check_splits, labelled
from bliss.data.edges import EdgeColumns, EdgeSource, chained, check_some, find_nodes, open_edges
from bliss.data.features import (
    FeatureColumns,
    FeatureSource,
    dense_features,
    finite_rows,
    open_features,
    read_ids,
)
from bliss.data.formats import is_table
from bliss.data.label_edges import LabelEdges
from bliss.data.labels import Labels, no_labels, read_labels
from bliss.data.nodes import Nodes, named_place, nodes_of
from bliss.data.problems import Problems
from bliss.data.splits import SplitSource, read_splits
from bliss.data.tables import read_table
from bliss.data.timestamps import Times, column_times, common_unit
from bliss.errors import InputError

_CHECKED_ROWS = 1 << 22  # edges that are looked at together


@dataclass(frozen=True)
class Parts:
    """What a reader of files found."""

    nodes: Nodes
    edges: EdgeSource
    features: FeatureSource
    labels: Labels
    splits: SplitSource | None = None  # None: the files have no splits
    notes: tuple[str, ...] = ()
    is_undirected: bool = False  # whether the file says that its edges have no direction
    label_edges: LabelEdges | None = None
    node_time: Times | None = None  # [V]

    @property
    def time_unit(self) -> str:
        """Unit of all times; empty without times."""
        links, nodes = self.label_edges, self.node_time
        return common_unit(
            edges=self.edges.time_unit,
            nodes="" if nodes is None else nodes.unit,
            label_edges="" if links is None else links.time_unit,
        )


@dataclass(frozen=True)
class Files:
    """Files of edges, features and labels, or one of a whole graph, and how to read them."""

    edges: tuple[Path, ...]
    features: Path | None
    labels: Path | None
    graph: Path | None
    weight: Path | None
    splits: SplitSource | None
    label: str
    edge_columns: EdgeColumns
    feature_columns: FeatureColumns
    task: str
    seed: int
    label_edges: tuple[Path, ...] = ()
    num_nodes: int | None = None
    node_type: str | None = None  # of the nodes with labels in a HeteroData
    node_time: str = ""  # column of the times of nodes in the table of features
    label_ids: str = ""  # column of ids in the table of labels; empty: called as in the features

    def check(self) -> None:
        """Raise an error if files are missing, or some do not go together."""
        if self.graph is not None:
            given = {
                "edges": self.edges,
                "features": self.features,
                "labels": self.labels,
                "weight": self.weight,
                "id_column": self.feature_columns.id_column,
                "node_time_column": self.node_time,
                **self.edge_columns.given,
            }
            given.pop("time_column", None)  # an attribute of the graph
            beside = [name for name, value in given.items() if value]
            if beside:
                raise InputError(
                    f"{', '.join(beside)} was given beside graph={str(self.graph)!r}, which holds "
                    "everything: leave it out."
                )
        elif not self.edges:
            raise InputError(
                "edges=None must be the path of a file: pass edges and features, or graph alone."
            )
        elif self.features is None and self.num_nodes is None:
            raise InputError(
                "features=None must be the path of a file: pass features, or num_nodes "
                "(--num-nodes) for a graph without features, whose ids are 0 to num_nodes - 1."
            )
        elif self.label and self.labels is None:
            raise InputError(
                f"label={self.label!r} was given without labels: pass the file of labels, which "
                "may be that of the features."
            )
        elif self.weight is not None and len(self.edges) > 1:
            raise InputError(
                f"weight={str(self.weight)!r} was given with {len(self.edges)} files of edges: put "
                "the weights into a column of each file."
            )

    def read(self) -> Parts:
        """Open all files, and read labels."""
        if self.graph is not None:
            return self._with_links(self.read_whole(self.graph))
        source = self.open_features()
        nodes = nodes_of(source.ids, source.shape[0])
        edges = chained(self.edges, [self.open_edges(file) for file in self.edges])
        parts = Parts(nodes, edges, source, self.read_labels(nodes), self.splits)
        return self._with_links(replace(parts, node_time=self._node_times(source.shape[0])))

    def _node_times(self, number: int) -> Times | None:
        """Times of nodes, from a column of the table of features."""
        if not self.node_time:
            return None
        file = self.features
        if file is None or not is_table(file):
            raise InputError(
                f"node_time_column={self.node_time!r} names a column of features, but they are no "
                "table: pass features as .csv or .parquet."
            )
        table = read_table("features", file, (self.node_time.lower(),))
        place = named_place("node_time_column", self.node_time, "features", file, table.names)
        return column_times("features", self.node_time, table.columns[place])

    def _with_links(self, parts: Parts) -> Parts:
        if not self.label_edges or not isinstance(parts, Parts):  # with types, they are by relation
            return parts
        links = LabelEdges.read(self.label_edges, parts.nodes, parts.nodes)
        return replace(parts, label_edges=links)

    def read_whole(self, file: Path) -> Any:
        """`Parts` of a file that holds everything; of a HeteroData `TypedParts`."""
        from bliss.data.foreign import read_graph_file

        names, time = self.feature_columns.columns, self.edge_columns.time
        parts = read_graph_file(file, self.label, names, self.task, time, self.node_type)
        return parts if self.splits is None else replace(parts, splits=self.splits)

    def open_features(self) -> FeatureSource:
        """The file of features. A label in the same table is not a feature."""
        place, labels = self.features, self.labels
        if place is None:
            return dense_features(np.empty((self.num_nodes or 0, 0), np.float32))
        is_shared = labels is not None and labels.resolve() == place.resolve()
        without = [self.label] if is_shared and self.label else []
        without += [self.node_time] if self.node_time else []
        return open_features(place, replace(self.feature_columns, without=tuple(without)))

    def read_nodes(self, features: FeatureSource | None, are_distinct: bool = True) -> Nodes:
        """The nodes, also if their features could not be opened.

        `are_distinct=False` accepts ids that occur more than once, to look for other problems.
        """
        if features is not None:
            return nodes_of(features.ids, features.shape[0], are_distinct)
        assert self.features is not None  # otherwise they are open
        return nodes_of(*read_ids(self.features, self.feature_columns), are_distinct)

    def open_edges(self, file: Path) -> EdgeSource:
        """A file of edges."""
        return open_edges(file, self.weight, self.edge_columns)

    def read_labels(self, nodes: Nodes) -> Labels:
        """Labels of the nodes."""
        if self.labels is None:
            return no_labels(nodes.number)
        id_name = self.label_ids or self.feature_columns.id_column
        return read_labels(self.labels, nodes, self.label, self.task, id_name)

    def read_splits(
        self, source: SplitSource | None, nodes: Nodes, labels: Labels
    ) -> Mapping[str, IntArray]:
        """Splits by name, checked."""
        splits = read_splits(source, nodes, labels, self.seed)
        is_labelled = labelled(labels.y, labels.task, labels.num_classes)
        missing = "target (NaN)" if labels.task == "regression" else "label (-1)"
        check_splits(splits, is_labelled, nodes.number, missing)
        return splits


def find_problems(files: Files, feature_type: str) -> list[str]:
    """Every problem of the files, those first that keep others from being looked for.

    Files that cannot be opened come first, then ids, then values, then splits.
    """
    problems = Problems()
    nodes: Nodes | None = None
    labels: Labels | None = None
    source: FeatureSource | None = None
    edges: dict[str, EdgeSource] = {}  # by what is shown before a problem
    splits = files.splits
    if files.graph is not None:
        with problems.collecting():
            parts = files.read()
            if not isinstance(parts, Parts):  # of a HeteroData, whose parts are in memory
                return problems.found
            nodes, labels, source = parts.nodes, parts.labels, parts.features
            edges, splits = {"": parts.edges}, parts.splits
    else:
        with problems.collecting():
            source = files.open_features()
        for file in files.edges:
            with problems.collecting():
                shown = f"{file}: " if len(files.edges) > 1 else ""
                edges[shown] = files.open_edges(file)
        with problems.collecting():
            if len(edges) == len(files.edges):
                chained(files.edges, list(edges.values()))
        with problems.collecting():
            nodes = files.read_nodes(source)
        if nodes is None:
            with suppress(InputError):
                nodes = files.read_nodes(source, are_distinct=False)
        with problems.collecting():
            if nodes is not None:
                labels = files.read_labels(nodes)
    for shown, one in edges.items():
        problems.found += [f"{shown}{problem}" for problem in _edge_problems(one, nodes)]
    with problems.collecting():
        for _ in () if source is None else finite_rows("features", source.chunks(), feature_type):
            pass
    with problems.collecting():
        if nodes is not None and labels is not None:
            files.read_splits(splits, nodes, labels)
    with problems.collecting():
        if nodes is not None and files.label_edges:
            LabelEdges.read(files.label_edges, nodes, nodes)
    return problems.found


def _edge_problems(edges: EdgeSource, nodes: Nodes | None) -> list[str]:
    """Problems of ids and weights, each kind from the first part that has it."""
    problems, read = Problems(), 0
    are_ends_right = are_weights_right = True
    with problems.collecting():
        for chunk in edges.chunks(_CHECKED_ROWS):
            if are_ends_right and nodes is not None:
                with problems.collecting():
                    find_nodes(chunk._replace(weight=None), nodes)
                are_ends_right = not problems.found
            if are_weights_right and chunk.weight is not None:
                before = len(problems.found)
                with problems.collecting():
                    checks.weights("weight", chunk.weight, len(chunk.source), read)
                are_weights_right = len(problems.found) == before
            read += len(chunk.source)
        check_some(read)
    return problems.found
