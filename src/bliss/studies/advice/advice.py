"""Advice: which sampler, estimator, first hop, history and budgets to train with.

A pilot trains the network for a few steps. On the network as it is then, each kind of sampler is
measured at several budgets: the error of the gradient and the time of a step. Models of both
(`budgets`, `costs`), with the layers' errors in closed form (`layer_errors`), give the budgets of
least ms (1 + r) with r at most a limit. The least of all kinds is the advice.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from bliss import checks
from bliss.data import Dataset
from bliss.errors import InputError
from bliss.studies.advice.advice_record import Advice, AdviceRow
from bliss.studies.advice.budgets import Budgets
from bliss.studies.advice.candidates import (
    KINDS,
    Candidate,
    configs,
    references,
    with_best_estimator,
)
from bliss.studies.advice.pilot import Pilot
from bliss.studies.provenance import machine, today
from bliss.train import TrainConfig, resolve
from bliss.train.results import title_of
from bliss.train.time_task import sees_times

PILOT_STEPS = 60
"""Steps of a pilot."""
LIMIT = 0.1
"""Largest relative error of the gradient that is accepted."""
ROUNDING = 1e-9
"""A smaller variance of the gradient between batches, over its square, is an error of rounding."""
DEFAULT = "default"
"""Name of the row of the settings without advice."""


def advise(
    settings: Mapping[str, Any],
    dataset: Dataset,
    *,
    pilot_steps: int = PILOT_STEPS,
    limit: float = LIMIT,
    compare: bool = True,
    root: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Advice:
    """Advice for a data set and settings of a run.

    The choice depends on measured times, so that two calls can differ. Nothing is recommended if
    the network of the pilot is no better than a constant prediction: `choice` is then None, and
    `causes` lists the likely causes.

    Parameters
    ----------
    settings
        Settings as `resolve` takes them. Sampler, estimator, first_hop, history and options of the
        sampler that are given stay as they are. Budgets are chosen, and so is the estimator if it
        is not given: the one with the smaller error of the gradient.
    dataset
        The data set of the settings.
    pilot_steps
        Steps of the pilot.
    limit
        Largest relative error of the gradient that is accepted.
    compare
        Whether to compare the choice with PLADIES, neighbour sampling and full neighbourhoods,
        and to measure again what is expected of them.
    root
        Folder of data sets, for the command.
    say
        Function called with messages of progress.
    """
    started = perf_counter()
    checks.whole("pilot_steps", pilot_steps, least=2)
    checks.positive("limit", limit, "start with 0.1.")
    given = {k: v for k, v in settings.items() if v is not None and k != "budgets"}
    has_times = sees_times(resolve(**given).objective, dataset)
    size = dataset.graph.num_nodes, dataset.num_features, has_times
    offered = _eligible(given, has_times)
    eligible = {name: config.fitted(*size) for name, config in offered.items()}
    teacher = max(eligible.values(), key=lambda config: config.sampler.config.has_history)
    say(f"Pilot: {pilot_steps} steps with {teacher.sampler.name}")
    pilot = Pilot(teacher, dataset, pilot_steps)
    if not pilot.assessment.has_learnt:
        return _no_advice(pilot, resolve(**given).fitted(*size), limit, started)
    wanted = {name: with_best_estimator(config, pilot, given) for name, config in eligible.items()}
    others = references(given) if compare else {}
    wanted |= {name: others[name].fitted(*size) for name in others if name not in wanted}
    choices: list[tuple[AdviceRow, Candidate]] = []
    for name, config in wanted.items():
        say(f"Measuring {name}")
        candidate = Candidate(name, config, pilot, limit)
        choices.append((_row(name, candidate, candidate.choose()), candidate))
    best, chosen = min(
        (choice for choice in choices if choice[0].name in eligible), key=_rank(limit)
    )
    if compare:
        say("Checking expected errors and times")
        default = resolve(**given).fitted(*size)
        usual = next((kind for _, kind in choices if kind.config == default), None)
        usual = usual or Candidate(DEFAULT, default, pilot, limit)
        usual.measure([default.sampler.numbers])
        choices.append((_row(DEFAULT, usual, default.sampler.numbers), usual))
        checked = {best.name, DEFAULT, *others}
        choices = [
            (_checked(row, candidate) if row.name in checked else row, candidate)
            for row, candidate in choices
        ]
        best = next(row for row, _ in choices if row.name == best.name)
    config = chosen.config.with_settings(budgets=best.budgets)
    rows = [row for row, _ in choices]
    noise = pilot.noise.batch / max(pilot.noise.square, 1e-300)
    return _advice(
        pilot,
        config,
        limit,
        started,
        command=command(given, config, root),
        reason=_reason(best, rows),
        choice=best,
        rows=rows,
        batch_noise=noise,
        variance_note=_variance_note(rows[-1] if compare else best, noise, limit, pilot)
        + _sharing_note(pilot),
        fits=[c.fit() for c in dict.fromkeys(c for _, c in choices) if len(c.settings) > 1],
    )


def _advice(
    pilot: Pilot, config: TrainConfig, limit: float, started: float, **found: Any
) -> Advice:
    """The advice, by default that nothing is recommended."""
    nothing: dict[str, Any] = {"command": "", "choice": None, "rows": [], "fits": [], "causes": []}
    return Advice(
        dataset=config.data.dataset,
        model=config.network.model,
        batch_size=config.training.batch_size,
        limit=limit,
        pilot_steps=pilot.steps,
        seconds=perf_counter() - started,
        machine=machine(),
        date=today(),
        settings=config.to_dict(),
        **nothing | {"batch_noise": 0.0, "variance_note": ""} | found,
    )


def _no_advice(pilot: Pilot, config: TrainConfig, limit: float, started: float) -> Advice:
    """Advice that recommends nothing: errors of the gradient of such a network mean nothing."""
    constant = pilot.assessment.splits["val"].constant
    score = title_of(pilot.assessment.metric, pilot.assessment.ranks)
    shown = "not finite" if constant.network_loss is None else f"{constant.network_loss:.3g}"
    loss = "" if constant.loss is None else f"loss {shown}, of the constant {constant.loss:.3g}; "
    reason = (
        f"No recommendation: after {len(pilot.losses)} steps the network is no better than a "
        f"constant prediction on validation {pilot.task.objective.unit} ({loss}{score} of the "
        f"constant {constant.score or 0:.3g})."
    )
    causes = pilot.assessment.causes
    return _advice(pilot, config, limit, started, reason=reason, causes=causes)


def _eligible(given: Mapping[str, Any], has_times: bool) -> dict[str, TrainConfig]:
    """Settings of what can be advised; raises an error if there is nothing."""
    if (lasting := resolve(**given).sampler.config.lasting) > 1:
        raise InputError(
            f"coin_steps={lasting} is not supported by the pilot, whose expected errors assume new "
            "coins in every step: leave it out, and add it to the command that is advised."
        )
    eligible = configs(given, has_times)
    kind = resolve(**given).sampler
    if not eligible and has_times and (reason := kind.config.times_refused):
        raise InputError(f"times are not possible with sampler {kind.name!r}, because {reason}.")
    if not eligible:
        names = dict.fromkeys(str(kind["sampler"]) for kind in KINDS.values())
        raise InputError(
            f"advice is not supported for sampler={kind.name!r} with these options: "
            f"choose one of {', '.join(names)}, with the estimator ht or hajek, or pass budgets as "
            "numbers."
        )
    return eligible


def command(given: Mapping[str, Any], config: TrainConfig, root: Path | None = None) -> str:
    """The command that trains with a choice, and with all settings that were given."""
    options = {**given, "dataset": config.data.dataset, "model": config.network.model}
    options["sampler"] = config.sampler.name
    chosen, is_exact = config.flat(), config.sampler.config.is_first_hop_exact
    for name in ("estimator", "first_hop", "history"):
        value = chosen.get(name)
        if value not in (None, "none", "sampled") or (value == "none" and is_exact):
            options[name] = value  # by default, an exact first hop may come with a history
    if config.sampler.budgets:
        options["budgets"] = ",".join(map(str, config.sampler.budgets))
    words = ["bliss", "train"]
    for name, value in (options | ({} if root is None else {"root": root})).items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            is_list = isinstance(value, (tuple, list))
            words += [f"--{flag}", ",".join(map(str, value)) if is_list else str(value)]
    return shlex.join(words)


def _rank(limit: float) -> Callable[[tuple[AdviceRow, Candidate]], tuple[float, float]]:
    return lambda choice: (max(choice[0].gradient_error - limit, 0.0), choice[0].cost)


def _row(name: str, candidate: Candidate, budgets: Budgets) -> AdviceRow:
    expected, options = candidate.expect(budgets), candidate.config.flat()
    return AdviceRow(
        name=name,
        sampler=candidate.config.sampler.name,
        estimator=str(options.get("estimator", "")),
        first_hop=str(options.get("first_hop", "")),
        history=str(options.get("history", "")),
        budgets=list(budgets),
        errors=list(expected.errors),
        gradient_error=expected.gradient_error,
        ms=expected.ms,
        cost=expected.cost,
    )


def _checked(row: AdviceRow, candidate: Candidate) -> AdviceRow:
    error, ms = candidate.check(tuple(row.budgets))
    return replace(row, measured_error=error, measured_ms=ms)


def _variance_note(row: AdviceRow, batch_noise: float, limit: float, pilot: Pilot) -> str:
    """Sentence on whether the variance of sampling matters, with the settings of a row."""
    if pilot.is_fitted:
        return (
            f"The network has fitted its training {pilot.task.objective.unit} after "
            f"{len(pilot.losses)} steps of the pilot (loss {pilot.losses[-1]:.2g}, at first "
            f"{pilot.losses[0]:.2g}), so the variance of sampling hardly matters. Pass "
            "a larger --limit for faster steps."
        )
    error = row.gradient_error if row.measured_error is None else row.measured_error
    has_noise = batch_noise > ROUNDING  # not if every batch has all training seeds
    ratio = f", {error / batch_noise:.2g} times the variance between batches" if has_noise else ""
    verdict = "matters" if error > limit else "hardly matters"
    return (
        f"With the {row.name} settings, sampling adds a relative squared error of "
        f"{error:.2g} to the gradient{ratio}: "
        f"the variance of sampling {verdict} there."
    )


def _sharing_note(pilot: Pilot) -> str:
    """Sentence on what layer-wise samplers lose by sharing sources in time; empty without times."""
    if not pilot.task.graph.has_times:
        return ""
    is_ordered = pilot.task.config.objective.order == "time"
    remedy = "" if is_ordered else "; --order time makes it smaller"
    return (
        " Sources that layer-wise samplers share in time see less than in trees of their own. This "
        f"changes the gradient by {pilot.sharing_error:.2g} of its square, which is not counted as "
        f"an error{remedy}."
    )


def _reason(best: AdviceRow, rows: list[AdviceRow]) -> str:
    """One sentence: what is expected and measured of the choice, and of the references."""
    others = [
        f"{row.name} {row.ms:.0f} ms and {row.gradient_error:.2g}"
        for row in rows
        if row.name in ("pladies", "neighbor", "full") and row.name != best.name
    ]
    again = ""
    if best.measured_ms is not None:
        again = f" (measured again: {best.measured_ms:.0f} ms and {best.measured_error:.2g})"
    beside = f", {', '.join(others)}" if others else ""
    return (
        f"{best.name} is expected to need the least time, ms per step x (1 + gradient error): "
        f"{best.ms:.0f} ms and {best.gradient_error:.2g}{again}{beside}."
    )
