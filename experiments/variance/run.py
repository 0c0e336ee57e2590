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
from bliss.samplers import Bliss
from bliss.studies import VarianceStudy
from bliss.studies.provenance import machine
from bliss.train import resolve

HERE = Path(__file__).parent
DATASETS = ("ppi", "cora", "pubmed", "physics")
MODELS = ("sage", "gatv2")
POLICIES = ("static", "exp3", "exp3-released", "exp3-scale-free", "node")
POLICIES_OF = {"physics": ("static", "node")}  # its 8,415 features make each policy slow
SURVEYED = ("node+survey", "per node")
"""Surveyed policies; "per node" keeps a fitted score per node instead of attention per edge."""
WITH_HISTORY = ("static+history", "node+history")
EVERY, SURVEY_EVERY = 30, 50
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
            study = VarianceStudy(
                config,
                load_dataset(name, arguments.root),
                POLICIES_OF.get(name, POLICIES),
                EVERY,
                SURVEY_EVERY,
                history=model == "sage",
            )
            if model == "gatv2":
                add_student_per_node(study)
            for policy in ("exp3", "exp3-released", "exp3-scale-free"):  # histories of the others
                study.students.pop(f"{policy}+history", None)
            found = msgspec.to_builtins(study.run())
            found |= {
                "machine": msgspec.to_builtins(machine()),
                "seconds": perf_counter() - started,
            }
            path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(path.stem, [layer["policies"] for layer in found["layers"]], flush=True)
    (HERE / "README.md").write_text(page(), encoding="utf-8")


def add_student_per_node(study: VarianceStudy) -> None:
    """Add a surveyed student that keeps a score per node."""
    config = study.config
    study.surveyed[SURVEYED[1]] = study.students[SURVEYED[1]] = Bliss(
        study.task.graph,
        config.sampler.budgets,
        policy="node",
        survey_attention="node",
        seed=config.seed,
    )


def page() -> str:
    """Text of README.md: the notes, and tables of the results."""
    paths = sorted((HERE / "results").glob("*.json"))
    results = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    lines = [(HERE / "notes.md").read_text(encoding="utf-8")]
    columns = [*POLICIES[1:], *SURVEYED, *WITH_HISTORY]
    lines += header("data", "network", "layer", "budget", "limit", *columns)
    for found in results:
        for number, layer in enumerate(found["layers"], start=1):
            cells = [ratio_cell(layer["policies"].get(name)) for name in columns]
            limit = f"{layer['limit_over_pladies']:.3f}"
            lines.append(row(*place(found, number), layer["budget"], limit, *cells))
    lines += ["", "V of `node+survey` over the limit, by the number of steps since the survey:", ""]
    ages = [one["age"] for one in results[0]["ages"]]
    lines += header("data", "network", "layer", *ages)
    for found in results:
        for number in range(1, len(found["layers"]) + 1):
            ratios = [one["layers"][number - 1][SURVEYED[0]] for one in found["ages"]]
            lines.append(row(*place(found, number), *(f"{ratio:.3f}" for ratio in ratios)))
    facts, minutes = results[0]["machine"], sum(found["seconds"] for found in results) / 60
    name, torch_version = facts["processor"], facts["torch"]
    lines.append(f"\n{minutes:.0f} minutes in total, one thread of {name}, torch {torch_version}.")
    return "\n".join(lines) + "\n"


def place(found: dict[str, Any], layer: int) -> tuple[object, ...]:
    """Data set, network and layer."""
    return found["dataset"], found["model"], layer


def ratio_cell(ratios: dict[str, float | None] | None) -> str:
    """V over PLADIES and, in brackets, over the limit; empty if the policy took no part.

    A policy with a history does not sample the input layer.
    """
    if not ratios:
        return ""
    if ratios["over_limit"] is None:
        return "exact"
    return f"{ratios['over_pladies']:.3f} ({ratios['over_limit']:.3f})"


def header(*names: object) -> list[str]:
    """First two lines of a table."""
    return [row(*names), "|---" * len(names) + "|"]


def row(*cells: object) -> str:
    """One line of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    main()
