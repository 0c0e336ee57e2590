"""Models of time and error are right, the search finds the best budgets, and advice is usable."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.stats
import torch

from bliss import Graph
from bliss.errors import InputError
from bliss.graph import HiddenEdges
from bliss.nn import GNN, ModelConfig, infer_layer
from bliss.nn.aggregate import aggregate
from bliss.samplers import PLADIES, Bliss, Full, Neighbor
from bliss.samplers.influence import of_sources
from bliss.studies import Advice, advise
from bliss.studies.advice import pilot
from bliss.studies.advice.advice import command
from bliss.studies.advice.budgets import Expectation, fit_sensitivity, search
from bliss.studies.advice.candidates import configs, with_best_estimator
from bliss.studies.advice.costs import LayerWork, fit_costs, terms
from bliss.studies.advice.exact_errors import WIDE, ExactErrors, _projected
from bliss.train import SamplingConfig, TrainConfig, resolve
from tests.conftest import heavy_tailed_pairs
from tests.studies.conftest import SMALL

pytestmark = pytest.mark.slow
TARGETS = np.array([3, 1, 8, 20, 33])
DRAWS = 1500
FALSE_ALARM = 1e-6
GIVEN = {name: value for name, value in SMALL.items() if name != "budgets"}


@pytest.fixture(scope="module", autouse=True)
def short():
    """Fewer batches and timed steps: nothing here depends on how precise they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pilot, "SEEDS", 1)
        patch.setattr(pilot, "BATCHES", 3)
        patch.setattr(pilot, "TIMED_STEPS", 2)
        yield


def works(number: int) -> list[list[LayerWork]]:
    random = np.random.default_rng(0)
    return [
        [LayerWork(*random.uniform(100, 5000, 4), width, 16) for width in (50, 16)]
        for _ in range(number)
    ]


def test_the_cost_fit_recovers_known_coefficients():
    known = np.array([3.0, 2e-5, 1e-5, 2e-4, 3e-5, 1e-6])
    measured = works(12)
    ms = [float(terms(work) @ known) for work in measured]
    found = fit_costs(measured, ms, sums_history=True)
    np.testing.assert_allclose(found.coefficient, known, rtol=1e-4)
    assert found.residual < 1e-6
    assert found.ms(measured[0]) == pytest.approx(ms[0])
    without = fit_costs(measured, ms, sums_history=False)
    assert without.coefficient[4] == 0
    assert without.residual > 1e-3  # a term is missing


def test_the_fit_of_sensitivities_recovers_weights_and_power():
    errors = np.random.default_rng(1).uniform(0.01, 1, (10, 3))
    known = np.array([0.3, 2.0, 0.1])
    found = fit_sensitivity(errors, (errors @ known) ** 1.5, limit=0.1)
    np.testing.assert_allclose(found.weight, known, rtol=1e-6)
    assert found.power == 1.5
    assert found.gradient_error(errors[0]) == pytest.approx((errors[0] @ known) ** 1.5)


def test_a_layer_that_was_never_sampled_is_not_taken_for_insensitive():
    errors = [[0.5, 0.0], [0.1, 0.0], [0.0, 0.0]]
    found = fit_sensitivity(errors, [1.0, 0.2, 0.0], limit=0.1)
    assert found.weight[1] == found.weight[0] > 0
    assert fit_sensitivity([[0.0, 0.0]], [0.0], limit=0.1).weight.min() > 0


@pytest.mark.parametrize("limit", [0.05, 0.3, 10.0])
def test_the_search_finds_what_brute_force_finds(limit):
    weight, price = np.array([0.5, 8.0, 1.0]), np.array([0.002, 0.01, 0.03])

    def expect(budgets):
        count = np.array(budgets)
        return Expectation(float(5 + price @ count), float((weight / count).sum()))

    def rank(budgets):
        found = expect(budgets)
        return max(found.gradient_error - limit, 0.0), found.cost

    grid = product([2**power for power in range(11)], repeat=3)
    assert search(expect, (64, 64, 64), 1024, limit) == min(grid, key=rank)


@pytest.fixture(scope="module")
def small() -> tuple[Graph, GNN, torch.Tensor]:
    """A graph with skewed degrees, a network of two layers, and positive features."""
    pairs = np.unique(heavy_tailed_pairs(60, 500), axis=1)
    graph = Graph.from_edge_index(pairs, 60)
    torch.manual_seed(0)
    model = GNN(5, 3, ModelConfig(model="sage", layers=2, hidden=6, dropout=0.0))
    return graph, model, torch.rand(60, 5) * torch.arange(1, 61)[:, None]


