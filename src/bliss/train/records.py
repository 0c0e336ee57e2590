"""What a run writes: its result, one line per evaluation, and the time until each evaluation."""

from __future__ import annotations

from bliss.records import Record


class RunSettings(Record, frozen=True, kw_only=True):
    """The settings that identify a run. config.json holds these among all others."""

    dataset: str
    model: str
    sampler: str
    policy: str
    seed: int
    steps: int
    """Training steps: those asked for in config.json, those taken in result.json."""


class Sampled(Record, frozen=True, kw_only=True):
    """Means over training steps."""

    nodes: float
    """Input nodes of a batch."""
    edges: float
    """Edges of a batch, all layers together."""


class RunResult(RunSettings, frozen=True, kw_only=True):
    """result.json. Scores are micro-F1 with full neighbourhoods at the best step."""

    best_step: int
    """Step with the highest validation F1."""
    train_f1: float
    val_f1: float
    test_f1: float
    seconds: float
    """Duration of the run, evaluations included."""
    step_ms: dict[str, float]
    """Median milliseconds of each part of a step, and of the whole step as "total"."""
    sampled: Sampled
    peak_mb: float
    """Peak memory in MiB."""


class Evaluation(Record, frozen=True, kw_only=True):
    """One line of metrics.jsonl."""

    step: int
    loss: float
    """Mean training loss since the evaluation before."""
    train_f1: float
    val_f1: float


class StepTime(Record, frozen=True, kw_only=True):
    """One line of times.jsonl, apart from the metrics because no two runs take the same time."""

    step: int
    seconds: float
    """Time spent in training steps so far, evaluations excluded."""
