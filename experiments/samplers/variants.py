"""Measures the errors of variants of the samplers, for docs/samplers.md.

`python -m experiments.samplers.variants` takes a minute, needs no data and writes variants.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from bliss import Graph
from bliss.nn.aggregate import aggregate
from bliss.samplers import Full, Sampler, sampler_config
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
}
INTRODUCTION = """
One layer on the 60-node graph of the tests (heavy-tailed degrees, norm="mean"), 8 targets, 4,000
draws. The error is the root mean square, over draws, targets and 16 features, of sampled minus full
aggregate. Features are independent and have mean square 1: positive ones are lognormal (0, 0.6),
the others normal with mean 0. The budget is 4 neighbours per target or 30 sources or draws. Sources
and edges are means over draws; the targets are among the sources."""


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
    (HERE / "variants.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def errors(sampler: Sampler) -> list[str]:
    """Errors with both kinds of features, and mean numbers of sources and edges."""
    x = torch.cat([positive(), centred()], dim=1)
    full = full_aggregate(sampler.graph, x)
    squares, sources, edges = np.zeros(2), 0, 0
    for step in range(TIMES):
        (block,) = sampler.sample(TARGETS, step)
        off = (aggregate(block, x[block.src]) - full).square().mean(0)
        squares += [float(off[:FEATURES].mean()), float(off[FEATURES:].mean())]
        sources, edges = sources + block.num_src, edges + block.num_edges
    error = np.sqrt(squares / TIMES)
    return [f"{error[0]:.3f}", f"{error[1]:.3f}", f"{sources / TIMES:.1f}", f"{edges / TIMES:.1f}"]


def full_aggregate(graph: Graph, x: torch.Tensor) -> torch.Tensor:
    """Aggregate over all neighbours. [V, F] -> [8, F]."""
    (everything,) = Full(graph, layers=1).sample(TARGETS, 0)
    return aggregate(everything, x[everything.src])


def positive() -> torch.Tensor:
    """Lognormal features of mean square 1. [60, 16]."""
    x = np.random.default_rng(7).lognormal(0, 0.6, (60, FEATURES))
    return torch.from_numpy(x / np.exp(0.36 * 2) ** 0.5).float()


def centred() -> torch.Tensor:
    """Normal features of mean 0 and mean square 1. [60, 16]."""
    return torch.from_numpy(np.random.default_rng(8).normal(size=(60, FEATURES))).float()


if __name__ == "__main__":
    main()