def squared_errors(sampler, x: torch.Tensor, without=None) -> np.ndarray:
    """sum_i |mu^_i - mu_i|^2 in many draws of the top layer, given its exact inputs. [DRAWS]."""
    (exact,) = PLADIES(sampler.graph, [10**6]).sample(TARGETS, 0, without=without)
    mean = aggregate(exact, x[exact.src])
    found = []
    for step in range(DRAWS):
        block = sampler.sample(TARGETS, step, without=without)[-1]
        found.append(float((aggregate(block, x[block.src]) - mean).square().sum()))
    return np.array(found)


def agrees(draws: np.ndarray, expected: float, slack: float = 0.0) -> bool:
    """Whether the mean of draws is as expected, by a z-test at FALSE_ALARM and a relative slack."""
    bound = scipy.stats.norm.isf(FALSE_ALARM / 2) * draws.std(ddof=1) / np.sqrt(len(draws))
    return bool(abs(draws.mean() - expected) < bound + slack * expected)


CASES = {
    "pladies": (lambda graph: PLADIES(graph, [30, 12], seed=1), 0.0),
    "pladies, hajek": (lambda graph: PLADIES(graph, [30, 25], estimator="hajek"), 0.15),
    "neighbor": (lambda graph: Neighbor(graph, [3, 3], seed=1), 0.0),
    "neighbor, gcn": (lambda graph: Neighbor(graph.with_norm("gcn"), [3, 3], seed=1), 0.0),
}


@pytest.mark.parametrize("name", CASES)
def test_the_error_of_a_layer_is_that_of_the_sampler(small, name):
    """Exact but for hajek, whose closed form is linear in 1 / k: 15% are allowed."""
    graph, model, x = small
    make, slack = CASES[name]
    sampler = make(graph)
    errors = ExactErrors(model, sampler.graph, x)
    inputs = errors.layers[1].x
    np.testing.assert_allclose(
        inputs, infer_layer(next(iter(model)), sampler.graph, x).detach(), rtol=1e-5, atol=1e-5
    )
    expected = errors.of(sampler, sampler.sample(TARGETS, 0))[1].error
    draws = squared_errors(sampler, inputs)
    assert agrees(draws, expected, slack)
    assert not agrees(draws, 1.4 * expected, slack)  # the mutant: a wrong factor


@pytest.mark.parametrize("name", ["pladies", "neighbor, gcn"])
def test_hidden_edges_are_no_part_of_the_error(small, name):
    """Three of four edges of each target are hidden; the mutant sees all edges."""
    graph, model, x = small
    sampler = CASES[name][0](graph)
    _, edge = graph.rows(TARGETS).edges()
    hidden = HiddenEdges.of(graph, edge[np.arange(edge.size) % 4 > 0])
    errors, blocks = ExactErrors(model, sampler.graph, x), sampler.sample(TARGETS, 0)
    whole = errors.of(sampler, blocks)[1].error
    expected = errors.of(sampler, blocks, without=hidden)[1].error
    draws = squared_errors(sampler, errors.layers[1].x, hidden)
    assert agrees(draws, expected)
    assert not agrees(draws, whole)
    assert errors.of(sampler, blocks)[1].error == whole  # known rows are whole again


def test_the_error_with_a_history_is_that_of_the_change(small):
    graph, model, x = small
    sampler = Bliss(graph, [12], history="nodes", widths=[5, 6], x=x)
    sampler.survey(model, x)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    errors = ExactErrors(model, graph, x)
    changes = errors.changes(sampler)
    blocks = sampler.sample(TARGETS, 0)
    below, top = errors.of(sampler, blocks, changes)
    assert below.error == 0
    draws = squared_errors(sampler, errors.layers[1].x)
    assert agrees(draws, top.error)
    assert not agrees(draws, errors.of(sampler, blocks)[1].error)  # the mutant: whole inputs


def test_the_error_below_is_that_of_probabilities_by_influence(small):
    graph, model, x = small
    sampler = PLADIES(graph, [16, 12], influence="prior")
    blocks, errors = sampler.sample(TARGETS, 0), ExactErrors(model, graph, x)
    found = errors.of(sampler, blocks)[0].error
    alike = errors.of(PLADIES(graph, [16, 12]), blocks)[0].error
    dst, size = blocks[0].dst.numpy(), x.norm(dim=1).double().numpy()
    indptr, edge = graph.rows(dst).edges()
    alpha = np.repeat(1 / np.diff(indptr), np.diff(indptr))
    source = graph.indices[edge]
    stake = np.bincount(source, (alpha * size[source]) ** 2, graph.num_nodes)
    candidate, prob = sampler.inclusion(dst, 0, of_sources(blocks[1]))
    assert found == pytest.approx(((1 / prob - 1) * stake[candidate]).sum(), rel=1e-4)
    assert abs(alike / found - 1) > 0.01


