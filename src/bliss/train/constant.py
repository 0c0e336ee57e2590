"""The best constant prediction, and whether a network is better than it.

A network that has learnt nothing predicts the same for every node, whatever it sees. The best such
prediction minimises the training loss over a constant output z in R^C:

* one class per node: softmax(z)_c in proportion to w_c n_c, with n_c training nodes of class c and
  w_c its weight in the loss
* several labels per node: sigmoid(z_c) = w_c n_c / (w_c n_c + n - n_c)
* regression: the mean of the targets, which is 0 where they are standardised

Counts are raised by 1 (labels: by 1 on either side), so that no loss is infinite.

The highest micro-F1 of a constant prediction is that of the most frequent class, or of the k most
frequent labels: F1 = 2 sum_c n_c / (k n + sum over all labels n_c), for the best k.

Whether a network beats the constant is a paired test over the nodes of a split. With L_v the loss
of node v, and t_v hits among s_v predicted and true classes, so that F1 = 2 sum t_v / sum s_v,

    gain of the loss      mean of d_v = L_v(constant) - L_v(network)
    gain of micro-F1      F1(network) - F1(constant), with the linearised deviation
                          u_v = (2 t_v - F1 s_v) / mean(s), of which d_v is the difference

and z = gain / (deviation of d_v / sqrt(N)). The network has learnt if one of both z exceeds LIMIT:
a network can be overconfident, with a large loss, and still be right; and with one large class it
can be well calibrated without a higher F1. Under no signal each z exceeds 2 with a chance of 2.3%.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from bliss.train.metrics import FUNCTIONS
from bliss.train.node_labels import NodeLabels
from bliss.train.results import METRICS, Constant

LIMIT = 2.0
"""z above which a network is better than a constant prediction."""
MOST = 1e6
"""Largest z, where nodes do not differ."""
SAMPLE = 4096
"""Training nodes that are looked at before training."""


@dataclass(frozen=True)
class ConstantPrediction:
    """Outputs of the best constant predictions. float32[C] or [T] each, on the CPU."""

    output: Tensor  # of the least loss
    decision: Tensor  # of the highest micro-F1: positive for the classes that are predicted

    @classmethod
    def of(cls, labels: NodeLabels) -> ConstantPrediction:
        """The constants of the training nodes."""
        y, outputs = labels.dataset.y[labels.dataset.splits["train"]], labels.dataset.num_outputs
        if labels.scale is not None:
            zero = torch.zeros(outputs)  # targets are standardised
            return cls(zero, zero)
        weight = torch.ones(outputs) if labels.class_weight is None else labels.class_weight.cpu()
        if y.ndim == 1:
            count = torch.bincount(y[y >= 0], minlength=outputs).double()
            best = torch.nn.functional.one_hot(count.argmax(), outputs)
            return cls((weight * (count + 1)).log().float(), best.float())
        count = (y > 0).double().sum(0)
        odds = weight * (count + 1) / (len(y) - count + 1)
        return cls(odds.log().float(), _best_labels(count, len(y)))

    def loss(self, labels: NodeLabels, nodes: Tensor) -> float:
        """Mean loss of the constant output at some nodes. int64[N]."""
        return float(labels.node_losses(self.output.expand(len(nodes), -1), labels.y[nodes]).mean())


def _best_labels(count: Tensor, nodes: int) -> Tensor:
    """1 for the labels whose constant prediction has the highest micro-F1, -1 for others. [C]."""
    ordered = count.sort(descending=True)
    number = torch.arange(1, len(count) + 1)
    f1 = 2 * ordered.values.cumsum(0) / (number * nodes + count.sum())
    decision = -torch.ones(len(count))
    decision[ordered.indices[: int(f1.argmax()) + 1]] = 1.0
    return decision


def compared(
    labels: NodeLabels, constant: ConstantPrediction, nodes: Tensor, outputs: Tensor
) -> Constant:
    """The constant beside the network, whose outputs at nodes [N] are [N, C]."""
    y, wanted = labels.y[nodes], labels.dataset.y[nodes]
    losses = labels.node_losses(outputs, y)
    of_constant = labels.node_losses(constant.output.expand_as(outputs), y)
    loss, constant_loss = float(losses.mean()), float(of_constant.mean())
    z_loss = z_score = _z(constant_loss - loss, of_constant - losses)
    if labels.scale is None:
        f1, deviation = _linearised(outputs, wanted)
        least, of_least = _linearised(constant.decision.expand_as(outputs), wanted)
        z_score = _z(f1 - least, deviation - of_least)
    best = constant.decision if METRICS[labels.metric].is_score else constant.output
    same = labels.predictions(best.expand_as(outputs))
    return Constant(
        score=_known(FUNCTIONS[labels.metric](same, wanted)),
        loss=_known(constant_loss),
        network_loss=_known(loss),
        z_score=_known(z_score),
        z_loss=_known(z_loss),
    )


def is_beaten(constant: Constant) -> bool:
    """Whether the network is better than the constant."""
    return max(constant.z_loss or 0.0, constant.z_score or 0.0) > LIMIT


def _known(value: float) -> float | None:
    return value if isfinite(value) else None


def _z(gain: float, differences: Tensor) -> float:
    """The gain over its standard error, at most MOST; differences [N]. NaN if the outputs are."""
    error = float(differences.double().std(correction=0)) / max(len(differences), 1) ** 0.5
    return min(gain / error, MOST) if error != 0 else MOST * (gain > 0)


def _linearised(logits: Tensor, labels: Tensor) -> tuple[float, Tensor]:
    """Micro-F1 and its linearised deviation u_v. [N]."""
    if labels.ndim == 1:
        hits = (logits.argmax(1) == labels).double()
        sizes = torch.full_like(hits, 2.0)
    else:
        predicted, wanted = logits > 0, labels > 0
        hits = (predicted & wanted).sum(1).double()
        sizes = (predicted.sum(1) + wanted.sum(1)).double()
    mean = float(sizes.mean()) or 1.0
    f1 = float(2 * hits.mean()) / mean
    return f1, (2 * hits - f1 * sizes) / mean


def sample(nodes: Tensor) -> Tensor:
    """Up to SAMPLE of the nodes, spread evenly. int64[N]."""
    number = min(len(nodes), SAMPLE)
    return nodes[torch.arange(number) * len(nodes) // max(number, 1)]
