"""Records of this experiment, and its page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

import msgspec

from bliss.storage import records
from bliss.studies.provenance import Machine

HERE = Path(__file__).parent
PATH = HERE / "results.json"
ORDER = ("bliss", "pladies", "neighbor", "full")


class Time(records.Record, frozen=True, kw_only=True):
    """Median milliseconds of a step, alone on a machine."""

    graph: str
    model: str
    sampler: str
    budgets: list[int]
    step_ms: float


class Choice(records.Record, frozen=True, kw_only=True):
    """Settings that were best by validation, and their score; 0 if they were set beforehand."""

    graph: str
    model: str
    sampler: str
    budgets: list[int]
    lr: float
    step_ms: float
    val_score: float


class Cell(records.Record, frozen=True, kw_only=True):
    """Test scores of a run at its best step by validation."""

    graph: str
    model: str
    sampler: str
    budgets: list[int]
    lr: float
    seed: int
    steps: int
    val_score: float
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


class Results(records.Record, frozen=True, kw_only=True):
    """Everything that was measured."""

    machine: Machine
    times: list[Time] = msgspec.field(default_factory=list)
    choices: list[Choice] = msgspec.field(default_factory=list)
    runs: list[Cell] = msgspec.field(default_factory=list)
    divisions: list[Division] = msgspec.field(default_factory=list)


def read() -> Results | None:
    """The stored results; None at first."""
    return stored() if PATH.exists() else None


def stored() -> Results:
    """The stored results."""
    return records.read(PATH, Results, "run it again")


def page(found: Results) -> str:
    """Text of README.md: the notes, and tables of the results."""
    notes = (HERE / "notes.md").read_text(encoding="utf-8").rstrip()
    sections = [notes, *_divisions(found), *_scores(found)]
    return "\n\n".join(sections) + "\n"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _spread(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.3f}"
    return f"{mean(values):.3f} ± {stdev(values):.3f}"


def _scores(found: Results) -> list[str]:
    """A table for every graph and network; nothing without runs."""
    if not found.runs:
        return []
    heads = ["sampler", "budgets", "lr", "ms a step", "steps", "edges a step"]
    heads += ["seeds", "accuracy", "macro-F1"]
    parts = ["## Accuracy at equal seconds"]
    pairs = dict.fromkeys((one.graph, one.model) for one in found.runs)
    for graph, model in pairs:
        rows = []
        for sampler in ORDER:
            own = [
                c for c in found.runs if (c.graph, c.model, c.sampler) == (graph, model, sampler)
            ]
            known = {(c.graph, c.model, c.sampler): c for c in found.choices}
            if not own:
                continue
            rows.append(
                [
                    sampler,
                    ", ".join(map(str, own[0].budgets)) or "all",
                    f"{own[0].lr:g}",
                    f"{known[graph, model, sampler].step_ms:.1f}",
                    f"{own[0].steps:,}",
                    f"{mean(c.edges for c in own):,.0f}",
                    str(len(own)),
                    _spread([c.accuracy for c in own]),
                    _spread([c.macro_f1 for c in own]),
                ]
            )
        parts += [f"{graph}, {model}:", _table(heads, rows)]
    return parts


COLUMNS = {
    "static": "PLADIES",
    "split by hand": "best split by hand",
    "norm": "\\|h_j\\|",
    "relation": "\\|h_j\\| times a factor per relation",
    "message": "\\|W_r h_j\\|",
}


def _divisions(found: Results) -> list[str]:
    """Tables of errors in closed form, and of the gradient."""
    if not found.divisions:
        return []
    heads = ["graph", "layer", "budget of candidates", "PLADIES' shares", "shares by hand"]
    rows = [
        [
            one.graph,
            str(one.layer),
            f"{one.budget} of {one.candidates:,}",
            _shares(one.shares),
            _shares(one.hand_shares),
            *(f"{one.ratios[name]:.3f}" for name in COLUMNS),
        ]
        for one in found.divisions
    ]
    gradient = [
        [
            one.graph,
            *(f"{m:.3g} ({low:.2g} to {high:.2g})" for m, low, high in _ordered(one.gradient)),
        ]
        for one in found.divisions
        if one.gradient
    ]
    return [
        "## One budget, or a split by hand",
        "V of the messages, divided by that of PLADIES with one budget:",
        _table([*heads, *COLUMNS.values()], rows),
        "r of the gradient with these masses in both layers, with a 95% interval over draws:",
        _table(["graph", *COLUMNS.values()], gradient),
    ]


def _ordered(gradient: dict[str, list[float]]) -> list[list[float]]:
    return [gradient[name] for name in COLUMNS]


def _shares(shares: dict[str, float]) -> str:
    return ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
