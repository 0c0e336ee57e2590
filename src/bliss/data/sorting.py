"""Sort edges on disk into the files of a graph store, within a given amount of memory.

Chunks of edges become runs of keys (`bliss.kernels.sorting`), each spread over the same buckets,
and are appended to a file. Buckets hold ascending ranges of keys. They are then read one after the
other, from all runs at once, sorted in memory, merged and written. A bucket that does not fit is
spread again by the next bits of its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from bliss.arrays import Array, BoolArray, FloatArray, IntArray
from bliss.data.npy import GrowingNpy
from bliss.errors import InputError, ResourceError
from bliss.graph.csc import index_type
from bliss.kernels import sorting

LEAST_MEMORY = 1 << 20
"""Smallest number of bytes that a sort can be given."""
MOST_BITS = 31  # of a node: two nodes and the mark of a reverse make up 63 bits of a key
_BUCKET_BITS = 10
_EDGE_BYTES = 256  # working memory for one edge of a chunk, ids and text included
_KEY_BYTES = 64  # and for one key of a bucket
_MOST_EDGES = 1 << 22  # of a chunk: larger ones are not faster
_MOST_KEYS = 1 << 23  # of a bucket that is sorted at once


class SortedEdges(NamedTuple):
    """What a sort found and wrote."""

    read: int  # edges of the chunks
    loops_read: int
    loops_added: int
    num_edges: int  # written, with one self-loop per node
    reciprocal: int  # of these, edges j -> i, j != i, whose reverse i -> j was written or given


def chunk_rows(memory: int) -> int:
    """Number of edges to read at once."""
    return min(max(memory // _EDGE_BYTES, 1), _MOST_EDGES)


def disk_bytes(edges: int, num_nodes: int, is_weighted: bool) -> tuple[int, int]:
    """Bytes on disk of the runs of a sort, and at most of what is written from them."""
    key, entry = (12, 8) if is_weighted else (8, 4)
    return 2 * edges * key, (2 * edges + num_nodes) * entry + 8 * (num_nodes + 1)


class EdgeSorter:
    """Takes edges in chunks and writes indptr.npy, indices.npy and weight.npy.

    Self-loops are replaced by one of weight 1 per node. Parallel edges are merged; their weights
    are added in the order in which they came, those of reverses last. With `relations`, the source
    j of an edge under relation r is written as r V + j, and self-loops are edges like others.
    """

    def __init__(
        self,
        folder: Path,
        num_nodes: int,
        is_weighted: bool,
        directed: bool,
        memory: int,
        relations: int = 0,
    ) -> None:
        self.relations = relations
        self.bits = max((num_nodes * max(relations, 1) - 1).bit_length(), 1)
        if self.bits > MOST_BITS:
            times = f", times {relations} relations" if relations else ""
            raise InputError(
                f"features has {num_nodes:,} rows{times}, but a graph can have at most "
                f"{2**MOST_BITS:,} nodes: split it."
            )
        self.folder, self.num_nodes, self.directed = folder, num_nodes, directed
        self.is_weighted = is_weighted
        self.limit = min(max(memory // _KEY_BYTES, 1), _MOST_KEYS)  # keys of a bucket
        self.has_loop: BoolArray = np.zeros(num_nodes, np.bool_)
        self.read = self.loops = self.reciprocal = 0
        self._runs = _Runs(folder / "runs", 2 * self.bits + 1, is_weighted)
        self._total = self._carry = 0  # edges of complete targets, and of the next one

    def __enter__(self) -> EdgeSorter:
        return self

    def __exit__(self, *_: object) -> None:
        self._runs.remove()

    def add(self, source: IntArray, target: IntArray, weight: FloatArray) -> None:
        """Add edges. source and target int[N], in range; weight float32[N], or empty."""
        key = np.empty(2 * source.size, np.uint64)
        value = np.empty(2 * weight.size, np.float32)
        count, loops = sorting.pack(source, target, weight, self.bits, key, value, self.has_loop)
        self.read += source.size
        self.loops += loops
        self._runs.add(key[:count], value[:count])

    def add_typed(
        self, source: IntArray, target: IntArray, weight: FloatArray, relation: int
    ) -> None:
        """Add edges of a relation; source and target are ids of the graph."""
        name = (relation * self.num_nodes + source).astype(np.uint64)
        key = (target.astype(np.uint64) << np.uint64(self.bits) | name) << np.uint64(1)
        self._runs.add(key, weight.astype(np.float32))

    def write(self, progress: Callable[[float], None]) -> SortedEdges:
        """Sort and write the edges. `progress` is called with the share that is done."""
        kind = index_type(self.num_nodes)
        total = max(self._runs.size + self.num_nodes, 1)
        done = 0
        with ExitStack() as stack:
            opened = [
                stack.enter_context(GrowingNpy(self.folder / f"{name}.npy", dtype))
                for name, dtype in (("indptr", np.int64), ("indices", kind), ("weight", np.float32))
                if name != "weight" or self.is_weighted
            ]
            self._indptr, self._indices, *self._weight = opened
            self._indptr.write(np.zeros(1, np.int64))
            for low, high, key, value in self._buckets(self._runs, 0):
                self._write(low, high, key, value)
                done += key.size
                progress(min(done / total, 1.0))
        progress(1.0)
        return SortedEdges(
            self.read,
            self.loops,
            self.num_nodes - int(np.count_nonzero(self.has_loop)),
            self._total,
            self.reciprocal,
        )

    def _buckets(self, runs: _Runs, base: int) -> Iterator[tuple[int, int, Array, FloatArray]]:
        """Ascending ranges of keys, low to high - 1, with their keys and values, not sorted."""
        counts, drop, number = runs.counts(), runs.drop, runs.buckets
        end = self.num_nodes << (self.bits + 1)  # no key is larger
        width = 1 << max(drop - self.bits - 1, 0)  # targets of a bucket: each adds a self-loop
        first = 0
        while first < number and base + (first << drop) < end:
            low = base + (first << drop)
            if counts[first] > self.limit and drop > 1:
                path = runs.path.with_name(f"{runs.path.name}-")
                with _Runs(path, drop, self.is_weighted) as sub:
                    for start in range(0, counts[first], self.limit):
                        sub.add(*runs.read(first, first + 1, start, self.limit))
                    yield from self._buckets(sub, low)
                first += 1
                continue
            last, size = first + 1, counts[first] + width
            while last < number and size + counts[last] + width <= self.limit:
                size += counts[last] + width
                last += 1
            yield low, min(base + (last << drop), end), *runs.read(first, last)
            first = last

    def _write(self, low: int, high: int, key: Array, value: FloatArray) -> None:
        """Write the edges with keys low to high - 1, with the self-loops among them."""
        first, last = low >> (self.bits + 1), (high - 1) >> (self.bits + 1)  # targets
        node = np.arange(first, last + 1, dtype=np.uint64)
        loop = (node << np.uint64(self.bits) | node) << np.uint64(1)
        loop = loop[(loop >= low) & (loop < high)] if not self.relations else loop[:0]
        key = np.concatenate([key, loop])
        if self.is_weighted:
            order = np.argsort(key, kind="stable")
            value = np.concatenate([value, np.ones(loop.size, np.float32)])[order]
            key = key[order]
        else:
            key.sort()
        degree = np.zeros(last + 1 - first, np.int64)
        source = np.empty(key.size, self._indices.dtype)
        count, both = sorting.merge(key, self.bits, self.directed, first, degree, source)
        self.reciprocal += both
        self._indices.write(source[:count])
        if self.is_weighted:
            self._weight[0].write(self._sums(key, value))
        degree[0] += self._carry
        is_whole = high & ((1 << (self.bits + 1)) - 1) == 0  # whether the last target is complete
        self._carry = 0 if is_whole else int(degree[-1])
        pointers = self._total + np.cumsum(degree if is_whole else degree[:-1])
        self._indptr.write(pointers)
        self._total = int(pointers[-1]) if pointers.size else self._total

    def _sums(self, key: Array, value: FloatArray) -> FloatArray:
        """Weights of the merged edges."""
        if self.directed:
            is_given = key & np.uint64(1) == 0
            key, value = key[is_given], value[is_given]
        edge = key >> np.uint64(1)
        is_first = np.ones(edge.size, np.bool_)
        is_first[1:] = edge[1:] != edge[:-1]
        first = np.flatnonzero(is_first)
        sums: FloatArray = np.add.reduceat(value, first) if first.size else value
        return sums


class _Runs:
    """Runs of keys, and of their values, in files: each run is sorted by bucket.

    The bucket of a key is given by the highest bits of its lowest `bits` bits.
    """

    def __init__(self, path: Path, bits: int, has_values: bool) -> None:
        chosen = min(_BUCKET_BITS, bits - 1)  # an edge and its reverse stay together
        self.path, self.drop, self.buckets = path, bits - chosen, 1 << chosen
        self.starts: list[IntArray] = []  # [B + 1] positions in the file, for each run
        self.size = 0
        self.files: list[IO[bytes]] = []
        with ExitStack() as stack:
            for suffix in (".keys", ".values")[: 1 + has_values]:
                file = path.with_suffix(suffix)
                self.files.append(stack.enter_context(file.open("w+b")))
                stack.callback(file.unlink, missing_ok=True)
            self._stack = stack.pop_all()

    def __enter__(self) -> _Runs:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Delete and close the files, each of them even if another one fails."""
        self._stack.close()

    def add(self, key: Array, value: FloatArray) -> None:
        """Append a run. key uint64[N]; value float32[N], or empty."""
        start = np.empty(self.buckets + 1, np.int64)
        spread_key, spread_value = np.empty_like(key), np.empty_like(value)
        sorting.spread(key, value, self.drop, start, spread_key, spread_value)
        for file, array in zip(self.files, (spread_key, spread_value), strict=False):
            file.write(array.data)
        self.starts.append(start + self.size)
        self.size += key.size

    def counts(self) -> IntArray:
        """Number of keys of each bucket. int64[B]."""
        for file in self.files:
            file.flush()
        return sum((np.diff(start) for start in self.starts), np.zeros(self.buckets, np.int64))

    def read(
        self, first: int, last: int, skip: int = 0, most: int | None = None
    ) -> tuple[Array, FloatArray]:
        """Keys and values of buckets first to last - 1, run after run, or a part of them."""
        ends = [(int(start[first]), int(start[last])) for start in self.starts]
        size = sum(stop - start for start, stop in ends) - skip
        size = size if most is None else min(size, most)
        key = np.empty(size, np.uint64)
        value = np.empty(size if len(self.files) > 1 else 0, np.float32)
        place = 0
        for start, stop in ends:
            passed = min(skip, stop - start)
            start, skip = start + passed, skip - passed
            stop = min(stop, start + size - place)
            if stop <= start:
                continue
            arrays: tuple[Array, ...] = key, value
            for file, array in zip(self.files, arrays, strict=False):
                part = array[place : place + stop - start]
                file.seek(start * array.itemsize)
                if file.readinto(part.view(np.uint8).data) != part.nbytes:  # type: ignore[attr-defined]
                    raise ResourceError(
                        f"{self.path} was cut short while it was in use: check the disk, then try "
                        "again."
                    )
            place += stop - start
        return key, value
