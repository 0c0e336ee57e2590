"""Two processes of one thread beside one process of one thread, at equal work.

Graph of 233k nodes with 602 random features and 41 classes, SAGE and GATv2 with 3 layers of 256,
policy node, batches of 256, budgets 4096/2048/1024, two shards a step. One process runs both
shards, two processes run one each; they take turns. A time is the median of a turn, and the lowest
of all turns, because other work on the machine delays two processes more than one; memory is the
median of all turns. The data is a store that both processes map, and each process has one thread.

two_over_one     wall time of a step in two processes over that in one
exchange_share   part of a step of two processes that is spent in exchanges, waiting included
exchange_ms      time of the same exchanges right after a barrier, so without waiting
news_bytes       bytes of news that a rank sends per step
apply_ms         time to unpack and apply the news of one shard, half of that of two
second_rank_mb   memory that the second process adds (proportional set size, MiB)
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

BUDGETS = (4096, 2048, 1024)
GRAPH = (232_965, 11_606_919, 602, 41)  # nodes, edges, features, classes
WARM_UP = 5
TURNS = 4
"""How often one process and two processes take turns."""
NETWORK = {"latency_us": 30.0, "bytes_per_second": 25e9 / 8}
"""Network of the model on paper: 25 Gbit/s."""


def run(repeats: int) -> dict[str, Any]:
    """Measure both networks; returns what is written as JSON."""
    from benchmarks.graphs import power_law
    from benchmarks.step import random_dataset
    from bliss.data import save_dataset

    result: dict[str, Any] = {"settings": {"budgets": BUDGETS, "batches": repeats, "shards": 2}}
    nodes, edges, features, classes = GRAPH
    with tempfile.TemporaryDirectory() as folder:
        dataset = random_dataset(power_law(nodes, edges), features, classes, multilabel=False)
        store = save_dataset(dataset, Path(folder) / "store")
        del dataset
        for model in ("sage", "gatv2"):
            result[model] = measure(store, model, repeats)
            print(model, json.dumps(result[model]), flush=True)
    return result


def measure(store: Path, model: str, repeats: int, **settings: Any) -> dict[str, Any]:
    """One process and two processes in turns."""
    found: dict[int, list[list[dict[str, Any]]]] = {1: [], 2: []}
    each = max(repeats // TURNS, 1)
    for _ in range(TURNS):
        for size in (1, 2):
            found[size].append(start(size, store, model, each, settings))
    one = min(median(ranks[0]["step_ms"]) for ranks in found[1])
    best = min(found[2], key=lambda ranks: median(ranks[0]["step_ms"]))
    two, exchange = (median(best[0][name]) for name in ("step_ms", "exchange_ms"))
    first_mb = median(ranks[0]["pss_mb"] for ranks in found[1])
    return {
        "two_over_one": two / one,
        "exchange_share": exchange / two,
        "news_bytes": best[0]["news_bytes"],
        "gradient_bytes": best[0]["gradient_bytes"],
        "step_ms": {"one": one, "two": two},
        "exchange_ms": {"in_step": exchange, "alone": best[0]["alone_ms"]},
        "apply_ms": best[0]["apply_ms"],
        "second_rank_mb": median(sum(one["pss_mb"] for one in ranks) for ranks in found[2])
        - first_mb,
        "first_rank_mb": first_mb,
        "on_paper": on_paper(two - exchange, best[0]),
    }


def on_paper(compute_ms: float, rank: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Milliseconds of a step of R ranks with a shard each, by an alpha-beta model.

    A step computes for c ms and applies the news of R shards, a ms each. Gathering b bytes of every
    rank in a ring takes (R - 1)(alpha + b / beta); adding P bytes in a ring 2 (R - 1)(alpha +
    P / (R beta)). All ranks meet twice and gather news; gradients are gathered in the same message
    (exact) or added.
    """
    alpha, beta = NETWORK["latency_us"] / 1e3, NETWORK["bytes_per_second"] / 1e3  # ms, bytes per ms
    found: dict[str, dict[str, float]] = {}
    for ranks in (8, 64, 512):
        news = (ranks - 1) * (3 * alpha + rank["news_bytes"] / beta)
        exact = (ranks - 1) * rank["gradient_bytes"] / beta
        added = 2 * (ranks - 1) * (alpha + rank["gradient_bytes"] / ranks / beta)
        rest = compute_ms + ranks * rank["apply_ms"]
        found[str(ranks)] = {
            "exact_ms": rest + news + exact,
            "allreduce_ms": rest + news + added,
            "exact_efficiency": compute_ms / (rest + news + exact),
            "allreduce_efficiency": compute_ms / (rest + news + added),
        }
    return found


