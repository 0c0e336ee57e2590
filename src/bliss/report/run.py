"""Runs of one network on one data set: those that differ by seed alone share a line."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from statistics import mean, stdev

from bliss.report.load import Run, Variance
from bliss.report.records import Curve, Metric, RunResult
from bliss.report.sections import (
    Details,
    Entry,
    Names,
    Part,
    Section,
    Tile,
    labels,
    learning,
    plural,
    present,
    step_time,
)
from bliss.report.tables import (
    DASH,
    Table,
    f1,
    fixed,
    number,
    rounded,
    sentence_list,
    significant,
    text,
)
from bliss.report.variance import variance_group, variance_table, variance_words


def run_section(runs: Sequence[Run], beside: Sequence[Variance], names: Names) -> Section:
    """A page's section about runs of one network on one data set."""
    about = f"{runs[0].config.model} on {runs[0].config.dataset}"
    entries = _entries(runs)
    groups = [
        learning(entries, about, names, math.nan),
        *(variance_group(other.file, names) for other in beside),
        step_time(entries, about, names),
    ]
    tables = [_table(runs), *(variance_table(other.file) for other in beside)]
    return Section(
        kind="Run" if len(runs) == 1 else "Runs",
        title=about,
        summary=[*_words(runs), *(w for other in beside for w in variance_words(other.file))],
        tiles=_tiles(runs),
        parts=[Part("", present(groups), tables)],
        remarks=[_unfinished(run) for run in runs if run.result is None],
        details=[_settings(run) for run in runs],
    )


def _entries(runs: Sequence[Run]) -> list[Entry]:
    alike: dict[str, list[Run]] = {}
    for run in runs:
        rest = {key: value for key, value in run.settings.items() if key != "seed"}
        key = json.dumps([run.result is None, rest], sort_keys=True)
        alike.setdefault(key, []).append(run)
    groups = list(alike.values())
    first = [group[0] for group in groups]
    told = labels([(run.config.sampler, run.config.policy) for run in first])
    return [
        Entry(_label(label, run, first), n, _curve(group), _mean_times(group))
        for n, (label, run, group) in enumerate(zip(told, first, groups, strict=True))
    ]


def _label(label: str, run: Run, others: Sequence[Run]) -> str:
    """Add the settings in which runs of the same name differ."""
    same = [o for o in others if o.config.sampler == run.config.sampler]
    same = [o for o in same if o.config.policy == run.config.policy]
    keys = [key for key in run.settings if key != "seed"]
    words = [
        f"{key} {_plain(run.settings[key])}"
        for key in keys
        if any(other.settings.get(key) != run.settings[key] for other in same)
    ]
    words += ["unfinished"] if run.result is None else []
    return ", ".join([label, *words])


def _curve(runs: Sequence[Run]) -> Curve:
    """Means and deviations at the steps that all runs share."""
    by_run = [{metric.step: metric for metric in run.metrics} for run in runs]
    steps = sorted(set.intersection(*(set(metrics) for metrics in by_run)))
    at = [[metrics[step] for metrics in by_run] for step in steps]
    several = len(runs) > 1

    def deviations(values: Sequence[Sequence[float]]) -> list[float]:
        return [stdev(v) if all(map(math.isfinite, v)) else math.nan for v in values if several]

    val, loss = _columns(at)
    return Curve(
        step=steps,
        val_f1=[mean(v) for v in val],
        val_f1_std=deviations(val),
        loss=[mean(v) for v in loss],
        loss_std=deviations(loss),
    )


def _columns(at: Sequence[Sequence[Metric]]) -> tuple[list[list[float]], list[list[float]]]:
    return [[m.val_f1 for m in ms] for ms in at], [[m.loss for m in ms] for ms in at]


def _mean_times(runs: Sequence[Run]) -> dict[str, float]:
    times = [run.result.step_ms for run in runs if run.result]
    parts = dict.fromkeys(part for taken in times for part in taken)
    return {part: mean(taken.get(part, math.nan) for taken in times) for part in parts}


