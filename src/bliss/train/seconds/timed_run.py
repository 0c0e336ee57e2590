"""Settings of a run that takes a given time, also of one that was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bliss.data import Dataset
from bliss.errors import InputError
from bliss.train.config import PLACES, TrainConfig
from bliss.train.config_parts import AUTO
from bliss.train.folder import RunFolder
from bliss.train.recipe import resolve
from bliss.train.seconds.choice import check_seconds, choose

CHOSEN = ("batch_size", "steps", "evaluate_every", "schedule", "patience")
"""Settings of training that `choose` sets, beside those of the sampler."""


def check_timed(settings: Mapping[str, Any], seconds: float, processes: int = 1) -> TrainConfig:
    """Check settings before any work starts; returns them with defaults for what is chosen."""
    check_seconds(seconds, settings)
    if settings.get("budgets") == AUTO:
        raise InputError(
            f"budgets='auto' was given beside seconds={seconds:g}, which chooses budgets, too: "
            "leave it out."
        )
    if processes > 1:
        raise InputError(
            f"seconds={seconds:g} needs a single process, because the pilot measures times: run "
            "`bliss advise --seconds` first, and start the command that it prints with torchrun."
        )
    config = resolve(**settings)
    config.sampler.check_numbers()
    if config.objective.windows > 1 and not config.objective.window:
        raise InputError(
            f"seconds={seconds:g} is the time of one run, but windows={config.objective.windows}: "
            "pass --window, or run `bliss advise --seconds` first and pass the settings that it "
            "chooses."
        )
    return config


def timed_config(
    place: Path,
    settings: Mapping[str, Any],
    dataset: Dataset,
    seconds: float,
    *,
    started: float | None = None,
    say: Callable[[str], None],
) -> TrainConfig:
    """Settings of a run in a folder: those of the run that was started there, or new ones.

    A run that was started needs no pilot and no clock: what was chosen then is in its config.json.
    Other settings are the given ones, so that `Trainer` can compare them with those of the run.
    """
    run = RunFolder(place)
    if run.is_started:
        return _stored(run.settings(), settings)
    choice = choose(settings, dataset, seconds, started=started, say=say)
    for line in choice.lines:
        say(line)
    for number, cause in enumerate(choice.causes, start=1):
        say(f"  Likely cause {number}: {cause}")
    return choice.config


def _stored(then: TrainConfig, settings: Mapping[str, Any]) -> TrainConfig:
    """The given settings, with those of a run where they were chosen."""
    given = {name: value for name, value in settings.items() if value is not None}
    chosen = {name: value for name, value in then.flat().items() if name in CHOSEN}
    chosen |= {name: given[name] for name in CHOSEN if name in given}
    if str(given.get("sampler", then.sampler.name)).lower() != then.sampler.name:
        return resolve(**settings).with_settings(**chosen)
    plain = resolve(**{**given, "sampler": then.sampler.name, "budgets": ()})
    budgets = given.get("budgets", then.sampler.budgets)
    options = {name: value for name, value in given.items() if name not in PLACES}
    return plain.with_settings(
        **chosen, **then.sampler.config.to_dict() | options, budgets=tuple(budgets)
    )
