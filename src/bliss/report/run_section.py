"""Section about runs of one network on one data set; seeds of equal settings share a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from statistics import mean
from typing import TypeVar

from bliss.report.cells import (
    DASH,
    Number,
    ReportTable,
    fixed,
    number,
    plural,
    rounded,
    score_cell,
    sentence_list,
    significant,
    text,
)
from bliss.report.load import Run
from bliss.report.score_tables import ranks_of, score_tables
from bliss.report.sections import (
    CurveEntry,
    Details,
    Names,
    Part,
    Section,
    Supplement,
    Tile,
    known,
    labels,
    learning,
    origin,
    present,
    step_time,
)
from bliss.report.window_charts import over_time, window_tables
from bliss.studies.curves import average_curve
from bliss.train.results import Evaluation, RunResult, gain, short_name, title_of

T = TypeVar("T")
LENGTHS = ("steps", "evaluate_every")
"""Settings of a run's length, which labels have only if nothing else distinguishes the runs."""


def run_section(runs: Sequence[Run], supplements: Sequence[Supplement], names: Names) -> Section:
    """The section about runs of one network on one data set."""
    about = f"{runs[0].settings.model} on {runs[0].settings.dataset}"
    entries = _entries(runs)
    groups = [
        over_time(runs, about, _score(runs), names),
        learning(entries, about, names, score=_score(runs)),
        *(group for supplement in supplements for group in supplement.groups),
        step_time(entries, about, names),
    ]
    tables = [
        _table(runs),
        *window_tables(runs, _score(runs)),
        *score_tables(runs),
        *(table for other in supplements for table in other.tables),
    ]
    return Section(
        kind="Run" if len(runs) == 1 else "Runs",
        title=about,
        summary=[*_words(runs), *(words for other in supplements for words in other.summary)],
        tiles=_tiles(runs),
        parts=[Part("", present(groups), tables)],
        remarks=[
            *(_unfinished(run) for run in runs if run.result is None),
            *(
                _unlearnt(run, run.result)
                for run in runs
                if run.result and not run.result.has_learnt
            ),
        ],
        origin=origin("", None, runs[0].settings.dataset),
        details=[*_types(runs), *(_settings(run) for run in runs)],
    )


