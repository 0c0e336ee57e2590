"""A survey is news: checked, queued while a loader draws ahead, saved and applied in order."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from bliss import PLADIES, Bliss, BlockLoader, Graph, InputError
from bliss.feedback import Survey, check_news
from bliss.nn import GNN, ModelConfig, infer
from bliss.policies import Learner
from tests.conftest import heavy_tailed_pairs
from tests.statistics import weight_matrix

NODES = 80


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph.from_edge_index(heavy_tailed_pairs(NODES, 500), NODES)


def features() -> torch.Tensor:
    return torch.randn(NODES, 6, generator=torch.Generator().manual_seed(1))


def network(model: str = "gatv2") -> GNN:
    torch.manual_seed(0)
    return GNN(6, 4, ModelConfig(model=model, layers=2, hidden=8, heads=2))


def state(sampler: Bliss) -> dict[str, torch.Tensor]:
    return {name: array.clone() for name, array in sampler.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Whether two states agree bit for bit, also where they are NaN."""
    bits = [{name: array.numpy().tobytes() for name, array in of.items()} for of in (one, other)]
    return bits[0] == bits[1]


def test_a_survey_returns_the_outputs_and_teaches_every_layer(graph):
    sampler, gnn, x = Bliss(graph, [30, 20]), network(), features()
    before = [sampler.inclusion(np.arange(10), layer).prob for layer in (0, 1)]
    out = sampler.survey(gnn, x, chunk_edges=97)
    torch.testing.assert_close(out, infer(gnn, graph, x))
    for layer in (0, 1):
        assert not np.allclose(sampler.inclusion(np.arange(10), layer).prob, before[layer])
    names = set(sampler.state_dict())
    assert {f"node.{n}.base_{kind}" for n in (0, 1) for kind in ("size", "attention")} <= names


def test_layers_of_ones_own_teach_a_sampler(graph):
    sampler, x = Bliss(graph, [30]), features()

    def layer(x, block):
        block.observe(x)
        return weight_matrix(block) @ x

    sampler.survey([layer], x)
    other = Bliss(graph, [30])
    other.policy.survey(0, Survey(x.norm(dim=1).numpy()))
    assert same(state(sampler), state(other))


class Second(Learner):
    """A learner beside the policy: the largest surveyed attention of each layer."""

    prefix = "second."
    learns_from_surveys = True

    def __init__(self, layers: int) -> None:
        self.largest = np.zeros(layers, np.int64)

    def survey(self, layer: int, survey: Survey) -> None:
        self.largest[layer] = survey.attention.max()

    def state_dict(self) -> dict[str, np.ndarray]:
        return {"second.largest": self.largest}


class Two(Bliss):
    def _make_learners(self) -> tuple[Learner, ...]:
        return (*super()._make_learners(), Second(self.layers))


def test_all_learners_are_surveyed_whatever_the_prefix_of_their_arrays(graph):
    sampler, alone = Two(graph, [30, 20]), Bliss(graph, [30, 20])
    for one in (sampler, alone):
        one.survey(network(), features())
    largest = sampler.state_dict()["second.largest"]
    assert (largest > 0).all()
    assert same(state(sampler), state(alone) | {"second.largest": largest})


def test_a_sampler_that_does_not_learn_from_surveys_only_infers(graph):
    gnn, x = network("sage"), features()
    for sampler in (PLADIES(graph, [30, 20]), Bliss(graph, [30, 20], policy="exp3")):
        before = state(sampler)
        assert not sampler.learns_from_surveys
        assert torch.equal(sampler.survey(gnn, x), infer(gnn, graph, x))
        assert same(before, state(sampler))


def test_a_network_of_another_depth_is_refused_and_nothing_changes(graph):
    sampler = Bliss(graph, [30, 20, 10])
    before = state(sampler)
    with pytest.raises(InputError, match="model has 2 layers, but the sampler has 3"):
        sampler.survey(network(), features())
    assert same(before, state(sampler))


