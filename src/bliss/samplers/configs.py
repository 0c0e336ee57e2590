"""Settings of every sampler, and the samplers by name. Imports neither numba nor torch.

A field's docstring is its help on the command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any, ClassVar, Literal, get_args

from bliss import checks
from bliss.errors import InputError
from bliss.policies.configs import (
    LadiesConfig,
    LinearConfig,
    NodeConfig,
    PolicyConfig,
    SinglePlayConfig,
    StaticConfig,
    TargetBanditConfig,
    UniformConfig,
    by_name,
)
from bliss.samplers.config_base import (
    CoinConfig,
    EstimatorConfig,
    FirstHop,
    HistoryKind,
    Influence,
    InfluenceConfig,
    PolicySamplerConfig,
    SamplerConfig,
    Thinning,
    Unit,
)

CONVERGED = "converged"
Renormalise = Literal["rows", "mean", "symmetric"]
TemporalStrategy = Literal["uniform", "last"]


@dataclass(frozen=True, kw_only=True)
class LayerSamplerConfig(CoinConfig, InfluenceConfig, PolicySamplerConfig):
    """Settings of a custom layer-wise sampler."""

    builds: ClassVar[str] = "layerwise.LayerSampler"
    estimators: ClassVar[Sequence[str]] = ("ht", "hajek", "released")
    draw: Any = None
    """Method that draws sources, from `bliss.samplers.draws`; default Poisson."""


@dataclass(frozen=True, kw_only=True)
class PoissonConfig(CoinConfig, InfluenceConfig, PolicySamplerConfig):
    """Settings of samplers that flip one coin per source."""

    estimators: ClassVar[Sequence[str]] = ("ht", "hajek", "released")
    estimator: Any = "ht"
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
    first_hop: FirstHop = "auto"
    history: HistoryKind = "auto"
    """Sample only the change of a node's input since it was last sampled (nodes) or since the last
    full evaluation (surveys); or sample the whole input (none). Sets first_hop exact, or history if
    inputs are learnt, and needs an unbiased estimator, such as ht; not for attention. With
    auto, training has nodes for GraphSAGE without dropout if it takes at most 1 GiB, otherwise none
    (docs/histories.md)."""
    influence: Influence = "auto"


@dataclass(frozen=True, kw_only=True)
class LADIESConfig(InfluenceConfig, PolicySamplerConfig):
    """Settings of LADIES."""

    builds: ClassVar[str] = "ladies.LADIES"
    policy: Any = "ladies"
    """Policy that sets the masses; see docs/policies.md."""
    estimator: Any = "hajek"
    """Weights of kept edges: ht (unbiased) or hajek (rows rescaled; biased, often less error)."""
    replace: bool = False
    """Draw with replacement."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.flag("replace", self.replace)


@dataclass(frozen=True, kw_only=True)
class SKETCHConfig(CoinConfig, InfluenceConfig, PolicySamplerConfig):
    """Settings of SKETCH."""

    builds: ClassVar[str] = "sketch.SKETCH"
    policies: ClassVar[Mapping[str, PolicyConfig]] = by_name(
        UniformConfig(), LadiesConfig(), StaticConfig(), NodeConfig()
    )
    estimators: ClassVar[Sequence[str]] = ("debiased", "sketch", "hajek")
    estimator: Any = "debiased"
    """Weights of kept edges: debiased (unbiased), sketch (alpha / (s q_j)) or hajek (rows
    rescaled)."""


