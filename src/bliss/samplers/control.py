"""Control variates: sample the change since a source was last seen; sum the rest exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from bliss import checks
from bliss.arrays import FloatArray, IntArray
from bliss.block import Block, Control
from bliss.errors import InputError
from bliss.feedback import Feedback, News
from bliss.kernels import subgraphs
from bliss.policies.base import State
from bliss.samplers.base import Sampler

_NAME = "history."


class ControlVariate(Sampler):
    """Gives a layer-by-layer sampler a control variate (Chen et al., 2018).

    Put it before the sampler: ``class VRGCN(ControlVariate, Neighbor)``. The sampler's weights
    must be unbiased (estimator "ht"). For each layer the newest input h_j of every node is kept as
    its history, and a block aggregates

        sum over all in-edges of alpha_ij history_j
        + sum over kept edges of weight_ij (x_j - history_j)

    (`bliss.nn.aggregate`; with dropout, its third term). For fixed inputs this is unbiased,
    whatever the history, and its variance is that of the change: 0 where the history is right.
    The first layer's history is the features: without dropout it is exact. A layer has none
    before its first update, and a node that was not seen yet has 0: it is then sampled as without.

    Only sums with fixed coefficients can be split in this way, so attention is not possible.

    State: float32[V, width] for each layer but the first, allocated at the first update, when
    widths are known: O(L V F) memory, and as much in each checkpoint. Cost: that of the sampler,
    plus one pass over all in-edges of the targets of each layer, F numbers each, without gradients.

    The config must offer unbiased weights only (estimator "ht") and need features.
    """

    def __init__(self, data: Any, budgets: Sequence[int], **options: Any) -> None:
        super().__init__(data, budgets, **options)
        rest: list[FloatArray | None] = [None] * (self.layers - 1)
        self._history = [self.features, *rest]

    @property
    def learns(self) -> bool:
        """Always: the history is learnt."""
        return True

    def history(self, layer: int) -> FloatArray | None:
        """The newest input of each node in a layer, if there is any yet. float32[V, F]."""
        return self._history[layer]

    def _layer(self, dst: IntArray, layer: int, key: np.uint64) -> Block:
        block = super()._layer(dst, layer, key)
        history, graph = self._history[layer], self.graph
        if history is None:
            return replace(block, keeps_input=True)
        scales = graph.target_scale, graph.source_scale, graph.weight
        full = subgraphs.full_sums(graph.indptr, graph.indices, dst, *scales, history)
        known = torch.from_numpy(history[block.src.numpy()])
        return replace(block, keeps_input=True, control=Control(known, torch.from_numpy(full)))

    def _digest(self, layer: int, feedback: Feedback) -> News:
        news = dict(super()._digest(layer, feedback)) if super().learns else {}
        if layer == 0:
            return news  # features do not change
        if feedback.input is None:
            raise InputError(
                "these blocks were not drawn by a sampler with a history, so their inputs were "
                "not kept: update a sampler with the blocks it drew."
            )
        self._check_width(layer, feedback.input)
        return {**news, f"{_NAME}source": feedback.src, f"{_NAME}input": feedback.input}

    def _apply(self, layer: int, news: Sequence[News]) -> None:
        if super().learns:
            own = [{k: v for k, v in n.items() if not k.startswith(_NAME)} for n in news]
            super()._apply(layer, own)
        for one in news if layer > 0 else ():
            self._remember(layer, one[f"{_NAME}source"], one[f"{_NAME}input"])

    def _remember(self, layer: int, source: IntArray, inputs: FloatArray) -> None:
        self._check_width(layer, inputs)
        history = self._history[layer]
        if history is None:
            history = np.zeros((self.graph.num_nodes, inputs.shape[1]), np.float32)
            self._history[layer] = history
        history[source] = inputs

    def _check_width(self, layer: int, inputs: FloatArray) -> None:
        history, width = self._history[layer], inputs.shape[1]
        if history is not None and history.shape[1] != width:
            raise InputError(
                f"layer {layer} was observed {width} wide, but was {history.shape[1]} wide before: "
                "use a new sampler for another network."
            )

    def _learnt(self) -> State:
        own = {f"{_NAME}{n}": h for n, h in enumerate(self._history) if n > 0 and h is not None}
        return {**super()._learnt(), **own}

    def _load(self, learnt: Mapping[str, Any]) -> None:
        super()._load({k: v for k, v in learnt.items() if not k.startswith(_NAME)})
        found: list[FloatArray | None] = [None] * (self.layers - 1)
        for name, value in learnt.items():
            if not name.startswith(_NAME):
                continue
            array, number = checks.as_array(name, value), name.removeprefix(_NAME)
            fits = array.dtype == np.float32 and array.ndim == 2
            fits = fits and len(array) == self.graph.num_nodes
            if not fits or number not in map(str, range(1, self.layers)):
                raise InputError(
                    f"{name} is {array.dtype} of shape {array.shape}, which does not fit "
                    f"{self.graph.num_nodes} nodes and {self.layers} layers: was it saved by "
                    "another sampler?"
                )
            found[int(number) - 1] = array.copy()
        self._history[1:] = found