def test_an_interrupted_survey_changes_nothing(graph):
    class Stopped(Exception):
        pass

    def stop(share: float) -> None:
        if share > 0.7:
            raise Stopped

    sampler = Bliss(graph, [30, 20])
    before = state(sampler)
    with pytest.raises(Stopped):
        sampler.survey(network(), features(), chunk_edges=97, progress=stop)
    assert same(before, state(sampler))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"survey.norm": np.ones(3, np.float32)}, r"the survey's norm is float32\[3\]"),
        ({"survey.norm": np.ones(NODES)}, r"the survey's norm is float64\[80\]"),
        ({"survey.norm": np.full(NODES, np.nan, np.float32)}, "missing, negative or not finite"),
        ({"survey.norm": np.full(NODES, -1, np.float32)}, "missing, negative or not finite"),
        ({"survey.attention": np.ones(NODES, np.uint8)}, r"the survey's attention is uint8\[80\]"),
        ({"survey.other": np.ones(NODES, np.float32)}, "the survey's other is"),
    ],
)
def test_surveys_of_other_graphs_are_refused(graph, change, message):
    good = {
        "survey.norm": np.ones(NODES, np.float32),
        "survey.attention": np.zeros(graph.num_edges, np.uint8),
    }
    check_news(good, graph)
    with pytest.raises(InputError, match=message):
        check_news(good | change, graph)
    with pytest.raises(InputError, match="the survey's norm is missing"):
        check_news({"survey.attention": good["survey.attention"]}, graph)


def batches(sampler: Bliss, prefetch: int) -> BlockLoader:
    data = Data(x=features(), num_nodes=NODES)
    return BlockLoader(data, sampler, batch_size=16, shuffle=True, prefetch=prefetch)


def drawn(sampler: Bliss, loader: BlockLoader, gnn: GNN, surveys: set[int], last: int) -> list:
    """Sources of each batch, until `last`, with a survey after some steps."""
    found: list = []
    while loader.step < last:
        for batch in loader:
            found.append([block.src.tolist() for block in batch.blocks])
            torch.manual_seed(loader.step)
            gnn.train()(batch.x, batch.blocks)
            sampler.update(batch.blocks)
            if loader.step in surveys:
                sampler.survey(gnn, features())
            if loader.step >= last:
                break
    return found


@pytest.mark.parametrize("prefetch", [0, 1])
def test_the_batches_after_a_survey_see_it_and_earlier_ones_do_not(graph, prefetch):
    draws = {}
    for surveys in (set(), {3}):
        sampler = Bliss(graph, [12, 8])
        loader = batches(sampler, prefetch)
        draws[bool(surveys)] = drawn(sampler, loader, network(), surveys, last=8)
    differs = [one != other for one, other in zip(draws[False], draws[True], strict=True)]
    first = 3 + prefetch  # the batch after the survey; one more was drawn ahead
    assert not any(differs[:first])
    assert differs[first]
    assert sum(differs[first:]) >= 3  # two small draws may agree by chance


@pytest.mark.parametrize("prefetch", [0, 1])
@pytest.mark.parametrize("stop", [3, 4, 5])  # 3: right after the survey; 5: the end of an epoch
def test_a_queued_survey_is_saved_and_applied_after_resumption(graph, prefetch, stop):
    whole = Bliss(graph, [12, 8])
    expected = drawn(whole, batches(whole, prefetch), network(), {3}, last=8)
    first = Bliss(graph, [12, 8])
    loader = batches(first, prefetch)
    found = drawn(first, loader, network(), {3}, last=stop)
    saved, position = state(first), loader.state_dict()
    if prefetch and stop == 3:
        assert "pending.1.0.0.survey.attention" in saved
    second = Bliss(graph, [12, 8])
    second.load_state_dict(saved)
    assert same(state(second), saved)
    loader = batches(second, prefetch)
    loader.load_state_dict(position)
    found += drawn(second, loader, network(), {3}, last=8)
    assert found == expected
    assert same(state(second), state(whole))
