"""`Dataset`: a graph with features, labels and splits, checked on construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bliss import checks
from bliss.arrays import Array, BoolArray, IntArray
from bliss.data.label_edges import LabelEdges
from bliss.data.names import NodeNames
from bliss.data.nodes import Nodes
from bliss.data.table_encoder import TableEncoder
from bliss.data.timestamps import NUMBER
from bliss.data.typed_nodes import TypedNodes
from bliss.errors import InputError
from bliss.graph import Graph
from bliss.graph.cutoff import check_times
from bliss.storage.digests import array_digest

SPLITS = ("train", "val", "test")
TASKS = ("classes", "labels", "regression")


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A graph to learn on: V nodes, F features, C classes or T targets.

    `x` may be memory-mapped: read only the rows that are needed. The task is one of

    * ``"classes"``: one class per node, y int64[V], -1 where unlabelled
    * ``"labels"``: several labels per node, or none, y float32[V, C] of 0 and 1
    * ``"regression"``: T numbers per node, y float32[V, T], NaN where unknown; `num_classes` is 0

    A graph without labels has the task "classes" and `num_classes` 0. If the graph has types, nodes
    have the ids of `GraphTypes`, `typed` has the features, and the nodes of one type have labels.
    `Dataset.from_data` makes a dataset of a PyG `Data` or `HeteroData`.
    """

    name: str
    graph: Graph  # norm "mean", or "weighted-mean" or "weights" if the user's edges have weights
    x: Tensor  # float32[V, F], or float16, which is converted when rows are read
    y: Tensor  # int64[V], float32[V, C] or float32[V, T]; see above
    splits: Mapping[str, Tensor]  # "train", "val", "test": int64 ids, disjoint
    num_classes: int  # C
    digest: str = ""  # of the files of a store, checked when it was opened; empty for others
    task: str = ""  # empty: "classes" for int64[V], "labels" for float32[V, C]
    node_names: NodeNames | None = None  # the user's ids of nodes; None: 0 to V - 1
    class_names: tuple[str, ...] = ()  # of the classes, labels or targets; empty: numbers
    encoder: TableEncoder | None = None  # of the columns of a table of features; None: no table
    imported: Mapping[str, Any] | None = None  # what an import did; see `bliss.data.summary`
    label_edges: LabelEdges | None = None  # the links of link tasks; None: the edges of the graph
    node_time: IntArray | None = None  # int64[V] times of nodes, for splits by time
    time_unit: str = ""  # of all times: number, date (see `timestamps`), or empty: no times
    typed: TypedNodes | None = None  # features of a heterogeneous graph; x is then [V, 0]

    def __post_init__(self) -> None:
        nodes = self.graph.num_nodes
        kinds = torch.float32, torch.float16
        if self.x.ndim != 2 or self.x.dtype not in kinds or len(self.x) != nodes:
            raise InputError(
                f"x is {self.x.dtype} of shape {tuple(self.x.shape)}, but must be float32 with "
                f"one row for each of the {nodes} nodes: pass [V, F]."
            )
        if not self.task:
            object.__setattr__(self, "task", "labels" if self.y.ndim == 2 else "classes")
        checks.choice("task", self.task, TASKS)
        kind, sides = (torch.int64, 1) if self.task == "classes" else (torch.float32, 2)
        if self.y.ndim != sides or self.y.dtype != kind or len(self.y) != nodes:
            raise InputError(
                f"y is {self.y.dtype} of shape {tuple(self.y.shape)}, but must be int64[V] class "
                f"ids, float32[V, C] of 0 and 1, or float32[V, T] with task='regression', for the "
                f"{nodes} nodes: convert it."
            )
        self._check_classes()
        if set(self.splits) != set(SPLITS):
            raise InputError(
                f"splits has {sorted(self.splits)}, but must have train, val and test: rename them."
            )
        for name, ids in self.splits.items():
            if ids.dtype != torch.int64 or ids.ndim != 1:
                raise InputError(
                    f"splits[{name!r}] is {ids.dtype} of shape {tuple(ids.shape)}, but must be "
                    "int64 ids: convert it."
                )
        if self.label_edges is not None:
            self.label_edges.check(self.graph)
        if self.node_time is not None:
            check_times("node_time", self.node_time, nodes, "node")
        if not self.time_unit and (self.graph.has_times or self.node_time is not None):
            object.__setattr__(self, "time_unit", NUMBER)
        if self.typed is not None:
            self.typed.check(self.graph, self.splits)
        parts = {name: ids.numpy() for name, ids in self.splits.items()}
        missing = "target (NaN)" if self.task == "regression" else "label (-1)"
        check_splits(parts, self.is_labelled, nodes, missing)

    @classmethod
    def of_arrays(
        cls,
        name: str,
        graph: Graph,
        x: Array,
        y: Array,
        splits: Mapping[str, IntArray],
        num_classes: int,
        **others: Any,
    ) -> Dataset:
        """A dataset of NumPy arrays, whose memory it shares."""
        ids = {split: torch.from_numpy(nodes) for split, nodes in splits.items()}
        tensors = torch.from_numpy(x), torch.from_numpy(y), ids
        return cls(name, graph, *tensors, num_classes, **others)

    @classmethod
    def from_data(cls, data: Any, name: str = "data", **options: Any) -> Dataset:
        """A dataset of a PyG `Data` or `HeteroData`; for options see `bliss.data.from_data`."""
        from bliss.data.from_data import from_data

        return from_data(data, name, **options)

    def __repr__(self) -> str:
        graph = repr(self.graph).removeprefix("Graph(").removesuffix(")")
        word = "targets" if self.is_regression else "labels" if self.is_multilabel else "classes"
        splits = ", ".join(f"{name}={ids.numel()}" for name, ids in self.splits.items())
        sizes = f"features={self.num_features}, {word}={self.num_outputs}, {splits}"
        return f"Dataset({self.name!r}, {graph}, {sizes})"

    @property
    def is_multilabel(self) -> bool:
        """Whether a node can have several classes."""
        return self.task == "labels"

    @property
    def is_regression(self) -> bool:
        """Whether the targets are numbers."""
        return self.task == "regression"

    @property
    def num_outputs(self) -> int:
        """Number of outputs of a network: C, or T for regression; 0 without labels."""
        return self.y.size(1) if self.is_regression else self.num_classes

    @cached_property
    def is_labelled(self) -> BoolArray:
        """Whether each node has a label or all targets; True everywhere without labels. bool[V]."""
        return labelled(self.y.numpy(), self.task, self.num_classes)

    @property
    def num_features(self) -> int:
        """F; the sum over types, if there are any."""
        return self.x.size(1) if self.typed is None else sum(self.typed.widths.values())

    def nodes_of(self, node_type: str | None) -> tuple[Nodes, int]:
        """Nodes of a type with the user's ids, and the id of the first; None: all nodes."""
        if node_type is None or self.typed is None or self.graph.types is None:
            return Nodes(self.graph.num_nodes, self.node_names), 0
        own = self.graph.types.range_of(node_type)
        return Nodes(own.stop - own.start, self.typed.names.get(node_type)), own.start

    @property
    def features_nbytes(self) -> int:
        """Bytes of all features."""
        tensors = (self.x,) if self.typed is None else self.typed.x.values()
        return sum(tensor.nbytes for tensor in tensors)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of all edges, weights, features, labels and splits; of a store, of its files."""
        if self.digest:
            return self.digest
        edges = self.graph.indptr, self.graph.indices, self.graph.weight
        tensors = self.x, self.y, *(self.splits[name] for name in SPLITS)
        links = () if self.label_edges is None else self.label_edges.files.values()
        times = [self.graph.time] if self.graph.has_times else []
        times += [] if self.node_time is None else [self.node_time]
        arrays = [*edges, *(tensor.numpy() for tensor in tensors), *links, *times]
        if self.typed is not None and self.graph.types is not None:
            arrays += [x.numpy() for x in self.typed.x.values()]
            arrays += self.graph.types.arrays
        return array_digest(*arrays)

    def _check_classes(self) -> None:
        if self.class_names and len(self.class_names) != self.num_outputs:
            raise InputError(
                f"class_names has {len(self.class_names)} names, but there are {self.num_outputs} "
                "classes or targets: give each one name."
            )
        if self.is_regression:
            if self.num_classes or not self.y.size(1):
                raise InputError(
                    f"num_classes={self.num_classes} and y has {self.y.size(1)} columns, but "
                    "regression has no classes and at least one target: pass num_classes=0."
                )
            return
        if self.is_multilabel:
            if self.y.size(1) != self.num_classes:
                raise InputError(
                    f"y has {self.y.size(1)} columns, but num_classes={self.num_classes}: give "
                    "one column per class."
                )
            return
        if self.y.numel() == 0:
            return
        low, high = int(self.y.min()), int(self.y.max())
        if low < -1 or high >= self.num_classes:
            raise InputError(
                f"y runs from {low} to {high}, but class ids run from 0 to "
                f"{self.num_classes - 1}, with -1 for no label: correct y or num_classes."
            )


def labelled(y: Array, task: str, num_classes: int) -> BoolArray:
    """Whether each node has a label or all targets; True everywhere without labels. bool[V]."""
    if task == "regression":
        return np.asarray(np.isfinite(y).all(axis=1))
    return y >= 0 if task == "classes" and num_classes else np.ones(len(y), np.bool_)


def check_splits(
    splits: Mapping[str, IntArray],
    is_labelled: BoolArray,
    num_nodes: int,
    missing: str = "label (-1)",
) -> None:
    """Check that splits hold distinct ids of labelled nodes and do not overlap.

    is_labelled is bool[V]. Only train must not be empty. `missing` names what a node lacks.
    """
    owner = np.full(num_nodes, -1, np.int8)
    for position, name in enumerate(SPLITS):
        field = f"splits[{name!r}]"
        ids = checks.node_ids(field, splits[name], num_nodes)
        taken = ids[owner[ids] >= 0]
        if taken.size:
            raise InputError(
                f"node {taken[0]} is in the splits {SPLITS[owner[taken[0]]]!r} and {name!r}, which "
                "must not overlap: keep it in one of them."
            )
        owner[ids] = position
        if np.count_nonzero(owner == position) != ids.size:
            raise InputError(f"{field} holds a node more than once: pass distinct ids.")
        unlabelled = ids[~is_labelled[ids]]
        if unlabelled.size:
            raise InputError(
                f"node {unlabelled[0]} of {field} has no {missing}: add it, or remove the node "
                "from the split."
            )
    if splits["train"].size == 0:
        raise InputError("splits['train'] is empty, but training needs nodes: add some.")
