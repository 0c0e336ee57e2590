"""Studies of graphs with times: errors of sources that are shared in time, and advice."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch

from bliss import Graph, InputError
from bliss.data import Dataset
from bliss.graph import Cutoff
from bliss.nn import GNN, ModelConfig
from bliss.nn.aggregate import aggregate
from bliss.samplers import PLADIES, Full, Neighbor
from bliss.studies import VarianceStudy, advise
from bliss.studies.advice.candidates import configs
from bliss.studies.advice.exact_errors import ExactErrors
from bliss.studies.gradients import full_gradients, training_batch
from bliss.studies.gradients import squared_errors as squared_gradients
from bliss.studies.layer_errors import Targets, error, exact_frontiers, shared_full, stakes
from bliss.train import TrainConfig, build_task, resolve

FALSE_ALARM = 1e-6
DRAWS = 2000


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Few nodes, and so many parallel edges."""
    random = np.random.default_rng(3)
    pairs = random.integers(0, 25, (2, 400))
    return Graph.from_edge_index(pairs, 25, time=random.integers(0, 100, 400))


SEEDS, CUTOFF = np.array([3, 3, 8, 20]), Cutoff.of(np.array([30, 90, 60, 75]))


def squared_errors(graph, network, x, layer):
    """Squared error of a layer's aggregates in each draw, with exact inputs of its sources."""
    blocks = shared_full(graph, layer + 1).sample(SEEDS, 0, time=CUTOFF)
    h = x[blocks[0].src]
    for own, block in zip(list(network)[:layer], blocks, strict=False):
        h = own(h, block)
    full = blocks[-1]
    exact = aggregate(full, h)
    place = {
        key: n
        for n, key in enumerate(zip(full.src.tolist(), full.cutoff.before.tolist(), strict=True))
    }
    sampler = PLADIES(graph, [6], estimator="ht")
    found = []
    for step in range(DRAWS):
        (block,) = sampler.sample(SEEDS, step, time=CUTOFF)
        keys = zip(block.src.tolist(), block.cutoff.before.tolist(), strict=True)
        rows = h[[place[key] for key in keys]]  # a source sees the same in every draw
        drawn = aggregate(block, rows)
        found.append(float((drawn - exact).square().sum()))
    by_edge = stakes(full, full.edge_weight, h.norm(dim=1), np.ones(4)).absolute
    prob = sampler.inclusion(SEEDS, 0, cutoff=CUTOFF)
    return np.array(found), prob, np.bincount(full.src, by_edge, 25)[prob.candidate]


@pytest.mark.slow
@pytest.mark.parametrize("layer", [0, 1])
def test_expected_errors_are_those_of_draws_with_shared_sources(graph, layer):
    torch.manual_seed(0)
    network = GNN(4, 3, ModelConfig(model="sage", layers=2, hidden=8)).eval()
    x = torch.randn(25, 4) + 1
    targets = Targets(SEEDS, np.ones(4), None, CUTOFF)
    with torch.no_grad():
        found, (_, prob), by_edge = squared_errors(graph, network, x, layer)
        frontier = exact_frontiers(network, graph, x, [[targets], [targets]])[layer]
    assert frontier.num_targets == 3
    deviation = found.std(ddof=1) / np.sqrt(DRAWS)
    limit = scipy.stats.norm.isf(FALSE_ALARM / 2) * deviation
    assert abs(found.mean() - error(prob, frontier.stake.absolute)) < limit
    assert abs(found.mean() - error(prob, by_edge)) > limit  # parallel edges as if drawn apart


@pytest.fixture(scope="module")
def messages() -> Dataset:
    """Messages within two groups, with repetitions; nodes have labels and times, too."""
    random = np.random.default_rng(1)
    source = random.integers(0, 120, 1500)
    target = (source + 2 * random.integers(1, 60, 1500)) % 120
    pairs, time = np.stack([source, target]), np.sort(random.integers(0, 100, 1500))
    both = np.concatenate([pairs, pairs[::-1]], 1)
    x = random.normal(size=(120, 4)) + np.where(np.arange(120) % 2, 0.5, -0.5)[:, None]
    nodes = torch.from_numpy(random.permutation(120))
    return Dataset(
        "messages",
        Graph.from_edge_index(both, 120, time=np.tile(time, 2)),
        torch.from_numpy(x).float(),
        torch.arange(120) % 2,
        {"train": nodes[:70], "val": nodes[70:90], "test": nodes[90:]},
        2,
        node_time=random.integers(10, 100, 120),
    )


