"""Settings of a run that takes a given time: what `bliss train --seconds` trains with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from time import perf_counter
from typing import Any

from bliss import checks
from bliss.data import Dataset
from bliss.errors import InputError
from bliss.storage.records import Record
from bliss.train.causes import likely_causes
from bliss.train.config import TrainConfig
from bliss.train.recipe import resolve
from bliss.train.seconds.gradient_noise import Expected, NoiseModel, Size
from bliss.train.seconds.kinds import Kind, kinds
from bliss.train.seconds.schedule import Durations, least_seconds, plan
from bliss.train.seconds.timed_pilot import Clock, TimedPilot, TooSlow
from bliss.train.task import Task, build_task

PILOT = 0.1
"""Largest share of the time that the pilot takes."""
LEAST_STEPS = 10
"""Least number of steps of a run."""
MOST_FIRST = 3
"""Sizes of a kind that are measured before the models are used."""
HOPELESS = 3.0
"""A kind that costs this many times the best one is measured at no other size."""
SHOWN = 3
"""Other kinds that the reason names."""
ENOUGH_DRAWS = 20
"""Draws of the best setting after which nothing more is measured."""


class TimedRow(Record, frozen=True, kw_only=True):
    """A kind of sampler at its best size: what is expected of it."""

    name: str
    sampler: str
    batch_size: int
    budgets: list[int]
    ms: float
    """Milliseconds of a step."""
    gradient_error: float
    """Squared error of the gradient's direction, r in `gradient_noise`."""
    cost: float
    """ms (1 + gradient_error)^(3/4), in proportion to the time of training."""
    draws: int
    """Gradients of this size that were measured."""


class Choice(Record, frozen=True, kw_only=True, tag_field="kind", tag="choice"):
    """Settings for a given time, and why they were chosen."""

    seconds: float
    """Time of the run, pilot included."""
    pilot_seconds: float
    evaluation_seconds: float
    rows: list[TimedRow]
    """All kinds of sampler that were measured, the best first; empty if nothing is chosen."""
    unmeasured: list[str]
    """Kinds for which there was no time."""
    causes: list[str]
    """Likely causes if the pilot has learnt nothing, so that nothing is chosen."""
    steps: int
    evaluations: int
    lines: list[str]
    """The choice, the reason and the number of steps, in plain words."""
    settings: dict[str, Any]
    """Settings of the run, for `TrainConfig.from_dict`."""

    @property
    def config(self) -> TrainConfig:
        """Settings of the run, for `Trainer`."""
        return TrainConfig.from_dict(self.settings)


def check_seconds(seconds: float, given: Mapping[str, Any]) -> None:
    """Refuse times that are no time, and a number of steps beside them."""
    checks.positive("seconds", seconds, "pass the time of the whole run, such as 60.")
    if given.get("steps") is not None:
        raise InputError(
            f"steps={given['steps']} was given beside seconds={seconds:g}, from which the number "
            "of steps follows: pass one of them."
        )


def choose(
    settings: Mapping[str, Any],
    dataset: Dataset,
    seconds: float,
    *,
    started: float | None = None,
    clock: Clock = perf_counter,
    say: Callable[[str], None] = lambda _: None,
) -> Choice:
    """Settings of a run that takes about `seconds`, the pilot and all evaluations included.

    The pilot takes at most a tenth of the time. It chooses sampler, history, first hop, batch size
    and budgets by the cost of `gradient_noise`; settings that are given stay. The learning rate
    falls linearly to 0 unless a schedule is given. If the network of the pilot is no better than a
    constant prediction, nothing is chosen, and the settings are those given and the defaults.

    `settings` are those of `resolve`, without steps. `started` is when the time began, by `clock`;
    default: now. `say` is called with the length of the pilot, before it starts.
    """
    started = clock() if started is None else started
    given = {name: value for name, value in settings.items() if value is not None}
    check_seconds(seconds, given)
    default, began = resolve(**given), clock()
    task = build_task(default, dataset)
    task_seconds = clock() - began
    offered = kinds(given, dataset, task.objective.num_seeds, PILOT * seconds)
    say(f"Pilot: at most {PILOT * seconds:.3g} s of {seconds:g} s.")
    pilot = TimedPilot(offered, task, PILOT * seconds, clock)
    try:
        pilot.train()
    except TooSlow as slow:
        raise InputError(
            f"seconds={seconds:g} is too short for a pilot, which needs {slow.seconds:.2g} s and "
            f"has a tenth of the time: pass at least {_rounded_up(slow.seconds / PILOT)}."
        ) from None
    pilot.refer()
    rows = list[TimedRow]()
    if pilot.has_learnt and pilot.has_weights:
        measure_all(pilot)
        name, size = best_setting(pilot.model(), offered)
        kind, rows = offered[name], _rows(pilot)
    else:
        kind, size = _default_kind(task)
    pilot.measure(kind, size, until=1.0, must=(kind.name, size) not in pilot.measured)
    durations = Durations(
        step=pilot.step_seconds(kind, size),
        evaluation=pilot.evaluation_seconds + pilot.checkpoint_seconds(kind, size),
        setup=task_seconds + pilot.setup[kind.name],
    )
    pilot_seconds = clock() - pilot.started
    schedule = plan(seconds - (clock() - started), durations, given.get("evaluate_every"))
    if schedule.steps < LEAST_STEPS:
        needed = least_seconds(LEAST_STEPS, durations, pilot.started - started, PILOT)
        raise InputError(
            f"seconds={seconds:g} is too short for a pilot, {LEAST_STEPS} steps of "
            f"{1e3 * durations.step:.0f} ms and two evaluations of {durations.evaluation:.2g} s: "
            f"pass at least {_rounded_up(1.1 * needed)}."
        )
    config = kind.at(size).with_settings(
        steps=schedule.steps,
        evaluate_every=schedule.evaluate_every,
        schedule=given.get("schedule", "linear"),
        patience=given.get("patience", 0),
    )
    return Choice(
        seconds=seconds,
        pilot_seconds=pilot_seconds,
        evaluation_seconds=durations.evaluation,
        rows=rows,
        unmeasured=[name for name in offered if name not in {row.name for row in rows}],
        causes=[] if pilot.has_learnt else likely_causes(pilot.task, len(pilot.losses)),
        steps=schedule.steps,
        evaluations=schedule.evaluations,
        lines=[
            _reason(rows) if rows else _no_reason(pilot),
            f"{schedule.steps:,} steps of {1e3 * durations.step:.1f} ms with a "
            f"{config.training.schedule} schedule, {schedule.evaluations} evaluations of "
            f"{durations.evaluation:.2g} s.",
        ],
        settings=config.to_dict(),
    )


