"""The settings of a run: one frozen record, filled from defaults, recipe and command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib import resources
from inspect import signature
from typing import Any

from bliss import checks
from bliss.data import canonical
from bliss.errors import InputError
from bliss.nn import ModelConfig
from bliss.samplers import SAMPLERS, sampler_class, sampler_options

CHOICES = ("policy", "estimator", "thinning")
"""Settings that some samplers offer, each a name."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig(ModelConfig):
    """All that decides a run's numbers, and how often it looks at them."""

    dataset: str = "synthetic"
    """Name of a data set, or the path of a folder."""
    sampler: str = "bliss"
    """A name of `bliss.samplers.SAMPLERS`."""
    policy: str = ""
    """Where masses come from; by default the sampler's own (bliss: node), empty if it has none."""
    estimator: str = ""
    """ht, hajek, sketch, released or plain, where the sampler has it; by default its own."""
    thinning: str = ""
    """How the budget is met: exact (default) or paper, for samplers that offer it."""
    sampler_options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What only this sampler or its policy knows, by name: replace, iterations, eta, ..."""
    budgets: tuple[int, ...] = ()
    """Per layer, input layer first: sources kept on average (default 2048,1024,512), or, for
    samplers that choose neighbours, those kept by each target (default 10 a layer)."""
    batch_size: int = 256
    """Seeds per step; for samplers of subgraphs, what docs/subgraphs.md says of each."""
    steps: int = 300
    """Training steps."""
    lr: float = 0.002
    """Adam's learning rate."""
    weight_decay: float = 0.0
    """L2 penalty in Adam's gradient."""
    schedule: str = "constant"
    """The learning rate over steps: constant, or linear to 0 at the last."""
    lr_decay: float = 1.0
    """What the learning rate is multiplied with every `decay_epochs` epochs."""
    decay_epochs: int = 1
    """Epochs between decays of the learning rate."""
    features: str = "raw"
    """raw, or row: each node's features divided by their sum, where that is above 1."""
    seed: int = 0
    """Decides weights, order, draws and dropout."""
    evaluate_every: int = 50
    """Steps between evaluations with full neighbours; each is followed by a checkpoint."""
    validation: str = "full"
    """Neighbourhoods of evaluations during training: full, or sampled as in training."""
    patience: int = 0
    """Stop after this many evaluations without a better validation F1; 0 never stops early."""
    prefetch: int = 0
    """1 draws the next batch in a thread; the policy is then one step old."""
    precision: str = "float32"
    """float32, or bfloat16 for autocast."""
    device: str = "cpu"
    """cpu or cuda."""

    def __post_init__(self) -> None:
        super().__post_init__()
        sampler = sampler_class(self.sampler)
        for name in CHOICES:
            object.__setattr__(self, name, self._choice(name, sampler.choices.get(name, ())))
        self._check_options()
        budgets = self.budgets or sampler.default_budgets(self.layers)
        object.__setattr__(self, "budgets", sampler.check_budgets(budgets, self.layers))
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

    def _choice(self, name: str, choices: Sequence[str]) -> str:
        """One of CHOICES: what was given, or else the sampler's default, or none."""
        given: str = getattr(self, name)
        own = signature(SAMPLERS[self.sampler]).parameters
        if not choices and given:
            others = [option for option in CHOICES if option in own]
            raise InputError(
                f"{name}={given!r} was given, but sampler {self.sampler!r} has no {name} to choose "
                f"(it takes {', '.join(['budgets', *others])}): leave it out."
            )
        return checks.choice(name, given or own[name].default, choices) if choices else ""

    def _check_options(self) -> None:
        """Refuse options that the sampler does not know; it checks their values itself."""
        if not isinstance(self.sampler_options, Mapping):
            raise InputError(
                f"sampler_options={self.sampler_options!r} must be names with values, such as "
                '{"replace": True}.'
            )
        object.__setattr__(self, "sampler_options", dict(self.sampler_options))
        known = sampler_options(self.sampler, self.policy)
        with_policy = f" with policy {self.policy!r}" if self.policy else ""
        for name, value in self.sampler_options.items():
            if name not in known:
                raise InputError(
                    f"sampler_options has {name}={value!r}, but sampler {self.sampler!r} takes "
                    f"{', '.join(known) or 'none'}{with_policy}: remove it, or choose another "
                    f"sampler{' or policy' if with_policy else ''}."
                )

    @property
    def sampler_arguments(self) -> dict[str, Any]:
        """The policy, estimator and thinning where the sampler offers them, and its options."""
        given = {name: getattr(self, name) for name in CHOICES}
        return {name: value for name, value in given.items() if value} | dict(self.sampler_options)

    @property
    def model_config(self) -> ModelConfig:
        """The network's part alone."""
        names = [field.name for field in fields(ModelConfig)]
        return ModelConfig(**{name: getattr(self, name) for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON keeps them."""
        return asdict(self) | {"budgets": list(self.budgets)}

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

    A recipe is a JSON file in `bliss/train/recipes`, named after the data set, with settings under
    "all", under a model's name and under a sampler's. Its "budgets" count sources, its "fanouts"
    neighbours: each is for samplers of that unit. Its policy, estimator and thinning are for
    samplers that have it. Names of data sets, models and samplers may be in any case.
    """
    given = {name: value for name, value in given.items() if value is not None}
    for name, spell in (("dataset", canonical), ("model", str.lower), ("sampler", str.lower)):
        if name in given:
            given[name] = spell(str(given[name]))
    dataset = str(given.get("dataset", TrainConfig.dataset))
    sampler = str(given.get("sampler", TrainConfig.sampler))
    values = recipe(dataset, str(given.get("model", TrainConfig.model)), sampler)
    sampler_choices = sampler_class(sampler).choices
    for name in CHOICES:
        if values.get(name) not in sampler_choices.get(name, ()):
            values.pop(name, None)
    counts = {"sources": values.pop("budgets", ()), "neighbours": values.pop("fanouts", ())}
    values["budgets"] = counts.get(sampler_class(sampler).unit, ())
    return TrainConfig.from_dict(values | given)


def recipe(dataset: str, model: str, sampler: str) -> dict[str, Any]:
    """The recipe's settings for a data set, model and sampler; empty if there is none."""
    file = resources.files("bliss.train") / "recipes" / f"{dataset.lower()}.json"
    if "/" in dataset or not file.is_file():
        return {}
    parts = json.loads(file.read_text(encoding="utf-8"))
    return {**parts.get("all", {}), **parts.get(model, {}), **parts.get(sampler, {})}
