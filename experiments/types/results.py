"""Records of this experiment."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bliss.storage import records
from bliss.studies.provenance import Machine
from experiments.results import Part

HERE = Path(__file__).parent


class Size(records.Record, frozen=True, kw_only=True):
    """A sampler of given size, with a graph and a network; `sampler` is a row of `cases.ROWS`."""

    graph: str
    model: str
    sampler: str
    budgets: list[int]


class Time(Size, frozen=True, kw_only=True):
    """Median milliseconds of a step, alone on a machine."""

    step_ms: float
    setup_s: float = 0.0
    """Seconds before the first step, such as for sums of features; 0 where not measured."""

    def steps(self, seconds: float) -> int:
        """Number of steps that fit into so many seconds."""
        return int(1e3 * (seconds - self.setup_s) / self.step_ms)


class Trial(Size, frozen=True, kw_only=True):
    """A run that settings are chosen by: its best score on validation nodes."""

    lr: float
    weight_decay: float
    dropout: float
    steps: int
    val_score: float


class Cell(Trial, frozen=True, kw_only=True):
    """Test scores of a run at its best step by validation."""

    seed: int
    accuracy: float
    macro_f1: float
    edges: float
    """Edges of a batch, summed over layers."""


class Division(records.Record, frozen=True, kw_only=True):
    """Error of a layer's messages under several masses and divisions, over that of PLADIES."""

    graph: str
    model: str
    layer: int
    budget: int
    candidates: int
    """Sources that may be kept, targets apart."""
    shares: dict[str, float]
    """Share of the kept sources of each type, with one budget and PLADIES' masses."""
    hand_shares: dict[str, float]
    """The best split by hand."""
    ratios: dict[str, float]
    """V over that of PLADIES with one budget."""
    gradient: dict[str, list[float]]
    """r of the gradient with these masses in all layers: mean, low and high; in layer 1 alone."""


class LearntSizes(records.Record, frozen=True, kw_only=True):
    """The policy `node` with sizes of inputs and of messages, by "size, variant"."""

    graph: str
    model: str
    budgets: list[int]
    over_limit: dict[str, list[list[float]]]
    """V over its least value, of each trained network and layer."""
    gradient: dict[str, list[float]]
    """r: mean, low and high."""
    gradient_ratio: dict[str, list[float]]
    """r with sizes of messages over r with sizes of inputs, by variant: mean, low and high."""
    step_ms: dict[str, float] = msgspec.field(default_factory=dict)
    """Median milliseconds of a step, by size."""
    accuracy: dict[str, list[float]] = msgspec.field(default_factory=dict)
    """Test accuracy of each seed at equal steps, by size."""
    macro_f1: dict[str, list[float]] = msgspec.field(default_factory=dict)


class Results(records.Record, frozen=True, kw_only=True):
    """Everything that was measured on labels of nodes."""

    machine: Machine
    times: list[Time] = msgspec.field(default_factory=list)
    tried: list[Trial] = msgspec.field(default_factory=list)
    runs: list[Cell] = msgspec.field(default_factory=list)
    divisions: list[Division] = msgspec.field(default_factory=list)
    learnt_sizes: list[LearntSizes] = msgspec.field(default_factory=list)

    def time(self, one: Size) -> Time:
        """Time of a step."""
        return next(time for time in self.times if size_of(time) == size_of(one))

    def chosen(self, graph: str, model: str, sampler: str) -> Trial | None:
        """The settings with the best validation score; the first of equals, None if untried."""
        own = [one for one in self.tried if size_of(one)[:3] == (graph, model, sampler)]
        return max(own, key=lambda one: one.val_score, default=None)


def size_of(one: Size) -> tuple[str, str, str, tuple[int, ...]]:
    """What identifies a size."""
    return one.graph, one.model, one.sampler, tuple(one.budgets)


STORED = Part(HERE, "labels", Results)
