"""A run in a given time: the models, the pilot by a made-up clock, the steps, and resuming."""

from __future__ import annotations

import signal
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import FakeHeteroDataset

from bliss.data import Dataset
from bliss.errors import InputError
from bliss.train import RunFolder, Stepper, TrainConfig, Trainer, resolve, train
from bliss.train.adam import Adam
from bliss.train.results import Constant
from bliss.train.seconds import choice, timed_run
from bliss.train.seconds.choice import Choice, choose
from bliss.train.seconds.gradient_noise import (
    NoiseModel,
    Point,
    Size,
    error_terms,
    relative_error,
    time_terms,
)
from bliss.train.seconds.kinds import KINDS, kinds
from bliss.train.seconds.schedule import Durations, least_seconds, plan
from bliss.train.seconds.timed_pilot import LEAST_DRAWS, MEASURED, TimedPilot
from bliss.train.seconds.timed_run import check_timed, timed_config
from tests.train.runs import assert_same_run, quiet, stopped

GIVEN = {"dataset": "toy", "layers": 2, "hidden": 8, "lr": 0.02}
GIVEN |= {"dropout": 0.0, "normalisation": "none"}
FALSE_ALARM = 1e-6


class MadeUpClock:
    """Seconds that pass in training steps and evaluations alone, as many as a formula says."""

    def __init__(self, monkeypatch, step=lambda config: 1e-3, inference: float = 2e-3) -> None:
        self.now, own = 100.0, self
        take, infer = Stepper.step, choice.TimedPilot._survey

        def timed_step(self, batches):
            own.now += step(self)
            return take(self, batches)

        def timed_survey(self, check, surveys):
            for part in range(1, 51):
                own.now += inference / 50
                check((part - 1) / 50)
                check(part / 50)  # may raise
            return infer(self, check, surveys)

        monkeypatch.setattr(Stepper, "step", timed_step)
        monkeypatch.setattr(TimedPilot, "_survey", timed_survey)

    def __call__(self) -> float:
        return self.now


def test_adam_far_from_the_optimum_needs_steps_in_proportion_to_the_root_of_one_plus_r():
    """On the loss <G, w> a step of Adam lowers it by lr |G| / sqrt(1 + r), all G_i being equal.

    The mean of 1,000 weights over 400 steps has a deviation of about 0.3%; 3% are allowed.
    """
    number, steps, rate = 1000, 400, 1e-3
    random = torch.Generator().manual_seed(0)
    for error in (0.0, 3.0, 24.0):
        weight = torch.zeros(number, requires_grad=True)
        adam = Adam([weight], lr=rate)
        for step in range(2 * steps):
            weight.grad = 1 + error**0.5 * torch.randn(number, generator=random)
            adam.step()
            if step == steps - 1:
                half = weight.detach().clone()
        moved = float((half - weight.detach()).mean()) / (rate * steps)
        assert moved == pytest.approx((1 + error) ** -0.5, rel=0.03)
        assert error == 0 or moved != pytest.approx(1 / (1 + error), rel=0.3)  # near the optimum


@pytest.mark.parametrize("shrunk", [1.0, 0.3])
def test_the_best_learning_rate_needs_steps_in_proportion_to_one_plus_r(shrunk):
    """The best decrease of a quadratic loss by noisy steps is that of exact ones over 1 + r.

    By a z-test of the loss at the rate that is best in expectation, and at half of it, the mutant.
    """
    random, number, draws, error = np.random.default_rng(0), 40, 20_000, 3.0
    exact = random.normal(size=number)  # G, at a point of the loss |w - w*|^2 / 2
    square = exact @ exact
    noise = random.normal(size=(draws, number)) * np.sqrt(error * square / number)
    drawn = shrunk * (exact + noise)
    for rate, is_best in (
        (1 / (shrunk * (1 + error)), True),
        (0.5 / (shrunk * (1 + error)), False),
    ):
        lowered = (square - np.square(exact - rate * drawn).sum(1)) / square
        spread = scipy.stats.norm.isf(FALSE_ALARM / 4) * lowered.std(ddof=1) / draws**0.5
        assert (abs(lowered.mean() - 1 / (1 + error)) < spread) == is_best


