"""Claim: the variance of the node bandit is within a few percent of the limit.

`python -m experiments.variance.run --root DATA` runs the study of `bliss variance` for every data
set and network, writes each result to a JSON file in results/, and rewrites README.md. Finished
studies are skipped.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
import torch

from bliss.data import load_dataset
from bliss.studies import VarianceStudy
from bliss.studies.runs import machine
from bliss.train import resolve

HERE = Path(__file__).parent
DATASETS = ("ppi", "cora", "pubmed", "physics")
MODELS = ("sage", "gatv2")
POLICIES = ("static", "exp3", "exp3-released", "exp3-scale-free", "node")
SETTINGS: dict[str, dict[str, Any]] = {
    "ppi": {"budgets": (1024, 512, 256), "batch_size": 128, "steps": 300},
    "physics": {"budgets": (1024, 512, 256), "batch_size": 128, "steps": 300},
    "cora": {"steps": 300},
    "pubmed": {"steps": 300},
}


def main() -> None:
    """Run the missing studies and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    (HERE / "results").mkdir(exist_ok=True)
    for name in arguments.datasets:
        for model in arguments.models:
            path = HERE / "results" / f"{name}-{model}.json"
            if path.exists():
                continue
            config = resolve(
                dataset=name, model=model, sampler="pladies", patience=0, **SETTINGS[name]
            )
            started = perf_counter()
            study = VarianceStudy(config, load_dataset(name, arguments.root), POLICIES, every=30)
            found = msgspec.to_builtins(study.run())
            found |= {
                "machine": msgspec.to_builtins(machine()),
                "seconds": perf_counter() - started,
            }
            path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(path.stem, [layer["policies"]["node"] for layer in found["layers"]], flush=True)
    write_table()


def write_table() -> None:
    """Write README.md: notes.md and a table of the results."""
    lines = [(HERE / "notes.md").read_text(encoding="utf-8")]
    lines.append("| data | network | layer | budget | limit | " + " | ".join(POLICIES[1:]) + " |")
    lines.append("|---" * (5 + len(POLICIES[1:])) + "|")
    seconds = 0.0
    for path in sorted((HERE / "results").glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        seconds += found["seconds"]
        for number, layer in enumerate(found["layers"], start=1):
            cells = [
                f"{ratios['over_pladies']:.3f} ({ratios['over_limit']:.3f})"
                for name, ratios in layer["policies"].items()
                if name != "static"
            ]
            place = f"| {found['dataset']} | {found['model']} | {number} | {layer['budget']} "
            lines.append(f"{place}| {layer['limit_over_pladies']:.3f} | {' | '.join(cells)} |")
    facts = machine()
    lines.append(
        f"\n{seconds / 60:.0f} minutes in total, one thread of {facts.processor}, "
        f"torch {facts.torch}."
    )
    (HERE / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
