"""Records that a run writes: its result, one line per evaluation, and the time of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from bliss.storage.records import Record


class Metric(NamedTuple):
    """Names of a metric, and where it applies."""

    title: str  # in sentences
    short: str  # in tables and lines
    tasks: tuple[str, ...]
    is_score: bool = True  # higher is better; otherwise an error
    is_ranking: bool = False  # of two classes, or of several labels


CLASSES = "classes", "labels"
RANKED = *CLASSES, "link"
METRICS = {
    "f1": Metric("micro-F1", "F1", CLASSES),
    "accuracy": Metric("accuracy", "accuracy", CLASSES),
    "macro_f1": Metric("macro-F1", "macro-F1", CLASSES),
    "auc": Metric("ROC-AUC", "AUC", RANKED, is_ranking=True),
    "average_precision": Metric("average precision", "AP", RANKED, is_ranking=True),
    "loss": Metric("cross-entropy", "cross-entropy", CLASSES, is_score=False),
    "r2": Metric("R2", "R2", ("regression",)),
    "mse": Metric("mean squared error", "MSE", ("regression",), is_score=False),
    "mae": Metric("mean absolute error", "MAE", ("regression",), is_score=False),
    "mrr": Metric("MRR", "MRR", ("link",)),
    "hits": Metric("hits@K", "hits@K", ("link",)),
    "recall": Metric("recall@K", "recall@K", ("link",)),
    "ndcg": Metric("ndcg@K", "ndcg@K", ("link",)),
}
"""Metrics by name; the first of a task selects the best step by default."""


NO_RANKS: Mapping[str, int] = {}


def title_of(metric: str, ranks: Mapping[str, int] = NO_RANKS) -> str:
    """Name of a metric in sentences: "micro-F1", or "hits@10" with the K of `ranks`."""
    return _with_rank(METRICS[metric].title if metric in METRICS else metric, metric, ranks)


def short_name(metric: str, ranks: Mapping[str, int] = NO_RANKS) -> str:
    """Name of a metric in tables and lines: "F1", or "hits@10" with the K of `ranks`."""
    return _with_rank(METRICS[metric].short if metric in METRICS else metric, metric, ranks)


def _with_rank(name: str, metric: str, ranks: Mapping[str, int]) -> str:
    return name.replace("@K", f"@{ranks[metric]}") if metric in ranks else name


def gain(metric: str, score: float) -> float:
    """The score, or minus an error: the higher, the better."""
    return score if metric not in METRICS or METRICS[metric].is_score else -score


def score_text(metric: str, value: float | None) -> str:
    """A score with four decimals, an error with four digits; a dash for a score not defined."""
    if value is None:
        return "\u2013"
    is_score = metric not in METRICS or METRICS[metric].is_score
    return f"{value:.4f}" if is_score else f"{value:.4g}"


def score_fields(scores: Mapping[str, float]) -> dict[str, float]:
    """Scores by field of a record, from those of `evaluate`: "val" is val_score."""
    return {name if "_" in name else f"{name}_score": score for name, score in scores.items()}


class RunSettings(Record, frozen=True, kw_only=True):
    """Settings that identify a run; config.json holds these and all others."""

    dataset: str
    model: str
    sampler: str
    policy: str
    seed: int
    steps: int
    """Training steps: requested in config.json, taken in result.json."""


class Sampled(Record, frozen=True, kw_only=True):
    """Means over training steps."""

    nodes: float
    """Input nodes of a batch."""
    edges: float
    """Edges of a batch, summed over layers."""


class ClassScores(Record, frozen=True, kw_only=True):
    """One class or label of a split."""

    name: str
    nodes: int
    """Nodes of the class."""
    predicted: int
    """Nodes predicted as the class."""
    hits: int
    """Nodes of the class predicted as it."""
    precision: float | None
    """hits / predicted"""
    recall: float | None
    """hits / nodes"""


class Constant(Record, frozen=True, kw_only=True):
    """The best constant prediction on a split, and how much better the network is.

    A number is None if the network's outputs are not finite.
    """

    score: float | None
    """Score of the most frequent class or labels, of the mean of the targets, or of links in random
    order."""
    loss: float | None
    """Mean loss of the shares of classes among training nodes, or of the mean of their targets."""
    network_loss: float | None
    """Mean loss of the network, with full neighbourhoods and without dropout."""
    z_score: float | None
    """Gain in micro-F1 over the constant, in standard errors over nodes; for regression z_loss; of
    links, gain in AUC over 1/2 in its deviations under random order."""
    z_loss: float | None
    """Gain in the loss over the constant, in standard errors over nodes."""


class SplitAssessment(Record, frozen=True, kw_only=True):
    """All scores of one split."""

    nodes: int
    """Nodes, or links, that were scored."""
    scores: dict[str, float]
    """Scores by metric; errors are in the units of the targets."""
    classes: list[ClassScores]
    """Precision and recall of each class or label; empty for regression."""
    confusion: list[list[int]]
    """Nodes of class r (row) predicted as class c (column), for one class per node and up to 50
    classes."""
    constant: Constant


class Assessment(Record, frozen=True, kw_only=True, tag_field="kind", tag="assessment"):
    """All scores of a network, as `bliss evaluate --json` writes them."""

    metric: str
    """Metric that selected the best step."""
    splits: dict[str, SplitAssessment]
    has_learnt: bool
    """Whether the network is better than a constant prediction on the last split, by more than 2
    standard errors of the loss or of micro-F1."""
    causes: list[str]
    """Likely causes if it has not learnt, the likeliest first."""
    ranks: dict[str, int] = msgspec.field(default_factory=dict)
    """K of the metrics hits, recall and ndcg of links."""


class TimeWindow(Record, frozen=True, kw_only=True):
    """Times of the test split of a run by time."""

    number: int
    """Number of the window of a rolling evaluation, from 1."""
    of: int
    """Number of windows."""
    start: str
    """First time of a test node or link: a number, or a date in UTC."""
    end: str
    """Last one."""


class RunResult(RunSettings, frozen=True, kw_only=True, omit_defaults=True):
    """result.json. Scores are those of `metric`, with full neighbourhoods at the best step."""

    best_step: int
    """Step with the best validation score: the highest, or the lowest of an error."""
    metric: str
    """Metric of the fields `_score`, which selected the best step: f1, r2 for regression or auc for
    links, unless another was chosen."""
    train_score: float
    """With evaluate="split", of as many training nodes as there are validation nodes."""
    val_score: float
    test_score: float
    seconds: float
    """Duration of the run, including evaluations."""
    step_ms: dict[str, float]
    """Median milliseconds of each part of a step, and of the whole step as "total"."""
    sampled: Sampled
    peak_mb: float
    """Peak memory in MiB."""
    data: str = ""
    """Fingerprint of the data set."""
    scores: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)
    """All scores by split and metric; errors are in the units of the targets."""
    classes: list[ClassScores] = msgspec.field(default_factory=list)
    """Precision and recall of each class or label on test nodes."""
    constant: Constant | None = None
    """What a network that has learnt nothing would reach on test nodes."""
    has_learnt: bool = True
    """Whether the network is better than a constant prediction on test nodes: a z above 2."""
    causes: list[str] = msgspec.field(default_factory=list)
    """Likely causes if it has not learnt, the likeliest first."""
    confusion: list[list[int]] = msgspec.field(default_factory=list)
    """Test nodes of class r (row) predicted as class c (column), up to 50 classes."""
    window: TimeWindow | None = None
    """Times of the test split, of a run by time."""
    ranks: dict[str, int] = msgspec.field(default_factory=dict)
    """K of the metrics hits, recall and ndcg of links."""
    types: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """Types and relations of a heterogeneous graph, as `bliss data info` shows them."""


class DataSchema(Record, frozen=True, kw_only=True):
    """What a network needs of a graph; stored with its weights."""

    task: str
    """classes, labels, regression or link."""
    features: int
    """Number of features."""
    feature_names: list[str]
    """Names of the features; empty if they have none."""
    outputs: int
    """Number of classes, labels or targets; of links, width of the embeddings."""
    class_names: list[str]
    """Names of the classes, labels or targets; empty if they are numbers."""
    norm: str
    """Coefficients of the edges, see `Graph`."""
    node_types: dict[str, int] = msgspec.field(default_factory=dict)
    """Number of features of each type of nodes; empty without types."""
    edge_types: list[tuple[str, str, str]] = msgspec.field(default_factory=list)
    """Relations: source type, name and target type."""
    node_type: str = ""
    """Type of the nodes that are predicted."""


class Evaluation(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One line of metrics.jsonl."""

    step: int
    loss: float
    """Mean training loss since the previous evaluation."""
    metric: str
    """Score in the fields `_score`, as in `RunResult`."""
    train_score: float
    val_score: float
    train_mse: float | None = None
    """Mean squared error in the units of the targets; for regression only."""
    val_mse: float | None = None
    train_error: float | None = None
    """Standard error of the score over draws; with evaluate="sampled" and several draws only."""
    val_error: float | None = None


class StepTime(Record, frozen=True, kw_only=True):
    """One line of times.jsonl; separate from the metrics, which are reproducible bit for bit."""

    step: int
    seconds: float
    """Time spent in training steps so far, excluding evaluations."""
