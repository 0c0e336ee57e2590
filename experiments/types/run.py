"""Accuracy and macro-F1 at equal seconds of training steps, on IMDB, ACM and a synthetic graph.

`python -m experiments.types.run times --root DATA` measures the step of every candidate; run it
alone on a machine. `... choose` trains each once and keeps the best budgets by validation.
`... train` trains the chosen ones with other seeds. `... variance` measures divisions of a budget
and masses. All add to results.json, skip what is there, and rewrite README.md.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from bliss.data import Dataset
from bliss.storage.files import replace_file
from bliss.storage.records import to_json
from bliss.studies.provenance import machine
from bliss.train import Stepper, build_task, resolve
from bliss.train.assessment import assess
from bliss.train.evaluation import evaluate
from experiments.types.graphs import GRAPHS
from experiments.types.results import PATH, Cell, Choice, Results, Time, page, read

SECONDS = {"imdb": 1.5, "acm": 1.5, "library": 5.0}
"""Seconds of training steps of a run."""
MODELS = {"imdb": ("rsage", "rgat"), "acm": ("rsage", "rgat"), "library": ("rsage",)}
SAMPLERS: dict[str, list[tuple[int, ...]]] = {
    "bliss": [(256, 128), (1024, 512)],
    "pladies": [(256, 128), (1024, 512)],
    "neighbor": [(2, 2), (5, 5)],
    "full": [()],
}
RATE = 0.005
SEEDS = {"imdb": range(5), "acm": range(5), "library": range(3)}
CHOOSING = 100  # seed of the runs that settings are chosen by
WARM_UP, ROUNDS = 5, 25
EVALUATIONS = 4
COMMON: dict[str, Any] = {"layers": 2, "hidden": 64, "heads": 4, "dropout": 0.5}
OWN: dict[str, dict[str, Any]] = {
    "imdb": {"batch_size": 100, "embedding": 32},
    "acm": {"batch_size": 60, "embedding": 32},
    "library": {"batch_size": 250, "dropout": 0.1},
}


def settings(graph: str, model: str, sampler: str, budgets: tuple[int, ...]) -> dict[str, Any]:
    """Settings of a run, but for its length, learning rate and seed."""
    given = {"model": model, "sampler": sampler, "schedule": "linear"}
    return COMMON | OWN[graph] | given | ({"budgets": budgets} if budgets else {})


def candidates(graph: str) -> list[tuple[str, str, tuple[int, ...]]]:
    """Network, sampler and budgets."""
    found = [(m, s, b) for m in MODELS[graph] for s, sizes in SAMPLERS.items() for b in sizes]
    return [(m, s, b) for m, s, b in found if graph != "library" or s != "full"]


def write(found: Results) -> None:
    """Store results and page."""
    replace_file(PATH, to_json(found).encode())
    replace_file(PATH.with_name("README.md"), page(found).encode())


def measure(graph: str, dataset: Dataset) -> list[Time]:
    """Median milliseconds of a step of every candidate."""
    found = []
    for model, sampler, budgets in candidates(graph):
        given = settings(graph, model, sampler, budgets)
        stepper = Stepper(build_task(resolve(dataset=graph, **given), dataset))
        taken = []
        for batches in stepper.batches(lambda taken=taken: len(taken) >= WARM_UP + ROUNDS):
            started = perf_counter()
            stepper.step(batches)
            taken.append(1e3 * (perf_counter() - started))
        ms = stepper.step_ms()
        step = median(taken[WARM_UP:]) + ms["sample"] + ms["gather"]
        one = {"graph": graph, "model": model, "sampler": sampler, "budgets": list(budgets)}
        found.append(Time(**one, step_ms=step))
    return found


def run(dataset: Dataset, choice: Choice, seed: int) -> Cell:
    """Train for the seconds of the graph, and score the best step by validation."""
    steps = max(int(1e3 * SECONDS[choice.graph] / choice.step_ms), EVALUATIONS)
    given = settings(choice.graph, choice.model, choice.sampler, tuple(choice.budgets))
    named = {"dataset": choice.graph, "steps": steps, "lr": choice.lr, "seed": seed}
    task = build_task(resolve(**given, **named), dataset)
    stepper, best = Stepper(task), (-1.0, {}, None)
    for batches in stepper.batches():
        stepper.step(batches)
        if stepper.steps % (steps // EVALUATIONS) == 0:
            score = evaluate(task, ("val",))["val"]
            if score > best[0]:
                rows = None if task.embedding is None else task.embedding.value.clone()
                best = score, {k: v.clone() for k, v in task.model.state_dict().items()}, rows
    task.model.load_state_dict(best[1])
    if task.embedding is not None and best[2] is not None:
        task.embedding.value.copy_(best[2])
    scores = assess(task, ("test",)).splits["test"].scores
    return Cell(
        **{name: getattr(choice, name) for name in ("graph", "model", "sampler", "budgets", "lr")},
        seed=seed,
        steps=steps,
        val_score=best[0],
        accuracy=scores["accuracy"],
        macro_f1=scores["macro_f1"],
        edges=stepper.mean_sampled().edges,
    )


def choose(found: Results, graph: str, dataset: Dataset) -> None:
    """Train every candidate once, and store the best budgets by validation."""
    ms = {(t.model, t.sampler, *t.budgets): t.step_ms for t in found.times if t.graph == graph}
    for model, sampler in product(MODELS[graph], SAMPLERS):
        known = {(c.graph, c.model, c.sampler) for c in found.choices}
        tried = []
        sizes = [b for m, s, b in candidates(graph) if (m, s) == (model, sampler)]
        if (graph, model, sampler) in known or not sizes:
            continue
        for budgets in sizes:
            step_ms = ms[(model, sampler, *budgets)]
            named = {"graph": graph, "model": model, "sampler": sampler, "budgets": list(budgets)}
            choice = Choice(**named, lr=RATE, step_ms=step_ms, val_score=0.0)
            tried.append((run(dataset, choice, CHOOSING).val_score, len(tried), choice))
        score, _, best = max(tried)
        found.choices.append(
            Choice(**{n: getattr(best, n) for n in (*named, "lr", "step_ms")}, val_score=score)
        )
        write(found)


def train_all(found: Results, graph: str, dataset: Dataset) -> None:
    """Train the chosen settings with every seed."""
    for seed, choice in product(SEEDS[graph], found.choices):
        key = graph, choice.model, choice.sampler, seed
        known = {(c.graph, c.model, c.sampler, c.seed) for c in found.runs}
        if choice.graph == graph and key not in known:
            found.runs.append(run(dataset, choice, seed))
            write(found)


def main() -> None:
    """Measure and train what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["times", "choose", "train", "variance", "page"])
    parser.add_argument("--root", type=Path)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=list(GRAPHS))
    given = parser.parse_args()
    found = read() or Results(machine=machine())
    for graph in given.graphs if given.part != "page" else ():
        dataset = GRAPHS[graph](given.root)
        if given.part == "times" and graph not in {t.graph for t in found.times}:
            found.times.extend(measure(graph, dataset))
        elif given.part == "choose":
            choose(found, graph, dataset)
        elif given.part == "train":
            train_all(found, graph, dataset)
        elif given.part == "variance":
            from experiments.types.divisions import divisions

            found.divisions[:] = [one for one in found.divisions if one.graph != graph]
            found.divisions.extend(divisions(graph, dataset))
        write(found)
    write(found)


if __name__ == "__main__":
    main()
