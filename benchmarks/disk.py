"""Steps per second with memory held below the size of the features.

A power-law graph of 2 M nodes with 256 features in float32, 2 GB, in a store; SAGE with BLISS,
batches of 256, budgets 4096/2048/1024, one thread. A process trains on the plain map, another one
reads rows from the file, with a cache of 256 MiB or without, each with 1.5 GiB of memory and with
nothing of the store in the page cache at first. Both are also measured with coins that last 8 and
64 steps (`coin_steps`). The memory is limited by a control group, which
needs root and Linux; without it, the pages of the features are dropped after every step.

Bytes read are those of /proc/self/io. Beside them stands what neighbour sampling at 10,10,10 would
read: its rows at a page each, and from the disk if there were no page cache at all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.graphs import power_law

NODES, EDGES, WIDTH, CLASSES = 2_000_000, 30_000_000, 256, 20
MEMORY = 3 * 2**29
CACHE = 2**28
BUDGETS = (4096, 2048, 1024)
FANOUTS = (10, 10, 10)
BATCH = 256
WARM_UP = 3
GROUPS = Path("/sys/fs/cgroup/memory")
PAGE = 4096
SIDES: dict[str, dict[str, Any]] = {
    "plain_map": {"rows": False},
    "rows": {"rows": True},
    "rows_and_cache": {"rows": True, "cache": CACHE},
    "plain_map_prefetch": {"rows": False, "prefetch": 1},
    "rows_and_cache_prefetch": {"rows": True, "cache": CACHE, "prefetch": 1},
    "rows_coins_8": {"rows": True, "coin_steps": 8},
    "rows_coins_64": {"rows": True, "coin_steps": 64},
    "rows_and_cache_coins_8": {"rows": True, "cache": CACHE, "coin_steps": 8},
    "rows_and_cache_coins_64": {"rows": True, "cache": CACHE, "coin_steps": 64},
}


def run(repeats: int, parts: Sequence[str] | None = None) -> dict[str, Any]:
    """Make the store, measure every side in a process of its own; returns what is written.

    parts are names of sides, by default all.
    """
    for name in parts or ():
        if name not in SIDES:
            raise SystemExit(f"part={name!r} is not known: choose one of {', '.join(SIDES)}.")
    sides = {name: side for name, side in SIDES.items() if not parts or name in parts}
    with tempfile.TemporaryDirectory(dir=os.environ.get("BLISS_SCRATCH")) as folder:
        store = make_store(Path(folder))
        result: dict[str, Any] = {
            "settings": {
                "nodes": NODES,
                "edges": EDGES,
                "features_bytes": 4 * NODES * WIDTH,
                "memory_bytes": MEMORY,
                "cache_bytes": CACHE,
                "budgets": BUDGETS,
                "batches": repeats,
                "is_limited_by_group": has_groups(),
            }
        }
        for name, side in sides.items():
            result[name] = measured(store, side, repeats)
            print(name, result[name], flush=True)
        result["neighbour_sampling"] = neighbour_bytes(store, repeats)
    for name in sides:
        result |= ratios(name, result)
    return result


def ratios(name: str, result: dict[str, Any]) -> dict[str, float]:
    """Numbers of a side over those of the side that it is compared with, if that was measured."""
    found, side = {}, result[name]
    with_new_coins, plain = result.get(name.partition("_coins")[0]), result.get("plain_map")
    if "coin_steps" in SIDES[name] and with_new_coins:  # the same side with other coins
        for measure in ("steps_per_second", "megabytes_per_step", "new_share"):
            found[f"{name}_{measure}_ratio"] = side[measure] / with_new_coins[measure]
    if plain and name != "plain_map":
        found[f"{name}_over_plain"] = side["steps_per_second"] / plain["steps_per_second"]
    return found


def make_store(folder: Path, nodes: int = 0, edges: int = 0, width: int = 0) -> Path:
    """A store with random features and labels, written in parts."""
    from bliss.data import import_graph

    nodes, edges, width = nodes or NODES, edges or EDGES, width or WIDTH
    graph, random = power_law(nodes, edges), np.random.default_rng(0)
    np.save(folder / "edges.npy", graph.edge_index.numpy())
    del graph
    kind = {"mode": "w+", "dtype": np.float32, "shape": (nodes, width)}
    x = np.lib.format.open_memmap(folder / "x.npy", **kind)
    for start in range(0, nodes, 100_000):
        rows = min(100_000, nodes - start)
        x[start : start + rows] = random.standard_normal((rows, width), np.float32)
    x.flush()
    del x
    np.save(folder / "y.npy", random.integers(0, CLASSES, nodes))
    names = {"edges": "edges", "features": "x", "labels": "y"}
    files = {field: folder / f"{name}.npy" for field, name in names.items()}
    store = import_graph(folder / "store", **files, splits=(0.5, 0.01, 0.01))
    for file in files.values():
        file.unlink()
    return Path(store)


def measured(store: Path, side: dict[str, Any], repeats: int) -> dict[str, Any]:
    """One side, in a process with little memory and a cold cache."""
    forget(store)
    with limited() as prepare:
        command = [sys.executable, "-m", "benchmarks.disk", str(store), json.dumps(side)]
        done = subprocess.run(
            [*command, str(repeats)], check=True, capture_output=True, text=True, preexec_fn=prepare
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def has_groups() -> bool:
    """Whether memory can be limited here."""
    return GROUPS.is_dir() and os.access(GROUPS, os.W_OK) and os.geteuid() == 0


@contextmanager
def limited() -> Any:
    """A function that limits the memory of a new process, page cache included."""
    if not has_groups():
        yield None
        return
    group = GROUPS / f"bliss-disk-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(MEMORY))
        yield lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
    finally:
        group.rmdir()


def forget(store: Path) -> None:
    """Drop the files of a store from the page cache."""
    for file in store.iterdir():
        with open(file, "rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_bytes() -> int:
    """Bytes that this process has read from disks."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("read_bytes")).split()[1])


