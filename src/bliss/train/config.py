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
from bliss.nn.config import ModelConfig
from bliss.samplers.configs import SamplerConfig, sampler_config


@dataclass(frozen=True, kw_only=True)
class TrainConfig(ModelConfig):
    """Settings of a run."""

    dataset: str = "synthetic"
    """Name of a data set, or the path of a folder."""
    sampler: str = "bliss"
    """The sampler."""
    sampler_options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Settings of the sampler and its policy, by name: policy, estimator, replace, eta, ..."""
    budgets: tuple[int, ...] = ()
    """Budget per layer, input layer first: sources kept on average, or, for node-wise samplers,
    neighbours kept per target. Without it 2048,1024,512 (less on small graphs) or 10 a layer."""
    batch_size: int = 256
    """Seed nodes per step; for samplers of subgraphs see docs/subgraphs.md."""
    steps: int = 300
    """Training steps."""
    lr: float = 0.002
    """Adam's learning rate."""
    weight_decay: float = 0.0
    """L2 penalty in Adam's gradient."""
    schedule: str = "constant"
    """Learning rate over the steps: constant, or linear to 0 at the last step."""
    lr_decay: float = 1.0
    """Factor of the learning rate, applied every --decay-epochs epochs."""
    decay_epochs: int = 1
    """Epochs between decays of the learning rate."""
    features: str = "raw"
    """Features: raw, or row (each row divided by its sum if that is above 1; makes a copy)."""
    seed: int = 0
    """Seed of weights, order, draws and dropout."""
    evaluate_every: int = 50
    """Steps between evaluations; each is followed by a checkpoint."""
    validation: str = "full"
    """Neighbourhoods of evaluations during training: full, or sampled."""
    patience: int = 0
    """Evaluations without a better validation F1 before the run stops; 0: never."""
    prefetch: int = 0
    """1: draw the next batch in a thread, with a policy that is one step old; 0: do not."""
    precision: str = "float32"
    """Precision of forward passes: float32, or bfloat16 (autocast)."""
    device: str = "cpu"
    """cpu or cuda."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.sampler_options, Mapping):
            raise InputError(
                f"sampler_options={self.sampler_options!r} must be names with values, such as "
                '{"replace": True}.'
            )
        sampler = self.sampler_config
        object.__setattr__(self, "sampler_options", sampler.to_dict())
        if self.budgets or sampler.unit == "none":
            budgets = sampler.check_budgets(self.budgets, self.layers)
            object.__setattr__(self, "budgets", budgets)
        if sampler.linear_only and self.is_attention:
            raise InputError(
                f"model={self.model!r} learns its coefficients, and sampler {self.sampler!r} needs "
                "fixed ones: choose model sage or gcn, or another sampler."
            )
        checks.choice("features", self.features, ("raw", "row"))
        checks.choice("schedule", self.schedule, ("constant", "linear"))
        checks.choice("validation", self.validation, ("full", "sampled"))
        if self.validation == "sampled" and sampler.makes_batches:
            raise InputError(
                f"validation='sampled' is not possible with sampler {self.sampler!r}, which makes "
                "its own batches of training nodes: choose full."
            )
        checks.choice("precision", self.precision, ("float32", "bfloat16"))
        checks.choice("device", self.device.split(":")[0], ("cpu", "cuda"))
        for name in ("batch_size", "steps", "evaluate_every", "decay_epochs"):
            checks.whole(name, getattr(self, name), least=1)
        for name in ("seed", "patience"):
            checks.whole(name, getattr(self, name))
        checks.positive("lr", self.lr, "start with 0.002.")
        checks.positive("lr_decay", self.lr_decay, "1 leaves the learning rate as it is.")
        if not self.weight_decay >= 0:
            raise InputError(f"weight_decay={self.weight_decay} must be 0 or larger.")
        if self.prefetch not in (0, 1):
            raise InputError(f"prefetch={self.prefetch} must be 0 or 1.")

    @property
    def sampler_config(self) -> SamplerConfig:
        """The settings of the sampler."""
        return sampler_config(self.sampler, **self.sampler_options)

    @property
    def policy(self) -> str:
        """The name of the sampler's policy; empty if it has none to choose."""
        return str(self.sampler_options.get("policy", ""))

    def fitted(self, num_nodes: int) -> TrainConfig:
        """These settings with default budgets filled in for a graph of so many nodes."""
        if self.budgets or self.sampler_config.unit == "none":
            return self
        budgets = self.sampler_config.default_budgets(self.layers, num_nodes)
        return replace(self, budgets=budgets)

    @property
    def model_config(self) -> ModelConfig:
        """The network's part alone."""
        names = [field.name for field in fields(ModelConfig)]
        return ModelConfig(**{name: getattr(self, name) for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON keeps them."""
        return asdict(self) | {"budgets": list(self.budgets)}

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
        """The inverse of `to_dict`; refuses names it does not know."""
        known = {field.name for field in fields(cls)}
        for name in values:
            if name not in known:
                raise InputError(f"{name}={values[name]!r} is not a setting: remove it.")
        return cls(**{**values, "budgets": tuple(values.get("budgets", cls.budgets))})

    def differences(self, other: TrainConfig) -> list[str]:
        """Where two settings part, as "name: this, other"."""
        ours, theirs = self.to_dict(), other.to_dict()
        return [f"{k}: {ours[k]}, {theirs[k]}" for k in ours if ours[k] != theirs[k]]


def resolve(**given: Any) -> TrainConfig:
    """Settings from what was given, then the data set's recipe, then the defaults.

    A name that is not a field of `TrainConfig` is an option of the sampler or its policy, such as
    policy="exp3" or eta=0.2. Names of data sets, models and samplers may be in any case.

    A recipe is a JSON file in `bliss/train/recipes`, named after the data set, with settings under
    "all", under a model's name and under a sampler's name. Its "budgets" count sources and its
    "fanouts" neighbours; each applies to samplers of that unit. Options that a sampler does not
    have are ignored.
    """
    given = {name: value for name, value in given.items() if value is not None}
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
    values["budgets"] = counts.get(kind.unit, ())
    return TrainConfig.of(**{**values, **given, "sampler_options": options})


def recipe(dataset: str, model: str, sampler: str) -> dict[str, Any]:
    """The recipe's settings for a data set, model and sampler; empty if there is none."""
    file = resources.files("bliss.train") / "recipes" / f"{dataset.lower()}.json"
    if "/" in dataset or not file.is_file():
        return {}
    parts = json.loads(file.read_text(encoding="utf-8"))
    return {**parts.get("all", {}), **parts.get(model, {}), **parts.get(sampler, {})}
