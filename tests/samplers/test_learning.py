"""Learners: a state is checked as a whole before anything is written, and policies are checked."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bliss import LABOR, PLADIES, SKETCH, FastGCN, Graph, InputError, Neighbor
from bliss.nn import GNN, ModelConfig
from bliss.policies.base import CoefficientPolicy
from bliss.samplers.estimators import ESTIMATORS, HorvitzThompson
from tests.build import make_sampler, small_features
from tests.samplers.test_copies import teach


def taught(graph: Graph, steps: int):
    sampler = make_sampler("bliss", graph, layers=3, width=4, history="nodes")
    for step in range(steps):
        teach(sampler, step)
    return sampler


DAMAGE = {
    "history of another width": ("history.0.value", lambda t: t[:, :2].clone()),
    "history missing": ("history.1.stamp", None),
    "step of the future": ("history.0.stamp", lambda t: t + 1000),
    "step before the first": ("history.0.stamp", lambda t: torch.full_like(t, -5)),
    "history that is no number": ("history.1.value", lambda t: t * torch.nan),
    "policy that is no number": ("node.size.0.arm", lambda t: t * torch.nan),
    "policy of another type": ("node.0.code", lambda t: t.int()),
    "unknown array": ("node.7.code", lambda t: torch.zeros(3)),
}


@pytest.mark.parametrize(("name", "damage"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_part_leaves_the_whole_state_as_it_was(toy_graph, name, damage):
    sampler, other = taught(toy_graph, 3), taught(toy_graph, 5)
    state = {key: value.clone() for key, value in other.state_dict().items()}
    if damage is None:
        del state[name]
    else:
        state[name] = damage(state.get(name))
    before = {key: value.clone() for key, value in sampler.state_dict().items()}
    with pytest.raises(InputError):
        sampler.load_state_dict(state)
    for key, value in sampler.state_dict().items():
        assert torch.equal(value, before[key]), key
    sampler.load_state_dict(other.state_dict())  # the whole one is loaded
    for key, value in sampler.state_dict().items():
        assert torch.equal(value, other.state_dict()[key]), key


def test_any_row_of_a_loaded_state_is_dirty(toy_graph):
    sampler, other = taught(toy_graph, 3), taught(toy_graph, 5)
    sampler.learning.track_changes().clear()
    assert sampler.learning.changed_rows() is not None
    sampler.load_state_dict(other.state_dict())
    assert sampler.learning.changed_rows() is None


def test_a_survey_teaches_the_history_and_not_the_policy_beside_it(toy_graph):
    """The policy follows changes of inputs, and a survey shows inputs."""
    sampler = make_sampler("bliss", toy_graph, layers=3, width=4, history="nodes")
    teach(sampler, 0)
    before = {key: value.clone() for key, value in sampler.state_dict().items()}
    x = torch.from_numpy(small_features(toy_graph))
    sampler.survey(GNN(5, 3, ModelConfig(layers=3, hidden=4)), x)
    after = sampler.state_dict()
    assert after.keys() == before.keys()
    changed = {key.split(".")[0] for key in before if not torch.equal(before[key], after[key])}
    assert changed == {"history"}


@pytest.mark.parametrize("power", [0.25, 2.0, -1.0])
def test_powers_that_kernels_do_not_know_are_refused(toy_graph, power):
    kind = type("Odd", (CoefficientPolicy,), {"name": "odd", "power": power})
    with pytest.raises(InputError, match=f"power={power} of policy 'odd' is not 0, 0.5 or 1"):
        kind(toy_graph, 2)


def test_nothing_makes_eight_bytes_per_node_of_the_graph(toy_graph):
    """Histories, an exact first hop, node-wise bandits and full blocks."""
    for norm in ("mean", "gcn"):
        graph = Graph.from_csc(toy_graph.indptr, toy_graph.indices, None, norm, self_loops="keep")
        for name, options in {
            "bliss": {"history": "nodes", "layers": 3},
            "vrgcn": {"layers": 3},
            "gcn-bs": {},
            "labor": {},
            "full": {},
        }.items():
            teach(make_sampler(name, graph, width=4, **options), 0)
        x = torch.from_numpy(small_features(graph))
        make_sampler("bliss", graph).survey(GNN(5, 3, ModelConfig(layers=2, hidden=4)), x)
        assert "degree" not in graph.__dict__
        kept = [value for value in graph.__dict__.values() if isinstance(value, np.ndarray)]
        assert all(value.dtype != np.float64 or value.size == 0 for value in kept)


def test_an_estimator_of_ones_own_is_an_object(toy_graph):
    class Doubled(HorvitzThompson):
        name = "doubled"
        is_unbiased = False

        def weights(self, kept):
            return 2 * super().weights(kept)

    for kind, budgets in ((PLADIES, [12]), (Neighbor, [4])):
        ours, usual = kind(toy_graph, budgets, estimator=Doubled()), kind(toy_graph, budgets)
        weights = [one.sample(np.arange(9), 0)[0].edge_weight for one in (ours, usual)]
        torch.testing.assert_close(weights[0], 2 * weights[1])
    with pytest.raises(InputError, match="is biased"):
        PLADIES(toy_graph, [12], estimator=Doubled(), history="nodes")
    assert all(name == one.name for name, one in ESTIMATORS.items())


def test_an_estimator_of_the_library_may_be_given_as_an_object(toy_graph):
    for kind, budgets, names in (
        (SKETCH, [12], ("debiased", "sketch", "hajek")),
        (LABOR, [4], ("ht", "hajek")),
    ):
        for name in names:
            ours, usual = (kind(toy_graph, budgets, estimator=e) for e in (ESTIMATORS[name], name))
            weights = [one.sample(np.arange(9), 0)[0].edge_weight for one in (ours, usual)]
            torch.testing.assert_close(*weights, rtol=0, atol=0)
            assert ours.config.with_options(**ours.config.to_dict()) == ours.config


def test_an_object_that_a_sampler_cannot_weigh_with_gets_one_sentence(toy_graph):
    with pytest.raises(InputError, match=r"estimator=3 has no name .* and no weights: pass a name"):
        PLADIES(toy_graph, [12], estimator=3)
    for kind in (Neighbor, FastGCN):
        sampler = kind(toy_graph, [4], estimator=ESTIMATORS["released"])
        with pytest.raises(InputError, match="'released' needs the masses of a policy"):
            sampler.sample(np.arange(9), 0)
