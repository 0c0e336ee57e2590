"""Reruns of the paper's tables and figures, with each published number beside ours.

Settings and published numbers are in paper.json, in this folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import msgspec

from bliss import checks
from bliss.data import missing_files
from bliss.studies.comparison.runs import DataCache, Outcome, StudyProgress, StudyRun, run_each
from bliss.studies.curves import average_curve, mean_and_deviation
from bliss.studies.provenance import machine
from bliss.train import RunFolder, TrainConfig, resolve
from experiments.paper import record
from experiments.paper.complexity import measure_complexity
from experiments.paper.record import (
    TABLES,
    Missing,
    Pace,
    PresetCurve,
    Reproduction,
    Score,
    Tables,
)

FACTS = Path(__file__).parent / "paper.json"
SPLITS = ("train", "val", "test")


class Key(NamedTuple):
    """Key of a row: the settings that its runs share. `model` is "gat" or "sage"."""

    preset: str
    dataset: str
    model: str
    sampler: str


def paper() -> dict[str, Any]:
    """The paper's settings and published numbers."""
    facts: dict[str, Any] = json.loads(FACTS.read_text(encoding="utf-8"))
    return facts


def preset_config(
    preset: str, dataset: str, model: str, sampler: str, seed: int, steps: int | None = None
) -> TrainConfig:
    """The settings of one run; `model` is "gat" or "sage", as the paper names them."""
    facts = paper()
    chosen = facts["presets"][preset]
    sizes = dict(facts["datasets"][dataset])
    name, kind = sizes.pop("name"), facts["models"][model]
    given = (
        sizes
        | chosen["all"]
        | chosen["models"][kind]
        | chosen["datasets"].get(dataset, {})
        | chosen["samplers"][sampler]
        | {"dataset": name, "model": kind, "sampler": sampler, "seed": seed}
    )
    if steps is not None:
        given["steps"] = steps
    return resolve(**given) if chosen["uses_recipe"] else TrainConfig.of(**given)


def reproduce(
    out: Path,
    *,
    presets: Sequence[str] = ("paper", "ours"),
    tables: Sequence[str] = TABLES,
    datasets: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    seeds: int = 5,
    steps: int | None = None,
    root: Path | None = None,
    command: str = "",
    say: Callable[[str], None] = print,
    on_progress: Callable[[StudyProgress], None] | None = None,
) -> Reproduction:
    """Run the missing experiments of the paper and write results.json.

    Parameters
    ----------
    out
        Folder of the study. Runs that are finished there are not repeated. Those of
        `tables=["time"]` are kept apart, because they need an idle machine and can be shorter.
    presets
        "paper" (the released code's constants, schedule and estimator) and "ours" (our recipes).
    tables
        "f1", "time" and "variance" (complexity and variance, by measurement).
    datasets, models
        Names as in the paper; all by default. Data sets without files are listed as missing.
    seeds
        Number of runs of each setting.
    steps
        Training steps; by default the published number.
    """
    facts = paper()
    names = list(datasets or facts["datasets"])
    kinds = list(models or facts["models"])
    for field, given, known in (
        ("preset", presets, facts["presets"]),
        ("tables", tables, TABLES),
        ("datasets", names, facts["datasets"]),
        ("models", kinds, facts["models"]),
    ):
        for name in given:
            checks.choice(field, name, list(known))
    checks.whole("seeds", seeds, least=1)
    missing = [
        Missing(dataset=name, remedy=remedy)
        for name in names
        if (remedy := missing_files(facts["datasets"][name]["name"], root))
    ]
    there = [name for name in names if name not in {data.dataset for data in missing}]
    for data in missing:
        say(f"{data.dataset} is left out: {data.remedy}")
    keys = [Key(*names) for names in product(presets, there, kinds, ("bliss", "pladies"))]
    runs = {
        (key, seed): StudyRun("/".join((*key, str(seed))), preset_config(*key, seed, steps))
        for key, seed in product(keys, range(seeds))
    }
    stored, place = record.reproduction(out), out / "runs"
    if set(tables) == {"time"}:
        stored, place = record.times(out), place / "times"
    folder, started = RunFolder(out), perf_counter()
    with folder.locked():
        wanted = list(runs.values()) if {"f1", "time"} & set(tables) else []
        by_name = run_each(wanted, place, DataCache(root), say, on_progress)
        outcomes = [by_name[run.name] for run in wanted]
        grouped: dict[Key, list[Outcome]] = {}
        for (key, _), outcome in zip(runs, outcomes, strict=False):
            grouped.setdefault(key, []).append(outcome)
        found = Reproduction(
            command=command,
            machine=machine(),
            date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            presets=list(presets),
            tables=Tables(
                f1=f1_table(grouped, facts["f1"]) if "f1" in tables else [],
                time=time_table(grouped, facts["time"]) if "time" in tables else [],
                variance=measure_complexity(facts["complexity"], say)
                if "variance" in tables
                else [],
            ),
            figures=[
                PresetCurve(
                    **key._asdict(),
                    **msgspec.structs.asdict(average_curve([run.metrics for run in group])),
                )
                for key, group in grouped.items()
            ],
            missing=missing,
            seconds=perf_counter() - started,  # evaluated last
        )
        stored.write(found)
    return found


def f1_table(grouped: Mapping[Key, Sequence[Outcome]], published: Mapping[str, Any]) -> list[Score]:
    """F1 by split, ours and the paper's."""
    rows = []
    for (key, group), split in product(grouped.items(), SPLITS):
        scores = [getattr(outcome.result, f"{split}_score") for outcome in group]
        ours, deviation = mean_and_deviation(scores)
        theirs, their_deviation = published[key.dataset][key.sampler][split][key.model]
        row = Score(
            **key._asdict(),
            split=split,
            ours=ours,
            ours_std=deviation,
            published=theirs,
            published_std=their_deviation,
            difference=ours - theirs,
            seeds=len(group),
            scores=scores,
        )
        rows.append(row)
    return rows


def time_table(
    grouped: Mapping[Key, Sequence[Outcome]], published: Mapping[str, Any]
) -> list[Pace]:
    """Seconds of a training step: the median of each run, then mean and deviation over runs."""
    rows = []
    for key, group in grouped.items():
        ours, deviation = mean_and_deviation(run.result.step_ms["total"] / 1e3 for run in group)
        theirs, their_deviation = published[key.dataset][key.sampler][key.model]
        row = Pace(
            **key._asdict(),
            ours=ours,
            ours_std=deviation,
            published=theirs,
            published_std=their_deviation,
            ratio=ours / theirs,
        )
        rows.append(row)
    return rows
