"""What holds under load: many readers, many threads, and graphs and features of extreme shapes.

Each part raises an error where something does not hold, and returns what was measured.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks import extremes
from benchmarks.graphs import power_law
from benchmarks.soak import SETTINGS, make_dataset
from bliss import Block, Graph
from bliss.data import Dataset
from bliss.errors import InputError
from bliss.report.load import load
from bliss.samplers import SAMPLERS, Sampler, sampler_config
from bliss.train import RunFolder, Trainer, predict, resolve

READERS = 10
THREADS = 8


def run(parts: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the parts named, by default all of them; returns what is written as JSON."""
    torch.set_num_threads(1)
    result: dict[str, Any] = {}
    for name in parts or PARTS:
        if name not in PARTS:
            raise SystemExit(f"part={name!r} is not known: choose one of {', '.join(PARTS)}.")
        started = perf_counter()
        result[name] = PARTS[name]()
        result[name]["seconds"] = round(perf_counter() - started, 1)
        print(name, result[name], flush=True)
    return result


def readers(steps: int = 600, number: int = READERS) -> dict[str, Any]:
    """Read a run's folder in `number` processes while this one trains, extends and resumes it."""
    dataset = make_dataset()
    fork = multiprocessing.get_context("fork")  # before the run starts threads
    with tempfile.TemporaryDirectory() as place:
        out, done, found = Path(place) / "run", fork.Event(), fork.Queue()
        every = [
            fork.Process(target=read_until, args=(out, dataset, done.is_set, found.put))
            for _ in range(number)
        ]
        for one in every:
            one.start()
        try:
            write_run(out, dataset, steps)
        finally:
            done.set()
        reads, faults = Counter[str](), Counter[str]()
        for _ in every:
            more, wrong = found.get(timeout=120)
            reads.update(more)
            faults.update(wrong)
        for one in every:
            one.join()
    if faults:
        raise AssertionError(f"readers failed: {dict(faults)}")
    return {"readers": number, "evaluations": steps, "reads": dict(reads), "torn": 0}


def write_run(out: Path, dataset: Dataset, steps: int, rounds: int = 6) -> None:
    """Train in `rounds` parts, each of which extends the run; evaluate after every step."""
    settings = SETTINGS | {"model": "sage", "prefetch": 0, "hidden": 8, "evaluate_every": 1}
    settings.pop("heads")
    for part in range(1, rounds + 1):
        config = resolve(**settings, steps=steps * part // rounds)
        Trainer(config, dataset, out, say=lambda _: None).run(resume=part > 1)


def read_until(
    out: Path,
    dataset: Dataset,
    is_done: Callable[[], bool],
    tell: Callable[[tuple[Counter[str], Counter[str]]], None],
) -> None:
    """Read everything that a run's folder holds, again and again; counts reads and failures.

    What is not there yet is no failure: a folder without settings, or without an evaluation.
    """
    folder = RunFolder(out)
    ways: dict[str, Callable[[], Any]] = {
        "settings": folder.settings,
        "metrics": folder.metrics,
        "times": folder.times,
        "result": folder.result,
        "weights": folder.load_best,
        "report": lambda: load([out]),
        "predict": lambda: predict(out, dataset),
    }
    reads, faults = Counter[str](), Counter[str]()
    while not is_done():
        for name, way in ways.items():
            has_begun = (out / "best.safetensors").exists()
            try:
                way()
                reads[name] += 1
            except InputError as error:
                if has_begun:
                    faults[f"{name}: {error}"] += 1
            except Exception as error:
                faults[f"{name}: {type(error).__name__} {error}"] += 1
    tell((reads, faults))


def threads(rounds: int = 10, nodes: int = 20_000, batch: int = 64) -> dict[str, Any]:
    """Draw in 8 threads from one sampler, with updates between, and in one thread from a twin."""
    graph = power_law(nodes, 15 * nodes)
    states = {}
    for name in SAMPLERS:
        shared, alone = (make_sampler(name, graph) for _ in range(2))
        draws = compare_draws(shared, alone, rounds, batch)
        steps = race(shared, rounds, batch)
        states[name] = {"draws": draws, "racing_steps": steps}
    return {"threads": THREADS, "equal_to_serial": states}


def make_sampler(name: str, graph: Graph) -> Sampler:
    """A sampler of two layers with budgets that fit its unit."""
    config = sampler_config(name)
    budgets = {"sources": [512, 256], "neighbours": [5, 5]}.get(config.unit, [])
    x = np.random.default_rng(0).normal(size=(graph.num_nodes, 4)).astype(np.float32)
    sampler = config.build(
        graph, budgets[2 - config.sampled_layers(2) :], layers=2, x=x, widths=[4, 4]
    )
    if config.makes_batches:
        sampler.prepare(np.arange(graph.num_nodes), 256)
    return sampler


def compare_draws(shared: Sampler, alone: Sampler, rounds: int, batch: int) -> int:
    """Raise an error unless threads draw the same blocks and learn the same state."""
    random = np.random.default_rng(1)
    with ThreadPoolExecutor(THREADS) as pool:
        for turn in range(rounds):
            steps = range(turn * THREADS, (turn + 1) * THREADS)
            seeds = [random.choice(shared.graph.num_nodes, batch, replace=False) for _ in steps]
            drawn = list(pool.map(shared.sample, seeds, steps))
            expected = [alone.sample(one, step) for one, step in zip(seeds, steps, strict=True)]
            for ours, theirs in zip(drawn, expected, strict=True):
                if not all(map(equal, ours, theirs)):
                    raise AssertionError(f"{shared!r} drew other blocks in threads")
                for sampler, blocks in ((shared, ours), (alone, theirs)):
                    show(blocks)
                    sampler.update(blocks)
    ours, theirs = shared.state_dict(), alone.state_dict()
    if not all(torch.equal(ours[name], theirs[name]) for name in theirs):
        raise AssertionError(f"{shared!r} learnt another state in threads")
    return rounds * THREADS


def race(sampler: Sampler, rounds: int, batch: int) -> int:
    """Sample and update in all threads at once: every step counts, and the state stays finite."""
    before = sampler.learning.updates

    def work(thread: int) -> None:
        random = np.random.default_rng(thread)
        for turn in range(rounds):
            seeds = random.choice(sampler.graph.num_nodes, batch, replace=False)
            blocks = sampler.sample(seeds, turn * THREADS + thread)
            if not all(bool((block.edge_prob > 0).all()) for block in blocks):
                raise AssertionError(f"{sampler!r} drew an edge of probability 0")
            show(blocks)
            sampler.update(blocks)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    if sampler.learns and sampler.learning.updates - before != rounds * THREADS:
        raise AssertionError(f"{sampler!r} lost an update")
    if not all(bool(torch.isfinite(tensor).all()) for tensor in sampler.state_dict().values()):
        raise AssertionError(f"{sampler!r} learnt numbers that are not finite")
    return rounds * THREADS


def show(blocks: Sequence[Block]) -> None:
    """Observe embeddings whose size depends on the node."""
    for block in blocks:
        block.observe((1.0 + block.src[:, None] % 7).float().expand(-1, 4))


def equal(one: Block, other: Block) -> bool:
    """Whether two blocks agree bit for bit."""
    names = ("dst", "src", "indptr", "row", "edge", "edge_prob", "edge_weight")
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in names)


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "readers": readers,
    "threads": threads,
    "hub": extremes.hub,
    "edges": extremes.edges,
    "widths": extremes.widths,
}
