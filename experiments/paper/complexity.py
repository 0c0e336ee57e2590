"""Growth of time, memory and variance with edges, budget, width and depth: fitted exponents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import torch

from bliss.data import Dataset
from bliss.graph import Graph
from bliss.nn.block import Block
from bliss.samplers import SAMPLERS as REGISTRY
from bliss.studies import VarianceStudy
from bliss.train import Stepper, TrainConfig, build_task
from experiments.paper.record import Growth

NODES = 20_000
SEEDS = 256
WARM_UP, STEPS = 3, 8
GROWTH = (1, 2, 4)
SAMPLERS = ("full", "neighbor", "ladies", "pladies", "bliss")
FANOUT = 4
"""Neighbours that node-wise sampling keeps at growth 1; its cost grows as FANOUT^depth."""


@dataclass(frozen=True)
class Setting:
    """One point of measurement; the defaults are the starting point of every line."""

    edges: int = 400_000
    budget: int = 512
    width: int = 128
    depth: int = 2


def measure_complexity(stated: Mapping[str, Any], say: Callable[[str], None]) -> list[Growth]:
    """One row for each quantity, sampler and axis of growth.

    The exponent b of y ~ x^b is the least-squares slope of log y over log x. Time is the median
    of a step. Memory is counted, not measured: bytes of blocks, of activations and their
    gradients, of weights with gradient and Adam's moments, and of the policy's state. BLISS uses
    the paper's policy "exp3". A batch has SEEDS seeds, so that frontiers do not cover the graph.
    Depth starts at 1, the other axes at `Setting`'s defaults. Fixed costs of a step lower the
    exponents.
    """
    rows = []
    for sampler in SAMPLERS:
        say(f"complexity of {sampler}")
        for axis in ("edges", "budget", "width", "depth"):
            if axis == "budget" and REGISTRY[sampler].unit == "none":
                continue
            points = [(getattr(s, axis), measure(sampler, s)) for s in line(axis)]
            for quantity, position in (("time", 0), ("memory", 1)):
                pairs = [(x, y[position]) for x, y in points]
                rows.append(row(stated, quantity, sampler, axis, pairs))
    for sampler in ("pladies", "bliss"):
        pairs = [(s.budget, aggregate_variance(sampler, s)) for s in line("budget")]
        rows.append(row(stated, "variance", sampler, "budget", pairs))
    return rows


def line(axis: str) -> list[Setting]:
    """Settings that differ along one axis only."""
    start = Setting()
    factors = (1, 2, 3, 4) if axis == "depth" else GROWTH
    return [replace(start, **{axis: value(start, axis, factor)}) for factor in factors]


def value(start: Setting, axis: str, factor: int) -> int:
    """The value on an axis at a factor of growth; depth starts at 1."""
    return factor if axis == "depth" else int(getattr(start, axis)) * factor


def row(
    stated: Mapping[str, Any],
    quantity: str,
    sampler: str,
    axis: str,
    pairs: list[tuple[int, float]],
) -> Growth:
    """Row with the fitted and the stated exponent."""
    x, y = np.log(np.array(pairs, dtype=np.float64)).T
    return Growth(
        quantity=quantity,
        sampler=sampler,
        grows_with=axis,
        exponent=float(np.polyfit(x, y, 1)[0]),
        stated=stated[sampler][quantity][axis],
        points=list(pairs),
    )


def measure(sampler: str, setting: Setting) -> tuple[float, float]:
    """Seconds of a step and the bytes that it needs."""
    stepper = Stepper(build_task(config(sampler, setting), random_data(setting)))
    held: list[int] = []
    for (batch,) in stepper.batches():
        stepper.step([batch])
        held.append(sum(_bytes_of(block, setting.width) for block in batch.blocks))
    learnt = sum(t.nbytes for t in stepper.sampler.state_dict().values())
    weights = 4 * sum(p.nbytes for p in stepper.task.model.parameters())  # gradient and moments
    return median(list(stepper.times["total"])[WARM_UP:]), median(held) + learnt + weights


def aggregate_variance(sampler: str, setting: Setting) -> float:
    """V of the output layer, where the targets do not depend on the budget."""
    policy = "exp3" if sampler == "bliss" else "static"
    chosen = config("pladies", setting).with_settings(steps=40)
    study = VarianceStudy(chosen, random_data(setting), [policy], every=40)
    return study.run().history[-1].layers[-1].policies[policy]


def config(sampler: str, setting: Setting) -> TrainConfig:
    """Settings of a run at a point of measurement."""
    unit = REGISTRY[sampler].unit
    growth = setting.budget // Setting.budget
    budgets = {
        "sources": (setting.budget,) * setting.depth,
        "neighbours": (FANOUT * growth,) * setting.depth,
    }
    return TrainConfig.of(
        dataset="random",
        sampler=sampler,
        **({"policy": "exp3"} if sampler == "bliss" else {}),
        budgets=budgets.get(unit, ()),
        batch_size=NODES // 2 if sampler == "full" else SEEDS,
        layers=setting.depth,
        hidden=setting.width,
        steps=WARM_UP + STEPS,
    )


def random_data(setting: Setting) -> Dataset:
    """Random edges between NODES nodes, with features as wide as the hidden layers."""
    random = np.random.default_rng(0)
    pairs = random.integers(0, NODES, (2, setting.edges))
    x = random.standard_normal((NODES, setting.width)).astype(np.float32)
    nodes = torch.from_numpy(random.permutation(NODES))
    splits = {"train": nodes[: NODES // 2], "val": nodes[-20:-10], "test": nodes[-10:]}
    y = torch.from_numpy(random.integers(0, 8, NODES))
    graph = Graph.from_edge_index(pairs, NODES)
    return Dataset("random", graph, torch.from_numpy(x), y, splits, 8)


def _bytes_of(block: Block, width: int) -> int:
    """Bytes of a block's arrays and of its activations with their gradients."""
    arrays = (block.src, block.indptr, block.row, block.edge, block.edge_prob, block.edge_weight)
    return sum(t.nbytes for t in arrays) + 8 * width * (block.num_src + block.num_dst)