@pytest.mark.parametrize("shrunk", [1.0, 0.2])
def test_the_error_is_that_of_the_direction(shrunk):
    """r of g^ = a (G + noise) is the relative variance of the noise, whatever a is."""
    random, number, draws, deviation = np.random.default_rng(0), 50, 40_000, 0.5
    exact = random.normal(size=number)
    noise = random.normal(size=(draws, number)) * deviation
    drawn = shrunk * (exact + noise)
    square = exact @ exact
    found = relative_error(square, np.square(drawn).sum(1).mean(), (drawn @ exact).mean())
    wanted = number * deviation**2 / square
    spread = scipy.stats.norm.isf(FALSE_ALARM / 2) * np.sqrt(6 / draws)
    assert abs(found / wanted - 1) < spread
    assert abs(np.square(drawn).sum(1).mean() / square - 1 - wanted) > spread or shrunk == 1
    assert relative_error(square, 1.0, -0.1) == relative_error(square, np.inf, 1.0) == 1e4


FORMS = {"a": "layer-wise", "b": "node-wise", "c": "subgraph", "d": "full"}
SIZES = {
    "a": [Size(64, 128), Size(256, 128), Size(64, 512), Size(256, 512)],
    "b": [Size(64, 4), Size(256, 4), Size(64, 16), Size(128, 8)],
    "c": [Size(100), Size(200), Size(400)],
    "d": [Size(64), Size(256)],
}


def made_up_points(batch: float = 500.0) -> list[Point]:
    """Points of four kinds whose batches cost the same."""
    own = {"a": (300.0, 9e3), "b": (2e3, 20.0), "c": (700.0, 1e5), "d": (0.0, 0.0)}
    times = {"a": (2.0, 0.01, 0.02), "b": (3.0, 0.02, 0.004), "c": (1.0, 0.1, 0.0)}
    times["d"] = (9.0, 0.3, 0.0)
    points = []
    for kind, form in FORMS.items():
        for size in SIZES[kind]:
            error = float(np.dot((batch, *own[kind]), error_terms(form, size)))
            ms = float(np.dot(times[kind], time_terms(form, size)))
            points.append(Point(kind, size, ms, error, 4))
    return points


def test_the_models_recover_errors_and_times_and_know_their_limits():
    points = made_up_points()
    held_out = {("a", Size(256, 512)), ("b", Size(128, 8)), ("c", Size(400))}
    model = NoiseModel([p for p in points if (p.kind, p.size) not in held_out], FORMS)
    assert model.batch == pytest.approx(500)
    for point in points:
        expected = model.expect(point.kind, point.size)
        assert expected.ms == pytest.approx(point.ms)
        assert expected.error == pytest.approx(point.error)
        assert expected.cost == pytest.approx(point.ms * (1 + point.error) ** 0.75)
        assert model.is_known(point.kind, point.size)
    assert not model.is_known("a", Size(1024, 512))  # four times the largest batch
    assert not model.is_known("c", Size(800))
    # two sizes in which batches and budgets grow together say nothing about one of them alone
    both = [Point("a", Size(64, 128), 1, 1, 3), Point("a", Size(256, 512), 2, 1, 3)]
    assert not NoiseModel(both, FORMS).is_known("a", Size(64, 512))
    # a measured error counts more than the fitted one, the more draws it has
    noisy = [p._replace(error=10.0, draws=12) if p.kind == "d" else p for p in points]
    assert 5 < NoiseModel(noisy, FORMS).expect("d", Size(256)).error < 10


@pytest.mark.parametrize("left", [2.0, 10.0, 500.0])
@pytest.mark.parametrize("every", [None, 25])
def test_steps_and_evaluations_fill_the_time(left, every):
    durations = Durations(step=0.02, evaluation=0.3, setup=0.1)
    found = plan(left, durations, every)
    taken = 0.1 + 0.02 * found.steps + 0.3 * (1 + found.steps / found.evaluate_every)
    assert left - 0.3 - 0.04 <= taken <= left + 0.02
    assert found.evaluations >= 1
    if every is None:
        assert found.evaluations <= 20
        assert 0.3 * found.evaluations <= max(0.15 * left, 0.3)
    assert plan(0.5, durations).steps < 10


def test_kinds_agree_with_what_is_given(dataset):
    def names(**given):
        return list(kinds(GIVEN | given, dataset, 120, 10.0))

    assert set(names()) <= set(KINDS)
    assert names()[0] == "bliss, history"
    assert not any("hist" in name or name in ("bliss", "vrgcn") for name in names(model="gatv2"))
    assert names(sampler="bliss", history="nodes") == ["bliss, history"]
    assert names(sampler="LABOR-1") == ["labor-1"]
    assert set(names(budgets=(20,))) == {"bliss, history", "pladies, history", "bliss", "pladies"}
    assert "bliss, history" not in list(kinds(GIVEN, dataset, 120, 1e-6))  # sums take too long
    with pytest.raises(InputError, match="budgets"):
        names(budgets=(20, 20, 20))
    kind = kinds(
        GIVEN | {"batch_size": 30, "budgets": (9, 8), "sampler": "pladies"}, dataset, 120, 9.0
    )
    (only,) = kind.values()
    assert list(only.sizes()) == only.first_sizes() == [Size(30, 8)]
    assert only.at(Size(30, 8)).sampler.budgets == (9, 8)


