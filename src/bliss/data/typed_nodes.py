"""`TypedNodes`: features and names of the nodes of a heterogeneous graph, by type."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import IntArray
from bliss.data.labels import Labels
from bliss.data.names import NodeNames
from bliss.data.table_encoder import TableEncoder
from bliss.errors import InputError
from bliss.graph import EdgeType, Graph, GraphTypes

FEATURE_KINDS = torch.float32, torch.float16


@dataclass(frozen=True, eq=False)
class TypedNodes:
    """Nodes of a heterogeneous graph: each type has features of its own width and number type."""

    x: Mapping[str, Tensor]  # [n_t, F_t] in the order of the graph's types; F_t = 0: no features
    node_type: str  # type of the nodes that have labels
    names: Mapping[str, NodeNames] = field(default_factory=dict)  # the user's ids, by type
    encoders: Mapping[str, TableEncoder] = field(default_factory=dict)  # of tables of features

    @property
    def widths(self) -> dict[str, int]:
        """Number of features of each type."""
        return {name: x.size(1) for name, x in self.x.items()}

    @property
    def without_features(self) -> list[str]:
        """Types that have no features."""
        return [name for name, width in self.widths.items() if width == 0]

    def check(self, graph: Graph, splits: Mapping[str, Tensor]) -> None:
        """Raise an error unless these are the nodes of the graph, and splits of the labelled type.

        splits hold ids of the graph.
        """
        types = graph.types
        if types is None or list(types.node_types) != list(self.x):
            raise InputError(
                f"features are those of the types {', '.join(self.x)}, which are not those of the "
                "graph: give each type of nodes one entry, in order."
            )
        for name, number in types.num_nodes.items():
            x = self.x[name]
            if x.ndim != 2 or x.dtype not in FEATURE_KINDS or len(x) != number:
                raise InputError(
                    f"x of type {name!r} is {x.dtype} of shape {tuple(x.shape)}, but must be "
                    f"float32 with one row for each of its {number} nodes: pass [n, F]."
                )
        place = types.range_of(self.node_type)
        for name, ids in splits.items():
            if ids.numel() and not place.start <= int(ids.min()) <= int(ids.max()) < place.stop:
                raise InputError(
                    f"splits[{name!r}] holds nodes that are not of type {self.node_type!r}, which "
                    "has the labels: keep nodes of this type alone."
                )


def labels_of_type(labels: Labels, types: GraphTypes, node_type: str) -> Labels:
    """Labels of all nodes, from those of one type: the nodes of other types have none."""
    place, number = types.range_of(node_type), int(types.node_ptr[-1])
    empty = {"classes": -1, "labels": 0, "regression": np.nan}[labels.task]
    y = np.full((number, *labels.y.shape[1:]), empty, labels.y.dtype)
    y[place] = labels.y
    return labels._replace(y=y)


def splits_of_type(
    splits: Mapping[str, IntArray], types: GraphTypes, node_type: str
) -> dict[str, IntArray]:
    """Splits as ids of the graph, from ids within a type."""
    first = types.range_of(node_type).start
    return {name: ids + first for name, ids in splits.items()}


def chosen_type(types: Collection[str], given: str | None, labelled: Sequence[str]) -> str:
    """The type whose nodes are to be learnt: `given`, or the only one that has labels.

    Without labels, of which links have no need, it is the first.
    """
    if given is not None:
        if given not in types:
            raise InputError(
                f"node_type={given!r} is not a type of nodes: choose one of {', '.join(types)}."
            )
        return given
    if len(labelled) > 1:
        raise InputError(
            f"types {', '.join(labelled)} have labels, but one type is learnt: pass node_type "
            "(--node-type)."
        )
    return next(iter(labelled or types))


def reverse_of(edge_type: EdgeType, known: Collection[EdgeType]) -> EdgeType | None:
    """Name of the reverse of a relation: "rev_" and its name; None if it has one already."""
    source, name, target = edge_type
    back = target, f"rev_{name}", source
    return None if back in known or is_reverse(edge_type, known) else back


def own_relations(edge_types: Sequence[EdgeType]) -> list[EdgeType]:
    """Relations that are not the reverse of another, by their names."""
    return [one for one in edge_types if not is_reverse(one, edge_types)]


def is_reverse(edge_type: EdgeType, known: Collection[EdgeType]) -> bool:
    """Whether a relation is the reverse of another, by its name."""
    source, name, target = edge_type
    return name.startswith("rev_") and (target, name[4:], source) in known
