"""Rows of node attributes for a batch, from arrays in memory or mapped from files."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bliss.arrays import FloatArray
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
    """

    def __init__(self, data: Any, sampler: Sampler, cache: int = 0) -> None:
        self.sampler = sampler
        self.readers: dict[str, RowReader] = {}  # of the mapped attributes
        graph = sampler.graph
        arrays = [graph.indptr, graph.indices, graph.weight]
        for name, value in data.to_dict().items():
            if not isinstance(value, Tensor) or value.layout != torch.strided:
                continue
            if value.device.type != "cpu" or value.dtype == torch.bfloat16:
                continue
            array = value.detach().numpy()
            arrays.append(array)
            reader = RowReader.of(array, cache if name == "x" else 0)
            if reader is not None:
                self.readers[name] = reader
        self._watch = Watch(arrays)
        self.renew()

    def check(self) -> None:
        """Raise an error if a mapped file was cut short."""
        self._watch.check()

    def __call__(self, name: str, value: Tensor, ids: Tensor) -> Tensor:
        """Rows of an attribute. value [V, ...], ids int64[N] -> [N, ...]."""
        reader = self.readers.get(name)
        if reader is None:
            return value.index_select(0, ids.to(value.device))
        return torch.from_numpy(reader(ids.numpy()))

    def renew(self) -> None:
        """Cache the rows that the sampler is now most likely to draw."""
        for reader in self.readers.values():
            if reader.capacity:
                reader.renew(draw_scores(self.sampler))


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
