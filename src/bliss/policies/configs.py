"""Settings of every policy, and the policies by name. Imports neither numba nor torch."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
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

    builds: ClassVar[str]
    """module.Class of the policy, inside `bliss.policies`."""

    def build(self, graph: Graph, layers: int) -> Policy:
        """Build the policy."""
        module, _, name = self.builds.partition(".")
        made: Policy = getattr(import_module(f"bliss.policies.{module}"), name)(graph, layers, self)
        return made

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Names of the settings."""
        return tuple(one.name for one in fields(cls))


@dataclass(frozen=True, kw_only=True)
class UniformConfig(PolicyConfig):
    """Settings of `uniform`: none."""

    builds: ClassVar[str] = "uniform.Uniform"


@dataclass(frozen=True, kw_only=True)
class LadiesConfig(PolicyConfig):
    """Settings of `ladies`: none."""

    builds: ClassVar[str] = "ladies.Ladies"


@dataclass(frozen=True, kw_only=True)
class StaticConfig(PolicyConfig):
    """Settings of `static`: none."""

    builds: ClassVar[str] = "static.Static"


@dataclass(frozen=True, kw_only=True)
class Exp3Config(PolicyConfig):
    """Exploration and step size of EXP3."""

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
class ScaleFreeConfig(PolicyConfig):
    """Exploration and step size of scale-free EXP3; the defaults suit every data set."""

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
    """Exploration, step size and reward of the node-wise bandit samplers."""

    builds: ClassVar[str] = "target_bandit.TargetBandit"
    delta: float | None = 0.01
    """Step size."""
    reward: Reward = "published"
    """Reward: published (alpha_ij^2 |h_j|^2 / q_ij^2) or thanos (closeness to the mean)."""
    restart: int = 0
    """Steps between resets of all weights (Delta_T); 0: never."""
    attention: bool = False
    """Whether alpha_ij is the network's attention, if it has any."""
    is_single_play: bool = False
    """Whether k draws are k plays of one arm (EXP3) instead of one play of k arms (EXP3.M)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice("reward", self.reward, get_args(Reward))
        checks.whole("restart", self.restart)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearConfig(PolicyConfig):
    """Features, masses, exploration and learning rate of AS-GCN's sampler."""

    builds: ClassVar[str] = "linear.Linear"
    x: Any = field(repr=False)
    """Features [V, F]."""
    eta: float = 0.1
    """Exploration: share of g that does not depend on the features."""
    rate: float = 0.01
    """Adam step size."""
    combine: Combine = "sum"
    """How a source's coefficients enter its mass: sum (sum_i alpha_ij) or root (sqrt(sum_i
    alpha_ij^2))."""
    shared_parameters: bool = False
    """Whether all layers have the same parameters."""

    def __post_init__(self) -> None:
        checks.share(
            "eta",
            self.eta,
            "at 0 a source can become unreachable and its 1/p undefined; start with 0.1.",
        )
        checks.positive("rate", self.rate, "at 0 nothing is learnt; start with 0.01.")
        checks.choice("combine", self.combine, get_args(Combine))
        checks.flag("shared_parameters", self.shared_parameters)


POLICIES: dict[str, PolicyConfig] = {
    "uniform": UniformConfig(),
    "ladies": LadiesConfig(),
    "static": StaticConfig(),
    "exp3": Exp3Config(eta=0.4),
    "exp3-released": Exp3Config(eta=0.1, delta=0.01),
    "exp3-scale-free": ScaleFreeConfig(),
    "node": NodeConfig(),
}
"""Policies by name, each with its default settings."""


def policy_config(policy: str | PolicyConfig, **options: Any) -> PolicyConfig:
    """Settings of a policy, given by name or as a config, with options applied."""
    if isinstance(policy, str):
        config = POLICIES[checks.choice("policy", policy, list(POLICIES))]
    elif isinstance(policy, PolicyConfig):
        config = policy
    else:
        raise InputError(
            f"policy={policy!r} is not a policy: pass a name ({', '.join(POLICIES)}), a config "
            "such as Exp3Config(eta=0.4), or a policy built for this graph."
        )
    for name in options:
        if name not in config.options():
            raise InputError(
                f"{name}={options[name]!r} is not an option of policy {policy!r}, which takes "
                f"{', '.join(config.options()) or 'none'}: remove it or choose another policy."
            )
    return replace(config, **options) if options else config
