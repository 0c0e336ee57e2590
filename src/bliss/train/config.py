"""Settings of a run: a frozen dataclass, filled from defaults, recipe and command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import resources
from typing import Any

from bliss import checks
from bliss.data import canonical
from bliss.errors import InputError
from bliss.nn.model_config import ModelConfig
from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import sampler_config
from bliss.text import shorten

AUTO = "auto"
"""Value of budgets that asks for a pilot, and of evaluate that asks for a choice by size."""
FULL_EVALUATION_BYTES = 2**32
"""Bytes of a layer's outputs at all nodes above which evaluate="auto" means "split"."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig(ModelConfig):
    """Settings of a run."""

    dataset: str = "synthetic"
    """Name of a data set, or path of a folder."""
    sampler: str = "bliss"
    """Name of the sampler."""
    sampler_options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Settings of the sampler and its policy, by name: policy, estimator, replace, eta, ..."""
    budgets: tuple[int, ...] = ()
    """Budget per layer, input layer first: sources kept on average, or, for node-wise samplers,
    neighbours kept per target. Default: 2048,1024,512 for three layers (less on small graphs), or
    10 neighbours (vrgcn: 2). With auto, `bliss train` chooses them by a pilot; see
    docs/advice.md."""
    batch_size: int = 256
    """Seed nodes per step and shard; for subgraph samplers see docs/subgraphs.md."""
    shards: int = 1
    """Batches that make a step, each with its own seeds, draws and gradient; several processes
    divide them among themselves. See docs/scaling.md."""
    reduction: str = "exact"
    """How gradients of several processes are added: exact (in the order of shards, the same bits
    for any number of processes), or allreduce (sends less)."""
    steps: int = 300
    """Training steps."""
    lr: float = 0.002
    """Learning rate of Adam."""
    weight_decay: float = 0.0
    """L2 penalty, added to the gradient."""
    schedule: str = "constant"
    """Learning rate schedule: constant, or linear decay to 0 at the last step."""
    lr_decay: float = 1.0
    """Factor applied to the learning rate every --decay-epochs epochs."""
    decay_epochs: int = 1
    """Epochs between decays of the learning rate."""
    class_weights: str | tuple[float, ...] = "none"
    """Weights of classes in the loss: none, balanced (n / (C n_c) over training nodes; with several
    labels per node (n - n_c) / n_c), or one number per class, separated by commas."""
    features: str = "raw"
    """Features: raw, or row (each row with a sum above 1 is divided by its sum; makes a copy)."""
    seed: int = 0
    """Seed of initial weights, batch order, draws and dropout."""
    evaluate_every: int = 50
    """Steps between evaluations; a checkpoint follows each of them."""
    evaluate: str = AUTO
    """How networks are evaluated: full (exact, all nodes), split (exact, only the nodes of a split
    and what they see), sampled (during training from sampled neighbourhoods, with a standard
    error), or auto: split if a layer's outputs at all nodes take more than 4 GiB, otherwise full.
    See docs/larger-than-memory.md."""
    evaluate_draws: int = 4
    """Draws of every neighbourhood with --evaluate sampled; the score is their mean."""
    survey: bool = True
    """Let the policy learn exact norms and attention from full evaluations during training."""
    patience: int = 0
    """Evaluations without a better validation score before the run stops; 0: never stop early."""
    feature_cache: int = 0
    """Bytes of memory for the rows of memory-mapped features that are drawn most; 0: no cache."""
    prefetch: int = 0
    """Batches drawn ahead in a thread: 0, or 1 (the policy is then one step old)."""
    precision: str = "float32"
    """Precision of forward passes: float32, or bfloat16 (autocast)."""
    device: str = "cpu"
    """Device: cpu or cuda."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.sampler_options, Mapping):
            raise InputError(
                f"sampler_options={self.sampler_options!r} must be a mapping: pass names with "
                'values, such as {"replace": True}.'
            )
        refuse_auto(self.budgets)
        sampler = self.sampler_config
        object.__setattr__(self, "sampler_options", sampler.to_dict())
        if self.budgets or sampler.unit == "none":
            budgets = sampler.check_budgets(self.budgets, self.layers)
            object.__setattr__(self, "budgets", budgets)
        if sampler.linear_only and self.is_attention:
            raise InputError(
                f"model={self.model!r} learns its coefficients, but an exact first hop and a "
                f"history (sampler {self.sampler!r}) need fixed ones: choose model sage or gcn, or "
                "another sampler."
            )
        object.__setattr__(self, "class_weights", _class_weights(self.class_weights))
        checks.choice("features", self.features, ("raw", "row"))
        checks.choice("schedule", self.schedule, ("constant", "linear"))
        checks.choice("evaluate", self.evaluate, (AUTO, "full", "split", "sampled"))
        if self.evaluate == "sampled" and sampler.makes_batches:
            raise InputError(
                f"evaluate='sampled' is not supported by sampler {self.sampler!r}, which makes "
                "its own batches of training nodes: choose evaluate='full' or 'split'."
            )
        if self.evaluate == "split" and self._needs_surveys:
            raise InputError(
                "history='surveys' is written by evaluations of all nodes, but evaluate='split' "
                "infers only some: choose evaluate='full' or history='nodes'."
            )
        checks.flag("survey", self.survey)
        checks.choice("reduction", self.reduction, ("exact", "allreduce"))
        checks.choice("precision", self.precision, ("float32", "bfloat16"))
        checks.choice("device", self.device.split(":")[0], ("cpu", "cuda"))
        for name in ("batch_size", "shards", "steps", "evaluate_every", "decay_epochs"):
            checks.whole(name, getattr(self, name), least=1)
        checks.whole("evaluate_draws", self.evaluate_draws, least=1)
        for name in ("seed", "patience", "feature_cache"):
            checks.whole(name, getattr(self, name))
        checks.positive("lr", self.lr, "start with 0.002.")
        checks.positive("lr_decay", self.lr_decay, "1 leaves the learning rate unchanged.")
        checks.not_negative("weight_decay", self.weight_decay, "0 adds no penalty.")
        if isinstance(self.prefetch, bool) or self.prefetch not in (0, 1):
            raise InputError(
                f"prefetch={self.prefetch!r} must be 0 or 1: pass 1 to draw the next batch in a "
                "thread, or 0 to draw each on request."
            )

    @property
    def sampler_config(self) -> SamplerConfig:
        """Settings of the sampler."""
        return sampler_config(self.sampler, **self.sampler_options)

    @property
    def policy(self) -> str:
        """Name of the sampler's policy; empty if the sampler has no such option."""
        return str(self.sampler_options.get("policy", ""))

    def fitted(self, num_nodes: int) -> TrainConfig:
        """Copy with budgets and evaluate filled in for a graph of `num_nodes` nodes."""
        found = self
        if not (self.budgets or self.sampler_config.unit == "none"):
            budgets = self.sampler_config.default_budgets(self.layers, num_nodes)
            found = replace(found, budgets=budgets)
        if self.evaluate == AUTO:
            is_split = self.is_large(num_nodes) and not self._needs_surveys
            found = replace(found, evaluate="split" if is_split else "full")
        return found

    def is_large(self, num_nodes: int) -> bool:
        """Whether a hidden layer's outputs at all nodes take more than 4 GiB."""
        return 4 * num_nodes * self.hidden > FULL_EVALUATION_BYTES

    @property
    def _needs_surveys(self) -> bool:
        return self.sampler_options.get("history") == "surveys"

    @property
    def model_config(self) -> ModelConfig:
        """Settings of the network."""
        names = [field.name for field in fields(ModelConfig)]
        return ModelConfig(**{name: getattr(self, name) for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Settings as plain values, for JSON."""
        weights = self.class_weights
        return asdict(self) | {
            "budgets": list(self.budgets),
            "class_weights": weights if isinstance(weights, str) else list(weights),
        }

    @classmethod
    def of(cls, **given: Any) -> TrainConfig:
        """Settings by name; names that are not fields are options of the sampler or its policy."""
        own = {one.name for one in fields(cls)}
        options = dict(given.get("sampler_options", {}))
        options |= {name: value for name, value in given.items() if name not in own}
        chosen = {name: value for name, value in given.items() if name in own}
        return cls.from_dict({**chosen, "sampler_options": options})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainConfig:
        """The inverse of `to_dict`; raises an error for unknown names.

        Settings of earlier versions have "validation", which was one draw or full, for "evaluate".
        """
        values = dict(values)
        if "validation" in values:
            values["evaluate"] = values.pop("validation")
            if values["evaluate"] == "sampled":
                values["evaluate_draws"] = 1
        known = {field.name for field in fields(cls)}
        for name in values:
            if name not in known:
                raise InputError(f"{name}={values[name]!r} is not a setting: remove it.")
        refuse_auto(values.get("budgets"))
        return cls(**{**values, "budgets": tuple(values.get("budgets", cls.budgets))})

    def differences(self, other: TrainConfig) -> list[str]:
        """Settings that differ, as "name: this, other"."""
        ours, theirs = self.to_dict(), other.to_dict()
        return [
            f"{k}: {shorten(str(ours[k]))}, {shorten(str(theirs[k]))}"
            for k in ours
            if ours[k] != theirs[k]
        ]


def _class_weights(given: Any) -> str | tuple[float, ...]:
    """Check class weights: none, balanced or positive numbers."""
    if isinstance(given, str):
        return checks.choice("class_weights", given, ("none", "balanced"))
    if not isinstance(given, (tuple, list)) or not given:
        raise InputError(
            f"class_weights={given!r} must be 'none', 'balanced' or one number per class: write "
            "for instance (1, 2.5, 1)."
        )
    return tuple(checks.positive("class_weights", one, "give each class one.") for one in given)


def resolve(**given: Any) -> TrainConfig:
    """Settings from the arguments, then the data set's recipe, then the defaults.

    A name that is not a field of `TrainConfig` is an option of the sampler or its policy, such as
    policy="exp3" or eta=0.2. Names of data sets, models and samplers may be in any case.

    A recipe is a JSON file in `bliss/train/recipes`, named after the data set, with settings under
    "all", under a model's name and under a sampler's name. Its "budgets" count sources and its
    "fanouts" neighbours; each applies to samplers of that unit. Options that a sampler does not
    have are ignored.
    """
    given = {name: value for name, value in given.items() if value is not None}
    refuse_auto(given.get("budgets"))
    for name, spell in (("dataset", canonical), ("model", str.lower), ("sampler", str.lower)):
        if name in given:
            given[name] = spell(str(given[name]))
    own = {one.name for one in fields(TrainConfig)}
    dataset = str(given.get("dataset", TrainConfig.dataset))
    sampler = str(given.get("sampler", TrainConfig.sampler))
    values = recipe(dataset, str(given.get("model", TrainConfig.model)), sampler)
    counts = {"sources": values.pop("budgets", ()), "neighbours": values.pop("fanouts", ())}
    options = {**given.get("sampler_options", {}), **{k: given[k] for k in given if k not in own}}
    kind = sampler_config(sampler, **options)
    for name in [name for name in values if name not in own]:
        value = values.pop(name)
        if name not in options and kind.allows(name, value):
            options[name] = value
    budgets = tuple(counts.get(kind.unit, ()))
    values["budgets"] = budgets[len(budgets) - kind.sampled_layers(len(budgets)) :]
    return TrainConfig.of(**{**values, **given, "sampler_options": options})


def refuse_auto(budgets: Any) -> None:
    """Raise an error for budgets="auto", which needs the graph."""
    if isinstance(budgets, str) and budgets == AUTO:
        raise InputError(
            "budgets='auto' needs a pilot on the graph: use `bliss train --budgets auto`, or "
            "config = bliss.studies.advise(settings, dataset).config, or pass numbers."
        )


def recipe(dataset: str, model: str, sampler: str) -> dict[str, Any]:
    """Settings in the recipe for a data set, model and sampler; empty if there is no recipe."""
    recipes = {file.name: file for file in (resources.files("bliss.train") / "recipes").iterdir()}
    file = recipes.get(f"{dataset.lower()}.json")
    if file is None:
        return {}
    parts = json.loads(file.read_text(encoding="utf-8"))
    return {**parts.get("all", {}), **parts.get(model, {}), **parts.get(sampler, {})}
