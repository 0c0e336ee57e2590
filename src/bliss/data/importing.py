"""`import_graph`: check a user's own graph files and write them as a store, in bounded memory."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from bliss import checks
from bliss.arrays import NOTHING, FloatArray
from bliss.data.edges import (
    EdgeColumns,
    Edges,
    check_some,
    concatenated,
    find_nodes,
    make_graph,
)
from bliss.data.features import FEATURE_TYPES, FeatureColumns, finite_rows, open_features
from bliss.data.import_files import Files, Parts, find_problems
from bliss.data.labels import AUTO
from bliss.data.problems import ImportProblems
from bliss.data.saving import Content, Progress, WrittenGraph, check_new, write_store
from bliss.data.sorting import LEAST_MEMORY, EdgeSorter, SortedEdges, chunk_rows
from bliss.data.splits import SplitSource
from bliss.data.store import StrPath, open_store, write_graph, write_graph_header
from bliss.data.summary import describe, import_summary
from bliss.data.table_encoder import MAX_CATEGORIES, TableEncoder
from bliss.data.timestamps import Times
from bliss.data.typed_import import (
    check_store_space,
    feature_types,
    import_tables,
    node_tables,
    refuse_beside_tables,
    relation_files,
    typed_encoders,
    write_parts,
)
from bliss.data.typed_parts import TypedFiles, TypedParts
from bliss.data.weights import weigh_self_loops
from bliss.errors import InputError
from bliss.graph import WEIGHTED, EdgeType, Norm
from bliss.storage.limits import memory_limit
from bliss.text import printable

_TIMED_BYTES = 128  # working memory for one edge with a time


def import_graph(
    out: StrPath,
    *,
    edges: StrPath | Sequence[StrPath] | Mapping[EdgeType, Any] | None = None,
    nodes: Mapping[str, StrPath | int] | None = None,
    features: StrPath | None = None,
    labels: StrPath | None = None,
    graph: StrPath | None = None,
    splits: SplitSource | None = None,
    weight: StrPath | None = None,
    directed: bool = True,
    label: str = "",
    feature_columns: Sequence[str] = (),
    id_column: str = "",
    source_column: str = "",
    target_column: str = "",
    weight_column: str = "",
    time_column: str = "",
    node_time_column: str = "",
    max_categories: int = MAX_CATEGORIES,
    like: StrPath | None = None,
    norm: str = "weighted-mean",
    task: str = "auto",
    seed: int = 0,
    num_nodes: int | None = None,
    memory: int | str | None = None,
    feature_type: str | Mapping[str, str] = "float32",
    label_edges: StrPath | Sequence[StrPath] | Mapping[EdgeType, Any] | None = None,
    node_type: str | None = None,
    reverse: bool = True,
    progress: Progress = lambda what, share: None,
) -> Path:
    """Check a graph and write it to the new folder `out`. A failure leaves no folder.

    If something is wrong, the error names the problems of all files. Edges in .npy, text or
    .parquet files are read in chunks and sorted on disk, and features in .npy or .parquet files are
    copied in chunks, so they may be larger than memory. Everything else must fit in memory.
    docs/graphs.md describes all formats.

    Parameters
    ----------
    out
        A folder that does not exist yet.
    edges
        .npy: [2, E] or [E, 2]. .npz: a SciPy matrix (entry [j, i] is the edge j -> i; values other
        than 1 are weights), or arrays src, dst and optionally weight. .csv and .parquet: columns
        src, dst and optionally weight; others are ignored. A list of files is read as one. Parallel
        edges are merged, and each node gets one self-loop. With `nodes`, files by relation, such as
        {("author", "writes", "paper"): "writes.csv"}; there are no self-loops then.
    nodes
        For a heterogeneous graph: by type, a file of features as below, or a number n of nodes
        without features, with ids 0 to n - 1, or "edges" for the nodes that its edges name, without
        features. Ids need to be distinct only within a type.
    features
        .npy, .npz (SciPy sparse), .csv or .parquet, one row per node: [V, F]. A table may have the
        ids of nodes in a first column called id, or in `id_column`. They can be any numbers or
        names; edges, labels and splits then use them. Columns of text are categories: each becomes
        a feature of 0 and 1. A missing number becomes the mean of the others, and a feature of 0
        and 1 marks the missing values of a column.
    labels
        .npy, .csv or .parquet: a class per node (a number, -1 for none, or text), a matrix of 0
        and 1, or numbers to predict.
    graph
        A file or folder with all of these, in the place of edges, features and labels: .pt of a PyG
        `Data` or `HeteroData`, .graphml, .gexf, or a folder of an OGB node property data set.
    splits
        Three fractions of the labelled nodes, or ids or masks; see `bliss.data.splits`. Default:
        those of `graph`, otherwise (0.6, 0.2, 0.2).
    weight
        .npy: one number per edge, if the file of edges has no weights.
    directed
        With False, every edge is used in both directions.
    label
        Column of the labels, or node attribute of `graph`. Default: every column but the ids.
    feature_columns
        Columns of the features, or node attributes of `graph`. Default: every column but the ids
        and the label. With `nodes`, columns are called TYPE.COLUMN.
    id_column
        Column of the ids of nodes in the table of features, and in that of labels if it is there.
        Default: the first column, if it is called id, node, node_id or name.
    source_column, target_column, weight_column
        Columns of tables of edges. Default: src and dst, source and target, from and to, row and
        col; weight.
    time_column
        Column with the timestamps of edges, or attribute of `graph` with those of edges or nodes:
        whole numbers, or dates. Parallel edges are then kept, because each is an event of its own,
        and edges are sorted in memory. See docs/time.md.
    node_time_column
        Column with the timestamps of nodes in the table of features; it is not a feature. Without
        time_column, an edge has the timestamp of its source.
    max_categories
        Largest number of categories of a column that become a feature each. Those of a column with
        more are hashed into as many features.
    like
        A store whose columns, categories and means encode the features, for a network that was
        trained on it.
    norm
        Aggregation coefficients if edges have weights: "weighted-mean", or "weights", their sum;
        see `Graph`.
    task
        "classes", "labels" (several per node), "regression", or "auto": by the type of the labels.
    seed
        Seed of the draw of fractions.
    num_nodes
        Expected number of nodes. Default: the number of rows of the features. Without features it
        must be given: ids are then 0 to num_nodes - 1, and networks learn embeddings.
    memory
        Bytes of working memory for the edges, such as 2**32 or "4GiB". Labels, splits, names of
        nodes and a byte per node come on top. Default: a quarter of the memory that
        this process may use, of the machine or of its control group.
    feature_type
        Type of the features in the store: "float32", or "float16", which halves their size. Rows
        are converted to float32 when they are read for training. By type of nodes, if it differs.
    label_edges
        .csv or .parquet, for link tasks: the links to train on and to score, instead of all edges
        of the graph. Columns src and dst, and optionally split (train, val or test) and time; or
        three files, of train, val and test. A link need not be an edge. With types, files by
        relation, as `edges`, of one relation.
    node_type
        Type of the nodes that have labels. Default: the type whose file is that of the labels, or
        of a HeteroData the only one that has y.
    reverse
        Whether to add the reverse of each relation, called rev_ and its name, unless there is one.
    progress
        Called with what is being done, and with the share in [0, 1] that is done, or None.

    Returns
    -------
    Path
        The folder, for `open_store` or `load_dataset`.
    """
    folder = check_new(out)
    checks.whole("seed", seed)
    checks.whole("max_categories", max_categories, least=1)
    checks.choice("task", task, AUTO)
    checks.choice("norm", norm, WEIGHTED)
    for kind in [feature_type] if isinstance(feature_type, str) else feature_type.values():
        checks.choice("feature_type", kind, list(FEATURE_TYPES))
    most = memory_limit() // 4 if memory is None else checks.byte_count("memory", memory)
    most, own_norm = max(most, LEAST_MEMORY), cast("Norm", norm)
    checks.flag("reverse", reverse)
    how = reverse, own_norm, most, progress
    if nodes is not None:
        beside: dict[str, Any] = {"features": features, "graph": graph, "weight": weight}
        beside["num_nodes"] = num_nodes
        beside |= {"time_column": time_column or None, "node_time": node_time_column or None}
        refuse_beside_tables(beside | {"directed": None if directed else False})
        typed = TypedFiles(
            nodes=node_tables(nodes),
            edges=relation_files("edges", edges),
            labels=_path("labels", labels),
            node_type=node_type,
            label=label,
            edge_columns=EdgeColumns(source_column, target_column, weight_column),
            feature_columns=tuple(feature_columns),
            id_column=id_column,
            max_categories=max_categories,
            encoders=None if like is None else typed_encoders(checks.path("like", like)),
            task=task,
            splits=splits,
            seed=seed,
            label_edges=relation_files("label_edges", label_edges),
        )
        return import_tables(folder, typed, feature_type, *how)
    if isinstance(edges, Mapping):
        raise InputError("edges are given by relation, but nodes=None: pass tables by type, too.")
    files = Files(
        edges=_paths("edges", edges),
        features=_path("features", features),
        labels=_path("labels", labels),
        graph=_path("graph", graph),
        weight=_path("weight", weight),
        splits=splits,
        label=label,
        edge_columns=EdgeColumns(source_column, target_column, weight_column, time_column),
        feature_columns=FeatureColumns(
            tuple(feature_columns),
            id_column=id_column,
            max_categories=max_categories,
            encoder=None if like is None else _encoder_of(checks.path("like", like)),
        ),
        task=task,
        seed=seed,
        label_edges=() if isinstance(label_edges, Mapping) else _paths("label_edges", label_edges),
        num_nodes=None if num_nodes is None else checks.whole("num_nodes", num_nodes, least=1),
        node_type=node_type,
        node_time=node_time_column,
    )
    files.check()
    try:
        parts: Any = files.read()
        if isinstance(parts, TypedParts):
            parts = parts.with_links(relation_files("label_edges", label_edges))
            return write_parts(folder, parts, files, feature_type, *how)
        if isinstance(label_edges, Mapping):
            raise InputError(
                "label_edges are given by relation, but the graph has no types: pass the files."
            )
        (feature_type,) = feature_types(feature_type, [""]).values()
        if num_nodes is not None and num_nodes != parts.nodes.number:
            raise InputError(
                f"features has {parts.nodes.number} rows, but num_nodes={num_nodes}: give each "
                "node one row."
            )
        directed = directed and not parts.is_undirected
        given, weighted = [(parts.features.shape, feature_type)], parts.edges.is_weighted
        check_store_space(folder, given, [parts.edges], weighted)
        plain = _Plan(parts, directed, own_norm, most, progress)
        return write_store(folder, _content(plain, files, feature_type), progress=progress)
    except InputError as error:
        progress("looking for other problems", None)
        found = find_problems(files, "float32" if graph is not None else str(feature_type))
        if len(found) > 1:
            raise ImportProblems(found) from error
        raise


def preview_import(**options: Any) -> dict[str, Any]:
    """What `import_graph` would write, as `describe` returns it; nothing is kept.

    The graph is imported to the folder of temporary files, so this takes as long as an import.
    """
    with tempfile.TemporaryDirectory(prefix="bliss-") as folder:
        return describe(open_store(import_graph(Path(folder) / "preview", **options)))


def encode_table(
    store: StrPath, table: StrPath, *, id_column: str = ""
) -> tuple[list[str | int] | None, FloatArray]:
    """Features of another table, encoded like those of a store, for a network trained on it.

    Parameters
    ----------
    store
        A store whose features came from a table.
    table
        .csv or .parquet with the columns of that table; others are ignored. A category that the
        store does not have is 0 in all features of its column.
    id_column
        Column of ids; see `import_graph`.

    Returns
    -------
    ids
        Ids of the rows, or None without a column of ids.
    x
        float32[N, F].
    """
    encoder = _encoder_of(checks.path("store", store))
    choice = FeatureColumns(id_column=id_column, encoder=encoder)
    source = open_features(checks.path("table", table), choice)
    ids = None if source.ids is None else source.ids.to_pylist()
    return ids, np.concatenate(list(finite_rows("features", source.chunks())))


def _path(field: str, given: StrPath | None) -> Path | None:
    return None if given is None else checks.path(field, given)


def _paths(field: str, given: StrPath | Sequence[StrPath] | None) -> tuple[Path, ...]:
    if given is None:
        return ()
    several = given if isinstance(given, (list, tuple)) else [given]
    return tuple(checks.path(field, one) for one in several)


def _encoder_of(folder: Path) -> TableEncoder:
    """The encoder of the columns of a store."""
    encoder = open_store(folder).encoder
    if encoder is None:
        raise InputError(
            f"the store {str(folder)!r} has features without names, so that it does not say how to "
            "encode a table: import it from a table, or pass an array of features."
        )
    return encoder


@dataclass(frozen=True)
class _Plan:
    """How to sort the edges of a graph."""

    parts: Parts
    directed: bool
    norm: Norm  # of edges with weights
    memory: int  # bytes
    progress: Progress

    def write(self, folder: Path) -> WrittenGraph:
        """Write the files of the graph into a folder, and say what was done to its edges."""
        nodes, source = self.parts.nodes, self.parts.edges
        if self.parts.time_unit and (source.time_unit or self.parts.node_time is not None):
            return self._write_timed(folder)
        rows = chunk_rows(self.memory)
        if nodes.names is not None:
            rows = max(rows, nodes.number)  # each chunk is compared with all names
        sorter = EdgeSorter(folder, nodes.number, source.is_weighted, self.directed, self.memory)
        with sorter:
            for chunk in source.chunks(rows):
                edges = find_nodes(chunk, nodes)
                weight = NOTHING
                if edges.weight is not None:
                    size = edges.source.size
                    weight = checks.weights("weight", edges.weight, size, sorter.read)
                sorter.add(edges.source, edges.target, weight)
                share = None if source.number is None else sorter.read / source.number
                self.progress(f"reading edges: {sorter.read:,}", share)
            check_some(sorter.read)
            merged = sorter.write(lambda share: self.progress("sorting edges", share))
        self.progress("writing digests", None)
        norm: Norm = self.norm if source.is_weighted else "mean"
        notes = weigh_self_loops(folder, norm) if source.is_weighted else []
        write_graph_header(folder, norm, nodes.number, merged.num_edges, self_loops=True)
        return WrittenGraph(merged.num_edges, self._summary(merged, notes))

    def _write_timed(self, folder: Path) -> WrittenGraph:
        """Write a graph whose edges have times, or are as old as their sources."""
        parts, node_time = self.parts, self.parts.node_time
        ages = None if parts.edges.time_unit or node_time is None else node_time.value
        chunks: list[Edges] = []
        read = 0
        for chunk in parts.edges.chunks(chunk_rows(self.memory)):
            read += len(chunk.source)
            if read * _TIMED_BYTES > self.memory:
                raise InputError(
                    f"edges with times are sorted in memory, and more than {read:,} take over "
                    f"{self.memory:,} bytes: raise memory (--memory)."
                )
            edges = find_nodes(chunk, parts.nodes)
            if edges.time is None and node_time is not None:
                times = Times(node_time.value[edges.source], node_time.unit)
                edges = edges._replace(time=times)
            chunks.append(edges)
            self.progress(f"reading edges: {read:,}", None)
        check_some(read)
        self.progress("sorting edges", None)
        edges = concatenated(chunks)
        if edges.weight is not None:
            edges = edges._replace(weight=checks.weights("weight", edges.weight, read))
        graph = make_graph(edges, parts.nodes.number, self.directed, self.norm, ages)
        write_graph(graph, folder)
        return WrittenGraph(
            graph.num_edges, import_summary(edges, graph, self.directed, self.notes)
        )

    @property
    def notes(self) -> list[str]:
        """Notes about all files."""
        parts = self.parts
        found = [*parts.notes, *parts.edges.notes, *parts.features.notes]
        return [*found, *parts.labels.notes, *_label_notes(parts)]

    def _summary(self, edges: SortedEdges, more: Sequence[str]) -> dict[str, Any]:
        """What was done to the edges, for dataset.json."""
        parts = self.parts
        kept = edges.num_edges - parts.nodes.number  # every node has one self-loop
        given = edges.read - edges.loops_read
        notes = [*self.notes, *more]
        is_reciprocal = not self.directed or kept == 0
        return {
            "edges_read": edges.read,
            "undirected": not self.directed,
            "duplicates_merged": given - (kept if self.directed else kept // 2),
            "self_loops_read": edges.loops_read,
            "self_loops_added": edges.loops_added,
            "reciprocal": 1.0 if is_reciprocal else edges.reciprocal / kept,
            "notes": notes,
        }


def _label_notes(parts: Parts) -> list[str]:
    """Notes about columns of features that may be the label itself."""
    encoder, classes = parts.features.encoder, set(parts.labels.names)
    if encoder is None or not classes:
        return []
    return [
        f"Column {printable(column.name)} has the categories of the labels: leave it out with "
        "--feature-columns if it is what you predict."
        for column in encoder.columns
        if set(column.categories) == classes
    ]


def _content(plan: _Plan, files: Files, feature_type: str) -> Content:
    """Graph, labels and splits, checked."""
    parts = plan.parts
    return Content(
        write_graph=plan.write,
        rows=finite_rows("features", parts.features.chunks(), feature_type),
        shape=parts.features.shape,
        feature_type=feature_type,
        labels=parts.labels,
        splits=files.read_splits(parts.splits, parts.nodes, parts.labels),
        names=parts.nodes.names,
        encoder=parts.features.encoder,
        label_edges=parts.label_edges,
        node_time=None if parts.node_time is None else parts.node_time.value,
        time_unit=parts.time_unit,
    )
