"""Policies: where the masses come from. One file each; no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol, runtime_checkable

from bliss import checks
from bliss.errors import InputError
from bliss.graph import Graph
from bliss.policies import exp3, node, scale_free
from bliss.policies.base import Policy, State
from bliss.policies.exp3 import Exp3, Exp3Config
from bliss.policies.ladies import Ladies
from bliss.policies.node import NodeBandit, NodeConfig
from bliss.policies.scale_free import ScaleFreeConfig, ScaleFreeExp3
from bliss.policies.static import Static
from bliss.policies.uniform import Uniform

__all__ = [
    "POLICIES",
    "Exp3",
    "Exp3Config",
    "Ladies",
    "NodeBandit",
    "NodeConfig",
    "Policy",
    "PolicyConfig",
    "ScaleFreeConfig",
    "ScaleFreeExp3",
    "State",
    "Static",
    "Uniform",
    "make_policy",
]


@runtime_checkable
class PolicyConfig(Protocol):
    """Settings that can build a policy for a graph."""

    def build(self, graph: Graph, layers: int) -> Policy:
        """Make the policy."""


POLICIES: dict[str, PolicyConfig | Callable[[Graph, int], Policy]] = {
    "uniform": Uniform,
    "ladies": Ladies,
    "static": Static,
    "exp3": exp3.PAPER,
    "exp3-released": exp3.RELEASED,
    "exp3-scale-free": scale_free.DEFAULT,
    "node": node.DEFAULT,
}


def make_policy(
    policy: str | PolicyConfig | Policy, graph: Graph, layers: int, **options: Any
) -> Policy:
    """Build a policy from its name and options, or from its config; or check a ready one."""
    if isinstance(policy, Policy):
        if policy.graph is not graph or policy.layers != layers or options:
            raise InputError(
                f"policy {policy.name!r} was built for {policy.layers} layers of {policy.graph!r}, "
                f"not for these {layers} layers of {graph!r}: pass its name or its config instead."
            )
        return policy
    if isinstance(policy, str):
        made = POLICIES[checks.choice("policy", policy, list(POLICIES))]
    elif isinstance(policy, PolicyConfig) and not isinstance(policy, type):
        made = policy
    else:
        raise InputError(
            f"policy={policy!r} is not a policy: pass a name ({', '.join(POLICIES)}), a config "
            "such as Exp3Config(eta=0.4), or a policy built for this graph."
        )
    if options:
        known: list[str] = [field.name for field in fields(made)] if is_dataclass(made) else []
        for name in options:
            if name not in known:
                raise InputError(
                    f"{name}={options[name]!r} is not an option of policy {policy!r}, which takes "
                    f"{', '.join(known) or 'none'}: remove it or choose another policy."
                )
        made = replace(made, **options)  # type: ignore[type-var]
    if isinstance(made, PolicyConfig):
        return made.build(graph, layers)
    return made(graph, layers)
