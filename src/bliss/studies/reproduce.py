"""The paper's tables and figures, run anew, each of our numbers beside the published one.

Settings and published numbers stand in paper.json beside this file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from importlib import resources
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

from bliss import checks
from bliss.data import missing_files
from bliss.studies.complexity import measure_complexity
from bliss.studies.runs import (
    Cell,
    Outcome,
    Standing,
    curve,
    machine,
    mean_and_deviation,
    run_cells,
)
from bliss.train import RunFolder, TrainConfig, resolve

TABLES = ("f1", "time", "variance")
SPLITS = ("train", "val", "test")

Key = tuple[str, str, str, str]  # preset, data set, model as the paper names it, sampler


def paper() -> dict[str, Any]:
    """What the paper states and how it was run."""
    file = resources.files("bliss.studies") / "paper.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


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
    return resolve(**given) if chosen["uses_recipe"] else TrainConfig.from_dict(given)


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
    on_progress: Callable[[Standing], None] | None = None,
) -> dict[str, Any]:
    """Run what is missing of the paper's experiments and write reproduce.json.

    Parameters
    ----------
    out
        The study's folder. What is finished there is not run again.
    presets
        "paper" (the released code's constants, schedule and estimator) and "ours" (our recipes).
    tables
        "f1", "time" and "variance" (complexity and variance, by measurement).
    datasets, models
        Names as the paper has them; all by default. Data whose files are not there is listed.
    seeds
        Runs of each cell.
    steps
        Training steps, where not the published number.
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
        for one in given:
            checks.choice(field, one, list(known))
    checks.whole("seeds", seeds, least=1)
    missing = [
        {"dataset": name, "remedy": remedy}
        for name in names
        if (remedy := missing_files(facts["datasets"][name]["name"], root))
    ]
    there = [name for name in names if name not in {one["dataset"] for one in missing}]
    for one in missing:
        say(f"{one['dataset']} is left out: {one['remedy']}")
    keys: list[Key] = list(product(presets, there, kinds, ("bliss", "pladies")))
    cells = {
        (key, seed): Cell("/".join((*key, str(seed))), preset_config(*key, seed, steps))
        for key, seed in product(keys, range(seeds))
    }
    folder, started = RunFolder(out), perf_counter()
    with folder.locked():
        wanted = list(cells.values()) if {"f1", "time"} & set(tables) else []
        outcomes = run_cells(wanted, out / "runs", root, say, on_progress)
        grouped: dict[Key, list[Outcome]] = {}
        for (key, _), one in zip(cells, outcomes, strict=False):
            grouped.setdefault(key, []).append(one)
        found: dict[str, Any] = {}
        if "f1" in tables:
            found["f1"] = f1_table(grouped, facts["f1"])
        if "time" in tables:
            found["time"] = time_table(grouped, facts["time"])
        if "variance" in tables:
            found["variance"] = measure_complexity(facts["complexity"], say)
        summary = {
            "kind": "reproduction",
            "command": command,
            "machine": machine(),
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "seconds": perf_counter() - started,
            "presets": list(presets),
            "tables": found,
            "figures": [
                dict(zip(("preset", "dataset", "model", "sampler"), key, strict=True))
                | curve(group)
                for key, group in grouped.items()
            ],
            "missing": missing,
        }
        folder.write_json("reproduce.json", summary)
    return summary


def f1_table(
    grouped: Mapping[Key, Sequence[Outcome]], published: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """F1 by split, ours and the paper's."""
    rows = []
    for (preset, dataset, model, sampler), group in grouped.items():
        for split in SPLITS:
            scores = [one.result[f"{split}_f1"] for one in group]
            ours, deviation = mean_and_deviation(scores)
            theirs, their_deviation = published[dataset][sampler][split][model]
            rows.append(
                {
                    "preset": preset,
                    "dataset": dataset,
                    "model": model,
                    "sampler": sampler,
                    "split": split,
                    "ours": ours,
                    "ours_std": deviation,
                    "published": theirs,
                    "published_std": their_deviation,
                    "difference": ours - theirs,
                    "seeds": len(group),
                    "scores": scores,
                }
            )
    return rows


def time_table(
    grouped: Mapping[Key, Sequence[Outcome]], published: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Seconds of a training step: the median of each run, then mean and deviation over runs."""
    rows = []
    for (preset, dataset, model, sampler), group in grouped.items():
        ours, deviation = mean_and_deviation(one.result["step_ms"]["total"] / 1e3 for one in group)
        theirs, their_deviation = published[dataset][sampler][model]
        rows.append(
            {
                "preset": preset,
                "dataset": dataset,
                "model": model,
                "sampler": sampler,
                "ours": ours,
                "ours_std": deviation,
                "published": theirs,
                "published_std": their_deviation,
                "ratio": ours / theirs,
            }
        )
    return rows
