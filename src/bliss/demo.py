"""`python -m bliss.demo`: train with BLISS on the embedded graph and print the results.

The results are test F1 compared with PLADIES, which does not learn, the milliseconds of each part
of a step, and the sampling error of the input layer's aggregates: in closed form, on the same
frontier, for PLADIES, the learnt policy and the best probabilities.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bliss.data import Dataset, load_dataset, size_words
from bliss.samplers import PLADIES, LayerSampler
from bliss.samplers.influence import of_sources
from bliss.studies.layer_errors import Targets, error, exact_frontiers, least_error
from bliss.train import RunResult, StepProgress, Trainer, resolve

STEPS = 300


def main() -> None:
    """Run the demonstration and print its results."""
    dataset = load_dataset("synthetic")
    print(
        f"Embedded graph: {size_words(dataset.graph)}, "
        f"{dataset.num_classes} classes.\nGraphSAGE with BLISS, {STEPS} steps of 256 nodes, "
        "keeping about 2048, 1024 and 512 sources per layer:\n"
    )
    trainer, result = train(dataset, "bliss", show=True)
    print("\n  sampler          test F1     ms/step     nodes/step     edges/step")
    print_row("bliss", result)
    print_row("pladies", train(dataset, "pladies")[1])
    parts = result.step_ms
    named = ", ".join(f"{name} {parts[name]:.1f}" for name in parts if name != "total")
    print(f"\n  a step of BLISS  {parts['total']:.0f} ms ({named})")
    static, learnt, limit = input_errors(trainer)
    print(
        f"  sampling error   {learnt / static:.2f} of PLADIES' in the input layer, after {STEPS} "
        "steps of learning;\n                   lowest possible with as many sources: "
        f"{limit / static:.2f}"
    )


def train(dataset: Dataset, sampler: str, show: bool = False) -> tuple[Trainer, RunResult]:
    """Train with the defaults and all layers sampled, in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        config = resolve(steps=STEPS, sampler=sampler, first_hop="sampled")
        trainer = Trainer(config, dataset, Path(folder) / "run", print)

        def on_step(now: StepProgress) -> None:
            if show and now.step % 50 == 0:
                print(f"  step {now.step:3d}   loss {now.loss:.3f}   val F1 {now.val_score:.3f}")

        return trainer, trainer.run(on_step=on_step)


def print_row(sampler: str, result: RunResult) -> None:
    """Print one line of the table."""
    nodes, edges = result.sampled.nodes, result.sampled.edges
    numbers = f"{result.test_score:.3f}{result.step_ms['total']:12.0f}{nodes:15,.0f}{edges:15,.0f}"
    print(f"  {sampler:16} {numbers}")


def input_errors(trainer: Trainer) -> list[float]:
    """Weighted V of the input layer on one batch's frontier: PLADIES, bliss, the limit."""
    learnt, task = trainer.stepper.sampler, trainer.task
    assert isinstance(learnt, LayerSampler)  # the default sampler is one
    fixed = PLADIES(task.graph, learnt.budgets, seed=trainer.config.seed)
    seeds = task.dataset.splits["train"][: trainer.config.training.batch_size]
    above = learnt.sample(seeds, trainer.config.training.steps)[1]
    targets = Targets(above.src.numpy(), of_sources(above))
    (frontier,) = exact_frontiers(task.model, task.graph, task.x, [[targets]])
    stake = frontier.stake.weighted
    chances = [
        fixed.inclusion(targets.node, 0).prob,
        learnt.inclusion(targets.node, 0, targets.influence).prob,
    ]
    limit = least_error(chances[1], targets.node.size, stake)
    return [*(error(prob, stake) for prob in chances), limit]


if __name__ == "__main__":
    main()
