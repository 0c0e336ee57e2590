"""Training with subgraphs and with control variates stops and goes on, and weighs its losses."""

from __future__ import annotations

import signal

import numpy as np
import pytest
import torch
from torch.nn import functional

from bliss.train import RunFolder
from bliss.train.losses import criterion
from tests.build import make_dataset
from tests.train.runs import assert_same_run, make_trainer, quiet, stopped, trained

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["cluster", "saint-rw"])
def test_several_labels_are_learnt(tmp_path, name):
    data = make_dataset(multilabel=True)
    _, result = trained(data, tmp_path, sampler=name, budgets=(), steps=60)
    assert result.test_score > 0.7


@pytest.mark.parametrize("prefetch", [0, 1])
@pytest.mark.parametrize("stop", [10, 17])
@pytest.mark.parametrize("name", ["vrgcn", "saint-rw", "cluster"])
def test_a_run_stopped_after_any_step_ends_as_if_it_had_not(
    dataset, tmp_path, whole, name, stop, prefetch
):
    options = {"sampler": name, "budgets": (), "prefetch": prefetch, "steps": 20, "dropout": 0.2}
    stopped(make_trainer(dataset, tmp_path, **options), stop, signal.SIGTERM)
    trained(dataset, tmp_path, resume=True, **options)
    assert_same_run(tmp_path, whole(**options))
    if name == "vrgcn":
        assert RunFolder(tmp_path).load_checkpoint(quiet).tensors["sampler.history.0.value"].any()


def test_weighted_loss_is_the_sum_over_nodes():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(9, 4, generator=generator)
    weight = torch.rand(9, generator=generator)
    classes = torch.tensor([0, 1, 2, 3, -1, 0, 1, 2, 3])  # the fifth is not known
    several = (torch.rand(9, 4, generator=generator) < 0.5).float()
    each = -torch.log_softmax(logits, 1)[range(9), classes] * (classes >= 0)
    torch.testing.assert_close(criterion(logits, classes, weight), (weight * each).sum())
    torch.testing.assert_close(criterion(logits, classes), each.sum() / 8)
    each = functional.binary_cross_entropy_with_logits(logits, several, reduction="none").mean(1)
    torch.testing.assert_close(criterion(logits, several, weight), (weight * each).sum())
    torch.testing.assert_close(criterion(logits, several), each.mean())
    nobody = criterion(logits[:0], classes[:0], weight[:0])
    assert nobody == 0


def test_a_batch_without_targets_is_a_step_without_gradient(dataset, tmp_path):
    # One drawn node: half of the batches have no training node.
    options = {"sampler": "saint-node", "budgets": (), "batch_size": 1, "steps": 20}
    trainer = make_trainer(dataset, tmp_path, **options)
    losses = []
    trainer.run(on_step=lambda now: losses.append(now.loss))
    assert 0 < np.count_nonzero(losses) < 20
    assert np.isfinite(losses).all()