SMALL = {"dataset": "messages", "hidden": 8, "layers": 2, "batch_size": 24, "lr": 0.02, "steps": 12}
TASKS = {"nodes": {}, "links": {"task": "link", "edge_split": (0.6, 0.2, 0.2), "order": "time"}}


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_variance_is_measured_in_time(messages, task):
    config = resolve(**SMALL, **TASKS[task], sampler="pladies", budgets=(20, 10))
    study = VarianceStudy(config, messages, ["node"], 6)
    found = study.run()
    for layer in found.layers:
        assert 0 < layer.limit_over_pladies <= 1
        assert all(one.over_limit >= 1 - 1e-5 for one in layer.policies.values())
    batches = [training_batch(study.task, 0, number) for number in range(2)]
    shared = full_gradients(study.task, batches, is_shared=True)
    errors = squared_gradients(study.task, study.fixed, batches, shared, 2)
    study.fixed.budgets = (120, 120)  # all sources: what is left is rounding
    rest = squared_gradients(study.task, study.fixed, batches, shared, 2)
    trees = squared_gradients(
        study.task, study.fixed, batches, full_gradients(study.task, batches), 2
    )
    assert rest.max() < 1e-8 * errors.max() and trees.max() > 1e-6 * errors.max()
    with pytest.raises(InputError, match="times are not possible with Bliss, because"):
        VarianceStudy(config, messages, ["node"], 6, history=True)
    if task == "nodes":
        with pytest.raises(InputError, match="surveys see edges of any time"):
            VarianceStudy(config, messages, ["node"], 6, survey_every=3)


@pytest.mark.slow
def test_advice_is_given_in_time(messages):
    given = SMALL | TASKS["links"]
    advice = advise(given | {"sampler": "pladies"}, messages, limit=0.5, compare=False)
    assert advice.choice is not None and "share in time" in advice.variance_note
    build_task(TrainConfig.from_dict(advice.settings), messages)
    assert set(configs(given)) > set(configs(given, has_times=True))  # no history, no first hop
    assert set(configs(given, has_times=True)) == {"pladies", "bliss", "neighbor", "full"}
    assert "neighbor" not in configs(given | {"temporal_strategy": "last"}, has_times=True)
    with pytest.raises(InputError, match="times are not possible with sampler 'bliss'"):
        advise(given | {"history": "nodes"}, messages)


@pytest.mark.slow
def test_expected_errors_of_the_pilot_are_those_in_time(graph):
    torch.manual_seed(0)
    network = GNN(4, 3, ModelConfig(model="sage", layers=1)).eval()
    x = torch.randn(25, 4) + 1
    exact = ExactErrors(network, graph, x)
    (full,) = Full(graph, layers=1).sample(SEEDS, 0, time=CUTOFF)
    wanted = aggregate(full, x[full.src])
    for sampler in (PLADIES(graph, [6], estimator="ht"), Neighbor(graph, [4], estimator="ht")):
        found = []
        for step in range(DRAWS):
            blocks = sampler.sample(SEEDS, step, time=CUTOFF)
            drawn = aggregate(blocks[0], x[blocks[0].src])
            found.append(float((drawn - wanted).square().sum()))
        limit = scipy.stats.norm.isf(FALSE_ALARM / 2) * np.std(found, ddof=1) / np.sqrt(DRAWS)
        (expected,) = exact.of(sampler, blocks)
        assert expected.square == pytest.approx(float(wanted.square().sum()), rel=1e-5)
        assert abs(np.mean(found) - expected.error) < limit
        early = sampler.sample(SEEDS, 0, time=Cutoff(CUTOFF.before - 20, CUTOFF.after))
        assert abs(np.mean(found) - exact.of(sampler, early)[0].error) > limit