@dataclass(frozen=True, kw_only=True)
class ASGCNConfig(InfluenceConfig, PolicySamplerConfig):
    """Settings of AS-GCN."""

    builds: ClassVar[str] = "asgcn.ASGCN"
    policies: ClassVar[Mapping[str, PolicyConfig]] = by_name(LinearConfig())
    policy: Any = "linear"
    """Policy that sets the masses: linear in the features."""
    thinning: Thinning = "exact"
    """Solver for the budget: exact, or paper (the paper's iteration, which can miss it)."""

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

    @property
    def times_refused(self) -> str:
        """Masses are those of the whole graph."""
        return (
            "its masses count edges of any time: choose a sampler such as bliss, pladies or "
            "neighbor"
        )

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
class NodeSamplerConfig(CoinConfig, PolicySamplerConfig):
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
class NeighborConfig(InfluenceConfig, NodeSamplerConfig):
    """Settings of neighbour sampling."""

    builds: ClassVar[str] = "neighbor.Neighbor"
    policies: ClassVar[Mapping[str, PolicyConfig]] = by_name(UniformConfig(), StaticConfig())
    estimators: ClassVar[Sequence[str]] = ("ht", "hajek")
    policy: Any = "uniform"
    """Masses of in-edges: uniform, or static (proportional to alpha_ij)."""
    influence: Influence = "none"
    """Number of neighbours of each target: equal (none, as published), or larger for targets with
    more influence on the loss, estimated from the weights of the layers above, with the same total
    (prior); auto is none."""
    temporal_strategy: TemporalStrategy = "uniform"
    """Neighbours in a graph with timestamps: uniform (drawn by the policy) or last (the newest
    ones; the mean is over them alone, so nothing is random)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice("temporal_strategy", self.temporal_strategy, get_args(TemporalStrategy))
        is_random = self.replace or self.policy_name == "static" or self.has_history
        if self.temporal_strategy == "last" and (is_random or self.weighs_targets):
            raise InputError(
                "temporal_strategy='last' keeps the newest neighbours and draws none: choose "
                "policy uniform and influence none, without replace and without a history."
            )


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
            raise InputError(
                f"history={self.history!r} turns VR-GCN into neighbour sampling: choose nodes or "
                "surveys, or sampler neighbor."
            )

    def default_budgets(self, layers: int, num_nodes: int) -> tuple[int, ...]:
        """2 neighbours per sampled layer."""
        return (2,) * self.sampled_layers(layers)


@dataclass(frozen=True, kw_only=True)
class LABORConfig(CoinConfig):
    """Settings of LABOR."""

    builds: ClassVar[str] = "labor.LABOR"
    unit: ClassVar[Unit] = "neighbours"
    estimator: Any = "hajek"
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
                f"iterations={value!r} is not valid: choose 0 (LABOR-0), a positive number "
                f'(LABOR-i) or "{CONVERGED}" (LABOR-*).'
            )


@dataclass(frozen=True, kw_only=True)
class GCNBSConfig(PolicySamplerConfig):
    """Settings of the node-wise bandit samplers."""

    builds: ClassVar[str] = "gcnbs.GCNBS"
    unit: ClassVar[Unit] = "neighbours"
    policies: ClassVar[Mapping[str, PolicyConfig]] = by_name(
        TargetBanditConfig(), SinglePlayConfig()
    )
    estimators: ClassVar[Sequence[str]] = ("ht", "hajek", "plain")
    uses_attention: ClassVar[bool] = False
    policy: Any = "exp3m"
    """Bandit: exp3m (k arms at once, without replacement) or exp3-single (k plays of one arm)."""
    estimator: Any = "ht"
    """Weights of kept edges: ht (unbiased), hajek (rows rescaled) or plain (ignores p_ij)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.policy, TargetBanditConfig):
            raise InputError(
                f"policy={self.policy!r} is not a bandit over a target's neighbours: choose exp3m "
                "or exp3-single, or pass a TargetBanditConfig."
            )
        if self.has_history and self.bandit.reward == "thanos":
            raise InputError(
                "reward='thanos' compares whole messages, but a history leaves only their change "
                "to sample: choose reward published, or history none."
            )

    @property
    def bandit(self) -> TargetBanditConfig:
        """The settings of the policy."""
        assert isinstance(self.policy, TargetBanditConfig)
        return self.policy


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

    @property
    def times_refused(self) -> str:
        """All layers share one set of edges."""
        return (
            "all targets of a subgraph share its edges, whatever their times: choose a layer-wise "
            "or node-wise sampler, such as bliss or neighbor"
        )


@dataclass(frozen=True, kw_only=True)
class RenormalisedConfig(SubgraphConfig):
    """Base class of the settings of subgraphs with coefficients of their own."""

    renormalise: Renormalise = "rows"
    """Coefficients of a batch's edges: rows (rescaled to the row sums of the whole graph), mean
    ((D+I)^-1 (A+I) of the batch, as in the code of Cluster-GCN) or symmetric (the same for GCN)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice("renormalise", self.renormalise, get_args(Renormalise))


@dataclass(frozen=True, kw_only=True)
class RandomNodesConfig(RenormalisedConfig):
    """Settings of random node subgraphs."""

    builds: ClassVar[str] = "random_nodes.RandomNodes"


@dataclass(frozen=True, kw_only=True)
class ClusterGCNConfig(RenormalisedConfig):
    """Settings of Cluster-GCN."""

    builds: ClassVar[str] = "cluster.ClusterGCN"
    parts: int | None = None
    """Number of clusters; default one per 150 nodes, at least 10."""

    def __post_init__(self) -> None:
        super().__post_init__()
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
    "random-nodes": RandomNodesConfig(),
    "cluster": ClusterGCNConfig(),
    "saint-node": SaintNodeConfig(),
    "saint-edge": SaintEdgeConfig(),
    "saint-rw": SaintWalkConfig(),
    "vrgcn": VRGCNConfig(),
}
"""Samplers by name, each with its default settings."""


def sampler_config(name: str, /, **options: Any) -> SamplerConfig:
    """Settings of a sampler by name, with options applied; "labor-1" fixes iterations."""
    preset = SAMPLERS[checks.choice("sampler", name, list(SAMPLERS))]
    return check_preset(name, preset.with_options(**options))


def check_preset(name: str, config: SamplerConfig) -> SamplerConfig:
    """The settings of a sampler, checked against those that its name fixes."""
    preset = SAMPLERS[checks.choice("sampler", name, list(SAMPLERS))]
    if type(config) is not type(preset):
        raise InputError(
            f"the settings of sampler {name!r} are a {type(config).__name__}, but must be a "
            f"{type(preset).__name__}: build them with sampler_config({name!r})."
        )
    default = type(preset)()
    for option in (field.name for field in fields(preset)):
        value, fixed = getattr(config, option), getattr(preset, option)
        if fixed != getattr(default, option) and value != fixed:
            raise InputError(
                f"{option}={value!r} contradicts sampler {name!r}, which has "
                f"{option}={fixed!r}: leave it out, or choose sampler "
                f"{name.partition('-')[0]!r}."
            )
    return config
