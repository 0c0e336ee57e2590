"""Settings of every policy, and the policies by name. Imports neither numba nor torch."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from bliss import checks
from bliss.errors import InputError

if TYPE_CHECKING:
    from bliss.graph import Graph
    from bliss.policies.base import Policy

Reward = Literal["published", "thanos"]
SurveyAttention = Literal["edge", "node"]
Combine = Literal["sum", "root"]


@dataclass(frozen=True, kw_only=True)
class PolicyConfig:
    """Settings that can build a policy for a graph."""

    name: ClassVar[str] = ""
    """Name of the policy; empty if it has none."""
    builds: ClassVar[str]
    """module.Class of the policy, inside `bliss.policies`."""

    def build(self, graph: Graph, layers: int, **data: Any) -> Policy:
        """Build the policy; `data` holds what a policy needs besides the graph, such as x."""
        module, _, name = self.builds.partition(".")
        kind = getattr(import_module(f"bliss.policies.{module}"), name)
        policy: Policy = kind(graph, layers, self, **data)
        return policy

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Names of the settings."""
        return tuple(field.name for field in fields(cls))

    def with_options(self, **options: Any) -> PolicyConfig:
        """A copy with changed settings; raises an error for unknown names."""
        for name in options:
            if name not in self.options():
                raise InputError(
                    f"{name}={options[name]!r} is not an option of policy {self.name!r}, which "
                    f"takes {', '.join(self.options()) or 'none'}: remove it or choose another "
                    "policy."
                )
        return replace(self, **options)


@dataclass(frozen=True, kw_only=True)
class UniformConfig(PolicyConfig):
    """Settings of `uniform`: none."""

    name: ClassVar[str] = "uniform"
    builds: ClassVar[str] = "uniform.Uniform"


@dataclass(frozen=True, kw_only=True)
class LadiesConfig(PolicyConfig):
    """Settings of `ladies`: none."""

    name: ClassVar[str] = "ladies"
    builds: ClassVar[str] = "ladies.Ladies"


@dataclass(frozen=True, kw_only=True)
class StaticConfig(PolicyConfig):
    """Settings of `static`: none."""

    name: ClassVar[str] = "static"
    builds: ClassVar[str] = "static.Static"


@dataclass(frozen=True, kw_only=True)
class Exp3Config(PolicyConfig):
    """Exploration and step size of EXP3."""

    name: ClassVar[str] = "exp3"
    builds: ClassVar[str] = "exp3.Exp3"
    eta: float = 0.4
    """Exploration: share of the distribution, or of a factor, that does not depend on feedback."""
    delta: float | None = None
    """Step size of EXP3; default eta / 10^6, as in the paper (the released code uses 0.01)."""

    def __post_init__(self) -> None:
        checks.share(
            "eta",
            self.eta,
            "at 0 an edge can become unreachable and its 1/p undefined; start with 0.4.",
        )
        if self.delta is not None:
            checks.positive(
                "delta", self.delta, "at 0 nothing is learnt; start with eta / 10^6 or 0.01."
            )

    @property
    def step(self) -> float:
        """delta, with its default filled in."""
        return self.eta / 1e6 if self.delta is None else self.delta


@dataclass(frozen=True, kw_only=True)
class ReleasedExp3Config(Exp3Config):
    """`Exp3Config` with the constants of the released code."""

    name: ClassVar[str] = "exp3-released"
    eta: float = 0.1
    delta: float | None = 0.01


@dataclass(frozen=True, kw_only=True)
class ScaleFreeConfig(PolicyConfig):
    """Exploration and step size of scale-free EXP3; the defaults need no tuning."""

    name: ClassVar[str] = "exp3-scale-free"
    builds: ClassVar[str] = "scale_free.ScaleFreeExp3"
    eta: float = 0.1
    """Exploration: share of q_ij that is uniform over the neighbours."""
    step: float = 0.3
    """Step size: share of the distance to its signal that log w_ij moves per update."""

    def __post_init__(self) -> None:
        checks.share("eta", self.eta, "at 0 an edge can become unreachable; start with 0.1.")
        checks.share("step", self.step, "it is a share of a distance; start with 0.3.")


