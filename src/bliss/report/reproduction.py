"""A reproduction: our numbers beside the published ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean, median

from bliss.report.charts import Chart, Series, against, growth
from bliss.report.load import Reproduction
from bliss.report.records import Growth, Pace, PresetCurve, ReproductionFile, Score
from bliss.report.sections import (
    Entry,
    Group,
    Names,
    Part,
    Section,
    Tile,
    facts,
    learning,
    machine_words,
    plural,
)
from bliss.report.tables import (
    Cell,
    Table,
    f1,
    fixed,
    number,
    plus,
    rounded,
    sentence_list,
    signed,
    significant,
    text,
)


def reproduction_section(source: Reproduction, names: Names) -> Section:
    """A page's section about one reproduction."""
    file = source.file
    presets = _presets(file)
    parts = [_part(preset, file, names) for preset in presets]
    if file.tables.variance:
        parts.append(_growth_part(file.tables.variance, names))
    return Section(
        kind="Reproduction",
        title="published numbers beside ours",
        summary=[words for preset in presets for words in _words(preset, file)]
        or ["No table could be filled."],
        tiles=[tile for preset in presets for tile in _tiles(preset, file)],
        parts=parts,
        remarks=[f"{lack.dataset} is missing. {lack.remedy}".strip() for lack in file.missing],
        details=facts(
            {
                "Command": file.command,
                "Machine": machine_words(file.machine),
                "Date": file.date,
                "Time": f"{fixed(file.seconds, 0)} s" if math.isfinite(file.seconds) else "",
            }
        ),
    )


def _part(preset: str, file: ReproductionFile, names: Names) -> Part:
    scores = [row for row in file.tables.f1 if row.preset == preset]
    paces = [row for row in file.tables.time if row.preset == preset]
    curves = [curve for curve in file.figures if curve.preset == preset]
    compared = [
        chart
        for model in dict.fromkeys(row.model for row in scores)
        for split in dict.fromkeys(row.split for row in scores)
        if (
            chart := _against(
                [row for row in scores if (row.model, row.split) == (model, split)],
                f"{split.capitalize()} F1, {model}",
                preset,
                names,
            )
        )
    ]
    paced = _against(paces, "Seconds an iteration", preset, names)
    groups = [
        Group("Ours against published", compared, "Above the diagonal, ours is higher."),
        Group(
            "Time of an iteration",
            [paced] if paced else [],
            "Below the diagonal, ours is faster; the machines differ.",
        ),
        *_curves(curves, preset, names),
    ]
    tables = ([_score_table(scores)] if scores else []) + ([_pace_table(paces)] if paces else [])
    return Part(f"Preset {preset}", [group for group in groups if group.charts], tables)


def _against(
    rows: Sequence[Score] | Sequence[Pace], title: str, preset: str, names: Names
) -> Chart | None:
    is_time = any(isinstance(row, Pace) for row in rows)
    series = []
    for n, sampler in enumerate(dict.fromkeys(row.sampler for row in rows)):
        own = [row for row in rows if row.sampler == sampler]
        if is_time:
            own = [row for row in own if row.ours > 0 and row.published > 0]
        series.append(
            Series(
                sampler,
                [row.published for row in own],
                [row.ours for row in own],
                [row.ours_std for row in own],
                [row.published_std for row in own],
                index=n,
            )
        )
    series = [line for line in series if line.is_drawable]
    if not series:
        return None
    told = [f"{line.label} {_pairs(line)}" for line in series]
    alt = f"{title}, preset {preset}: ours against published. {'; '.join(told)}."
    figure = against(series, "published", "ours", is_time)
    return Chart(names("reproduction", preset, title), title, alt, figure)


def _pairs(line: Series) -> str:
    known = [
        (x, y) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(x) and math.isfinite(y)
    ]
    return sentence_list([f"{significant(y)} for {significant(x)}" for x, y in known])


def _curves(curves: Sequence[PresetCurve], preset: str, names: Names) -> list[Group]:
    groups = []
    for dataset, model in dict.fromkeys((curve.dataset, curve.model) for curve in curves):
        own = [curve for curve in curves if (curve.dataset, curve.model) == (dataset, model)]
        entries = [Entry(curve.sampler, n, curve) for n, curve in enumerate(own)]
        about = f"{model} on {dataset}, preset {preset}"
        group = learning(entries, about, names, math.nan)
        if group:
            groups.append(Group(f"Learning curves: {model} on {dataset}", group.charts, group.note))
    return groups


