"""Control variates: sample the change since a source was last seen, and sum the rest in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from bliss import checks
from bliss.arrays import FloatArray, IntArray
from bliss.errors import InputError
from bliss.kernels import subgraphs
from bliss.policies import State
from bliss.samplers.base import Sampler
from bliss.types import Block, Feedback

_NAME = "history."


class ControlVariate(Sampler):
    """What turns a layer-by-layer sampler into one with a control variate (Chen et al., 2018).

    It goes before the sampler: ``class VRGCN(ControlVariate, Neighbor)``. That one's weights must
    be unbiased (estimator "ht"). For each layer the newest input h_j of every node is kept as its
    history, and a block aggregates

        sum over all in-edges of alpha_ij history_j
        + sum over kept edges of weight_ij (x_j - history_j)

    (`bliss.nn.aggregate`; with dropout, its third term). For fixed inputs this is unbiased,
    whatever the history, and its variance is that of the change: 0 where the history is right.
    The first layer's history is the features: without dropout it is exact. A layer has none
    before its first update, and a node that was not seen yet has 0: it is then sampled as without.

    Only sums with fixed coefficients can be split so: not for attention.

    State: float32[V, width] for each layer but the first, allocated at the first update, when
    widths are known: O(L V F) memory, and as much in each checkpoint. Cost: that of the sampler,
    plus one pass over all in-edges of the targets of each layer, F numbers each, without gradients.

    Parameters
    ----------
    x
        The features of all nodes, [V, F]; not copied if they are float32.
    options
        Those of the sampler.
    """

    linear_only: ClassVar[bool] = True
    needs_features: ClassVar[bool] = True

    def __init__(self, data: Any, budgets: Sequence[int], *, x: Any, **options: Any) -> None:
        super().__init__(data, budgets, **options)
        estimator = getattr(self, "estimator", "ht")
        if estimator != "ht":
            raise InputError(
                f"estimator={estimator!r} is biased, so a control variate would be too: use 'ht'."
            )
        if isinstance(x, torch.Tensor):
            x = x.detach().to(torch.float32)
        features = checks.as_array("x", x)
        if features.ndim != 2 or len(features) != self.graph.num_nodes:
            raise InputError(
                f"x has shape {features.shape}, but the graph has {self.graph.num_nodes} nodes: "
                "pass one row of features per node."
            )
        rest: list[FloatArray | None] = [None] * (self.layers - 1)
        self._history = [features.astype(np.float32, copy=False), *rest]

    @property
    def learns(self) -> bool:
        """Always: the history is learnt."""
        return True

    def history(self, layer: int) -> FloatArray | None:
        """The newest input of each node in a layer, if there is any yet. float32[V, F]."""
        return self._history[layer]

    def _layer(self, dst: IntArray, layer: int, key: np.uint64) -> Block:
        block = super()._layer(dst, layer, key)
        block.input = torch.empty(0)  # to be remembered
        history, graph = self._history[layer], self.graph
        if history is not None:
            scales = graph.target_scale, graph.source_scale, graph.weight
            full = subgraphs.full_sums(graph.indptr, graph.indices, dst, *scales, history)
            block.history = torch.from_numpy(history[block.src.numpy()])
            block.baseline = torch.from_numpy(full)
        return block

    def _learn(self, layer: int, feedback: Feedback) -> None:
        if super().learns:
            super()._learn(layer, feedback)
        if layer == 0:
            return  # features do not change
        if feedback.input.ndim != 2:
            raise InputError(
                "these blocks were not drawn by a sampler with a history, so their inputs were "
                "not kept: update a sampler with the blocks it drew."
            )
        history = self._history[layer]
        if history is None:
            width = feedback.input.shape[1]
            history = np.zeros((self.graph.num_nodes, width), np.float32)
            self._history[layer] = history
        if history.shape[1] != feedback.input.shape[1]:
            raise InputError(
                f"layer {layer} was observed {feedback.input.shape[1]} wide, but was "
                f"{history.shape[1]} wide before: use a new sampler for another network."
            )
        history[feedback.src] = feedback.input

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
