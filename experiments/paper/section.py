"""A reproduction: our numbers beside the published ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean, median

from bliss.report.cells import (
    Cell,
    Number,
    ReportTable,
    fixed,
    number,
    plural,
    plus,
    rounded,
    score_spread,
    sentence_list,
    signed,
    significant,
    text,
)
from bliss.report.charts import Chart, Series
from bliss.report.sections import (
    ChartGroup,
    CurveEntry,
    Names,
    Part,
    Section,
    Tile,
    drawable,
    facts,
    learning,
    machine_words,
    origin,
    present,
)
from experiments.paper.charts import against, growth
from experiments.paper.record import Growth, Pace, PresetCurve, Reproduction, Rerun, Score


def reproduction_section(file: Reproduction, names: Names) -> Section:
    """The section about one reproduction."""
    tables = file.tables
    used = [row.preset for rows in (tables.f1, tables.time, file.figures) for row in rows]
    presets = [preset for preset in dict.fromkeys([*file.presets, *used]) if preset in used]
    datasets = dict.fromkeys(row.dataset for rows in (tables.f1, tables.time) for row in rows)
    parts, words, tiles = [], [], []
    for preset in presets:
        scores = [row for row in tables.f1 if row.preset == preset]
        paces = [row for row in tables.time if row.preset == preset]
        curves = [curve for curve in file.figures if curve.preset == preset]
        parts.append(_part(preset, scores, paces, curves, names))
        words += _words(preset, scores, paces)
        tiles += _tiles(preset, scores, paces)
    if tables.variance:
        parts.append(_growth_part(tables.variance, names))
    return Section(
        kind="Reproduction",
        title="published numbers beside ours",
        summary=words or ["No table could be filled."],
        tiles=tiles,
        parts=parts,
        remarks=[f"{one.dataset} is missing. {one.remedy}".strip() for one in file.missing],
        origin=origin(file.date, file.machine, ", ".join(datasets)),
        details=facts(
            {
                "Command": file.command,
                "Machine": machine_words(file.machine),
                "Date": file.date,
                "Time": f"{fixed(file.seconds, 0)} s",
            }
        ),
    )


def _part(
    preset: str,
    scores: Sequence[Score],
    paces: Sequence[Pace],
    curves: Sequence[PresetCurve],
    names: Names,
) -> Part:
    compared = [
        _against(
            [row for row in scores if (row.model, row.split) == (model, split)],
            f"{split.capitalize()} F1, {model}",
            preset,
            names,
        )
        for model in dict.fromkeys(row.model for row in scores)
        for split in dict.fromkeys(row.split for row in scores)
    ]
    timed = [row for row in paces if row.ours > 0 and row.published > 0]  # on logarithmic axes
    paced = _against(timed, "Seconds per iteration", preset, names, is_log=True)
    groups = [
        ChartGroup(
            "Ours against published",
            [chart for chart in compared if chart],
            "Above the diagonal, ours is higher.",
        ),
        ChartGroup(
            "Time of an iteration",
            [paced] if paced else [],
            "Below the diagonal, ours is faster; the machines differ.",
        ),
        *_curves(curves, preset, names),
    ]
    tables = [_score_table(scores), _pace_table(paces)]
    return Part(f"Preset {preset}", present(groups), [table for table in tables if table.rows])


def _against(
    rows: Sequence[Rerun], title: str, preset: str, names: Names, is_log: bool = False
) -> Chart | None:
    series = []
    for n, sampler in enumerate(dict.fromkeys(row.sampler for row in rows)):
        own = [row for row in rows if row.sampler == sampler]
        series.append(
            Series.of(
                sampler,
                [row.published for row in own],
                [row.ours for row in own],
                [row.ours_std for row in own],
                [row.published_std for row in own],
                index=n,
            )
        )
    series = drawable(series)
    if not series:
        return None
    told = [
        f"{line.label} "
        + sentence_list(
            [
                f"{significant(row.ours)} for {significant(row.published)}"
                for row in rows
                if row.sampler == line.label
            ]
        )
        for line in series
    ]
    alt = f"{title}, preset {preset}: ours against published. {'; '.join(told)}."
    figure = against(series, "published", "ours", is_log)
    return Chart(names("reproduction", preset, title), title, alt, figure)


def _curves(curves: Sequence[PresetCurve], preset: str, names: Names) -> list[ChartGroup]:
    groups = []
    for dataset, model in dict.fromkeys((curve.dataset, curve.model) for curve in curves):
        own = [curve for curve in curves if (curve.dataset, curve.model) == (dataset, model)]
        entries = [CurveEntry(curve.sampler, n, curve) for n, curve in enumerate(own)]
        group = learning(entries, f"{model} on {dataset}, preset {preset}", names)
        if group:
            groups.append(
                ChartGroup(f"Learning curves: {model} on {dataset}", group.charts, group.note)
            )
    return groups


WHO: dict[str, Callable[[Rerun], Cell]] = {
    "Data set": lambda row: text(row.dataset),
    "Network": lambda row: text(row.model),
    "Sampler": lambda row: text(row.sampler),
}


def _score_table(rows: Sequence[Score]) -> ReportTable:
    return ReportTable.of(
        "F1",
        rows,
        {
            **WHO,
            "Nodes": lambda row: text(row.split),
            "Ours": lambda row: score_spread(row.ours, row.ours_std),
            "Published": lambda row: score_spread(row.published, row.published_std),
            "Difference": lambda row: signed(row.difference),
            "Seeds": lambda row: number(row.seeds),
        },
        "Micro-F1, means over seeds ± one standard deviation. Difference is ours minus published.",
    )


def _pace_table(rows: Sequence[Pace]) -> ReportTable:
    return ReportTable.of(
        "Time",
        rows,
        {
            **WHO,
            "Ours, s": lambda row: rounded_spread(row.ours, row.ours_std),
            "Published, s": lambda row: rounded_spread(row.published, row.published_std),
            "Ratio": lambda row: rounded(row.ratio),
        },
        "Seconds per iteration. The machines differ, so compare samplers within a column.",
    )


def rounded_spread(value: Number, deviation: Number) -> Cell:
    """A mean with its deviation over seeds, a dash for one seed."""
    return Cell(f"{significant(value)} ± {significant(deviation, 2)}", value)


def _growth_part(rows: Sequence[Growth], names: Names) -> Part:
    charts = []
    for quantity, factor in dict.fromkeys((row.quantity, row.grows_with) for row in rows):
        own = [row for row in rows if (row.quantity, row.grows_with) == (quantity, factor)]
        series = drawable(
            Series.of(
                f"{row.sampler}, slope {fixed(row.exponent, 2)}",
                [x for x, y in row.points if x > 0 and y > 0],
                [y for x, y in row.points if x > 0 and y > 0],
                index=n,
            )
            for n, row in enumerate(own)
        )
        if not series:
            continue
        told = [
            f"{row.sampler} has exponent {fixed(row.exponent, 2)}, stated {_stated(row).text}"
            for row in own
        ]
        title = f"{quantity.capitalize()} over {factor}"
        alt = f"{title}, both axes logarithmic. {'; '.join(told)}."
        charts.append(Chart(names("growth", title), title, alt, growth(series, factor, quantity)))
    table = ReportTable.of(
        "Growth",
        rows,
        {
            "Quantity": lambda row: text(row.quantity),
            "Grows with": lambda row: text(row.grows_with),
            "Sampler": lambda row: text(row.sampler),
            "Exponent": lambda row: number(row.exponent, 2),
            "Stated": _stated,
            "Points": lambda row: number(len(row.points)),
        },
        "Exponents are slopes on logarithmic axes.",
    )
    note = "On logarithmic axes a power law is a straight line, and its slope is the exponent."
    return Part("Growth of cost and variance", present([ChartGroup("", charts, note)]), [table])


def _stated(row: Growth) -> Cell:
    return text(row.stated) if isinstance(row.stated, str) else number(row.stated, 2)


def _words(preset: str, scores: Sequence[Score], paces: Sequence[Pace]) -> list[str]:
    words = []
    if scores:
        low, high = (pick(scores, key=lambda row: row.difference) for pick in (min, max))
        count = plural(len(scores), "published F1 score")
        words.append(
            f"Preset {preset}, {count}: ours minus published is {plus(_gap(scores), 3)} on "
            f"average, from {plus(low.difference, 3)} ({_where(low)}) to "
            f"{plus(high.difference, 3)} ({_where(high)})."
        )
    if paces:
        words.append(
            f"Preset {preset}: an iteration takes {significant(_pace(paces))} times the published "
            f"seconds (median of {len(paces)}; the machines differ)."
        )
    return words


def _tiles(preset: str, scores: Sequence[Score], paces: Sequence[Pace]) -> list[Tile]:
    tiles = []
    if scores:
        tiles.append(
            Tile(plus(_gap(scores), 3), f"mean difference to published F1, preset {preset}")
        )
    if paces:
        tiles.append(Tile(f"{significant(_pace(paces))}\u00d7", f"published time, preset {preset}"))
    return tiles


def _gap(scores: Sequence[Score]) -> float:
    return mean(row.difference for row in scores)


def _pace(paces: Sequence[Pace]) -> float:
    return median(row.ratio for row in paces)


def _where(row: Score) -> str:
    return f"{row.dataset}, {row.model}, {row.sampler}"
