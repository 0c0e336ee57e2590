"""The kernels of subgraphs do what their plain twins do."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from bliss.kernels import subgraphs
from bliss.rng import derive_key
from tests.twins import layerwise as reference
from tests.twins import subgraphs as reference_subgraphs


class Case:
    """A random graph with parallel edges, self-loops and nodes without in-edges."""

    def __init__(self, seed: int) -> None:
        self.random = random = np.random.default_rng(seed)
        self.nodes = int(random.integers(2, 40))
        edges = int(random.integers(1, 5 * self.nodes))
        source, target = random.integers(0, self.nodes, (2, edges)).astype(np.int32)
        self.indptr, order = reference.group_by_target(source, target, self.nodes)
        self.indices = source[order]


cases = pytest.mark.parametrize("seed", range(20))


def test_every_kernel_has_a_twin():
    kernels = {
        name
        for name, member in inspect.getmembers(subgraphs)
        if hasattr(member, "py_func") and not name.startswith("_") and name != "coin"
    }
    assert kernels - set(dir(reference_subgraphs)) == set()
    assert kernels


@cases
@pytest.mark.parametrize("length", [1, 4])
def test_walks_and_their_visits_agree(seed, length):
    case = Case(seed)
    root = case.random.integers(0, case.nodes, 50)
    rows = (case.indptr, case.indices)
    walk = subgraphs.random_walks(*rows, root, length, derive_key(3, length))
    twin = reference_subgraphs.random_walks(*rows, root, length, derive_key(3, length))
    np.testing.assert_array_equal(walk, twin)
    node_count = np.ones(case.nodes, np.int64)  # counts are added to
    edge_count = np.ones(case.indices.size, np.int64)
    subgraphs.count_visits(*rows, walk, node_count, edge_count)
    node_twin, edge_twin = reference_subgraphs.count_visits(*rows, walk, case.nodes)
    np.testing.assert_array_equal(node_count - 1, node_twin)
    np.testing.assert_array_equal(edge_count - 1, edge_twin)


@cases
def test_values_of_pairs_agree(seed):
    case = Case(seed)
    value = case.random.random(case.nodes)
    rows = (case.indptr, case.indices, value)
    np.testing.assert_allclose(
        subgraphs.pair_values(*rows), reference_subgraphs.pair_values(*rows), rtol=1e-12
    )
