"""Links of a dataset by the settings of a run: their relation, their splits, and their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.data.dataset import SPLITS, Dataset
from bliss.data.label_edges import LabelEdges
from bliss.data.typed_nodes import own_relations
from bliss.errors import InputError
from bliss.graph import EdgeType, GraphTypes
from bliss.links import LinkSplits, NegativeSampling
from bliss.loader.typed_links import TypedLinks
from bliss.train.config import TrainConfig
from bliss.train.config_parts import ObjectiveConfig

_LISTED = 20  # relations that an error message names


class Sides(NamedTuple):
    """Nodes that can be sources and targets of links; None: all nodes."""

    sources: IntArray | None = None  # int64[N], increasing
    targets: IntArray | None = None  # int64[M], increasing

    def sampling(self, mode: str, number: int, num_nodes: int) -> NegativeSampling:
        """Negatives whose ends are on their sides, otherwise uniform."""
        src_weight, dst_weight = (_weight(one, num_nodes) for one in self)
        return NegativeSampling(mode, number, src_weight if mode == "binary" else None, dst_weight)

    @property
    def loops(self) -> IntArray:
        """Nodes on both sides, each with itself; none if these are all nodes. int64[2, N]."""
        if self.sources is None or self.targets is None:
            return np.empty((2, 0), np.int64)
        return np.tile(np.intersect1d(self.sources, self.targets), (2, 1))


ALL_NODES = Sides()


def relation_of(dataset: Dataset, config: ObjectiveConfig) -> TypedLinks | None:
    """The relation whose links are predicted; None in a graph without types."""
    types = dataset.graph.types
    if types is None:
        for field in ("edge_type", "rev_edge_type"):
            if getattr(config, field):
                raise InputError(
                    f"{field}={','.join(getattr(config, field))} names a relation, but "
                    f"{dataset.name!r} has no types: leave it out."
                )
        return None
    if config.bipartite:
        raise InputError(
            f"bipartite=True has no effect on {dataset.name!r}, whose types say which nodes can be "
            "sources and targets: leave it out."
        )
    own = config.edge_type or _only_relation(dataset, types)
    edge_type = _edge_type("edge_type", own, types)
    reverse = config.rev_edge_type
    back = _edge_type("rev_edge_type", reverse, types) if reverse else None
    if back is not None and (back[0], back[2]) != (edge_type[2], edge_type[0]):
        raise InputError(
            f"rev_edge_type={','.join(back)} does not lead from {edge_type[2]} to {edge_type[0]}, "
            f"as the reverse of {','.join(edge_type)} would: name another relation."
        )
    relation = TypedLinks(dataset.graph, edge_type, back)
    if not relation.own.edge.size and links_of(dataset, relation) is None:
        raise InputError(
            f"relation {','.join(edge_type)} of {dataset.name!r} has no edges, so that there are "
            "no links to learn: choose another edge_type."
        )
    return relation


def _edge_type(field: str, given: Sequence[str], types: GraphTypes) -> EdgeType:
    try:
        return types.edge_types[types.relation(tuple(given))]
    except InputError as error:
        raise InputError(
            f"{field}={','.join(given)} is not one relation of the graph: choose one of "
            f"{_listed(types.edge_types)}."
        ) from error


def _only_relation(dataset: Dataset, types: GraphTypes) -> EdgeType:
    """That of given links, or the only relation that is not the reverse of another."""
    if dataset.label_edges is not None and dataset.label_edges.edge_type is not None:
        return dataset.label_edges.edge_type
    own = own_relations(types.edge_types)
    if len(own) != 1:
        raise InputError(
            f"edge_type is missing, but {dataset.name!r} has {len(own)} relations, and the links "
            f"of one are predicted: pass for instance --edge-type {','.join(own[0])}, one of "
            f"{_listed(own)}."
        )
    return own[0]


def _listed(edge_types: Sequence[EdgeType]) -> str:
    shown = "; ".join(",".join(one) for one in edge_types[:_LISTED])
    more = len(edge_types) - _LISTED
    return f"{shown}; and {more} more" if more > 0 else shown


def links_of(dataset: Dataset, relation: TypedLinks | None) -> LabelEdges | None:
    """Links that were given; None: the edges of the graph, or of the relation."""
    given = dataset.label_edges
    if given is None or relation is None or given.edge_type == relation.edge_type:
        return given
    return None


def sides_of(dataset: Dataset, config: TrainConfig, relation: TypedLinks | None) -> Sides:
    """Nodes of the types of the relation's ends, both sides of a bipartite graph, or all nodes."""
    if relation is not None:
        source, target = (np.arange(side.start, side.stop) for side in relation.sides)
        return Sides(source, target)
    if not config.objective.bipartite:
        return ALL_NODES
    pairs = _pairs(dataset)
    sources, targets = (np.unique(one) for one in pairs)
    if (both := np.intersect1d(sources, targets)).size:
        raise InputError(
            f"bipartite=True, but node {_name(dataset, int(both[0]))} is the source of a link and "
            f"the target of another, as are {both.size - 1} more: import links that all lead from "
            "one side to the other with --label-edges, or leave bipartite out."
        )
    return Sides(sources, targets)


def split_links(
    dataset: Dataset, config: TrainConfig, relation: TypedLinks | None = None
) -> LinkSplits:
    """Splits of the links of a dataset, as the setting `split` says.

    With types, edges of the relation and of its reverse are in the split of their link, and other
    edges are messages of all splits.
    """
    splits = _split(dataset, config, relation)
    if relation is None:
        return splits
    if config.objective.exclude != "self":
        every = np.concatenate([splits.links(name) for name in SPLITS], axis=1)
        relation.check_reverse(*every)
    return splits.within(dataset.graph, relation.edges)


def _split(dataset: Dataset, config: TrainConfig, relation: TypedLinks | None) -> LinkSplits:
    """Splits of the links alone, in the graph of their edges."""
    objective, given = config.objective, links_of(dataset, relation)
    graph = dataset.graph if relation is None else relation.own.graph
    has_splits = given is not None and given.split is not None
    how = objective.split
    if how == "auto":
        how = "given" if has_splits else "time" if graph.has_times else "random"
    if how == "given":
        if given is None or given.split is None:
            raise InputError(
                "split='given', but the data has no splits of links: import them with "
                "--label-edges and a column split, or choose split random."
            )
        return LinkSplits.given(graph, given.pairs, given.split)
    if how == "time":
        if given is not None and given.time is not None:
            pairs, time = given.pairs, given.time
        elif given is None and graph.has_times:
            pairs, time = LinkSplits.edges_in_time(graph, config.seed)
        else:
            raise InputError(
                "split='time', but the data has no times of links: import edges with "
                "--time-column, or links with --label-edges and a column time, or choose split "
                "random."
            )
        return LinkSplits.by_time(graph, pairs, time, objective.edge_split, objective.test_window)
    chosen = None if given is None else given.pairs
    return LinkSplits.random(graph, objective.edge_split, config.seed, chosen)


def _pairs(dataset: Dataset) -> IntArray:
    """All links. int64[2, P]."""
    if dataset.label_edges is not None:
        return dataset.label_edges.pairs
    pairs = dataset.graph.pairs
    return pairs[:, pairs[0] != pairs[1]]


def _weight(nodes: IntArray | None, num_nodes: int) -> FloatArray | None:
    if nodes is None:
        return None
    weight = np.zeros(num_nodes)
    weight[nodes] = 1
    return weight


def _name(dataset: Dataset, node: int) -> str:
    return str(node if dataset.node_names is None else dataset.node_names[node])
