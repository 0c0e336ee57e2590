"""Import of a heterogeneous graph: sort the edges of all relations on disk, and write a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bliss import checks
from bliss.arrays import NOTHING
from bliss.data.edges import EdgeSource, all_weighted, check_some
from bliss.data.features import FEATURE_TYPES, finite_rows
from bliss.data.import_files import Files
from bliss.data.npy import GrowingNpy, map_npy
from bliss.data.problems import raise_problems
from bliss.data.saving import Content, Progress, TypedRows, WrittenGraph, write_store
from bliss.data.sorting import EdgeSorter, chunk_rows, disk_bytes
from bliss.data.store import StrPath, open_store, write_graph, write_graph_header
from bliss.data.table_encoder import TableEncoder
from bliss.data.timestamps import NUMBER, common_unit
from bliss.data.typed_nodes import TypedNodes, labels_of_type, reverse_of, splits_of_type
from bliss.data.typed_parts import FROM_EDGES, TypedFiles, TypedParts, numbered
from bliss.data.typed_store import GROUP_FILES, open_types
from bliss.errors import InputError
from bliss.graph import EdgeType, GraphTypes, Norm
from bliss.graph.csc import ranges
from bliss.storage.files import check_space

_CHUNK = 1 << 22  # edges that are divided into groups at once


@dataclass(frozen=True)
class TypedPlan:
    """How to sort the edges of a heterogeneous graph."""

    parts: TypedParts
    reverse: bool  # whether to add the reverse of every relation that has none
    norm: Norm  # of edges with weights
    memory: int  # bytes
    progress: Progress

    @property
    def relations(self) -> dict[EdgeType, EdgeType | None]:
        """Every relation of the files, and its reverse if it is added."""
        known = self.parts.edges.keys()
        return {one: reverse_of(one, known) if self.reverse else None for one in known}

    @property
    def edge_types(self) -> list[EdgeType]:
        """All relations, those of the files first."""
        return [*self.relations, *(back for back in self.relations.values() if back is not None)]

    @property
    def types(self) -> GraphTypes:
        """The types of the graph, without groups."""
        sizes = [nodes.number for nodes in self.parts.nodes.values()]
        pointers = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        empty = np.zeros(int(pointers[-1]) + 1, np.int64), np.zeros(1, np.int64)
        names = tuple(self.parts.nodes)
        return GraphTypes(names, pointers, tuple(self.edge_types), *empty, np.empty(0, np.int32))

    @property
    def is_weighted(self) -> bool:
        """Whether edges have weights: those of all relations, or of none."""
        edges = self.parts.edges.items()
        return all_weighted({f"relation {','.join(one)}": s for one, s in edges if s.number != 0})

    def write(self, folder: Path) -> WrittenGraph:
        """Write the files of the graph into a folder, and say what was done to its edges."""
        if self.parts.timed is not None:
            self.progress("sorting edges", None)
            graph = self.parts.timed(self.norm if self.is_weighted else "mean", self.reverse)
            write_graph(graph, folder)
            read = sum(source.number or 0 for source in self.parts.edges.values())
            return WrittenGraph(graph.num_edges, self._summary(0, read, graph.num_edges, ()))
        first = self.types.node_ptr
        place = {name: int(first[t]) for t, name in enumerate(self.parts.nodes)}
        number, is_weighted = {one: r for r, one in enumerate(self.edge_types)}, self.is_weighted
        sorter = EdgeSorter(folder, int(first[-1]), is_weighted, True, self.memory, len(number))
        read = given = 0
        notes: list[str] = []
        with sorter:
            for edge_type, back in self.relations.items():
                named, before = ",".join(edge_type), read
                for edges in self._chunks(edge_type):
                    source = edges.source + place[edge_type[0]]
                    target = edges.target + place[edge_type[2]]
                    weight = NOTHING if edges.weight is None else edges.weight
                    sorter.add_typed(source, target, weight, number[edge_type])
                    if back is not None:
                        sorter.add_typed(target, source, weight, number[back])
                    read += source.size
                    given += source.size * (1 if back is None else 2)
                    self.progress(f"reading edges of {named}: {read:,}", None)
                if read == before:
                    notes.append(f"Relation {named} has no edges.")
            check_some(read)
            merged = sorter.write(lambda share: self.progress("sorting edges", share))
        write_groups(folder, int(first[-1]))
        self.progress("writing digests", None)
        norm: Norm = self.norm if is_weighted else "mean"
        header = {"types": {"node_types": self.types.num_nodes, "edge_types": self.edge_types}}
        types = open_types(folder, header)
        write_graph_header(folder, norm, int(first[-1]), merged.num_edges, types=types)
        return WrittenGraph(
            merged.num_edges, self._summary(given - merged.num_edges, read, given, notes)
        )

    def _chunks(self, edge_type: EdgeType) -> Any:
        nodes = self.parts.nodes
        rows = chunk_rows(self.memory)
        for end in (nodes[edge_type[0]], nodes[edge_type[2]]):
            rows = max(rows, end.number) if end.names is not None else rows
        return numbered(self.parts.edges[edge_type], edge_type, nodes, rows)

    def _summary(
        self, repeated: int, read: int, given: int, found: Sequence[str]
    ) -> dict[str, Any]:
        """What was done to the edges, for dataset.json."""
        parts = self.parts
        notes = [*parts.notes, *(note for one in parts.edges.values() for note in one.notes)]
        notes += found
        for name, source in parts.features.items():
            notes += [f"{name}: {note}" for note in source.notes]
        notes += parts.labels.notes
        has_reverse = any(back is not None for back in self.relations.values())
        if has_reverse:
            notes.append("Reverse relations (rev_...) were added; --no-reverse leaves them out.")
        return {
            "edges_read": read,
            "undirected": has_reverse,
            "duplicates_merged": repeated * read // max(given, 1),
            "self_loops_read": 0,
            "self_loops_added": 0,
            "reciprocal": 1.0 if has_reverse else 0.0,
            "notes": list(dict.fromkeys(notes)),
        }


def write_groups(folder: Path, num_nodes: int) -> None:
    """Write the groups of sorted edges r V + j, and j in their place, chunk by chunk."""
    indptr = map_npy(folder / "indptr.npy")
    indices = np.load(folder / "indices.npy", mmap_mode="r+")
    groups = 0
    kinds = np.int64, np.int64, np.int32
    with ExitStack() as stack:
        pointer, begin, kind = (
            stack.enter_context(GrowingNpy(folder / file, one))
            for file, one in zip(GROUP_FILES, kinds, strict=True)
        )
        pointer.write(np.zeros(1, np.int64))
        for start, stop in ranges(indptr, _CHUNK):
            own = slice(int(indptr[start]), int(indptr[stop]))
            relation, indices[own] = np.divmod(indices[own], num_nodes)
            starts = indptr[start:stop] - own.start
            is_first = np.ones(relation.size, np.bool_)
            is_first[1:] = relation[1:] != relation[:-1]
            is_first[starts[starts < relation.size]] = True
            place = np.flatnonzero(is_first)
            begin.write(place + own.start)
            kind.write(relation[place])
            pointer.write(groups + np.searchsorted(place, indptr[start + 1 : stop + 1] - own.start))
            groups += place.size
        begin.write(np.array([indices.size]))
    indices.flush()


def typed_content(plan: TypedPlan, files: Files, feature_types: Mapping[str, str]) -> Content:
    """Graph, features, labels and splits, checked. feature_types: of each type of nodes."""
    parts, types = plan.parts, plan.types
    number = int(types.node_ptr[-1])
    rows = {
        name: TypedRows(
            finite_rows(f"features of {name}", source.chunks(), feature_types[name])
            if source.shape[1]
            else (),
            source.shape,
            feature_types[name],
        )
        for name, source in parts.features.items()
    }
    encoders = {n: one.encoder for n, one in parts.features.items() if one.encoder is not None}
    names = {n: one.names for n, one in parts.nodes.items() if one.names is not None}
    empty = {n: torch.empty(one.number, 0) for n, one in parts.nodes.items()}
    within = files.read_splits(parts.splits, parts.nodes[parts.node_type], parts.labels)
    return Content(
        write_graph=plan.write,
        rows=[np.empty((number, 0), np.float32)],
        shape=(number, 0),
        feature_type="float32",
        labels=labels_of_type(parts.labels, types, parts.node_type),
        splits=splits_of_type(within, types, parts.node_type),
        names=None,
        typed=TypedNodes(empty, parts.node_type, names, encoders),
        label_edges=parts.label_edges,
        node_time=parts.node_time,
        time_unit=common_unit(
            edges=NUMBER if parts.timed is not None else "",
            label_edges="" if parts.label_edges is None else parts.label_edges.time_unit,
        ),
        typed_rows=rows,
    )


def check_store_space(
    folder: Path,
    features: Iterable[tuple[tuple[int, int], str]],
    edges: Iterable[EdgeSource],
    is_weighted: bool,
) -> None:
    """Raise if the disk cannot hold the store, or what is needed to sort its edges.

    features: shape and number type of the features, of each type of nodes
    """
    sizes = [(shape, np.dtype(FEATURE_TYPES[kind]).itemsize) for shape, kind in features]
    nodes = sum(height for (height, _), _ in sizes)
    number = sum(source.number or 0 for source in edges)  # of a text, it is not known
    runs, graph = disk_bytes(number, nodes, is_weighted)
    of_features = sum(height * width * size for (height, width), size in sizes)
    check_space(folder, graph + max(runs, of_features))  # the runs are gone before features come


def write_parts(
    folder: Path,
    parts: TypedParts,
    files: Files,
    feature_type: str | Mapping[str, str],
    reverse: bool,
    norm: Norm,
    memory: int,
    progress: Progress,
) -> Path:
    """Write what was read as a store; files: those of the type that has labels."""
    kinds = feature_types(feature_type, list(parts.nodes))
    plan = TypedPlan(parts, reverse, norm, memory, progress)
    features = [(source.shape, kinds[name]) for name, source in parts.features.items()]
    check_store_space(folder, features, parts.edges.values(), plan.is_weighted)
    return write_store(folder, typed_content(plan, files, kinds), progress=progress)


def import_tables(
    folder: Path, files: TypedFiles, feature_type: str | Mapping[str, str], *how: Any
) -> Path:
    """Import tables of nodes and edges; `how` are the last arguments of `write_parts`."""
    files.check()
    progress: Progress = how[-1]
    try:
        parts = files.read()
        return write_parts(folder, parts, files.of_type(parts.node_type), feature_type, *how)
    except InputError:
        progress("looking for other problems", None)
        raise_problems(files.problems())  # each with its type or relation
        raise


def refuse_beside_tables(given: Mapping[str, Any]) -> None:
    """Raise an error if an option of graphs without types was given."""
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"{name}={value!r} was given beside nodes, the tables of a heterogeneous graph: "
                "leave it out."
            )


def node_tables(given: Mapping[str, StrPath | int]) -> dict[str, Path | int | None]:
    """By type, a table of nodes, or the number of nodes without features; None: those of edges."""
    return {
        name: None
        if str(one) == FROM_EDGES
        else checks.whole(f"nodes of {name!r}", one, least=1)
        if isinstance(one, int)
        else checks.path("nodes", one)
        for name, one in given.items()
    }


def relation_files(field: str, given: Any) -> dict[EdgeType, tuple[Path, ...]]:
    """Files of edges, or of links, by relation."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        shown = [str(one) for one in given] if isinstance(given, (list, tuple)) else str(given)
        raise InputError(
            f"{field}={shown!r} must be files by relation, because there are several types of "
            "nodes: write author,writes,paper=writes.csv."
        )
    found = {}
    for key, files in given.items():
        if not isinstance(key, tuple) or len(key) != 3 or not all(key):
            raise InputError(
                f"{field} has the relation {key!r}, but a relation is a source type, a name and a "
                "target type: write author,writes,paper=writes.csv."
            )
        several = files if isinstance(files, (list, tuple)) else [files]
        found[key] = tuple(checks.path(field, file) for file in several)
    return found


def feature_types(given: str | Mapping[str, str], types: Sequence[str]) -> dict[str, str]:
    """Number type of the features of each type of nodes."""
    named = dict.fromkeys(types, given) if isinstance(given, str) else dict(given)
    for name, kind in named.items():
        checks.choice("feature_type", kind, list(FEATURE_TYPES))
        if name not in types:
            raise InputError(
                f"feature_type is given for {name!r}, which is not a type of nodes: choose one of "
                f"{', '.join(types)}."
            )
    return {name: named.get(name, "float32") for name in types}


def typed_encoders(folder: Path) -> Mapping[str, TableEncoder]:
    """The encoders of the tables of a store with types."""
    typed = open_store(folder).typed
    if typed is None:
        raise InputError(
            f"the store {str(folder)!r} has no types, so that it does not say how to encode "
            "several tables: pass a store with the same types."
        )
    return typed.encoders
