"""A comparison: samplers side by side, on the same seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bliss.report.charts import Chart, Series, shrinking
from bliss.report.load import Comparison, Variance
from bliss.report.records import Row
from bliss.report.sections import (
    Entry,
    Group,
    Names,
    Part,
    Section,
    Tile,
    facts,
    labels,
    learning,
    machine_words,
    plural,
    present,
    step_time,
)
from bliss.report.tables import (
    DASH,
    Cell,
    Table,
    chance,
    f1,
    fixed,
    number,
    plus,
    probability,
    rounded,
    sentence_list,
    share,
    signed,
    significant,
    text,
    whole_numbers,
)
from bliss.report.variance import variance_group, variance_table, variance_words

LIKELY = 0.05  # p-values from here on are told as possible chance


def comparison_section(source: Comparison, beside: Sequence[Variance], names: Names) -> Section:
    """A page's section about one comparison, with the variance measured beside it."""
    file = source.file
    pairs = list(dict.fromkeys((row.sampler, row.policy) for row in file.rows))
    look = dict(zip(pairs, enumerate(labels(pairs)), strict=True))
    nets = list(dict.fromkeys((row.dataset, row.model) for row in file.rows))
    by_net = {net: [row for row in file.rows if (row.dataset, row.model) == net] for net in nets}
    models = list(dict.fromkeys(model for _, model in nets))
    parts, summary, tiles = [], [], []
    left = list(beside)
    for (dataset, model), rows in by_net.items():
        fitting = [v for v in left if (v.file.dataset, v.file.model) == (dataset, model)]
        left = [v for v in left if v not in fitting]
        about = f"{model} on {dataset}"
        parts.append(_part(about, rows, look, file.target_f1, fitting, names))
        whole = [row for row in rows if row.budget_share == 1]
        summary.append(_words(about, whole, look, file.target_f1))
        tiles += _tiles(model, whole, look, alone=len(nets) == 1)
    for other in left:
        group = variance_group(other.file, names)
        title = f"Variance: {other.file.model} on {other.file.dataset}"
        parts.append(Part(title, [group], [variance_table(other.file)]))
    summary += [line for other in beside for line in variance_words(other.file)]
    return Section(
        kind="Comparison",
        title=" on ".join(filter(None, [sentence_list(models), file.dataset])),
        summary=summary or ["The comparison has no rows."],
        tiles=tiles,
        parts=parts,
        details=facts(
            {
                "Command": file.command,
                "Machine": machine_words(file.machine),
                "Date": file.date,
                "Seeds": ", ".join(map(str, file.seeds)),
                "Target": f"validation F1 of {fixed(file.target_f1, 3)}",
            }
        ),
    )


Look = dict[tuple[str, str], tuple[int, str]]  # (sampler, policy) -> place among all, label


def _part(
    about: str,
    rows: Sequence[Row],
    look: Look,
    target: float,
    beside: Sequence[Variance],
    names: Names,
) -> Part:
    whole = [row for row in rows if row.budget_share == 1]
    entries = [
        Entry(_label(row, look), look[row.sampler, row.policy][0], row.curve, row.step_ms)
        for row in whole
    ]
    groups = [
        learning(entries, about, names, target),
        *(variance_group(other.file, names) for other in beside),
        _shrinking(rows, look, about, names),
        step_time(entries, about, names),
    ]
    tables = [_scores(whole, look), _costs(whole, target), _step(whole)] if whole else []
    if len(whole) < len(rows):
        tables.append(_shares(rows))
    tables += [variance_table(other.file) for other in beside]
    return Part(about, present(groups), tables)


def _shrinking(rows: Sequence[Row], look: Look, about: str, names: Names) -> Group | None:
    if all(row.budget_share == 1 for row in rows):
        return None
    series, told = [], []
    for pair, (index, label) in look.items():
        own = [row for row in rows if (row.sampler, row.policy) == pair and row.budget_share > 0]
        own.sort(key=lambda row: -row.budget_share)
        series.append(
            Series(
                label,
                [row.budget_share for row in own],
                [row.test_f1 for row in own],
                [row.test_f1_std for row in own],
                index=index,
            )
        )
        if series[-1].is_drawable:
            scores = [f"{fixed(row.test_f1, 3)} at {row.budget_share:g}" for row in own]
            told.append(f"{label} {sentence_list(scores)}")
    series = [line for line in series if line.is_drawable]
    if not series:
        return None
    alt = f"Test F1 over the share of the budget kept, {about}. {'; '.join(told)}."
    figure = shrinking(series, "share of the budget (smaller to the right)", "Test F1")
    chart = Chart(
        names(about, "shrinking budget"), "Test F1 over the share of the budget", alt, figure
    )
    note = "Every layer's budget is multiplied by the share. Bars are one standard deviation."
    return Group("F1 as the budget shrinks", [chart], note)


