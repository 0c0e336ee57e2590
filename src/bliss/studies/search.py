"""A small search for the learning rate and the dropout, the same for every sampler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
        (float(f"{factor * config.training.lr:.3g}"), dropout)
        for dropout in dict.fromkeys((config.network.dropout, *DROPOUTS))
        for factor in RATES
    ]
    found[0] = (config.training.lr, config.network.dropout)
    return found[:number]


def tuning_seed(seeds: Sequence[int]) -> int:
    """The least seed that no test run has."""
    return next(seed for seed in range(len(seeds) + 1) if seed not in seeds)


def trials(
    name: str, config: TrainConfig, settings: Sequence[Setting], seeds: Sequence[int]
) -> list[Cell]:
    """One run per setting, with a seed of its own, on the splits of the first test seed.

    Only validation F1 of that split is looked at. With random splits, its validation nodes may be
    test nodes of other seeds.
    """
    seed = tuning_seed(seeds)
    return [
        Cell(
            f"{name}-search-{number}",
            config.with_settings(lr=lr, dropout=dropout, seed=seed),
            split_seed=seeds[0],
        )
        for number, (lr, dropout) in enumerate(settings)
    ]


def chosen(cells: Sequence[Cell], outcomes: Mapping[str, Outcome]) -> tuple[Setting, Search]:
    """The setting of the best validation F1 (the first of equal ones), and what it cost.

    Trials without an outcome have diverged.
    """
    done = [outcomes[cell.name] for cell in cells if cell.name in outcomes]
    if not done:
        first = cells[0].config
        raise InputError(
            f"search={len(cells)}: every trial of {first.sampler.name} diverged: lower lr "
            f"(now {first.training.lr:g}) with --lr, and choose another folder with --out."
        )
    best = max(done, key=lambda one: one.result.val_score)
    found = Search(
        trials=[
            Trial(
                lr=cell.config.training.lr,
                dropout=cell.config.network.dropout,
                val_score=outcomes[cell.name].result.val_score if cell.name in outcomes else None,
            )
            for cell in cells
        ],
        seconds=sum(one.result.seconds for one in done),
    )
    config = best.cell.config
    return (config.training.lr, config.network.dropout), found
