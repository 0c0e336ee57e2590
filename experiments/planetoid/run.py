"""Claim: on Planetoid, BLISS reaches its published test F1 and is within a point of full batch.

`python -m experiments.planetoid.run --root DATA` trains every cell (data set, network, sampler,
seed) with the data set's recipe, adds each result to results.json, and rewrites README.md. Finished
cells are skipped, so the script can be stopped and continued. "full" is the same network and recipe
with all neighbours and all training nodes in one batch. The bandit learns from samples alone,
without surveys.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from itertools import product
from pathlib import Path
from statistics import mean, stdev

import torch

from bliss.data import Dataset, load_dataset
from bliss.storage import records
from bliss.studies.provenance import processor
from bliss.train import RunResult, Trainer, resolve

HERE = Path(__file__).parent
FILE = HERE / "results.json"
DATASETS = ("cora", "citeseer", "pubmed")
MODELS = ("sage", "gatv2")
SAMPLERS = ("bliss", "full")
SEEDS = range(5)

Cell = tuple[str, str, str, int]  # data set, network, sampler, seed


class Results(records.Record, frozen=True, kw_only=True):
    """results.json: all finished cells, in the order of their names."""

    runs: list[RunResult]


def main() -> None:
    """Run the missing cells and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--samplers", nargs="+", default=SAMPLERS, choices=SAMPLERS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.datasets:
        dataset = load_dataset(name, arguments.root)
        for sampler, model, seed in product(arguments.samplers, arguments.models, SEEDS):
            if (name, model, sampler, seed) not in finished():
                result = run(dataset, name, model, sampler, seed)
                add(result)
                print(*cell(result), f"test F1 {result.test_score:.3f}", flush=True)
    write_table()


def cell(result: RunResult) -> Cell:
    """The cell of a result."""
    return result.dataset, result.model, result.sampler, result.seed


def finished() -> dict[Cell, RunResult]:
    """Results of the finished cells."""
    runs = records.read(FILE, Results, "run it again").runs if FILE.exists() else []
    return {cell(result): result for result in runs}


def add(result: RunResult) -> None:
    """Add a result to the file, which another process may have changed meanwhile."""
    runs = finished() | {cell(result): result}
    records.write(FILE, Results(runs=[runs[key] for key in sorted(runs)]))


def run(dataset: Dataset, name: str, model: str, sampler: str, seed: int) -> RunResult:
    """Train one cell in a temporary folder."""
    options = {"batch_size": len(dataset.splits["train"])} if sampler == "full" else {}
    chosen = {"dataset": name, "model": model, "sampler": sampler, "survey": False}
    config = resolve(**chosen, seed=seed, **options)
    with tempfile.TemporaryDirectory() as folder:
        return Trainer(config, dataset, Path(folder) / "run", print).run()


def write_table() -> None:
    """Write README.md: notes.md and a table of the results."""
    lines = [
        (HERE / "notes.md").read_text(encoding="utf-8"),
        f"One thread of {processor()}, torch {torch.__version__}.",
        "",
        *table(),
    ]
    (HERE / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def table() -> list[str]:
    """Lines of the table, a row for each data set and network."""
    published = json.loads((HERE / "published.json").read_text(encoding="utf-8"))
    lines = [
        "| data | network | BLISS | full batch | difference | published | s per run |",
        "|---|---|---|---|---|---|---|",
    ]
    done = finished()
    for name, model in product(DATASETS, MODELS):
        keys = {sampler: [(name, model, sampler, seed) for seed in SEEDS] for sampler in SAMPLERS}
        runs = {sampler: [done[k] for k in keys[sampler] if k in done] for sampler in SAMPLERS}
        seconds = [result.seconds for result in runs["bliss"]]
        lines.append(
            f"| {name} | {model} | {summary(runs['bliss'])} | {summary(runs['full'])} | "
            f"{difference(runs)} | {published[name][model]:.3f} | "
            f"{mean(seconds):.0f} |"
            if seconds
            else f"| {name} | {model} | not run | not run | | {published[name][model]:.3f} | |"
        )
    return lines


def summary(runs: list[RunResult]) -> str:
    """Mean and standard deviation, and the number of seeds if some are missing."""
    if not runs:
        return "not run"
    scores = [result.test_score for result in runs]
    spread = f" ± {stdev(scores):.3f}" if len(scores) > 1 else ""
    missing = "" if len(scores) == len(SEEDS) else f" ({len(scores)} of {len(SEEDS)} seeds)"
    return f"{mean(scores):.3f}{spread}{missing}"


def difference(runs: dict[str, list[RunResult]]) -> str:
    """BLISS minus full batch in points; empty until both are complete."""
    if any(len(results) < len(SEEDS) for results in runs.values()):
        return ""
    bliss, full = (mean(result.test_score for result in runs[s]) for s in SAMPLERS)
    return f"{100 * (bliss - full):+.1f}"


if __name__ == "__main__":
    main()
