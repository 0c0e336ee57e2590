"""Section about variance: each policy's V over that of PLADIES, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence

from bliss.report.cells import (
    ReportTable,
    fixed,
    number,
    rounded,
    sentence_list,
    significant,
    text,
    whole_numbers,
)
from bliss.report.charts import Chart, Series, ratio_chart
from bliss.report.sections import (
    ChartGroup,
    Details,
    Names,
    Part,
    Section,
    Supplement,
    Tile,
    drawable,
    facts,
    graph_words,
    known,
    origin,
    present,
)
from bliss.studies.variance.variance_record import LayerRatios, PolicyRatios, Variance

NOTE = (
    "V is the expected squared error of a layer's sampled sums, here divided by that of PLADIES on "
    "the same nodes, so PLADIES is at 1. The dotted line is the least V with the number of sources "
    "that PLADIES keeps. A policy that keeps a few more sources can be slightly below it; the "
    "table compares each policy with the limit for its own number of sources. A policy with a "
    "history samples changes only; it can be below the limit, which is that without a history."
)
COVERED = "nothing was sampled, because the budget covers every candidate; lower --budgets"


def variance_section(file: Variance, supplements: Sequence[Supplement], names: Names) -> Section:
    """The section about one variance file; it shows no supplements."""
    return Section(
        kind="Variance",
        title=f"{file.model} on {file.dataset}",
        summary=variance_words(file),
        tiles=variance_tiles(file),
        parts=[
            Part(
                "",
                present([variance_group(file, names)]),
                [
                    gradient_table(file),
                    variance_table(file),
                    *([age_table(file)] if file.ages else []),
                ],
            )
        ],
        origin=origin(file.date, file.machine, graph_words(file.graph, file.dataset)),
        details=variance_facts(file),
    )


def variance_supplement(file: Variance, names: Names) -> Supplement:
    """Charts, table and summary for the section of a run or comparison."""
    return Supplement(
        dataset=file.dataset,
        model=file.model,
        title=f"Variance: {file.model} on {file.dataset}",
        groups=present([variance_group(file, names)]),
        tables=[gradient_table(file), variance_table(file)],
        summary=variance_words(file),
    )


def variance_group(file: Variance, names: Names) -> ChartGroup:
    """A chart per layer, input layer first."""
    charts = [_chart(file, layer, names) for layer in range(len(file.layers))]
    return ChartGroup("Variance towards the limit", [chart for chart in charts if chart], NOTE)


def variance_table(file: Variance) -> ReportTable:
    """Ratios by layer and policy."""
    nothing = PolicyRatios(
        over_pladies=None,
        over_limit=None,
        weighted_over_pladies=None,
        weighted_over_limit=None,
    )
    rows: list[tuple[int, LayerRatios, str, PolicyRatios]] = [
        (n, layer, policy, ratios)
        for n, layer in enumerate(file.layers, start=1)
        for policy, ratios in (
            layer.policies if layer.is_sampled else {"nothing sampled": nothing}
        ).items()
    ]
    return ReportTable.of(
        "Variance of each policy",
        rows,
        {
            "Layer": lambda row: number(row[0]),
            "Budget": lambda row: number(row[1].budget),
            "Policy": lambda row: text(row[2]),
            "V over PLADIES": lambda row: rounded(row[3].over_pladies),
            "Limit over PLADIES": lambda row: rounded(row[1].limit_over_pladies),
            "V over limit": lambda row: rounded(row[3].over_limit),
            "Weighted V over PLADIES": lambda row: rounded(row[3].weighted_over_pladies),
            "Weighted limit over PLADIES": lambda row: rounded(row[1].weighted_limit_over_pladies),
            "Weighted V over limit": lambda row: rounded(row[3].weighted_over_limit),
        },
        "Layer 1 is the input layer. Weighted V counts each target by its influence on the loss. "
        "“Limit over PLADIES” is for PLADIES' number of sources, “V over limit” for the policy's "
        "own. Means over the second half of training.",
    )


def gradient_table(file: Variance) -> ReportTable:
    """Error of the gradient by policy."""
    base = file.gradient_error["pladies"].mean
    return ReportTable.of(
        "Error of the gradient",
        list(file.gradient_error.items()),
        {
            "Policy": lambda row: text(row[0]),
            "r": lambda row: rounded(row[1].mean),
            "95% interval": lambda row: text(f"{fixed(row[1].low, 3)} to {fixed(row[1].high, 3)}"),
            "Over PLADIES": lambda row: rounded(_ratio(row[1].mean, base)),
        },
        "r is the expected squared error that sampling adds to a batch's gradient, over the "
        "squared gradient of full neighbourhoods, after the last step. The interval is over draws.",
    )


def age_table(file: Variance) -> ReportTable:
    """V over the limit of surveyed policies, by the age of the survey."""
    rows: list[tuple[int, str, int, float | None]] = [
        (layer + 1, policy, at.age, at.layers[layer].get(policy))
        for layer in range(len(file.layers))
        for policy in file.ages[0].layers[layer]
        for at in file.ages
    ]
    return ReportTable.of(
        "V over limit by age of the survey",
        rows,
        {
            "Layer": lambda row: number(row[0]),
            "Policy": lambda row: text(row[1]),
            "Steps since the survey": lambda row: number(row[2]),
            "V over limit": lambda row: rounded(row[3]),
        },
        f"A survey every {file.survey_every:,} steps. Means over all measurements at this age.",
    )


def variance_words(file: Variance) -> list[str]:
    """V of every policy by layer, against PLADIES and the limit."""
    if not file.layers:
        return ["No layer was measured."]
    words = []
    for n, layer in enumerate(file.layers):
        policies = [
            f"{policy} {significant(ratios.over_pladies)} ({significant(ratios.over_limit)})"
            for policy, ratios in layer.policies.items()
        ]
        if not layer.is_sampled:
            words.append(f"{_place(file, n)}: {COVERED}.")
        elif policies:
            words.append(f"{_place(file, n)}: {sentence_list(policies)}.")
    lead = "Sampling variance as a multiple of that of PLADIES (in brackets: of the limit)."
    return [" ".join([lead, *words])]


def variance_tiles(file: Variance) -> list[Tile]:
    """The policy nearest to the limit in the first layer that is sampled."""
    layer = next((n for n, ratios in enumerate(file.layers) if ratios.is_sampled), None)
    policies = {} if layer is None else file.layers[layer].policies
    near = {name: p.over_limit for name, p in policies.items() if p.over_limit is not None}
    if layer is None or not near:
        return []
    best, place = min(near, key=lambda name: near[name]), _place(file, layer).lower()
    return known(
        [
            Tile(
                significant(policies[best].over_pladies), f"of PLADIES' variance: {best}, {place}"
            ),
            Tile(significant(near[best]), f"times the limit: {best}, {place}"),
        ]
    )


def variance_facts(file: Variance) -> list[Details]:
    """How the variance was measured."""
    return facts(
        {
            "Data set": file.dataset,
            "Network": file.model,
            "Budgets, input layer first": whole_numbers(file.budgets),
            "Batch size": f"{file.batch_size:,}",
            "Steps": f"{file.steps:,}",
            "Steps between surveys": f"{file.survey_every:,}" if file.survey_every else "",
            "Seed": str(file.seed),
        }
    )


def _chart(file: Variance, layer: int, names: Names) -> Chart | None:
    moments = [(moment.step, moment.layers[layer]) for moment in file.history]
    policies = dict.fromkeys(policy for _, at in moments for policy in at.policies)
    steps = [step for step, _ in moments]
    series = drawable(
        Series.of(
            policy,
            steps,
            [_ratio(at.policies.get(policy), at.pladies) for _, at in moments],
            index=n,
        )
        for n, policy in enumerate(policies)
    )
    limit = Series.of("limit", steps, [_ratio(at.limit, at.pladies) for _, at in moments])
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
        f"{sentence_list(last)}; the limit for PLADIES' number of sources ends at "
        f"{significant(limit.y[-1])}."
    )
    figure = ratio_chart(series, limit, "step", "V over that of PLADIES")
    name = names("variance", file.dataset, file.model, f"layer {layer + 1}")
    return Chart(name, place, alt, figure)


def _ratio(part: float | None, whole: float) -> float | None:
    return part / whole if part is not None and whole > 0 else None


def _place(file: Variance, layer: int) -> str:
    last = len(file.layers) - 1
    where = " (input)" if layer == 0 and last else " (output)" if layer == last and last else ""
    return f"Layer {layer + 1}{where}"