def test_kinds_of_data_with_times_see_no_later_edges():
    pairs = torch.randint(0, 20, (2, 60), generator=torch.Generator().manual_seed(0))
    data = Data(x=torch.ones(20, 2), edge_index=pairs, time=torch.arange(60))
    timed = Dataset.from_data(data, time_attr="time")
    found = kinds(GIVEN | {"task": "link"}, timed, 30, 10.0)
    assert {kind.config.sampler.name for kind in found.values()} == {
        "bliss", "pladies", "neighbor", "full",
    }  # fmt: skip
    assert not any(kind.config.sampler.config.is_first_hop_exact for kind in found.values())
    with pytest.raises(InputError, match="times are not possible with sampler 'vrgcn'"):
        kinds(GIVEN | {"task": "link", "sampler": "vrgcn"}, timed, 30, 10.0)
    assert "bliss, history" in kinds(GIVEN | {"task": "link", "split": "random"}, timed, 30, 10.0)


def test_kinds_of_graphs_with_types_draw_every_layer():
    typed = Dataset.from_data(FakeHeteroDataset(1, avg_num_nodes=20)[0])
    found = kinds(GIVEN | {"model": "rsage"}, typed, 30, 10.0)
    assert {kind.config.sampler.name for kind in found.values()} == {
        "bliss", "pladies", "neighbor", "full", "vrgcn",
    }  # fmt: skip
    assert not any(kind.config.sampler.config.is_first_hop_exact for kind in found.values())
    assert found["bliss, history"].config.sampler.config.first_hop == "history"
    asked = kinds(GIVEN | {"model": "rsage", "first_hop": "history"}, typed, 30, 10.0)
    assert "bliss, history" in asked


def chosen(dataset, clock, seconds: float = 1.0, **given) -> Choice:
    settings = {**GIVEN, "sampler": "pladies", "first_hop": "sampled", "history": "none", **given}
    return choose(settings, dataset, seconds, clock=clock)


def test_the_choice_fits_the_time_and_keeps_what_is_given(dataset, monkeypatch):
    def step(stepper):
        return 1e-4 * (5 + stepper.loader.batch_size / 16)

    clock = MadeUpClock(monkeypatch, step)
    said: list[str] = []
    settings = {**GIVEN, "sampler": "pladies", "first_hop": "sampled"}
    found = choose(settings, dataset, 2.0, started=clock.now - 0.5, clock=clock, say=said.append)
    assert said == ["Pilot: at most 0.2 s of 2 s."]
    assert found.pilot_seconds <= 0.2
    training = found.config.training
    own, first = (1e-4 * (5 + size / 16) for size in (training.batch_size, 16))
    whole = 0.5 + first + found.pilot_seconds + own * found.steps + 2e-3 * (found.evaluations + 1)
    assert 2.0 - own - 2e-3 <= whole <= 2.0
    assert (training.schedule, training.patience) == ("linear", 0)
    assert training.steps == found.steps
    best = found.rows[0]
    assert best.cost == min(row.cost for row in found.rows)
    assert best.cost == pytest.approx(best.ms * (1 + best.gradient_error) ** 0.75)
    assert {row.name for row in found.rows} == {"pladies, sampled first hop"}
    assert f"batches of {training.batch_size}" in found.lines[0]
    assert f"{found.steps:,} steps" in found.lines[1]


def test_the_choice_that_is_printed_is_the_one_that_trains(dataset, monkeypatch):
    measure = TimedPilot.measure

    def spoil_the_last(pilot, kind, size, until=MEASURED, **options):
        done = measure(pilot, kind, size, until, **options)
        if until == 1.0:  # of the chosen setting, once more
            pilot.measured[kind.name, size].moments.extend([1e9] * 100)
        return done

    monkeypatch.setattr(TimedPilot, "measure", spoil_the_last)
    settings = {**GIVEN, "first_hop": "sampled"}
    found = choose(settings, dataset, 2.0, clock=MadeUpClock(monkeypatch))
    assert len(found.rows) > 1
    best = found.rows[0]
    config = found.config
    assert best.cost == min(row.cost for row in found.rows)
    assert (best.sampler, best.batch_size) == (config.sampler.name, config.training.batch_size)
    assert tuple(best.budgets) == config.sampler.numbers


