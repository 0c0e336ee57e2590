"""Times of edges, and the times that a target may see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bliss import checks
from bliss.arrays import NO_IDS, BoolArray, IntArray
from bliss.errors import InputError
from bliss.kernels.links import first_unsorted
from bliss.kernels.times import ALWAYS

_LAST = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Cutoff:
    """Times that each of N targets may see: after <= time < before, and edges of time `ALWAYS`.

    Build it with `Cutoff.of`.
    """

    before: IntArray  # int64[N] first time that is not seen
    after: IntArray  # int64[N] first time that is seen; empty: no lower bound

    @classmethod
    def of(cls, time: IntArray, strict: bool = False, window: int | None = None) -> Cutoff:
        """Cut-offs at some times.

        A target sees times up to its own, or with `strict` below its own; with a `window`, the
        last so many of these. time int64[N].
        """
        if not strict and time.size and time.max() == _LAST:
            raise InputError(
                f"time holds {_LAST}, the largest whole number of int64: pass a smaller time."
            )
        before: IntArray = time if strict else time + 1
        if window is None:
            return cls(before, NO_IDS)
        length = checks.whole("time_window", window, least=1)  # 63 bits
        room = before.astype(np.uint64) - np.uint64(2**63)  # distance from the smallest time
        after = np.where(room > np.uint64(length), before - length, ALWAYS + 1)
        return cls(before, after)

    def __getitem__(self, place: IntArray) -> Cutoff:
        """Cut-offs of the targets at some positions. int64[M]."""
        return Cutoff(self.before[place], self.after[place] if self.after.size else NO_IDS)

    @property
    def is_one(self) -> bool:
        """Whether all targets see the same times."""
        return all(bool((one == one[:1]).all()) for one in (self.before, self.after))

    @property
    def latest(self) -> Cutoff:
        """One cut-off, which sees what any of these may see. N = 1."""
        after = self.after.min(keepdims=True) if self.after.size else NO_IDS
        return Cutoff(self.before.max(keepdims=True, initial=ALWAYS), after)


def check_times(field: str, time: Any, size: int, owner: str) -> IntArray:
    """One time per edge, node or seed, checked. int64[N]."""
    array = checks.as_array(field, time)
    if array.dtype.kind not in "iu" or array.shape != (size,):
        what = "whole numbers" if array.dtype.kind not in "iu" else f"one per {owner}, [{size}]"
        remedy = (
            "convert it to int64, for instance seconds since 1970"
            if array.dtype.kind not in "iu"
            else "pass as many times"
        )
        raise InputError(
            f"{field} is {array.dtype} of shape {array.shape}, but times must be {what}: {remedy}."
        )
    if array.dtype == np.uint64 and array.size and array.max() > _LAST:
        raise InputError(f"{field} holds {array.max()}, which exceeds int64: pass smaller times.")
    return array.astype(np.int64, copy=False)


def times_of(data: Any, name: str) -> IntArray:
    """Times of the edges of a PyG `Data`, from an attribute of its edges or nodes. int64[E].

    An edge is as old as its source if nodes have times. Where there are as many edges as nodes, the
    name of the attribute says whose it is, as in PyG.
    """
    given = getattr(data, name, None)
    if given is None:
        raise InputError(
            f"time_attr={name!r}, but data has no attribute {name!r}: set data.{name} to one time "
            "per edge or node."
        )
    if data.edge_index is None:
        raise InputError(
            f"time_attr={name!r} needs data.edge_index, whose edges the times belong to: set it in "
            "place of adj_t."
        )
    if data.is_node_attr(name):  # of edges, if there are as many, only if its name says so
        if data.num_nodes == data.num_edges and "node" not in name:
            raise InputError(
                f"time_attr={name!r} may hold times of edges or of nodes, because data has as many "
                f"edges as nodes: rename it to edge_{name} or node_{name}."
            )
        node_time = check_times(f"data.{name}", given, data.num_nodes, "node")
        source: IntArray = checks.as_array("edge_index", data.edge_index)[0]
        return node_time[source]
    return check_times(f"data.{name}", given, data.edge_index.shape[1], "edge")


def hetero_times(data: Any, name: str) -> dict[Any, IntArray]:
    """Times of the edges of a `HeteroData` by relation, each int64[E_r].

    They come from the attribute of the relation, or else of the type of its sources: an edge is as
    old as its source. Edges of a relation that has neither are seen at any time, as in PyG.
    """
    times = {}
    for key in data.edge_types:
        source = checks.as_array("edge_index", data[key].edge_index)[0]
        times[key] = relation_times(data, key, name, key[0], source)
    if all((time == ALWAYS).all() for time in times.values()):
        raise InputError(
            f"time_attr={name!r}, but no relation and no type of sources has an attribute "
            f"{name!r}: set data[...].{name} to one time per edge or node."
        )
    return times


def relation_times(data: Any, key: Any, name: str, source_type: str, source: IntArray) -> IntArray:
    """Times of the edges of a relation of a `HeteroData`, or of its reverse. int64[E_r].

    Without times of their own, edges are as old as their sources [E_r], nodes of `source_type`.
    """
    own, of_nodes = getattr(data[key], name, None), getattr(data[source_type], name, None)
    if own is not None:
        return check_times(f"data[{key}].{name}", own, source.size, "edge")
    if of_nodes is None:
        return np.full(source.size, ALWAYS)
    number = data[source_type].num_nodes
    return check_times(f"data[{source_type!r}].{name}", of_nodes, number, "node")[source]


def check_edge_times(time: Any, indptr: IntArray) -> IntArray:
    """Times of edges that are sorted within the in-edges of each node; empty: none. int64[E]."""
    if not np.size(time):
        return NO_IDS
    times = check_times("time", time, int(indptr[-1]), "edge")
    node = int(first_unsorted(indptr, times))
    if node >= 0:
        raise InputError(
            f"time decreases within the in-edges of node {node}, but rows must be sorted by time: "
            "build the graph with Graph.from_edge_index(..., time=...), which sorts them."
        )
    return times


def seen_at(
    times: IntArray, time: int, strict: bool = False, window: int | None = None
) -> BoolArray:
    """Edges that are seen at one time, in a window if there is one. bool[E]."""
    if not times.size:
        raise InputError(
            "the graph has no times: build it with time_attr=..., or import it with --time-column."
        )
    latest = check_times("time", np.asarray([time]), 1, "graph")
    cutoff = Cutoff.of(latest, strict, window)
    seen: BoolArray = times < cutoff.before
    return seen if window is None else seen & ((times >= cutoff.after) | (times == ALWAYS))
