"""The kernels of histories do what their plain twins do."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from bliss.kernels import histories
from tests.kernels.test_subgraph_kernels import Case, cases
from tests.rows import SHAPES, random_ranges
from tests.twins import histories as reference


def test_every_kernel_has_a_twin():
    kernels = {
        name
        for name, member in inspect.getmembers(histories)
        if hasattr(member, "py_func") and not name.startswith("_")
    }
    assert kernels - set(dir(reference)) == set()
    assert kernels


@cases
@pytest.mark.parametrize("number_type", [np.float32, np.float16])
@pytest.mark.parametrize("kind", ["mean", "gcn", "weights"])
def test_full_sums_agree(seed, kind, number_type):
    case = Case(seed)
    nothing = np.empty(0)
    dst = case.random.permutation(case.nodes)[: case.nodes // 2 + 1]
    ranges = random_ranges(case.random, case.indptr, dst, SHAPES[seed % 3])
    target_scale = case.random.random(ranges.degree.size) if kind != "weights" else nothing
    degrees = case.indptr if kind == "gcn" else case.indptr[:0]
    weight = case.random.random(case.indices.size) if kind == "weights" else nothing
    value = case.random.normal(size=(case.nodes, 19)).astype(number_type)
    value[0, :4] = 0, -0.0, 6e-8, 65504  # the smallest and the largest half
    rows = (*ranges.ranges, case.indices, target_scale, degrees, weight)
    bits = value.view(np.uint16) if number_type == np.float16 else value
    np.testing.assert_allclose(
        histories.full_sums(*rows, bits), reference.full_sums(*rows, value), rtol=1e-4, atol=1e-4
    )
    if kind != "gcn":  # rows of value that begin with another node
        shifted = (*rows[:3], case.indices + 5, *rows[4:])
        np.testing.assert_array_equal(
            histories.full_sums(*shifted, bits, 5), histories.full_sums(*rows, bits)
        )


@pytest.mark.parametrize("number_type", [np.float32, np.float16])
def test_added_rows_agree(number_type):
    random = np.random.default_rng(0)
    group, node = random.integers(0, 5, 40), random.integers(0, 9, 40).astype(np.int32)
    factor = random.normal(size=40).astype(np.float32)
    value = random.normal(size=(9, 19)).astype(number_type)
    found = random.normal(size=(5, 19)).astype(np.float32)
    expected = found.copy()
    bits = value.view(np.uint16) if number_type == np.float16 else value
    histories.add_rows(found, group, factor, node, bits)
    reference.add_rows(expected, group, factor, node, value)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_bins_are_powers_of_two():
    age = np.array([0, 1, 2, 3, 4, 7, 8, 1023, 1024, 2**31 - 1])
    assert [histories.age_bin(int(one)) for one in age] == [0, 1, 2, 2, 3, 3, 4, 10, 11, 31]
    assert [reference.age_bin(int(one)) for one in age] == [0, 1, 2, 2, 3, 3, 4, 10, 11, 31]
    assert histories.age_bin(2**32) < histories.AGE_BINS


@cases
def test_ages_and_their_factors_agree(seed):
    random = np.random.default_rng(seed)
    stamp = random.integers(-1, 50, 40).astype(np.int32)
    node = random.integers(0, 40, 30)
    np.testing.assert_array_equal(histories.ages(node, stamp, 50), reference.ages(node, stamp, 50))
    factor = random.random(histories.AGE_BINS).astype(np.float32)
    mass = random.random(30).astype(np.float32)
    expected = reference.scale_by_age(mass.copy(), node, stamp, 50, factor)
    histories.scale_by_age(mass, node, stamp, 50, factor)
    np.testing.assert_array_equal(mass, expected)