def start(
    size: int, store: Path, model: str, repeats: int, settings: dict[str, Any]
) -> list[dict[str, Any]]:
    """What each process of a group measured."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.scale", str(store), model, str(repeats)]
        processes = []
        for rank in range(size):
            place = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "MASTER_PORT": port}
            environment = os.environ | {k: str(v) for k, v in place.items()}
            environment |= {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
            out = Path(folder) / f"{rank}.json"
            given = [*command, json.dumps(settings), str(out)]
            processes.append(subprocess.Popen(given, env=environment))
        if any([process.wait() for process in processes]):
            raise SystemExit("a process of the benchmark failed")
        return [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(size)]


def work(store: Path, model: str, repeats: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Steps of one process of a group."""
    import torch

    from bliss.data import load_dataset
    from bliss.distributed.groups import TorchGroup
    from bliss.distributed.packing import pack_news, unpack_news
    from bliss.distributed.processes import process_group, read_launch
    from bliss.distributed.reduction import VectorReduction
    from bliss.distributed.shards import ShardVector
    from bliss.train import Stepper, TrainConfig, build_task

    torch.set_num_threads(1)
    given = {"budgets": BUDGETS, "policy": "node", "steps": 10**6, "shards": 2} | settings
    with process_group(read_launch()) as group:
        task = build_task(TrainConfig.of(model=model, dataset="x", **given), load_dataset(store))
        stepper = Stepper(task, group)
        steps, exchanges, seconds = [], [], 0.0
        batches = stepper.batches()
        for number in range(WARM_UP + repeats):
            if isinstance(group, TorchGroup):
                seconds = group.seconds
            started = perf_counter()
            stepper.step(own := list(next(batches)))
            if number >= WARM_UP:
                steps.append(1e3 * (perf_counter() - started))
                if isinstance(group, TorchGroup):
                    exchanges.append(1e3 * (group.seconds - seconds))
        news = [stepper.sampler.digest(own[0].blocks)]
        packed, vector = pack_news(news), ShardVector(task.model).read(torch.zeros(()))
        alone = []
        communicator = stepper.communicator
        reduce = VectorReduction(communicator, 2, "exact", vector.numel(), vector.device)
        for _ in range(10):
            communicator.barrier()
            started = perf_counter()
            reduce([vector], packed)
            communicator.barrier()  # after the change of the policy
            alone.append(1e3 * (perf_counter() - started))
        applied = []
        for _ in range(10):
            started = perf_counter()
            stepper.sampler.apply(unpack_news(packed) + unpack_news(packed))
            applied.append(1e3 * (perf_counter() - started) / 2)
        pss = memory_mb()
        group.all_gather(torch.zeros(1))
    return {
        "step_ms": steps,
        "exchange_ms": exchanges,
        "alone_ms": median(alone),
        "apply_ms": median(applied),
        "news_bytes": int(packed.size),
        "gradient_bytes": vector.nbytes,
        "pss_mb": pss,
    }


def memory_mb() -> float:
    """Proportional set size of this process in MiB: shared pages count by their share."""
    text = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    return (
        next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 2**10
    )


if __name__ == "__main__":
    _, place, name, count, options, target = sys.argv
    measured = work(Path(place), name, int(count), json.loads(options))
    Path(target).write_text(json.dumps(measured), encoding="utf-8")
