"""Links by time: shared neighbourhoods against exact trees, at equal seconds.

`python -m experiments.time.run times --root DATA` measures the steps of all samplers in turn; run
it alone on a machine. `... run train` chooses the learning rate and the order of batches by
validation and trains every cell; `... run lost` counts what shared sources do not see. All of them
add to results.json, skip what is there, and rewrite README.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

import msgspec
import numpy as np
import torch

from bliss import Graph
from bliss.data import Dataset
from bliss.data.label_edges import LabelEdges
from bliss.storage import records
from bliss.studies.provenance import Machine, machine
from bliss.train import Stepper, TrainConfig, build_task, resolve
from bliss.train.evaluation import split_outputs
from bliss.train.link_objective import LinkObjective
from bliss.train.task import Task

HERE = Path(__file__).parent
PATH = HERE / "results.json"
SEEDS = (0, 1, 2)
RATES, ORDERS = (0.01, 0.03), ("random", "time")
BATCHES = (64, 256, 1024)
WARM_UP, ROUNDS, CHECKS = 5, 25, 3
METRICS = ["mrr", "average_precision"]


def collegemsg(root: Path) -> Dataset:
    """Messages between students, in both directions."""
    found = np.load(root / "CollegeMsg" / "data.npz")
    return _dataset("collegemsg", found["src"], found["dst"], found["timestamp"])


def mathoverflow(root: Path) -> Dataset:
    """Answers and comments, in both directions."""
    found = np.load(root / "MathOverflow" / "data.npz")
    return _dataset("mathoverflow", found["src"], found["dst"], found["timestamp"])


def movietweetings(root: Path) -> Dataset:
    """Ratings of films, in both directions; links lead from users to films."""
    found = np.load(root / "MovieTweetings" / "data.npz")
    item = found["item"].astype(np.int64) + int(found["user"].max()) + 1
    dataset = _dataset("movietweetings", found["user"], item, found["timestamp"])
    pairs = np.stack([found["user"].astype(np.int64), item])
    return replace(dataset, label_edges=LabelEdges(pairs, None, found["timestamp"]))


def _dataset(name: str, source: Any, target: Any, time: Any) -> Dataset:
    pairs = np.stack([source, target]).astype(np.int64)
    pairs, time = pairs[:, pairs[0] != pairs[1]], time[pairs[0] != pairs[1]]
    nodes = int(pairs.max()) + 1
    both, twice = np.concatenate([pairs, pairs[::-1]], axis=1), np.concatenate([time, time])
    none = torch.empty(0, dtype=torch.int64)
    return Dataset(
        name,
        Graph.from_edge_index(both, nodes, time=twice),
        torch.empty(nodes, 0),
        torch.full((nodes,), -1),
        {"train": torch.arange(1), "val": none, "test": none},
        0,
    )


@dataclass(frozen=True)
class Case:
    """A graph, the seconds of training steps of its runs, and settings of its own."""

    load: Callable[[Path], Dataset]
    seconds: float
    settings: dict[str, Any]


CASES = {
    "collegemsg": Case(collegemsg, 4.0, {}),
    "movietweetings": Case(movietweetings, 6.0, {"bipartite": True}),
    "mathoverflow": Case(mathoverflow, 8.0, {}),
}
COMMON: dict[str, Any] = {
    "task": "link",
    "model": "sage",
    "layers": 2,
    "hidden": 32,
    "embedding": 32,
    "dropout": 0.0,
    "batch_size": 512,
    "edge_split": (0.8, 0.1, 0.1),
    "select": "mrr",
    "patience": 0,
}
LAYERWISE: dict[str, Any] = {"budgets": (1024, 512)}
ROWS: dict[str, dict[str, Any]] = {
    "bliss": LAYERWISE | {"sampler": "bliss"},
    "pladies": LAYERWISE | {"sampler": "pladies"},
    "neighbor": {"sampler": "neighbor", "budgets": (10, 10)},
    "neighbor, last": {"sampler": "neighbor", "budgets": (10, 10), "temporal_strategy": "last"},
    "pladies, leaking": LAYERWISE | {"sampler": "pladies"},
}
"""Settings of each row; "leaking" trains without cut-offs and sees the links that it predicts."""


class Cell(records.Record, frozen=True, kw_only=True):
    """One run: scores at the check with the best validation MRR."""

    graph: str
    row: str
    seed: int
    lr: float
    order: str
    steps: int
    val_mrr: float
    test_mrr: float
    test_average_precision: float


class Time(records.Record, frozen=True, kw_only=True):
    """Median milliseconds of a step."""

    graph: str
    row: str
    order: str
    step_ms: float


class Lost(records.Record, frozen=True, kw_only=True):
    """Share of what the sources of a layer would see in trees of their own that they do not see."""

    graph: str
    batch_size: int
    order: str
    share: float


class Results(records.Record, frozen=True, kw_only=True):
    """Everything that was measured."""

    machine: Machine
    times: list[Time]
    runs: list[Cell]
    lost: list[Lost]


def config(graph: str, row: str, **given: Any) -> TrainConfig:
    """Settings of a run."""
    settings = COMMON | CASES[graph].settings | ROWS[row] | {"dataset": graph, "split": "time"}
    if row.endswith("leaking"):
        settings |= {"exclude": "none"}
        given = {**given, "order": "random"}
    return resolve(**settings | given)


def leaking(dataset: Dataset) -> Dataset:
    """The same links and times, and edges without times: nothing is cut."""
    links = dataset.label_edges
    if links is None:
        graph = dataset.graph
        target = np.repeat(np.arange(graph.num_nodes), graph.degree)
        pairs = np.stack([graph.indices.astype(np.int64), target])
        kept = pairs[0] != pairs[1]
        links = LabelEdges(pairs[:, kept], None, graph.time[kept])
    return replace(dataset, graph=dataset.graph.without_times(), label_edges=links, time_unit="")


def task_of(graph: str, row: str, dataset: Dataset, **given: Any) -> Task:
    """Task of training; "leaking" has edges without times."""
    data = leaking(dataset) if row.endswith("leaking") else dataset
    return build_task(config(graph, row, **given), data)


def train(graph: str, row: str, dataset: Dataset, steps: int, **given: Any) -> Cell:
    """Train for so many steps; a leaking network is scored as the others are."""
    task = task_of(graph, row, dataset, steps=steps, **given)
    judge = build_task(config(graph, "pladies", **given), dataset)
    assert judge.embedding is not None and task.embedding is not None
    stepper, best = Stepper(task), {"val": -1.0}
    places = {round(steps * (n + 1) / CHECKS) for n in range(CHECKS)}
    for batches in stepper.batches():
        stepper.step(batches)
        if stepper.steps in places:
            judge.model.load_state_dict(task.model.state_dict())
            judge.embedding.value.copy_(task.embedding.value)
            scores = scored(judge)
            best = max(best, scores, key=lambda one: one["val"])
    return Cell(
        graph=graph,
        row=row,
        seed=given["seed"],
        lr=given["lr"],
        order=given["order"],
        steps=steps,
        val_mrr=best["val"],
        test_mrr=best["mrr"],
        test_average_precision=best["average_precision"],
    )


def scored(task: Task) -> dict[str, float]:
    """Validation MRR, and test MRR and average precision, from full neighbourhoods."""
    assert isinstance(task.objective, LinkObjective)
    task.model.eval()
    found: dict[str, float] = {}
    for split, _, outputs in split_outputs(task, ("val", "test")):
        metrics = METRICS if split == "test" else ["mrr"]
        values = task.objective.link_scores.values(split, outputs, metrics)
        found |= values if split == "test" else {"val": values["mrr"]}
    return found


def measure(graph: str, dataset: Dataset) -> list[Time]:
    """Time the steps of all rows, in turn."""
    steppers = {key: Stepper(task_of(graph, key[0], dataset, order=key[1])) for key in kinds()}
    batches = {key: stepper.batches() for key, stepper in steppers.items()}
    taken: dict[tuple[str, str], list[float]] = {key: [] for key in steppers}
    for _ in range(WARM_UP + ROUNDS):
        for key, stepper in steppers.items():
            started = perf_counter()
            stepper.step(next(batches[key]))
            taken[key].append(1e3 * (perf_counter() - started))
    middle = {key: median(ms[WARM_UP:]) for key, ms in taken.items()}
    return [Time(graph=graph, row=r, order=o, step_ms=ms) for (r, o), ms in middle.items()]


def kinds() -> list[tuple[str, str]]:
    """Rows with their orders of batches, which matter where sources are shared."""
    shared = list(product(("bliss", "pladies"), ORDERS))
    return shared + [(row, "random") for row in ROWS if row not in ("bliss", "pladies")]


def lost(graph: str, dataset: Dataset, batch_size: int, order: str) -> Lost:
    """Count what the sources of the upper layer see, and would see in trees of their own."""
    given = {"batch_size": batch_size, "order": order, "link_loss": "bce"}
    task = task_of(graph, "pladies", dataset, **given)
    stepper, seen, wanted = Stepper(task), 0, 0
    for number, (batch,) in enumerate(stepper.loader.steps()):
        block = batch.blocks[-1]
        assert block.rows is not None and block.rows.cutoff is not None and block.cutoff is not None
        row, col = block.row.numpy(), block.col.numpy()
        node = block.src.numpy()[row]
        own = task.graph.rows(node, before=block.rows.cutoff.before[col])
        shared = task.graph.rows(node, before=block.cutoff.before[row])
        wanted, seen = wanted + own.num_edges, seen + shared.num_edges
        if number + 1 >= 2 * 1024 // batch_size + 4:
            break
    return Lost(graph=graph, batch_size=batch_size, order=order, share=1 - seen / wanted)


def read() -> Results:
    """The stored results; empty at first."""
    if not PATH.exists():
        return Results(machine=machine(), times=[], runs=[], lost=[])
    return records.read(PATH, Results, "run it again")


def step_ms(found: Results, graph: str, row: str, order: str) -> float:
    """Measured time of a step."""
    key = graph, row, order
    return next(t.step_ms for t in found.times if (t.graph, t.row, t.order) == key)


def chosen(found: Results, graph: str, row: str) -> dict[str, Any]:
    """Learning rate and order with the best validation MRR of seed 0."""
    rates = {c.lr: c.val_mrr for c in found.runs if _is(c, graph, "pladies", order="random")}
    rate = max(rates, key=lambda lr: rates[lr])
    orders = {c.order: c.val_mrr for c in found.runs if _is(c, graph, row, lr=rate)}
    return {"lr": rate, "order": max(orders, key=lambda one: orders[one])}


def _is(cell: Cell, graph: str, row: str, **given: Any) -> bool:
    is_own = (cell.graph, cell.row, cell.seed) == (graph, row, 0)
    return is_own and all(getattr(cell, name) == value for name, value in given.items())


def plan(found: Results, graph: str) -> list[tuple[str, dict[str, Any]]]:
    """Runs that can be made next: rates, then orders, then the other seeds."""
    done = {(c.row, c.seed, c.lr, c.order) for c in found.runs if c.graph == graph}

    def missing(runs: list[tuple[str, int, float, str]]) -> list[tuple[str, dict[str, Any]]]:
        named = [(r, {"seed": s, "lr": lr, "order": o}) for r, s, lr, o in runs]
        return [one for one, key in zip(named, runs, strict=True) if key not in done]

    if first := missing([("pladies", 0, lr, "random") for lr in RATES]):
        return first
    rate = chosen(found, graph, "pladies")["lr"]
    if second := missing([(row, 0, rate, order) for row, order in kinds()]):
        return second
    best = {row: chosen(found, graph, row) for row in ROWS}
    others = [(r, s, b["lr"], b["order"]) for s, (r, b) in product(SEEDS[1:], best.items())]
    return missing(others)


def page(found: Results) -> str:
    """Text of README.md: the notes, and tables of the results."""
    notes = (HERE / "notes.md").read_text(encoding="utf-8").rstrip()
    lines = [notes, ""]
    for graph, case in CASES.items():
        if len({c.lr for c in found.runs if _is(c, graph, "pladies", order="random")}) < len(RATES):
            lines += [f"## {graph}", "", "Not trained yet.", ""]
            continue
        rate = chosen(found, graph, "pladies")["lr"]
        lines += [f"## {graph}", "", f"{case.seconds:g} s of training steps, lr {rate:g}.", ""]
        heads = ["", "order", "ms a step", "steps"]
        heads += ["test MRR, by seed", "mean", "average precision"]
        lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        for row in ROWS:
            if not any(_is(c, graph, row, lr=rate) for c in found.runs):
                continue
            best = chosen(found, graph, row)
            cells = [
                c
                for c in found.runs
                if (c.graph, c.row, c.lr, c.order) == (graph, row, best["lr"], best["order"])
            ]
            ms = step_ms(found, graph, row, best["order"])
            scores = [c.test_mrr for c in sorted(cells, key=lambda c: c.seed)]
            precision = mean(c.test_average_precision for c in cells)
            entries = [row, best["order"], f"{ms:.1f}", f"{cells[0].steps:,}"]
            entries += [
                " ".join(_short(s) for s in scores),
                _short(mean(scores)),
                _short(precision),
            ]
            lines.append("| " + " | ".join(entries) + " |")
        lines.append("")
    lines += ["## What sharing loses", "", *_lost_table(found), ""]
    facts = found.machine
    lines.append(f"One thread of {facts.processor}, torch {facts.torch}.")
    return "\n".join(lines) + "\n"


def _lost_table(found: Results) -> list[str]:
    heads = ["", *(f"{size} links, {order}" for size, order in product(BATCHES, ORDERS))]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for graph in CASES:
        shares = {(o.batch_size, o.order): o.share for o in found.lost if o.graph == graph}
        if shares:
            cells = [f"{shares[key]:.1%}" for key in product(BATCHES, ORDERS)]
            lines.append(f"| {graph} | " + " | ".join(cells) + " |")
    return lines


def _short(score: float) -> str:
    return f"{score:.3f}".lstrip("0")


def main() -> None:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("times", "train", "lost", "page"))
    parser.add_argument("--root", type=Path, help="folder of data sets")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found, action = read(), arguments.action
    for graph, case in CASES.items() if action != "page" else ():
        dataset = case.load(arguments.root)
        if action == "times" and not any(t.graph == graph for t in found.times):
            times = [*found.times, *measure(graph, dataset)]
            found = msgspec.structs.replace(found, times=times)
        for size, order in product(BATCHES, ORDERS) if action == "lost" else ():
            if not any(
                (o.graph, o.batch_size, o.order) == (graph, size, order) for o in found.lost
            ):
                found = msgspec.structs.replace(
                    found, lost=[*found.lost, lost(graph, dataset, size, order)]
                )
        while action == "train" and (runs := plan(found, graph)):
            row, given = runs[0]
            ms = step_ms(found, graph, row, given["order"])
            cell = train(graph, row, dataset, round(1e3 * case.seconds / ms), **given)
            found = msgspec.structs.replace(found, runs=[*found.runs, cell])
            records.write(PATH, found)
            print(cell, flush=True)
    records.write(PATH, found)
    (HERE / "README.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
