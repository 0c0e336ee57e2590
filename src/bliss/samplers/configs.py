"""Settings of every sampler, and the samplers by name. Imports neither numba nor torch.

A field's docstring is its help on the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any, ClassVar, Literal, get_args

from bliss import checks
from bliss.errors import InputError
from bliss.policies.configs import Combine, LinearConfig, Reward, TargetBanditConfig
from bliss.samplers.config_base import (
    EstimatorConfig,
    HistoryKind,
    PolicySamplerConfig,
    SamplerConfig,
    Thinning,
    Unit,
)

CONVERGED = "converged"
BANDIT_DEFAULTS: dict[Reward, tuple[float, float, int]] = {
    "published": (0.4, 0.01, 0),
    "thanos": (0.2, 0.1, 2000),
}
"""Default eta, delta and restart of the node-wise bandits: those of their authors' examples."""
Renormalise = Literal["rows", "mean", "symmetric"]


@dataclass(frozen=True, kw_only=True)
class LayerSamplerConfig(PolicySamplerConfig):
    """Settings of a custom layer-wise sampler."""

    builds: ClassVar[str] = "layerwise.LayerSampler"
    estimators: ClassVar[Sequence[str]] = ("ht", "hajek", "released")
    draw: Any = None
    """Method that draws sources, from `bliss.samplers.draws`; default Poisson."""


@dataclass(frozen=True, kw_only=True)
class PoissonConfig(PolicySamplerConfig):
    """Settings of samplers that flip one coin per source."""

    estimators: ClassVar[Sequence[str]] = ("ht", "hajek", "released")
    estimator: str = "ht"
    """Weights of kept edges: ht (unbiased), hajek (rows rescaled) or released (as in the authors'
    code)."""
    thinning: Thinning = "exact"
    """Solver for the budget: exact, or paper (the paper's iteration, which can miss it)."""


@dataclass(frozen=True, kw_only=True)
class PLADIESConfig(PoissonConfig):
    """Settings of PLADIES."""

    builds: ClassVar[str] = "pladies.PLADIES"


@dataclass(frozen=True, kw_only=True)
class BlissConfig(PoissonConfig):
    """Settings of BLISS."""

    builds: ClassVar[str] = "bliss.Bliss"
    policy: Any = "node"
    """Policy that sets the masses; see docs/policies.md."""


