"""Claim: on Planetoid, BLISS reaches its published test F1 and is within a point of full batch.

`python -m experiments.planetoid.run --root DATA` trains every cell (data set, network, sampler,
seed) with the data set's recipe, writes each result to a JSON file in results/, and rewrites
README.md. Finished cells are skipped, so the script can be stopped and continued. "full" is the
same network and recipe with all neighbours and all training nodes in one batch. The bandit learns
from samples alone, without surveys.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from bliss.data import Dataset, load_dataset
from bliss.storage import records
from bliss.studies.runs import processor
from bliss.train import RunResult, Trainer, resolve

HERE = Path(__file__).parent
DATASETS = ("cora", "citeseer", "pubmed")
MODELS = ("sage", "gatv2")
SAMPLERS = ("bliss", "full")
SEEDS = range(5)


def main() -> None:
    """Run the missing cells and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--samplers", nargs="+", default=SAMPLERS, choices=SAMPLERS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    (HERE / "results").mkdir(exist_ok=True)
    for name in arguments.datasets:
        dataset = load_dataset(name, arguments.root)
        for sampler, model, seed in product(arguments.samplers, arguments.models, SEEDS):
            path = cell(name, model, sampler, seed)
            if not path.exists():
                result = run(dataset, name, model, sampler, seed)
                records.write(path, result)
                print(path.stem, f"test F1 {result.test_score:.3f}", flush=True)
    write_table()


def cell(dataset: str, model: str, sampler: str, seed: int) -> Path:
    """Path of a cell's result."""
    return HERE / "results" / f"{dataset}-{model}-{sampler}-{seed}.json"


def run(dataset: Dataset, name: str, model: str, sampler: str, seed: int) -> RunResult:
    """Train one cell in a temporary folder."""
    options = {"batch_size": len(dataset.splits["train"])} if sampler == "full" else {}
    chosen = {"dataset": name, "model": model, "sampler": sampler, "survey": False}
    config = resolve(**chosen, seed=seed, **options)
    with tempfile.TemporaryDirectory() as folder:
        return Trainer(config, dataset, Path(folder) / "run", print).run()


def write_table() -> None:
    """Write README.md: notes.md and a table of the results."""
    published = json.loads((HERE / "published.json").read_text(encoding="utf-8"))
    lines = [
        (HERE / "notes.md").read_text(encoding="utf-8"),
        f"One thread of {processor()}, torch {torch.__version__}.",
        "",
        "| data | network | BLISS | full batch | difference | published | s per run |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, model in product(DATASETS, MODELS):
        found = {s: results(name, model, s) for s in SAMPLERS}
        seconds = [r["seconds"] for r in found["bliss"]]
        lines.append(
            f"| {name} | {model} | {summary(found['bliss'])} | {summary(found['full'])} | "
            f"{difference(found)} | {published[name][model]:.3f} | "
            f"{mean(seconds):.0f} |"
            if seconds
            else f"| {name} | {model} | not run | not run | | {published[name][model]:.3f} | |"
        )
    (HERE / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def results(name: str, model: str, sampler: str) -> list[dict[str, Any]]:
    """Results of the finished seeds of a cell."""
    paths = [cell(name, model, sampler, seed) for seed in SEEDS]
    return [json.loads(p.read_text(encoding="utf-8")) for p in paths if p.exists()]


def summary(found: list[dict[str, Any]]) -> str:
    """Mean and standard deviation, and the number of seeds if some are missing."""
    if not found:
        return "not run"
    scores = [r["test_score"] for r in found]
    spread = f" ± {stdev(scores):.3f}" if len(scores) > 1 else ""
    missing = "" if len(scores) == len(SEEDS) else f" ({len(scores)} of {len(SEEDS)} seeds)"
    return f"{mean(scores):.3f}{spread}{missing}"


def difference(found: dict[str, list[dict[str, Any]]]) -> str:
    """BLISS minus full batch in points; empty until both are complete."""
    if any(len(rows) < len(SEEDS) for rows in found.values()):
        return ""
    bliss, full = (mean(r["test_score"] for r in found[s]) for s in SAMPLERS)
    return f"{100 * (bliss - full):+.1f}"


if __name__ == "__main__":
    main()