def _groups(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs that differ only by seed, by their label."""
    same: dict[str, list[Run]] = {}
    for run in runs:
        rest = {key: value for key, value in run.every_setting.items() if key != "seed"}
        key = json.dumps([run.result is None, rest], sort_keys=True)
        same.setdefault(key, []).append(run)
    return dict(zip(_labels([group[0] for group in same.values()]), same.values(), strict=True))


def _entries(runs: Sequence[Run]) -> list[CurveEntry]:
    return [
        CurveEntry(
            label,
            n,
            average_curve([same.metrics for same in group], [same.times for same in group]),
            _mean_times([same.result for same in group if same.result]),
        )
        for n, (label, group) in enumerate(_groups(runs).items())
    ]


def _labels(runs: Sequence[Run]) -> list[str]:
    """Unique labels: sampler, policy and settings in which runs differ; lengths if needed."""
    names = labels([(run.settings.sampler, run.settings.policy) for run in runs])
    for ignored in (("seed", *LENGTHS), ("seed",)):
        found = [_label(name, run, runs, ignored) for name, run in zip(names, runs, strict=True)]
        if len(set(found)) == len(runs):
            break
    return found


def _label(label: str, run: Run, others: Sequence[Run], ignored: Sequence[str]) -> str:
    """Add the settings in which runs with the same sampler and policy differ."""
    own = (run.settings.sampler, run.settings.policy)
    same = [o for o in others if (o.settings.sampler, o.settings.policy) == own]
    words = [
        f"{key} {_plain(value, ',')}"
        for key, value in run.every_setting.items()
        if key not in ignored and any(other.every_setting.get(key) != value for other in same)
    ]
    words += ["unfinished"] if run.result is None else []
    return f"{label} ({', '.join(words)})" if words else label


def _mean_times(results: Sequence[RunResult]) -> dict[str, float]:
    if not results:
        return {}
    shared = [p for p in results[0].step_ms if all(p in result.step_ms for result in results)]
    return {part: mean(result.step_ms[part] for result in results) for part in shared}


def _score(runs: Sequence[Run]) -> str:
    """Name of the score of the runs."""
    metrics = [line.metric for run in runs for line in (run.result, *run.metrics[-1:]) if line]
    return short_name(metrics[0] if metrics else "f1", ranks_of(runs))


def _table(runs: Sequence[Run]) -> ReportTable:
    score = _score(runs)
    return ReportTable.of(
        "Results",
        runs,
        {
            "Run": lambda run: text(run.name + ("" if run.result else " (unfinished)")),
            "Sampler": lambda run: text(run.settings.sampler),
            "Policy": lambda run: text(run.settings.policy),
            "Seed": lambda run: number(run.settings.seed),
            f"Test {score}": lambda run: score_cell(_of(run.result, lambda r: r.test_score)),
            f"Validation {score}": lambda run: score_cell(
                run.result.val_score if run.result else _of(_best(run), lambda at: at.val_score)
            ),
            f"Training {score}": lambda run: score_cell(
                run.result.train_score if run.result else _of(_best(run), lambda at: at.train_score)
            ),
            f"Constant {score}": lambda run: score_cell(
                _of(run.result, lambda r: r.constant.score if r.constant else None)
            ),
            "Test MSE": lambda run: rounded(_of(run.result, lambda r: _mse(r, "test"))),
            "Validation MSE": lambda run: rounded(
                _mse(run.result, "val") if run.result else _of(_best(run), lambda at: at.val_mse)
            ),
            "Best step": lambda run: number(
                run.result.best_step if run.result else _of(_best(run), lambda at: at.step)
            ),
            "Steps": lambda run: number(run.result.steps if run.result else _reached(run)),
            "Training, s": lambda run: rounded(_of(run.result, lambda r: r.seconds)),
            "Step, ms": lambda run: rounded(_of(run.result, lambda r: r.step_ms.get("total"))),
            "Nodes per step": lambda run: number(_of(run.result, lambda r: r.sampled.nodes)),
            "Edges per step": lambda run: number(_of(run.result, lambda r: r.sampled.edges)),
            "Peak, MB": lambda run: number(_of(run.result, lambda r: r.peak_mb)),
        },
        f"{'Micro-F1' if score == 'F1' else score} at the step with the best validation {score}; "
        f"test {score} with full neighbourhoods. Constant {score} is that of a constant "
        "prediction.",
    )


def _mse(result: RunResult, split: str) -> Number:
    return result.scores.get(split, {}).get("mse")


def _of(record: T | None, number_of: Callable[[T], Number]) -> Number:
    """A number of a record that may be missing."""
    return None if record is None else number_of(record)


def _words(runs: Sequence[Run]) -> list[str]:
    finished = [run for run in runs if run.result]
    if len(runs) == 1:
        return [_result_words(run.result) for run in runs if run.result]
    words = f"{plural(len(runs), 'run')}, {len(finished)} of them finished."
    each = [
        f"{fixed(mean(values), 3)} with {label}"
        + (f", mean of {len(values)} runs" if len(values) > 1 else "")
        for label, values in _scores(runs).items()
    ]
    return [f"{words} Test {_score(runs)}: {sentence_list(each)}." if each else words]


def _scores(runs: Sequence[Run]) -> dict[str, list[float]]:
    """Test scores of finished runs, by label."""
    scores = {
        label: [run.result.test_score for run in group if run.result]
        for label, group in _groups(runs).items()
    }
    return {label: values for label, values in scores.items() if values}


def _result_words(result: RunResult) -> str:
    policy = f" ({result.policy})" if result.policy else ""
    title = title_of(result.metric, result.ranks)
    score = f"{'an' if title[0] in 'aAR' else 'a'} {title}"
    return (
        f"{result.sampler}{policy} trained {result.model} on {result.dataset} for "
        f"{plural(result.steps, 'step')} in {significant(result.seconds)} s. The best step on "
        f"the validation split is {result.best_step:,}, with {score} of "
        f"{fixed(result.test_score, 3)} on the test split and {fixed(result.val_score, 3)} on the "
        "validation split."
    )


def _unfinished(run: Run) -> str:
    best = _best(run)
    if best is None:
        return f"The run “{run.name}” is unfinished, and has not been evaluated yet."
    return (
        f"The run “{run.name}” is unfinished: step {_reached(run):,} of {run.settings.steps:,}. "
        f"Its best validation {_score([run])} so far is {fixed(best.val_score, 3)}, at step "
        f"{best.step:,}."
    )


def _unlearnt(run: Run, result: RunResult) -> str:
    """Warning about a run that is no better than a constant prediction."""
    score = fixed(result.constant.score, 3) if result.constant else DASH
    causes = (
        f" Likely causes, the likeliest first: {' '.join(result.causes)}" if result.causes else ""
    )
    return (
        f"Warning: the network of the run “{run.name}” is no better than a constant prediction, "
        f"whose {_score([run])} on the test split is {score}.{causes}"
    )


def _tiles(runs: Sequence[Run]) -> list[Tile]:
    """The numbers of one run, or the mean score of each label."""
    score = _score(runs)
    if len(runs) > 1:
        return [
            Tile(
                fixed(mean(values), 3),
                f"test {score}, {label}" + (f", {len(values)} runs" if len(values) > 1 else ""),
            )
            for label, values in list(_scores(runs).items())[:4]
        ]
    result = runs[0].result
    if result is None:
        return []
    return known(
        [
            Tile(fixed(result.test_score, 3), f"test {score}"),
            Tile(fixed(result.val_score, 3), f"validation {score}"),
            Tile(f"{significant(result.seconds)} s", "of training"),
            Tile(f"{significant(result.step_ms.get('total'))} ms", "per step"),
        ]
    )


def _best(run: Run) -> Evaluation | None:
    return max(run.metrics, key=lambda line: gain(line.metric, line.val_score), default=None)


def _reached(run: Run) -> int:
    return max((line.step for line in run.metrics), default=0)


def _types(runs: Sequence[Run]) -> list[Details]:
    """Types and relations of the data, once for each data set."""
    found = dict.fromkeys(tuple(run.result.types) for run in runs if run.result)
    title = f"Types and relations of {runs[0].settings.dataset}"
    return [Details(title, list(rows)) for rows in found if rows]


def _settings(run: Run) -> Details:
    items = [(key, _plain(value)) for key, value in run.every_setting.items()]
    return Details(f"Settings of {run.name}", items)


def _plain(value: object, separator: str = ", ") -> str:
    if isinstance(value, list):
        return separator.join(map(_plain, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}={_plain(one)}" for name, one in value.items())
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
