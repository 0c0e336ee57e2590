"""The parts of a page, and the figures that runs and comparisons share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bliss.report.cells import DASH, ReportTable, fixed, plural, sentence_list, significant
from bliss.report.charts import Chart, Level, Series, coinciding, curves, stacks
from bliss.studies.curves import Curve
from bliss.studies.provenance import GraphFacts, Machine

PARTS_OF_A_STEP = ("sample", "gather", "forward", "backward", "update")
BAND = "Bands are one standard deviation over seeds."
OVER_TIME = "Seconds are those of training steps, without evaluations."
NOTE_ON_TIME = (
    "Each part is a median over steps, so the sum differs slightly from the median of whole steps."
)


@dataclass(frozen=True)
class Tile:
    """A number in large type."""

    value: str
    label: str


@dataclass(frozen=True)
class ChartGroup:
    """Charts that belong together."""

    title: str
    charts: Sequence[Chart]
    note: str = ""


@dataclass(frozen=True)
class Part:
    """The charts and tables of one network or measurement."""

    title: str
    groups: Sequence[ChartGroup] = ()
    tables: Sequence[ReportTable] = ()
    lead: Sequence[ReportTable] = ()
    """Tables that come before the charts."""


@dataclass(frozen=True)
class Details:
    """Names and values that are folded away."""

    title: str
    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Section:
    """One run or study: a summary in words and numbers, then charts and tables."""

    kind: str
    title: str
    summary: Sequence[str]
    tiles: Sequence[Tile]
    parts: Sequence[Part]
    remarks: Sequence[str] = ()
    details: Sequence[Details] = ()
    origin: Sequence[tuple[str, str]] = ()
    """Date, machine and graph, as far as they are known."""

    @property
    def charts(self) -> list[Chart]:
        """Every chart, in order."""
        return [c for part in self.parts for group in part.groups for c in group.charts]


@dataclass(frozen=True, eq=False)
class Supplement:
    """What a study adds to the section of the run or study in whose folder its file is."""

    dataset: str
    model: str
    title: str
    """Title of the part, if the section has none about this data set and network."""
    groups: Sequence[ChartGroup]
    tables: Sequence[ReportTable]
    summary: Sequence[str]


@dataclass
class Names:
    """Unique names for files and ids, in plain letters."""

    taken: set[str] = field(default_factory=set)

    def __call__(self, *words: str) -> str:
        """Join the words; add a number if the name is taken."""
        plain = re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")[:80] or "figure"
        name, number = plain, 2
        while name in self.taken:
            name, number = f"{plain}-{number}", number + 1
        self.taken.add(name)
        return name


@dataclass(frozen=True)
class CurveEntry:
    """One line of a chart: its learning curve and the time of a step."""

    label: str
    index: int
    curve: Curve
    step_ms: dict[str, float] = field(default_factory=dict)


def labels(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Names for (sampler, policy), with the policy if the sampler occurs with several."""
    policies: dict[str, set[str]] = {}
    for sampler, policy in pairs:
        policies.setdefault(sampler, set()).add(policy)
    return [
        f"{sampler} ({policy})" if policy and len(policies[sampler]) > 1 else sampler
        for sampler, policy in pairs
    ]


def learning(
    entries: Sequence[CurveEntry],
    about: str,
    names: Names,
    target: float | None = None,
    score: str = "F1",
) -> ChartGroup | None:
    """Validation score and loss over steps, and the score over time where it is known."""
    title = f"Validation {score}"
    charts = [
        _curves(entries, about, names, title, "val_score", "step", target),
        _curves(entries, about, names, title, "val_score", "seconds", target),
        _curves(entries, about, names, "Training loss", "loss", "step", None),
    ]
    drawn = [chart for chart in charts if chart]
    has_band = any(
        deviation is not None
        for entry in entries
        for deviation in [*entry.curve.val_score_std, *entry.curve.loss_std]
    )
    notes = [BAND] if has_band else []
    notes += [OVER_TIME] if any(entry.curve.seconds for entry in entries) else []
    return ChartGroup("Learning curves", drawn, " ".join(notes)) if drawn else None


