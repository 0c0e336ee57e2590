"""What a budget buys: test F1 and training time of each sampler over budgets from 1/16 to 1.

`python -m experiments.payoff.run CASE --root DATA` trains every cell of a case (a graph and a
network) and writes each result to results/CASE.json as soon as it is known; finished cells are
skipped. `python -m experiments.payoff.times CASE` measures the time of a step, and
`python -m experiments.payoff.tables` rewrites README.md and the figures.

A run ends with its last step, or, where the network overfits, with the evaluated step of the best
validation F1, as in `bliss train`. notes.md says what was changed after a look at test scores.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import torch

from bliss.data import Dataset, load_dataset
from bliss.samplers import Sampler
from bliss.storage import records
from bliss.train import Stepper, Task, TrainConfig, build_task, resolve
from bliss.train.evaluation import evaluate, evaluate_and_survey
from experiments.graphs import three_hops

HERE = Path(__file__).parent
SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
LINEAR = (
    "bliss",
    "bliss+history",
    "bliss+survey history",
    "pladies",
    "vrgcn",
    "neighbor",
    "labor-*",
    "saint-rw",
    "full",
)
HISTORIES = {"history": "nodes", "survey history": "surveys"}
SURVEYED = ("bliss+survey", "bliss+survey history")
ATTENTION = ("bliss", "bliss+survey", "pladies", "neighbor", "labor-*", "saint-rw", "full")


@dataclass(frozen=True)
class Case:
    """A graph and a network, and what a share of 1 is."""

    load: Callable[[Path | None], Dataset]
    settings: dict[str, Any]
    budget: int  # sources per layer of layer-wise samplers
    fanout: int  # neighbours per target of node-wise samplers
    roots: int  # random walks of GraphSAINT
    samplers: tuple[str, ...] = LINEAR
    shares: tuple[float, ...] = SHARES
    survey_every: int = 50  # steps between surveys of SURVEYED
    select: bool = False  # whether to evaluate as often, and keep the best step by validation
    more: dict[str, Any] = field(default_factory=dict)  # settings of single samplers


CASES = {
    "ppi-sage": Case(
        load=lambda root: load_dataset("ppi", root),
        settings={"dataset": "ppi", "model": "sage", "batch_size": 512, "steps": 500},
        budget=4096,
        fanout=32,
        roots=4096,
    ),
    "ppi-gatv2": Case(
        load=lambda root: load_dataset("ppi", root),
        settings={
            "dataset": "ppi",
            "model": "gatv2",
            "batch_size": 512,
            "steps": 300,
            "layers": 3,
            "hidden": 256,
            "residual": True,
            "input_residual": True,
            "normalisation": "batch",
            "dropout": 0.0,
            "attention_dropout": 0.0,
            "lr": 0.01,
            "schedule": "linear",
        },
        budget=4096,
        fanout=32,
        roots=4096,
        samplers=ATTENTION,
        select=True,
    ),
    "physics-sage": Case(
        load=lambda root: load_dataset("physics", root),
        settings={
            "dataset": "physics",
            "model": "sage",
            "batch_size": 256,
            "steps": 40,
            "layers": 3,
            "hidden": 64,
            "dropout": 0.3,
            "lr": 0.01,
            "estimator": "hajek",
        },
        budget=2048,
        fanout=16,
        roots=2048,
        survey_every=10,
    ),
    "three-hops-sage": Case(
        load=lambda root: three_hops(),
        settings={
            "dataset": "three-hops",
            "model": "sage",
            "batch_size": 512,
            "steps": 250,
            "layers": 3,
            "hidden": 128,
            "dropout": 0.0,
            "lr": 0.005,
            "schedule": "linear",
            "normalisation": "batch",
            "estimator": "hajek",
        },
        budget=8192,
        fanout=16,
        roots=8192,
    ),
}


class Cell(records.Record, frozen=True, kw_only=True):
    """Result of one run."""

    sampler: str
    share: float
    seed: int
    budgets: list[int]
    train_score: float
    val_score: float
    test_score: float
    nodes: float  # of the input layer, mean of a batch
    edges: float  # of all sampled layers


class Cells(records.Record, frozen=True, kw_only=True):
    """All finished runs of a case."""

    cells: list[Cell]


def config(case: Case, sampler: str, share: float, seed: int) -> TrainConfig:
    """Settings of a cell."""
    name, _, extra = sampler.partition("+")
    given = {**case.settings, "sampler": name, "seed": seed}
    if name in ("saint-rw", "full", "vrgcn") or extra in HISTORIES:
        given.pop("estimator", None)  # they have one only
    if extra in HISTORIES:
        given["history"] = HISTORIES[extra]
    sampled = resolve(**given).network.layers - (name == "vrgcn" or extra in HISTORIES)
    if name in ("bliss", "pladies"):
        given["budgets"] = (int(share * case.budget),) * sampled
    elif name in ("neighbor", "labor-*"):
        given["budgets"] = (max(1, int(share * case.fanout)),) * sampled
    elif name == "vrgcn":
        given["budgets"] = (max(1, int(share * case.fanout / 2)),) * sampled
    else:
        given["budgets"] = ()
    if name == "saint-rw":
        given["batch_size"] = int(share * case.roots)
    return resolve(**given, **case.more.get(sampler, {}))


def survey(task: Task, student: Sampler, splits: Sequence[str]) -> dict[str, float]:
    """Scores by split; the same pass is a survey from which the sampler learns."""
    scores, news = evaluate_and_survey(task, student, splits)
    if news:
        student.apply([news])
    return scores


def train(case: Case, dataset: Dataset, sampler: str, share: float, seed: int) -> Cell:
    """Train one run and evaluate its weights on full neighbourhoods."""
    task = build_task(config(case, sampler, share, seed), dataset)
    stepper = Stepper(task)
    splits, found = ("train", "val", "test"), []
    student = stepper.sampler if sampler in SURVEYED else None
    for batch in stepper.batches():
        stepper.step(batch)
        if stepper.steps % case.survey_every == 0 and (case.select or student):
            found.append(survey(task, student, splits) if student else evaluate(task, splits))
    if not case.select:
        found = [evaluate(task, splits)]
    scores = max(found, key=lambda one: one["val"])
    sampled = stepper.mean_sampled()
    return Cell(
        sampler=sampler,
        share=share,
        seed=seed,
        budgets=list(task.config.sampler.budgets),
        train_score=scores["train"],
        val_score=scores["val"],
        test_score=scores["test"],
        nodes=sampled.nodes,
        edges=sampled.edges,
    )


def missing(case: Case, seeds: list[int], done: list[Cell]) -> list[tuple[int, float, str]]:
    """Cells still to be run, seed by seed; full neighbourhoods have no budget."""
    finished = {(cell.seed, cell.share, cell.sampler) for cell in done}
    wanted = [
        (seed, share, sampler)
        for seed, share, sampler in product(seeds, case.shares, case.samplers)
        if sampler != "full" or share == max(case.shares)
    ]
    return [cell for cell in wanted if cell not in finished]


def main() -> None:
    """Run the missing cells of a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--samplers", nargs="+", help="only these")
    parser.add_argument("--part", default="", help="suffix of the file, for runs side by side")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    case = CASES[arguments.case]
    path = HERE / "results" / f"{arguments.case}{arguments.part}.json"
    cells = records.read(path, Cells, "run it again.").cells if path.exists() else []
    dataset = case.load(arguments.root)
    for seed, share, sampler in missing(case, arguments.seeds, cells):
        if arguments.samplers and sampler not in arguments.samplers:
            continue
        cells = [*cells, train(case, dataset, sampler, share, seed)]
        records.write(path, Cells(cells=cells))
        print(sampler, f"{share:.4f}", seed, f"test F1 {cells[-1].test_score:.4f}", flush=True)


if __name__ == "__main__":
    main()
