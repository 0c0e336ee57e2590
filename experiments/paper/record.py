"""Records of a reproduction: the parts `reproduction` and `times` of results.json.

Deviations (`_std`) are sample standard deviations over seeds, None for one seed.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from bliss.storage.records import Record
from bliss.studies.curves import Curve
from bliss.studies.provenance import Machine
from experiments.results import Part

TABLES = ("f1", "time", "variance")
"""The tables of a reproduction."""


class Rerun(Record, frozen=True, kw_only=True):
    """A published number and ours."""

    preset: str
    dataset: str
    model: str
    sampler: str
    ours: float
    ours_std: float | None
    published: float
    published_std: float


class Score(Rerun, frozen=True, kw_only=True):
    """Micro-F1 on one split."""

    split: str
    difference: float
    """Ours minus published."""
    seeds: int
    scores: list[float]
    """Ours, by seed."""


class Pace(Rerun, frozen=True, kw_only=True):
    """Seconds of a training step."""

    ratio: float
    """Ours over published."""


class Growth(Record, frozen=True, kw_only=True):
    """How a quantity grows: y ~ x^exponent, fitted to points (x, y)."""

    quantity: str
    sampler: str
    grows_with: str
    exponent: float
    stated: float | str
    """Exponent that the paper states, a number or words."""
    points: list[tuple[float, float]]

    @property
    def stated_text(self) -> str:
        """The stated exponent as text."""
        return self.stated if isinstance(self.stated, str) else f"{self.stated:g}"


class Tables(Record, frozen=True, kw_only=True):
    """The tables of a reproduction; those that were not asked for are empty."""

    f1: list[Score] = msgspec.field(default_factory=list)
    time: list[Pace] = msgspec.field(default_factory=list)
    variance: list[Growth] = msgspec.field(default_factory=list)


class PresetCurve(Curve, frozen=True, kw_only=True):
    """A learning curve of a reproduction."""

    preset: str
    dataset: str
    model: str
    sampler: str


class Missing(Record, frozen=True, kw_only=True):
    """A data set whose files are missing, and where to get them."""

    dataset: str
    remedy: str


class Reproduction(Record, frozen=True, kw_only=True, tag_field="kind", tag="reproduction"):
    """What was run, with each published number beside ours."""

    command: str
    machine: Machine
    date: str
    seconds: float
    presets: list[str]
    tables: Tables
    figures: list[PresetCurve] = msgspec.field(default_factory=list)
    missing: list[Missing] = msgspec.field(default_factory=list)


def reproduction(folder: Path) -> Part[Reproduction]:
    """The tables of a folder."""
    return Part(folder, "reproduction", Reproduction)


def times(folder: Path) -> Part[Reproduction]:
    """Times that were measured apart, on an idle machine and with fewer steps."""
    return Part(folder, "times", Reproduction)
