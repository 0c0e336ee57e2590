"""Records that `bliss advise` writes. Layers are listed input layer first."""

from __future__ import annotations

from typing import Any

from bliss.storage.records import Record
from bliss.studies.provenance import Machine
from bliss.train.config import TrainConfig


class AdviceRow(Record, frozen=True, kw_only=True):
    """One choice: what is expected of it and, if it was checked, what was measured."""

    name: str
    sampler: str
    estimator: str
    first_hop: str
    history: str
    budgets: list[int]
    """Budget of each sampled layer; empty for full neighbourhoods."""
    errors: list[float]
    """Relative error of each layer's aggregates."""
    gradient_error: float
    """Expected squared error of a batch's gradient, over the gradient's square."""
    ms: float
    """Expected milliseconds of a step."""
    cost: float
    """ms (1 + gradient_error), in proportion to the time of training."""
    measured_error: float | None = None
    measured_ms: float | None = None


class Fit(Record, frozen=True, kw_only=True):
    """The fitted models of one kind of sampler, and how well they fit."""

    name: str
    sensitivity: list[float]
    power: float
    gradient_residual: float
    """Median of |fitted / measured - 1| of the gradient's error."""
    base_ms: float
    """Milliseconds of a step that do not depend on the sample."""
    source_us: list[float]
    """Microseconds per source of each layer."""
    edge_us: list[float]
    """Microseconds per kept edge of each layer."""
    ms_residual: float
    """Median of |fitted / measured - 1| of the time."""


class Advice(Record, frozen=True, kw_only=True, tag_field="kind", tag="advice"):
    """Advice on sampler and budgets."""

    dataset: str
    model: str
    batch_size: int
    command: str
    """The command that trains with the choice; empty if nothing is recommended."""
    reason: str
    choice: AdviceRow | None
    """None if the pilot has learnt nothing, so that nothing is recommended."""
    rows: list[AdviceRow]
    """All that was considered, each at its best budgets, and the default settings."""
    limit: float
    """Largest gradient error that was accepted."""
    batch_noise: float
    """Variance of the gradient between batches, over the gradient's square."""
    variance_note: str
    """Whether the variance of sampling matters, with the default settings."""
    fits: list[Fit]
    causes: list[str]
    """Likely causes if the pilot has learnt nothing, the likeliest first."""
    pilot_steps: int
    """Steps after which errors were measured."""
    seconds: float
    machine: Machine
    date: str
    settings: dict[str, Any]
    """Settings of the run that is advised; the given ones if nothing is recommended."""

    @property
    def config(self) -> TrainConfig:
        """Settings of the run that is advised, for `Trainer`."""
        return TrainConfig.from_dict(self.settings)
