"""Record that `bliss variance` writes. Layers are listed input layer first."""

from __future__ import annotations

import msgspec

from bliss.storage.records import Record
from bliss.studies.provenance import GraphFacts, Machine


class PolicyRatios(Record, frozen=True, kw_only=True):
    """V of a policy over that of PLADIES and over the limit for the policy's number of sources.

    The weighted V counts each target by its influence on the loss. None if the denominator is 0.
    """

    over_pladies: float | None
    over_limit: float | None
    weighted_over_pladies: float | None
    weighted_over_limit: float | None


class LayerRatios(Record, frozen=True, kw_only=True):
    """Ratios of one layer, means over the second half of training."""

    budget: int
    policies: dict[str, PolicyRatios]
    limit_over_pladies: float | None
    weighted_limit_over_pladies: float | None

    @property
    def is_sampled(self) -> bool:
        """Whether the layer is sampled; False if the budget covers every candidate."""
        return self.limit_over_pladies is not None


class LayerErrors(Record, frozen=True, kw_only=True):
    """V of one layer at one step, all targets alike and weighted by their influence."""

    pladies: float
    limit: float
    """The least V with as many sources as PLADIES keeps on average."""
    policies: dict[str, float]
    limits: dict[str, float]
    """The least V with as many sources as the policy keeps on average."""
    weighted_pladies: float
    weighted_limit: float
    weighted_policies: dict[str, float]
    weighted_limits: dict[str, float]


class Moment(Record, frozen=True, kw_only=True):
    """V of every layer at one step."""

    step: int
    layers: list[LayerErrors]


class AgeRatios(Record, frozen=True, kw_only=True):
    """V over the limit of the surveyed policies at one age of the survey.

    Means over all measurements at this age.
    """

    age: int
    """Steps since the survey."""
    layers: list[dict[str, float | None]]
    """By layer and policy; None if the limit is 0."""


class GradientError(Record, frozen=True, kw_only=True):
    """r = E|g^ - g|^2 / E|g|^2 and its 95% interval over draws, for the measured batches."""

    mean: float
    low: float
    high: float


class Variance(
    Record, frozen=True, kw_only=True, tag_field="kind", tag="variance", omit_defaults=True
):
    """variance.json."""

    dataset: str
    model: str
    budgets: list[int | dict[str, int]]
    batch_size: int
    steps: int
    seed: int
    layers: list[LayerRatios]
    history: list[Moment]
    gradient_error: dict[str, GradientError]
    """By policy, PLADIES among them, at the last step."""
    survey_every: int = 0
    """Steps between surveys; 0 if there were none."""
    ages: list[AgeRatios] = msgspec.field(default_factory=list)
    """Ratios by the age of the survey, in ascending order; empty without surveys."""
    machine: Machine | None = None
    date: str = ""
    graph: GraphFacts | None = None

    def __post_init__(self) -> None:
        counts = [(f"the history of step {at.step}", len(at.layers)) for at in self.history]
        counts += [(f"the ratios at age {at.age}", len(at.layers)) for at in self.ages]
        for place, number in counts:
            if number != len(self.layers):
                raise ValueError(f"{number} layers in {place}, but {len(self.layers)} in `layers`")
