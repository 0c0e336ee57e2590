"""Scores of a network's outputs, all vectorised over nodes.

Labels have the shape of their task: int64[N] for one class per node (-1 where unknown), [N, C] of 0
and 1 for several labels per node, float[N, T] for the targets of a regression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from bliss.errors import InputError
from bliss.train.results import METRICS, ClassScores

MOST_CLASSES = 50
"""Classes up to which there is a confusion matrix."""


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


def accuracy(logits: Tensor, labels: Tensor) -> float:
    """Share of nodes of the right class; with several labels per node, of right pairs (v, c)."""
    if labels.ndim == 1:
        return micro_f1(logits, labels)
    right = int(((logits > 0) == (labels > 0)).sum())
    return right / logits.numel() if logits.numel() else float("nan")


class ClassCounts(NamedTuple):
    """Numbers of nodes by class. int64[C] each."""

    nodes: Tensor  # of the class: TP + FN
    predicted: Tensor  # as the class: TP + FP
    hits: Tensor  # both: TP


def class_counts(logits: Tensor, labels: Tensor) -> ClassCounts:
    """Nodes, predictions and hits of each class. logits [N, C]."""
    if labels.ndim == 2:
        predicted, wanted = logits > 0, labels > 0
        return ClassCounts(wanted.sum(0), predicted.sum(0), (predicted & wanted).sum(0))
    known, number = labels >= 0, logits.size(1)
    wanted, predicted = labels[known], logits[known].argmax(1)
    parts = wanted, predicted, wanted[wanted == predicted]
    return ClassCounts(*(torch.bincount(part, minlength=number) for part in parts))


def macro_f1(logits: Tensor, labels: Tensor) -> float:
    """Mean over classes of F1_c = 2 TP_c / (2 TP_c + FP_c + FN_c).

    Classes that no node has and that are predicted for none are left out; NaN if these are all.
    """
    counts = class_counts(logits, labels)
    total = counts.nodes + counts.predicted
    return float((2 * counts.hits / total)[total > 0].double().mean())


def class_scores(logits: Tensor, labels: Tensor, names: Sequence[str] = ()) -> list[ClassScores]:
    """Precision TP / (TP + FP) and recall TP / (TP + FN) of each class, with the counts."""
    counts = class_counts(logits, labels)
    rows = zip(*(count.tolist() for count in counts), strict=True)
    return [
        ClassScores(
            name=names[number] if names else str(number),
            nodes=nodes,
            predicted=predicted,
            hits=hits,
            precision=hits / predicted if predicted else None,
            recall=hits / nodes if nodes else None,
        )
        for number, (nodes, predicted, hits) in enumerate(rows)
    ]


def confusion_matrix(logits: Tensor, labels: Tensor) -> Tensor:
    """Nodes of class r (row) predicted as class c (column). int64[C, C]."""
    known, number = labels >= 0, logits.size(1)
    pairs = labels[known] * number + logits[known].argmax(1)
    return torch.bincount(pairs, minlength=number**2).view(number, number)


def roc_auc(logits: Tensor, labels: Tensor) -> float:
    """Area under the ROC curve: the chance that a positive node has a higher score than a negative.

        AUC = mean over pairs (p, n) of [s_p > s_n] + [s_p = s_n] / 2

    Of two classes, class 1 is positive, with the score z_1 - z_0. Of several labels, it is the mean
    over labels that have positive and negative nodes; NaN if there are none.
    """

    def area(score: Tensor, wanted: Tensor) -> Tensor:
        positive, negative = score[wanted], score[~wanted].sort().values
        below = torch.searchsorted(negative, positive)
        not_above = torch.searchsorted(negative, positive, right=True)
        return (below + not_above).double().mean() / (2 * len(negative))  # NaN if one is empty

    return _mean_over_labels(area, logits, labels)


def average_precision(logits: Tensor, labels: Tensor) -> float:
    """Mean over positive nodes p of the precision of all nodes with a score of at least s_p.

        AP = mean over p of #{positive v: s_v >= s_p} / #{v: s_v >= s_p}

    This is the step-wise area under the curve of precision over recall. Scores and averages are
    those of `roc_auc`; labels without positive nodes are left out.
    """

    def precision(score: Tensor, wanted: Tensor) -> Tensor:
        positive, every = score[wanted].sort().values, score.sort().values
        least = len(positive) - torch.searchsorted(positive, positive)
        return (least / (len(every) - torch.searchsorted(every, positive))).double().mean()

    return _mean_over_labels(precision, logits, labels)


def _mean_over_labels(
    measure: Callable[[Tensor, Tensor], Tensor], logits: Tensor, labels: Tensor
) -> float:
    """Mean of a measure of scores [N] and positives [N] over labels, without those of NaN."""
    if labels.ndim == 1:
        known = labels >= 0
        score = logits[known]
        return float(measure((score[:, 1] - score[:, 0]).contiguous(), labels[known] == 1))
    columns = zip(logits.T, labels.T, strict=True)
    each = [measure(score.contiguous(), wanted > 0) for score, wanted in columns]
    return float(torch.stack(each).nanmean())


def cross_entropy(logits: Tensor, labels: Tensor) -> float:
    """Mean over nodes of -log softmax(z_v)_{y_v}, without class weights; NaN without nodes.

    With several labels per node, the mean over pairs (v, c) of -log sigmoid(z_vc) for a label of
    the node and -log sigmoid(-z_vc) for another.
    """
    if labels.ndim == 2:
        wanted = (labels > 0).double()
        return float(functional.binary_cross_entropy_with_logits(logits.double(), wanted))
    known = labels >= 0
    return float(functional.cross_entropy(logits[known].double(), labels[known]))


def mean_squared_error(predicted: Tensor, targets: Tensor) -> float:
    """Mean over nodes and targets of (y_hat - y)^2; NaN without nodes. [N, T] each."""
    return float((predicted.double() - targets.double()).square().mean())


def mean_absolute_error(predicted: Tensor, targets: Tensor) -> float:
    """Mean over nodes and targets of |y_hat - y|; NaN without nodes. [N, T] each."""
    return float((predicted.double() - targets.double()).abs().mean())


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


FUNCTIONS: dict[str, Callable[[Tensor, Tensor], float]] = {
    "f1": micro_f1,
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "auc": roc_auc,
    "average_precision": average_precision,
    "loss": cross_entropy,
    "r2": r2,
    "mse": mean_squared_error,
    "mae": mean_absolute_error,
}
"""Scores of nodes by the name of their metric."""


def metrics_of(task: str, num_outputs: int) -> list[str]:
    """Metrics of a task; ranking scores of classes exist for two of them only."""
    is_ranked = task in ("labels", "link") or num_outputs == 2
    return [
        name
        for name, metric in METRICS.items()
        if task in metric.tasks and (is_ranked or not metric.is_ranking)
    ]


def selecting_metric(select: str, task: str, num_outputs: int) -> str:
    """The metric that selects the best step; "auto" is the first of the task."""
    offered = metrics_of(task, num_outputs)
    if select == "auto":
        return offered[0]
    if select not in offered:
        raise InputError(
            f"select={select!r} does not fit the task {task!r} with {num_outputs} outputs: choose "
            f"{', '.join(offered)}."
        )
    return select


def all_scores(outputs: Tensor, wanted: Tensor, task: str) -> dict[str, float]:
    """All scores of a task by metric, without those that are not defined for these nodes."""
    found = {name: FUNCTIONS[name](outputs, wanted) for name in metrics_of(task, outputs.size(1))}
    return {name: score for name, score in found.items() if score == score}
