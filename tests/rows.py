"""Rows of every shape for tests of kernels: whole, with holes, and several groups per target."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SHAPES = ("whole", "holes", "groups")


class Ranges(NamedTuple):
    """The arrays of `bliss.graph.Rows`, without a graph."""

    pointer: np.ndarray  # [G + 1]
    start: np.ndarray  # [R]
    stop: np.ndarray  # [R]
    degree: np.ndarray  # [G]
    node: np.ndarray  # [G]
    relation: np.ndarray  # [G], or empty

    @property
    def ranges(self) -> tuple[np.ndarray, ...]:
        return self[:3]


def random_ranges(
    random: np.random.Generator, indptr: np.ndarray, dst: np.ndarray, shape: str
) -> Ranges:
    """Rows of the targets: all edges; some left out; or dealt to up to three toy relations."""
    groups: list[tuple[int, int, list[tuple[int, int]]]] = []  # target, relation, ranges
    for i in dst.tolist():
        edges = np.arange(indptr[i], indptr[i + 1])
        relation = np.zeros(edges.size, np.int64)
        if shape == "holes":
            edges = edges[random.random(edges.size) < 0.7]
            relation = np.zeros(edges.size, np.int64)
        if shape == "groups":  # edges are sorted by relation, as in a typed graph
            relation = np.sort(random.integers(0, 3, edges.size))
        for kind in np.unique(relation).tolist() or [0]:
            groups.append((i, kind, runs(edges[relation == kind])))
    pointer = np.cumsum([0, *(len(ranges) for _, _, ranges in groups)])
    flat = np.array([one for *_, ranges in groups for one in ranges], np.int64).reshape(-1, 2)
    degree = [sum(stop - start for start, stop in ranges) for *_, ranges in groups]
    relation = [kind for _, kind, _ in groups] if shape == "groups" else []
    return Ranges(
        pointer,
        flat[:, 0].copy(),
        flat[:, 1].copy(),
        np.array(degree, np.int64),
        np.array([i for i, *_ in groups], np.int64),
        np.array(relation, np.int64),
    )


def runs(edges: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of consecutive numbers."""
    if not edges.size:
        return []
    parts = np.split(edges, np.flatnonzero(np.diff(edges) > 1) + 1)
    return [(int(part[0]), int(part[-1]) + 1) for part in parts]
