"""Loss, scores and probabilities from a network's outputs."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from bliss.train.results import F1, R2

METRICS = {"classes": F1, "labels": F1, "regression": R2}
"""Name of the score by task; higher is better."""


def micro_f1(logits: Tensor, labels: Tensor) -> float:
    """Micro-averaged F1: 2 TP / (2 TP + FP + FN) over all nodes and classes.

    With one class per node, labels int64[N], this is the accuracy; nodes with label -1 are
    excluded. With several classes per node, labels float[N, C] of 0 and 1, a class is predicted if
    its logit is above 0. Without nodes the result is NaN.

    logits [N, C]
    """
    if labels.ndim == 1:
        known = labels >= 0
        right = (logits[known].argmax(1) == labels[known]).float()
        return float(right.mean()) if right.numel() else float("nan")
    predicted, wanted = logits > 0, labels > 0
    hits = int((predicted & wanted).sum())
    total = int(predicted.sum()) + int(wanted.sum())
    if not logits.numel():
        return float("nan")
    return 2 * hits / total if total else 0.0


def mean_squared_error(predicted: Tensor, targets: Tensor) -> float:
    """Mean over nodes and targets of (y_hat - y)^2; NaN without nodes. [N, T] each."""
    return float((predicted.double() - targets.double()).square().mean())


def r2(predicted: Tensor, targets: Tensor) -> float:
    """Coefficient of determination, averaged over targets.

        R2 = mean over t of 1 - sum_v (y_vt - y_hat_vt)^2 / sum_v (y_vt - mean_t)^2

    A target that is constant gives 1 if it is predicted exactly, otherwise 0. Without nodes the
    result is NaN. [N, T] each.
    """
    if not targets.numel():
        return float("nan")
    y = targets.double()
    residual = (predicted.double() - y).square().sum(0)
    total = (y - y.mean(0)).square().sum(0)
    share = torch.where(total > 0, 1 - residual / total.clamp(min=1e-300), (residual == 0).double())
    return float(share.mean())


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
        losses = (outputs - labels.to(outputs.dtype)).square().mean(dim=1)
        return losses.mean() if weight is None else (weight * losses).sum()
    if weight is None and (class_weight is None or labels.ndim == 2):
        if labels.ndim == 1:
            return functional.cross_entropy(outputs, labels, ignore_index=-1)
        wanted = labels.to(outputs.dtype)
        return functional.binary_cross_entropy_with_logits(outputs, wanted, pos_weight=class_weight)
    if labels.ndim == 1:
        losses = functional.cross_entropy(
            outputs, labels, class_weight, ignore_index=-1, reduction="none"
        )
        if weight is None:
            return losses.sum() / (labels >= 0).sum()
    else:
        wanted = labels.to(outputs.dtype)
        losses = functional.binary_cross_entropy_with_logits(
            outputs, wanted, reduction="none", pos_weight=class_weight
        )
        losses = losses.mean(dim=1)
    assert weight is not None
    return (weight * losses).sum()


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
