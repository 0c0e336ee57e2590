"""The JSON formats a report reads, as dataclasses; decode.py fills them.

A field without a default must be there. A number that is null,
absent or not finite is NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

NAN = math.nan


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Scores over steps; the deviations are over seeds, and empty where there is one seed."""

    step: list[float] = field(default_factory=list)
    val_f1: list[float] = field(default_factory=list)
    val_f1_std: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    loss_std: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("val_f1", "val_f1_std", "loss", "loss_std"):
            if (length := len(getattr(self, name))) not in (0, len(self.step)):
                raise ValueError(f"has {length} values of {name} for {len(self.step)} steps")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What a report needs of a run's config.json."""

    dataset: str
    model: str
    sampler: str
    policy: str = ""
    seed: int = 0
    steps: float = NAN


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One line of a run's metrics.jsonl."""

    step: float
    loss: float = NAN
    train_f1: float = NAN
    val_f1: float = NAN


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """Mean nodes and edges of a step's blocks, over all layers."""

    nodes: float = NAN
    edges: float = NAN


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """A run's result.json."""

    steps: float = NAN
    best_step: float = NAN
    train_f1: float = NAN
    val_f1: float = NAN
    test_f1: float = NAN
    seconds: float = NAN
    step_ms: dict[str, float] = field(default_factory=dict)
    sampled: Sampled = field(default_factory=Sampled)
    peak_mb: float = NAN


@dataclass(frozen=True, kw_only=True)
class Row:
    """One sampler with one network at one share of the budget, over seeds."""

    dataset: str
    model: str
    sampler: str
    policy: str = ""
    budget_share: float = 1.0
    budgets: list[float] = field(default_factory=list)
    seeds: float = NAN
    train_f1: float = NAN
    val_f1: float = NAN
    val_f1_std: float = NAN
    test_f1: float = NAN
    test_f1_std: float = NAN
    difference: float = NAN
    p_value: float = NAN
    step_ms: dict[str, float] = field(default_factory=dict)
    nodes: float = NAN
    edges: float = NAN
    peak_mb: float = NAN
    seconds: float = NAN
    seconds_to_target: float = NAN
    reached: float = NAN
    curve: Curve = field(default_factory=Curve)


@dataclass(frozen=True, kw_only=True)
class ComparisonFile:
    """A comparison's compare.json."""

    dataset: str
    rows: list[Row]
    command: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    date: str = ""
    seeds: list[int] = field(default_factory=list)
    target_f1: float = NAN


@dataclass(frozen=True, kw_only=True)
class Score:
    """One published F1 beside ours."""

    preset: str
    dataset: str
    model: str
    sampler: str
    split: str = "test"
    ours: float = NAN
    ours_std: float = NAN
    published: float = NAN
    published_std: float = NAN
    difference: float = NAN
    seeds: float = NAN


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Published seconds of an iteration beside ours."""

    preset: str
    dataset: str
    model: str
    sampler: str
    ours: float = NAN
    ours_std: float = NAN
    published: float = NAN
    published_std: float = NAN
    ratio: float = NAN


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How a quantity grows: y ~ x ** exponent, fitted to `points` (x, y)."""

    quantity: str
    sampler: str
    grows_with: str
    exponent: float = NAN
    stated: float | str = NAN
    points: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if any(len(point) != 2 for point in self.points):
            raise ValueError("has points that are not pairs of numbers")


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The tables of a reproduction; any may be absent."""

    f1: list[Score] = field(default_factory=list)
    time: list[Pace] = field(default_factory=list)
    variance: list[Growth] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class PresetCurve(Curve):
    """A curve of a reproduction."""

    preset: str
    dataset: str
    model: str
    sampler: str


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A data set that was not there, and what to do about it."""

    dataset: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class ReproductionFile:
    """A reproduction's reproduce.json."""

    tables: Tables = field(default_factory=Tables)
    figures: list[PresetCurve] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    presets: list[str] = field(default_factory=list)
    command: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    date: str = ""
    seconds: float = NAN


@dataclass(frozen=True, kw_only=True)
class PolicyVariance:
    """V of a policy as ratios: over PLADIES' and over the limit, absolute and relative error."""

    over_pladies: float = NAN
    over_limit: float = NAN
    relative_over_pladies: float = NAN
    relative_over_limit: float = NAN


@dataclass(frozen=True, kw_only=True)
class LayerVariance:
    """One layer's ratios, over all steps measured."""

    budget: float = NAN
    limit_over_pladies: float = NAN
    relative_limit_over_pladies: float = NAN
    policies: dict[str, PolicyVariance] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LayerMoment:
    """One layer's V at one step."""

    pladies: float = NAN
    limit: float = NAN
    policies: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Moment:
    """V of every layer at one step, input layer first."""

    step: float
    layers: list[LayerMoment]


@dataclass(frozen=True, kw_only=True)
class VarianceFile:
    """A variance.json; layers are listed input first."""

    dataset: str
    model: str
    layers: list[LayerVariance]
    history: list[Moment] = field(default_factory=list)
    budgets: list[float] = field(default_factory=list)
    batch_size: float = NAN
    steps: float = NAN
    seed: int = 0

    def __post_init__(self) -> None:
        for moment in self.history:
            if len(moment.layers) != len(self.layers):
                raise ValueError(
                    f"has {len(moment.layers)} layers in the history of step {moment.step:g}, but "
                    f"{len(self.layers)} elsewhere"
                )
