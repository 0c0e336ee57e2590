"""Settings of samplers: default budgets, and pairings that would learn something wrong."""

from __future__ import annotations

import numpy as np
import pytest

from bliss import InputError
from bliss.policies import POLICIES, TargetBanditConfig
from bliss.samplers import SAMPLERS, LayerSampler, NodeSampler, sampler_config

BY_SOURCES = [name for name, config in SAMPLERS.items() if config.unit == "sources"]


@pytest.mark.parametrize("name", BY_SOURCES)
def test_default_budgets_double_towards_the_input_on_large_graphs(name):
    for nodes in (16_384, 20_000, 100_000_000):
        assert SAMPLERS[name].default_budgets(3, nodes) == (2048, 1024, 512)
    assert SAMPLERS[name].default_budgets(1, 4096) == (512,)


@pytest.mark.parametrize("name", BY_SOURCES)
def test_default_budgets_of_small_graphs_keep_an_eighth_of_the_nodes(name):
    config = SAMPLERS[name]
    assert config.default_budgets(3, 8192) == (1024, 512, 256)
    assert config.default_budgets(3, 16_383) == (2047, 1023, 511)
    assert config.default_budgets(2, 4095) == (511, 255)
    assert config.default_budgets(3, 5) == (1, 1, 1)


def test_default_budgets_of_neighbours_do_not_depend_on_the_graph():
    for nodes in (10, 10**9):
        assert SAMPLERS["neighbor"].default_budgets(3, nodes) == (10, 10, 10)
        assert SAMPLERS["vrgcn"].default_budgets(3, nodes) == (2, 2)
        assert SAMPLERS["full"].default_budgets(3, nodes) == ()


@pytest.mark.parametrize("policy", ["exp3", "exp3-released", "exp3-scale-free"])
def test_policies_that_divide_by_chances_of_sources_are_refused_for_edges(policy, toy_graph):
    name = POLICIES[policy].build(toy_graph, 1).name
    message = f"policy '{name}' learns from draws of sources, but NodeSampler draws neighbours"
    with pytest.raises(InputError, match=message):
        NodeSampler(toy_graph, [3], policy=policy)


@pytest.mark.parametrize("policy", ["uniform", "ladies", "static", "node"])
def test_policies_that_do_not_are_taken(policy, toy_graph):
    assert NodeSampler(toy_graph, [3], policy=policy).policy.name == policy


def test_a_policy_of_edges_is_refused_for_sources(toy_graph):
    message = "policy 'target-bandit' learns from draws of neighbours, but LayerSampler draws"
    with pytest.raises(InputError, match=message):
        LayerSampler(toy_graph, [3], policy=TargetBanditConfig())
    NodeSampler(toy_graph, [3], policy=TargetBanditConfig())


@pytest.mark.parametrize("name", ["asgcn", "vrgcn"])
def test_features_that_are_not_finite_are_refused(name, toy_graph):
    x = np.ones((toy_graph.num_nodes, 3), np.float32)
    x[4, 1] = np.nan
    config = sampler_config(name)
    with pytest.raises(InputError, match="x holds NaN or infinity"):
        config.build(toy_graph, [4, 4], x=x)
