"""Variance towards the limit: each policy's V over PLADIES', layer by layer."""

from __future__ import annotations

import math

from bliss.report.charts import Chart, Series, ratios
from bliss.report.load import Variance
from bliss.report.records import VarianceFile
from bliss.report.sections import Details, Group, Names, Part, Section, Tile, facts
from bliss.report.tables import (
    DASH,
    Table,
    fixed,
    number,
    rounded,
    sentence_list,
    significant,
    text,
    whole_numbers,
)

NOTE = (
    "V is the expected squared error of a layer's sampled sums, divided here by that of PLADIES on "
    "the same nodes: 1 is no better than PLADIES, and no policy with the same budget can go below "
    "the limit."
)


def variance_section(source: Variance, names: Names) -> Section:
    """A page's section about one variance file."""
    file = source.file
    return Section(
        kind="Variance",
        title=f"{file.model} on {file.dataset}",
        summary=variance_words(file),
        tiles=variance_tiles(file),
        parts=[Part("", [variance_group(file, names)], [variance_table(file)])],
        details=variance_facts(file),
    )


def variance_group(file: VarianceFile, names: Names) -> Group:
    """A chart per layer, input first."""
    charts = []
    for layer in range(len(file.layers)):
        chart = _chart(file, layer, names)
        if chart:
            charts.append(chart)
    return Group("Variance towards the limit", charts, NOTE)


def variance_table(file: VarianceFile) -> Table:
    """Ratios over all steps measured."""
    rows = [
        [
            number(n + 1),
            number(layer.budget),
            text(policy),
            rounded(found.over_pladies),
            rounded(layer.limit_over_pladies),
            rounded(found.over_limit),
            rounded(found.relative_over_pladies),
            rounded(layer.relative_limit_over_pladies),
            rounded(found.relative_over_limit),
        ]
        for n, layer in enumerate(file.layers)
        for policy, found in layer.policies.items()
    ]
    columns = (
        "Layer",
        "Budget",
        "Policy",
        "V over PLADIES",
        "Limit over PLADIES",
        "V over limit",
        "Relative V over PLADIES",
        "Relative limit over PLADIES",
        "Relative V over limit",
    )
    note = "Layer 1 is the input layer. Relative V divides each target's error by its size."
    return Table("Variance of each policy", columns, rows, note).without_empty()


def variance_words(file: VarianceFile) -> list[str]:
    """The input layer in a sentence, the others in a second."""
    if not file.layers:
        return ["No layer was measured."]
    words = []
    for n, layer in enumerate(file.layers):
        told = [
            f"{policy} {significant(found.over_pladies)}"
            for policy, found in layer.policies.items()
            if math.isfinite(found.over_pladies)
        ]
        limit = f"; the limit is {significant(layer.limit_over_pladies)}"
        known = math.isfinite(layer.limit_over_pladies)
        if told:
            words.append(f"{_place(file, n)}: {sentence_list(told)}{limit if known else ''}.")
    return ["Sampling variance as a share of PLADIES'. " + " ".join(words)]


def variance_tiles(file: VarianceFile) -> list[Tile]:
    """The best policy of the input layer."""
    layer = file.layers[0] if file.layers else None
    known = {
        policy: found
        for policy, found in (layer.policies if layer else {}).items()
        if math.isfinite(found.over_pladies)
    }
    if layer is None or not known:
        return []
    best = min(known, key=lambda policy: known[policy].over_pladies)
    tiles = [
        Tile(significant(known[best].over_pladies), f"of PLADIES' variance: {best}, input layer"),
        Tile(significant(layer.limit_over_pladies), "of PLADIES' variance: the limit, input layer"),
        Tile(significant(known[best].over_limit), f"times the limit: {best}, input layer"),
    ]
    return [tile for tile in tiles if tile.value != DASH]


def variance_facts(file: VarianceFile) -> list[Details]:
    """How it was measured."""
    return facts(
        {
            "Data set": file.dataset,
            "Network": file.model,
            "Budgets, input layer first": whole_numbers(file.budgets),
            "Batch size": significant(file.batch_size, 8),
            "Steps": significant(file.steps, 8),
            "Seed": str(file.seed),
        }
    )


def _chart(file: VarianceFile, layer: int, names: Names) -> Chart | None:
    moments = [(moment.step, moment.layers[layer]) for moment in file.history]
    policies = dict.fromkeys(policy for _, at in moments for policy in at.policies)
    steps = [step for step, _ in moments]
    series = [
        Series(
            policy,
            steps,
            [_ratio(at.policies.get(policy, math.nan), at.pladies) for _, at in moments],
            index=n,
        )
        for n, policy in enumerate(policies)
    ]
    series = [line for line in series if line.is_drawable]
    limit = Series("limit", steps, [_ratio(at.limit, at.pladies) for _, at in moments])
    if not series:
        return None
    last = [
        f"{line.label} goes from {significant(line.y[0])} to {significant(line.y[-1])}"
        for line in series
    ]
    place = _place(file, layer)
    alt = (
        f"{place}: variance over that of PLADIES, steps {fixed(steps[0], 0)} to "
        f"{fixed(steps[-1], 0)}, {file.model} on {file.dataset}. "
        f"{sentence_list(last)}; the limit ends at {significant(limit.y[-1])}."
    )
    figure = ratios(series, limit, "step", "V over PLADIES'")
    name = names("variance", file.dataset, file.model, f"layer {layer + 1}")
    return Chart(name, place, alt, figure)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _place(file: VarianceFile, layer: int) -> str:
    last = len(file.layers) - 1
    where = " (input)" if layer == 0 and last else " (output)" if layer == last and last else ""
    return f"Layer {layer + 1}{where}"
