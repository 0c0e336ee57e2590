"""Sizes at which samplers do equal work per step: pilot steps, and a search over the scale."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from bliss.data import Dataset
from bliss.storage import records
from bliss.storage.digests import json_digest
from bliss.storage.records import Record
from bliss.studies.comparison.sizes import Size, flat, scaled, size_of, unit_of, with_size
from bliss.train import Stepper, TrainConfig, build_task
from bliss.train.folder import settings_digest

MATCHES = ("nodes", "edges", "ms")
WARM_UP, STEPS = 2, 6
MOST = 14
"""Largest number of sizes that are tried."""
TOLERANCE = {"nodes": 0.01, "edges": 0.01, "ms": 0.05}
"""Relative distance to the target at which the search ends."""


class Work(Record, frozen=True, kw_only=True):
    """Work of a training step: means of counts and the median time over pilot steps."""

    nodes: float
    edges: float
    ms: float


class Pilots(Record, frozen=True, kw_only=True):
    """pilots.json: what pilot steps measured, by the digest of settings and data."""

    works: dict[str, Work] = msgspec.field(default_factory=dict)


@dataclass(frozen=True)
class MatchedSize:
    """A size and its work relative to the target."""

    size: Size
    ratio: float


class Matcher:
    """Finds sizes of equal work on one data set.

    Draws depend on the seed alone, so counts of nodes and edges are reproducible. Milliseconds are
    measured; the file keeps them, so that a continued study finds the same sizes.
    """

    def __init__(self, kind: str, dataset: Dataset, file: Path) -> None:
        self.kind, self.dataset, self.file = kind, dataset, file
        remedy = "remove it to measure again"
        self._works: dict[str, Work] = {}
        if file.exists():
            self._works |= records.read_sealed(file, Pilots, remedy).works

    def measure(self, config: TrainConfig) -> Work:
        """Work of a step with these settings on this data; measured once."""
        key = json_digest([settings_digest(config), self.dataset.fingerprint])
        if key not in self._works:
            self._works[key] = pilot(config, self.dataset)
            records.write_sealed(self.file, Pilots(works=self._works))
        return self._works[key]

    def work(self, config: TrainConfig) -> float:
        """Work of a step with these settings, in the unit of the match."""
        return float(getattr(self.measure(config), self.kind))

    def match(self, config: TrainConfig, target: float) -> MatchedSize:
        """The size, in the proportions of the settings, whose work is nearest to the target."""
        unit = unit_of(config.sampler.config)
        start = size_of(config)

        def ratio(size: Size) -> float:
            return self.work(with_size(config, size) if size else config) / target

        if not unit:
            return MatchedSize((), ratio(()))
        return nearest(lambda factor: scaled(start, factor, unit), ratio, TOLERANCE[self.kind])


def pilot(config: TrainConfig, dataset: Dataset) -> Work:
    """Work of a few training steps from new weights and a new policy."""
    steps = WARM_UP + STEPS
    stepper = Stepper(build_task(config.with_settings(steps=steps, schedule="constant"), dataset))
    for batch in stepper.batches():
        stepper.step(batch)
    counted = stepper.mean_sampled()
    times = list(stepper.times["total"])[WARM_UP:]
    return Work(nodes=counted.nodes, edges=counted.edges, ms=1e3 * median(times))


def nearest(
    size_at: Callable[[float], Size], ratio_of: Callable[[Size], float], tolerance: float
) -> MatchedSize:
    """The size whose ratio is nearest to 1, for a ratio that grows with the factor.

    The factor is found by interpolation of log ratio over log factor between one that is too small
    and one that is too large. The search ends at the tolerance, at the least size, where three
    doublings do not increase the ratio, where no size is left in between, where two sizes in
    between repeat a known ratio, or after MOST sizes.
    """
    tried: dict[Size, float] = {}
    below: float | None = None  # largest factor known to be too small, and least too large
    above: float | None = None
    factor, stalls, repeats = 1.0, 0, 0
    while len(tried) < MOST:
        size = size_at(factor)
        before = max(tried.values(), default=0.0)
        if size not in tried:
            tried[size] = ratio_of(size)
        ratio = tried[size]
        if abs(ratio - 1) <= tolerance:
            break
        if ratio < 1:
            below = factor
            if above is None:
                stalls = stalls + 1 if ratio < 1.001 * before else 0
                if stalls == 3:
                    break
                factor *= 2.0 if stalls else min(max(1.02 / max(ratio, 1e-9), 1.1), 8.0)
        else:
            above = factor
            if below is None:
                if max(flat(size)) == 1:
                    break
                factor /= min(max(1.02 * ratio, 1.1), 8.0)
        if below is not None and above is not None:
            repeats += list(tried.values()).count(ratio) > 1
            if repeats == 2:
                break
            factor = _between(below, above, tried, size_at)
            if size_at(factor) in tried:
                factor = math.sqrt(below * above)
            if size_at(factor) in tried:
                break
    best = min(tried, key=lambda size: abs(math.log(max(tried[size], 1e-9))))
    return MatchedSize(best, tried[best])


def _between(
    below: float, above: float, tried: dict[Size, float], size_at: Callable[[float], Size]
) -> float:
    """Factor at which the interpolated log ratio is 0, away from both ends."""
    low, high = (math.log(max(tried[size_at(f)], 1e-9)) for f in (below, above))
    share = -low / (high - low) if high > low else 0.5
    return float(below * (above / below) ** min(max(share, 0.1), 0.9))
