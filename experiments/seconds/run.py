"""Test F1 after equal seconds of one thread, for every sampler at its best size.

`python -m experiments.seconds.run times GRAPH NETWORK --root DATA` measures the time of a step of
every setting; run it alone on a machine. `... run grid GRAPH NETWORK` trains every setting for 10 s
worth of steps, from which the size with the best validation F1 is chosen. `... run train GRAPH
NETWORK --seconds 30 --seeds 1 2 3` trains the chosen sizes. Runs may share the machine: the number
of steps follows from the measured times. Results are stored after every run, and finished runs are
skipped. `python -m experiments.seconds.tables` rewrites README.md and the figure.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from time import perf_counter

import msgspec
import torch

from bliss.data import Dataset
from bliss.studies.provenance import machine
from bliss.train import Stepper, build_task
from bliss.train.evaluation import evaluate
from bliss.train.task import Task
from experiments.seconds.cases import GRAPHS, SAMPLERS, config
from experiments.seconds.results import (
    GRID_SECONDS,
    GRID_SEED,
    STORED,
    Results,
    Run,
    Setting,
    Time,
    key,
)

WARM_UP, LEAST_STEPS, LEAST_SECONDS = 5, 20, 1.0


def settings(graph: str, network: str) -> list[Setting]:
    """All settings that are tried: the first size of every sampler, then the second, ..."""
    sizes = {sampler: GRAPHS[graph].sizes[sampler] for sampler in SAMPLERS[network]}
    return [
        Setting(graph=graph, network=network, sampler=sampler, batch_size=batch, budget=budget)
        for row in zip_longest(*sizes.values())
        for sampler, size in zip(sizes, row, strict=True)
        if size is not None
        for batch, budget in [size]
    ]


def measure(build: Callable[[], Task]) -> tuple[float, float]:
    """Seconds of a sampler's construction until the first step, and mean milliseconds of steps.

    The sampler is built twice, because the first time includes loading of compiled kernels.
    """
    for _ in range(2):
        gc.collect()
        task = build()
        started = perf_counter()
        stepper = Stepper(task)
        batches = stepper.batches()
        stepper.step(next(batches))
        first = perf_counter() - started
    for _ in range(WARM_UP):
        stepper.step(next(batches))
    taken: list[float] = []
    while len(taken) < LEAST_STEPS or sum(taken) < LEAST_SECONDS:
        started = perf_counter()
        stepper.step(next(batches))
        taken.append(perf_counter() - started)
    step = sum(taken) / len(taken)
    return round(max(0.0, first - step), 4), round(1e3 * step, 3)


def train(one: Setting, seconds: int, seed: int, steps: int, dataset: Dataset) -> Run:
    """Train for some steps and evaluate the last one with full neighbourhoods."""
    task = build_task(config(*key(one), steps=steps, seed=seed), dataset)
    stepper = Stepper(task)
    for batch in stepper.batches():
        stepper.step(batch)
    score = evaluate(task, ("train", "val", "test"))
    return Run(
        **{name: getattr(one, name) for name in Setting.__struct_fields__},
        seconds=seconds,
        seed=seed,
        steps=steps,
        train_score=score["train"],
        val_score=score["val"],
        test_score=score["test"],
    )


def missing(found: Results, arguments: argparse.Namespace) -> Iterator[tuple[Setting, int, int]]:
    """Settings, seconds and seeds that are still to be run; of the grid, those with known times."""
    graph, network = arguments.graph, arguments.network
    timed = {key(time) for time in found.times}
    finished = {(key(run), run.seconds, run.seed) for run in found.runs}
    samplers = arguments.samplers or SAMPLERS[network]
    sizes = islice(settings(graph, network), arguments.first)
    wanted = [
        (one, GRID_SECONDS, GRID_SEED)
        for one in sizes
        if one.sampler in samplers and key(one) in timed
    ]
    if arguments.action == "train":
        chosen = [found.chosen(graph, network, sampler) for sampler in samplers]
        wanted = [
            (one, seconds, seed)
            for seed in arguments.seeds
            for seconds in arguments.seconds
            for one in chosen
            if one is not None
        ]
    for one, seconds, seed in wanted:
        if (key(one), seconds, seed) not in finished:
            yield one, seconds, seed


def main() -> None:
    """Measure, or run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("times", "grid", "train"))
    parser.add_argument("graph", choices=GRAPHS)
    parser.add_argument("network", choices=SAMPLERS)
    parser.add_argument("--root", type=Path, help="folder of data sets")
    parser.add_argument("--seconds", nargs="+", type=int, default=[30])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--samplers", nargs="+", help="only these")
    parser.add_argument("--first", type=int, help="times, grid: only so many settings")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dataset = GRAPHS[arguments.graph].load(arguments.root)
    found = Results(machine=machine(), times=[], runs=[])
    found = STORED.read() if STORED.exists() else found
    if arguments.action == "times":
        known = {key(time) for time in found.times}
        samplers = arguments.samplers or SAMPLERS[arguments.network]
        for one in islice(settings(arguments.graph, arguments.network), arguments.first):
            if one.sampler in samplers and key(one) not in known:
                setup_s, step_ms = measure(
                    partial(build_task, config(*key(one), steps=10**6), dataset)
                )
                print(*key(one), setup_s, step_ms, flush=True)
                own = msgspec.structs.asdict(one)
                time = Time(**own, setup_s=setup_s, step_ms=step_ms)
                found = STORED.read() if STORED.exists() else found
                found = msgspec.structs.replace(found, times=[*found.times, time])
                STORED.write(found)
        return
    for one, seconds, seed in list(missing(found, arguments)):
        run = train(one, seconds, seed, found.time(one).steps(seconds), dataset)
        print(*key(one), seconds, seed, run.steps, run.val_score, run.test_score, flush=True)
        found = STORED.read()
        STORED.write(msgspec.structs.replace(found, runs=[*found.runs, run]))


if __name__ == "__main__":
    main()
