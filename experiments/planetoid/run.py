"""Claim: on Planetoid, BLISS reaches its published test F1 and is within a point of full batch.

`python -m experiments.planetoid.run --root DATA` trains every cell (data set, network, sampler,
seed) with the data set's recipe, adds each result to results.json, and rewrites README.md. Finished
cells are skipped, so the script can be stopped and continued. "full" is the same network and recipe
with all neighbours and all training nodes in one batch. "bliss" is what `bliss train` does by
default: evaluations survey the network. "bliss, no survey" learns from samples alone.
"""

from __future__ import annotations

import argparse
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
SEEDS = {"bliss": range(10), "bliss, no survey": range(10), "full": range(5)}
SAMPLERS = tuple(SEEDS)
PUBLISHED = {
    "cora": {"sage": 0.795, "gatv2": 0.813},
    "citeseer": {"sage": 0.58, "gatv2": 0.706},
    "pubmed": {"sage": 0.597, "gatv2": 0.731},
}
"""Test F1 of BLISS, mean of five seeds (table:performance_samplers of the paper)."""

Cell = tuple[str, str, str, int]  # data set, network, sampler, seed


class Run(records.Record, frozen=True, kw_only=True):
    """Result of one cell."""

    sampler: str
    result: RunResult


class Results(records.Record, frozen=True, kw_only=True):
    """results.json: all finished cells, in the order of their names."""

    runs: list[Run]


def main() -> None:
    """Run the missing cells and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--samplers", nargs="+", default=SAMPLERS, choices=SAMPLERS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    datasets = {name: load_dataset(name, arguments.root) for name in arguments.datasets}
    chosen = product(range(10), datasets, arguments.models, arguments.samplers)
    for seed, name, model, sampler in chosen:
        if seed in SEEDS[sampler] and (name, model, sampler, seed) not in finished():
            result = run(datasets[name], name, model, sampler, seed)
            add((name, model, sampler, seed), result)
            print(name, model, sampler, seed, f"{result.test_score:.3f}", flush=True)
    write_table()


def finished() -> dict[Cell, RunResult]:
    """Results of the finished cells."""
    runs = records.read(FILE, Results, "run it again").runs if FILE.exists() else []
    return {
        (one.result.dataset, one.result.model, one.sampler, one.result.seed): one.result
        for one in runs
    }


def add(cell: Cell, result: RunResult) -> None:
    """Add a result to the file, which another process may have changed meanwhile."""
    runs = finished() | {cell: result}
    records.write(
        FILE, Results(runs=[Run(sampler=key[2], result=runs[key]) for key in sorted(runs)])
    )


def run(dataset: Dataset, name: str, model: str, sampler: str, seed: int) -> RunResult:
    """Train one cell in a temporary folder."""
    options = {"batch_size": len(dataset.splits["train"])} if sampler == "full" else {}
    kind, _, rest = sampler.partition(", ")
    chosen = {"dataset": name, "model": model, "sampler": kind, "survey": not rest}
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
    lines = [
        f"| data | network | {' | '.join(SAMPLERS)} | bliss - full | survey - none | published |",
        "|---" * (5 + len(SAMPLERS)) + "|",
    ]
    done = finished()
    for name, model in product(DATASETS, MODELS):
        runs = {
            sampler: [
                done[name, model, sampler, seed].test_score
                for seed in seeds
                if (name, model, sampler, seed) in done
            ]
            for sampler, seeds in SEEDS.items()
        }
        cells = [summary(scores, len(SEEDS[sampler])) for sampler, scores in runs.items()]
        apart = [difference(runs, "bliss", "full"), difference(runs, "bliss", "bliss, no survey")]
        shown = [name, model, *cells, *apart, f"{PUBLISHED[name][model]:.3f}"]
        lines.append("| " + " | ".join(shown) + " |")
    return lines


def summary(scores: list[float], seeds: int) -> str:
    """Mean and standard deviation, and the number of seeds if some are missing."""
    if not scores:
        return "not run"
    spread = f" ± {stdev(scores):.3f}" if len(scores) > 1 else ""
    missing = "" if len(scores) == seeds else f" ({len(scores)} of {seeds} seeds)"
    return f"{mean(scores):.3f}{spread}{missing}"


def difference(runs: dict[str, list[float]], one: str, other: str) -> str:
    """Difference of two samplers in points; empty until both have results."""
    if not runs[one] or not runs[other]:
        return ""
    return f"{100 * (mean(runs[one]) - mean(runs[other])):+.1f}"


if __name__ == "__main__":
    main()