@dataclass(frozen=True, kw_only=True)
class LADIESConfig(PolicySamplerConfig):
    """Settings of LADIES."""

    builds: ClassVar[str] = "ladies.LADIES"
    policy: Any = "ladies"
    """Policy that sets the masses; see docs/policies.md."""
    estimator: str = "hajek"
    """Weights of kept edges: ht (unbiased) or hajek (rows rescaled; biased, often less error)."""
    replace: bool = False
    """Draw with replacement."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.flag("replace", self.replace)


@dataclass(frozen=True, kw_only=True)
class SKETCHConfig(PolicySamplerConfig):
    """Settings of SKETCH."""

    builds: ClassVar[str] = "sketch.SKETCH"
    policies: ClassVar[Sequence[str]] = ("uniform", "ladies", "static", "node")
    estimators: ClassVar[Sequence[str]] = ("debiased", "sketch", "hajek")
    estimator: str = "debiased"
    """Weights of kept edges: debiased (unbiased), sketch (alpha / (s q_j)) or hajek (rows
    rescaled)."""


@dataclass(frozen=True, kw_only=True)
class ASGCNConfig(EstimatorConfig):
    """Settings of AS-GCN."""

    builds: ClassVar[str] = "asgcn.ASGCN"
    thinning: Thinning = "exact"
    """Solver for the budget: exact, or paper (the paper's iteration, which can miss it)."""
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
        super().__post_init__()
        self.policy_config(None)  # rejects wrong values early

    def policy_config(self, x: Any) -> LinearConfig:
        """The settings of the policy, for features x [V, F]."""
        return LinearConfig(
            x=x,
            eta=self.eta,
            rate=self.rate,
            combine=self.combine,
            shared_parameters=self.shared_parameters,
        )

    @property
    def needs_features(self) -> bool:
        """Always True: masses are a function of the features."""
        return True


@dataclass(frozen=True, kw_only=True)
class NodeMassConfig(SamplerConfig):
    """Base class of the settings of samplers that draw from all nodes."""

    masses: ClassVar[Sequence[str]]
    """Allowed names for `mass`."""
    mass: str = "squared"
    """Mass of a node: squared (the squared norm of its column of coefficients, as published), norm
    (the norm, as in FastGCN's code) or degree (its degree, as in GraphSAINT's code)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice("mass", self.mass, self.masses)


@dataclass(frozen=True, kw_only=True)
class FastGCNConfig(NodeMassConfig, EstimatorConfig):
    """Settings of FastGCN."""

    builds: ClassVar[str] = "fastgcn.FastGCN"
    masses: ClassVar[Sequence[str]] = ("squared", "norm")
    replace: bool = True
    """Draw with replacement."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.flag("replace", self.replace)


@dataclass(frozen=True, kw_only=True)
class FullConfig(SamplerConfig):
    """Settings of full neighbourhoods: none."""

    builds: ClassVar[str] = "full.Full"
    unit: ClassVar[Unit] = "none"


@dataclass(frozen=True, kw_only=True)
class NodeSamplerConfig(PolicySamplerConfig):
    """Settings of a custom node-wise sampler."""

    builds: ClassVar[str] = "nodewise.NodeSampler"
    unit: ClassVar[Unit] = "neighbours"
    estimators: ClassVar[Sequence[str]] = ("ht", "hajek", "plain")
    replace: bool = False
    """Draw with replacement."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.flag("replace", self.replace)


@dataclass(frozen=True, kw_only=True)
class NeighborConfig(NodeSamplerConfig):
    """Settings of neighbour sampling."""

    builds: ClassVar[str] = "neighbor.Neighbor"
    policies: ClassVar[Sequence[str]] = ("uniform", "static")
    estimators: ClassVar[Sequence[str]] = ("ht", "hajek")
    policy: Any = "uniform"
    """Masses of in-edges: uniform, or static (proportional to alpha_ij)."""


@dataclass(frozen=True, kw_only=True)
class VRGCNConfig(NeighborConfig):
    """Settings of VR-GCN."""

    builds: ClassVar[str] = "vrgcn.VRGCN"
    estimators: ClassVar[Sequence[str]] = ("ht",)
    history: HistoryKind = "nodes"
    """When a node's history is written: whenever it is seen (nodes), or at surveys."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.has_history:
            raise InputError("history='none' makes VR-GCN neighbour sampling: choose neighbor.")

    def default_budgets(self, layers: int, num_nodes: int) -> tuple[int, ...]:
        """2 neighbours per sampled layer."""
        return (2,) * self.sampled_layers(layers)


@dataclass(frozen=True, kw_only=True)
class LABORConfig(EstimatorConfig):
    """Settings of LABOR."""

    builds: ClassVar[str] = "labor.LABOR"
    unit: ClassVar[Unit] = "neighbours"
    estimator: str = "hajek"
    """Weights of kept edges: hajek (rows rescaled, as in the reference implementation) or ht
    (unbiased)."""
    iterations: int | str = 0
    """Number of iterations (0 for LABOR-0), or converged."""
    shared: bool = False
    """Share coins between layers: fewer nodes, but layers are not independent."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.flag("shared", self.shared)
        value = self.iterations
        is_whole = isinstance(value, Integral) and not isinstance(value, bool)
        if value != CONVERGED and not (is_whole and 0 <= int(value) < 2**31):
            raise InputError(
                f"iterations={value!r} is not valid: choose 0 (LABOR-0), a number of rounds "
                f'(LABOR-i) or "{CONVERGED}" (LABOR-*).'
            )


@dataclass(frozen=True, kw_only=True)
class GCNBSConfig(EstimatorConfig):
    """Settings of the node-wise bandit samplers."""

    builds: ClassVar[str] = "gcnbs.GCNBS"
    unit: ClassVar[Unit] = "neighbours"
    policies: ClassVar[Sequence[str]] = ("exp3m", "exp3")
    estimators: ClassVar[Sequence[str]] = ("ht", "hajek", "plain")
    uses_attention: ClassVar[bool] = False
    policy: str = "exp3m"
    """Bandit: exp3m (k arms at once, without replacement) or exp3 (k plays of one arm)."""
    estimator: str = "ht"
    """Weights of kept edges: ht (unbiased), hajek (rows rescaled) or plain (ignores p_ij)."""
    reward: Reward = "published"
    """Reward: published, or thanos (bounded; larger for messages close to their target's mean)."""
    restart: int | None = None
    """Steps between resets of the bandit, 0 for none; default 2000 with thanos, otherwise 0."""
    eta: float | None = None
    """Exploration: share of q_ij that is uniform over the neighbours; default 0.2 with thanos,
    otherwise 0.4."""
    delta: float | None = None
    """Step size of EXP3; default 0.1 with thanos, otherwise 0.01."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bandit  # noqa: B018  # rejects wrong values early
        if self.has_history and self.reward == "thanos":
            raise InputError(
                "reward='thanos' compares whole messages, but a history leaves only their change "
                "to sample: choose reward published, or history none."
            )

    @property
    def bandit(self) -> TargetBanditConfig:
        """The settings of the policy."""
        checks.choice("reward", self.reward, list(BANDIT_DEFAULTS))
        eta, delta, restart = BANDIT_DEFAULTS[self.reward]
        return TargetBanditConfig(
            eta=eta if self.eta is None else self.eta,
            delta=delta if self.delta is None else self.delta,
            reward=self.reward,
            restart=restart if self.restart is None else self.restart,
            attention=self.uses_attention,
            is_single_play=self.policy == "exp3",
        )


@dataclass(frozen=True, kw_only=True)
class GATBSConfig(GCNBSConfig):
    """Settings of the node-wise bandit samplers for attention."""

    builds: ClassVar[str] = "gcnbs.GATBS"
    uses_attention: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class SubgraphConfig(SamplerConfig):
    """Base class of the settings of subgraph samplers."""

    unit: ClassVar[Unit] = "none"
    makes_batches: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class ClusterGCNConfig(SubgraphConfig):
    """Settings of Cluster-GCN."""

    builds: ClassVar[str] = "cluster.ClusterGCN"
    parts: int | None = None
    """Number of clusters; default one per 150 nodes, at least 10."""
    renormalise: Renormalise = "rows"
    """Coefficients of a batch's edges: rows (rescaled to the row sums of the whole graph), mean
    ((D+I)^-1 (A+I) of the batch, as its authors do) or symmetric (the same for GCN)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice("renormalise", self.renormalise, get_args(Renormalise))
        if self.parts is not None:
            checks.whole("parts", self.parts, least=1)


@dataclass(frozen=True, kw_only=True)
class SaintNodeConfig(NodeMassConfig, SubgraphConfig):
    """Settings of GraphSAINT's node sampler."""

    builds: ClassVar[str] = "saint.SaintNode"
    masses: ClassVar[Sequence[str]] = ("squared", "degree")


@dataclass(frozen=True, kw_only=True)
class SaintEdgeConfig(SubgraphConfig):
    """Settings of GraphSAINT's edge sampler: none."""

    builds: ClassVar[str] = "saint.SaintEdge"


@dataclass(frozen=True, kw_only=True)
class SaintWalkConfig(SubgraphConfig):
    """Settings of GraphSAINT's random-walk sampler."""

    builds: ClassVar[str] = "saint.SaintWalk"
    length: int = 2
    """Number of hops of a random walk."""
    coverage: float = 50.0
    """Mean visits per node of the walks that estimate probabilities before the first batch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.whole("length", self.length, least=1)
        checks.positive("coverage", self.coverage, "at 0 no walk is counted; start with 50.")


SAMPLERS: dict[str, SamplerConfig] = {
    "ladies": LADIESConfig(),
    "sketch": SKETCHConfig(),
    "pladies": PLADIESConfig(),
    "bliss": BlissConfig(),
    "full": FullConfig(),
    "neighbor": NeighborConfig(),
    "labor": LABORConfig(),
    "labor-0": LABORConfig(iterations=0),
    "labor-1": LABORConfig(iterations=1),
    "labor-*": LABORConfig(iterations=CONVERGED),
    "fastgcn": FastGCNConfig(),
    "asgcn": ASGCNConfig(),
    "gcn-bs": GCNBSConfig(),
    "gat-bs": GATBSConfig(),
    "cluster": ClusterGCNConfig(),
    "saint-node": SaintNodeConfig(),
    "saint-edge": SaintEdgeConfig(),
    "saint-rw": SaintWalkConfig(),
    "vrgcn": VRGCNConfig(),
}
"""Samplers by name, each with its default settings."""


def sampler_config(name: str, **options: Any) -> SamplerConfig:
    """Settings of a sampler by name, with options applied; "labor-1" fixes iterations."""
    preset = SAMPLERS[checks.choice("sampler", name, list(SAMPLERS))]
    for one in fields(preset):
        value = getattr(preset, one.name)
        if one.name in options and value != one.default and options[one.name] != value:
            raise InputError(
                f"{one.name}={options[one.name]!r} contradicts sampler {name!r}, which has "
                f"{one.name}={value!r}: leave it out, or choose sampler "
                f"{name.partition('-')[0]!r}."
            )
    return preset.with_options(**options)
