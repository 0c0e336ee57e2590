"""How a budget is divided among types, and which size of a message the masses should use.

For a layer whose sources j are kept with p_j, the expected squared error of the messages is

    V(p) = sum_j (1 / p_j - 1) sum_ij alpha_ij^2 |W_r h_j|^2

in closed form. One budget for all types, with masses that know more and more, stands beside the
best split by hand: a share of the budget for each type, from a grid, with PLADIES' masses within
each type, chosen with hindsight.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.data import Dataset
from bliss.feedback import EdgeMass
from bliss.graph import Graph, GraphTypes, Rows
from bliss.kernels import frontier
from bliss.policies.base import Policy
from bliss.samplers import PLADIES
from bliss.studies.gradients import full_gradients, squared_errors, training_batch
from bliss.studies.variance.variance_study import gradient_error
from bliss.train import Stepper, Task, build_task, resolve
from experiments.types.messages import Messages, exact_messages
from experiments.types.results import Division

STEPS, BATCHES, DRAWS, PARTS = 100, 4, 24, 8
BUDGETS = (256, 128)
COMMON: dict[str, Any] = {
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
MASSES = ("static", "norm", "relation", "source", "message")


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


class Candidates(NamedTuple):
    """Sources of one layer of one batch that are not targets."""

    node: IntArray  # int64[C]
    mass: dict[str, FloatArray]  # float64[C] by name
    value: FloatArray  # float64[C] sum_ij alpha_ij^2 |W_r h_j|^2


def edge_sizes(graph: Graph, messages: Messages, targets: IntArray) -> dict[str, FloatArray]:
    """alpha_ij s_ij of all edges, from less to more knowledge. float32[E] each.

    static: s = 1, with the graph's alpha. norm: |h_j|. relation: |h_j| times the root mean square
    of |W_r h_j| / |h_j| over the edges of relation r. source: root mean square of |W_r h_j| over
    the edges of j to the types of the targets, weighted by alpha_ij^2. message: |W_r h_j|.
    """
    assert graph.types is not None
    relation, source = graph.relation_of(np.arange(graph.num_edges)), graph.indices
    norm, message = messages.norm[source], np.sqrt(messages.squares)
    share = messages.squares / np.maximum(norm, 1e-9) ** 2
    number = np.bincount(relation, minlength=len(graph.types.edge_types))
    ratio = np.sqrt(np.bincount(relation, share, number.size) / np.maximum(number, 1))
    kinds = np.unique(graph.types.type_of(targets))
    sizes = {
        "norm": norm,
        "relation": norm * ratio[relation],
        "source": messages.sizes(graph, kinds)[source],
        "message": message,
    }
    found = {"static": graph.edge_weight.numpy()}
    found |= {name: messages.alpha * size for name, size in sizes.items()}
    return {name: size.astype(np.float32) for name, size in found.items()}


def candidates(rows: Rows, sizes: dict[str, FloatArray]) -> Candidates:
    """Candidates of some targets, with their masses and what is at stake."""
    _, edge = rows.edges()
    source, number = rows.graph.indices[edge].astype(np.int64), rows.graph.num_nodes
    sums = {
        n: np.bincount(source, size[edge].astype(float) ** 2, number) for n, size in sizes.items()
    }
    is_candidate = sums["static"] > 0
    is_candidate[rows.dst] = False
    node = np.flatnonzero(is_candidate)
    mass = {name: np.maximum(np.sqrt(one[node]), 1e-12) for name, one in sums.items()}
    return Candidates(node, mass, sums["message"][node])


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
    batches: list[Candidates], types: GraphTypes, budget: int
) -> tuple[float, dict[int, float]]:
    """Least V of a split by hand, summed over batches, and the budget of each type."""
    kinds = [types.type_of(one.node) for one in batches]
    present = np.unique(np.concatenate(kinds))
    best = (np.inf, dict.fromkeys(present.tolist(), 0.0))
    for shares in splits(budget, present.size):
        total = 0.0
        for one, kind in zip(batches, kinds, strict=True):
            for t, share in zip(present, shares, strict=True):
                own = kind == t
                total += error(kept(one.mass["static"][own], share), one.value[own])
        if total < best[0]:
            best = total, dict(zip(present.tolist(), shares, strict=True))
    return best


def trained(graph: str, model: str, dataset: Dataset) -> Task:
    """A network after some steps with PLADIES."""
    task = build_task(resolve(dataset=graph, **COMMON | OWN[graph] | {"model": model}), dataset)
    stepper = Stepper(task)
    for batches in stepper.batches():
        stepper.step(batches)
    task.model.eval()
    return task


def divisions(graph: str, model: str, dataset: Dataset) -> list[Division]:
    """Train for some steps, and measure both layers and the gradient."""
    task = trained(graph, model, dataset)
    types, layers = task.graph.types, exact_messages(task)
    assert types is not None
    sampler = PLADIES(task.graph, BUDGETS)
    seeds = [training_batch(task, 0, number).node for number in range(BATCHES)]
    draws = [sampler.sample(own, number) for number, own in enumerate(seeds)]
    found, by_hand, sizes = [], [], []
    for layer, (messages, budget) in enumerate(zip(layers, BUDGETS, strict=True)):
        targets = [blocks[layer].dst.numpy() for blocks in draws]
        sizes.append(edge_sizes(task.graph, messages, np.concatenate(targets)))
        batches = [candidates(task.graph.rows(dst), sizes[-1]) for dst in targets]
        total = {
            name: sum(error(kept(one.mass[name], budget), one.value) for one in batches)
            for name in MASSES
        }
        total["split by hand"], shares = best_split(batches, types, budget)
        names = types.node_types
        by_hand.append({names[t]: max(round(share), 1) for t, share in shares.items()})
        node = np.concatenate([one.node for one in batches])
        prob = np.concatenate([kept(one.mass["static"], budget) for one in batches])
        number = np.bincount(types.type_of(node), prob, len(names)) / prob.sum()
        found.append(
            Division(
                graph=graph,
                model=model,
                layer=layer + 1,
                budget=budget,
                candidates=round(node.size / BATCHES),
                shares={names[t]: float(number[t]) for t in shares},
                hand_shares={names[t]: share / budget for t, share in shares.items()},
                ratios={name: one / max(total["static"], 1e-30) for name, one in total.items()},
                gradient={},
            )
        )
    return _with_gradients(task, found, sizes, by_hand)


def _with_gradients(
    task: Task,
    found: list[Division],
    sizes: list[dict[str, FloatArray]],
    by_hand: list[dict[str, int]],
) -> list[Division]:
    """The same divisions, with r of the gradient under each choice, in the first of them."""
    batches = [training_batch(task, 1, number) for number in range(BATCHES)]
    exact = full_gradients(task, batches)
    samplers = {
        name: PLADIES(
            task.graph,
            BUDGETS,
            policy=GivenSizes(task.graph, [own[name] for own in sizes]),
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
