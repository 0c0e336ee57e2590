"""Graphs and features of extreme shapes: a hub, edge ids beyond int32, and very wide features."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from bliss import Block, Graph
from bliss.data import import_graph, load_dataset, open_graph
from bliss.samplers import Sampler, sampler_config
from bliss.train import predict, train
from bliss.train.peak_memory import forget_peak, peak_mb

DEGREE = 10_000_000
HOLE = 2**31 + 12_345
CPU = torch.device("cpu")


@contextmanager
def measured(row: dict[str, float], name: str) -> Iterator[None]:
    """Add the seconds and the peak of memory in MB of what runs inside."""
    forget_peak(CPU)
    started = perf_counter()
    yield
    row[f"{name}_s"] = round(perf_counter() - started, 2)
    row[f"{name}_peak_mb"] = round(peak_mb(CPU))


def hub(degree: int = DEGREE) -> dict[str, Any]:
    """A node with `degree` in-edges and as many out-edges, drawn as target and as source."""
    result: dict[str, Any] = {"degree": degree}
    with measured(result, "build"):
        graph = star(degree)
    rows: dict[str, dict[str, float]] = {}
    for name in HUB_SAMPLERS:
        rows[name] = row = {}
        sampler = build(name, graph)
        for role, seeds in (("target", np.array([0])), ("source", np.arange(1, 257))):
            with measured(row, role):
                blocks = sampler.sample(seeds, 0)
            check_blocks(graph, blocks)
            row[f"{role}_edges"] = sum(block.num_edges for block in blocks)
            with measured(row, f"{role}_update"):
                for block in blocks:
                    block.observe(torch.ones(block.num_src, 4))
                sampler.update(blocks)
        del sampler
    return result | {"samplers": rows}


HUB_SAMPLERS = ("full", "neighbor", "labor", "ladies", "pladies", "bliss", "sketch")
"""Samplers of blocks by layer; those that prepare a pass over all nodes are left out."""


def star(degree: int) -> Graph:
    """Node 0 sends to and receives from all others; every node has a self-loop."""
    indptr = np.concatenate([[0], np.arange(degree + 1, 3 * degree + 2, 2)]).astype(np.int64)
    indices = np.empty(3 * degree + 1, np.int32)
    indices[: degree + 1] = np.arange(degree + 1)
    indices[degree + 1 :: 2] = 0
    indices[degree + 2 :: 2] = np.arange(1, degree + 1)
    return Graph.from_csc(indptr, indices, self_loops="keep")


def edges(hole: int = HOLE, nodes: int = 2_000, degree: int = 20) -> dict[str, Any]:
    """A store of more than 2^31 edges, in a sparse file, against a graph without its hole.

    Node 0 has `hole` in-edges that no one wrote, so they take no room on the disk and read as 0.
    The rows of all other nodes follow them: their edge ids do not fit 32 bits.
    """
    result: dict[str, Any] = {"edges": hole + (nodes - 1) * degree, "hole": hole}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        small = write_sparse(folder, hole, nodes, degree)
        result["file_gb"] = round((folder / "indices.npy").stat().st_size / 1e9, 2)
        result["on_disk_mb"] = round((folder / "indices.npy").stat().st_blocks * 512 / 1e6, 2)
        with measured(result, "open"):
            graph = open_graph(folder)
        rows = {name: compare_rows(name, graph, small, hole) for name in EDGE_SAMPLERS}
        rows["neighbor, row of the hole"] = draw_hole(graph, hole)
        result["private_mb"] = round(private_mb())
    return result | {"samplers": rows}


EDGE_SAMPLERS = ("full", "neighbor", "labor", "ladies", "pladies", "bliss", "sketch")


def write_sparse(folder: Path, hole: int, nodes: int, degree: int) -> Graph:
    """Write a store with a hole in the row of node 0; returns the same graph without that row."""
    random = np.random.default_rng(0)
    sources = np.sort(random.integers(1, nodes, (nodes - 1, degree), dtype=np.int32), axis=1)
    small = np.concatenate([[0], np.arange(nodes) * degree]).astype(np.int64)
    indptr = small.copy()
    indptr[1:] += hole
    np.save(folder / "indptr.npy", indptr)
    with open(folder / "indices.npy", "wb") as stream:
        header = {"descr": "<i4", "fortran_order": False, "shape": (int(indptr[-1]),)}
        np.lib.format.write_array_header_2_0(stream, header)
        stream.seek(4 * hole, 1)  # a hole: no room on the disk, and zeros when it is read
        stream.write(sources.tobytes())
    return Graph.from_csc(small, sources.reshape(-1), self_loops="keep")


def compare_rows(name: str, graph: Graph, small: Graph, hole: int) -> dict[str, float]:
    """Raise an error unless draws behind the hole are those without it, with shifted edge ids."""
    row: dict[str, float] = {}
    seeds = np.arange(1, 65)
    big, twin = build(name, graph), build(name, small)
    for step in range(3):
        with measured(row, "sample"):
            blocks = big.sample(seeds, step)
        check_blocks(graph, blocks)
        if min(int(block.edge.min()) for block in blocks if block.num_edges) < hole:
            raise AssertionError(f"{name} drew an edge of the hole")
        others = twin.sample(seeds, step)
        same = all(
            torch.equal(one.src, other.src)
            and torch.equal(one.edge - hole, other.edge)
            and torch.equal(one.edge_weight, other.edge_weight)
            for one, other in zip(blocks, others, strict=True)
        )
        if not same:
            raise AssertionError(f"{name} drew otherwise than without the hole")
        for sampler, drawn in ((big, blocks), (twin, others)):
            for block in drawn:
                block.observe((1.0 + block.src[:, None] % 7).float().expand(-1, 4))
            sampler.update(drawn)
    row["largest_edge_id"] = max(int(block.edge.max()) for block in blocks if block.num_edges)
    return row


def draw_hole(graph: Graph, hole: int, number: int = 1000) -> dict[str, float]:
    """Draw from the row of the hole itself: `number` of more than 2^31 edges, uniformly."""
    row: dict[str, float] = {}
    sampler = sampler_config("neighbor").build(graph, [number], layers=1)
    with measured(row, "sample"):
        (block,) = sampler.sample([0], 0)
    edge = block.edge.numpy()
    check_blocks(graph, [block])
    middle, error = edge.mean() / hole, (12 * number) ** -0.5  # of uniform numbers in (0, 1)
    if np.unique(edge).size != number or abs(middle - 0.5) > 5 * error:
        raise AssertionError(f"edges of the hole are not drawn uniformly: {middle:.3f}")
    row["largest_edge_id"] = int(edge.max())
    return row


def private_mb() -> float:
    """Memory of this process in MB without pages of mapped files (Linux)."""
    text = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    (line,) = (line for line in text.splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) / 1e3


def widths(nodes: int = 200, sizes: Sequence[int] = (1, 100_000)) -> dict[str, Any]:
    """Import, train, resume, and predict with features of each width."""
    random = np.random.default_rng(0)
    rows = {}
    for width in sizes:
        row: dict[str, float] = {}
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            label = random.integers(0, 3, nodes)
            np.save(folder / "edges.npy", random.integers(0, nodes, (2, 10 * nodes)))
            np.save(folder / "y.npy", label)
            x = random.normal(size=(nodes, width)).astype(np.float32)
            x[:, 0] += 3 * label
            np.save(folder / "x.npy", x)
            with measured(row, "import"):
                store = import_graph(
                    folder / "store",
                    edges=folder / "edges.npy",
                    features=folder / "x.npy",
                    labels=folder / "y.npy",
                )
            settings = {"layers": 2, "hidden": 16, "budgets": (60, 30), "evaluate_every": 5}
            for name, steps in (("train", 10), ("resume", 20)):
                with measured(row, name):
                    result = train(
                        store,
                        folder / "run",
                        resume=name == "resume",
                        steps=steps,
                        say=lambda _: None,
                        **settings,
                    )
            with measured(row, "predict"):
                columns = predict(folder / "run", load_dataset(store))
            if len(columns["label"]) != nodes or not np.isfinite(columns["probability"]).all():
                raise AssertionError(f"predictions with {width} features are wrong")
            row["test_score"] = result.test_score
        rows[str(width)] = row
    return {"nodes": nodes, "widths": rows}


def build(name: str, graph: Graph) -> Sampler:
    """A sampler of one or two layers whose budgets fit its unit."""
    config = sampler_config(name)
    layers = config.sampled_layers(2)
    budgets = {"sources": [512, 256], "neighbours": [5, 5]}.get(config.unit, [])
    x = np.ones((graph.num_nodes, 4), np.float32) if config.needs_features else None
    return config.build(graph, budgets[2 - layers :], layers=2, x=x, widths=[4, 4])


def check_blocks(graph: Graph, blocks: Sequence[Block]) -> None:
    """Raise an error unless every edge is one of the graph, between the right ends."""
    for block in blocks:
        edge = block.edge.numpy()
        right = np.array_equal(graph.indices[edge], block.src[block.row].numpy())
        target = np.searchsorted(graph.indptr, edge, side="right") - 1
        right &= np.array_equal(target, block.dst[block.col].numpy())
        finite = bool(torch.isfinite(block.edge_weight).all()) and bool((block.edge_prob > 0).all())
        if not (right and finite):
            raise AssertionError("a block holds edges that are not those of the graph")
