"""Comparison of samplers with the same data, recipe, work per step, estimator and seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bliss.storage import records
from bliss.studies.comparison.comparison_record import Comparison, Search
from bliss.studies.comparison.comparison_rows import (
    best_gain,
    comparison_rows,
    mismatches,
    unlearnt,
)
from bliss.studies.comparison.matching import Matcher
from bliss.studies.comparison.plan import Plan, Request, RowKey, coverage_notes, plan, sized
from bliss.studies.comparison.ranking import ENOUGH_SEEDS
from bliss.studies.comparison.runs import (
    DataCache,
    Outcome,
    StudyProgress,
    StudyRun,
    own_dataset,
    run_each,
)
from bliss.studies.comparison.search import candidates, chosen, trials
from bliss.studies.provenance import graph_facts, load_per_core, machine, today
from bliss.train import RunFolder, TrainConfig, resolve
from bliss.train.config_parts import ObjectiveConfig
from bliss.train.results import gain
from bliss.train.time_task import sees_times

IDLE = 0.3
"""Largest load per core of a machine that is called idle."""


def compare(
    settings: Mapping[str, Any],
    samplers: Sequence[str],
    models: Sequence[str],
    seeds: Sequence[int],
    shares: Sequence[float],
    out: Path,
    *,
    budgets: str | None = None,
    match: str | None = None,
    sizes: str = "",
    estimator: str | None = None,
    search: int = 0,
    root: Path | None = None,
    target_score: float | None = None,
    command: str = "",
    say: Callable[[str], None] = print,
    on_progress: Callable[[StudyProgress], None] | None = None,
) -> Comparison:
    """Train every sampler with every model, share of the budget and seed; write compare.json.

    Parameters
    ----------
    settings
        Settings for `bliss.train.resolve`, the same for all runs. "dataset" is a name, a folder or
        a `Dataset`.
    samplers
        Names of samplers. The others are compared with the first. "bliss:exp3" selects a policy,
        "bliss+history" or "neighbor+first_hop=exact" an option.
    models
        Names of networks.
    seeds
        Seeds of the runs and of random splits.
    shares
        Shares of the size in (0, 1], in any order. A sampler without a size runs once, and its row
        has the largest share.
    out
        Folder of the study. Runs that are finished there are not repeated.
    budgets
        Sizes by unit, such as "layer=4096,2048,1024 node=10,10,10 subgraph=6000". Numbers without a
        unit are of layers.
    match
        "nodes", "edges" or "ms": the first sampler has its size, and the others the size at which a
        step has as many of them. "none": all have the given or default sizes. Default: "nodes", but
        "none" if budgets have units or sizes are given.
    sizes
        "authors": sizes that the samplers' authors published for the data set.
    estimator
        Estimator of all samplers that offer it. Default: "own", that of each in `bliss train`.
    search
        Number of settings of learning rate and dropout that are tried for each sampler, with a
        seed that is not a test seed. That with the best validation score is used; 0: the recipe's.
    target_score
        Validation score whose time is reported; by default the highest that every run reached.
    """
    settings, given = own_dataset(settings)
    request = Request.of(
        settings,
        samplers,
        models,
        seeds,
        shares,
        budgets=budgets,
        match=match,
        sizes=sizes,
        estimator=estimator,
        search=search,
    )
    folder, data = RunFolder(out), DataCache(root, given)
    dataset = data.load(resolve(dataset=settings.get("dataset"), seed=seeds[0]))
    size = dataset.graph.num_nodes, dataset.num_features
    objective = ObjectiveConfig(**{k: settings[k] for k in ("task", "split") if k in settings})
    made = plan(request, *size, sees_times(objective, dataset), dataset.graph)
    tried = candidates(made.starts[0].config, search)
    load = load_per_core()
    with folder.locked():
        matcher = None
        if request.match != "none":
            matcher = Matcher(request.match, dataset, out / "pilots.json")
        rows = sized(request, made.starts, matcher, say)
        notes = [*made.notes, *coverage_notes(rows, dataset), *_conditions(seeds, load)]
        for note in notes:
            say(f"Warning: {note}")
        searches: dict[tuple[str, str], Search] = {}
        if tried:
            rows, searches = _search(request, made, rows, out, data, say, on_progress)
        runs = [(key, run) for key, config in rows for run in _runs(request, key, config)]
        by_name = run_each([run for _, run in runs], out / "runs", data, say, on_progress)
        outcomes = [by_name[run.name] for _, run in runs]
        grouped: dict[RowKey, list[Outcome]] = {}
        for (key, _), outcome in zip(runs, outcomes, strict=True):
            grouped.setdefault(key, []).append(outcome)
        metric = outcomes[0].result.metric
        worst = gain(metric, min(map(best_gain, outcomes)))
        target = worst if target_score is None else target_score
        compared = comparison_rows(grouped, target, request.match, searches)
        unmatched = [*unlearnt(grouped), *mismatches(compared, request.match)]
        for note in unmatched:
            say(f"Warning: {note}")
        result = Comparison(
            dataset=rows[0][1].data.dataset,
            command=command,
            machine=machine(),
            date=today(),
            seeds=list(seeds),
            target_score=target,
            rows=compared,
            match="" if request.match == "none" else request.match,
            sizes=request.sizes,
            estimator=request.estimator,
            load=load,
            graph=graph_facts(dataset),
            skipped=made.skipped,
            notes=[*notes, *unmatched],
            metric=metric,
            ranks=outcomes[0].result.ranks,
        )
        records.write(out / "compare.json", result)
    return result


def _conditions(seeds: Sequence[int], load: float | None) -> list[str]:
    """What weakens a ranking or disturbs its times."""
    notes = []
    if len(seeds) < ENOUGH_SEEDS:
        notes.append(
            f"A ranking needs at least {ENOUGH_SEEDS} seeds, and there are {len(seeds)}: most "
            "differences will be ties. Raise --seeds."
        )
    if load is not None and load > IDLE:
        notes.append(
            f"The machine was busy when the comparison started (load {load:.2f} per core): times "
            "are too long. Scores are not affected."
        )
    return notes


def _search(
    request: Request,
    made: Plan,
    rows: Sequence[tuple[RowKey, TrainConfig]],
    out: Path,
    data: DataCache,
    say: Callable[[str], None],
    on_progress: Callable[[StudyProgress], None] | None,
) -> tuple[list[tuple[RowKey, TrainConfig]], dict[tuple[str, str], Search]]:
    """Choose learning rate and dropout of each network and sampler at its largest size."""
    largest = {}
    for key, config in sorted(rows, key=lambda row: row[0].share):
        largest[key[:2]] = (key, config)
    base = {start.model: start.config for start in reversed(made.starts)}  # the first of each
    groups = {
        own: trials(
            _name(request, key), config, candidates(base[key.model], request.search), request.seeds
        )
        for own, (key, config) in largest.items()
    }
    runs = [run for group in groups.values() for run in group]
    done = run_each(runs, out / "search", data, say, on_progress, may_diverge=True)
    picked = {own: chosen(group, done) for own, group in groups.items()}
    for (model, sampler), ((lr, dropout), _) in picked.items():
        say(f"{sampler} with {model}: lr {lr:g}, dropout {dropout:g}")
    tuned = []
    for key, config in rows:
        lr, dropout = picked[key[:2]][0]
        tuned.append((key, config.with_settings(lr=lr, dropout=dropout)))
    return tuned, {own: search for own, (_, search) in picked.items()}


def _name(request: Request, key: RowKey) -> str:
    """Folder of a row's runs, without the seed."""
    (slug,) = (sampler.slug for sampler in request.samplers if sampler.label == key.sampler)
    return f"{key.model}-{slug}-{key.share:g}"


def _runs(request: Request, key: RowKey, config: TrainConfig) -> list[StudyRun]:
    name = _name(request, key)
    return [StudyRun(f"{name}-{seed}", config.with_settings(seed=seed)) for seed in request.seeds]
