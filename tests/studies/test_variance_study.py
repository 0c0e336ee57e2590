"""The closed form is the one of the documents, the limit cannot be beaten, and bandits learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bliss import Graph
from bliss.errors import InputError
from bliss.feedback import Survey
from bliss.nn import GNN, ModelConfig, infer_layer
from bliss.nn.aggregate import aggregate
from bliss.samplers import Bliss, Full
from bliss.studies.gradients import full_gradients, gradient, squared_errors
from bliss.studies.layer_errors import Targets, error, exact_frontiers, least_error, stakes
from bliss.studies.variance.variance_study import VarianceStudy, gradient_error
from bliss.train import TrainConfig
from tests.conftest import heavy_tailed_pairs
from tests.studies.conftest import SMALL

pytestmark = pytest.mark.slow

TARGETS = np.array([3, 1, 8, 20])


INFLUENCE = np.array([0.5, 2.0, 1.0, 0.1])
BATCH = Targets(TARGETS, INFLUENCE)


def by_hand(alpha: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """c_j of both kinds from a dense matrix alpha [D, C] and sizes [C]."""
    absolute = size**2 * (alpha**2).sum(0)
    return absolute, size**2 * (INFLUENCE[:, None] * alpha**2).sum(0)


@pytest.mark.parametrize("norm", ["mean", "gcn"])
def test_stakes_are_the_documented_sums(norm):
    pairs = np.unique(heavy_tailed_pairs(50, 300), axis=1)  # by hand: an edge once
    graph = Graph.from_edge_index(pairs, 60).with_norm(norm)
    (block,) = Full(graph, layers=1).sample(TARGETS, 0)
    size = torch.rand(block.num_src) + 0.1
    dense = np.zeros((block.num_dst, block.num_src))
    np.add.at(dense, (block.col.numpy(), block.row.numpy()), block.edge_weight.numpy())
    expected = by_hand(dense, size.double().numpy())
    for ours, theirs in zip(
        stakes(block, block.edge_weight, size, INFLUENCE), expected, strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.lists(st.floats(-3, 3), min_size=4, max_size=30), st.data())
def test_no_probabilities_beat_the_limit(logs, data):
    stake = 10.0 ** np.array(logs)
    targets = data.draw(st.integers(0, 2))
    prob = data.draw(
        st.lists(st.floats(0.01, 1), min_size=stake.size, max_size=stake.size).map(np.array)
    )
    prob[:targets] = 1
    assert least_error(prob, targets, stake) <= error(prob, stake) * (1 + 1e-5) + 1e-9


def test_the_limit_is_reached_by_roots_of_stakes_and_missed_by_stakes():
    stake = np.array([5.0, 1.0, 4.0, 9.0, 0.25, 1.0])
    roots = np.sqrt(stake)
    roots[:1] = 0
    best = np.where(np.arange(6) < 1, 1, 2 * roots / roots.sum())
    wrong = np.where(np.arange(6) < 1, 1, 2 * np.minimum(stake / stake[1:].sum(), 0.5))
    wrong[1:] *= best[1:].sum() / wrong[1:].sum()
    assert least_error(best, 1, stake) == pytest.approx(error(best, stake), rel=1e-5)
    assert error(wrong, stake) > 1.02 * least_error(wrong, 1, stake)


def test_a_budget_for_everything_leaves_no_error():
    assert least_error(np.ones(5), 2, np.ones(5)) == 0
    assert error(np.array([0.5, 0.1]), np.array([1.0, 0.0])) == 1  # nothing at stake costs nothing


@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "gatv2"])
def test_frontiers_use_exact_embeddings_and_attention(toy_graph, model):
    config = ModelConfig(model=model, layers=2, hidden=8, heads=2)
    graph = toy_graph.with_norm(config.norm)
    torch.manual_seed(0)
    network, x = GNN(5, 3, config).eval(), torch.randn(graph.num_nodes, 5)
    with torch.no_grad():
        first, second = exact_frontiers(network, graph, x, [[BATCH], [BATCH]])
    hidden = infer_layer(next(iter(network)), graph, x)
    for layer, inputs, frontier in ((0, x, first), (1, hidden, second)):
        (block,) = Full(graph, layers=1).sample(TARGETS, 0)
        own = inputs[block.src]
        alpha = block.edge_weight
        if config.is_attention:
            with torch.no_grad():
                alpha = network.attention(layer, own, block)
            rows = torch.zeros(block.num_dst).index_add(0, block.col, alpha)
            torch.testing.assert_close(rows, torch.ones(block.num_dst))
        expected = stakes(block, alpha, own.norm(dim=1), INFLUENCE)
        np.testing.assert_allclose(frontier.stake.absolute, expected.absolute, rtol=1e-4)
        np.testing.assert_allclose(frontier.stake.weighted, expected.weighted, rtol=1e-4)


def test_ratios_are_means_over_the_second_half_and_bandits_get_near_the_limit(measured):
    assert [moment.step for moment in measured.history] == [10, 20, 30, 40, 50, 60]
    assert [layer.budget for layer in measured.layers] == [60, 30]
    for number, layer in enumerate(measured.layers):
        assert 0 < layer.limit_over_pladies <= 1
        for ratios in layer.policies.values():
            assert ratios.over_limit >= 1 - 1e-5
            assert ratios.weighted_over_limit >= 1 - 1e-5
        assert layer.policies["static"].over_pladies == 1
        late = [moment.layers[number] for moment in measured.history[3:]]
        expected = np.mean([one.policies["node"] / one.pladies for one in late])
        assert layer.policies["node"].over_pladies == pytest.approx(expected)
    gain = measured.layers[0].policies
    assert gain["node"].over_limit - 1 < 0.5 * (gain["static"].over_limit - 1)


def test_a_layer_that_keeps_every_candidate_has_no_ratios(dataset):
    config = TrainConfig.of(**SMALL | {"steps": 2, "budgets": (240, 30)}, sampler="pladies")
    covered, sampled = VarianceStudy(config, dataset, ["node"], every=1).run().layers
    assert not covered.is_sampled
    assert covered.limit_over_pladies is covered.policies["node"].over_pladies is None
    assert covered.policies["node"].weighted_over_limit is None
    assert sampled.is_sampled
    assert sampled.policies["node"].over_pladies > 0


def test_checkpoints_measure_distinct_batches_of_training_nodes(dataset):
    study = VarianceStudy(TrainConfig.of(**SMALL, sampler="pladies"), dataset, ["node"], every=10)
    batches = [batch.node for step in (10, 20) for batch in study._seeds(step)]
    train = set(dataset.splits["train"].tolist())
    for batch in batches:
        assert batch.size == len(set(batch.tolist())) == SMALL["batch_size"]
        assert set(batch.tolist()) <= train
    assert len({tuple(batch) for batch in batches}) == len(batches)
    again = [batch.node.tolist() for batch in study._seeds(10)]
    assert again == [batch.tolist() for batch in batches[: len(batches) // 2]]


@pytest.mark.parametrize("model", ["sage", "gatv2"])
def test_tensors_go_to_the_networks_device_and_come_back(dataset, monkeypatch, model):
    config = TrainConfig.of(**SMALL | {"steps": 1}, model=model, sampler="pladies")
    study = VarianceStudy(config, dataset, ["node"], every=1)
    network, devices, calls = study.task.model, [], []

    def marking(name):
        real = getattr(torch.Tensor, name)

        def move(self, *arguments, **options):
            moved = real(self, *arguments, **options).clone()
            moved.moved_by = name
            return moved

        return move

    def moved_by(tensor):
        return getattr(tensor, "moved_by", None)

    def check(x, *blocks):
        assert moved_by(x) == "to"
        for block in blocks:
            assert {moved_by(t) for t in (block.row, block.indptr, block.edge_weight)} == {"to"}

    def attention(layer, x, block):
        calls.append("attention")
        check(x, block)
        return GNN.attention(network, layer, x, block)

    def stakes_of(block, alpha, size, influence):
        assert moved_by(alpha) == ("cpu" if model == "gatv2" else None)
        return stakes(block, alpha, size, influence)

    def inferred(*arguments, device):
        devices.append(device)
        return infer_layer(*arguments, device=device)

    monkeypatch.setattr(torch.Tensor, "to", marking("to"))
    monkeypatch.setattr(torch.Tensor, "cpu", marking("cpu"))
    monkeypatch.setattr(network, "attention", attention)
    monkeypatch.setattr("bliss.studies.layer_errors.stakes", stakes_of)
    monkeypatch.setattr("bliss.studies.layer_errors.infer_layer", inferred)
    network.register_forward_pre_hook(lambda _, given: check(given[0], *given[1]))
    study._teach(study.students["node"], study._seeds(1)[0], 1)
    study._measure(1)
    assert devices == [torch.device("cpu")]
    assert bool(calls) == (model == "gatv2")


def test_policies_that_learn_from_surveys_take_part_twice_and_gain(surveyed, dataset):
    assert list(surveyed.layers[0].policies) == [
        *("static", "node", "static+influence", "node+influence"),
        *("node+survey", "node+influence+survey"),
    ]
    assert surveyed.survey_every == 10
    assert [one.age for one in surveyed.ages] == [0, 2, 4, 6, 8]
    for number, layer in enumerate(surveyed.layers):
        ours, plain = layer.policies["node+survey"], layer.policies["node"]
        assert ours.over_limit - 1 < 0.5 * (plain.over_limit - 1)
        for one in surveyed.ages:
            moments = [m for m in surveyed.history if m.step >= 10 and m.step % 10 == one.age]
            errors = [moment.layers[number] for moment in moments]
            ratios = [at.policies["node+survey"] / at.limits["node+survey"] for at in errors]
            assert one.layers[number]["node+survey"] == pytest.approx(np.mean(ratios))
        fresh, stale = (surveyed.ages[n].layers[number]["node+survey"] for n in (0, -1))
        assert 1 - 1e-5 <= fresh < 1.005  # exact up to the rounding of bytes
        assert fresh < stale


def test_surveys_do_not_disturb_the_other_policies(surveyed, dataset):
    config = TrainConfig.of(**SMALL | {"steps": 40}, model="gatv2", sampler="pladies")
    alone = VarianceStudy(config, dataset, ["node"], every=4).run()
    assert (alone.survey_every, alone.ages) == (0, [])
    for one, other in zip(alone.layers, surveyed.layers, strict=True):
        assert one.policies["node"] == other.policies["node"]


def test_surveys_that_teach_nobody_are_refused(dataset):
    config = TrainConfig.of(**SMALL, sampler="pladies")
    with pytest.raises(InputError, match="survey_every=5 has no effect, because none of the"):
        VarianceStudy(config, dataset, ["static", "exp3"], every=5, survey_every=5)


def test_unknown_policies_are_refused(dataset):
    with pytest.raises(InputError, match="policies='mab'"):
        VarianceStudy(TrainConfig.of(**SMALL, sampler="pladies"), dataset, ["mab"], every=5)


@pytest.mark.parametrize("normalisation", ["none", "batch"])
def test_a_study_is_deterministic_and_its_policies_do_not_disturb_each_other(
    dataset, normalisation
):
    config = TrainConfig.of(**SMALL, sampler="pladies", normalisation=normalisation)
    alone = VarianceStudy(config, dataset, ["node"], every=10).run()
    among = VarianceStudy(config, dataset, ["exp3-scale-free", "node"], every=10).run()
    for one, other in zip(alone.layers, among.layers, strict=True):
        assert one.policies["node"] == other.policies["node"]


def test_duplicate_edges_count_twice():
    graph = Graph.from_edge_index(np.array([[1, 1], [0, 0]]), 2)
    (block,) = Full(graph, layers=1).sample(np.array([0]), 0)
    found = stakes(
        block, torch.full((block.num_edges,), 0.5), torch.ones(block.num_src), np.ones(1)
    )
    assert found.absolute.sum() == pytest.approx(0.25 * block.num_edges)


def test_with_a_history_only_changes_are_at_stake(toy_graph):
    config = ModelConfig(model="sage", layers=2, hidden=8)
    torch.manual_seed(0)
    network, x = GNN(5, 3, config).eval(), torch.randn(toy_graph.num_nodes, 5)
    hidden = infer_layer(next(iter(network)), toy_graph, x).detach()
    kept = {
        name: Bliss(toy_graph, [6], history="nodes", widths=[5, 8], x=x).history
        for name in ("none", "exact", "half")
    }
    for name, share in (("exact", 1), ("half", 0.5)):
        known = share * hidden.numpy()
        kept[name].survey(0, Survey(np.linalg.norm(known, axis=1), input=known))
    with torch.no_grad():
        first, second = exact_frontiers(network, toy_graph, x, [[BATCH], [BATCH]], kept)
    assert not first.changed  # the first hop is exact
    for kind in ("absolute", "weighted"):
        whole = getattr(second.stake, kind)
        found = {name: getattr(stake, kind) for name, stake in second.changed.items()}
        np.testing.assert_allclose(found["none"], whole)
        np.testing.assert_allclose(found["half"], whole / 4, rtol=1e-5)
        assert found["exact"].max() < 1e-10 * whole.max()


def test_a_history_goes_below_the_limit_and_its_closed_form_is_the_variance_of_draws(dataset):
    """V of the study against 400 draws; a relative error of 5 deviations has chance 1e-6."""
    config = TrainConfig.of(**SMALL | {"steps": 60}, sampler="pladies")
    study = VarianceStudy(config, dataset, ["static", "node"], every=10, history=True)
    found = study.run()
    assert found.layers[0].policies["node+history"].over_pladies == 0
    upper = found.layers[1].policies
    assert upper["node+history"].over_limit < 0.7
    assert upper["static+history"].over_limit < 0.9
    student, model = study.students["node+history"], study.task.model.eval()
    seeds = study._seeds(60)[0].node
    histories = {"node+history": student.history}
    targets = Targets(seeds, np.ones(seeds.size))
    with torch.no_grad():
        task = study.task
        frontiers = exact_frontiers(model, task.graph, task.x, [[], [targets]], histories)
        x = infer_layer(next(iter(model)), task.graph, task.x)
        (whole,) = Full(task.graph, layers=1).sample(seeds, 0)
        exact = aggregate(whole, x[whole.src])
        prob = student.inclusion(seeds, 0).prob
        expected = error(prob, frontiers[0].changed["node+history"].absolute)
        draws = [student.sample(seeds, 1000 + n)[1] for n in range(400)]
        errors = [float((aggregate(b, x[b.src]) - exact).square().sum()) for b in draws]
    spread = np.std(errors, ddof=1) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - expected) < 5 * spread
    mutant = error(prob, frontiers[0].stake.absolute)  # as if whole inputs were sampled
    assert abs(np.mean(errors) - mutant) > 5 * spread


def test_a_history_of_attention_is_refused(dataset):
    config = TrainConfig.of(**SMALL, model="gatv2", sampler="pladies")
    with pytest.raises(InputError, match="choose model sage, gcn or rsage"):
        VarianceStudy(config, dataset, ["node"], every=1, history=True)


def test_the_error_of_the_gradient_is_that_of_its_definition(dataset):
    config = TrainConfig.of(**SMALL | {"steps": 2}, sampler="pladies")
    study = VarianceStudy(config, dataset, ["node"], every=2)
    found = study.run().gradient_error
    assert list(found) == ["pladies", "node", "node+influence"]
    batches = study._seeds(2)
    exact = full_gradients(study.task, batches)
    square = np.mean([float(one.double().square().sum()) for one in exact])
    for name, sampler in (("pladies", study.fixed), ("node", study.students["node"])):
        errors = [
            float((gradient(study.task, sampler, seeds, 8 * place + draw) - full).square().sum())
            for place, (seeds, full) in enumerate(zip(batches, exact, strict=True))
            for draw in range(8)
        ]
        assert found[name].mean == pytest.approx(np.mean(errors) / square)
        assert found[name].low < found[name].mean < found[name].high
    everything = Bliss(study.task.graph, [dataset.graph.num_nodes] * 2)
    assert squared_errors(study.task, everything, batches, exact, 2).max() < 1e-9 * square


def test_the_interval_holds_the_mean_as_often_as_it_says():
    """Of 2,000 intervals of 4 batches with means of their own, 95% hold the mean of all means.

    The number is binomial, with a deviation of 10: a false alarm beyond 5 of them has the
    probability 6e-7. The mutant takes the variance of all draws, batches apart or not.
    """
    random = np.random.default_rng(0)
    level = np.array([1.0, 2.0, 4.0, 8.0])[:, None]
    holds = {"ours": 0, "mutant": 0}
    for _ in range(2000):
        errors = level + random.normal(size=(4, 8))
        ours = gradient_error(errors, torch.ones(4, 1))
        holds["ours"] += ours.low < level.mean() < ours.high
        half = 1.96 * errors.std(ddof=1) / np.sqrt(errors.size)
        holds["mutant"] += abs(errors.mean() - level.mean()) < half
    assert abs(holds["ours"] - 1900) < 50 < abs(holds["mutant"] - 1900)


def test_students_with_influence_minimise_the_weighted_variance(measured):
    for layer in measured.layers[:1]:  # above the output layer nothing weighs its targets
        plain, weighing = layer.policies["node"], layer.policies["node+influence"]
        assert 1 - 1e-5 <= weighing.weighted_over_limit < plain.weighted_over_limit
        assert weighing.over_limit > plain.over_limit
