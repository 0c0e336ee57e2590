"""Samplers of a comparison: their labels, with options, and the settings of their runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from bliss import checks
from bliss.errors import InputError
from bliss.samplers import SAMPLERS
from bliss.samplers.configs import sampler_config
from bliss.samplers.estimators import ESTIMATORS
from bliss.studies.comparison.sizes import Budgets, sized_by
from bliss.train import TrainConfig, resolve
from bliss.train.config import PLACES
from bliss.train.config_parts import AUTO

ALIASES = ("labor-0",)  # second names of a sampler
ALL_SAMPLERS = ("bliss", *(name for name in SAMPLERS if name not in (*ALIASES, "bliss")))
"""The samplers of `--samplers all`; the others are compared with the first."""
SHORT = {"history": "nodes", "first_hop": "exact"}
"""Values of options that are named without one; of others, true."""
OWN = "own"
"""Estimator of each sampler as in `bliss train`: the recipe's, or its own default."""


@dataclass(frozen=True)
class ComparedSampler:
    """A sampler with its own options, such as "bliss:exp3" or "bliss+history"."""

    label: str
    name: str
    """Name of the sampler, without options."""
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def slug(self) -> str:
        """The label as part of a folder's name."""
        return self.label.replace("*", "star").translate(str.maketrans(":+=", "---"))


def parse_sampler(text: str) -> ComparedSampler:
    """Read NAME[:POLICY][+OPTION[=VALUE]...]."""
    head, *others = text.split("+")
    name, _, policy = head.partition(":")
    checks.choice("samplers", name, list(SAMPLERS))
    options: dict[str, Any] = {"policy": policy} if policy else {}
    for part in others:
        option, _, value = part.partition("=")
        option = option.replace("-", "_")
        if option not in _options():
            raise InputError(
                f"samplers={text!r}: {option!r} is not an option of a sampler; write for instance "
                "bliss+history or neighbor+first_hop=exact."
            )
        options[option] = _value(value) if value else SHORT.get(option, True)
    return ComparedSampler(text, name, options)


@cache
def _options() -> frozenset[str]:
    """Names of the options of all samplers and policies, and `survey`."""
    names = {"survey"}
    for config in SAMPLERS.values():
        names |= set(config.options())
        for policy in config.policies.values():
            names |= set(policy.options())
    return frozenset(names)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def settings_of(
    settings: Mapping[str, Any],
    model: str,
    sampler: ComparedSampler,
    estimator: str,
    budgets: Budgets | None = None,
) -> tuple[TrainConfig, str]:
    """Settings of a sampler with the estimator, and a note if it does not offer that.

    It then has its own default, or an unbiased estimator if it has a history. With OWN, it has
    that of `bliss train`. Of the budgets, it takes those of its unit. It has a history only if that
    is asked for, so that samplers are compared on equal terms.
    """
    given = {k: v for k, v in settings.items() if k not in ("budgets", "estimator")}
    given |= {"model": model, "sampler": sampler.name} | dict(sampler.options)
    if "history" not in given and getattr(SAMPLERS[sampler.name], "history", "") == AUTO:
        given["history"] = "none"
    options = {k: v for k, v in given.items() if k not in PLACES}
    own = getattr(SAMPLERS[sampler.name], "estimator", None)
    is_set = estimator != OWN and own is not None and "estimator" not in sampler.options
    unbiased = [name for name, kind in ESTIMATORS.items() if kind.is_unbiased]
    for name in dict.fromkeys((estimator, own, *unbiased)) if is_set else ():
        try:
            kind = sampler_config(sampler.name, **options, estimator=name)
        except InputError:
            continue
        why = "its history needs an unbiased one" if kind.has_history else "not offered"
        note = f"{sampler.label} has the estimator {name} instead of {estimator} ({why})."
        given |= {"estimator": name, **sized_by(kind, budgets or {})}
        return resolve(**given), "" if name == estimator else note
    kind = sampler_config(sampler.name, **options)  # raises the error of another option
    return resolve(**{**given, **sized_by(kind, budgets or {})}), ""


def check_estimator(name: str) -> None:
    """Refuse an estimator that no sampler offers."""
    offered: dict[str, None] = {OWN: None}
    for config in SAMPLERS.values():
        offered |= dict.fromkeys(getattr(config, "estimators", ()))
    checks.choice("estimator", name, list(offered))


def parse_samplers(labels: Sequence[str]) -> list[ComparedSampler]:
    """The samplers by label; each may occur once."""
    if len(set(labels)) < len(labels) or not labels:
        raise InputError(
            f"samplers={','.join(labels)!r} must name each sampler once: remove repeated ones, or "
            "name at least one."
        )
    return [parse_sampler(label) for label in labels]
