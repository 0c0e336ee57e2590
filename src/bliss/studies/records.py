"""Records that studies write: compare.json and variance.json.

Scores are by the record's `metric`: micro-F1, a share of 1, or R2. Deviations (`_std`) are sample
standard deviations over seeds, None for one seed. Layers are listed input layer first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, stdev

import msgspec

from bliss.storage.records import Record
from bliss.train.results import Evaluation, StepTime


def mean_and_deviation(values: Iterable[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation; one value has no deviation (None)."""
    numbers = list(values)
    return mean(numbers), stdev(numbers) if len(numbers) > 1 else None


class Machine(Record, frozen=True, kw_only=True):
    """The machine and the versions that the numbers were measured with."""

    processor: str
    cores: int | None
    threads: int
    torch: str
    python: str


class Curve(Record, frozen=True, kw_only=True):
    """Validation F1 and loss over training steps, averaged over seeds."""

    step: list[int]
    val_score: list[float]
    val_score_std: list[float | None]
    loss: list[float]
    loss_std: list[float | None]
    seconds: list[float] = msgspec.field(default_factory=list)
    """Time in training steps until each step, mean over seeds; empty if it is not known."""

    def __post_init__(self) -> None:
        for name in ("val_score", "val_score_std", "loss", "loss_std", "seconds"):
            length = len(getattr(self, name))
            if length != len(self.step) and (length or name != "seconds"):
                raise ValueError(f"{length} values of `{name}` for {len(self.step)} steps")


def average_curve(
    runs: Sequence[Sequence[Evaluation]], times: Sequence[Sequence[StepTime]] = ()
) -> Curve:
    """Mean and deviation at each step over the runs that were evaluated there."""
    at: dict[int, list[Evaluation]] = {}
    for run in runs:
        for line in run:
            at.setdefault(line.step, []).append(line)
    steps = sorted(at)
    taken: dict[int, list[float]] = {}
    for moment in (moment for run in times for moment in run):
        taken.setdefault(moment.step, []).append(moment.seconds)
    val_score = [mean_and_deviation(line.val_score for line in at[step]) for step in steps]
    loss = [mean_and_deviation(line.loss for line in at[step]) for step in steps]
    return Curve(
        step=steps,
        val_score=[average for average, _ in val_score],
        val_score_std=[deviation for _, deviation in val_score],
        loss=[average for average, _ in loss],
        loss_std=[deviation for _, deviation in loss],
        seconds=[mean(taken[step]) for step in steps] if set(steps) <= set(taken) else [],
    )


class Trial(Record, frozen=True, kw_only=True):
    """One setting of a search, with its validation F1; None if the network diverged."""

    lr: float
    dropout: float
    val_score: float | None


class Search(Record, frozen=True, kw_only=True):
    """What was tried to choose the learning rate and the dropout of a sampler."""

    trials: list[Trial]
    seconds: float
    """Duration of all trials."""


class GraphFacts(Record, frozen=True, kw_only=True):
    """Size of a graph. Edges are directed and without self-loops."""

    nodes: int
    edges: int
    features: int
    classes: int


class ComparisonRow(Record, frozen=True, kw_only=True):
    """One sampler with one network and one share of the budget. Means over seeds."""

    dataset: str
    model: str
    sampler: str
    policy: str
    budget_share: float
    budgets: list[int]
    """Budget of each layer; empty for samplers without budgets."""
    seeds: int
    """Number of seeds."""
    train_score: float
    train_score_std: float | None
    val_score: float
    val_score_std: float | None
    test_score: float
    test_score_std: float | None
    difference: float | None
    """Mean test F1 minus that of the first sampler at the same share, over equal seeds."""
    p_value: float | None
    """Two-sided paired t-test of the difference, not corrected for multiple comparisons."""
    step_ms: dict[str, float]
    nodes: float
    edges: float
    peak_mb: float
    seconds: float
    seconds_to_target: float | None
    """Mean time in training steps until the target F1, over the seeds that reached it."""
    reached: int
    """Number of seeds that reached the target F1."""
    curve: Curve
    unit: str = ""
    """Unit of the size: layer, node, subgraph; empty for samplers without one."""
    batch_size: int = 0
    estimator: str = ""
    """Estimator; empty for samplers that offer no choice."""
    lr: float | None = None
    dropout: float | None = None
    match: float | None = None
    """Work of a step over that of the first sampler at the same share, in the unit of the match:
    means over all steps of all runs, 1 for the first."""
    scores: list[float] = msgspec.field(default_factory=list)
    """Test F1 by seed."""
    test_score_interval: float | None = None
    """Half the width of the 95% t-interval of the mean test F1."""
    rank: int | None = None
    """Rank by test F1 among the rows of the same network and share; None for one seed."""
    is_tied: bool = False
    """Whether the rank is shared."""
    search: Search | None = None
    test_mse: float | None = None
    """Mean squared error on test nodes; for regression only."""