def _scores(rows: Sequence[Row], look: Look) -> Table:
    columns = (
        "Sampler", "Policy", "Test F1", "Difference", "p", "Validation F1", "Training F1", "Seeds",
        "Budgets",
    )  # fmt: skip
    cells = [
        [
            *_who(row),
            f1(row.test_f1, row.test_f1_std),
            signed(row.difference),
            chance(row.p_value),
            f1(row.val_f1, row.val_f1_std),
            f1(row.train_f1),
            number(row.seeds),
            text(whole_numbers(row.budgets)),
        ]
        for row in rows
    ]
    first = _label(rows[0], look)
    note = (
        f"Micro-F1, means over seeds ± one standard deviation. Difference is test F1 minus that of "
        f"{first} with the same seed, and p its paired test. Budgets are input layer first."
    )
    return Table("Scores", columns, cells, note)


def _costs(rows: Sequence[Row], target: float) -> Table:
    columns = (
        "Sampler", "Policy", "Step, ms", "Nodes a step", "Edges a step", "Peak, MB", "Training, s",
        "To target, s", "Seeds at target",
    )  # fmt: skip
    cells = [
        [
            *_who(row),
            rounded(row.step_ms.get("total", math.nan)),
            number(row.nodes),
            number(row.edges),
            number(row.peak_mb),
            rounded(row.seconds),
            rounded(row.seconds_to_target),
            number(row.reached),
        ]
        for row in rows
    ]
    note = "Nodes are those of the input layer, edges those of all layers: means over steps."
    if math.isfinite(target):
        note += f" The target is a validation F1 of {target:.3g}, timed over seeds that reach it."
    return Table("Cost", columns, cells, note).without_empty()


def _step(rows: Sequence[Row]) -> Table:
    parts = list(dict.fromkeys(part for row in rows for part in row.step_ms))
    cells = [
        [*_who(row), *(rounded(row.step_ms.get(part, math.nan)) for part in parts)] for row in rows
    ]
    columns = ("Sampler", "Policy", *(part.capitalize() for part in parts))
    return Table("Time of a step, in milliseconds", columns, cells, "Medians over steps.")


def _shares(rows: Sequence[Row]) -> Table:
    cells = [
        [
            *_who(row),
            share(row.budget_share),
            f1(row.test_f1, row.test_f1_std),
            signed(row.difference),
            chance(row.p_value),
            number(row.nodes),
            rounded(row.step_ms.get("total", math.nan)),
            text(whole_numbers(row.budgets)),
        ]
        for row in rows
    ]
    columns = (
        "Sampler", "Policy", "Share", "Test F1", "Difference", "p", "Nodes a step", "Step, ms",
        "Budgets",
    )  # fmt: skip
    return Table("As the budget shrinks", columns, cells).without_empty()


def _words(about: str, rows: Sequence[Row], look: Look, target: float) -> str:
    scored = [row for row in rows if math.isfinite(row.test_f1)]
    if not scored:
        return f"{about}: no test score at the full budget."
    best, first = max(scored, key=lambda row: row.test_f1), rows[0]
    name, yardstick = _label(best, look), _label(first, look)
    over = f" over {plural(best.seeds, 'seed')}" if math.isfinite(best.seeds) else ""
    words = f"{about}: {name} has the highest mean test F1, {_mean(best)}{over}"
    if best is not first and math.isfinite(best.difference):
        words += f", {plus(best.difference, 3)} against {yardstick}"
        if math.isfinite(best.p_value):
            sign = "" if best.p_value < 0.001 else "= "
            words += f" (p {sign}{probability(best.p_value)}"
            words += ", which may be chance)" if best.p_value >= LIKELY else ")"
    others = [f"{_label(row, look)} {_mean(row)}" for row in scored if row is not best]
    words += f". The others: {sentence_list(others)}." if others else "."
    reached = [row for row in rows if math.isfinite(row.seconds_to_target)]
    if reached and math.isfinite(target):
        fast = min(reached, key=lambda row: row.seconds_to_target)
        words += (
            f" {_label(fast, look)} reaches a validation F1 of {target:.3g} soonest, after "
            f"{significant(fast.seconds_to_target)} s on average"
        )
        known = math.isfinite(fast.reached) and math.isfinite(fast.seeds)
        words += f" ({fast.reached:.0f} of {plural(fast.seeds, 'seed')})." if known else "."
    return words


def _tiles(model: str, rows: Sequence[Row], look: Look, alone: bool) -> list[Tile]:
    scored = [row for row in rows if math.isfinite(row.test_f1)]
    if not scored:
        return []
    best = max(scored, key=lambda row: row.test_f1)
    name = _label(best, look)
    tiles = [Tile(fixed(best.test_f1, 3), f"test F1: {name}, {model}")]
    if best is not rows[0]:
        tiles.append(Tile(plus(best.difference, 3), f"against {_label(rows[0], look)}, {model}"))
    if alone:
        total = best.step_ms.get("total", math.nan)
        tiles.append(Tile(f"{significant(total)} ms", f"a step: {name}"))
        tiles.append(Tile(significant(best.nodes, 4), f"nodes a step: {name}"))
    return [tile for tile in tiles if not tile.value.startswith(DASH)]


def _who(row: Row) -> list[Cell]:
    return [text(row.sampler), text(row.policy)]


def _label(row: Row, look: Look) -> str:
    return look[row.sampler, row.policy][1]


def _mean(row: Row) -> str:
    spread = f" ± {row.test_f1_std:.3f}" if math.isfinite(row.test_f1_std) else ""
    return f"{row.test_f1:.3f}{spread}"
