"""The pilot of a timed run ends in its time, by a made-up clock, and names what it left out."""

from __future__ import annotations

import pytest

from bliss.errors import InputError
from bliss.train import Stepper, TrainConfig, resolve
from bliss.train.seconds.choice import choose
from bliss.train.seconds.expected_time import ExpectedTime
from bliss.train.seconds.gradient_noise import Size
from bliss.train.seconds.kinds import Kind, kinds
from bliss.train.seconds.timed_pilot import TimedPilot
from tests.train.test_seconds import GIVEN, MadeUpClock

SLOW = 0.03
"""Seconds of what is slow, 30% of the pilot."""


def is_slow(stepper: Stepper) -> bool:
    """Without a history; the sampler with one trains the network."""
    return not stepper.task.config.sampler.config.has_history


@pytest.mark.parametrize("part", ["step", "setup"])
def test_what_takes_a_third_of_the_pilot_does_not_make_it_longer(part, dataset, monkeypatch):
    def step(stepper):
        return SLOW if part == "step" and is_slow(stepper) else 1e-3

    clock, build = MadeUpClock(monkeypatch, step), Stepper.__init__

    def timed_build(self, task):
        build(self, task)
        clock.now += SLOW if part == "setup" and is_slow(self) else 0.0

    monkeypatch.setattr(Stepper, "__init__", timed_build)
    given = {**GIVEN, "sampler": "bliss", "batch_size": 30}
    found = choose(given, dataset, 1.0, clock=clock)
    assert found.pilot_seconds <= 0.1
    assert found.rows[0].name == "bliss, history"
    assert "bliss, sampled first hop" in found.unmeasured


@pytest.fixture
def offered(dataset) -> dict[str, Kind]:
    return kinds(GIVEN, dataset, 120, 10.0)


def test_nodes_of_a_step(offered):
    def nodes(name, *size):
        return offered[name].nodes_read(Size(*size))

    assert nodes("bliss, history", 30, 16) == 46  # one of two layers is sampled
    assert nodes("bliss, sampled first hop", 30, 16) == 62
    assert nodes("neighbor, sampled first hop", 3, 2) == 27
    assert nodes("neighbor, sampled first hop", 30, 8) == nodes("full", 30) == 240
    assert nodes("cluster", 30) == 60  # half of the nodes are seeds
    assert nodes("saint-rw", 30) == 90
    assert nodes("random-nodes", 30) == 60


def test_partitions_are_expected_to_take_time_in_proportion_to_edges(offered, dataset):
    edges = dataset.graph.num_edges
    assert offered["cluster"].setup == pytest.approx(2.5e-6 * edges)
    assert offered["saint-rw"].setup == pytest.approx(5e-7 * edges)
    assert offered["bliss"].setup == pytest.approx(4 * edges * dataset.num_features / 2e9)
    assert offered["full"].setup == 0
    pilot = object.__new__(TimedPilot)
    pilot.clock, pilot.started, pilot.steppers = lambda: 0.0, 0.0, {}
    teacher, cluster = offered["bliss, history"], offered["cluster"]
    pilot.expected = ExpectedTime(teacher)
    pilot.expected.add_step(teacher, Size(30, 16), 1e-6)
    for seconds, fits in ((2.6e-6 * edges, False), (3e-6 * edges, True)):
        pilot.seconds = seconds
        assert pilot.fits(cluster, Size(30)) == fits
    pilot.seconds = 2.6e-6 * edges
    assert not pilot.measure(cluster, Size(30))  # neither partitioned nor built


def test_steps_are_expected_from_those_that_were_timed(offered):
    teacher, full, walks = (offered[name] for name in ("bliss, history", "full", "saint-rw"))
    expected = ExpectedTime(teacher)
    expected.add_step(teacher, Size(30, 16), 0.002)
    expected.add_step(teacher, Size(30, 16), 0.001)
    expected.evaluation = 1.0
    assert expected.step(teacher, Size(60, 32)) == pytest.approx(0.002)
    assert expected.step(teacher, Size(15, 8)) == 0.001  # not less: a step has fixed costs
    assert expected.step(full, Size(30)) == pytest.approx(0.001 * 240 / 46)
    expected.evaluation = 5e-4
    assert expected.step(full, Size(30)) == pytest.approx(3 * 5e-4)
    expected.add_step(walks, Size(30), 0.004)
    expected.learn_factor(walks, Size(30))
    assert expected.step(full, Size(30)) == pytest.approx(1.5e-3 * 0.004 / 1.5e-3)
    expected.add_setup(walks, 2.0)
    assert expected.setup(full) == pytest.approx(2.0 - walks.setup)


@pytest.mark.parametrize("make", [TrainConfig.of, resolve, TrainConfig().with_settings])
def test_a_time_among_settings_points_to_what_takes_it(make):
    with pytest.raises(
        InputError, match=r"seconds=60 is not a setting.*train\(dataset, seconds=60"
    ):
        make(seconds=60)