def test_projected_inputs_keep_their_squares():
    """The relative deviation of a square is about sqrt(2 / WIDE) = 0.09."""
    x = torch.randn(300, 3 * WIDE, generator=torch.Generator().manual_seed(1))
    ratio = _projected(x).square().sum(1) / x.square().sum(1)
    assert float(ratio.mean()) == pytest.approx(1, abs=0.03)
    assert float(ratio.std()) == pytest.approx((2 / WIDE) ** 0.5, rel=0.2)


@pytest.fixture(scope="module")
def advice(dataset) -> Advice:
    return advise(GIVEN, dataset, pilot_steps=6)


def test_advice_compares_all_kinds_and_checks_the_references(advice):
    names = [row.name for row in advice.rows]
    assert names == [
        "pladies", "bliss", "bliss, exact first hop", "bliss, history", "neighbor", "full",
        "default",
    ]  # fmt: skip
    checked = {row.name for row in advice.rows if row.measured_ms is not None}
    assert checked == {"pladies", "neighbor", "full", "default", advice.choice.name}
    hops = {row.name: row.first_hop for row in advice.rows if row.sampler == "bliss"}
    assert hops.pop("bliss") == "sampled"
    assert set(hops.values()) == {"exact"}  # the default, too
    full = advice.rows[names.index("full")]
    assert full.gradient_error == full.measured_error == 0
    for row in advice.rows:
        assert row.cost == pytest.approx(row.ms * (1 + row.gradient_error))
        assert len(row.errors) == 2
    accepted = [row.cost for row in advice.rows[:-1] if row.gradient_error <= advice.limit]
    assert advice.choice.cost == min(accepted)
    assert "the variance of sampling" in advice.variance_note


@pytest.mark.parametrize(
    ("losses", "half", "fitted"),
    [
        ([2.0, 2.0, 2.0, 1.9, 1.5], 5, 5),
        ([2.0, 2.0, 2.0, 0.5, 0.4, 0.3, 0.2], 5, 7),  # 2.9 / 3 < 1
        ([2.0, 2.0, 2.0, 0.1, 0.1, 0.1, 0.1], 5, 6),
        ([2.0, 2.0, 2.0, 0.1, 0.1, 0.1], 5, 6),  # at the last step
        ([2.0, 0.1], 2, 2),
        ([3.0], 1, 1),
    ],
)
def test_a_pilot_ends_where_its_loss_is_halved(losses, half, fitted):
    assert pilot.first_below(losses, 0.5) == half
    assert pilot.first_below(losses, 0.1) == fitted
    assert pilot.falls_below(losses, 0.1) == (losses[-3:] == [0.1, 0.1, 0.1])


def test_a_network_that_fits_its_training_nodes_is_measured_before_it_does(dataset):
    given = GIVEN | {"lr": 0.3, "dropout": 0.0, "hidden": 64, "batch_size": 120}
    found = advise(given, dataset, pilot_steps=60)
    assert 3 <= found.pilot_steps < 30
    assert "has fitted its training nodes after 60 steps" in found.variance_note
    assert found.batch_noise < 1e-9  # every batch has all training nodes
    assert all(row.gradient_error < 100 for row in found.rows)


def test_the_sign_does_not_divide_by_a_variance_that_is_an_error_of_rounding(dataset):
    found = advise(GIVEN | {"batch_size": 120}, dataset, pilot_steps=6)
    assert found.batch_noise < 1e-9
    assert found.variance_note.startswith("With the default settings, sampling adds ")
    assert "between batches" not in found.variance_note


def test_the_advised_command_gives_the_advised_settings(advice):
    words = advice.command.split()
    assert words[:2] == ["bliss", "train"]
    options = dict(zip(words[2::2], words[3::2], strict=True))
    if advice.choice.budgets:
        assert options["--budgets"] == ",".join(map(str, advice.choice.budgets))
    assert options["--batch-size"] == "40"
    assert advice.config.sampler.name == options["--sampler"] == advice.choice.sampler
    assert advice.config.training.steps == 20


def test_a_choice_that_was_given_stays(dataset):
    given = GIVEN | {"sampler": "bliss", "history": "nodes", "eta": 0.3}
    found = advise(given, dataset, pilot_steps=4, compare=False)
    assert [row.name for row in found.rows] == ["bliss, history"]
    assert found.config.sampler.config.history == "nodes"
    assert found.config.sampler.config.policy.eta == 0.3
    assert len(found.config.sampler.budgets) == 1


