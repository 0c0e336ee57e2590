"""Sizes of samplers: budgets with units, their scale, and the sizes of their authors.

A size is a tuple: one number per sampled layer, or the batch size of a subgraph sampler.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

from bliss.data import canonical
from bliss.errors import InputError
from bliss.samplers.config_base import SamplerConfig
from bliss.train import TrainConfig
from bliss.train.budget_text import Budget, budgets_text, is_typed, parse_typed

Size = tuple[Budget, ...]
Budgets = Mapping[str, Size]  # by unit
UNITS = ("layer", "node", "subgraph")
EXAMPLE = "layer=4096,2048,1024 node=10,10,10 subgraph=6000"


def unit_of(kind: SamplerConfig) -> str:
    """Unit of a sampler's size: layer (sources), node (neighbours), subgraph (batch size) or ""."""
    if kind.makes_batches:
        return "subgraph"
    return {"sources": "layer", "neighbours": "node", "none": ""}[kind.unit]


def parse_budgets(text: str) -> tuple[dict[str, Size], bool]:
    """Budgets by unit, and whether units were written. Numbers without a unit are of layers."""
    budgets: dict[str, Size] = {}
    words = text.split()
    for word in words:
        unit, has_unit, numbers = word.partition("=")
        unit, numbers = (unit, numbers) if has_unit else ("layer", word)
        size = _size(numbers)
        is_known = unit in UNITS and unit not in budgets and (has_unit or len(words) == 1)
        is_whole = unit != "subgraph" or (len(size) == 1 and not is_typed(size))
        if not is_known or not size or min(flat(size)) < 1 or not is_whole:
            raise InputError(
                f"budgets={text!r}: {word!r} is not a unit (layer, node or subgraph) with its "
                f"whole numbers: write for instance {EXAMPLE}."
            )
        budgets[unit] = size
    if not budgets:
        raise InputError(f"budgets={text!r} is empty: write for instance {EXAMPLE}.")
    return budgets, "=" in text


def _size(text: str) -> Size:
    """Numbers, or numbers by type, as `bliss train --budgets` takes them; empty if malformed."""
    if "=" in text:
        return parse_typed(text)
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        return ()


def flat(size: Size) -> list[int]:
    """All numbers of a size."""
    return [number for one in size for number in (one.values() if isinstance(one, dict) else [one])]


def check_layers(budgets: Budgets, layers: int) -> None:
    """Refuse budgets that are not one per layer."""
    for unit, size in budgets.items():
        if unit != "subgraph" and len(size) != layers:
            raise InputError(
                f"budgets: {unit}={budgets_text(size)} has {len(size)} "
                f"{'entries' if is_typed(size) else 'numbers'} for {layers} layers: give {layers}, "
                "input layer first."
            )


def size_of(config: TrainConfig) -> Size:
    """The size of a sampler; empty if it has none."""
    makes_batches = config.sampler.config.makes_batches
    return (config.training.batch_size,) if makes_batches else config.sampler.budgets


def with_size(config: TrainConfig, size: Size) -> TrainConfig:
    """The settings with another size."""
    if config.sampler.config.makes_batches:
        return config.with_settings(batch_size=size[0])
    return config.with_settings(budgets=size)


def sized_by(kind: SamplerConfig, budgets: Budgets) -> dict[str, Any]:
    """Settings that the budgets have for a sampler; empty if they do not name its unit.

    A sampler with an exact first hop takes the numbers of the layers above.
    """
    size = budgets.get(unit_of(kind), ())
    if not size:
        return {}
    if kind.makes_batches:
        return {"batch_size": size[0]}
    return {"budgets": size[len(size) - kind.sampled_layers(len(size)) :]}


def scaled(size: Size, factor: float, unit: str) -> Size:
    """A size times a factor, at least 1 each.

    Fanouts are small, so they are rounded together: their sum is rounded, and the largest
    remainders are rounded up, input layer first.
    """
    exact = [max(factor * number, 1.0) for number in flat(size)]
    if unit != "node":
        return _shaped(map(round, exact), size)
    rounded = [math.floor(number) for number in exact]
    left = round(sum(exact)) - sum(rounded)
    order = sorted(range(len(exact)), key=lambda n: (rounded[n] - exact[n], n))
    for n in order[:left]:
        rounded[n] += 1
    return _shaped(rounded, size)


def _shaped(numbers: Iterable[int], size: Size) -> Size:
    """The inverse of `flat`, with the types of a size."""
    left = iter(numbers)
    return tuple(
        {name: next(left) for name in one} if isinstance(one, dict) else next(left) for one in size
    )


def authors_settings(dataset: str, labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Sizes that the authors of samplers published for a data set, by sampler."""
    file = resources.files("bliss.studies.comparison") / "authors.json"
    known: dict[str, dict[str, dict[str, Any]]] = json.loads(file.read_text(encoding="utf-8"))
    published = known.get(canonical(dataset), {})
    if not set(published) & set(labels):
        raise InputError(
            f"sizes='authors': no sampler of {', '.join(labels)} has published sizes for "
            f"{dataset!r}; there are some for {', '.join(known)}: leave --sizes out."
        )
    return published


def size_text(unit: str, size: Sequence[Budget]) -> str:
    """'layer=4096,2048,1024', as `--budgets` takes it; empty without a size."""
    return f"{unit}={budgets_text(size)}" if unit and size else ""