def _table(runs: Sequence[Run]) -> Table:
    columns = (
        "Run", "Sampler", "Policy", "Seed", "Test F1", "Validation F1", "Training F1",
        "Best step", "Steps", "Training, s", "Step, ms", "Nodes a step", "Edges a step", "Peak, MB",
    )  # fmt: skip
    rows = []
    for run in runs:
        result, best = run.result, _best(run)
        rows.append(
            [
                text(run.path.resolve().name + ("" if result else " (unfinished)")),
                text(run.config.sampler),
                text(run.config.policy),
                number(run.config.seed),
                f1(result.test_f1 if result else math.nan),
                f1(result.val_f1 if result else best.val_f1),
                f1(result.train_f1 if result else best.train_f1),
                number(result.best_step if result else best.step),
                number(result.steps if result else _reached(run)),
                rounded(result.seconds if result else math.nan),
                rounded(result.step_ms.get("total", math.nan) if result else math.nan),
                number(result.sampled.nodes if result else math.nan),
                number(result.sampled.edges if result else math.nan),
                number(result.peak_mb if result else math.nan),
            ]
        )
    note = "Micro-F1 of the best step, chosen on validation nodes; test by full neighbourhoods."
    return Table("Results", columns, rows, note).without_empty()


def _words(runs: Sequence[Run]) -> list[str]:
    finished = [run for run in runs if run.result]
    if len(runs) == 1:
        return [_one(run, run.result) for run in runs if run.result]
    words = f"{plural(len(runs), 'run')}, {len(finished)} of them finished."
    each = [
        f"{label} {fixed(mean(values), 3)}"
        + (f" (mean of {len(values)} runs)" if len(values) > 1 else "")
        for label, values in _scores(runs).items()
    ]
    return [f"{words} Test F1: {sentence_list(each)}." if each else words]


def _scores(runs: Sequence[Run]) -> dict[str, list[float]]:
    """Test F1 of finished runs, by sampler and policy."""
    told = labels([(run.config.sampler, run.config.policy) for run in runs])
    scores: dict[str, list[float]] = {}
    for run, label in zip(runs, told, strict=True):
        if run.result and math.isfinite(run.result.test_f1):
            scores.setdefault(label, []).append(run.result.test_f1)
    return scores


def _one(run: Run, result: RunResult) -> str:
    policy = f" ({run.config.policy})" if run.config.policy else ""
    return (
        f"{run.config.sampler}{policy} trained {run.config.model} on {run.config.dataset} for "
        f"{fixed(result.steps, 0)} steps in {significant(result.seconds)} s. The weights of step "
        f"{fixed(result.best_step, 0)}, the best on validation nodes, score "
        f"{fixed(result.test_f1, 3)} micro-F1 on test nodes and {fixed(result.val_f1, 3)} on "
        "validation nodes."
    )


def _unfinished(run: Run) -> str:
    name = run.path.resolve().name
    if not run.metrics:
        return f"The run “{name}” is unfinished, and has not been evaluated yet."
    best = _best(run)
    return (
        f"The run “{name}” is unfinished: step {fixed(_reached(run), 0)} of "
        f"{fixed(run.config.steps, 0)}. Its best validation F1 so far is {fixed(best.val_f1, 3)}, "
        f"at step {fixed(best.step, 0)}."
    )


def _tiles(runs: Sequence[Run]) -> list[Tile]:
    """One run's numbers, or the mean score of each sampler."""
    if len(runs) > 1:
        return [
            Tile(fixed(mean(values), 3), f"test F1: {label}, {plural(len(values), 'run')}")
            for label, values in list(_scores(runs).items())[:4]
        ]
    result = runs[0].result
    if result is None:
        return []
    tiles = [
        Tile(fixed(result.test_f1, 3), "test F1"),
        Tile(fixed(result.val_f1, 3), "validation F1"),
        Tile(f"{significant(result.seconds)} s", "of training"),
        Tile(f"{significant(result.step_ms.get('total', math.nan))} ms", "a step"),
    ]
    return [tile for tile in tiles if not tile.value.startswith(DASH)]


def _best(run: Run) -> Metric:
    known = [metric for metric in run.metrics if math.isfinite(metric.val_f1)]
    return max(known, key=lambda metric: metric.val_f1, default=Metric(step=math.nan))


def _reached(run: Run) -> float:
    return max((metric.step for metric in run.metrics), default=math.nan)


def _settings(run: Run) -> Details:
    items = [(key, _plain(value)) for key, value in run.settings.items()]
    return Details(f"Settings of {run.path.resolve().name}", items)


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
