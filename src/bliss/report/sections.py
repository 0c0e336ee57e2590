"""What a page is made of, and the figures that runs, comparisons and reproductions share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bliss.report.charts import Chart, Level, Series, curves, stacks
from bliss.report.records import Curve
from bliss.report.tables import Table, fixed, sentence_list, significant

PARTS_OF_A_STEP = ("sample", "gather", "forward", "backward", "update")
BAND = "Bands are one standard deviation over seeds."
NOTE_ON_TIME = (
    "Medians over steps, part by part; their sum is a little off the median of whole steps."
)


@dataclass(frozen=True)
class Tile:
    """A number worth large type."""

    value: str
    label: str


@dataclass(frozen=True)
class Group:
    """Charts that belong together."""

    title: str
    charts: Sequence[Chart]
    note: str = ""


@dataclass(frozen=True)
class Part:
    """The charts and tables of one network, preset or measurement."""

    title: str
    groups: Sequence[Group] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Details:
    """Names and values behind a fold."""

    title: str
    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Section:
    """One thing that was done: what it showed in words and numbers, then all of it."""

    kind: str
    title: str
    summary: Sequence[str]
    tiles: Sequence[Tile]
    parts: Sequence[Part]
    remarks: Sequence[str] = ()
    details: Sequence[Details] = ()

    @property
    def charts(self) -> list[Chart]:
        """Every chart, in order."""
        return [c for part in self.parts for group in part.groups for c in group.charts]


@dataclass
class Names:
    """Names for files and ids: plain letters, and no two alike."""

    taken: set[str] = field(default_factory=set)

    def __call__(self, *words: str) -> str:
        """Join the words; a number follows where the name was given out before."""
        plain = re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")[:80] or "figure"
        name, number = plain, 2
        while name in self.taken:
            name, number = f"{plain}-{number}", number + 1
        self.taken.add(name)
        return name


@dataclass(frozen=True)
class Entry:
    """One contestant: how it learnt and what a step took."""

    label: str
    index: int
    curve: Curve
    step_ms: dict[str, float] = field(default_factory=dict)


def labels(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Names for (sampler, policy); the policy is told where a sampler comes with several."""
    policies: dict[str, set[str]] = {}
    for sampler, policy in pairs:
        policies.setdefault(sampler, set()).add(policy)
    return [
        f"{sampler} ({policy})" if policy and len(policies[sampler]) > 1 else sampler
        for sampler, policy in pairs
    ]


def learning(entries: Sequence[Entry], about: str, names: Names, target: float) -> Group | None:
    """Validation F1 and loss over steps."""
    charts = []
    for key, title, level in (
        ("val_f1", "Validation F1", Level(f"target {target:.3g}", target)),
        ("loss", "Training loss", None),
    ):
        series = [
            Series(
                entry.label,
                entry.curve.step,
                getattr(entry.curve, key),
                getattr(entry.curve, f"{key}_std"),
                index=entry.index,
            )
            for entry in entries
            if len(getattr(entry.curve, key)) == len(entry.curve.step)
        ]
        series = [line for line in series if line.is_drawable]
        if series:
            alt = f"{title} over steps, {about}. At the last evaluation: {_last(series)}."
            if level and math.isfinite(target):
                alt += f" The target is {target:.3g}."
            figure = curves(series, "step", title, level)
            charts.append(Chart(names(about, title), title, alt, figure))
    has_band = any(
        math.isfinite(deviation)
        for entry in entries
        for deviation in [*entry.curve.val_f1_std, *entry.curve.loss_std]
    )
    return Group("Learning curves", charts, BAND if has_band else "") if charts else None


def step_time(entries: Sequence[Entry], about: str, names: Names) -> Group | None:
    """Where the time of a step goes."""
    timed = [entry for entry in entries if any(map(math.isfinite, entry.step_ms.values()))]
    if not timed:
        return None
    parts = {
        part: [entry.step_ms.get(part, math.nan) for entry in timed] for part in _step_parts(timed)
    }
    told = [
        f"{entry.label} {significant(_sum(entry))} ms ("
        + ", ".join(f"{p} {significant(entry.step_ms[p])}" for p in parts if p in entry.step_ms)
        + ")"
        for entry in timed
    ]
    alt = f"Milliseconds of a training step by part, {about}. {sentence_list(told)}."
    figure = stacks([entry.label for entry in timed], parts, "ms a step")
    chart = Chart(names(about, "time of a step"), "Milliseconds by part", alt, figure)
    return Group("Where the time of a step goes", [chart], NOTE_ON_TIME)


def present(groups: Iterable[Group | None]) -> list[Group]:
    """The groups that have something to show."""
    return [group for group in groups if group]


def machine_words(machine: dict[str, object]) -> str:
    """'AMD EPYC, 2 cores, 1 thread, torch 2.13.0, Python 3.11'."""
    words = []
    for key, value in machine.items():
        if key == "processor":
            words.append(str(value))
        elif key in ("cores", "threads"):
            words.append(f"{value} {key[:-1] if value == 1 else key}")
        else:
            words.append(f"{'Python' if key == 'python' else key} {value}")
    return ", ".join(words)


def facts(items: dict[str, str]) -> list[Details]:
    """How the numbers came about, behind a fold, where anything is known."""
    known = [(name, value) for name, value in items.items() if value]
    return [Details("How this was measured", known)] if known else []


def plural(count: float, noun: str) -> str:
    """'1 seed', '5 seeds'."""
    return f"{fixed(count, 0)} {noun}{'' if count == 1 else 's'}"


def _step_parts(entries: Sequence[Entry]) -> list[str]:
    known = dict.fromkeys(PARTS_OF_A_STEP)
    found = dict.fromkeys(part for entry in entries for part in entry.step_ms)
    return [p for p in known if p in found] + [p for p in found if p not in {*known, "total"}]


def _sum(entry: Entry) -> float:
    times = [t for part, t in entry.step_ms.items() if part != "total" and math.isfinite(t)]
    return sum(times)


def _last(series: Sequence[Series]) -> str:
    told = []
    for line in series:
        at = max(n for n, y in enumerate(line.y) if math.isfinite(y))
        deviation = line.deviation[at] if line.deviation else math.nan
        spread = f" (deviation {significant(deviation, 2)})" if math.isfinite(deviation) else ""
        told.append(f"{line.label} {line.y[at]:.3f}{spread} at step {fixed(line.x[at], 0)}")
    return sentence_list(told)
