"""Files of an import with types: what they hold, and their problems."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bliss import checks
from bliss.arrays import NO_IDS, IntArray
from bliss.data.chunked_tables import table_blocks
from bliss.data.edges import EdgeColumns, Edges, EdgeSource, chained, find_ends, held, open_edges
from bliss.data.features import (
    FeatureColumns,
    FeatureSource,
    dense_features,
    finite_rows,
    read_ids,
)
from bliss.data.formats import is_table
from bliss.data.from_data import data_labels, data_splits
from bliss.data.from_hetero import hetero_graph, labelled_types, node_times, type_features
from bliss.data.import_files import Files
from bliss.data.label_edges import LabelEdges
from bliss.data.labels import Labels
from bliss.data.nodes import ID_NAMES, Nodes
from bliss.data.problems import Problems
from bliss.data.splits import SplitSource
from bliss.data.table_encoder import TableEncoder
from bliss.data.tables import NoRowsError
from bliss.data.typed_nodes import chosen_type
from bliss.errors import InputError
from bliss.graph import EdgeType, Graph, Norm
from bliss.graph.conversion import hetero_arguments
from bliss.storage.files import check_regular

FROM_EDGES = "edges"
"""In the place of a table of nodes: the nodes of the type are those that its edges name."""
_CHECKED_ROWS = 1 << 22  # edges that are looked at together


@dataclass(frozen=True)
class TypedParts:
    """What a reader of files found."""

    nodes: Mapping[str, Nodes]
    features: Mapping[str, FeatureSource]
    edges: Mapping[EdgeType, EdgeSource]
    node_type: str  # of the nodes with labels
    labels: Labels  # of the nodes of this type
    splits: SplitSource | None = None  # None: the files have no splits
    notes: tuple[str, ...] = ()
    label_edges: LabelEdges | None = None
    timed: Callable[[Norm, bool], Graph] | None = None  # of edges with times; reverse edges or not
    node_time: IntArray | None = None  # int64[V]

    def with_links(self, files: Mapping[EdgeType, tuple[Path, ...]]) -> TypedParts:
        """The same with the links in files of one relation, if there are any."""
        return replace(self, label_edges=read_links(files, self.nodes, self.edges))


def read_links(
    files: Mapping[EdgeType, tuple[Path, ...]],
    nodes: Mapping[str, Nodes],
    edge_types: Collection[EdgeType],
) -> LabelEdges | None:
    """The links in files of one relation; None without files."""
    if not files:
        return None
    (edge_type, own), *others = files.items()
    if others or edge_type not in edge_types:
        raise InputError(
            f"label_edges are given for {'; '.join(map(','.join, files))}, but must be links of "
            f"one relation: choose one of {'; '.join(map(','.join, edge_types))}."
        )
    source, _, target = edge_type
    links = LabelEdges.read(own, nodes[source], nodes[target], edge_type)
    numbers = np.array([one.number for one in nodes.values()])
    first = dict(zip(nodes, (np.cumsum(numbers) - numbers).tolist(), strict=True))
    pairs = links.pairs + np.array([[first[source]], [first[target]]])
    return replace(links, pairs=pairs, edge_type=edge_type)


@dataclass(frozen=True)
class TypedFiles:
    """Tables of nodes and of edges by type, and how to read them."""

    nodes: Mapping[str, Path | int | None]
    """A table of features, or a number of nodes without any; None: the ids that edges name."""
    edges: Mapping[EdgeType, tuple[Path, ...]]
    labels: Path | None
    node_type: str | None
    label: str
    edge_columns: EdgeColumns
    feature_columns: Sequence[str]  # TYPE.COLUMN; types that are not named have all columns
    id_column: str
    max_categories: int
    encoders: Mapping[str, TableEncoder] | None  # of a store whose encoding is used
    task: str
    splits: SplitSource | None
    seed: int
    label_edges: Mapping[EdgeType, tuple[Path, ...]]

    def check(self) -> None:
        """Raise an error if relations or options name types that are not there."""
        if not self.edges:
            raise InputError(
                "edges=None must be files by relation: pass for instance --edges "
                "author,writes,paper=writes.csv."
            )
        for edge_type in self.edges:
            for end in (edge_type[0], edge_type[2]):
                if end not in self.nodes:
                    raise InputError(
                        f"relation {','.join(edge_type)} is between unknown types, {end!r} is none "
                        f"of {', '.join(self.nodes)}: pass its nodes (--nodes {end}=FILE, or "
                        f"{end}={FROM_EDGES} for those that edges name), or correct the relation."
                    )
        for name in self.feature_columns:
            if name.partition(".")[0] not in self.nodes or "." not in name:
                raise InputError(
                    f"feature_columns has {name!r}, but columns of tables of several types are "
                    f"written TYPE.COLUMN: choose a type of {', '.join(self.nodes)}."
                )

    @property
    def labelled(self) -> str:
        """The type that has labels: `node_type`, or that whose table has them."""
        tables = [
            name
            for name, place in self.nodes.items()
            if self.labels is not None
            and isinstance(place, Path)
            and place.resolve() == self.labels.resolve()
        ]
        if self.node_type is None and not tables and self.labels is not None:
            raise InputError(
                f"labels={str(self.labels)!r} is not a table of nodes: pass the type that its "
                "labels belong to (--node-type TYPE)."
            )
        return chosen_type(self.nodes, self.node_type, tables)

    def of_type(self, name: str) -> Files:
        """The files of one type of nodes, as those of a graph without edges."""
        place = self.nodes[name]
        own = [column for column in self.feature_columns if column.partition(".")[0] == name]
        is_labelled = self.labels is not None and name == self.labelled
        encoder = None if self.encoders is None else self.encoders.get(name)
        file = place if isinstance(place, Path) else None
        return Files(
            edges=(),
            features=file,
            labels=self.labels if is_labelled else None,
            graph=None,
            weight=None,
            splits=self.splits,
            label=self.label if is_labelled else "",
            edge_columns=self.edge_columns,
            feature_columns=FeatureColumns(
                tuple(column.partition(".")[2] for column in own),
                id_column=(self.id_column or _own_ids(file, name)) if file else "",
                max_categories=self.max_categories,
                encoder=encoder,
            ),
            task=self.task,
            seed=self.seed,
            num_nodes=place if isinstance(place, int) else None,
            label_ids=_own_ids(self.labels, name) if self.labels and is_labelled else "",
        )

    def open_relation(self, edge_type: EdgeType) -> EdgeSource:
        """The files of a relation; a table with only a header has no edges."""
        files, columns = self.edges[edge_type], replace(self.edge_columns, edge_type=edge_type)
        try:
            return chained(files, [open_edges(file, None, columns) for file in files])
        except NoRowsError:
            if len(files) > 1:
                raise
            return held(Edges(NO_IDS, NO_IDS, None))

    def open_nodes(self, name: str) -> FeatureSource:
        """The file of the nodes of a type, or the ids that its edges name."""
        if self.nodes[name] is not None:
            return open_table(self.of_type(name))
        ids = distinct(
            getattr(chunk, end)
            for edge_type in self.edges
            for end, kind in zip(("source", "target"), edge_type[::2], strict=True)
            if kind == name
            for chunk in self.open_relation(edge_type).chunks(_CHECKED_ROWS)
        )
        if not len(ids):
            raise InputError(
                f"type {name!r} has no edges, but its nodes are those that edges name "
                f"({name}={FROM_EDGES}): pass a table or a number of nodes."
            )
        return FeatureSource((len(ids), 0), lambda: iter(()), ids)

    def read(self) -> TypedParts:
        """Open all files, and read labels."""
        own = self.labelled
        features = {name: self.open_nodes(name) for name in self.nodes}
        nodes = {name: self.of_type(name).read_nodes(features[name]) for name in self.nodes}
        edges = {edge_type: self.open_relation(edge_type) for edge_type in self.edges}
        labels = self.of_type(own).read_labels(nodes[own])
        parts = TypedParts(nodes, features, edges, own, labels, self.splits)
        return parts.with_links(self.label_edges)

    def problems(self) -> list[str]:
        """Every problem of the files, with the type or relation that it belongs to."""
        problems = Problems()
        nodes: dict[str, Nodes] = {}
        for name in self.nodes:
            with problems.collecting(f"nodes {name}: "):
                source = self.open_nodes(name)
                nodes[name] = self.of_type(name).read_nodes(source)
                for _ in finite_rows("features", source.chunks()) if source.shape[1] else ():
                    pass
        for edge_type in self.edges:
            with problems.collecting(f"edges {','.join(edge_type)}: "):
                for _ in numbered(self.open_relation(edge_type), edge_type, nodes, _CHECKED_ROWS):
                    pass
        with problems.collecting():
            if len(nodes) == len(self.nodes):
                read_links(self.label_edges, nodes, self.edges)
        with problems.collecting():
            own = self.labelled
            if own in nodes:
                files = self.of_type(own)
                files.read_splits(self.splits, nodes[own], files.read_labels(nodes[own]))
        return problems.found


def distinct(columns: Iterable[Any]) -> Any:
    """Distinct ids of several columns, increasing: a pyarrow array of int64 or text."""
    import pyarrow as arrow
    from pyarrow import compute

    parts = [compute.unique(arrow.array(one)) for one in columns if len(one)]
    if not parts:
        return arrow.array([], arrow.int64())
    are_numbers = all(arrow.types.is_integer(part.type) for part in parts)
    kind = arrow.int64() if are_numbers else arrow.large_string()
    found = compute.unique(arrow.concat_arrays([part.cast(kind) for part in parts]))
    return found.take(compute.sort_indices(found))


def open_table(files: Files) -> FeatureSource:
    """The file of the nodes of a type; a table with only ids has no features."""
    file = files.features
    if file is not None and _has_ids_alone(file, files.feature_columns.id_column):
        ids, number = read_ids(file, files.feature_columns, may_be_alone=True)
        return FeatureSource((number, 0), lambda: iter(()), ids)
    return files.open_features()


def _has_ids_alone(file: Path, id_column: str) -> bool:
    """Whether a table has one column, whose name is one of ids."""
    known = (*ID_NAMES, *([id_column.lower()] if id_column else []))
    names = _names(file, known)
    return len(names) == 1 and names[0].lower() in known


def _own_ids(file: Path, node_type: str) -> str:
    """Name of the first column of a table if it is that of a type of nodes, or empty."""
    known = node_type.lower(), f"{node_type.lower()}_id"
    names = _names(file, known) if file.exists() else []
    return names[0] if names and names[0].lower() in known else ""


def _names(file: Path, known: Sequence[str]) -> list[str]:
    """Names of the columns of a table; empty for other files, and for tables that are damaged."""
    if not is_table(file):
        return []
    check_regular(file, f"nodes={str(file)!r}")
    try:
        first = next(table_blocks("nodes", file, 1, known))
    except InputError:  # what is wrong, `Files.open_features` says
        return []
    return [name.strip() for name in first.names]


def numbered(source: EdgeSource, edge_type: EdgeType, nodes: Mapping[str, Nodes], rows: int) -> Any:
    """Chunks of the edges of a relation, with numbers within the types of their ends."""
    ends = nodes.get(edge_type[0]), nodes.get(edge_type[2])
    number = 0
    for chunk in source.chunks(rows):
        if ends[0] is None or ends[1] is None:  # its own problem is named
            return
        if not len(chunk.source):
            continue
        edges = find_ends(chunk, ends[0], ends[1])
        if edges.weight is not None:
            size = len(edges.source)
            weight = checks.weights("weight", edges.weight, size, number)
            edges = edges._replace(weight=weight)
        number += len(edges.source)
        yield edges


def hetero_parts(data: Any, node_type: str | None, task: str, time: str = "") -> TypedParts:
    """What a `HeteroData` holds; `time` names the attribute of times."""
    has_weights = all(
        getattr(data[one], "edge_weight", None) is not None for one in data.edge_types
    )
    norm = "weights" if has_weights and data.edge_types else "mean"
    given = hetero_arguments(data, norm, {"edge_ids": False, "time_attr": time or None})
    sizes: dict[str, int] = given["num_nodes"]
    own = chosen_type(sizes, node_type, labelled_types(data))
    edges = {}
    for edge_type, pairs in given["edge_index"].items():
        for end in (edge_type[0], edge_type[2]):
            if end not in sizes:
                raise InputError(
                    f"relation {edge_type} is between unknown types, {end!r} is none of "
                    f"{', '.join(sizes)}: give the type its number of nodes."
                )
        ends = checks.as_array("edge_index", pairs)
        weight = checks.as_array("edge_weight", given["weight"][edge_type]) if has_weights else None
        edges[edge_type] = held(Edges(ends[0], ends[1], weight))
    return TypedParts(
        {
            name: Nodes(checks.whole(f"num_nodes of {name!r}", size, 1))
            for name, size in sizes.items()
        },
        {name: dense_features(type_features(data, name)) for name in sizes},
        edges,
        own,
        data_labels(data[own], sizes[own], task),
        data_splits(data[own]),
        timed=partial(hetero_graph, data, time_attr=time) if time else None,
        node_time=node_times(data, own, sizes, time),
    )
