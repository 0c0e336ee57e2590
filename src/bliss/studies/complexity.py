"""How time, memory and variance grow with edges, budget, width and depth: fitted exponents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from bliss.block import Block
from bliss.data import Dataset
from bliss.graph import Graph
from bliss.samplers import SAMPLERS as REGISTRY
from bliss.studies.variance import VarianceStudy
from bliss.train import TrainConfig, Trainer

NODES = 20_000
SEEDS = 256
WARM_UP, STEPS = 3, 8
GROWTH = (1, 2, 4)
SAMPLERS = ("full", "neighbor", "ladies", "pladies", "bliss")
FANOUT = 4
"""What neighbour sampling keeps at growth 1: its cost grows with the depth's power of it."""


@dataclass(frozen=True)
class Setting:
    """One point of measurement; the defaults are where every line starts."""

    edges: int = 400_000
    budget: int = 512
    width: int = 128
    depth: int = 2


def measure_complexity(
    stated: Mapping[str, Any], say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """One row for each quantity, sampler and what it grows with.

    The exponent b of y ~ x^b is the slope of log y over log x, by least squares. Time is a step's
    median; memory is counted: bytes of blocks, of activations forth and back, of weights with
    Adam's moments, and of what the policy keeps. BLISS is the paper's (policy "exp3"), and a batch
    has SEEDS seeds, so that frontiers do not cover the graph. Depth starts at 1, the others at
    `Setting`'s values. What does not grow, such as a step's fixed costs, pulls exponents down.
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
    """Settings that differ in one thing alone."""
    start = Setting()
    factors = (1, 2, 3, 4) if axis == "depth" else GROWTH
    return [replace(start, **{axis: value(start, axis, factor)}) for factor in factors]


def value(start: Setting, axis: str, factor: int) -> int:
    """What an axis is at a factor of growth; depth starts at 1."""
    return factor if axis == "depth" else int(getattr(start, axis)) * factor


def row(
    stated: Mapping[str, Any],
    quantity: str,
    sampler: str,
    axis: str,
    pairs: list[tuple[int, float]],
) -> dict[str, Any]:
    """A row with its fitted exponent beside the stated one."""
    x, y = np.log(np.array(pairs, dtype=np.float64)).T
    return {
        "quantity": quantity,
        "sampler": sampler,
        "grows_with": axis,
        "exponent": float(np.polyfit(x, y, 1)[0]),
        "stated": stated[sampler][quantity][axis],
        "points": [list(pair) for pair in pairs],
    }


def measure(sampler: str, setting: Setting) -> tuple[float, float]:
    """Seconds of a step and bytes it holds."""
    trainer = Trainer(config(sampler, setting), random_data(setting), Path("unused"), _silent)
    held: list[int] = []
    for batch in trainer.batches():
        trainer.learn(batch)
        held.append(sum(_bytes_of(block, setting.width) for block in batch.blocks))
    learnt = sum(t.nbytes for t in trainer.sampler.state_dict().values())
    weights = 4 * sum(p.nbytes for p in trainer.model.parameters())  # with gradient and moments
    return median(trainer.times["total"][WARM_UP:]), median(held) + learnt + weights


def aggregate_variance(sampler: str, setting: Setting) -> float:
    """V of the output layer, whose targets are the seeds whatever the budget."""
    policy = "exp3" if sampler == "bliss" else "static"
    chosen = replace(config("pladies", setting), steps=40)
    study = VarianceStudy(chosen, random_data(setting), [policy], every=40)
    study.run()
    return float(study.history[-1]["layers"][-1]["policies"][policy])


def config(sampler: str, setting: Setting) -> TrainConfig:
    """Settings of a run at a point."""
    unit = REGISTRY[sampler].unit
    growth = setting.budget // Setting.budget
    budgets = {
        "sources": (setting.budget,) * setting.depth,
        "neighbours": (FANOUT * growth,) * setting.depth,
    }
    return TrainConfig(
        dataset="random",
        sampler=sampler,
        sampler_options={"policy": "exp3"} if sampler == "bliss" else {},
        budgets=budgets.get(unit, ()),
        batch_size=NODES // 2 if sampler == "full" else SEEDS,
        layers=setting.depth,
        hidden=setting.width,
        steps=WARM_UP + STEPS,
    )


def random_data(setting: Setting) -> Dataset:
    """Random edges over NODES nodes, with features as wide as hidden layers."""
    random = np.random.default_rng(0)
    pairs = random.integers(0, NODES, (2, setting.edges))
    x = random.standard_normal((NODES, setting.width)).astype(np.float32)
    nodes = torch.from_numpy(random.permutation(NODES))
    splits = {"train": nodes[: NODES // 2], "val": nodes[-20:-10], "test": nodes[-10:]}
    y = torch.from_numpy(random.integers(0, 8, NODES))
    graph = Graph.from_edge_index(pairs, NODES)
    return Dataset("random", graph, torch.from_numpy(x), y, splits, 8)


def _bytes_of(block: Block, width: int) -> int:
    """A block's arrays, and its sources' and targets' activations with their gradients."""
    arrays = (block.src, block.indptr, block.row, block.edge, block.edge_prob, block.edge_weight)
    return sum(t.nbytes for t in arrays) + 8 * width * (block.num_src + block.num_dst)


def _silent(text: str) -> None:
    pass
