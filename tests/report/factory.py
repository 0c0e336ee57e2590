"""Made-up results in folders, plausible and the same in every test."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from bliss.storage.digests import sealed
from bliss.storage.records import Log
from bliss.train import TrainConfig
from bliss.train.folder import RunFolder, settings_digest
from bliss.train.results import Evaluation

MACHINE = {
    "processor": "Example 9000",
    "cores": 2,
    "threads": 1,
    "torch": "2.13.0",
    "python": "3.11.7",
}
PARTS = ("sample", "gather", "forward", "backward", "update")
SAMPLERS = (("pladies", "static"), ("ladies", "ladies"), ("bliss", "exp3"), ("bliss", "node"))


def wobble(*numbers: float) -> float:
    """A number in [-1, 1] that only looks random."""
    return math.sin(12.9898 * sum((n + 1) * x for n, x in enumerate(numbers)) + 1)


def times(quality: float) -> dict[str, float]:
    parts = dict(zip(PARTS, (1.7 + quality, 0.42, 8.7, 10.6, 0.3 * quality), strict=True))
    return parts | {"total": sum(parts.values())}


def curve(quality: float, steps: int = 300, every: int = 20) -> dict[str, list[float]]:
    step = list(range(every, steps + 1, every))
    score = [0.9 + 0.01 * quality - 0.5 * math.exp(-s / (90 - 12 * quality)) for s in step]
    return {
        "step": step,
        "val_score": [y + 0.004 * wobble(s, quality) for s, y in zip(step, score, strict=True)],
        "val_score_std": [0.012 + 0.01 * math.exp(-s / 80) for s in step],
        "loss": [0.5 + 2 * math.exp(-s / (70 - 8 * quality)) for s in step],
        "loss_std": [0.04 + 0.1 * math.exp(-s / 60) for s in step],
        "seconds": [s * (0.02 + 0.004 * quality) for s in step],
    }


def write(path: Path, values: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values, indent=1), encoding="utf-8")
    return path


def run(folder: Path, finished: bool = True, **changes: Any) -> Path:
    config = TrainConfig.of(**{"budgets": (2048, 1024, 512)} | changes)
    write(folder / "config.json", config.to_dict())
    learnt = curve(1 + 0.2 * config.seed, steps=300 if finished else 180)
    lines = [
        {"step": s, "loss": loss, "metric": "f1", "train_score": score + 0.02}
        | {"val_score": score}
        for s, loss, score in zip(learnt["step"], learnt["loss"], learnt["val_score"], strict=True)
    ]
    owner = settings_digest(config)
    log = Log(folder / "metrics.jsonl", Evaluation, lambda: owner)
    log.rewrite(Evaluation(**line) for line in lines)
    if finished:
        result = msgspec.to_builtins(RunFolder(folder).identity()) | {
            "steps": 300,
            "best_step": 280,
            "metric": "f1",
            "train_score": 0.9312345,
            "val_score": 0.9023456,
            "test_score": 0.8976543 + 0.001 * config.seed,
            "seconds": 12.65,
            "step_ms": times(1.0),
            "sampled": {"nodes": 3312.4, "edges": 21834.9},
            "peak_mb": 812.0,
            "types": [[f"type {config.data.dataset}", "5 nodes"]],
        }
        write(folder / "result.json", sealed(result, after=owner))
    return folder


def alter(path: Path, change: Callable[[Any], Any]) -> None:
    """Change the values in the JSON files of a study or run, and bring digests up to date.

    Of the settings of a run, only the data set changes: others would be refused.
    """
    files = [path] if path.is_file() else sorted(path.glob("*.json"))
    found = {file: json.loads(file.read_text()) for file in files}
    changed = {file: change(values) for file, values in found.items()}
    if (config := path / "config.json") in found:
        lines = RunFolder(path).metrics()
        settings = TrainConfig.from_dict(found[config])
        settings = settings.with_settings(dataset=changed[config]["data"]["dataset"])
        changed[config], owner = settings.to_dict(), settings_digest(settings)
        result = changed[path / "result.json"] | {"steps": lines[-1].step}
        del result["digest"]
        changed[path / "result.json"] = sealed(result, after=owner)
        Log(path / "metrics.jsonl", Evaluation, lambda: owner).rewrite(lines)
    for file, values in changed.items():
        write(file, values)


def comparison(folder: Path, models: tuple[str, ...] = ("sage", "gatv2"), **changes: Any) -> Path:
    rows = []
    for model in models:
        for quality, (sampler, policy) in enumerate(SAMPLERS):
            for share in (1.0, 0.5, 0.25, 0.125):
                score = 0.884 + 0.004 * quality - (0.06 - 0.012 * quality) * (1 / share - 1) / 7
                rows.append(
                    {
                        "dataset": changes.get("dataset", "synthetic"),
                        "model": model,
                        "sampler": sampler,
                        "policy": policy,
                        "budget_share": share,
                        "budgets": [int(b * share) for b in (2048, 1024, 512)],
                        "seeds": 5,
                        "train_score": score + 0.03,
                        "train_score_std": 0.0011,
                        "val_score": score + 0.005,
                        "val_score_std": 0.0021,
                        "test_score": score,
                        "test_score_std": 0.0032 + 0.002 * (1 - share),
                        "difference": None if quality == 0 else 0.004 * quality,
                        "p_value": None if quality == 0 else (0.21, 0.034, 0.0004)[quality - 1],
                        "step_ms": times(quality),
                        "nodes": 3300 * share + 11 * quality,
                        "edges": 21800 * share + 70 * quality,
                        "peak_mb": 800 + 10 * quality,
                        "seconds": 12.0 + quality,
                        "seconds_to_target": None if quality == 1 else 7.5 - quality,
                        "reached": 0 if quality == 1 else 5,
                        "curve": curve(quality),
                        "unit": "layer",
                        "batch_size": 256,
                        "estimator": "hajek",
                        "lr": 0.002,
                        "dropout": 0.1,
                        "match": 1 + 0.01 * quality,
                        "scores": [score] * 5,
                        "test_score_interval": 0.0040,
                        "rank": (3, 3, 1, 1)[quality],
                        "is_tied": True,
                        "search": {
                            "trials": [{"lr": 0.002, "dropout": 0.1, "val_score": 0.9}],
                            "seconds": 31.0,
                        },
                    }
                )
    values = {
        "kind": "comparison",
        "dataset": "synthetic",
        "command": "bliss compare --dataset synthetic --seeds 5 --shares 1,0.5,0.25,0.125",
        "machine": MACHINE,
        "date": "2026-02-03",
        "seeds": [0, 1, 2, 3, 4],
        "metric": "f1",
        "target_score": 0.87,
        "match": "nodes",
        "sizes": "",
        "estimator": "hajek",
        "load": 0.02,
        "graph": {"nodes": 20000, "edges": 561311, "features": 64, "classes": 8},
        "rows": rows,
        "skipped": [],
        "notes": [],
    }
    write(folder / "compare.json", values | changes)
    return folder


def variance(folder: Path, **changes: Any) -> Path:
    limits, budgets = (0.485, 0.69, 0.92), (2048, 1024, 512)
    ends = {"exp3": (0.95, 0.98, 1.0), "node": (0.491, 0.715, 0.949)}
    history = []
    for step in (1, *range(20, 301, 20)):
        layers = []
        for layer, limit in enumerate(limits):
            pladies = 40.0 + 10 * layer + wobble(step, layer)
            policies = {
                name: pladies * (end[layer] + (1 - end[layer]) * math.exp(-step / 50))
                for name, end in ends.items()
            }
            layers.append(
                {"pladies": pladies, "limit": pladies * limit, "policies": policies}
                | {"weighted_pladies": 3.0, "weighted_limit": 2.0}
                | {"weighted_policies": dict.fromkeys(ends, 2.5)}
                | {"limits": dict.fromkeys(ends, pladies * limit)}
                | {"weighted_limits": dict.fromkeys(ends, 2.0)}
            )
        history.append({"step": step, "layers": layers})
    values = {
        "kind": "variance",
        "dataset": "synthetic",
        "model": "sage",
        "budgets": list(budgets),
        "batch_size": 256,
        "steps": 300,
        "seed": 0,
        "layers": [
            {
                "budget": budget,
                "limit_over_pladies": limit,
                "weighted_limit_over_pladies": limit + 0.01,
                "policies": {
                    name: {
                        "over_pladies": end[layer],
                        "over_limit": end[layer] / limit,
                        "weighted_over_pladies": end[layer] + 0.05,
                        "weighted_over_limit": (end[layer] + 0.05) / (limit + 0.01),
                    }
                    for name, end in ends.items()
                },
            }
            for layer, (budget, limit) in enumerate(zip(budgets, limits, strict=True))
        ],
        "history": history,
        "gradient_error": {
            name: {"mean": mean, "low": mean - 0.01, "high": mean + 0.01}
            for name, mean in {"pladies": 0.4, "exp3": 0.38, "node": 0.2}.items()
        },
    }
    write(folder / "variance.json", values | changes)
    return folder


def every_kind(folder: Path) -> dict[str, list[Path]]:
    """Folders of each kind, and all of them together."""
    seeds = [run(folder / f"seed-{seed}", seed=seed) for seed in (0, 1, 2)]
    other = run(folder / "other", sampler="pladies", policy="static")
    unfinished = run(folder / "stopped", finished=False)
    alone = variance(run(folder / "alone"))
    compared = variance(comparison(folder / "compared"))
    kinds = {
        "run": [alone],
        "runs": [*seeds, other, unfinished],
        "comparison": [compared],
        "variance": [variance(folder / "variance") / "variance.json"],
    }
    return kinds | {"together": [path for paths in kinds.values() for path in paths]}
