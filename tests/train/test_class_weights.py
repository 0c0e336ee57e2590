"""Class weights: balanced ones, given ones, and the loss with a sampler's own weights."""

from __future__ import annotations

from sys import float_info

import pytest
import torch

from bliss import InputError
from bliss.data import Dataset
from bliss.train import build_task, resolve
from bliss.train.losses import balanced_weights, criterion
from tests.build import make_dataset
from tests.train.runs import settings, trained

pytestmark = pytest.mark.slow


def unbalanced(nodes: int = 240) -> Dataset:
    """The toy graph with all but 30 nodes of the classes 1 and 2 relabelled as 0."""
    dataset = make_dataset(nodes=nodes)
    rare = torch.isin(torch.arange(nodes), (dataset.y > 0).nonzero().view(-1)[:30])
    y = torch.where(rare, dataset.y, 0)
    return Dataset("toy", dataset.graph, dataset.x, y, dataset.splits, 3)


def test_balanced_weights_give_classes_equal_shares():
    labels = torch.tensor([0] * 6 + [1] * 3 + [2] + [-1])
    weights = balanced_weights(labels, 4)
    torch.testing.assert_close(weights, torch.tensor([10 / 18, 10 / 9, 10 / 3, 1]))
    known = labels[labels >= 0]
    shares = torch.zeros(4).index_add(0, known, weights[known])
    torch.testing.assert_close(shares[:3], torch.full((3,), 10 / 3))
    several = torch.tensor([[1.0, 0, 1], [0, 0, 1], [0, 0, 1], [1, 1, 1]])
    torch.testing.assert_close(balanced_weights(several, 3), torch.tensor([1.0, 3, 1]))


@pytest.mark.parametrize("several", [False, True])
def test_the_weighted_loss_is_the_mean_of_the_formula(several):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(9, 3, generator=generator)
    weights = torch.tensor([0.5, 2.0, 4.0])
    if several:
        labels = (torch.randn(9, 3, generator=generator) > 0).float()
        chance = logits.sigmoid()
        terms = weights * labels * chance.log() + (1 - labels) * (1 - chance).log()
        expected = -terms.mean()
    else:
        labels = torch.arange(9) % 3
        labels[4] = -1
        known = labels >= 0
        losses = -logits.log_softmax(1)[known, labels[known]] * weights[labels[known]]
        expected = losses.mean()
    found = criterion(logits, labels, class_weight=weights)
    torch.testing.assert_close(found, expected)


def normalised(logits, labels, weight, class_weight):
    """A mutant: weights are normalised within the batch, as torch's mean does."""
    found = criterion(logits, labels, weight, class_weight=class_weight)
    return found / (weight * class_weight[labels]).sum()


@pytest.mark.parametrize("loss", [criterion, normalised])
def test_only_weights_that_are_not_normalised_in_a_batch_are_unbiased(loss):
    """Mean over all pairs of nodes, each weighed 1 / (n p) with p = 2 / n, against all nodes."""
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(6, 2, generator=generator), torch.tensor([0, 0, 0, 0, 1, 1])
    weights = balanced_weights(labels, 2)
    whole = criterion(logits, labels, class_weight=weights)
    pairs = torch.combinations(torch.arange(6), 2)
    own = torch.full((2,), 1 / 2)
    drawn = [loss(logits[p], labels[p], own, class_weight=weights) for p in pairs]
    unbiased = torch.stack(drawn).mean()
    assert torch.isclose(unbiased, whole, rtol=1e-5) == (loss is criterion)


def test_balanced_weights_find_rare_classes(tmp_path):
    dataset = unbalanced()
    found = {}
    for weights in ("none", "balanced"):
        trainer, _ = trained(dataset, tmp_path / weights, class_weights=weights, dropout=0.0)
        from bliss.train import full_logits

        predicted = full_logits(trainer.task).argmax(1)
        rare = dataset.y > 0
        found[weights] = float((predicted == dataset.y)[rare].float().mean())
    assert found["balanced"] > found["none"] + 0.1


@pytest.mark.parametrize("sampler", ["saint-node", "cluster", "neighbor"])
def test_samplers_of_every_kind_take_class_weights(tmp_path, sampler):
    budgets = (5, 5) if sampler == "neighbor" else ()
    options = {"sampler": sampler, "budgets": budgets, "steps": 5, "class_weights": (1, 2, 3.5)}
    _, result = trained(unbalanced(), tmp_path, **options)
    assert 0 <= result.test_score <= 1


def test_several_labels_take_class_weights(tmp_path):
    _, result = trained(make_dataset(multilabel=True), tmp_path, class_weights="balanced", steps=5)
    assert 0 <= result.test_score <= 1


def test_settings_with_class_weights_survive_json():
    config = settings(class_weights=[1, 2.5])
    assert config.data.class_weights == (1.0, 2.5)
    assert type(config).from_dict(config.to_dict()) == config
    assert resolve().data.class_weights == "none"


BAD = {
    "a word": ("even", "class_weights='even' is not known"),
    "a negative number": ((1, -1, 1), "must be a finite number above 0"),
    "infinity": ((1, float_info.max * 2, 1), "must be a finite number above 0"),
    "nothing": ((), "one number per class"),
    "a number": (3, "one number per class"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_class_weights_get_one_sentence(case):
    value, message = BAD[case]
    with pytest.raises(InputError, match=message):
        settings(class_weights=value)


def test_too_few_class_weights_get_one_sentence():
    with pytest.raises(InputError, match="class_weights has 2 numbers, but 'toy' has 3 classes"):
        build_task(settings(class_weights=(1, 2)), make_dataset())
