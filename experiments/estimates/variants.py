"""Measures the errors of variants of the samplers.

`python -m experiments.estimates.variants` takes a minute, needs no data and writes variants.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bliss import Graph
from bliss.nn.aggregate import aggregate
from bliss.policies.target_bandit import TargetBandit
from bliss.samplers import GCNBS, Full, Sampler, sampler_config
from bliss.samplers.fastgcn import node_shares
from experiments.estimates.estimates import LATER, TARGETS, heavy_tailed_graph

Array = npt.NDArray[np.float64]
HERE = Path(__file__).parent
COMMAND = "python -m experiments.estimates.variants"
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
THANOS_INTRODUCTION = """
`gcn-bs --reward thanos --estimator plain` with 4 neighbours, without restarts; every update has all
8 targets, and positive features. The column q_ij d_i, d_i = |N_i|, has the smallest and the largest
value over the targets with more than 4 in-edges; it is 1 before learning. A target that is in one
of ten batches has a tenth of the updates. The authors' rule is log w_ij += max(0, 0.1 r_ij) / d_i^2
with r_ij = 2 z_ij . m_i - |z_ij|^2, messages z_ij = alpha_ij h_j and the mean m_i of those kept."""
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


SUMMARY = """\
With positive features, `hajek` has half to two thirds of the error of `ht`; with zero-mean
features, `ht` is as good or better. `ladies` and `fastgcn` have smaller errors without replacement
than with it. Learning by the reward of Thanos hardly changes the error.
"""


def main() -> None:
    """Measure every case and write variants.md."""
    torch.set_num_threads(1)
    graph = heavy_tailed_graph("mean")
    lines = [f"# Errors of variants of the samplers\n\n{SUMMARY}\n    {COMMAND}\n{INTRODUCTION}\n"]
    lines += ["| sampler | budget | positive | zero mean | sources | edges |", "|---" * 6 + "|"]
    for case, (name, budget, options) in CASES.items():
        cells = errors(sampler_config(name, **options).build(graph, [budget]))
        lines.append(f"| {case} | {budget} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    for case, (mass, replace) in COUNTED.items():
        lines.append(f"| {case} | 30 | " + " | ".join(counted_errors(graph, mass, replace)) + " |")
        print(lines[-1], flush=True)
    lines += ["", *thanos_lines(graph)]
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


def thanos_lines(graph: Graph) -> list[str]:
    """How far Thanos moves q_ij before a restart, and its error then."""
    lines = [f"## Thanos\n{THANOS_INTRODUCTION}\n"]
    lines += ["| rule | updates | q_ij d_i | error before | after |", "|---" * 5 + "|"]
    for eta, delta, updates in ((0.4, 0.01, 99), (0.2, 0.1, 99), (0.2, 0.1, 1999)):
        options = {"reward": "thanos", "restart": 0, "estimator": "plain"}
        config = sampler_config("gcn-bs", eta=eta, delta=delta, **options)
        sampler = config.build(graph, [4])
        before = thanos_error(sampler)
        x = features()[:, :FEATURES]
        for step in range(updates):
            (block,) = sampler.sample(TARGETS, step)
            block.observe(x[block.src])
            sampler.update([block])
        assert isinstance(sampler, GCNBS) and isinstance(sampler.policy, TargetBandit)
        moved = [sampler.policy.edge_prob(0, int(i)) * graph.degree[i] for i in TARGETS]
        cells = [f"{before:.3f}", f"{thanos_error(sampler):.3f}"]
        lines.append(thanos_row(f"eta {eta}, delta {delta}", updates, moved, cells))
    moved = [authors_rule(graph, int(i), 1999) for i in TARGETS]
    lines.append(thanos_row("authors' rule, gamma 0.2, eta 0.1", 1999, moved, ["", ""]))
    print("\n".join(lines), flush=True)
    return lines


def thanos_row(rule: str, updates: int, moved: list[Array], cells: list[str]) -> str:
    """One row: smallest and largest q_ij |N_i| of targets with more than 4 in-edges."""
    largest = np.concatenate([one for one in moved if one.size > 4])
    spread = f"{largest.min():.2f} to {largest.max():.2f}"
    return f"| {rule} | {updates:,} | {spread} | " + " | ".join(cells) + " |"


def thanos_error(sampler: Sampler) -> float:
    """Root mean square error with positive features, 1,000 draws."""
    x = features()[:, :FEATURES]
    full, squares = full_aggregate(sampler.graph, x), 0.0
    for step in range(LATER, LATER + 1000):
        (block,) = sampler.sample(TARGETS, step)
        squares += float((aggregate(block, x[block.src]) - full).square().mean())
    return float((squares / 1000) ** 0.5)


def authors_rule(graph: Graph, target: int, updates: int) -> Array:
    """q_ij |N_i| after log w_ij += max(0, 0.1 r_ij) / |N_i|^2, 4 successive draws per update."""
    random = np.random.default_rng(target)
    x = features()[:, :FEATURES].numpy().astype(np.float64)
    message = x[graph.indices[graph.indptr[target] : graph.indptr[target + 1]]]
    degree, log_weight = len(message), np.zeros(len(message))
    message = message / degree  # alpha_ij h_j
    for _ in range(updates if degree > 4 else 0):
        drawn = random.choice(degree, 4, replace=False, p=authors_share(log_weight))
        kept = message[drawn]
        reward = 2 * kept @ kept.mean(0) - np.square(kept).sum(1)
        log_weight[drawn] += np.maximum(0.1 * reward, 0) / degree**2
    return authors_share(log_weight) * degree


def authors_share(log_weight: Array) -> Array:
    """0.8 w / sum w + 0.2 / |N_i|. [|N_i|]."""
    weight = np.exp(log_weight - log_weight.max())
    return np.asarray(0.8 * weight / weight.sum() + 0.2 / weight.size)


def square_errors(off: torch.Tensor) -> list[float]:
    """Mean square with positive and with centred features. [8, 32] -> two numbers."""
    return [float(off[:, :FEATURES].square().mean()), float(off[:, FEATURES:].square().mean())]


def shown(squares: Array) -> list[str]:
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
