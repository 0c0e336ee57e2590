"""Losses, weights of classes and the scale of targets."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class TargetScale(NamedTuple):
    """Mean and deviation of the targets of training nodes. float32[T] each.

    A network learns (y - mean) / deviation; its outputs are turned back into the user's units.
    """

    mean: Tensor
    deviation: Tensor  # 1 for a constant target

    @classmethod
    def of(cls, targets: Tensor) -> TargetScale:
        """Scale of targets [N, T]."""
        deviation = targets.double().std(0, correction=0)
        deviation = torch.where(deviation > 0, deviation, 1.0)
        return cls(targets.double().mean(0).float(), deviation.float())

    def standardise(self, targets: Tensor) -> Tensor:
        """Targets in deviations from the mean. [N, T]."""
        return (targets - self.mean) / self.deviation

    def restore(self, outputs: Tensor) -> Tensor:
        """Outputs of a network in the user's units. [N, T]."""
        return outputs * self.deviation + self.mean


def criterion(
    outputs: Tensor,
    labels: Tensor,
    weight: Tensor | None = None,
    *,
    class_weight: Tensor | None = None,
    is_regression: bool = False,
) -> Tensor:
    """Mean or weighted sum of the loss L_v over nodes.

    * one class per node, labels int64[N]: w_y times the cross-entropy over classes
    * several labels per node, labels [N, C] of 0 and 1: the mean over labels of the binary
      cross-entropy, in which w_c multiplies the term of a label that is present
    * regression, labels float[N, T]: the mean over targets of the squared error

    `class_weight` [C] holds w, by default 1. Without `weight`, the result is the mean of L_v over
    nodes of known class. With one weight per node [N], it is the sum of weight_v L_v, a sampler's
    estimate of the mean over all training nodes; 0 without nodes. Class weights are not normalised
    within a batch, so that the loss of a batch is an unbiased estimate of the loss of all nodes.
    """
    if is_regression:
        losses = node_losses(outputs, labels, is_regression=True)
        return losses.mean() if weight is None else (weight * losses).sum()
    if weight is None and (class_weight is None or labels.ndim == 2):
        if labels.ndim == 1:
            return functional.cross_entropy(outputs, labels, ignore_index=-1)
        wanted = labels.to(outputs.dtype)
        return functional.binary_cross_entropy_with_logits(outputs, wanted, pos_weight=class_weight)
    losses = node_losses(outputs, labels, class_weight=class_weight)
    if weight is None:
        return losses.sum() / (labels >= 0).sum()
    return (weight * losses).sum()


def node_losses(
    outputs: Tensor,
    labels: Tensor,
    *,
    class_weight: Tensor | None = None,
    is_regression: bool = False,
) -> Tensor:
    """L_v of each node, see `criterion`; 0 for nodes of unknown class. [N]."""
    if is_regression:
        return (outputs - labels.to(outputs.dtype)).square().mean(dim=1)
    if labels.ndim == 1:
        return functional.cross_entropy(
            outputs, labels, class_weight, ignore_index=-1, reduction="none"
        )
    wanted = labels.to(outputs.dtype)
    losses = functional.binary_cross_entropy_with_logits(
        outputs, wanted, reduction="none", pos_weight=class_weight
    )
    return losses.mean(dim=1)


def balanced_weights(labels: Tensor, num_classes: int) -> Tensor:
    """Weights that give classes equal shares in the loss. float32[C].

    With one class per node, w_c = n / (C n_c) over the n nodes with a class, of which n_c have
    class c and C classes occur; their mean over nodes is 1. With several labels per node,
    w_c = (n - n_c) / n_c. A class without nodes has weight 1.

    labels int64[N] or [N, C]
    """
    if labels.ndim == 1:
        sizes = torch.bincount(labels[labels >= 0], minlength=num_classes).double()
        weight = sizes.sum() / ((sizes > 0).sum() * sizes)
    else:
        sizes = labels.double().sum(0)
        weight = (len(labels) - sizes) / sizes
    return torch.where((sizes > 0) & (weight > 0), weight, 1.0).float()


def probabilities(logits: Tensor, is_multilabel: bool) -> Tensor:
    """Softmax over classes, or sigmoid of each label. [N, C] -> [N, C]."""
    return torch.sigmoid(logits) if is_multilabel else torch.softmax(logits, dim=1)
