"""Make a large graph with a heavy tail, classes and features, chunk by chunk, as .npy files.

Node v has class v mod C. The source of an edge is any node; its target is of the same class with
probability 0.6, and of any class otherwise. Among the nodes of a class, the r-th most popular one
is drawn with a probability in proportion to r^-(2/3). Features are noise of deviation 1 around a
centroid of their class, so that a node alone says little of its class, and its neighbours much.

    python -m experiments.scale.make_graph --nodes 11e6 --edges 160e6 --features 32 --out FOLDER

writes edges.npy int32[E, 2], features.npy float16[V, F], labels.npy int16[V], and train.npy,
val.npy and test.npy. Memory stays below 1 GB.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

CLASSES = 16
SAME_CLASS = 0.6
TAIL = 3.0  # u^TAIL of a uniform u: the density of rank r is r^(1 / TAIL - 1)
SIGNAL = 0.25  # deviation of the centroids
CHUNK = 1 << 22  # edges, or numbers of features
PRIMES = (1_000_003, 1_000_033, 1_000_037, 1_000_039)


def step_of(number: int) -> int:
    """A step that has no divisor in common with a number, so that its multiples mix up ids."""
    return next(prime for prime in PRIMES if number % prime)


def edge_chunks(nodes: int, edges: int, random: np.random.Generator) -> Iterator[np.ndarray]:
    """Edges, source and target. int32[n, 2] each."""
    size = nodes // CLASSES  # of a class; the last nodes may have no edge
    step = step_of(size)
    for start in range(0, edges, CHUNK):
        n = min(CHUNK, edges - start)
        source = random.integers(0, size * CLASSES, n)
        others = random.integers(0, CLASSES, n)
        label = np.where(random.random(n) < SAME_CLASS, source % CLASSES, others)
        rank = (size * random.random(n) ** TAIL).astype(np.int64)
        target = (rank * step % size) * CLASSES + label
        yield np.stack([source, target], axis=1).astype(np.int32)


def feature_chunks(nodes: int, width: int, random: np.random.Generator) -> Iterator[np.ndarray]:
    """Features. float16[n, F] each."""
    centroid = SIGNAL * random.standard_normal((CLASSES, width), np.float32)
    rows = max(CHUNK // width, 1)
    for start in range(0, nodes, rows):
        n = min(rows, nodes - start)
        noise = random.standard_normal((n, width), np.float32)
        noise += centroid[np.arange(start, start + n) % CLASSES]
        yield noise.astype(np.float16)


def split_ids(nodes: int) -> dict[str, np.ndarray]:
    """One node in 100 for training, one in 1,000 for validation and one for testing."""
    few = max(nodes // 1000, 1)
    ends = np.cumsum([10 * few, few, few])
    ids = np.arange(ends[-1], dtype=np.int64) * step_of(nodes) % nodes
    return dict(zip(("train", "val", "test"), np.split(ids, ends[:2]), strict=True))


def write(file: Path, chunks: Iterator[np.ndarray], shape: tuple[int, ...], dtype: type) -> None:
    """Write a .npy file chunk by chunk."""
    with open(file, "wb") as stream:
        kind = np.lib.format.dtype_to_descr(np.dtype(dtype))
        header = {"descr": kind, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_2_0(stream, header)
        for chunk in chunks:
            stream.write(chunk.data)


def make(folder: Path, nodes: int, edges: int, width: int, seed: int = 0) -> None:
    """Write the files of a graph into a new folder."""
    folder.mkdir(parents=True)
    streams = [np.random.default_rng([seed, part]) for part in range(2)]
    write(folder / "edges.npy", edge_chunks(nodes, edges, streams[0]), (edges, 2), np.int32)
    rows = feature_chunks(nodes, width, streams[1])
    write(folder / "features.npy", rows, (nodes, width), np.float16)
    np.save(folder / "labels.npy", (np.arange(nodes) % CLASSES).astype(np.int16))
    for name, ids in split_ids(nodes).items():
        np.save(folder / f"{name}.npy", ids)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=float, required=True)
    parser.add_argument("--edges", type=float, required=True)
    parser.add_argument("--features", type=int, default=128, help="width of the features")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    make(given.out, int(given.nodes), int(given.edges), given.features, given.seed)


if __name__ == "__main__":
    main()
