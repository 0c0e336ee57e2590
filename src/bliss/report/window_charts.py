"""Scores over time: the windows of rolling evaluations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import mean, stdev

from bliss.report.cells import ReportTable, fixed, number, score_cell, sentence_list, text
from bliss.report.charts import Chart, Level, Series, curves
from bliss.report.load import Run
from bliss.report.sections import ChartGroup, Names, labels
from bliss.train.results import RunResult

_OF_WINDOW = ("seed", "window")
NOTE = (
    "Each point is a run that was trained on what is earlier than its window of time, and tested "
    "on the window."
)


def windowed(runs: Sequence[Run]) -> list[tuple[Run, RunResult]]:
    """Finished runs that are windows of a rolling evaluation."""
    done = [(run, run.result) for run in runs if run.result]
    return [(run, result) for run, result in done if result.window and result.window.of > 1]


def over_time(runs: Sequence[Run], about: str, score: str, names: Names) -> ChartGroup | None:
    """Test score by window of time, one line for runs of equal settings; None without windows."""
    found = windowed(runs)
    if not found:
        return None
    alike: dict[str, list[tuple[Run, RunResult]]] = {}
    for run, result in found:
        rest = {k: v for k, v in run.every_setting.items() if k not in _OF_WINDOW}
        alike.setdefault(json.dumps(rest, sort_keys=True), []).append((run, result))
    groups = list(alike.values())
    first = [(group[0][0].settings.sampler, group[0][0].settings.policy) for group in groups]
    series, words = [], []
    for index, (label, group) in enumerate(zip(labels(first), groups, strict=True)):
        scores: dict[int, list[float]] = {}
        for _, result in group:
            assert result.window is not None
            scores.setdefault(result.window.number, []).append(result.test_score)
        places = sorted(scores)
        means = [mean(scores[k]) for k in places]
        spread = [stdev(scores[k]) if len(scores[k]) > 1 else None for k in places]
        series.append(Series.of(label, places, means, spread, index=index))
        words.append(f"{label} {', '.join(f'{value:.3f}' for value in means)}")
    title = f"Test {score} over time"
    alt = f"Test {score} by window of time, {about}, first window first: {sentence_list(words)}."
    chance = [r.constant.score for _, r in found if r.constant and r.constant.score is not None]
    level = None
    if chance:
        level = Level(f"constant {fixed(mean(chance), 3)}", mean(chance))
        alt += f" A constant prediction has {fixed(mean(chance), 3)}."
    chart = Chart(names(about, title), title, alt, curves(series, "window", f"Test {score}", level))
    return ChartGroup("Score over time", [chart], NOTE)


def window_tables(runs: Sequence[Run], score: str) -> list[ReportTable]:
    """Times and score of each window; empty without windows."""
    found = sorted(windowed(runs), key=lambda pair: pair[1].window.number if pair[1].window else 0)
    if not found:
        return []
    return [
        ReportTable.of(
            "Windows of time",
            found,
            {
                "Run": lambda pair: text(pair[0].name),
                "Sampler": lambda pair: text(pair[0].settings.sampler),
                "Seed": lambda pair: number(pair[0].settings.seed),
                "Window": lambda pair: text(_place(pair[1])),
                "From": lambda pair: text(pair[1].window.start if pair[1].window else ""),
                "To": lambda pair: text(pair[1].window.end if pair[1].window else ""),
                f"Test {score}": lambda pair: score_cell(pair[1].test_score),
                f"Validation {score}": lambda pair: score_cell(pair[1].val_score),
            },
            NOTE,
        )
    ]


def _place(result: RunResult) -> str:
    window = result.window
    return f"window {window.number} of {window.of}" if window else ""