def measure_all(pilot: TimedPilot) -> None:
    """Measure all kinds at a first size, the better ones at others, and then what seems best.

    A kind that costs HOPELESS times the best one is not measured at a second size. What is not
    expected to fit into the time is left out. If nothing fits, the kind that trained is measured.
    """
    costs: dict[str, float] = {}
    for number in range(MOST_FIRST):
        for kind in sorted(pilot.kinds.values(), key=lambda one: costs.get(one.name, 0.0)):
            sizes = kind.first_sizes()
            is_hopeless = costs.get(kind.name, 0.0) > HOPELESS * min(costs.values(), default=1.0)
            if number < len(sizes) and not is_hopeless and pilot.measure(kind, sizes[number]):
                point = pilot.points()[-1]
                cost = Expected(point.ms, point.error).cost
                costs[kind.name] = min(cost, costs.get(kind.name, cost))
    if not pilot.measured:
        pilot.measure(pilot.teacher, pilot.teacher.first_sizes()[0], must=True)
    while True:
        name, size = best_setting(pilot.model(), pilot.kinds)
        known = pilot.measured.get((name, size))
        if known is not None and len(known.moments) >= ENOUGH_DRAWS:
            return
        if not pilot.measure(pilot.kinds[name], size):
            return


def best_sizes(model: NoiseModel, offered: Mapping[str, Kind]) -> dict[str, tuple[Size, Expected]]:
    """The size of least cost of every measured kind, the best kind first."""
    found = {}
    for name in model.time:
        known = [size for size in offered[name].sizes() if model.is_known(name, size)]
        known += [size for kind, size in model.points if kind == name and size not in known]
        size = min(known, key=lambda one: model.expect(name, one).cost)
        found[name] = size, model.expect(name, size)
    return dict(sorted(found.items(), key=lambda item: item[1][1].cost))


def best_setting(model: NoiseModel, offered: Mapping[str, Kind]) -> tuple[str, Size]:
    """Kind and size of least cost."""
    name, (size, _) = next(iter(best_sizes(model, offered).items()))
    return name, size


def _rounded_up(seconds: float) -> str:
    """A time to be passed: whole seconds, or tenths of a few."""
    return f"{ceil(seconds)}" if seconds > 10 else f"{ceil(10 * seconds) / 10:g}"


def _default_kind(task: Task) -> tuple[Kind, Size]:
    """The settings without a choice, as a kind with one size."""
    config, nodes = task.config, task.graph.num_nodes
    batch_size, budgets = config.training.batch_size, config.sampler.numbers
    kind = Kind("default", config, task.objective.num_seeds, nodes, batch_size, budgets)
    return kind, next(iter(kind.sizes()))


def _rows(pilot: TimedPilot) -> list[TimedRow]:
    """All kinds that were measured, the best first."""
    model, found = pilot.model(), []
    for name, (size, expected) in best_sizes(model, pilot.kinds).items():
        config, point = pilot.kinds[name].at(size), model.points.get((name, size))
        row = TimedRow(
            name=name,
            sampler=config.sampler.name,
            batch_size=size.batch_size,
            budgets=list(config.sampler.numbers),
            ms=expected.ms,
            gradient_error=expected.error,
            cost=expected.cost,
            draws=0 if point is None else point.draws,
        )
        found.append(row)
    return found


def _reason(rows: Sequence[TimedRow]) -> str:
    """The choice, and how much longer others are expected to take to the same loss."""
    best, *others = rows
    budgets = f", budgets {','.join(map(str, best.budgets))}" if best.budgets else ""
    text = (
        f"Choice: {best.name}, batches of {best.batch_size}{budgets}: {best.ms:.1f} ms a step, "
        f"gradient error {best.gradient_error:.2g}"
    )
    if not others:
        return f"{text}."
    longer = [f"{row.name} {row.cost / best.cost:.2g}" for row in others[:SHOWN]]
    return f"{text}. Expected time to the same loss, relative to the choice: {', '.join(longer)}."


def _no_reason(pilot: TimedPilot) -> str:
    """Why nothing is chosen."""
    if pilot.has_learnt:
        return "No choice: the network has no weights whose gradients could be compared."
    constant = pilot.task.objective.constant_loss
    return (
        f"No choice: after {len(pilot.losses)} steps the network is not clearly better than a "
        f"constant prediction (loss {pilot.losses[-1]:.3g}, of the constant {constant:.3g})."
    )
