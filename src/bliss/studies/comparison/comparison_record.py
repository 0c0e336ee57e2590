"""Record that `bliss compare` writes.

Scores are by the record's `metric`, for instance f1, a share of 1. Deviations (`_std`) are sample
standard deviations over seeds, None for one seed. Layers are listed input layer first.
"""

from __future__ import annotations

import msgspec

from bliss.storage.records import Record
from bliss.studies.curves import Curve
from bliss.studies.provenance import GraphFacts, Machine


class Trial(Record, frozen=True, kw_only=True):
    """One setting of a search, with its validation score; None if the network diverged."""

    lr: float
    dropout: float
    val_score: float | None


class Search(Record, frozen=True, kw_only=True):
    """What was tried to choose the learning rate and the dropout of a sampler."""

    trials: list[Trial]
    seconds: float
    """Duration of all trials."""


class ComparisonRow(Record, frozen=True, kw_only=True):
    """One sampler with one network and one share of the budget. Means over seeds."""

    dataset: str
    model: str
    sampler: str
    policy: str
    budget_share: float
    budgets: list[int | dict[str, int]]
    """Budget of each layer, by type or relation if so given; empty for samplers without budgets."""
    seeds: int
    """Number of seeds."""
    train_score: float
    train_score_std: float | None
    val_score: float
    val_score_std: float | None
    test_score: float
    test_score_std: float | None
    difference: float | None
    """Mean test score minus that of the first sampler at the same share, over equal seeds."""
    p_value: float | None
    """Two-sided paired t-test of the difference, not corrected for multiple comparisons."""
    step_ms: dict[str, float]
    nodes: float
    edges: float
    peak_mb: float
    seconds: float
    seconds_to_target: float | None
    """Mean time in training steps until the target score, over the seeds that reached it."""
    reached: int
    """Number of seeds that reached the target score."""
    curve: Curve
    unit: str
    """Unit of the size: layer, node, subgraph; empty for samplers without one."""
    batch_size: int
    estimator: str
    """Estimator; empty for samplers that offer no choice."""
    lr: float
    dropout: float
    match: float | None
    """Work of a step over that of the first sampler at the same share, in the unit of the match:
    means over all steps of all runs, 1 for the first."""
    scores: list[float]
    """Test score by seed."""
    test_score_interval: float | None
    """Half the width of the 95% t-interval of the mean test score."""
    rank: int | None
    """Rank by test score among the rows of the same network and share; None for one seed."""
    is_tied: bool
    """Whether the rank is shared."""
    search: Search | None
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
    """Metric of the fields `_score`, which selected the best steps."""
    target_score: float
    """Validation score whose time is reported."""
    rows: list[ComparisonRow]
    match: str
    """What is equal in a step of every sampler: nodes, edges or ms; empty if sizes were given."""
    sizes: str
    """"authors" for the sizes of the samplers' authors."""
    estimator: str
    """The estimator of all samplers that offer it, or "own" for the default of each."""
    load: float | None
    """Load of the machine before the first run: running processes per core over a minute."""
    graph: GraphFacts
    skipped: list[Skipped]
    notes: list[str]
    """Warnings that the numbers must be read with."""
    ranks: dict[str, int] = msgspec.field(default_factory=dict)
    """K of the metrics hits, recall and ndcg of links."""
