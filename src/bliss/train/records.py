"""Records that a run writes: its result, one line per evaluation, and the time of each."""

from __future__ import annotations

from bliss.records import Record


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


class RunResult(RunSettings, frozen=True, kw_only=True):
    """result.json. Scores are micro-F1 with full neighbourhoods at the best step."""

    best_step: int
    """Step with the highest validation F1."""
    train_f1: float
    val_f1: float
    test_f1: float
    seconds: float
    """Duration of the run, including evaluations."""
    step_ms: dict[str, float]
    """Median milliseconds of each part of a step, and of the whole step as "total"."""
    sampled: Sampled
    peak_mb: float
    """Peak memory in MiB."""


class Evaluation(Record, frozen=True, kw_only=True):
    """One line of metrics.jsonl."""

    step: int
    loss: float
    """Mean training loss since the previous evaluation."""
    train_f1: float
    val_f1: float


class StepTime(Record, frozen=True, kw_only=True):
    """One line of times.jsonl; separate from the metrics, which are reproducible bit for bit."""

    step: int
    seconds: float
    """Time spent in training steps so far, excluding evaluations."""
