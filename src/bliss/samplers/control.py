"""Control variates: sample the change since a source was last drawn; sum the history exactly."""

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
    """Mixin that adds a control variate to a layer-by-layer sampler (Chen et al., 2018).

    List it before the sampler: ``class VRGCN(ControlVariate, Neighbor)``. The sampler's weights
    must be unbiased (estimator "ht"). For each layer, the latest input h_j of every node is stored
    as its history, and a block aggregates

        sum over all in-edges of alpha_ij history_j
        + sum over kept edges of weight_ij (x_j - history_j)

    (`bliss.nn.aggregate`, which adds a third term with dropout). For fixed inputs this is unbiased
    for any history, and its variance is that of the change x_j - history_j: 0 if the history is
    exact. The first layer's history is the features, which are exact without dropout. Other layers
    have no history before their first update. The history of a node not seen yet is 0, which
    leaves its estimate as it would be without the control variate.

    Only sums with fixed coefficients can be split in this way, so attention is not supported.

    State: float32[V, width] for each layer except the first, allocated at the first update, when
    the width is known: O(L V F) in memory and in each checkpoint. Cost: that of the sampler, plus
    one pass over all in-edges of the targets of each layer, F numbers each, without gradients.

    The sampler's config must offer only the estimator "ht" and set `needs_features`.
    """

    def __init__(self, data: Any, budgets: Sequence[int], **options: Any) -> None:
        super().__init__(data, budgets, **options)
        rest: list[FloatArray | None] = [None] * (self.layers - 1)
        self._history = [self.features, *rest]

    @property
    def learns(self) -> bool:
        """Always True: updates change the history."""
        return True

    def history(self, layer: int) -> FloatArray | None:
        """Latest input of each node in a layer, float32[V, F], or None before the first update."""
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
                f"the block of layer {layer} kept no input, because it was drawn by a sampler "
                "without a history: update each sampler with the blocks that it drew."
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
                f"layer {layer} has inputs of width {width}, but its history has width "
                f"{history.shape[1]}: use a new sampler for another network."
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
                    f"{self.graph.num_nodes} nodes and {self.layers} layers: load a state that "
                    "this sampler saved."
                )
            found[int(number) - 1] = array.copy()
        self._history[1:] = found