@dataclass(frozen=True, kw_only=True)
class NodeConfig(PolicyConfig):
    """Exploration and memory of the node bandit."""

    name: ClassVar[str] = "node"
    builds: ClassVar[str] = "node.NodeBandit"
    eta: float = 0.01
    """Exploration: share of a factor that does not depend on feedback."""
    memory: float = 0.1
    """Smallest weight of the newest observation (beta); larger values forget faster."""
    survey_attention: SurveyAttention = "edge"
    """Attention kept from a survey: edge (a byte per edge), or node (a fitted score per node)."""

    def __post_init__(self) -> None:
        checks.choice("survey_attention", self.survey_attention, get_args(SurveyAttention))
        checks.share(
            "eta",
            self.eta,
            "at 0 a source can become unreachable and its 1/p undefined; start with 0.01.",
        )
        checks.share("memory", self.memory, "at 0 nothing new is learnt; start with 0.1.")


@dataclass(frozen=True, kw_only=True)
class TargetBanditConfig(Exp3Config):
    """Exploration, step size and reward of the node-wise bandit samplers: k arms at once."""

    name: ClassVar[str] = "exp3m"
    builds: ClassVar[str] = "target_bandit.TargetBandit"
    is_single_play: ClassVar[bool] = False
    """Whether k draws are k plays of one arm (EXP3) instead of one play of k arms (EXP3.M)."""
    eta: float = 0.4
    """Exploration: share of the probability that does not depend on feedback; for gcn-bs and gat-bs
    0.4 by default, with reward thanos 0.2."""
    delta: float = 0.01
    """Step size of EXP3; for gcn-bs and gat-bs 0.01 by default, with reward thanos 0.1."""
    reward: Reward = "published"
    """Reward: published, or thanos (bounded; larger for messages close to their target's mean)."""
    restart: int = 0
    """Steps between resets of the bandit, 0 for none; default 2000 with thanos, otherwise 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive("delta", self.delta, "at 0 nothing is learnt; start with 0.01.")
        checks.choice("reward", self.reward, get_args(Reward))
        checks.whole("restart", self.restart)

    def with_options(self, **options: Any) -> PolicyConfig:
        """A copy with changed settings; a new reward also sets its defaults of the others."""
        reward = checks.choice("reward", options.get("reward", self.reward), get_args(Reward))
        if reward != self.reward:
            options = {**REWARD_DEFAULTS[reward], **options}
        return super().with_options(**options)


@dataclass(frozen=True, kw_only=True)
class SinglePlayConfig(TargetBanditConfig):
    """`TargetBanditConfig` for k plays of one arm each, with replacement."""

    name: ClassVar[str] = "exp3-single"
    is_single_play: ClassVar[bool] = True


REWARD_DEFAULTS: dict[str, dict[str, Any]] = {
    "published": {"eta": 0.4, "delta": 0.01, "restart": 0},
    "thanos": {"eta": 0.2, "delta": 0.1, "restart": 2000},
}
"""Defaults of the node-wise bandits by reward: those of their authors' examples."""


@dataclass(frozen=True, kw_only=True)
class LinearConfig(PolicyConfig):
    """Masses, exploration and learning rate of AS-GCN's sampler."""

    name: ClassVar[str] = "linear"
    builds: ClassVar[str] = "linear.Linear"
    eta: float = 0.1
    """Exploration: share of each mass that does not depend on the learnt parameters."""
    rate: float = 0.01
    """Adam step size for the sampler's parameters."""
    combine: Combine = "sum"
    """How a source's coefficients enter its mass: sum (sum_i alpha_ij, as published) or root
    (sqrt(sum_i alpha_ij^2), as in the authors' code)."""
    shared_parameters: bool = False
    """Learn one set of parameters for all layers, as in the authors' code."""

    def __post_init__(self) -> None:
        checks.share(
            "eta",
            self.eta,
            "at 0 a source can become unreachable and its 1/p undefined; start with 0.1.",
        )
        checks.positive("rate", self.rate, "at 0 nothing is learnt; start with 0.01.")
        checks.choice("combine", self.combine, get_args(Combine))
        checks.flag("shared_parameters", self.shared_parameters)


def by_name(*configs: PolicyConfig) -> dict[str, PolicyConfig]:
    """Policies by name."""
    return {config.name: config for config in configs}


POLICIES = by_name(
    UniformConfig(),
    LadiesConfig(),
    StaticConfig(),
    Exp3Config(),
    ReleasedExp3Config(),
    ScaleFreeConfig(),
    NodeConfig(),
)
"""Policies that samplers choose from by name, each with its default settings."""
