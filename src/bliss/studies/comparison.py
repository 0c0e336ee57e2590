"""Comparison of samplers with the same data, recipe, budget and seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from bliss import checks, records
from bliss.data import Dataset
from bliss.errors import InputError
from bliss.nn import MODELS
from bliss.rng import Stream, derive_key, hashes
from bliss.samplers import SAMPLERS, Full
from bliss.studies.records import (
    Comparison,
    ComparisonRow,
    Skipped,
    average_curve,
    mean_and_deviation,
)
from bliss.studies.runs import (
    Cell,
    DataCache,
    Outcome,
    Standing,
    machine,
    own_dataset,
    run_cells,
)
from bliss.train import PARTS, RunFolder, TrainConfig, resolve

ALIASES = ("labor-0",)  # second names of a sampler
EVERYTHING = ("bliss", *(name for name in SAMPLERS if name not in (*ALIASES, "bliss")))
"""The samplers of `--samplers all`; the others are compared with the first."""


class Key(NamedTuple):
    """Key of a row: the settings that its runs share."""

    model: str
    sampler: str
    share: float


def compare(
    settings: Mapping[str, Any],
    samplers: Sequence[str],
    models: Sequence[str],
    seeds: Sequence[int],
    shares: Sequence[float],
    out: Path,
    *,
    root: Path | None = None,
    target_f1: float | None = None,
    command: str = "",
    say: Callable[[str], None] = print,
    on_progress: Callable[[Standing], None] | None = None,
) -> Comparison:
    """Train every sampler with every model, share of the budget and seed; write compare.json.

    Parameters
    ----------
    settings
        Settings for `bliss.train.resolve`, the same for all runs. "dataset" is a name, a folder or
        a `Dataset`.
    samplers
        Names of samplers. The others are compared with the first. "bliss:exp3" selects a policy.
    models
        Names of networks.
    seeds
        Seeds of the runs and of random splits.
    shares
        Shares of the budget in (0, 1], in any order. A sampler without budgets runs once, and its
        row has the largest share.
    out
        Folder of the study. Runs that are finished there are not repeated.
    target_f1
        Validation F1 whose time is reported; by default the highest that every run reached.
    """
    if not shares or len(set(shares)) < len(shares) or any(not 0 < s <= 1 for s in shares):
        raise InputError(
            f"shares={list(shares)} must be distinct numbers in (0, 1]: write for instance "
            "1,0.5,0.25."
        )
    for model in models:
        checks.choice("models", model, MODELS)
    for sampler in samplers:
        checks.choice("samplers", sampler.partition(":")[0], list(SAMPLERS))
    settings, given = own_dataset(settings)
    folder, data = RunFolder(out), DataCache(root, given)
    dataset = data.load(resolve(dataset=settings.get("dataset"), seed=seeds[0]))
    cells, skipped = plan(settings, samplers, models, seeds, shares, dataset.graph.num_nodes)
    with folder.locked():
        notes = coverage_notes(cells, dataset)
        for note in notes:
            say(f"Warning: {note}")
        outcomes = run_cells([cell for _, cell in cells], out / "runs", data, say, on_progress)
        grouped: dict[Key, list[Outcome]] = {}
        for (key, _), one in zip(cells, outcomes, strict=True):
            grouped.setdefault(key, []).append(one)
        target = min(map(best_validation, outcomes)) if target_f1 is None else target_f1
        found = Comparison(
            dataset=cells[0][1].config.dataset,
            command=command,
            machine=machine(),
            date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            seeds=list(seeds),
            target_f1=target,
            rows=rows(grouped, samplers[0], target),
            skipped=skipped,
            notes=notes,
            metric=outcomes[0].result.metric,
        )
        records.write(out / "compare.json", found)
    return found


def plan(
    settings: Mapping[str, Any],
    samplers: Sequence[str],
    models: Sequence[str],
    seeds: Sequence[int],
    shares: Sequence[float],
    num_nodes: int,
) -> tuple[list[tuple[Key, Cell]], list[Skipped]]:
    """The runs with their rows, and the combinations that are impossible with the reason."""
    cells, skipped = [], []
    for model, sampler in product(models, samplers):
        name, _, policy = sampler.partition(":")
        given = dict(settings) | {"model": model, "sampler": name}
        if policy:
            given["policy"] = policy
        try:
            whole = resolve(**given).fitted(num_nodes)
        except InputError as error:
            if len(samplers) == 1:
                raise
            skipped.append(Skipped(model=model, sampler=sampler, why=str(error)))
            continue
        for share in shares if has_budgets(sampler) else [max(shares)]:
            for seed in seeds:
                config = shrunk(whole, share, seed)
                label = f"{model}-{sampler.replace(':', '-').replace('*', 'star')}"
                cell = Cell(f"{label}-{share:g}-{seed}", config)
                cells.append((Key(model, sampler, share), cell))
    if not cells:
        raise InputError(f"nothing can be compared: {skipped[0].why}")
    return cells, skipped


def has_budgets(sampler: str) -> bool:
    """Whether a sampler, named with or without its policy, has a budget that can shrink."""
    return SAMPLERS[sampler.partition(":")[0]].unit != "none"


def shrunk(whole: TrainConfig, share: float, seed: int) -> TrainConfig:
    """Settings of one run, with every layer's budget multiplied by the share."""
    budgets = tuple(max(1, round(share * budget)) for budget in whole.budgets)
    return replace(whole, seed=seed, budgets=budgets)