def test_attention_has_no_exact_first_hop_and_no_history(dataset):
    found = advise(GIVEN | {"model": "gatv2", "heads": 2}, dataset, pilot_steps=4)
    names = {row.name for row in found.rows}
    assert names == {"pladies", "bliss", "neighbor", "full", "default"}


class FakePilot:
    """Errors of the gradient that are known."""

    def __init__(self, **errors: float) -> None:
        self.errors = errors

    def sampler(self, config: TrainConfig) -> TrainConfig:
        return config

    def gradient_error(self, config: TrainConfig, budgets: tuple[int, ...]) -> float:
        return self.errors[config.sampler.config.estimator]


@pytest.mark.parametrize("best", ["ht", "hajek"])
def test_the_estimator_is_the_one_with_the_smaller_error(best):
    errors = FakePilot(**{"ht": 0.2, "hajek": 0.2, best: 0.1})
    config = resolve(**GIVEN | {"sampler": "pladies"}).fitted(100)
    found = with_best_estimator(config, errors, GIVEN)
    assert found.sampler.config.estimator == best
    for given, own in ((GIVEN | {"estimator": "ht"}, config), (GIVEN, attention_of(config))):
        assert with_best_estimator(own, FakePilot(), given) == own  # nothing is measured


def attention_of(config: TrainConfig) -> TrainConfig:
    return config.with_settings(model="gatv2", heads=2)


def test_samplers_without_a_closed_form_are_refused(dataset):
    with pytest.raises(
        InputError, match=r"advice is not supported for sampler='labor'.*pass budgets"
    ):
        advise(GIVEN | {"sampler": "labor"}, dataset)
    with pytest.raises(InputError, match=r"advice is not supported for sampler='neighbor'"):
        advise(GIVEN | {"sampler": "neighbor", "influence": "prior"}, dataset)


def test_settings_with_auto_say_where_to_get_a_pilot():
    for make in (resolve, SamplingConfig, TrainConfig.of):
        with pytest.raises(InputError, match=r"budgets='auto' needs a pilot.*bliss train"):
            make(budgets="auto")


@pytest.mark.parametrize("hop", ["auto", "sampled", "exact"])
def test_kinds_say_which_first_hop_they_have_and_so_do_their_commands(hop):
    given = GIVEN | {"sampler": "bliss", "history": "none"}
    kinds = {name: kind.fitted(100) for name, kind in configs(given | {"first_hop": hop}).items()}
    names = {"sampled": "bliss", "exact": "bliss, exact first hop"}
    assert list(kinds) == (list(names.values()) if hop == "auto" else [names[hop]])
    for kind in kinds.values():
        is_exact = kind.sampler.config.is_first_hop_exact
        written = command({}, kind)
        assert ("--first-hop exact" in written) == ("--history none" in written) == is_exact
        again = resolve(**given | {"budgets": kind.sampler.budgets}).fitted(100)
        assert again.sampler.config.is_first_hop_exact == is_exact  # also without the option


def test_the_command_quotes_and_negates():
    config = resolve(dataset="my graph", sampler="full")
    given = {"dataset": "my graph", "survey": False, "sampler": "full"}
    assert command(given, config) == (
        "bliss train --dataset 'my graph' --no-survey --sampler full --model sage"
    )


def test_a_pilot_has_the_loss_of_training(dataset):
    """Its gradients are those of standardised targets, and of weighted classes."""
    y = torch.randn(dataset.graph.num_nodes, 1, generator=torch.Generator().manual_seed(0))
    targets = replace(dataset, y=1e3 + 50 * y, num_classes=0, task="regression")
    config = resolve(**GIVEN | {"dataset": "toy", "budgets": (30, 20), "sampler": "pladies"})
    for data, own in ((targets, config), (dataset, config.with_settings(class_weights="balanced"))):
        made = pilot.Pilot(own, data, 2)
        task, seeds = made.task, made.batches[0]
        (*_, last) = blocks = Full(task.graph, layers=2).sample(seeds.node, 0)
        loss = task.labels.mean_loss(
            task.model(task.x[blocks[0].src], blocks), task.labels.y[last.dst]
        )
        found = torch.autograd.grad(loss, list(task.model.parameters()))
        torch.testing.assert_close(made.noise.gradients[0], torch.cat([g.flatten() for g in found]))
        assert float(loss.detach()) < 10  # as it stands, a target is about 1,000
