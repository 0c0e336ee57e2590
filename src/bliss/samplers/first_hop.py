"""The exact first hop: features aggregated once, so that the input layer is not sampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bliss import checks
from bliss.arrays import FloatArray
from bliss.errors import InputError
from bliss.graph import Graph, Rows
from bliss.nn.block import Block
from bliss.nn.control import Control, TypedControl
from bliss.samplers.group_sums import Sources
from bliss.storage.cached import cached_npy
from bliss.storage.digests import array_digest
from bliss.storage.mapped import RowReader

SUM_BYTES_IN_MEMORY = 2**28
"""Bytes above which aggregated features are memory-mapped, if there is a folder for them."""


class FirstHop:
    """Aggregated features of every group, and blocks that hold them in place of edges.

        z_g = sum over all in-edges of group g of alpha_ij x_j

    A group is a target or, with types, a target and a relation. Features do not change in training,
    so this sum is computed once. A layer that aggregates them needs no sources other than its
    targets and has no sampling error.

    features  float32[V, F], or with types float32[n_t, F_t] of each type, in the order of types
    folder    of aggregated features of more than SUM_BYTES_IN_MEMORY, as memory-mapped files, named
              by a digest of graph and features, so that another run with the same data uses them
    """

    def __init__(
        self, graph: Graph, features: FloatArray | Sequence[FloatArray], folder: Path | None = None
    ) -> None:
        if isinstance(features, np.ndarray):
            self._sources, self._features = [Sources(graph)], [features]
        else:
            self._sources, self._features = Sources.of_types(graph), list(features)
        shapes = [
            (own.num_groups, x.shape[1])
            for own, x in zip(self._sources, self._features, strict=True)
        ]
        is_mapped = folder is not None and 4 * sum(map(np.prod, shapes)) > SUM_BYTES_IN_MEMORY
        self.sums: list[FloatArray] = []
        self._readers: list[RowReader | None] = []  # of sums that are mapped
        for own, x, shape in zip(self._sources, self._features, shapes, strict=True):
            fill = partial(own.fill, value=x)
            if folder is None or not is_mapped or 0 in shape:
                self.sums.append(np.empty(shape, np.float32))
                self._readers.append(None)
                fill(self.sums[-1])
                continue
            path = folder / f"first-hop-{_key(own, x)}.npy"
            self.sums.append(cached_npy(path, shape, np.float32, fill, "aggregated features"))
            self._readers.append(RowReader.of(self.sums[-1]))

    def block(self, rows: Rows) -> Block:
        """Block of the targets of `rows`: no edges, and the exact aggregate as its baseline."""
        dst = rows.dst
        none, nothing = np.empty(0, np.int64), np.empty(0, np.float32)
        pointers = np.zeros(rows.degree.size + 1, np.int64)
        block = Block.from_arrays(dst, dst, pointers, none, none, nothing, nothing, rows=rows)
        parts = [
            Control(torch.from_numpy(self._baseline(part, rows)))
            for part in range(len(self._sources))
        ]
        is_one = self._sources[0].node_type is None
        return replace(block, control=parts[0] if is_one else TypedControl(tuple(parts)))

    def _baseline(self, part: int, rows: Rows) -> FloatArray:
        """Sums over the visible edges of groups with the sources of one part. float32[G, F]."""
        sources, read = self._sources[part], self._readers[part]
        own = sources.own(rows)
        place = sources.place(own)
        sums = self.sums[part][place] if read is None else read(place)
        return sources.visible_sums(own, sums, self._features[part])


def given_features(graph: Graph, data: Any, x: Any) -> FloatArray | list[FloatArray]:
    """Features of all nodes, or with types of each type, from x or from the data of a sampler.

    A type without edges to other nodes may have no features.
    """
    types = graph.types
    if types is None:
        return checks.features(getattr(data, "x", None) if x is None else x, graph.num_nodes)
    if x is None and hasattr(data, "node_types"):
        x = {name: data[name].x for name in data.node_types if "x" in data[name]}
    if x is None or not isinstance(x, Mapping):
        return checks.features(x, graph.num_nodes)
    for name in x:
        types.node_type(name)  # raises an error for an unknown type
    features = []
    for number, (name, size) in enumerate(types.num_nodes.items()):
        if name not in x and (types.ends[0] == number).any():
            raise InputError(
                f"x has no features of type {name!r}, whose nodes are sources: pass them, or "
                "choose a sampler that needs no features, with first_hop sampled."
            )
        features.append(checks.features(x.get(name, np.empty((size, 0))), size))
    return features


def _key(sources: Sources, features: FloatArray) -> str:
    """Name of the sums of some sources of a graph and their features."""
    graph, types = sources.graph, sources.graph.types
    arrays = graph.indptr, graph.indices, graph.weight, features
    if types is None:
        return f"{graph.norm}-{array_digest(*arrays)}"
    number = "all" if sources.node_type is None else sources.node_type
    content = array_digest(*arrays, *types.arrays, types.node_ptr, types.ends)
    return f"{graph.norm}-{number}-{content}"
