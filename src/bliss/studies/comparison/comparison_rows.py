"""Rows of a comparison: means over seeds, differences, ranks and the match that was reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any

from bliss.studies.comparison.comparison_record import ComparisonRow, Search
from bliss.studies.comparison.plan import RowKey
from bliss.studies.comparison.ranking import interval, paired, ranks
from bliss.studies.comparison.runs import Outcome
from bliss.studies.comparison.sizes import size_text, unit_of
from bliss.studies.curves import average_curve, mean_and_deviation
from bliss.train import PARTS
from bliss.train.results import gain

CLOSE = 0.1
"""Relative distance to the target above which a row is said not to match."""
WORDS = {"nodes": "nodes", "edges": "edges", "ms": "milliseconds"}


def comparison_rows(
    grouped: Mapping[RowKey, Sequence[Outcome]],
    target: float,
    match: str = "none",
    searches: Mapping[tuple[str, str], Search] | None = None,
) -> list[ComparisonRow]:
    """One row for each model, sampler and share; the first sampler of a model is the reference."""
    rows = []
    placed = _ranks(grouped)
    for key, group in grouped.items():
        results = [outcome.result for outcome in group]
        config = group[0].run.config
        scores: dict[str, Any] = {}
        for name in ("train_score", "val_score", "test_score"):
            scores[name], scores[f"{name}_std"] = mean_and_deviation(
                getattr(result, name) for result in results
            )
        rival = _rival(grouped, key)
        is_first = rival is group
        difference, p_value = (None, None) if is_first else paired(by_seed(group), by_seed(rival))
        waits = [wait for outcome in group if (wait := seconds_to(outcome, target)) is not None]
        scored = [result.scores.get("test", {}) for result in results]
        errors = [values["mse"] for values in scored if "mse" in values]
        rank, is_tied = placed[key]
        row = ComparisonRow(
            dataset=results[0].dataset,
            model=key.model,
            sampler=key.sampler,
            policy=results[0].policy,
            budget_share=key.share,
            budgets=list(config.sampler.budgets),
            seeds=len(group),
            **scores,
            difference=difference,
            p_value=p_value,
            step_ms={
                part: mean(result.step_ms[part] for result in results)
                for part in PARTS
                if all(part in result.step_ms for result in results)
            },
            nodes=mean(result.sampled.nodes for result in results),
            edges=mean(result.sampled.edges for result in results),
            peak_mb=max(result.peak_mb for result in results),
            seconds=mean(result.seconds for result in results),
            seconds_to_target=mean(waits) if waits else None,
            reached=len(waits),
            curve=average_curve([run.metrics for run in group], [run.times for run in group]),
            unit=unit_of(config.sampler.config),
            batch_size=config.training.batch_size,
            estimator=str(config.flat().get("estimator", "")),
            lr=config.training.lr,
            dropout=config.network.dropout,
            match=None if match == "none" else _work(group, match) / _work(rival, match),
            scores=[result.test_score for result in results],
            test_score_interval=interval([result.test_score for result in results]),
            rank=rank,
            is_tied=is_tied,
            search=(searches or {}).get((key.model, key.sampler)),
            test_mse=mean(errors) if errors else None,
        )
        rows.append(row)
    return rows


def _ranks(grouped: Mapping[RowKey, Sequence[Outcome]]) -> dict[RowKey, tuple[int | None, bool]]:
    """Ranks within each network and share; samplers without a size take part at the largest."""
    placed: dict[RowKey, tuple[int | None, bool]] = {}
    for place in dict.fromkeys((key.model, key.share) for key in grouped):
        own = [key for key in grouped if (key.model, key.share) == place]
        gains = [by_seed(grouped[key], gain) for key in own]
        placed |= zip(own, ranks(gains), strict=True)
    return placed


def _rival(grouped: Mapping[RowKey, Sequence[Outcome]], key: RowKey) -> Sequence[Outcome]:
    """Runs of the first sampler of the model at the same share; without a size, its only runs."""
    own = [other for other in grouped if other.model == key.model]
    first = [other for other in own if other.sampler == own[0].sampler]
    return grouped[next((other for other in first if other.share == key.share), first[0])]


def _work(group: Sequence[Outcome], match: str) -> float:
    """Mean work of a step over all runs of a row."""
    if match == "ms":
        return mean(outcome.result.step_ms["total"] for outcome in group)
    return float(mean(getattr(outcome.result.sampled, match) for outcome in group))


def unlearnt(grouped: Mapping[RowKey, Sequence[Outcome]]) -> list[str]:
    """Warning about runs that are no better than a constant prediction, in one sentence each."""
    failed = {
        key: [outcome.result for outcome in group if not outcome.result.has_learnt]
        for key, group in grouped.items()
    }
    notes = [
        f"{len(results)} of {len(grouped[key])} runs of {key.sampler} with {key.model} at share "
        f"{key.share:g} are no better than a constant prediction."
        for key, results in failed.items()
        if results
    ]
    if notes:
        causes = next(results[0].causes for results in failed.values() if results)
        notes.append(f"Likely causes of this, the likeliest first: {' '.join(causes)}")
    return notes


def mismatches(rows: Sequence[ComparisonRow], match: str) -> list[str]:
    """One sentence for each row whose work is not that of the first sampler."""
    notes = []
    for row in rows:
        if row.match is None or abs(row.match - 1) <= CLOSE:
            continue
        size = size_text(row.unit, row.budgets or [row.batch_size])
        place = f"at its nearest size, {size}" if size else "and has no size to change"
        notes.append(
            f"{row.sampler} with {row.model} at share {row.budget_share:g} has {row.match:.2f} "
            f"times the {WORDS[match]} of the first sampler in a step {place}."
        )
    return notes


def by_seed(
    group: Sequence[Outcome], measure: Callable[[str, float], float] = lambda metric, score: score
) -> dict[int, float]:
    """Test score by seed, or a measure of the metric and the score."""
    return {one.run.config.seed: measure(one.result.metric, one.result.test_score) for one in group}


def best_gain(outcome: Outcome) -> float:
    """The best validation score of a run, or minus its lowest error."""
    return max(gain(line.metric, line.val_score) for line in outcome.metrics)


def seconds_to(outcome: Outcome, target: float) -> float | None:
    """Seconds of training steps until the validation score reached the target; None if never."""
    times = {line.step: line.seconds for line in outcome.times}
    reached = (
        line.step
        for line in outcome.metrics
        if gain(line.metric, line.val_score) >= gain(line.metric, target)
    )
    return times.get(next(reached, -1))
