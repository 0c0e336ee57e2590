"""Settings of a run: data, network, sampler and training, in one frozen object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from bliss.errors import InputError
from bliss.nn.model_config import ModelConfig
from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import sampler_config
from bliss.text import shorten
from bliss.train.config_parts import (
    AUTO,
    DataConfig,
    LoopConfig,
    ObjectiveConfig,
    SamplingConfig,
)

LARGE_BYTES = 2**32
"""Bytes of numbers of all nodes above which "auto" avoids them: evaluate (outputs of a layer) means
"split", first_hop (sums of features) means "sampled"."""
LARGE_HISTORY = 2**30
"""Bytes of a history in memory above which history="auto" means "none". A survey needs as many
again while it is written, and so does every checkpoint on disk."""
PARTS = {
    "data": DataConfig,
    "objective": ObjectiveConfig,
    "network": ModelConfig,
    "sampler": SamplingConfig,
    "training": LoopConfig,
}
PLACES = {
    "sampler" if (part, one.name) == ("sampler", "name") else one.name: (part, one.name)
    for part, kind in PARTS.items()
    for one in fields(kind)
    if (part, one.name) != ("sampler", "config")
}
"""Part and field of every setting by its flat name; other names are options of the sampler."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Settings of a run, in five parts.

    `of`, `resolve` and `with_settings` take the settings by flat names, as the command line does:
    the names of the parts' fields, "sampler" for the name of the sampler, and the options of the
    sampler and its policy.
    """

    data: DataConfig = field(default_factory=DataConfig)
    """Data set, features and weights of classes."""
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    """What the network is trained for: labels of nodes, or links."""
    network: ModelConfig = field(default_factory=ModelConfig)
    """The network."""
    sampler: SamplingConfig = field(default_factory=SamplingConfig)
    """The sampler, its settings and its budgets."""
    training: LoopConfig = field(default_factory=LoopConfig)
    """Batches, optimizer, evaluation and processes."""

    def __post_init__(self) -> None:
        kind, evaluate = self._sampler(), self.training.evaluate
        if self.sampler.budgets:
            kind.check_budgets(self.sampler.budgets, self.network.layers)
        if kind.linear_only and self.network.is_attention:
            others = "model rsage" if self.network.is_relational else "model sage or gcn"
            raise InputError(
                f"model={self.network.model!r} learns its coefficients, but an exact first hop and "
                f"a history (sampler {self.sampler.name!r}) need fixed ones: choose {others}, or "
                "another sampler."
            )
        if kind.is_first_hop_exact and not self.network.has_linear_inputs:
            raise InputError(
                f"model={self.network.model!r} takes an activation of the projected features, "
                "whose sums change in training, so that its first hop cannot be exact: choose "
                "projection linear (--projection linear), or first_hop sampled."
            )
        if evaluate == "sampled" and kind.makes_batches:
            raise InputError(
                f"evaluate='sampled' is not supported by sampler {self.sampler.name!r}, which "
                "makes its own batches of training nodes: choose evaluate='full' or 'split'."
            )
        if evaluate == "split" and kind.needs_surveys:
            raise InputError(
                "history='surveys' is written by evaluations of all nodes, but evaluate='split' "
                "infers only some: choose evaluate='full' or history='nodes'."
            )
        if self.objective.is_link:
            self._check_links()
        self._check_network(kind)

    def _check_network(self, kind: SamplerConfig) -> None:
        """Refuse networks that the sampler or the task cannot have."""
        network = self.network
        if network.embedding and kind.needs_features:
            raise InputError(
                f"embedding={network.embedding} is learnt, but sampler {self.sampler.name!r} with "
                "these options needs features that do not change: leave it out, or sample the "
                "first hop, too."
            )
        if network.is_light and not self.objective.is_link:
            raise InputError(
                "model='lightgcn' has embeddings as outputs, and no weights that would turn them "
                "into labels: pass task='link' (--task link), or choose another model."
            )
        if network.is_light and kind.has_history:
            raise InputError(
                "model='lightgcn' passes on sums over layers, of which there is no history: leave "
                "history out, or choose model gcn."
            )

    def _check_links(self) -> None:
        """Refuse settings that do not fit links."""
        if self.sampler.config.makes_batches:
            raise InputError(
                f"sampler {self.sampler.name!r} makes its own batches of training nodes, but the "
                "seeds of task='link' are links: choose a layer-wise or node-wise sampler, such as "
                "bliss."
            )
        if self.training.evaluate not in (AUTO, "full"):
            raise InputError(
                f"evaluate={self.training.evaluate!r} is not supported by task='link', whose "
                "negatives are drawn from all nodes: choose evaluate='full'."
            )
        if self.data.class_weights != "none":
            raise InputError(
                "class_weights has no effect with task='link', which has no classes: leave it out."
            )

    @classmethod
    def of(cls, **given: Any) -> TrainConfig:
        """Settings by flat name; the others have their defaults."""
        return cls().with_settings(**given)

    def with_settings(self, **given: Any) -> TrainConfig:
        """A copy with changed settings, by flat name. Another sampler has its default options."""
        refuse_seconds(given)
        changes: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
        for name, (part, own_name) in PLACES.items():
            if name in given:
                changes[part][own_name] = given[name]
        options = {name: value for name, value in given.items() if name not in PLACES}
        sampler = given.get("sampler", self.sampler.name)
        if sampler != self.sampler.name:
            changes["sampler"]["config"] = sampler_config(sampler, **options)
        elif options:
            changes["sampler"]["config"] = self.sampler.config.with_options(**options)
        return replace(
            self, **{part: replace(getattr(self, part), **one) for part, one in changes.items()}
        )

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return self.training.seed

    def fitted(self, num_nodes: int, num_features: int = 0, has_times: bool = False) -> TrainConfig:
        """Copy with first_hop, history, budgets and evaluate filled in for a graph of this size."""
        is_fixed = not has_times and not _is_large(num_nodes, num_features)
        suits_history = self._suits_history() and self.history_bytes(num_nodes) <= LARGE_HISTORY
        kind = self._sampler(is_fixed, suits_history and not has_times)
        budgets, evaluate = self.sampler.budgets, self.training.evaluate
        if self.sampler.needs_budgets:
            budgets = kind.default_budgets(self.network.layers, num_nodes)
        if evaluate == AUTO:
            needs_all = kind.needs_surveys or self.objective.is_link
            is_split = self.is_large(num_nodes) and not needs_all
            evaluate = "split" if is_split else "full"
        return replace(
            self,
            sampler=replace(self.sampler, config=kind, budgets=budgets),
            training=replace(self.training, evaluate=evaluate),
        )

    def is_large(self, num_nodes: int) -> bool:
        """Whether a hidden layer's outputs at all nodes take more than 4 GiB."""
        return _is_large(num_nodes, self.network.hidden)

    def size_notes(self, num_nodes: int, num_features: int, has_times: bool = False) -> list[str]:
        """Sentences on what "auto" leaves out for this graph only because of its size."""
        given, suits = self.sampler.config, not has_times
        wanted = self._sampler(suits, suits and self._suits_history())
        is_chosen = wanted.is_first_hop_exact and not given.is_first_hop_exact
        if is_chosen and _is_large(num_nodes, num_features):
            return [
                "The first hop is sampled, because the sums of all features take more than 4 GiB; "
                "with --first-hop exact they are kept in a file."
            ]
        size = self.history_bytes(num_nodes)
        if wanted.has_history and not given.has_history and size > LARGE_HISTORY:
            return [
                f"There is no history, because it would take {size / 2**30:.1f} GiB, more than 1; "
                "pass --history nodes to have it, with --history-type float16 in half the memory "
                "or with --history-folder in a file."
            ]
        return []

    def history_bytes(self, num_nodes: int) -> int:
        """Bytes of memory of a history of the inputs of all layers but the first."""
        options = self.sampler.config.to_dict()
        if options.get("history_folder") is not None:
            return 0
        width = 2 if options.get("history_type") == "float16" else 4
        return width * num_nodes * self.network.hidden * (self.network.layers - 1)

    def _sampler(self, may_be_exact: bool = True, suits_history: bool = False) -> SamplerConfig:
        """Settings of the sampler with first_hop and history decided for this network."""
        network = self.network
        has_fixed_inputs = not network.embedding and network.has_linear_inputs
        has_input_budget = len(self.sampler.budgets) == network.layers
        can_be = network.layers > 1 and not network.is_attention and has_fixed_inputs
        suits = can_be and not has_input_budget and not network.is_light
        return self.sampler.config.decided(suits and may_be_exact, suits_history, has_fixed_inputs)

    def _suits_history(self) -> bool:
        """Whether history="auto" may mean "nodes" with this network, task and loop.

        With dropout, a second pass without it doubles the time of a step, and several processes
        would exchange what is written into a history. Networks and tasks are those for which it
        was measured to pay; see docs/choose.md.
        """
        plain = self.network.model == "sage" and not self.network.dropout
        return plain and not self.objective.is_link and self.training.shards == 1

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Settings by part and field, as plain values, for JSON."""
        nested = {part: asdict(getattr(self, part)) for part in PARTS}
        nested["sampler"]["config"] = self.sampler.config.to_dict()
        return {
            part: {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}
            for part, values in nested.items()
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainConfig:
        """The inverse of `to_dict`; raises an error for unknown, missing and wrong entries."""
        parts = {
            part: _entries(part, value, [one.name for one in fields(PARTS[part])])
            for part, value in _entries("", values, PARTS).items()
        }
        sampler = parts["sampler"]
        options = _entries("sampler.config", sampler["config"])
        config = sampler_config(sampler["name"], **options)
        _entries("sampler.config", options, config.to_dict())
        parts["sampler"] = {**sampler, "config": config}
        return cls(**{part: PARTS[part](**one) for part, one in parts.items()})

    def flat(self) -> dict[str, Any]:
        """Settings by flat name, as plain values; the inverse of `of`."""
        nested = self.to_dict()
        named = {name: nested[part][own_name] for name, (part, own_name) in PLACES.items()}
        return {**named, **nested["sampler"]["config"]}

    def differences(self, other: TrainConfig) -> list[str]:
        """Settings that differ, as "name: this, other"."""
        ours, theirs = self.flat(), other.flat()
        return [
            f"{name}: {shorten(str(ours.get(name)))}, {shorten(str(theirs.get(name)))}"
            for name in ours | theirs
            if ours.get(name) != theirs.get(name)
        ]


def refuse_seconds(given: Mapping[str, Any]) -> None:
    """Refuse a time, which is not a setting but chooses some."""
    if "seconds" in given:
        seconds = given["seconds"]
        raise InputError(
            f"seconds={seconds!r} is not a setting but chooses settings, from measurements on the "
            f"data: call bliss.train.train(dataset, seconds={seconds!r}) to train, or "
            f"bliss.train.seconds.choice.choose(settings, dataset, seconds={seconds!r}) for the "
            "settings alone."
        )


def _is_large(num_nodes: int, width: int) -> bool:
    """Whether a row of numbers per node takes more than LARGE_BYTES."""
    return 4 * num_nodes * width > LARGE_BYTES


def _entries(where: str, values: Any, names: Iterable[str] | None = None) -> Mapping[str, Any]:
    """The entries of a JSON object, which must have exactly these names, if any are given."""
    if not isinstance(values, Mapping):
        shown = shorten(repr(values), 60)
        raise InputError(f"{where or 'the settings'} must be entries by name, not {shown}.")
    path, names = f"{where}." if where else "", list(values if names is None else names)
    for name in values:
        if name not in names:
            value = shorten(repr(values[name]), 60)
            raise InputError(f"{path}{name}={value} is not a setting: remove it.")
    for name in names:
        if name not in values:
            raise InputError(f"{path}{name} is missing: add it, or start a new run.")
    return values