def _curves(
    entries: Sequence[CurveEntry],
    about: str,
    names: Names,
    title: str,
    key: str,
    over: str,
    target: float | None,
) -> Chart | None:
    """A column of the curves over steps or seconds."""
    series = drawable(
        Series.of(
            entry.label,
            getattr(entry.curve, over),
            getattr(entry.curve, key),
            getattr(entry.curve, f"{key}_std"),
            index=entry.index,
        )
        for entry in entries
        if getattr(entry.curve, over)
    )
    if not series:
        return None
    axis = "step" if over == "step" else "seconds of training steps"
    name = title if over == "step" else f"{title} over time"
    alt = f"{title} over {axis}, {about}. At the last evaluation: {_last(series, over)}."
    level = None
    if target is not None:
        level = Level(f"target {target:.3g}", target)
        alt += f" The target is {target:.3g}."
    alt += "".join(f" {words}." for words in coinciding(series))
    return Chart(names(about, name), name, alt, curves(series, axis, title, level))


def step_time(entries: Sequence[CurveEntry], about: str, names: Names) -> ChartGroup | None:
    """The time of a step by part."""
    timed = [entry for entry in entries if entry.step_ms]
    if not timed:
        return None
    names_of_parts = dict.fromkeys(p for entry in timed for p in entry.step_ms if p != "total")
    ordered = [*(p for p in PARTS_OF_A_STEP if p in names_of_parts), *names_of_parts]
    parts = {part: [entry.step_ms.get(part, 0.0) for entry in timed] for part in ordered}
    described = [
        f"{entry.label} {significant(sum(times[n] for times in parts.values()))} ms ("
        + ", ".join(f"{part} {significant(times[n])}" for part, times in parts.items())
        + ")"
        for n, entry in enumerate(timed)
    ]
    alt = f"Milliseconds of a training step by part, {about}. {sentence_list(described)}."
    figure = stacks([entry.label for entry in timed], parts, "ms per step")
    chart = Chart(names(about, "time of a step"), "Milliseconds by part", alt, figure)
    return ChartGroup("Time of a step by part", [chart], NOTE_ON_TIME)


def drawable(series: Iterable[Series]) -> list[Series]:
    """The lines that have a point."""
    return [line for line in series if line.is_drawable]


def present(groups: Iterable[ChartGroup | None]) -> list[ChartGroup]:
    """The groups that have a chart."""
    return [group for group in groups if group and group.charts]


def known(tiles: Iterable[Tile]) -> list[Tile]:
    """The tiles that have a number."""
    return [tile for tile in tiles if DASH not in tile.value]


def machine_words(machine: Machine) -> str:
    """'AMD EPYC, 2 cores, 1 thread, torch 2.13.0, Python 3.11.7'."""
    words = [
        machine.processor,
        plural(machine.cores, "core") if machine.cores else "",
        plural(machine.threads, "thread"),
        f"torch {machine.torch}",
        f"Python {machine.python}",
    ]
    return ", ".join(filter(None, words))


def graph_words(graph: GraphFacts | None, name: str) -> str:
    """'ppi: 56,944 nodes, 1,587,264 edges, 50 features, 121 classes'; the name if it is all."""
    if graph is None:
        return name
    counts = [
        plural(graph.nodes, "node"),
        plural(graph.edges, "edge"),
        plural(graph.features, "feature"),
        f"{graph.classes:,} {'class' if graph.classes == 1 else 'classes'}",
    ]
    return f"{name}: {', '.join(counts)}"


def origin(date: str, machine: Machine | None, graph: str) -> list[tuple[str, str]]:
    """The known ones of date, machine and graph."""
    day = date.replace("T", " ").replace("+00:00", " UTC")
    items = {"Date": day, "Machine": machine_words(machine) if machine else "", "Graph": graph}
    return [(name, value) for name, value in items.items() if value]


def facts(items: dict[str, str]) -> list[Details]:
    """Details of how the numbers were measured, without unknown values."""
    known_items = [(name, value) for name, value in items.items() if value]
    return [Details("How this was measured", known_items)] if known_items else []


def _last(series: Sequence[Series], over: str) -> str:
    described = []
    for line in series:
        at = max(n for n, y in enumerate(line.y) if math.isfinite(y))
        deviation = line.deviation[at]
        spread = f" (deviation {significant(deviation, 2)})" if math.isfinite(deviation) else ""
        at_step, at_time = f"step {fixed(line.x[at], 0)}", f"{significant(line.x[at])} s"
        place = at_step if over == "step" else at_time
        described.append(f"{line.label} {line.y[at]:.3f}{spread} at {place}")
    return sentence_list(described)
