"""Test F1 at equal steps and the time of a step, with coins that last 1, 8 and 64 steps.

`python -m experiments.coins.run times --root DATA` measures steps in memory, with the three in
turn; run it alone on a machine. `... run train` trains every cell. Both add to results.json, skip
what is there, and rewrite README.md. `python -m benchmarks disk` measures what is read from disk.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

import msgspec
import torch

from bliss.data import Dataset, load_dataset
from bliss.storage import records
from bliss.studies.provenance import Machine, machine
from bliss.train import Stepper, TrainConfig, build_task, resolve
from bliss.train.evaluation import evaluate
from experiments.graphs import three_hops

HERE = Path(__file__).parent
PATH = HERE / "results.json"
COIN_STEPS, SEEDS = (1, 8, 64), (0, 1)
WARM_UP, ROUNDS = 5, 40


@dataclass(frozen=True)
class Case:
    """A graph and the settings of its runs."""

    load: Callable[[Path | None], Dataset]
    settings: dict[str, Any]


COMMON: dict[str, Any] = {
    "sampler": "bliss",
    "model": "sage",
    "layers": 3,
    "normalisation": "batch",
    "dropout": 0.0,
    "schedule": "linear",
    "batch_size": 512,
}
CASES = {
    "ppi": Case(
        lambda root: load_dataset("ppi", root),
        {"hidden": 256, "lr": 0.01, "estimator": "hajek", "budgets": (2048, 1024, 512)}
        | {"steps": 300},
    ),
    "three-hops": Case(
        lambda root: three_hops(),
        {"hidden": 128, "lr": 0.005, "estimator": "ht", "budgets": (4096, 2048, 1024)}
        | {"steps": 250},
    ),
}


class Cell(records.Record, frozen=True, kw_only=True):
    """Test F1 of a run, and the share of a step's input nodes that were not in the step before."""

    graph: str
    coin_steps: int
    seed: int
    test_score: float
    new_share: float


class Time(records.Record, frozen=True, kw_only=True):
    """Median milliseconds of a step in memory."""

    graph: str
    coin_steps: int
    step_ms: float


class Results(records.Record, frozen=True, kw_only=True):
    """Everything that was measured."""

    machine: Machine
    times: list[Time]
    runs: list[Cell]


def config(graph: str, coin_steps: int, seed: int = 0) -> TrainConfig:
    """Settings of a run."""
    given = COMMON | CASES[graph].settings
    return resolve(**given, dataset=graph, coin_steps=coin_steps, seed=seed, patience=0)


def train(graph: str, coin_steps: int, seed: int, dataset: Dataset) -> Cell:
    """Train and score the last step."""
    task = build_task(config(graph, coin_steps, seed), dataset)
    stepper, shares = Stepper(task), []
    before = torch.zeros(task.graph.num_nodes, dtype=torch.bool)
    for batches in stepper.batches():
        (batch,) = step = list(batches)
        source = batch.blocks[0].src
        shares.append(1 - float(before[source].float().mean()))
        before.zero_()
        before[source] = True
        stepper.step(step)
    return Cell(
        graph=graph,
        coin_steps=coin_steps,
        seed=seed,
        test_score=evaluate(task, ("test",))["test"],
        new_share=mean(shares[1:]),
    )


def measure(graph: str, dataset: Dataset) -> list[Time]:
    """Time steps with coins that last 1, 8 and 64 steps, in turn."""
    steppers = {k: Stepper(build_task(config(graph, k), dataset)) for k in COIN_STEPS}
    batches = {k: stepper.batches() for k, stepper in steppers.items()}
    taken: dict[int, list[float]] = {k: [] for k in COIN_STEPS}
    for _ in range(WARM_UP + ROUNDS):
        for k, stepper in steppers.items():
            started = perf_counter()
            stepper.step(next(batches[k]))
            taken[k].append(1e3 * (perf_counter() - started))
    return [Time(graph=graph, coin_steps=k, step_ms=median(taken[k][WARM_UP:])) for k in COIN_STEPS]


def read() -> Results:
    """The stored results; empty at first."""
    if not PATH.exists():
        return Results(machine=machine(), times=[], runs=[])
    return records.read(PATH, Results, "run it again")


def page(found: Results) -> str:
    """Text of README.md: the notes, and a table of the results."""
    notes = (HERE / "notes.md").read_text(encoding="utf-8").rstrip()
    heads = ["K", *(f"test F1, seed {seed}" for seed in SEEDS), "new input nodes", "ms a step"]
    lines = [notes, ""]
    for graph, case in CASES.items():
        steps = case.settings["steps"]
        lines += [f"{graph}, {steps} steps:", "", "| " + " | ".join(heads) + " |"]
        lines.append("|---" * len(heads) + "|")
        for k in COIN_STEPS:
            runs = {c.seed: c for c in found.runs if (c.graph, c.coin_steps) == (graph, k)}
            scores = [f"{runs[s].test_score:.4f}" if s in runs else "" for s in SEEDS]
            share = f"{mean(c.new_share for c in runs.values()):.2f}" if runs else ""
            times = [t.step_ms for t in found.times if (t.graph, t.coin_steps) == (graph, k)]
            cells = [str(k), *scores, share, *(f"{ms:.1f}" for ms in times)]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    facts = found.machine
    lines.append(f"One thread of {facts.processor}, torch {facts.torch}.")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("times", "train", "page"))
    parser.add_argument("--root", type=Path, help="folder of data sets")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = read()
    for graph in CASES if arguments.action != "page" else ():
        dataset = CASES[graph].load(arguments.root)
        if arguments.action == "times" and not any(t.graph == graph for t in found.times):
            times = [*found.times, *measure(graph, dataset)]
            found = msgspec.structs.replace(found, times=times)
        done = {(c.graph, c.coin_steps, c.seed) for c in found.runs}
        for seed, k in product(SEEDS, COIN_STEPS) if arguments.action == "train" else ():
            if (graph, k, seed) not in done:
                run = train(graph, k, seed, dataset)
                found = msgspec.structs.replace(found, runs=[*found.runs, run])
                records.write(PATH, found)
                print(run, flush=True)
    records.write(PATH, found)
    (HERE / "README.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