def test_larger_batches_are_chosen_where_they_cost_nothing(dataset, monkeypatch):
    free = chosen(dataset, MadeUpClock(monkeypatch))
    dear = chosen(dataset, MadeUpClock(monkeypatch, lambda s: 1e-5 * s.loader.batch_size))
    assert free.config.training.batch_size > dear.config.training.batch_size
    given = chosen(dataset, MadeUpClock(monkeypatch), batch_size=24, budgets=(40, 20), patience=3)
    config = given.config
    assert (config.training.batch_size, config.sampler.budgets) == (24, (40, 20))
    assert config.training.patience == 3


def test_links_are_measured_like_nodes(dataset, monkeypatch):
    found = chosen(dataset, MadeUpClock(monkeypatch), task="link", budgets=(30, 20))
    assert found.config.objective.is_link
    assert found.rows[0].gradient_error < 1e4


def test_a_network_that_learns_nothing_gets_no_choice_but_the_reason(dataset, monkeypatch):
    random = torch.Generator().manual_seed(3)
    nothing = replace(
        dataset, x=torch.ones(240, 3), y=torch.randint(0, 3, (240,), generator=random)
    )
    found = chosen(nothing, MadeUpClock(monkeypatch), seconds=0.6)
    assert found.rows == []
    assert found.causes
    assert "not clearly better than a constant prediction" in found.lines[0]
    assert not any("000,000" in cause for cause in found.causes)  # the pilot's number of steps
    assert found.config.training.batch_size == TrainConfig().training.batch_size
    assert found.steps > 100


@pytest.mark.parametrize(
    ("losses", "learns"),
    [
        ([0.9, 0.7, 0.61, 0.6, 0.6, 0.59], True),
        ([0.9, 0.7, 0.71, 0.7, 0.69, 0.68], False),  # below the constant, but not clearly
        ([0.9, 0.8, 0.8, 0.8, 0.7, 0.7, 0.1, 0.1, 0.1, 0.1], False),  # seeds of later epochs
        ([0.6, 0.1, 0.1], False),  # too few
    ],
)
def test_losses_of_new_seeds_show_that_a_network_learns(losses, learns):
    """Where validation does not, as with batch normalisation after a few steps."""
    pilot = object.__new__(TimedPilot)
    training = SimpleNamespace(batch_size=40)
    objective = SimpleNamespace(num_seeds=240, constant_loss=0.7)
    pilot.task = SimpleNamespace(config=SimpleNamespace(training=training), objective=objective)
    pilot.losses = losses
    for constant in (None, Constant(score=0.5, loss=0.7, network_loss=0.9, z_score=-2, z_loss=-2)):
        pilot.constant = constant
        assert pilot._learns() == learns


@pytest.mark.parametrize(
    ("seconds", "given", "message"),
    [
        (0, {}, "seconds=0 must be a finite number above 0"),
        (-3.0, {}, "seconds=-3.0"),
        (float("nan"), {}, "seconds=nan"),
        (float("inf"), {}, "seconds=inf"),
        (60, {"steps": 100}, r"steps=100 was given beside seconds=60.*pass one of them"),
        (
            60,
            {"budgets": [{"a": 3}, 4]},
            r"budgets=a=3/4 are numbers of types.* a pilot chooses one",
        ),
        (60, {"budgets": "auto"}, r"budgets='auto' was given beside seconds=60.*leave it out"),
    ],
)
def test_bad_times_are_refused_before_data_are_read(seconds, given, message, tmp_path):
    with pytest.raises(InputError, match=message):
        train(tmp_path / "nowhere", seconds=seconds, **given)


def test_a_time_that_is_too_short_is_refused_with_one_that_is_not(dataset, monkeypatch):
    clock = MadeUpClock(monkeypatch, lambda _: 0.05)
    with pytest.raises(InputError, match=r"too short for a pilot, which needs") as error:
        chosen(dataset, clock, seconds=0.5)
    enough = float(str(error.value).split("at least ")[1].rstrip("."))
    assert enough == pytest.approx(10 * 0.05 * (LEAST_DRAWS - 1) / 0.7, rel=0.05)
    assert chosen(dataset, clock, seconds=enough).steps >= 10
    slow = MadeUpClock(monkeypatch, lambda _: 0.01, inference=2.0)
    with pytest.raises(InputError, match=r"10 steps of 10 ms and two evaluations of 2 s: pass at"):
        chosen(dataset, slow, seconds=2.6)


