"""Measures the errors of variants of the samplers, for docs/samplers.md.

`python -m experiments.samplers.variants` takes a minute, needs no data and writes variants.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bliss import Graph
from bliss.nn.aggregate import aggregate
from bliss.samplers import Full, Sampler, sampler_config
from bliss.samplers.fastgcn import node_shares
from experiments.samplers.estimates import TARGETS, heavy_tailed_graph

HERE = Path(__file__).parent
COMMAND = "python -m experiments.samplers.variants"
TIMES, FEATURES = 4000, 16
CASES: dict[str, tuple[str, int, dict[str, Any]]] = {  # sampler, budget, options
    "`neighbor`": ("neighbor", 4, {}),
    "`labor`": ("labor", 4, {}),
    "`labor --estimator ht`": ("labor", 4, {"estimator": "ht"}),
    "`labor-1`": ("labor-1", 4, {}),
    "`labor-1 --estimator ht`": ("labor-1", 4, {"estimator": "ht"}),
    "`ladies`": ("ladies", 30, {}),
    "`ladies --replace`": ("ladies", 30, {"replace": True}),
    "`pladies`": ("pladies", 30, {}),
    "`pladies --estimator hajek`": ("pladies", 30, {"estimator": "hajek"}),
    "`fastgcn`": ("fastgcn", 30, {}),
    "`fastgcn --mass norm`": ("fastgcn", 30, {"mass": "norm"}),
    "`fastgcn --no-replace`": ("fastgcn", 30, {"replace": False}),
    "`fastgcn --mass norm --no-replace`": ("fastgcn", 30, {"mass": "norm", "replace": False}),
    "`fastgcn --estimator hajek`": ("fastgcn", 30, {"estimator": "hajek"}),
    "`fastgcn --mass norm --no-replace --estimator hajek`": (
        "fastgcn",
        30,
        {"mass": "norm", "replace": False, "estimator": "hajek"},
    ),
}
COUNTED = {  # FastGCN with weights alpha_ij / (k q_j) for each draw: mass, replace
    "FastGCN's paper: squared norms, repeated draws counted": ("squared", True),
    "FastGCN's code: norms, distinct draws, the same weights": ("norm", False),
}
INTRODUCTION = """
One layer on the 60-node graph of the tests (heavy-tailed degrees, norm="mean"), 8 targets, 4,000
draws. The error is the root mean square, over draws, targets and 16 features, of sampled minus full
aggregate. Features are independent and have mean square 1: positive ones are lognormal (0, 0.6),
the others normal with mean 0. The budget is 4 neighbours per target or 30 sources or draws. Sources
and edges are means over draws; the targets are among the sources.

The last rows are not options: they divide by k q_j, the expected number of times that node j is
drawn, instead of the probability that it is drawn at all. There, too, targets are always kept."""


def main() -> None:
    """Measure every case and write variants.md."""
    torch.set_num_threads(1)
    graph = heavy_tailed_graph("mean")
    lines = [f"# Errors of variants of the samplers\n\n    {COMMAND}\n{INTRODUCTION}\n"]
    lines += ["| sampler | budget | positive | zero mean | sources | edges |", "|---" * 6 + "|"]
    for case, (name, budget, options) in CASES.items():
        cells = errors(sampler_config(name, **options).build(graph, [budget]))
        lines.append(f"| {case} | {budget} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    for case, (mass, replace) in COUNTED.items():
        lines.append(f"| {case} | 30 | " + " | ".join(counted_errors(graph, mass, replace)) + " |")
        print(lines[-1], flush=True)
    (HERE / "variants.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def errors(sampler: Sampler) -> list[str]:
    """Errors with both kinds of features, and mean numbers of sources and edges."""
    x = features()
    full = full_aggregate(sampler.graph, x)
    squares, sources, edges = np.zeros(2), 0, 0
    for step in range(TIMES):
        (block,) = sampler.sample(TARGETS, step)
        squares += square_errors(aggregate(block, x[block.src]) - full)
        sources, edges = sources + block.num_src, edges + block.num_edges
    return [*shown(squares), f"{sources / TIMES:.1f}", f"{edges / TIMES:.1f}"]


def counted_errors(graph: Graph, mass: str, replace: bool) -> list[str]:
    """Errors of FastGCN with weights alpha_ij / (k q_j) for each draw of a node."""
    x, random, budget = features(), np.random.default_rng(0), 30
    full, share = full_aggregate(graph, x), node_shares(graph, mass)
    (everything,) = Full(graph, layers=1).sample(TARGETS, 0)
    message = (everything.edge_weight[:, None] * x[everything.src[everything.row]]).numpy()
    source, target = everything.src[everything.row].numpy(), everything.col.numpy()
    squares = np.zeros(2)
    for _ in range(TIMES):
        drawn = random.choice(60, budget, replace=replace, p=share)
        factor = np.bincount(drawn, minlength=60) / (budget * share)
        factor[TARGETS] = 1.0
        found = np.zeros(full.shape)
        np.add.at(found, target, factor[source][:, None] * message)
        squares += square_errors(torch.from_numpy(found) - full)
    return [*shown(squares), "", ""]


def square_errors(off: torch.Tensor) -> list[float]:
    """Mean square with positive and with centred features. [8, 32] -> two numbers."""
    return [float(off[:, :FEATURES].square().mean()), float(off[:, FEATURES:].square().mean())]


def shown(squares: npt.NDArray[np.float64]) -> list[str]:
    """Root mean square errors as text."""
    return [f"{error:.3f}" for error in np.sqrt(squares / TIMES)]


def full_aggregate(graph: Graph, x: torch.Tensor) -> torch.Tensor:
    """Aggregate over all neighbours. [V, F] -> [8, F]."""
    (everything,) = Full(graph, layers=1).sample(TARGETS, 0)
    return aggregate(everything, x[everything.src])


def features() -> torch.Tensor:
    """16 positive and 16 centred features, all of mean square 1. [60, 32]."""
    positive = np.random.default_rng(7).lognormal(0, 0.6, (60, FEATURES)) / np.exp(0.36)
    centred = np.random.default_rng(8).normal(size=(60, FEATURES))
    return torch.from_numpy(np.concatenate([positive, centred], axis=1)).float()


if __name__ == "__main__":
    main()
