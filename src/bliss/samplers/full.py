"""Full neighbourhoods, without sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from bliss import checks
from bliss.arrays import IntArray
from bliss.graph import Rows
from bliss.kernels.coins import CoinKey
from bliss.nn.block import Block
from bliss.nn.full_blocks import full_block
from bliss.samplers.base import Sampler
from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import FullConfig
from bliss.samplers.estimators import HorvitzThompson
from bliss.samplers.kept import KeptEdges


class Full(Sampler):
    """Keeps every in-edge of every target: p_j = 1, weights alpha_ij. Exact, no state.

    With a batch of all training nodes this is full-batch training. Blocks are reused while the
    seeds stay the same.

    Cost: one pass over the frontier's edges; the frontier grows to the whole L-hop neighbourhood.

    There are no budgets: pass `layers`.
    """

    Config: ClassVar[type[SamplerConfig]] = FullConfig

    def __init__(self, data: Any, budgets: Sequence[int] = (), **options: Any) -> None:
        super().__init__(data, budgets, **options)
        self._last: tuple[IntArray, list[Block]] | None = None

    def sample(
        self, seeds: Any, step: int, shard: int = 0, without: Any = None, time: Any = None
    ) -> list[Block]:
        """Blocks of a batch, input layer first; step and shard have no effect."""
        if without is not None or time is not None:
            return super().sample(seeds, step, shard, without, time)
        targets: IntArray = checks.seeds(seeds, self.graph.num_nodes)
        last = self._last
        if last is None or not np.array_equal(targets, last[0]):
            self._last = last = targets.copy(), super().sample(targets, step, shard)
        return [replace(block) for block in last[1]]  # each caller gets its own observations

    def _layer(self, rows: Rows, layer: int, key: CoinKey) -> Block:
        if rows.cutoff is None:
            return full_block(rows, self._workspace().number)
        indptr, edge = rows.edges()
        certain = np.ones(edge.size, np.float32)
        kept = KeptEdges.of_edges(rows, indptr, edge, certain, self._workspace())
        prob = np.ones(kept.source.size, np.float32)
        return kept._replace(prob=prob).block(HorvitzThompson())
