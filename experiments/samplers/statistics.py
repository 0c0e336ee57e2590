"""How much of a score is due to the running statistics of batch normalisation.

In training, batch normalisation uses the mean and variance of a layer's sampled nodes, computed
from sampled neighbourhoods; in evaluation, their running averages. `python -m
experiments.samplers.statistics --root DATA` trains on PPI with the settings of run.py, but without
surveys, and evaluates as usual. It then replaces the averages by the mean and variance over all
training nodes with full neighbourhoods, layer by layer, evaluates again, and writes
results/statistics.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from torch import Tensor, nn

from bliss.data import Dataset
from bliss.nn import infer_layer
from bliss.nn.block import Block
from bliss.storage import records
from bliss.train import Stepper, TrainConfig, build_task
from bliss.train.evaluation import evaluate
from bliss.train.task import Task
from experiments.samplers.run import CASES, HERE

SEEDS = (1, 2, 3, 4, 5)
BUDGETS = {  # equal edges, see tables.md
    "ppi-sage": {"bliss": 512, "pladies": 519, "full": None},
    "ppi-gatv2": {"bliss": 512, "pladies": 523, "full": None},
}


class Score(records.Record, frozen=True, kw_only=True):
    """Validation F1 over seeds with running averages, and with exact statistics."""

    running: float
    exact: float
    difference_deviation: float  # over seeds


class Scores(records.Record, frozen=True, kw_only=True):
    """Scores by case and sampler."""

    cases: dict[str, dict[str, Score]]


@torch.no_grad()
def set_exact_statistics(task: Task) -> None:
    """Set mean and variance of every batch normalisation to those over the training nodes."""
    model, x, own = task.model.eval(), task.x.float(), task.dataset.splits["train"]
    for number in range(model.config.layers - 1):
        norm = model.norms[number]
        assert isinstance(norm, nn.BatchNorm1d)
        assert norm.running_mean is not None and norm.running_var is not None

        def plain(inputs: Tensor, block: Block, number: int = number) -> Tensor:
            out: Tensor = model.convs[number](inputs, block)
            return model._add_residual(number, out, inputs[: block.num_dst])

        out = infer_layer(plain, task.graph, x)
        variance, centre = torch.var_mean(out[own], dim=0)
        norm.running_mean.copy_(centre)
        norm.running_var.copy_(variance)
        x = model._activate(norm(out))


def score(settings: dict[str, Any], dataset: Dataset) -> tuple[float, float]:
    """Validation F1 of a run with running averages, and with exact statistics."""
    task = build_task(TrainConfig.of(**settings), dataset)
    stepper = Stepper(task)
    for step in stepper.batches():
        stepper.step(step)
    running = evaluate(task, ["val"])["val"]
    set_exact_statistics(task)
    return running, evaluate(task, ["val"])["val"]


def main() -> None:
    """Train and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, dict[str, Score]] = {}
    for name in BUDGETS:
        case, found[name] = CASES[name], {}
        dataset = case.load(arguments.root)
        for sampler, budget in BUDGETS[name].items():
            settings = {**case.settings, "sampler": sampler}
            if budget:
                settings |= {"budgets": (budget,) * 3, "estimator": "hajek"}
            pairs = [score({**settings, "seed": seed}, dataset) for seed in SEEDS]
            found[name][sampler] = Score(
                running=mean(one for one, _ in pairs),
                exact=mean(other for _, other in pairs),
                difference_deviation=stdev(other - one for one, other in pairs),
            )
            print(name, sampler, found[name][sampler], flush=True)
    records.write(HERE / "results" / "statistics.json", Scores(cases=found))


if __name__ == "__main__":
    main()
