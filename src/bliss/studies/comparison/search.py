"""A small search for the learning rate and the dropout, the same for every sampler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bliss.errors import InputError
from bliss.studies.comparison.comparison_record import Search, Trial
from bliss.studies.comparison.runs import Outcome, StudyRun
from bliss.train import TrainConfig
from bliss.train.results import gain

RATES = (1.0, 3.0, 1 / 3)
DROPOUTS = (0.0, 0.5, 0.25)
LARGEST = len(RATES) * (1 + len(DROPOUTS))
"""Largest number of settings to search."""

Tuning = tuple[float, float]  # learning rate, dropout


def candidates(config: TrainConfig, number: int) -> list[Tuning]:
    """The first settings of a fixed list: the recipe's, then other rates, then other dropouts."""
    if not 0 <= number <= LARGEST:
        raise InputError(f"search={number} must be from 0 (no search) to {LARGEST}: start with 6.")
    settings = [
        (float(f"{factor * config.training.lr:.3g}"), dropout)
        for dropout in dict.fromkeys((config.network.dropout, *DROPOUTS))
        for factor in RATES
    ]
    settings[0] = (config.training.lr, config.network.dropout)
    return settings[:number]


def tuning_seed(seeds: Sequence[int]) -> int:
    """The least seed that no test run has."""
    return next(seed for seed in range(len(seeds) + 1) if seed not in seeds)


def trials(
    name: str, config: TrainConfig, settings: Sequence[Tuning], seeds: Sequence[int]
) -> list[StudyRun]:
    """One run per setting, with a seed of its own, on the splits of the first test seed.

    Only the validation score of that split is looked at. With random splits, its validation nodes
    may be test nodes of other seeds.
    """
    seed = tuning_seed(seeds)
    return [
        StudyRun(
            f"{name}-search-{number}",
            config.with_settings(lr=lr, dropout=dropout, seed=seed),
            split_seed=seeds[0],
        )
        for number, (lr, dropout) in enumerate(settings)
    ]


def chosen(runs: Sequence[StudyRun], outcomes: Mapping[str, Outcome]) -> tuple[Tuning, Search]:
    """The setting of the best validation score (the first of equal ones), and what it cost.

    Trials without an outcome have diverged.
    """
    done = [outcomes[run.name] for run in runs if run.name in outcomes]
    if not done:
        first = runs[0].config
        raise InputError(
            f"search={len(runs)}: every trial of {first.sampler.name} diverged: lower lr "
            f"(now {first.training.lr:g}) with --lr, and choose another folder with --out."
        )
    best = max(done, key=lambda one: gain(one.result.metric, one.result.val_score))
    search = Search(
        trials=[
            Trial(
                lr=run.config.training.lr,
                dropout=run.config.network.dropout,
                val_score=outcomes[run.name].result.val_score if run.name in outcomes else None,
            )
            for run in runs
        ],
        seconds=sum(outcome.result.seconds for outcome in done),
    )
    config = best.run.config
    return (config.training.lr, config.network.dropout), search
