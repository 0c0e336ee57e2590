"""Section about a comparison of samplers on the same seeds, with paired tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bliss.report.cells import fixed, plural, plus, sentence_list, significant
from bliss.report.charts import Chart, Series, shrinking
from bliss.report.comparison_tables import (
    INTERVAL,
    conditions,
    costs,
    scores,
    shares,
    step_parts,
)
from bliss.report.sections import (
    ChartGroup,
    CurveEntry,
    Names,
    Part,
    Section,
    Supplement,
    Tile,
    facts,
    graph_words,
    known,
    labels,
    learning,
    machine_words,
    origin,
    present,
    step_time,
)
from bliss.report.significance import corrected, equals, standing, verdict
from bliss.studies.comparison.comparison_record import Comparison, ComparisonRow
from bliss.studies.comparison.ranking import LEVEL
from bliss.train.results import short_name

Look = dict[tuple[str, str], tuple[int, str]]  # (sampler, policy) -> place among all, label


class Goal(NamedTuple):
    """The score of a comparison, and the validation score whose time is reported."""

    score: str  # "F1" or "R2"
    target: float


def comparison_section(
    file: Comparison, supplements: Sequence[Supplement], names: Names
) -> Section:
    """The section about one comparison, with the supplements of the same folder."""
    pairs = list(dict.fromkeys((row.sampler, row.policy) for row in file.rows))
    look = dict(zip(pairs, enumerate(labels(pairs)), strict=True))
    nets = list(dict.fromkeys((row.dataset, row.model) for row in file.rows))
    parts, summary, tiles = [], [], []
    left = list(supplements)
    goal = Goal(short_name(file.metric, file.ranks), file.target_score)
    for dataset, model in nets:
        rows = [row for row in file.rows if (row.dataset, row.model) == (dataset, model)]
        fitting = [s for s in left if (s.dataset, s.model) == (dataset, model)]
        left = [supplement for supplement in left if supplement not in fitting]
        about = f"{model} on {dataset}"
        parts.append(_part(about, file, rows, look, goal, fitting, names))
        summary.append(_words(about, _main(rows), look, goal))
        tiles += _tiles(model, _main(rows), look, goal.score, alone=len(nets) == 1)
    parts += [Part(other.title, other.groups, other.tables) for other in left]
    summary += [words for supplement in supplements for words in supplement.summary]
    models = list(dict.fromkeys(model for _, model in nets))
    return Section(
        kind="Comparison",
        title=" on ".join(filter(None, [sentence_list(models), file.dataset])),
        summary=summary or ["The comparison has no rows."],
        tiles=tiles,
        parts=parts,
        remarks=[
            *file.notes,
            *(f"{row.sampler} with {row.model} was left out: {row.why}" for row in file.skipped),
        ],
        origin=origin(file.date, file.machine, graph_words(file.graph, file.dataset)),
        details=facts(
            {
                "Command": file.command,
                "Machine": machine_words(file.machine),
                "Date": file.date,
                "Load per core at the start": fixed(file.load, 2) if file.load is not None else "",
                "Estimator": file.estimator,
                "Equal in a step": file.match,
                "Sizes": file.sizes,
                "Seeds": ", ".join(map(str, file.seeds)),
                "Target": f"validation {goal.score} of {fixed(goal.target, 3)}",
            }
        ),
    )


def _main(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """The rows with the largest share of the budget."""
    largest = max(row.budget_share for row in rows)
    return [row for row in rows if row.budget_share == largest]


def _part(
    about: str,
    file: Comparison,
    rows: Sequence[ComparisonRow],
    look: Look,
    goal: Goal,
    supplements: Sequence[Supplement],
    names: Names,
) -> Part:
    main = _main(rows)

    def label(row: ComparisonRow) -> str:
        return _label(row, look)

    entries = [
        CurveEntry(_label(row, look), look[row.sampler, row.policy][0], row.curve, row.step_ms)
        for row in main
    ]
    groups = [
        learning(entries, about, names, goal.target, goal.score),
        *(group for supplement in supplements for group in supplement.groups),
        _shrinking(rows, look, about, names, goal.score) if len(main) < len(rows) else None,
        step_time(entries, about, names),
    ]
    tables = []
    if len(main) < len(rows):
        tables.append(shares(rows, goal.score))
    tables += [costs(main, goal.score, goal.target), step_parts(main)]
    tables += [table for supplement in supplements for table in supplement.tables]
    lead = [scores(main, label, goal.score), conditions(file, main, label, goal.score)]
    return Part(about, present(groups), tables, lead)


def _shrinking(
    rows: Sequence[ComparisonRow], look: Look, about: str, names: Names, score: str
) -> ChartGroup | None:
    series, described = [], []
    for pair, (index, label) in look.items():
        own = [row for row in rows if (row.sampler, row.policy) == pair and row.budget_share > 0]
        own.sort(key=lambda row: -row.budget_share)
        line = Series.of(
            label,
            [row.budget_share for row in own],
            [row.test_score for row in own],
            [row.test_score_interval for row in own],
            index=index,
        )
        if line.is_drawable:
            series.append(line)
            scores = [f"{fixed(row.test_score, 3)} at {row.budget_share:g}" for row in own]
            described.append(f"{label} {sentence_list(scores)}")
    if not series:
        return None
    alt = f"Test {score} over the share of the budget kept, {about}. {'; '.join(described)}."
    figure = shrinking(series, "share of the budget (smaller to the right)", f"Test {score}")
    title = f"Test {score} over the share of the budget"
    chart = Chart(names(about, "shrinking budget"), title, alt, figure)
    note = (
        "Sizes of the first sampler are multiplied by the share. Bars are "
        f"{INTERVAL}; lines are set apart a little."
    )
    return ChartGroup(f"{score} as the budget shrinks", [chart], note)


def _words(about: str, rows: Sequence[ComparisonRow], look: Look, goal: Goal) -> str:
    scores = [f"{_label(row, look)} {_mean(row)}" for row in rows]
    words = (
        f"{about}: mean test {goal.score} over {plural(rows[0].seeds, 'seed')} is "
        f"{sentence_list(scores)}."
    )
    words += verdict(rows, lambda row: _label(row, look), goal.score)
    words += standing(rows, lambda row: _label(row, look))
    waits = [(row, row.seconds_to_target) for row in rows]
    reached = [(row, wait) for row, wait in waits if wait is not None]
    if reached:
        row, wait = min(reached, key=lambda pair: pair[1])
        words += (
            f" {_label(row, look)} reaches a validation {goal.score} of {goal.target:.3g} in the "
            f"least time, {significant(wait)} s on average ({row.reached} of "
            f"{plural(row.seeds, 'seed')})."
        )
    return words


def _tiles(
    model: str, rows: Sequence[ComparisonRow], look: Look, score: str, alone: bool
) -> list[Tile]:
    """The first sampler's numbers, and the largest significant gain over it."""
    first = rows[0]
    name = _label(first, look)
    tiles = [Tile(fixed(first.test_score, 3), f"test {score}: {name}, {model}")]
    gains = [
        (row.difference, _label(row, look), p)
        for row, p in corrected(rows)
        if p < LEVEL and row.difference is not None and row.difference > 0
    ]
    if gains:
        gain, better, p = max(gains)
        label = f"test {score} against {name}: {better}, {model} (p {equals(p)})"
        tiles.append(Tile(plus(gain, 3), label))
    if alone:
        tiles.append(Tile(f"{significant(first.step_ms.get('total'))} ms", f"per step: {name}"))
        tiles.append(Tile(significant(first.nodes, 4), f"nodes per step: {name}"))
    return known(tiles)


def _label(row: ComparisonRow, look: Look) -> str:
    return look[row.sampler, row.policy][1]


def _mean(row: ComparisonRow) -> str:
    half = row.test_score_interval
    spread = "" if half is None else f" ± {fixed(half, 3)}"
    return fixed(row.test_score, 3) + spread
