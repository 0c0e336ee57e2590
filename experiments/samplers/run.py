"""All samplers at equal work per step: four graphs, two networks, matched by edges and by time.

`python -m experiments.samplers.run sizes CASE MATCH --root DATA` finds the sizes at which every
sampler does the work of BLISS, and times a step of each; run it on an idle machine. `... run CASE
MATCH` then trains every sampler with five seeds and writes results/CASE-MATCH.json; finished runs
are skipped. `python -m experiments.samplers.tables` rewrites README.md and the figures.

All settings below were fixed before any test score of these runs was seen.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bliss.data import Dataset, load_dataset
from bliss.storage import records
from bliss.studies import compare
from bliss.studies.comparison.matching import Matcher, Work
from bliss.studies.comparison.plan import Request, plan, sized
from experiments.graphs import three_hops

HERE = Path(__file__).parent
MATCHES = ("edges", "ms")
SEEDS = (1, 2, 3, 4, 5)
LAYERWISE = ("bliss", "pladies", "ladies", "sketch", "fastgcn", "asgcn")
NODEWISE = ("neighbor", "labor", "labor-1", "labor-*", "gcn-bs")
SUBGRAPHS = ("cluster", "saint-node", "saint-edge", "saint-rw")
HISTORIES = (
    "bliss+history",
    "bliss+history=surveys",
    "pladies+history",
    "vrgcn",
    "bliss+first_hop",
)
SAMPLERS = {
    "sage": (*LAYERWISE, *HISTORIES, *NODEWISE, *SUBGRAPHS, "full"),
    "gatv2": (
        "bliss",
        "bliss+survey=false",
        *LAYERWISE[1:],
        *NODEWISE,
        "gat-bs",
        *SUBGRAPHS,
        "full",
    ),
}


@dataclass(frozen=True)
class Case:
    """A graph and a network, and the budgets of BLISS."""

    load: Callable[[Path | None], Dataset]
    settings: dict[str, Any]
    budgets: str


def _ppi(root: Path | None) -> Dataset:
    return load_dataset("ppi", root)


def _pubmed(root: Path | None) -> Dataset:
    return load_dataset("pubmed", root)


def _physics(root: Path | None) -> Dataset:
    return load_dataset("physics", root)


def _three_hops(root: Path | None) -> Dataset:
    return three_hops()


_PPI = {
    "dataset": "ppi",
    "layers": 3,
    "batch_size": 256,
    "normalisation": "batch",
    "dropout": 0.0,
    "lr": 0.01,
    "schedule": "linear",
}
_PUBMED = {
    "dataset": "pubmed",
    "layers": 3,
    "batch_size": 32,
    "hidden": 64,
    "steps": 60,
    "evaluate_every": 20,
    "lr": 0.01,
}
_PHYSICS = {
    "dataset": "physics",
    "layers": 3,
    "batch_size": 128,
    "steps": 30,
    "evaluate_every": 15,
    "dropout": 0.3,
    "lr": 0.01,
}
_THREE_HOPS = {
    "dataset": "three-hops",
    "layers": 3,
    "batch_size": 256,
    "normalisation": "batch",
    "steps": 120,
    "evaluate_every": 60,
    "dropout": 0.0,
    "lr": 0.01,
    "schedule": "linear",
}
_SAGE = {"model": "sage"}
_GATV2 = {"model": "gatv2", "attention_dropout": 0.0, "residual": True, "input_residual": True}

CASES = {
    "ppi-sage": Case(
        _ppi, _PPI | _SAGE | {"hidden": 128, "steps": 160, "evaluate_every": 40}, "512,512,512"
    ),
    "ppi-gatv2": Case(
        _ppi, _PPI | _GATV2 | {"hidden": 64, "steps": 100, "evaluate_every": 50}, "512,512,512"
    ),
    "pubmed-sage": Case(_pubmed, _PUBMED | _SAGE, "128,64,32"),
    "pubmed-gatv2": Case(_pubmed, _PUBMED | {"model": "gatv2", "patience": 0}, "128,64,32"),
    "physics-sage": Case(_physics, _PHYSICS | _SAGE | {"hidden": 64}, "256,256,256"),
    "physics-gatv2": Case(_physics, _PHYSICS | _GATV2 | {"hidden": 32}, "256,256,256"),
    "three-hops-sage": Case(_three_hops, _THREE_HOPS | _SAGE | {"hidden": 64}, "1024,1024,1024"),
    "three-hops-gatv2": Case(
        _three_hops,
        _THREE_HOPS | _GATV2 | {"hidden": 32, "steps": 80, "evaluate_every": 40},
        "1024,1024,1024",
    ),
}


class Timed(records.Record, frozen=True, kw_only=True):
    """Work of a step at the size that was found, by sampler."""

    works: dict[str, Work]


def find_sizes(case: Case, match: str, dataset: Dataset, out: Path) -> Timed:
    """Find the size of every sampler, and time a step of it."""
    model = case.settings["model"]
    request = Request.of(
        case.settings,
        SAMPLERS[model],
        [model],
        SEEDS,
        [1.0],
        budgets=case.budgets,
        match=match,
        estimator="hajek",
    )
    out.mkdir(parents=True, exist_ok=True)
    matcher = Matcher(match, dataset, out / "pilots.json")
    rows = sized(request, plan(request, dataset.graph.num_nodes).starts, matcher)
    return Timed(works={key.sampler: matcher.measure(config) for key, config in rows})


def main() -> None:
    """Find the sizes of a case, or run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("sizes", "run"))
    parser.add_argument("case", choices=CASES)
    parser.add_argument("match", choices=MATCHES)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    parser.add_argument("--work", type=Path, default=Path("work"), help="folder of the runs")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    name, case = f"{arguments.case}-{arguments.match}", CASES[arguments.case]
    dataset, out = case.load(arguments.root), arguments.work / name
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    if arguments.action == "sizes":
        found = find_sizes(case, arguments.match, dataset, out)
        records.write(results / f"{name}-sizes.json", found)
        return
    model = case.settings["model"]
    made = compare(
        {**case.settings, "dataset": dataset},
        SAMPLERS[model],
        [model],
        SEEDS,
        [1.0],
        out,
        budgets=case.budgets,
        match=arguments.match,
        estimator="hajek",
        root=arguments.root,
        command=f"python -m experiments.samplers.run run {arguments.case} {arguments.match}",
    )
    records.write(results / f"{name}.json", made)


if __name__ == "__main__":
    main()
