"""How a budget is divided among types, and which size of a message the masses should use.

For a layer whose sources j are kept with p_j, the expected squared error of the messages is

    V(p) = sum_j (1 / p_j - 1) sum_ij alpha_ij^2 |W_r h_j|^2

in closed form. One budget for all types, with masses that know more and more, stands beside the
best split by hand: a share of the budget for each type, from a grid, with PLADIES' masses within
each type, chosen with hindsight.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import torch

from bliss.arrays import FloatArray, IntArray
from bliss.data import Dataset
from bliss.feedback import EdgeMass
from bliss.graph import Graph, Rows
from bliss.kernels import frontier
from bliss.nn import infer_layer
from bliss.policies.base import Policy
from bliss.samplers import PLADIES
from bliss.studies.gradients import full_gradients, squared_errors, training_batch
from bliss.studies.variance.variance_study import gradient_error
from bliss.train import Stepper, Task, build_task, resolve
from experiments.types.results import Division

STEPS, BATCHES, DRAWS, PARTS = 100, 2, 24, 8
BUDGETS = (256, 128)
COMMON: dict[str, Any] = {
    "model": "rsage",
    "sampler": "pladies",
    "budgets": BUDGETS,
    "estimator": "ht",
    "steps": STEPS,
    "lr": 0.005,
    "schedule": "linear",
    "layers": 2,
    "hidden": 64,
}
OWN: dict[str, dict[str, Any]] = {
    "imdb": {"batch_size": 100, "embedding": 32, "dropout": 0.5},
    "acm": {"batch_size": 60, "embedding": 32, "dropout": 0.5},
    "library": {"batch_size": 250, "dropout": 0.1},
}
MASSES = ("static", "norm", "relation", "message")


class GivenSizes(Policy):
    """c_ij = alpha_ij s_ij with given sizes s_ij of messages."""

    name = "given"

    def __init__(self, graph: Graph, sizes: list[FloatArray]) -> None:
        super().__init__(graph, len(sizes))
        self.sizes = sizes  # by layer, alpha_ij s_ij. float32[E]

    def edge_mass(self, layer: int, rows: Rows) -> EdgeMass:
        """alpha_ij s_ij."""
        groups = rows.degree.size
        return EdgeMass(np.zeros(groups), np.ones(groups), self.sizes[layer])


def edge_sizes(task: Task, layer: int, x: torch.Tensor) -> dict[str, FloatArray]:
    """Sizes of the messages of all edges, from less to more knowledge. float32[E] each.

    static: 1. norm: |h_j|. relation: |h_j| times the root mean square of |W_r h_j| / |h_j| over the
    edges of relation r. message: |W_r h_j|.
    """
    graph = task.graph
    types, source = graph.types, torch.from_numpy(graph.indices.astype(np.int64))
    assert types is not None
    relation = torch.from_numpy(graph.relation_of(np.arange(graph.num_edges)))
    norm = torch.linalg.vector_norm(x, dim=1)
    message, ratio = norm[source].clone(), torch.ones(len(types.edge_types))
    maps = task.model.convs[layer].others()
    for r, edge_type in enumerate(types.edge_types):
        place, own = types.range_of(edge_type[0]), relation == r
        size = torch.zeros(len(x))
        size[place] = torch.linalg.vector_norm(x[place] @ maps[r].T, dim=1)
        message[own] = size[source[own]]
        share = (message[own] / norm[source[own]].clamp(min=1e-9)).square().mean()
        ratio[r] = share.sqrt() if own.any() else 1.0
    plain = norm[source]
    found = {"static": torch.ones_like(plain), "norm": plain}
    found |= {"relation": plain * ratio[relation], "message": message}
    return {name: size.detach().numpy().astype(np.float32) for name, size in found.items()}


def stake(rows: Rows, size: FloatArray, alpha: FloatArray) -> tuple[IntArray, FloatArray]:
    """Sources that are not targets, and sum_i alpha_ij^2 s_ij^2 of each."""
    _, edge = rows.edges()
    source = rows.graph.indices[edge].astype(np.int64)
    total = np.bincount(source, (alpha[edge] * size[edge]) ** 2, rows.graph.num_nodes)
    total[rows.dst] = 0
    nodes = np.flatnonzero(total)
    return nodes, total[nodes]


def kept(mass: FloatArray, budget: float) -> FloatArray:
    """p_j = min(1, c s_j), budget of them on average."""
    if mass.size <= budget:
        return np.ones(mass.size)
    return np.minimum(mass * frontier.fit_scale(mass, budget), 1.0)


def error(prob: FloatArray, value: FloatArray) -> float:
    """V(p)."""
    return float(((1 / prob - 1) * value).sum())


def splits(budget: int, types: int) -> Any:
    """Budgets of each type, from a grid of shares that are not 0."""
    for parts in product(range(1, PARTS), repeat=types):
        if sum(parts) == PARTS:
            yield [budget * part / PARTS for part in parts]


def best_split(
    mass: FloatArray, value: FloatArray, kind: IntArray, budget: int
) -> tuple[float, dict[int, float]]:
    """Least V of a split by hand, and the budget of each type. kind: type of each source."""
    present = np.unique(kind)
    best = (np.inf, dict.fromkeys(present.tolist(), 0.0))
    for shares in splits(budget, present.size):
        total = 0.0
        for t, share in zip(present, shares, strict=True):
            own = kind == t
            total += error(kept(mass[own], share), value[own])
        if total < best[0]:
            best = total, dict(zip(present.tolist(), shares, strict=True))
    return best


def divisions(graph: str, dataset: Dataset) -> list[Division]:
    """Train rsage for some steps, and measure both layers and the gradient."""
    task = build_task(resolve(dataset=graph, **COMMON, **OWN[graph]), dataset)
    stepper = Stepper(task)
    for batches in stepper.batches():
        stepper.step(batches)
    task.model.eval()
    types = task.graph.types
    assert types is not None
    alpha = task.graph.edge_weight.numpy()
    x, sizes = task.everywhere(), []
    for layer, module in enumerate(task.model):
        with torch.no_grad():
            sizes.append(edge_sizes(task, layer, x))
            x = infer_layer(module, task.graph, x) if layer + 1 < len(BUDGETS) else x
    seeds = training_batch(task, 0, 0)
    blocks = PLADIES(task.graph, BUDGETS).sample(seeds.node, 0)
    found, by_hand = [], []
    for layer, (block, budget) in enumerate(zip(blocks, BUDGETS, strict=True)):
        rows = task.graph.rows(block.dst.numpy())
        stakes = {name: stake(rows, size, alpha) for name, size in sizes[layer].items()}
        nodes = stakes["static"][0]
        place = {name: np.isin(nodes, own[0]) for name, own in stakes.items()}
        value = np.zeros(nodes.size)
        value[place["message"]] = stakes["message"][1]
        prob = {}
        for name in MASSES:
            mass = np.full(nodes.size, 1e-12)
            mass[place[name]] = np.sqrt(stakes[name][1])
            prob[name] = kept(mass, budget)
        kind = types.type_of(nodes)
        static = np.sqrt(stakes["static"][1])
        least, shares = best_split(static, value, kind, budget)
        base = error(prob["static"], value)
        names = types.node_types
        by_hand.append({names[t]: max(round(share), 1) for t, share in shares.items()})
        one = {t: float(prob["static"][kind == t].sum()) / budget for t in shares}
        found.append(
            Division(
                graph=graph,
                model="rsage",
                layer=layer + 1,
                budget=budget,
                candidates=int(nodes.size),
                shares={names[t]: share for t, share in one.items()},
                hand_shares={names[t]: share / budget for t, share in shares.items()},
                ratios={n: error(prob[n], value) / max(base, 1e-30) for n in MASSES}
                | {"split by hand": least / max(base, 1e-30)},
                gradient={},
            )
        )
    return _with_gradients(task, found, sizes, by_hand, alpha)


def _with_gradients(
    task: Task,
    found: list[Division],
    sizes: list[dict[str, FloatArray]],
    by_hand: list[dict[str, int]],
    alpha: FloatArray,
) -> list[Division]:
    """The same divisions, with r of the gradient under each choice, in the first of them."""
    batches = [training_batch(task, 1, number) for number in range(BATCHES)]
    exact = full_gradients(task, batches)
    samplers = {
        name: PLADIES(
            task.graph,
            BUDGETS,
            policy=GivenSizes(task.graph, [alpha * own[name] for own in sizes]),
            estimator="ht",
        )
        for name in MASSES
    }
    every = dict.fromkeys(task.dataset.typed.x, 1)  # a type that was not seen keeps one source
    budgets = [every | split for split in by_hand]
    samplers["split by hand"] = PLADIES(task.graph, budgets, estimator="ht")
    gradient = {}
    for name, sampler in samplers.items():
        r = gradient_error(squared_errors(task, sampler, batches, exact, DRAWS), exact)
        gradient[name] = [r.mean, r.low, r.high]
    fields = {n: getattr(found[0], n) for n in Division.__struct_fields__}
    return [Division(**fields | {"gradient": gradient}), *found[1:]]