def test_the_time_that_is_suggested_suffices_after_reading_data(dataset, monkeypatch):
    """A longer time has a longer pilot, which must not take the time of the steps."""
    clock = MadeUpClock(monkeypatch, lambda _: 0.01, inference=2.0)
    settings = {**GIVEN, "sampler": "pladies", "first_hop": "sampled", "history": "none"}

    def choose_after_reading(seconds: float) -> Choice:
        return choose(settings, dataset, seconds, started=clock.now - 9.0, clock=clock)

    with pytest.raises(InputError, match="too short for a pilot, 10 steps") as error:
        choose_after_reading(4.0)
    enough = float(str(error.value).split("at least ")[1].rstrip("."))
    assert choose_after_reading(enough).steps >= 10
    durations = Durations(step=0.01, evaluation=2.0, setup=1.0)
    least = least_seconds(10, durations, before=9.0, pilot_share=0.1)
    assert plan(least - 9.0 - 0.1 * least + 1e-9, durations).steps == 10


@pytest.mark.parametrize(
    ("processes", "given", "message"),
    [
        (2, {}, "seconds=60 needs a single process.*start the command that it prints with torchr"),
        (1, {"windows": 3}, "seconds=60 is the time of one run, but windows=3: pass --window"),
    ],
)
def test_several_processes_and_windows_are_refused(processes, given, message):
    with pytest.raises(InputError, match=message):
        check_timed(GIVEN | given, 60, processes)
    check_timed(GIVEN | given | ({"window": 2} if given else {}), 60)


def test_an_interrupted_run_ends_with_the_bits_of_a_whole_one(dataset, tmp_path, monkeypatch):
    """The settings are those that a pilot chose; resuming runs neither a pilot nor its clock."""
    settings = {**GIVEN, "sampler": "pladies", "seed": 3}
    own = {name: value for name, value in settings.items() if name != "dataset"}
    clock = MadeUpClock(monkeypatch, lambda _: 0.02, inference=0.05)
    found = choose(settings, dataset, 4.0, clock=clock)
    monkeypatch.setattr(timed_run, "choose", lambda *_, **__: found)
    train(dataset, tmp_path / "whole", seconds=4.0, say=quiet, **own)
    config = timed_config(tmp_path / "part", settings, dataset, 4.0, say=quiet)
    stopped(Trainer(config, dataset, tmp_path / "part", quiet), found.steps // 2, signal.SIGTERM)
    assert RunFolder(tmp_path / "part").settings() == found.config

    def refuse(*_, **__):
        raise AssertionError("a second pilot")

    monkeypatch.setattr(timed_run, "choose", refuse)
    train(dataset, tmp_path / "part", seconds=4.0, resume=True, say=quiet, **own)
    assert RunFolder(tmp_path / "part").result().steps == found.steps
    assert_same_run(tmp_path / "whole", tmp_path / "part")


def test_a_resumed_run_needs_no_pilot_and_ends_with_the_same_bits(dataset, tmp_path, monkeypatch):
    settings = {**GIVEN, "seed": 3}
    config = resolve(**settings, sampler="bliss", history="nodes", budgets=(24,), batch_size=30)
    config = config.with_settings(steps=14, evaluate_every=4, schedule="linear")
    values = dict.fromkeys(Choice.__struct_fields__, 0.0) | {
        "rows": [], "unmeasured": [], "causes": [], "lines": [], "settings": config.to_dict(),
    }  # fmt: skip
    monkeypatch.setattr(timed_run, "choose", lambda *_, **__: Choice(**values))
    first = Trainer(
        timed_config(tmp_path / "a", settings, dataset, 60.0, say=quiet),
        dataset,
        tmp_path / "a",
        quiet,
    )
    first.run()
    part = Trainer(config, dataset, tmp_path / "b", quiet)
    stopped(part, 6, signal.SIGTERM)

    def refuse(*_, **__):
        raise AssertionError("a second pilot")

    monkeypatch.setattr(timed_run, "choose", refuse)
    own = {name: value for name, value in settings.items() if name != "dataset"}
    result = train(dataset, tmp_path / "b", seconds=60.0, resume=True, say=quiet, **own)
    assert result.steps == 14
    assert RunFolder(tmp_path / "a").metrics() == RunFolder(tmp_path / "b").metrics()
    ours, theirs = (RunFolder(tmp_path / name).load_best() for name in "ab")
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    for other in ({"lr": 0.5}, {"batch_size": 31}, {"sampler": "pladies"}, {"eta": 0.3}):
        with pytest.raises(InputError, match=f"settings differ.*{next(iter(other))}"):
            train(
                dataset,
                tmp_path / "b",
                seconds=60.0,
                resume=True,
                say=quiet,
                **(own | other),
            )
    with pytest.raises(InputError, match="already holds a run"):
        train(dataset, tmp_path / "b", seconds=60.0, say=quiet, **own)
