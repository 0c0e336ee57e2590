"""Labels of nodes: what losses and scores of node tasks need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from bliss.data import Dataset
from bliss.train.losses import TargetScale, criterion, node_losses

_NUMBERS = 2**24  # outputs whose losses are computed at a time


@dataclass(frozen=True, eq=False)
class NodeLabels:
    """Labels of nodes, as the loss takes them, and the metric of their scores."""

    dataset: Dataset
    metric: str  # of the score that selects the best step
    y: Tensor  # labels on the CPU: targets are standardised
    scale: TargetScale | None = None  # of the targets; None for classes and labels
    class_weight: Tensor | None = None  # float32[C] on the device

    def mean_loss(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Training loss of outputs for rows of `y`; weight [N] is each node's share of the loss."""
        return criterion(
            outputs.float(),
            y,
            weight,
            class_weight=self.class_weight,
            is_regression=self.scale is not None,
        )

    def node_losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Loss of each node, from outputs and rows of `y` on the CPU. [N]."""
        loss = partial(
            node_losses,
            class_weight=None if self.class_weight is None else self.class_weight.cpu(),
            is_regression=self.scale is not None,
        )
        rows = max(_NUMBERS // max(outputs.size(1), 1), 1)
        parts = zip(torch.split(outputs, rows), torch.split(y, rows), strict=True)
        return torch.cat([loss(part.float(), own) for part, own in parts])

    def predictions(self, outputs: Tensor) -> Tensor:
        """Outputs of the network: logits, or targets in the user's units. [N, C] or [N, T]."""
        return outputs if self.scale is None else self.scale.restore(outputs)
