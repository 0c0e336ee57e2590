"""Recipes: settings that suit a data set, which apply where none are given."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from bliss.data import canonical
from bliss.nn.model_config import ModelConfig
from bliss.samplers.configs import sampler_config
from bliss.train.config import PLACES, TrainConfig, refuse_seconds
from bliss.train.config_parts import DataConfig, ObjectiveConfig, SamplingConfig

DEFAULT = "default"
"""Name of the recipe for all data sets."""


def resolve(**given: Any) -> TrainConfig:
    """Settings from the arguments, then the data set's recipe, then the defaults.

    Settings have flat names: those of the fields of `DataConfig`, `ObjectiveConfig`, `ModelConfig`
    and `LoopConfig`, sampler, budgets, and options of the sampler or its policy, such as
    policy="exp3" or eta=0.2. Names of data sets, models and samplers may be in any case.

    A recipe is a JSON file in `bliss/train/recipes`, named after the data set, with settings under
    "all", under a model's name and under a sampler's name. What it does not set is taken from
    default.json. Its "budgets" count sources and its "fanouts" neighbours; each applies to samplers
    of that unit. Options that a sampler does not have are ignored. Recipes are for labels of nodes:
    they do not apply to links.
    """
    given = {name: value for name, value in given.items() if value is not None}
    refuse_seconds(given)
    for name, spell in (("dataset", canonical), ("model", str.lower), ("sampler", str.lower)):
        if name in given:
            given[name] = spell(str(given[name]))
    sampler = given.get("sampler", SamplingConfig.name)
    found: dict[str, Any] = {}
    if given.get("task", ObjectiveConfig.task) == ObjectiveConfig.task:
        model = given.get("model", ModelConfig.model)
        for name in (DEFAULT, given.get("dataset", DataConfig.dataset)):
            found |= recipe(name, model, sampler)
    counts = {"sources": found.pop("budgets", ()), "neighbours": found.pop("fanouts", ())}
    kind = sampler_config(sampler, **{k: v for k, v in given.items() if k not in PLACES})
    budgets = tuple(counts.get(kind.unit, ()))
    found = {name: v for name, v in found.items() if name in PLACES or kind.allows(name, v)}
    found["budgets"] = budgets[len(budgets) - kind.sampled_layers(len(budgets)) :]
    return TrainConfig.of(**{**found, **given})


def recipe(dataset: str, model: str, sampler: str) -> dict[str, Any]:
    """Settings in the recipe for a data set, model and sampler; empty if there is no recipe."""
    recipes = {file.name: file for file in (resources.files("bliss.train") / "recipes").iterdir()}
    file = recipes.get(f"{dataset.lower()}.json")
    if file is None:
        return {}
    parts = json.loads(file.read_text(encoding="utf-8"))
    return {**parts.get("all", {}), **parts.get(model, {}), **parts.get(sampler, {})}