def time_side(store: Path, side: dict[str, Any], repeats: int) -> dict[str, Any]:
    """Steps per second and bytes read per step, in this process."""
    import torch

    from bliss.data import load_dataset
    from bliss.storage import mapped
    from bliss.train import Stepper, TrainConfig, build_task

    torch.set_num_threads(1)
    limit = MEMORY if side["rows"] else 2**60  # a map of little memory is read as it is
    mapped.memory_limit = lambda: limit
    dataset = load_dataset(store)
    config = TrainConfig.of(
        dataset=str(store),
        budgets=BUDGETS,
        batch_size=BATCH,
        steps=10**6,
        features="raw",
        feature_cache=side.get("cache", 0),
        prefetch=side.get("prefetch", 0),
        coin_steps=side.get("coin_steps", 1),
    )
    task = build_task(config, dataset)
    started = perf_counter()
    stepper = Stepper(task)
    fill = perf_counter() - started
    drops = not has_groups()
    batches, before, seconds, gathered = stepper.batches(), 0, 0.0, []
    new, last = [], np.empty(0)  # share of input nodes that the step before did not read
    for number in range(WARM_UP + repeats):
        if number == WARM_UP:
            before, began = read_bytes(), perf_counter()
        (batch,) = step = list(next(batches))
        gathered.append(batch.seconds.gather)
        source = batch.blocks[0].src.numpy()
        new.append(float(np.isin(source, last, invert=True).mean()))
        last = source
        stepper.step(step)
        if drops:
            forget(store)
    seconds = perf_counter() - began
    found = {
        "steps_per_second": repeats / seconds,
        "megabytes_per_step": (read_bytes() - before) / repeats / 1e6,
        "gather_ms": 1e3 * mean(gathered[WARM_UP:]),
        "input_nodes": stepper.sampled[0] / stepper.steps,
        "start_seconds": fill,
        "new_share": mean(new[WARM_UP:]),
    }
    readers = stepper.loader._gather.readers
    if "x" in readers and readers["x"].capacity:
        reader = readers["x"]
        drawn = reader.hits + reader.reads - reader.capacity
        found["cached_share_of_rows"] = reader.capacity / reader.shape[0]
        found["share_of_draws_from_cache"] = reader.hits / drawn
    return found


def neighbour_bytes(store: Path, repeats: int) -> dict[str, Any]:
    """Input rows of neighbour sampling, and what they take on the disk."""
    from bliss import Neighbor
    from bliss.data import load_dataset

    dataset = load_dataset(store)
    sampler = Neighbor(dataset.graph, FANOUTS)
    train, width = dataset.splits["train"].numpy(), 4 * dataset.num_features
    rows, pages = [], []
    for step in range(min(repeats, 10)):
        source = sampler.sample(train[step * BATCH : (step + 1) * BATCH], step)[0].src.numpy()
        rows.append(source.size)
        pages.append(np.unique(source * width // PAGE).size)
    return {
        "input_nodes": mean(rows),
        "megabytes_of_rows_per_step": mean(rows) * width / 1e6,
        "megabytes_of_pages_per_step": mean(pages) * PAGE / 1e6,
    }


if __name__ == "__main__":
    place, settings, count = sys.argv[1:]
    print(json.dumps(time_side(Path(place), json.loads(settings), int(count))))
