"""`python -m bliss.demo`: train with BLISS on the embedded graph and show what it did.

How well: F1 against the same network without the graph. How fast: milliseconds of each part of a
step. With how little variance: the error of the input layer's aggregates, in closed form and on
the same frontier, for PLADIES, for what the bandit has learnt, and for the best probabilities.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import numpy as np

from bliss.data import Dataset, load_dataset
from bliss.graph import Graph
from bliss.samplers import PLADIES, LayerSampler
from bliss.studies.variance import error, exact_frontiers, least_error
from bliss.train import RunResult, Standing, Trainer, resolve

STEPS = 300


def main() -> None:
    """Run the demonstration and print what it shows."""
    dataset = load_dataset("synthetic")
    print(
        f"An embedded graph: {dataset.graph.num_nodes:,} nodes, {dataset.graph.num_edges:,} edges, "
        f"{dataset.num_classes} classes.\nGraphSAGE with BLISS, {STEPS} steps of 256 nodes, "
        "keeping about 2048, 1024 and 512 sources a layer:\n"
    )
    trainer, result = train(dataset, show=True)
    _, alone = train(without_edges(dataset), show=False)
    print(f"\n  test F1          {result.test_f1:.3f}")
    print(f"  without graph    {alone.test_f1:.3f}   (the same network on the nodes alone)")
    parts = result.step_ms
    named = ", ".join(f"{name} {parts[name]:.1f}" for name in parts if name != "total")
    print(f"  a step takes     {parts['total']:.0f} ms   ({named})")
    static, learnt, limit = input_errors(trainer)
    print(
        f"  sampling error   {learnt / static:.2f} of PLADIES' at the input layer, after {STEPS} "
        "steps of learning;\n                   the best that any probabilities could do with "
        f"as many sources: {limit / static:.2f}"
    )


def train(dataset: Dataset, show: bool) -> tuple[Trainer, RunResult]:
    """Train with the defaults, in a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(resolve(steps=STEPS), dataset, Path(folder) / "run", print)

        def on_step(now: Standing) -> None:
            if show and now.step % 50 == 0:
                print(f"  step {now.step:3d}   loss {now.loss:.3f}   val F1 {now.val_f1:.3f}")

        return trainer, trainer.run(on_step=on_step)


def without_edges(dataset: Dataset) -> Dataset:
    """The same nodes, each with nothing but itself."""
    graph = Graph.from_edge_index(np.zeros((2, 0), np.int64), dataset.graph.num_nodes)
    return dataclasses.replace(dataset, graph=graph)


def input_errors(trainer: Trainer) -> list[float]:
    """V of the input layer on one batch's frontier: PLADIES, the learnt policy, the limit."""
    learnt, task = trainer.learner.sampler, trainer.task
    assert isinstance(learnt, LayerSampler)  # as the defaults have it
    fixed = PLADIES(task.graph, learnt.budgets, seed=trainer.config.seed)
    seeds = task.dataset.splits["train"][: trainer.config.batch_size]
    targets = learnt.sample(seeds, trainer.config.steps)[0].dst.numpy()
    (frontier,) = exact_frontiers(task.model, task.graph, task.x, [[targets]])
    stake = frontier.stake.absolute
    chances = [sampler.inclusion(targets, 0).prob for sampler in (fixed, learnt)]
    limit = least_error(chances[1], targets.size, stake)
    return [*(error(prob, stake) for prob in chances), limit]


if __name__ == "__main__":
    main()
