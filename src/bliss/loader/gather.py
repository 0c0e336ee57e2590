"""Rows of node attributes for a batch, from arrays in memory or mapped from files."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import FloatArray
from bliss.errors import InputError
from bliss.graph.conversion import edge_attributes
from bliss.samplers.base import Sampler
from bliss.samplers.policy_sampler import PolicySampler
from bliss.storage.mapped import RowReader, Watch


class Gather:
    """Selects rows of node attributes.

    Mapped attributes of large files are read by `RowReader`. Features `x` may have a cache, which
    holds the rows that the sampler is most likely to draw.

    Parameters
    ----------
    data
        The PyG data.
    sampler
        The sampler of the batches.
    cache
        Bytes of memory for rows of `x`.
    node_type
        Type of the nodes, if the data is a `HeteroData`.
    """

    def __init__(
        self, data: Any, sampler: Sampler, cache: int = 0, node_type: str | None = None
    ) -> None:
        self.sampler, types = sampler, sampler.graph.types
        self._nodes = slice(None)  # of the sampler's graph
        self._title = "data"
        if node_type is not None and types is not None:
            self._nodes, self._title = types.range_of(node_type), f"data[{node_type!r}]"
            data = data[node_type]
        self.readers: dict[str, RowReader] = {}  # of the mapped attributes
        self._address: dict[str, int] = {}  # of the attributes that have a reader
        self._sizes: dict[str, int] = {}  # rows of the attributes of nodes and edges
        of_edges = edge_attributes(data) if node_type is None else set()
        graph = sampler.graph
        arrays = [graph.indptr, graph.indices, graph.weight]
        for name, value in data.to_dict().items():
            if not isinstance(value, Tensor):
                continue
            if name in of_edges or data.is_node_attr(name):
                self._sizes[name] = value.size(0)
            if value.layout != torch.strided:
                _check_layout(f"{self._title}.{name}", value)
                continue
            if value.device.type != "cpu" or value.dtype == torch.bfloat16:
                continue
            array = value.detach().numpy()
            arrays.append(array)
            reader = RowReader.of(array, cache if name == "x" else 0)
            if reader is not None:
                self.readers[name], self._address[name] = reader, value.data_ptr()
        self._watch = Watch(arrays)
        self.renew()

    def check(self) -> None:
        """Raise an error if a mapped file was cut short."""
        self._watch.check()

    def check_sizes(self, data: Any) -> None:
        """Raise an error if an attribute has another number of rows than at the beginning.

        PyG recognises attributes of nodes and edges by their number of rows, so that batches would
        hold all of it.
        """
        for name, size in self._sizes.items():
            value = getattr(data, name, None)
            if isinstance(value, Tensor) and (value.ndim == 0 or value.size(0) != size):
                raise InputError(
                    f"{self._title}.{name} had {size} rows when the loader was built, and now has "
                    f"shape {tuple(value.shape)}: build a new loader, or restore it."
                )

    def __call__(self, name: str, value: Tensor, ids: Tensor) -> Tensor:
        """Rows of an attribute. value [V, ...], ids int64[N] -> [N, ...]."""
        reader = self.readers.get(name)
        if reader is None or value.data_ptr() != self._address[name]:  # it may have been replaced
            return value.index_select(0, ids.to(value.device))
        return torch.from_numpy(reader(ids.numpy()))

    def renew(self) -> None:
        """Cache the rows that the sampler is now most likely to draw."""
        for reader in self.readers.values():
            if reader.capacity:
                reader.renew(draw_scores(self.sampler)[self._nodes])


def _check_layout(name: str, value: Tensor) -> None:
    """Raise an error unless rows of a sparse tensor can be selected."""
    if value.layout != torch.sparse_coo:
        raise InputError(
            f"{name} is {value.layout}, whose rows cannot be selected: store a dense tensor, "
            f"{name}.to_dense(), or to_sparse_coo()."
        )


def draw_scores(sampler: Sampler) -> FloatArray:
    """Approximate probability that each node is a source of the input layer, unscaled. float32[V].

    A node is a candidate about as often as it has edges, so the score is its in-degree, in place of
    its out-degree, times its factor in the mass of the sampler's policy, if there is one.
    """
    score: FloatArray = np.diff(sampler.graph.indptr).astype(np.float32)
    if isinstance(sampler, PolicySampler):
        codes = sampler.policy.node_codes(0)
        if codes.code.size:
            score *= (codes.table**sampler.policy.power)[codes.code]
    return score
