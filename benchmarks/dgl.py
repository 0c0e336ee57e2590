"""DGL's compiled neighbour and LABOR samplers beside ours: same graph, seeds and fanouts.

Graph (b), 232,965 nodes and 11.6 M edges; batches of 256 seeds, fanouts 10,10,10, one thread. DGL
2.1.0 needs torch 2.2.1, so its side runs in an environment of its own, as another process. The two
sides take turns in rounds, so that both see the same minutes of the machine. Numbers are medians
over batches after warm-up; ratios are DGL's milliseconds over ours.

`python -m benchmarks dgl --dgl ENVIRONMENT` names the environment; the command explains how to make
one if it is missing, and `--make` makes it (about 5 GB, because torch 2.2.1 comes with CUDA).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

SAMPLERS = ("neighbor", "labor-0", "labor-1")
FANOUTS = (10, 10, 10)
BATCH, WARM_UP, ROUNDS = 256, 4, 4
PACKAGES = (
    "dgl==2.1.0",
    "torch==2.2.1",
    "torchdata==0.7.1",
    "numpy<2",
    "scipy",
    "pandas",
    "pydantic",
    "pyyaml",
    "setuptools",
)
HOME = Path(tempfile.gettempdir()) / "bliss-dgl"

Row = dict[str, float]


def run(batches: int, environment: Path = HOME, make: bool = False) -> dict[str, Any]:
    """Time both sides in turn; returns what is written as JSON."""
    from benchmarks.graphs import power_law
    from benchmarks.sampling import EDGES, NODES

    python = prepared(environment, make)
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder)
        graph = power_law(NODES, EDGES)
        np.save(files / "indptr.npy", graph.indptr)
        np.save(files / "indices.npy", graph.indices)
        np.save(files / "seeds.npy", seeds(graph.num_nodes, WARM_UP + batches))
        found = measure(python, files)
    for name, row in found["samplers"].items():
        print(name, {key: round(value, 2) for key, value in row.items()}, flush=True)
    settings = {"batch": BATCH, "fanouts": FANOUTS, "batches": batches, "rounds": ROUNDS}
    return {"settings": settings | {"threads": 1}, **found}


def prepared(environment: Path, make: bool) -> Path:
    """The environment's Python, after a check that DGL can be imported there."""
    python = environment / "bin" / "python"
    if not python.exists() and make:
        venv.create(environment, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", *PACKAGES], check=True)
    is_there = (
        python.exists()
        and not subprocess.run(
            [python, "-c", "import dgl"], capture_output=True, check=False
        ).returncode
    )
    if not is_there:
        words = " ".join(f"'{name}'" for name in PACKAGES)
        raise SystemExit(
            f"There is no DGL in {environment}. Make the environment (about 5 GB) with\n\n"
            f"    python -m venv {environment}\n    {python} -m pip install {words}\n\n"
            "or let `python -m benchmarks dgl --make` do so; --dgl names another place. Wheels of "
            "DGL 2.1.0 are for Python 3.8 to 3.11."
        )
    return python


def seeds(num_nodes: int, count: int) -> np.ndarray:
    """Seeds of each batch. int64[count, BATCH]."""
    generator = np.random.default_rng(0)
    return np.stack([generator.choice(num_nodes, BATCH, replace=False) for _ in range(count)])


def measure(python: Path, files: Path) -> dict[str, Any]:
    """Both sides in turn, ROUNDS times; the first alternates."""
    sides = {"ours": Path(sys.executable), "dgl": python}
    lines: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    for number in range(ROUNDS):
        for side in sorted(sides, reverse=number % 2 == 0):
            lines[side].append(other_process(sides[side], side, files))
    rows: dict[str, Row] = {}
    for name in SAMPLERS:
        row: Row = {}
        for side in sides:
            for key in ("ms", "sources", "edges"):
                values = [value for line in lines[side] for value in line["rows"][name][key]]
                row[f"{side}_{key}"] = median(values)
        row["dgl_over_ours"] = row["dgl_ms"] / row["ours_ms"]
        rows[name] = row
    return {"versions": {side: lines[side][0]["versions"] for side in sides}, "samplers": rows}


def other_process(python: Path, side: str, files: Path) -> dict[str, Any]:
    """Time one side in a process of its own."""
    root = Path(__file__).resolve().parents[1]
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")}
    if side == "dgl":
        threads["PYTHONPATH"] = ""  # our packages are not DGL's
    done = subprocess.run(
        [python, "-m", "benchmarks.dgl", side, files],
        env=os.environ | threads,
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"The process of {side} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def side_of_dgl(files: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """DGL's samplers, each a function of seeds that returns (sources, edges) of a batch."""
    import dgl
    import torch
    from dgl.dataloading import LaborSampler, NeighborSampler

    torch.set_num_threads(1)
    indptr, indices = (
        torch.from_numpy(np.load(files / f"{name}.npy").astype(np.int64))
        for name in ("indptr", "indices")
    )
    graph = dgl.graph(("csc", (indptr, indices, torch.empty(0, dtype=torch.int64))))
    fanouts = list(FANOUTS)
    made = {
        "neighbor": NeighborSampler(fanouts),
        "labor-0": LaborSampler(fanouts),
        "labor-1": LaborSampler(fanouts, importance_sampling=1),
    }

    def drawer(sampler: Any) -> Any:
        def draw(batch: np.ndarray, step: int) -> Any:
            return sampler.sample_blocks(graph, torch.from_numpy(batch))[2]

        return draw

    versions = {"dgl": dgl.__version__, "torch": str(torch.__version__)}
    return {name: drawer(one) for name, one in made.items()}, versions


def side_of_ours(files: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Our samplers, likewise."""
    import torch

    from bliss import Graph, __version__
    from bliss.samplers import SAMPLERS as KNOWN

    torch.set_num_threads(1)
    arrays = (np.load(files / f"{name}.npy") for name in ("indptr", "indices"))
    graph = Graph.from_csc(*arrays, self_loops="keep")
    made = {name: KNOWN[name].build(graph, FANOUTS).sample for name in SAMPLERS}
    return made, {"bliss": __version__, "torch": str(torch.__version__)}


def time_side(side: str, files: Path) -> dict[str, Any]:
    """Milliseconds, sources of all layers and edges of each batch after the warm-up, by sampler."""
    draws, versions = (side_of_dgl if side == "dgl" else side_of_ours)(files)
    batches = np.load(files / "seeds.npy")
    rows: dict[str, dict[str, list[float]]] = {
        name: {"ms": [], "sources": [], "edges": []} for name in draws
    }
    for step, batch in enumerate(batches):
        first = step % len(draws)
        for name in [*draws][first:] + [*draws][:first]:
            started = perf_counter()
            blocks = draws[name](batch, step)
            taken = perf_counter() - started
            if step >= WARM_UP:
                rows[name]["ms"].append(1e3 * taken)
                rows[name]["sources"].append(sum(map(_sources, blocks)))
                rows[name]["edges"].append(sum(map(_edges, blocks)))
    return {"rows": rows, "versions": versions}


def _sources(block: Any) -> int:
    return int(block.num_src if hasattr(block, "num_src") else block.num_src_nodes())


def _edges(block: Any) -> int:
    edges = block.num_edges
    return int(edges() if callable(edges) else edges)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Time one side; `python -m benchmarks dgl` both.")
    parser.add_argument("side", choices=["ours", "dgl"])
    parser.add_argument("files", type=Path)
    arguments = parser.parse_args()
    print(json.dumps(time_side(arguments.side, arguments.files)))
