"""Settings of samplers: default budgets, and pairings that would learn something wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from bliss import InputError
from bliss.policies import POLICIES, Exp3Config, NodeConfig, TargetBanditConfig
from bliss.samplers import (
    ASGCN,
    GCNBS,
    LABOR,
    LADIES,
    SAMPLERS,
    Bliss,
    LayerSampler,
    Neighbor,
    NodeSampler,
    Sampler,
    SamplerConfig,
    sampler_config,
)

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


def test_a_repr_shows_what_differs_from_the_defaults(toy_graph):
    assert not any(type(config)().changed() for config in SAMPLERS.values())
    assert repr(Bliss(toy_graph, [5, 3])) == f"Bliss({toy_graph!r}, budgets=[5, 3])"
    assert repr(Bliss(toy_graph, [5], eta=0.2)).endswith("budgets=[5], eta=0.2)")
    assert "policy=" in repr(
        LayerSampler(toy_graph, [5], policy=POLICIES["uniform"].build(toy_graph, 1))
    )


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


class Plain(Sampler):
    """A sampler of one's own, without a config of its own."""

    Config = SamplerConfig


def test_a_config_that_names_no_sampler_refuses_options_and_building_in_one_sentence(toy_graph):
    assert Plain(toy_graph, [3]).config == SamplerConfig()
    with pytest.raises(InputError, match="eta=1 is not an option of Sampler, which takes none"):
        Plain(toy_graph, [3], eta=1)
    with pytest.raises(InputError, match="SamplerConfig names no sampler to build"):
        SamplerConfig().build(toy_graph, [3])


def test_a_config_holds_the_settings_of_its_policy_which_are_options_too():
    config = sampler_config("bliss", policy="exp3", eta=0.3)
    assert config.policy == Exp3Config(eta=0.3)
    assert config.policy_name == "exp3"
    assert config.to_dict().items() >= {"policy": "exp3", "eta": 0.3, "delta": None}.items()
    changed = config.with_options(eta=0.2, estimator="hajek")
    assert (changed.policy, changed.estimator) == (Exp3Config(eta=0.2), "hajek")
    assert config.with_options(policy="node").policy == NodeConfig()
    assert sampler_config("bliss", policy=NodeConfig(memory=0.5), eta=0.2).policy == NodeConfig(
        memory=0.5, eta=0.2
    )


def test_a_name_of_a_policy_has_one_meaning():
    meanings: dict[str, set[object]] = {}
    for config in SAMPLERS.values():
        for name, policy in config.policies.items():
            meanings.setdefault(name, set()).add(policy)
    assert all(len(found) == 1 for found in meanings.values())
    assert {"exp3", "exp3m", "exp3-single"} <= set(meanings)


def test_a_sampler_with_one_policy_has_no_option_for_it(toy_graph):
    config = sampler_config("asgcn", rate=0.1)
    assert (config.policy.rate, config.policy_name) == (0.1, "")
    assert "policy" not in config.to_dict()
    x = np.ones((toy_graph.num_nodes, 3), np.float32)
    with pytest.raises(InputError, match="policy='node' is not an option of ASGCN"):
        ASGCN(toy_graph, [4], x=x, policy="node")


def test_another_reward_brings_its_own_constants_unless_they_are_given():
    thanos = {"eta": 0.2, "delta": 0.1, "restart": 2000}
    config = sampler_config("gcn-bs", reward="thanos")
    assert config.to_dict().items() >= thanos.items()
    assert config.with_options(reward="thanos", eta=0.5).policy.restart == 2000
    back = config.with_options(reward="published", delta=0.3)
    assert back.to_dict().items() >= {"eta": 0.4, "delta": 0.3, "restart": 0}.items()
    for odd in ("late", ["thanos"]):
        with pytest.raises(InputError, match="is not known: choose one of published, thanos"):
            config.with_options(reward=odd)


def test_node_wise_bandits_take_only_their_own_policies(toy_graph):
    assert GCNBS(toy_graph, [3], policy=TargetBanditConfig(eta=0.3)).policy.config.eta == 0.3
    with pytest.raises(InputError, match="is not a bandit over a target's neighbours"):
        GCNBS(toy_graph, [3], policy=NodeConfig())
    with pytest.raises(InputError, match="policy='exp3' is not known: choose one of exp3m, exp3-s"):
        GCNBS(toy_graph, [3], policy="exp3")


def test_a_built_policy_takes_no_settings(toy_graph):
    built = NodeConfig().build(toy_graph, 1)
    assert Bliss(toy_graph, [3], policy=built).policy is built
    with pytest.raises(InputError, match=r"eta=0\.2 is not an option of Bliss"):
        Bliss(toy_graph, [3], policy=built, eta=0.2)


@pytest.mark.parametrize("kind", [Bliss, LADIES, Neighbor, LABOR])
def test_options_of_the_graph_reach_it(kind):
    data = Data(edge_index=torch.tensor([[0, 0, 1], [1, 1, 2]]), num_nodes=3)
    assert kind(data, [2]).graph.num_edges == 3
    sampler = kind(data, [2], self_loops="add", duplicates="coalesce", edge_ids=True)
    assert sampler.graph.num_edges == 5
    assert sampler.graph.edge_id is not None
    with pytest.raises(InputError, match="self_loops cannot be changed, because the graph is"):
        kind(sampler.graph, [2], self_loops="keep")
