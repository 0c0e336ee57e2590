"""Step times and runs of all samplers: the part `runs` of results.json."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

from bliss.storage import records
from bliss.studies.provenance import Machine
from experiments.results import Part

HERE = Path(__file__).parent
GRID_SECONDS, GRID_SEED = 10, 0
"""Time and seed of the runs that choose sizes."""


class Setting(records.Record, frozen=True, kw_only=True):
    """A sampler of given size, with a graph and a network."""

    graph: str
    network: str
    sampler: str
    batch_size: int
    budget: int  # of every sampled layer; 0: none


class Time(Setting, frozen=True, kw_only=True):
    """Times of a setting, measured alone on the machine."""

    setup_s: float  # before the first step
    step_ms: float  # mean

    def steps(self, seconds: float) -> int:
        """Number of steps that fit into some seconds."""
        return max(1, int((seconds - self.setup_s) / self.step_ms * 1e3))


class Run(Setting, frozen=True, kw_only=True):
    """A training run and its scores."""

    seconds: int
    seed: int
    steps: int
    train_score: float
    val_score: float
    test_score: float


class Results(records.Record, frozen=True, kw_only=True):
    """All step times and runs."""

    machine: Machine
    times: list[Time]
    runs: list[Run]

    def time(self, one: Setting) -> Time:
        """Times of a setting."""
        return next(time for time in self.times if key(time) == key(one))

    def chosen(self, graph: str, network: str, sampler: str) -> Setting | None:
        """The size with the best validation score in the runs that choose sizes."""
        tried = [
            run
            for run in self.runs
            if (run.graph, run.network, run.sampler) == (graph, network, sampler)
            and (run.seconds, run.seed) == (GRID_SECONDS, GRID_SEED)
        ]
        return max(tried, key=lambda run: run.val_score, default=None)

    def scores(
        self, graph: str, network: str, sampler: str, seconds: int, split: str = "test"
    ) -> dict[int, float]:
        """Scores of the chosen size by seed.

        The run that chose the size counts for its own seconds.
        """
        size = self.chosen(graph, network, sampler)
        return {
            run.seed: run.test_score if split == "test" else run.val_score
            for run in self.runs
            if size is not None and key(run) == key(size) and run.seconds == seconds
        }

    def mean_test_score(self, graph: str, network: str, sampler: str, seconds: int) -> float | None:
        """Mean test score over seeds; None without runs."""
        scores = self.scores(graph, network, sampler, seconds)
        return mean(scores.values()) if scores else None


def key(one: Setting) -> tuple[str, str, str, int, int]:
    """What identifies a setting."""
    return one.graph, one.network, one.sampler, one.batch_size, one.budget


STORED = Part(HERE, "runs", Results)
