"""Claim: on PPI, BLISS is within half a point of full batch at equal steps.

`python -m experiments.ppi.run --root DATA` trains GraphSAGE with PPI's recipe: with BLISS, with
PLADIES, with all neighbours of the same batches, and with all training nodes in one batch. The last
is run with the recipe's dropout and with dropout 0.1, which suits full batch better. Each result is
written to a JSON file in results/, and README.md is rewritten. Finished runs are skipped.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import torch

from bliss.data import Dataset, load_dataset
from bliss.storage import records
from bliss.studies.curves import mean_and_deviation
from bliss.studies.provenance import machine
from bliss.train import RunResult, Trainer, resolve

HERE = Path(__file__).parent
KINDS = {
    "bliss": "BLISS",
    "pladies": "PLADIES",
    "neighbours": "the same batches, all neighbours",
    "full": "all training nodes in one batch",
    "full-dropout": "the same, dropout 0.1",
}


def main() -> None:
    """Run the missing cells and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    parser.add_argument("--kinds", nargs="+", default=tuple(KINDS), choices=KINDS)
    parser.add_argument("--seeds", nargs="+", type=int, default=(0, 1, 2))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    (HERE / "results").mkdir(exist_ok=True)
    dataset = load_dataset("ppi", arguments.root)
    for seed, kind in product(arguments.seeds, arguments.kinds):
        path = HERE / "results" / f"{kind}-{seed}.json"
        if not path.exists():
            result = run(dataset, kind, seed)
            records.write(path, result)
            print(path.stem, f"test F1 {result.test_score:.4f}", flush=True)
    write_table()


def run(dataset: Dataset, kind: str, seed: int) -> RunResult:
    """Train one run in a temporary folder."""
    everything = len(dataset.splits["train"])
    options: dict[str, Any] = {
        "bliss": {"sampler": "bliss"},
        "pladies": {"sampler": "pladies", "estimator": "hajek"},
        "neighbours": {"sampler": "full"},
        "full": {"sampler": "full", "batch_size": everything},
        "full-dropout": {"sampler": "full", "batch_size": everything, "dropout": 0.1},
    }[kind]
    config = resolve(dataset="ppi", model="sage", seed=seed, survey=False, **options)
    with tempfile.TemporaryDirectory() as folder:
        return Trainer(config, dataset, Path(folder) / "run", print).run()


def write_table() -> None:
    """Write README.md: notes.md and a table of the results."""
    lines = [
        (HERE / "notes.md").read_text(encoding="utf-8"),
        "| trained with | test F1 | seeds | nodes per step | edges per step |",
        "|---|---|---|---|---|",
    ]
    for kind, title in KINDS.items():
        paths = sorted((HERE / "results").glob(f"{kind}-[0-9]*.json"))
        found = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        if not found:
            lines.append(f"| {title} | not run | | | |")
            continue
        score, deviation = mean_and_deviation(r["test_score"] for r in found)
        spread = "" if deviation is None else f" ± {deviation:.4f}"
        means = [
            sum(values) / len(found)
            for values in (
                [r["sampled"]["nodes"] for r in found],
                [r["sampled"]["edges"] for r in found],
            )
        ]
        shown = " | ".join(f"{value:,.0f}" for value in means)
        lines.append(f"| {title} | {score:.4f}{spread} | {len(found)} | {shown} |")
    facts = machine()
    lines.append(f"\nOne thread of {facts.processor}, torch {facts.torch}.")
    (HERE / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
