"""Networks that learn nothing are reported, with the likely cause, and healthy ones are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch
from typer.testing import CliRunner

from bliss import Graph
from bliss.cli import app
from bliss.data import Dataset, save_dataset
from bliss.report import write_report
from bliss.studies import advise
from bliss.train import Task, Trainer, build_task
from bliss.train.assessment import assess
from bliss.train.causes import likely_causes
from bliss.train.constant import LIMIT, ConstantPrediction, compared, is_beaten
from bliss.train.divergence import STEPS, DivergenceMonitor
from tests.build import make_dataset
from tests.train.runs import SETTINGS, settings, trained

KINDS = ("classes", "labels", "regression")
FALSE_ALARM = 1e-6


def make(kind: str) -> Dataset:
    dataset = make_dataset(multilabel=kind == "labels")
    if kind != "regression":
        return dataset
    y = 40_000 + 5_000 * dataset.x.sum(1, keepdim=True)
    return replace(dataset, y=y, num_classes=0, task="regression")


def shuffled(dataset: Dataset, seed: int = 0) -> Dataset:
    """The same labels at other nodes."""
    order = torch.randperm(len(dataset.y), generator=torch.Generator().manual_seed(seed))
    return replace(dataset, y=dataset.y[order])


@pytest.mark.parametrize("weights", ["none", "balanced"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_other_constant_has_a_lower_loss(kind, weights):
    if kind == "regression" and weights == "balanced":
        return
    task = build_task(settings(class_weights=weights), make(kind))
    train, best = task.dataset.splits["train"], ConstantPrediction.of(task.labels)
    least, generator = best.loss(task.labels, train), torch.Generator().manual_seed(0)
    for scale in (0.1, 0.3, 1.0):
        noise = scale * torch.randn(best.output.shape, generator=generator)
        assert replace(best, output=best.output + noise).loss(task.labels, train) > least
        assert replace(best, output=best.output - noise).loss(task.labels, train) > least


def test_no_other_set_of_labels_has_a_higher_f1():
    task = build_task(settings(), make("labels"))
    train, constant = task.dataset.splits["train"], ConstantPrediction.of(task.labels)

    def f1(chosen: torch.Tensor) -> float:
        fixed = replace(constant, decision=chosen)
        found = compared(task.labels, fixed, train, torch.zeros(len(train), 3))
        assert found.score is not None
        return found.score

    sets = [torch.tensor(one) * 2.0 - 1 for one in np.ndindex(2, 2, 2) if any(one)]
    assert f1(constant.decision) == max(map(f1, sets))


def guesses(task: Task, seed: int, corrected: bool) -> bool:
    """Whether a network that is a constant with noise passes for one that has learnt.

    The mutant takes the deviation over nodes for the standard error of the mean.
    """
    nodes, constant = task.dataset.splits["test"], ConstantPrediction.of(task.labels)
    noise = torch.randn(len(nodes), 3, generator=torch.Generator().manual_seed(seed))
    fixed = constant.output if task.dataset.task == "classes" else constant.decision
    found = compared(task.labels, constant, nodes, fixed + 0.5 * noise)
    if corrected:
        return is_beaten(found)
    assert found.z_score is not None
    return found.z_score * len(nodes) ** 0.5 > LIMIT  # as if each node were its own mean


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("kind", ["classes", "labels"])
def test_guesses_pass_as_seldom_as_stated(kind, corrected):
    """At most 5% of networks without signal pass; the chance of a false alarm is FALSE_ALARM."""
    task, times = build_task(settings(), make(kind)), 300
    passed = sum(guesses(task, seed, corrected) for seed in range(times))
    assert (passed <= scipy.stats.binom.isf(FALSE_ALARM, times, 0.05)) == corrected


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_shuffled_labels_are_noticed_and_a_healthy_run_is_not(tmp_path, kind, seed):
    dataset, options = make(kind), {"seed": seed, "dropout": 0.0}
    _, healthy = trained(dataset, tmp_path / "healthy", **options)
    assert healthy.has_learnt
    assert healthy.causes == []
    _, lost = trained(shuffled(dataset, seed), tmp_path / "lost", **options)
    assert not lost.has_learnt
    assert lost.constant is not None
    assert "labels do not depend" in lost.causes[-1]


def unscaled(dataset: Dataset) -> Dataset:
    """Incomes as a feature, which drown the others, and amounts as weights."""
    random, graph = np.random.default_rng(0), dataset.graph
    income = torch.from_numpy(random.lognormal(13, 0.5, (graph.num_nodes, 1))).float()
    x = torch.cat([dataset.x, income], dim=1)
    weight = random.uniform(1, 1000, graph.num_edges).astype(np.float32)
    return replace(dataset, x=x, graph=Graph(graph.indptr, graph.indices, "weights", weight))


def test_causes_are_named_in_order():
    healthy = likely_causes(build_task(settings(), make_dataset()))
    assert [cause.split(" (")[0] for cause in healthy] == [
        "The learning rate",
        "The labels do not depend on the features and neighbours: check that rows of labels, "
        "features and edges belong to the same nodes.",
    ]
    found = likely_causes(build_task(settings(), unscaled(make_dataset())))
    assert "Features are not scaled: column" in found[0]
    assert "Edge weights are summed" in found[1]
    assert [cause.split(" (")[0] for cause in found[2:]] == [c.split(" (")[0] for c in healthy]


def test_a_diverging_run_is_told_once_and_goes_on(tmp_path):
    said: list[str] = []
    config = settings(steps=2 * STEPS)
    Trainer(config, unscaled(make_dataset()), tmp_path, said.append).run()
    (warning,) = (line for line in said if "has been above 5 times" in line)
    assert "Features are not scaled" in warning


def test_a_few_steps_above_the_constant_are_no_divergence():
    monitor = DivergenceMonitor(build_task(settings(), make_dataset()))
    high = 10 * monitor.constant_loss
    assert not any(monitor.add(high) for _ in range(STEPS - 1))
    assert monitor.add(1.0) == ""
    assert not any(monitor.add(high) for _ in range(STEPS - 1))
    assert "has been above 5 times" in monitor.add(high)
    assert not any(monitor.add(high) for _ in range(3 * STEPS))


@pytest.mark.slow
def test_train_evaluate_and_report_warn(tmp_path):
    store, run = str(save_dataset(shuffled(make_dataset()), tmp_path / "store")), tmp_path / "run"
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]
    options = [option for option in options if "budgets" not in option and "dataset" not in option]
    for command in (["train", "--dataset", store, "--out", run, *options], ["evaluate", run]):
        shown = CliRunner().invoke(app, list(map(str, command)))
        assert shown.exit_code == 0, shown.output
        assert "no better than a constant prediction on the test split" in shown.output
        assert "The labels do not depend" in shown.output
    page = write_report([run], tmp_path / "report.html").read_text()
    assert "Warning: the network of the run" in page


@pytest.mark.slow
def test_advice_recommends_nothing_for_a_network_that_learns_nothing():
    given = {k: v for k, v in SETTINGS.items() if k not in ("budgets", "steps")}
    for dataset in (shuffled(make_dataset()), unscaled(make_dataset())):
        found = advise(given | {"lr": 0.001}, dataset, pilot_steps=4, compare=False)
        assert found.choice is None
        assert found.command == ""
        assert found.reason.startswith("No recommendation: after 240 steps")
        assert found.config.sampler.name == "bliss"
    assert "Features are not scaled" in found.causes[0]


def test_outputs_that_are_not_finite_are_no_gain():
    task = build_task(settings(), make_dataset())
    with torch.no_grad():
        for parameter in task.model.parameters():
            parameter.fill_(float("nan"))
    found = assess(task)
    assert not found.has_learnt
    assert found.splits["test"].constant.network_loss is None