def coverage_notes(cells: Sequence[tuple[Key, Cell]], dataset: Dataset) -> list[str]:
    """One sentence for each row whose budget covers everything, so that it equals `full`."""
    configs = {key: cell.config for key, cell in cells}
    return [
        f"{key.sampler} with {key.model} at share {key.share:g} keeps every neighbour of a batch "
        f"(budgets {', '.join(map(str, config.budgets))}), so it equals full. Lower --budgets."
        for key, config in configs.items()
        if covers_everything(config, dataset)
    ]


def covers_everything(config: TrainConfig, dataset: Dataset) -> bool:
    """Whether the budgets cover the full neighbourhoods of a batch of training nodes."""
    kind = config.sampler_config
    if kind.unit == "none" or config.sampler == "fastgcn" or getattr(kind, "replace", False):
        return False
    sampler, nodes = Full(dataset.graph, layers=1), dataset.splits["train"].numpy()
    order = np.argsort(hashes(derive_key(config.seed, Stream.ORDER, 0), nodes))  # ids are no sample
    targets = nodes[order[: config.batch_size]]
    for budget in reversed(config.budgets):
        (block,) = sampler.sample(targets, 0)
        needed = block.num_src if kind.unit == "sources" else int(block.indptr.diff().max())
        if budget < needed:
            return False
        targets = block.src.numpy()
    return True


def rows(
    grouped: Mapping[Key, Sequence[Outcome]], first: str, target: float
) -> list[ComparisonRow]:
    """One row for each model, sampler and share of the budget."""
    found = []
    for key, group in grouped.items():
        results = [one.result for one in group]
        scores: dict[str, Any] = {}
        for name in ("train_f1", "val_f1", "test_f1"):
            scores[name], scores[f"{name}_std"] = mean_and_deviation(
                getattr(result, name) for result in results
            )
        difference, p_value = None, None
        if key.sampler != first:
            difference, p_value = paired(group, rival(grouped, key, first))
        errors = [result.test_mse for result in results if result.test_mse is not None]
        waits = [wait for one in group if (wait := seconds_to(one, target)) is not None]
        row = ComparisonRow(
            dataset=results[0].dataset,
            model=key.model,
            sampler=key.sampler,
            policy=results[0].policy,
            budget_share=key.share,
            budgets=list(group[0].cell.config.budgets),
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
            curve=average_curve([one.metrics for one in group]),
            test_mse=mean(errors) if errors else None,
        )
        found.append(row)
    return found


def rival(grouped: Mapping[Key, Sequence[Outcome]], key: Key, first: str) -> Sequence[Outcome]:
    """Runs of the first sampler at the same share; without budgets, its only runs."""
    if has_budgets(first):
        return grouped.get(key._replace(sampler=first), [])
    same = (own for own in grouped if (own.model, own.sampler) == (key.model, first))
    return [one for own in same for one in grouped[own]]


def paired(
    group: Sequence[Outcome], others: Sequence[Outcome]
) -> tuple[float | None, float | None]:
    """Mean difference of test F1 over equal seeds, and the p-value of a paired t-test.

    There is no p-value for fewer than two seeds, or if all differences are equal.
    """
    theirs = {one.cell.config.seed: one.result.test_f1 for one in others}
    pairs = [
        (one.result.test_f1, theirs[one.cell.config.seed])
        for one in group
        if one.cell.config.seed in theirs
    ]
    if not pairs:
        return None, None
    differences = [ours - other for ours, other in pairs]
    if len(set(differences)) == 1:
        return mean(differences), None
    return mean(differences), float(scipy.stats.ttest_rel(*zip(*pairs, strict=True)).pvalue)


def best_validation(one: Outcome) -> float:
    """The highest validation F1 of a run."""
    return max(line.val_f1 for line in one.metrics)


def seconds_to(one: Outcome, target: float) -> float | None:
    """Seconds of training steps until validation F1 reached the target; None if never."""
    times = {line.step: line.seconds for line in one.times}
    return next((times.get(line.step) for line in one.metrics if line.val_f1 >= target), None)
