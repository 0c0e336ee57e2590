"""Bias of the learning policy of `bliss` when random numbers are kept for K steps.

`python -m experiments.coins.bias` trains GraphSAGE on the built-in synthetic graph with many seeds.
If draws are unbiased, the sum of 1 / p_j over the kept sources of a layer is on average the number
of sources that could be kept. Prints the mean of their ratio minus 1 after the first steps, by
layer, with its standard error over seeds.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from bliss import Graph
from bliss.data import load_dataset
from bliss.nn.block import Block
from bliss.train import Stepper, build_task, resolve

STEPS, SKIPPED = 50, 10
SETTINGS = {
    "dataset": "synthetic",
    "sampler": "bliss",
    "layers": 2,
    "hidden": 16,
    "normalisation": "none",
    "budgets": (256, 256),
    "first_hop": "sampled",
    "history": "none",
    "estimator": "ht",
    "batch_size": 64,
    "steps": STEPS,
}


def excess(block: Block, graph: Graph) -> float:
    """Sum of 1 / p_j over the kept sources of a layer over the number that could be kept, minus 1.

    Targets are kept with p_j = 1, and do not count.
    """
    targets = block.dst.numpy()
    edges = [graph.indices[graph.indptr[one] : graph.indptr[one + 1]] for one in targets]
    number = np.setdiff1d(np.concatenate(edges), targets).size
    assert block.prob is not None
    return float((1 / block.prob[targets.size :].double()).sum()) / number - 1


def main() -> None:
    """Print the bias for K = 1 and 8."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    seeds = parser.parse_args().seeds
    torch.set_num_threads(1)
    data = load_dataset("synthetic")
    print(data, SETTINGS)
    for steps in (1, 8):
        found = np.zeros((seeds, 2))  # [seeds, layers]
        for seed in range(seeds):
            task = build_task(resolve(**SETTINGS, coin_steps=steps, seed=seed), data)
            stepper, own = Stepper(task), []
            for batches in stepper.batches():
                for batch in batches:
                    if stepper.steps >= SKIPPED:
                        own.append([excess(block, data.graph) for block in batch.blocks])
                    stepper.step([batch])
            found[seed] = np.mean(own, 0)
        error = found.std(0, ddof=1) / seeds**0.5
        for layer in range(2):
            print(
                f"K = {steps}, layer {layer}: {found[:, layer].mean():+.4f} +- {error[layer]:.4f}"
            )


if __name__ == "__main__":
    main()