def _score_table(rows: Sequence[Score]) -> Table:
    cells = [
        [
            text(row.dataset),
            text(row.model),
            text(row.sampler),
            text(row.split),
            f1(row.ours, row.ours_std),
            f1(row.published, row.published_std),
            signed(row.difference),
            number(row.seeds),
        ]
        for row in rows
    ]
    columns = (
        "Data set", "Network", "Sampler", "Nodes", "Ours", "Published", "Difference", "Seeds",
    )  # fmt: skip
    note = (
        "Micro-F1, means over seeds ± one standard deviation. Difference is ours minus published."
    )
    return Table("F1", columns, cells, note)


def _pace_table(rows: Sequence[Pace]) -> Table:
    cells = [
        [
            text(row.dataset),
            text(row.model),
            text(row.sampler),
            rounded(row.ours, row.ours_std),
            rounded(row.published, row.published_std),
            rounded(row.ratio),
        ]
        for row in rows
    ]
    columns = ("Data set", "Network", "Sampler", "Ours, s", "Published, s", "Ratio")
    note = "Seconds an iteration. The machines differ, so compare samplers within a column."
    return Table("Time", columns, cells, note)


def _growth_part(rows: Sequence[Growth], names: Names) -> Part:
    charts = []
    for quantity, factor in dict.fromkeys((row.quantity, row.grows_with) for row in rows):
        own = [row for row in rows if (row.quantity, row.grows_with) == (quantity, factor)]
        series = [
            Series(
                f"{row.sampler}, slope {fixed(row.exponent, 2)}",
                [x for x, y in row.points if x > 0 and y > 0],
                [y for x, y in row.points if x > 0 and y > 0],
                index=n,
            )
            for n, row in enumerate(own)
        ]
        series = [line for line in series if line.is_drawable]
        if not series:
            continue
        told = [
            f"{row.sampler} has exponent {fixed(row.exponent, 2)}, stated {_stated(row).text}"
            for row in own
        ]
        title = f"{quantity.capitalize()} over {factor}"
        alt = f"{title}, both axes logarithmic. {'; '.join(told)}."
        charts.append(Chart(names("growth", title), title, alt, growth(series, factor, quantity)))
    cells = [
        [
            text(row.quantity),
            text(row.grows_with),
            text(row.sampler),
            number(row.exponent, 2),
            _stated(row),
            number(len(row.points)),
        ]
        for row in rows
    ]
    columns = ("Quantity", "Grows with", "Sampler", "Exponent", "Stated", "Points")
    table = Table("Growth", columns, cells, "Exponents are slopes on logarithmic axes.")
    note = "On logarithmic axes a power law is a straight line, and its slope the exponent."
    return Part("How cost and variance grow", [Group("", charts, note)] if charts else [], [table])


def _stated(row: Growth) -> Cell:
    return text(row.stated) if isinstance(row.stated, str) else number(row.stated, 2)


def _words(preset: str, file: ReproductionFile) -> list[str]:
    known = [row for row in file.tables.f1 if row.preset == preset]
    known = [row for row in known if math.isfinite(row.difference)]
    words = []
    if known:
        low, high = (pick(known, key=lambda row: row.difference) for pick in (min, max))
        count = plural(len(known), "published F1 score")
        words.append(
            f"Preset {preset}, {count}: ours minus published is {plus(mean(_gaps(known)), 3)} on "
            f"average, from {plus(low.difference, 3)} ({_where(low)}) to "
            f"{plus(high.difference, 3)} ({_where(high)})."
        )
    paces = [row.ratio for row in file.tables.time if row.preset == preset]
    paces = [ratio for ratio in paces if math.isfinite(ratio)]
    if paces:
        words.append(
            f"Preset {preset}: an iteration takes {significant(median(paces))} times the published "
            f"seconds (median of {len(paces)}; the machines differ)."
        )
    return words


def _tiles(preset: str, file: ReproductionFile) -> list[Tile]:
    gaps = _gaps([row for row in file.tables.f1 if row.preset == preset])
    paces = [row.ratio for row in file.tables.time if row.preset == preset]
    paces = [ratio for ratio in paces if math.isfinite(ratio)]
    tiles = []
    if gaps:
        tiles.append(Tile(plus(mean(gaps), 3), f"mean difference to published F1, preset {preset}"))
    if paces:
        tiles.append(
            Tile(f"{significant(median(paces))}\u00d7", f"published time, preset {preset}")
        )
    return tiles


def _gaps(rows: Sequence[Score]) -> list[float]:
    return [row.difference for row in rows if math.isfinite(row.difference)]


def _where(row: Score) -> str:
    return f"{row.dataset}, {row.model}, {row.sampler}"


def _presets(file: ReproductionFile) -> list[str]:
    found = [row.preset for row in file.tables.f1]
    found += [row.preset for row in file.tables.time]
    found += [curve.preset for curve in file.figures]
    return [preset for preset in dict.fromkeys([*file.presets, *found]) if preset in found]
