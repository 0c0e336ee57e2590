"""Records that a run writes: its result, one line per evaluation, and the time of each."""

from __future__ import annotations

from collections.abc import Mapping

from bliss.storage.records import Record

F1, R2 = "micro-F1", "R2"
"""Names of the score of a run: F1 for classes and labels, R2 for regression."""


def short_name(metric: str) -> str:
    """Name of a score in tables and lines: "F1" or "R2"."""
    return metric.removeprefix("micro-")


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


class RunResult(RunSettings, frozen=True, kw_only=True, omit_defaults=True):
    """result.json. Scores are those of `metric`, with full neighbourhoods at the best step."""

    best_step: int
    """Step with the highest validation score."""
    metric: str
    """Score in the fields `_score`: micro-F1, or R2 for regression."""
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
    train_mse: float | None = None
    """Mean squared error in the units of the targets; for regression only."""
    val_mse: float | None = None
    test_mse: float | None = None


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
    val_mse: float | None = None
    train_error: float | None = None
    """Standard error of the score over draws; with evaluate="sampled" and several draws only."""
    val_error: float | None = None


class StepTime(Record, frozen=True, kw_only=True):
    """One line of times.jsonl; separate from the metrics, which are reproducible bit for bit."""

    step: int
    seconds: float
    """Time spent in training steps so far, excluding evaluations."""
