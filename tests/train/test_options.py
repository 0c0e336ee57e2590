"""Learning-rate decay, self-loops, sampled validation, counts, peak memory, TensorBoard's log."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch

from bliss.errors import InputError
from bliss.train import RunFolder, TrainConfig, evaluate
from bliss.train.evaluation import evaluate_sampled
from bliss.train.peak_memory import forget_peak, peak_mb
from bliss.train.tensorboard import tensorboard_writer
from tests.train.runs import SETTINGS, make_trainer

pytestmark = pytest.mark.slow


def test_the_rate_decays_by_epochs_and_a_resumed_run_knows(dataset, tmp_path):
    one = make_trainer(dataset, tmp_path / "run", lr_decay=0.5, decay_epochs=2, steps=12)
    rates = []
    one.run(on_step=lambda _: rates.append(one.stepper.optimizer.param_groups[0]["lr"]))
    # 120 training nodes in batches of 40: three steps an epoch, so six at each rate
    assert rates == [0.02] * 6 + [0.01] * 6
    assert make_trainer(dataset, tmp_path / "other").stepper.optimizer.param_groups[0]["lr"] == 0.02


def test_self_loops_can_be_removed(dataset, tmp_path):
    with_loops = make_trainer(dataset, tmp_path / "with", steps=3).task.graph
    assert with_loops.has_self_loops
    without = make_trainer(dataset, tmp_path / "without", self_loops="remove", steps=3)
    graph = without.task.graph
    assert not (graph.edge_index[0] == graph.edge_index[1]).any()
    assert graph.num_edges == with_loops.num_edges - graph.num_nodes
    assert graph.norm == with_loops.norm
    without.run()


def test_the_linear_schedule_ends_at_nothing(dataset, tmp_path):
    one = make_trainer(dataset, tmp_path / "run", schedule="linear", steps=10)
    rates = []
    one.run(on_step=lambda _: rates.append(one.stepper.optimizer.param_groups[0]["lr"]))
    np.testing.assert_allclose(rates, 0.02 * (1 - np.arange(10) / 10))


def test_a_rate_that_vanishes_stops_learning(dataset, tmp_path):
    still = make_trainer(dataset, tmp_path / "run", lr_decay=1e-30, decay_epochs=1, steps=30)
    weights = []
    still.run(on_step=lambda _: weights.append(still.task.model.convs[0].own.weight.clone()))
    assert not torch.equal(weights[0], weights[1])
    assert torch.equal(weights[3], weights[20])


def test_sampled_validation_draws_as_training_does_and_the_result_is_full(dataset, tmp_path):
    sampled = make_trainer(dataset, tmp_path / "run", evaluate="sampled", budgets=(12, 6))
    result = sampled.run()
    full = evaluate(sampled.task, ("val",))["val"]
    drawn = evaluate_sampled(sampled.task, sampled.stepper.sampler, ("val",))
    assert result.val_score == full  # result.json holds scores with full neighbourhoods
    assert drawn == evaluate_sampled(sampled.task, sampled.stepper.sampler, ("val",))
    everything = make_trainer(dataset, tmp_path / "all", budgets=(240, 240), evaluate_draws=1)
    everything.run()
    task, sampler = everything.task, everything.stepper.sampler
    assert evaluate_sampled(task, sampler, ("val",)) == evaluate(task, ("val",))
    poor = make_trainer(dataset, tmp_path / "poor", budgets=(1, 1)).stepper.sampler
    assert evaluate_sampled(sampled.task, poor, ("train",)) != evaluate(sampled.task, ("train",))


def test_a_result_tells_what_was_sampled_and_held(dataset, tmp_path):
    one = make_trainer(dataset, tmp_path / "run", sampler="full", budgets=(), batch_size=120)
    result = one.run()
    blocks = one.stepper.sampler.sample(dataset.splits["train"], 0)
    assert result.sampled.nodes == blocks[0].num_src
    assert result.sampled.edges == sum(block.num_edges for block in blocks)
    assert result.peak_mb > 50
    times = RunFolder(tmp_path / "run").times()
    assert [line.step for line in times] == [10, 20, 30]
    seconds = [line.seconds for line in times]
    assert seconds == sorted(seconds)
    assert seconds[-1] <= result.seconds + 1e-6


def test_peak_memory_is_that_since_the_last_look():
    device = torch.device("cpu")
    forget_peak(device)
    before = peak_mb(device)
    large = np.ones(64 * 2**20, np.uint8)
    after = peak_mb(device)
    assert 48 < after - before < 128  # what else the process holds or frees meanwhile is far less
    del large


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux gives memory back")
def test_peak_memory_leaves_out_what_was_freed_before():
    device = torch.device("cpu")
    forget_peak(device)
    before = peak_mb(device)
    arrays = [np.ones(4000) for _ in range(8000)]  # 256 MB, each too small for a map of its own
    last = arrays.pop()  # keeps the heap from shrinking by itself
    del arrays
    assert peak_mb(device) - before > 96  # holes in the heap take the rest
    forget_peak(device)
    assert peak_mb(device) - before < 24
    del last


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_gets_the_metrics(dataset, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with tensorboard_writer(tmp_path / "run") as log:
        make_trainer(dataset, tmp_path / "run").run(on_evaluation=log)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    expected = [(line["step"], line["val_score"]) for line in map(json.loads, lines)]
    found = [(event.step, event.value) for event in events.Scalars("val_f1")]
    assert [step for step, _ in found] == [step for step, _ in expected]
    np.testing.assert_allclose([v for _, v in found], [v for _, v in expected], rtol=1e-6)


def test_without_tensorboard_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match="pip install"), tensorboard_writer(tmp_path):
        pass


@pytest.mark.parametrize(
    "bad",
    [
        {"lr_decay": 0.0},
        {"decay_epochs": 0},
        {"evaluate": "some"},
        {"schedule": "cosine"},
        {"feedback": "x"},
    ],
)
def test_bad_options_are_refused(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        TrainConfig.of(**SETTINGS | bad)