class Skipped(Record, frozen=True, kw_only=True):
    """A sampler that cannot be combined with a network."""

    model: str
    sampler: str
    why: str


class Comparison(Record, frozen=True, kw_only=True, tag_field="kind", tag="comparison"):
    """compare.json."""

    dataset: str
    command: str
    machine: Machine
    date: str
    seeds: list[int]
    metric: str
    """Score in the fields `_score`: micro-F1, or R2 for regression."""
    target_score: float
    """Validation score whose time is reported."""
    rows: list[ComparisonRow]
    match: str = ""
    """What is equal in a step of every sampler: nodes, edges or ms; empty if sizes were given."""
    sizes: str = ""
    """"authors" for the sizes of the samplers' authors."""
    estimator: str = ""
    """The estimator of all samplers that offer it, or "own" for the default of each."""
    load: float | None = None
    """Load of the machine before the first run: running processes per core over a minute."""
    graph: GraphFacts | None = None
    skipped: list[Skipped] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    """Warnings that the numbers must be read with."""


class PolicyRatios(Record, frozen=True, kw_only=True):
    """V of a policy over that of PLADIES and over the limit for the policy's number of sources.

    None if the denominator is 0.
    """

    over_pladies: float | None
    over_limit: float | None
    relative_over_pladies: float | None
    relative_over_limit: float | None


class LayerRatios(Record, frozen=True, kw_only=True):
    """Ratios of one layer, means over the second half of training."""

    budget: int
    policies: dict[str, PolicyRatios]
    limit_over_pladies: float | None
    relative_limit_over_pladies: float | None

    @property
    def is_sampled(self) -> bool:
        """Whether the layer is sampled; False if the budget covers every candidate."""
        return self.limit_over_pladies is not None


class LayerErrors(Record, frozen=True, kw_only=True):
    """V of one layer at one step, absolute and relative."""

    pladies: float
    limit: float
    """The least V with as many sources as PLADIES keeps on average."""
    policies: dict[str, float]
    limits: dict[str, float]
    """The least V with as many sources as the policy keeps on average."""
    relative_pladies: float
    relative_limit: float
    relative_policies: dict[str, float]
    relative_limits: dict[str, float]


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


class Variance(
    Record, frozen=True, kw_only=True, tag_field="kind", tag="variance", omit_defaults=True
):
    """variance.json."""

    dataset: str
    model: str
    budgets: list[int]
    batch_size: int
    steps: int
    seed: int
    layers: list[LayerRatios]
    history: list[Moment]
    survey_every: int = 0
    """Steps between surveys; 0 if there were none."""
    ages: list[AgeRatios] = msgspec.field(default_factory=list)
    """Ratios by the age of the survey, in ascending order; empty without surveys."""
    machine: Machine | None = None
    date: str = ""
    graph: GraphFacts | None = None

    def __post_init__(self) -> None:
        found = [(f"the history of step {one.step}", len(one.layers)) for one in self.history]
        found += [(f"the ratios at age {one.age}", len(one.layers)) for one in self.ages]
        for place, number in found:
            if number != len(self.layers):
                raise ValueError(f"{number} layers in {place}, but {len(self.layers)} in `layers`")
