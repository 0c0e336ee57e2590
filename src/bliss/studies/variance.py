"""How far each policy's probabilities are from the best possible, in closed form, over training.

One network is trained with PLADIES. Every policy studied draws its own sample of each batch from
that same network and learns from it, as it would if it were in charge. At checkpoints, all of
them, PLADIES and the limit are judged on the same frontiers and the exact embeddings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bliss import checks
from bliss.arrays import FloatArray, IntArray
from bliss.block import Block
from bliss.data import Dataset
from bliss.graph import Graph
from bliss.kernels import frontier
from bliss.nn import GNN, full_sampler, infer_layer
from bliss.policies import POLICIES
from bliss.rng import Stream, derive_key
from bliss.samplers import PLADIES, Bliss, LayerSampler
from bliss.train import TrainConfig, Trainer

FRONTIERS = 4
"""Batches whose variance is summed at a checkpoint."""


class Stake(NamedTuple):
    """What is at stake for each candidate of a layer, targets first. float64[C] each."""

    absolute: FloatArray
    relative: FloatArray


@dataclass(frozen=True)
class Frontier:
    """The targets of one layer of one batch, and what is at stake for their candidates."""

    layer: int
    targets: IntArray  # int64[D]
    stake: Stake


def stakes(block: Block, alpha: Tensor, size: Tensor) -> Stake:
    """c_j of a layer whose block holds every in-edge of its targets.

        absolute  c_j = |h_j|^2 sum_i alpha_ij^2
        relative  c_j = |h_j|^2 sum_i (alpha_ij / sum_k alpha_ik |h_k|)^2

    The first is for sum_i |mu_hat_i - mu_i|^2; the second divides each target's error by the size
    of what is summed, as [eq:optsample] does.

    alpha [E'], size [S] -> float64[S] each
    """
    squared, size = alpha.double().square(), size.double()
    reach = torch.zeros(block.num_dst, dtype=torch.float64)
    reach.index_add_(0, block.col, alpha.double() * size[block.row])
    scale = torch.where(reach > 0, reach, 1.0).reciprocal().square()  # nothing sums to 0
    sums = torch.zeros(2, block.num_src, dtype=torch.float64)
    sums[0].index_add_(0, block.row, squared)
    sums[1].index_add_(0, block.row, squared * scale[block.col])
    absolute, relative = (size.square() * sums).numpy()
    return Stake(absolute, relative)


def error(prob: FloatArray, stake: FloatArray) -> float:
    """V(p) = sum_j (1 / p_j - 1) c_j, the expected squared error of the aggregates."""
    return float(((1 / prob - 1) * stake)[stake > 0].sum())


def least_error(prob: FloatArray, num_dst: int, stake: FloatArray) -> float:
    """The limit: the least V of any probabilities that keep as many sources on average.

    The first num_dst candidates are targets and kept in any case; over the others it is reached by
    p_j = min(1, c sqrt(c_j)) with the same sum as `prob` has there. So it cannot be beaten.
    """
    mass, number = np.sqrt(stake[num_dst:]), float(prob[num_dst:].sum())
    if (mass > 0).sum() <= number:
        return 0.0
    best = np.minimum(mass * frontier.fit_scale(mass, number), 1.0)
    return error(best, stake[num_dst:])


def exact_frontiers(
    model: GNN, graph: Graph, x: Tensor, targets: Sequence[Sequence[IntArray]]
) -> list[Frontier]:
    """Stakes from the embeddings and the attention of full neighbourhoods.

    targets holds, for each layer, the targets of some batches. x is [V, F].
    """
    sampler, found = full_sampler(graph, 1), []
    for layer, batches in enumerate(targets):
        size = torch.linalg.vector_norm(x, dim=1)
        for dst in batches:
            (block,) = sampler.sample(dst, 0)
            alpha = block.edge_weight
            if model.config.is_attention:
                alpha = model.attention(layer, x.index_select(0, block.src), block)
            found.append(Frontier(layer, dst, stakes(block, alpha, size[block.src])))
        if layer + 1 < len(targets):
            x = infer_layer(model, layer, graph, x)
    return found


class VarianceStudy:
    """Trains one network, lets every policy learn from it, and measures them as it goes.

    Parameters
    ----------
    config
        Settings of the training; its sampler must be "pladies".
    dataset
        The graph, its features and labels.
    policies
        Names of policies to measure beside PLADIES.
    every
        Steps between checkpoints.
    """

    def __init__(
        self, config: TrainConfig, dataset: Dataset, policies: Sequence[str], every: int
    ) -> None:
        for name in policies:
            checks.choice("policies", name, list(POLICIES))
        self.every = every
        self.trainer = Trainer(config, dataset, Path("unused"), _silent)
        self.config = config = self.trainer.config
        self.fixed = PLADIES(self.trainer.graph, config.budgets, seed=config.seed)
        self.students = {
            name: Bliss(self.trainer.graph, config.budgets, policy=name, seed=config.seed)
            for name in policies
        }
        self.history: list[dict[str, Any]] = []

    def run(self, on_step: Callable[[int], None] | None = None) -> dict[str, Any]:
        """Train, measure, and return what the JSON file holds."""
        trainer, steps = self.trainer, self.config.steps
        for batch in trainer.batches():
            trainer.learn(batch)
            step = trainer.loader.step
            for student in self.students.values():
                self._teach(student, batch.blocks[-1].dst, step)
            if step % self.every == 0 or step == steps:
                self.history.append(self._measure(step))
            if on_step:
                on_step(step)
        return self.summary()

    def _teach(self, student: LayerSampler, seeds: Tensor, step: int) -> None:
        """Let a policy see its own sample of a batch, through the network as it is."""
        if not student.policy.learns:
            return
        blocks = student.sample(seeds, step)
        model = self.trainer.model.train()
        torch.manual_seed(int(derive_key(self.config.seed, Stream.DROPOUT, step)) >> 1)  # dropout
        with torch.no_grad():
            model(self.trainer.x.index_select(0, blocks[0].src), blocks)
        student.update(blocks)

    def _measure(self, step: int) -> dict[str, Any]:
        trainer, layers = self.trainer, self.config.layers
        was_training = trainer.model.training
        trainer.model.eval()
        batches = [
            self.fixed.sample(seeds, Stream.MEASUREMENT + step) for seeds in self._seeds(step)
        ]
        targets = [[blocks[layer].dst.numpy() for blocks in batches] for layer in range(layers)]
        with torch.no_grad():
            frontiers = exact_frontiers(trainer.model, trainer.graph, trainer.x, targets)
        trainer.model.train(was_training)
        return {
            "step": step,
            "layers": [
                self._layer([one for one in frontiers if one.layer == layer])
                for layer in range(layers)
            ],
        }

    def _seeds(self, step: int) -> list[IntArray]:
        """Batches of training nodes drawn for a checkpoint."""
        nodes = self.trainer.dataset.splits["train"].numpy()
        size = min(self.config.batch_size, nodes.size)
        generator = np.random.default_rng([self.config.seed, step])
        return [generator.choice(nodes, size, replace=False) for _ in range(FRONTIERS)]

    def _layer(self, frontiers: list[Frontier]) -> dict[str, Any]:
        """Errors of one layer, summed over its frontiers."""
        found: dict[str, Any] = {}
        for prefix, kind in (("", "absolute"), ("relative_", "relative")):
            found[f"{prefix}pladies"], found[f"{prefix}limit"] = _errors(
                self.fixed, frontiers, kind
            )
            errors = {n: _errors(one, frontiers, kind) for n, one in self.students.items()}
            found[f"{prefix}policies"] = {name: pair[0] for name, pair in errors.items()}
            found[f"{prefix}limits"] = {name: pair[1] for name, pair in errors.items()}
        return found

    def summary(self) -> dict[str, Any]:
        """The measurements, and their means over the second half of training."""
        config = self.config
        late = [one for one in self.history if one["step"] > self.history[-1]["step"] / 2]
        return {
            "kind": "variance",
            "dataset": config.dataset,
            "model": config.model,
            "budgets": list(config.budgets),
            "batch_size": config.batch_size,
            "steps": config.steps,
            "seed": config.seed,
            "layers": [
                {"budget": budget, **_ratios([one["layers"][layer] for one in late])}
                for layer, budget in enumerate(config.budgets)
            ],
            "history": self.history,
        }


def _errors(sampler: LayerSampler, frontiers: list[Frontier], kind: str) -> tuple[float, float]:
    """V of a sampler and the least V at the same number of sources, summed over frontiers."""
    own = least = 0.0
    for one in frontiers:
        stake = getattr(one.stake, kind)
        prob = sampler.inclusion(one.targets, one.layer).prob
        own += error(prob, stake)
        least += least_error(prob, one.targets.size, stake)
    return own, least


def _ratios(checkpoints: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over checkpoints of a layer's ratios; 1 where everything is kept."""

    def average(pairs: Iterable[tuple[float, float]]) -> float:
        return mean(above / below if below > 0 else 1.0 for above, below in pairs)

    found: dict[str, Any] = {"policies": {name: {} for name in checkpoints[0]["policies"]}}
    for prefix in ("", "relative_"):
        found[f"{prefix}limit_over_pladies"] = average(
            (one[f"{prefix}limit"], one[f"{prefix}pladies"]) for one in checkpoints
        )
        for name, ratios in found["policies"].items():
            own = [one[f"{prefix}policies"][name] for one in checkpoints]
            fixed = [one[f"{prefix}pladies"] for one in checkpoints]
            least = [one[f"{prefix}limits"][name] for one in checkpoints]
            ratios[f"{prefix}over_pladies"] = average(zip(own, fixed, strict=True))
            ratios[f"{prefix}over_limit"] = average(zip(own, least, strict=True))
    return found


def _silent(text: str) -> None:
    pass
