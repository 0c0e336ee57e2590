"""The kernels of the sort on disk do what their plain twins do."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from bliss.kernels import sorting
from tests.twins import sorting as reference

KERNELS = {name for name, one in inspect.getmembers(sorting) if hasattr(one, "py_func")}


def test_every_kernel_has_a_twin():
    assert {"pack", "spread", "merge"} == KERNELS
    assert set(dir(reference)) >= KERNELS


def edges(seed, nodes=20, size=300):
    random = np.random.default_rng(seed)
    return random.integers(0, nodes, size), random.integers(0, nodes, size), random


def packed(module, source, target, weight, bits=5):
    key, value = np.empty(2 * source.size, np.uint64), np.empty(2 * weight.size, np.float32)
    has_loop = np.zeros(20, bool)
    count, loops = module.pack(source, target, weight, bits, key, value, has_loop)
    return key[:count], value[:count], has_loop, loops


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_keys_agree_in_every_bucket(seed, is_weighted):
    source, target, random = edges(seed)
    weight = random.random(source.size if is_weighted else 0).astype(np.float32)
    found, expected = (packed(m, source, target, weight) for m in (sorting, reference))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    key, value = found[0], found[1]
    spread = []
    for module in (sorting, reference):
        arrays = np.empty(9, np.int64), np.empty_like(key), np.empty_like(value)
        module.spread(key, value, 8, *arrays)
        spread.append(arrays)
    for one, other in zip(*spread, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_merged_edges_agree(seed, directed):
    source, target, _ = edges(seed)
    key = np.sort(packed(sorting, source, target, np.empty(0, np.float32))[0])
    key = np.sort(np.append(key, [(7 << 5 | 7) << 1]).astype(np.uint64))  # a self-loop
    results = []
    for module in (sorting, reference):
        degree, out = np.zeros(20, np.int64), np.empty(key.size, np.int32)
        count, both = module.merge(key, 5, directed, 0, degree, out)
        results.append((degree, out[:count], count, both))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    assert 0 < results[0][3] <= results[0][2]
