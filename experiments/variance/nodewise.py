"""Claim: neighbour sampling gains when targets of more influence keep more neighbours.

`python -m experiments.variance.nodewise --root DATA` trains a network per case with neighbour
sampling, measures r with the same fanout for all targets and with `--influence prior`, which keeps
as many edges in a layer, and trains both for the seconds of STEPS steps without influence. It
adds to results.json, from which `run.page` makes a table. Finished cases are skipped.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import torch

from bliss.data import Dataset
from bliss.samplers import Neighbor
from bliss.studies.gradients import full_gradients, squared_errors, training_batch
from bliss.train import Stepper, TrainConfig, build_task, resolve
from bliss.train.evaluation import evaluate
from experiments.variance import results
from experiments.variance.run import COMMON, GRAPHS, NETWORKS

KINDS = ("none", "prior")
FANOUTS = ((5, 5, 5), (2, 4, 8))
NAMES = ("ppi", "pubmed", "three-hops")
CASES = [(name, network, fanouts) for name in NAMES for network in NETWORKS for fanouts in FANOUTS]
SCORED = [
    ("ppi", "sage", (5, 5, 5)),
    ("three-hops", "sage", (5, 5, 5)),
    ("ppi", "gatv2", (5, 5, 5)),
]
BATCHES, DRAWS, TRAINED = 4, 8, 150
STEPS, SEEDS, ROUNDS, WARM_UP = 300, (0, 1, 2, 3, 4), 40, 5


def config(name: str, network: str, fanouts: tuple[int, ...], **more: Any) -> TrainConfig:
    """Settings of a run."""
    settings = {**COMMON, **NETWORKS[network], **GRAPHS[name].settings, **more}
    return resolve(dataset=name, sampler="neighbor", budgets=fanouts, batch_size=256, **settings)


def errors(name: str, network: str, fanouts: tuple[int, ...], dataset: Dataset) -> dict[str, Any]:
    """r with and without influence, with half of a 95% interval, and the edges of a batch."""
    settings = config(name, network, fanouts, steps=TRAINED, schedule="constant", patience=0)
    task = build_task(settings, dataset)
    stepper = Stepper(task)
    for batch in stepper.batches():
        stepper.step(batch)
    batches = [training_batch(task, TRAINED, number) for number in range(BATCHES)]
    exact = full_gradients(task, batches)
    size = float(exact.square().sum(1).mean())
    found: dict[str, Any] = {}
    for kind in KINDS:
        sampler = Neighbor(task.graph, fanouts, influence=kind)
        r = squared_errors(task, sampler, batches, exact, DRAWS) / size
        blocks = [sampler.sample(batch.node, 0) for batch in batches]
        found[kind] = {
            "r": float(r.mean()),
            "half": float(1.96 * r.std(ddof=1) / r.size**0.5),
            "edges": float(np.mean([sum(b.num_edges for b in one) for one in blocks])),
        }
    return found


def scores(name: str, network: str, fanouts: tuple[int, ...], dataset: Dataset) -> dict[str, Any]:
    """Test F1 after the seconds of STEPS steps without influence, and milliseconds of a step."""
    makers = {kind: config(name, network, fanouts, influence=kind, steps=10**6) for kind in KINDS}
    steppers = {
        kind: Stepper(build_task(made.with_settings(prefetch=0), dataset))
        for kind, made in makers.items()
    }
    batches = {kind: stepper.batches() for kind, stepper in steppers.items()}
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(WARM_UP + ROUNDS):
        for kind, stepper in steppers.items():
            started = process_time()
            stepper.step(next(batches[kind]))
            taken[kind].append(1e3 * (process_time() - started))
    ms = {kind: median(times[WARM_UP:]) for kind, times in taken.items()}
    found: dict[str, Any] = {}
    for kind in KINDS:
        steps = round(STEPS * ms["none"] / ms[kind])
        f1 = []
        for seed in SEEDS:
            more = {"influence": kind, "steps": steps, "seed": seed, "schedule": "linear"}
            task = build_task(config(name, network, fanouts, **more), dataset)
            stepper = Stepper(task)
            for batch in stepper.batches():
                stepper.step(batch)
            f1.append(evaluate(task, ("test",))["test"])
        found[kind] = {"test_score": f1, "step_ms": ms[kind], "steps": steps}
    return found


def label(name: str, network: str, fanouts: tuple[int, ...]) -> str:
    """Key of a case in the file."""
    return f"{name} {network} {','.join(map(str, fanouts))}"


def main() -> None:
    """Measure the missing cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = results.read("nodewise")
    datasets = {name: GRAPHS[name].load(arguments.root) for name in NAMES}
    wanted = [("error", errors, case) for case in CASES] + [("f1", scores, c) for c in SCORED]
    for part, measure, case in wanted:
        entry = found.setdefault(label(*case), {})
        if part not in entry:
            entry[part] = measure(*case, datasets[case[0]])
            results.write("nodewise", found)
            print(label(*case), part, entry[part], flush=True)


if __name__ == "__main__":
    main()
