"""Full neighbourhoods: nothing is sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch

from bliss import checks
from bliss.arrays import IntArray
from bliss.kernels import nodewise
from bliss.samplers.base import Sampler, Unit
from bliss.samplers.estimators import edge_weights
from bliss.types import Block


class Full(Sampler):
    """Every in-edge of every target: p_j = 1, weights alpha_ij. Exact, no state.

    With a batch of all training nodes this is full-batch training; as long as the seeds stay the
    same, the blocks are found once and handed out again.

    Cost: one pass over the frontier's edges, which grow with the whole neighbourhood.

    Parameters
    ----------
    data, seed, norm
        As for every `Sampler`; there are no budgets, and no coins that the seed could change.
    layers
        The number of layers.
    """

    unit: ClassVar[Unit] = "none"

    def __init__(self, data: Any, budgets: Sequence[int] = (), **options: Any) -> None:
        super().__init__(data, budgets, **options)
        self._last: tuple[IntArray, list[Block]] | None = None

    def sample(self, seeds: Any, step: int) -> list[Block]:
        """The blocks of a batch, input layer first; the step changes nothing."""
        targets: IntArray = checks.seeds(seeds, self.graph.num_nodes)
        last = self._last
        if last is None or not np.array_equal(targets, last[0]):
            self._last = last = targets.copy(), super().sample(targets, step)
        return [replace(block) for block in last[1]]  # what one user observes is not another's

    def _layer(self, dst: IntArray, layer: int, key: np.uint64) -> Block:
        graph = self.graph
        kept_indptr, edge = nodewise.all_edges(graph.indptr, dst)
        source, row = nodewise.relabel(graph.indices, dst, edge, self._workspace().number)
        prob = np.ones(source.size, np.float32)
        weight = edge_weights("ht", graph, dst, source, prob, kept_indptr, row, edge)
        arrays = (source[: dst.size], source, kept_indptr, row, edge, prob, weight)
        return Block(*map(torch.from_numpy, arrays))
