"""Loss, micro-F1 and probabilities from a network's logits."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


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


def criterion(logits: Tensor, labels: Tensor, weight: Tensor | None = None) -> Tensor:
    """Mean or weighted sum of the loss L_v over nodes.

    L_v is the cross-entropy over classes or, with several labels per node, the mean over labels of
    the binary cross-entropy. Without weights, the mean of L_v over nodes of known class. With one
    weight per node [N], the sum of weight_v L_v, a sampler's estimate of the mean over all training
    nodes; 0 without nodes.
    """
    if weight is None:
        if labels.ndim == 1:
            return functional.cross_entropy(logits, labels, ignore_index=-1)
        return functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
    if labels.ndim == 1:
        losses = functional.cross_entropy(logits, labels, ignore_index=-1, reduction="none")
    else:
        wanted = labels.to(logits.dtype)
        losses = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        losses = losses.mean(dim=1)
    return (weight * losses).sum()


def probabilities(logits: Tensor, is_multilabel: bool) -> Tensor:
    """Softmax over classes, or sigmoid of each label. [N, C] -> [N, C]."""
    return torch.sigmoid(logits) if is_multilabel else torch.softmax(logits, dim=1)
