"""A small search for the learning rate and the dropout, the same for every sampler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bliss.errors import InputError
from bliss.studies.records import Search, Trial
from bliss.studies.runs import Cell, Outcome
from bliss.train import TrainConfig

RATES = (1.0, 3.0, 1 / 3)
DROPOUTS = (0.0, 0.5, 0.25)
LARGEST = len(RATES) * (1 + len(DROPOUTS))
"""Largest number of settings to search."""

Setting = tuple[float, float]  # learning rate, dropout


def candidates(config: TrainConfig, number: int) -> list[Setting]:
    """The first settings of a fixed list: the recipe's, then other rates, then other dropouts."""
    if not 0 <= number <= LARGEST:
        raise InputError(f"search={number} must be from 0 (no search) to {LARGEST}: start with 6.")
    found = [
        (float(f"{factor * config.lr:.3g}"), dropout)
        for dropout in dict.fromkeys((config.dropout, *DROPOUTS))
        for factor in RATES
    ]
    found[0] = (config.lr, config.dropout)
    return found[:number]


def tuning_seed(seeds: Sequence[int]) -> int:
    """The least seed that no test run has."""
    return next(seed for seed in range(len(seeds) + 1) if seed not in seeds)


def trials(
    name: str, config: TrainConfig, settings: Sequence[Setting], seeds: Sequence[int]
) -> list[Cell]:
    """One run per setting, with a seed of its own, on the splits of the first test seed."""
    seed = tuning_seed(seeds)
    return [
        Cell(
            f"{name}-search-{number}",
            replace(config, lr=lr, dropout=dropout, seed=seed),
            split_seed=seeds[0],
        )
        for number, (lr, dropout) in enumerate(settings)
    ]


def chosen(outcomes: Sequence[Outcome]) -> tuple[Setting, Search]:
    """The setting of the best validation F1 (the first of equal ones), and what it cost."""
    best = max(outcomes, key=lambda one: one.result.val_f1)
    found = Search(
        trials=[
            Trial(lr=one.cell.config.lr, dropout=one.cell.config.dropout, val_f1=one.result.val_f1)
            for one in outcomes
        ],
        seconds=sum(one.result.seconds for one in outcomes),
    )
    return (best.cell.config.lr, best.cell.config.dropout), found
