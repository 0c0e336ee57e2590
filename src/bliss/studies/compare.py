"""Samplers side by side: the same data, recipe, budget and seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import scipy.stats

from bliss import checks
from bliss.errors import InputError
from bliss.nn import MODELS
from bliss.samplers import SAMPLERS
from bliss.studies.runs import (
    Cell,
    Outcome,
    Standing,
    curve,
    machine,
    mean_and_deviation,
    run_cells,
)
from bliss.train import PARTS, RunFolder, TrainConfig, resolve

ALIASES = ("labor-0",)  # names of a sampler that has another name too
EVERYTHING = ("bliss", *(name for name in SAMPLERS if name not in (*ALIASES, "bliss")))
"""What `--samplers all` stands for; the others are held against the first."""


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
) -> dict[str, Any]:
    """Train every sampler with every model, share of the budget and seed; write compare.json.

    Parameters
    ----------
    settings
        As `bliss.train.resolve` takes them; the same for all.
    samplers
        Names, the first of which the others are held against; "bliss:exp3" chooses a policy.
    models
        Names of networks.
    seeds
        Of the runs, and of data that is drawn.
    shares
        Shares of the budget; the first must be 1.
    out
        The study's folder. What is finished there is not run again.
    target_f1
        Validation F1 whose time is reported; by default the largest that every run reached.
    """
    if list(shares[:1]) != [1.0] or any(not 0 < share <= 1 for share in shares):
        raise InputError(f"shares={list(shares)} must start with 1 and go down: 1,0.5,0.25.")
    cells, skipped = plan(settings, samplers, models, seeds, shares)
    folder = RunFolder(out)
    with folder.locked():
        outcomes = run_cells([cell for _, cell in cells], out / "runs", root, say, on_progress)
        grouped: dict[tuple[str, str, float], list[Outcome]] = {}
        for (key, _), one in zip(cells, outcomes, strict=True):
            grouped.setdefault(key, []).append(one)
        reached = [best_validation(one) for group in grouped.values() for one in group]
        target = min(reached) if target_f1 is None else target_f1
        summary = {
            "kind": "comparison",
            "dataset": cells[0][1].config.dataset,
            "command": command,
            "machine": machine(),
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "seeds": list(seeds),
            "target_f1": target,
            "rows": rows(grouped, samplers[0], target),
            "skipped": skipped,
        }
        folder.write_json("compare.json", summary)
    return summary


def plan(
    settings: Mapping[str, Any],
    samplers: Sequence[str],
    models: Sequence[str],
    seeds: Sequence[int],
    shares: Sequence[float],
) -> tuple[list[tuple[tuple[str, str, float], Cell]], list[dict[str, str]]]:
    """The runs by (model, sampler, share), and pairs that do not go together with the reason."""
    cells, skipped = [], []
    for model, sampler in product(models, samplers):
        checks.choice("models", model, MODELS)
        name, _, policy = sampler.partition(":")
        checks.choice("samplers", name, list(SAMPLERS))
        given = dict(settings) | {"model": model, "sampler": name}
        if policy:
            given["policy"] = policy
        try:
            whole = resolve(**given)
        except InputError as error:
            if len(samplers) == 1:
                raise
            skipped.append({"model": model, "sampler": sampler, "why": str(error)})
            continue
        for share in shares if SAMPLERS[name].unit != "none" else shares[:1]:
            for seed in seeds:
                config = shrunk(whole, given, share, seed)
                label = f"{model}-{sampler.replace(':', '-').replace('*', 'star')}"
                cell = Cell(f"{label}-{share:g}-{seed}", config)
                cells.append(((model, sampler, share), cell))
    if not cells:
        raise InputError(f"nothing can be compared: {skipped[0]['why']}")
    return cells, skipped


def shrunk(whole: TrainConfig, given: Mapping[str, Any], share: float, seed: int) -> TrainConfig:
    """The settings of one run; a share of 1 leaves the budgets to the recipe."""
    smaller: dict[str, Any] = {"seed": seed}
    if share != 1:
        smaller["budgets"] = tuple(max(1, round(share * budget)) for budget in whole.budgets)
    return resolve(**(dict(given) | smaller))


def rows(
    grouped: Mapping[tuple[str, str, float], Sequence[Outcome]], first: str, target: float
) -> list[dict[str, Any]]:
    """One row for each model, sampler and share of the budget."""
    found = []
    for (model, sampler, share), group in grouped.items():
        results = [one.result for one in group]
        row: dict[str, Any] = {
            "dataset": results[0]["dataset"],
            "model": model,
            "sampler": sampler,
            "policy": results[0]["policy"],
            "budget_share": share,
            "budgets": list(group[0].cell.config.budgets),
            "seeds": len(group),
        }
        for split in ("train_f1", "val_f1", "test_f1"):
            scores = [result[split] for result in results]
            row[split], row[f"{split}_std"] = mean_and_deviation(scores)
        rival = grouped.get((model, first, share), grouped.get((model, first, 1.0)))
        row |= paired(group, rival if sampler != first else None)
        row["step_ms"] = {
            part: mean(r["step_ms"][part] for r in results)
            for part in PARTS
            if all(part in r["step_ms"] for r in results)
        }
        row["nodes"] = mean(r["sampled"]["nodes"] for r in results)
        row["edges"] = mean(r["sampled"]["edges"] for r in results)
        row["peak_mb"] = max(r["peak_mb"] for r in results)
        row["seconds"] = mean(r["seconds"] for r in results)
        waits = [wait for one in group if (wait := seconds_to(one, target)) is not None]
        row["seconds_to_target"] = mean(waits) if waits else None
        row["reached"] = len(waits)
        row["curve"] = curve(group)
        found.append(row)
    return found


def paired(group: Sequence[Outcome], rival: Sequence[Outcome] | None) -> dict[str, float | None]:
    """Mean difference of test F1 over equal seeds, and the p-value of a paired t-test.

    No p-value with fewer than two seeds, or where all differences are equal.
    """
    nothing: dict[str, float | None] = {"difference": None, "p_value": None}
    if rival is None:
        return nothing
    theirs = {one.cell.config.seed: one.result["test_f1"] for one in rival}
    pairs = [
        (one.result["test_f1"], theirs[one.cell.config.seed])
        for one in group
        if one.cell.config.seed in theirs
    ]
    if not pairs:
        return nothing
    differences = [ours - other for ours, other in pairs]
    p_value = None
    if len(set(differences)) > 1:
        p_value = float(scipy.stats.ttest_rel(*zip(*pairs, strict=True)).pvalue)
    return {"difference": mean(differences), "p_value": p_value}


def best_validation(one: Outcome) -> float:
    """The largest validation F1 of a run."""
    return max(float(line["val_f1"]) for line in one.metrics)


def seconds_to(one: Outcome, target: float) -> float | None:
    """Seconds of training steps until validation F1 reached the target; None if never."""
    times = {line["step"]: float(line["seconds"]) for line in one.times}
    for line in one.metrics:
        if line["val_f1"] >= target:
            return times.get(line["step"])
    return None
