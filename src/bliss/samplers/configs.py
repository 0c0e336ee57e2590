"""Settings of every sampler, and the samplers by name. Imports neither numba nor torch.

A field's docstring is its help on the command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from bliss import checks
from bliss.errors import InputError
from bliss.policies.configs import POLICIES, PolicyConfig, Reward, TargetBanditConfig, policy_config

if TYPE_CHECKING:
    from bliss.samplers.base import Sampler

Unit = Literal["sources", "neighbours", "none"]
Thinning = Literal["exact", "paper"]
ALL_POLICIES = tuple(POLICIES)
CONVERGED = "converged"


@dataclass(frozen=True, kw_only=True)
class SamplerConfig:
    """Settings that can build a sampler for a graph."""

    builds: ClassVar[str]
    """module.Class of the sampler, inside `bliss.samplers`."""
    unit: ClassVar[Unit] = "sources"
    """What a budget counts: sources kept per layer, neighbours kept per target, or nothing."""
    policies: ClassVar[Sequence[str]] = ()
    """Names that `policy` may have, where there is that field."""
    needs_features: ClassVar[bool] = False
    """Whether `build` needs the nodes' features as x."""
    makes_batches: ClassVar[bool] = False
    """Whether the sampler, not the loader, decides which seeds form a batch."""
    linear_only: ClassVar[bool] = False
    """Whether it needs fixed coefficients, so that attention is not possible."""

    def __post_init__(self) -> None:
        names = self.options()
        if "policy" in names and isinstance(self.policy, str):  # type: ignore[attr-defined]
            checks.choice("policy", self.policy, self.policies)  # type: ignore[attr-defined]
        if "thinning" in names:
            checks.choice("thinning", self.thinning, get_args(Thinning))  # type: ignore[attr-defined]

    def build(
        self,
        data: Any,
        budgets: Sequence[int] = (),
        *,
        layers: int | None = None,
        seed: int = 0,
        norm: Any = None,
        x: Any = None,
    ) -> Sampler:
        """Build the sampler for a graph, or anything `Graph.of` takes."""
        module, _, name = self.builds.partition(".")
        kind = getattr(import_module(f"bliss.samplers.{module}"), name)
        made: Sampler = kind(data, budgets, config=self, layers=layers, seed=seed, norm=norm, x=x)
        return made

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Names of the settings, without those of a policy."""
        return tuple(one.name for one in fields(cls) if one.name != "policy_options")

    def known_options(self) -> tuple[str, ...]:
        """Names of all settings, those of the chosen policy included."""
        return self.options()

    def allows(self, name: str, value: Any) -> bool:
        """Whether the option exists and may have this value."""
        try:
            self.with_options(**{name: value})
        except InputError:
            return False
        return True

    def with_options(self, **options: Any) -> SamplerConfig:
        """A copy with settings changed; refuses names that the sampler does not have."""
        changed = replace(self, **{k: v for k, v in options.items() if k in self.options()})
        others = {k: v for k, v in options.items() if k not in self.options()}
        return changed._with_policy_options(others)

    def _with_policy_options(self, options: Mapping[str, Any]) -> SamplerConfig:
        for name, value in options.items():
            raise InputError(
                f"{name}={value!r} is not an option of {self.title}, which takes "
                f"{', '.join(self.known_options()) or 'none'}: remove it, or choose another "
                "sampler or policy."
            )
        return self

    @property
    def title(self) -> str:
        """The sampler's class name."""
        return self.builds.partition(".")[2]

    def to_dict(self) -> dict[str, Any]:
        """All settings by name, as `with_options` takes them."""
        return asdict(self)

    def check_budgets(self, budgets: Sequence[int], layers: int | None = None) -> tuple[int, ...]:
        """The budgets, checked: one per layer, or none where nothing is counted."""
        if self.unit != "none":
            return checks.budgets(budgets, layers)
        if np.size(budgets):
            raise InputError(
                f"budgets={budgets!r} would have no effect: {self.title} has no budget, so leave "
                "them out."
            )
        return ()

    def default_budgets(self, layers: int, num_nodes: int) -> tuple[int, ...]:
        """Budgets for a graph, input layer first.

        10 neighbours a layer; or 512 sources in the output layer and twice as many in each layer
        below, scaled down so that the largest is at most an eighth of the nodes.
        """
        if self.unit == "none":
            return ()
        if self.unit == "neighbours":
            return (10,) * layers
        budgets = [512 << depth for depth in reversed(range(layers))]
        scale = min(1.0, num_nodes / 8 / max(budgets))
        return tuple(max(1, int(scale * budget)) for budget in budgets)


@dataclass(frozen=True, kw_only=True)
class EstimatorConfig(SamplerConfig):
    """Settings of a sampler that offers several estimators."""

    estimators: ClassVar[Sequence[str]] = ("ht", "hajek")
    """Names that `estimator` may have."""
    estimator: str = "ht"
    """Weights of kept edges; see docs/samplers.md."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice("estimator", self.estimator, self.estimators)


@dataclass(frozen=True, kw_only=True)
class PolicySamplerConfig(EstimatorConfig):
    """Settings of a sampler whose masses come from a policy."""

    policies: ClassVar[Sequence[str]] = ALL_POLICIES
    policy: Any = "static"
    """Where the masses come from; see docs/policies.md."""
    policy_options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Settings of the policy, such as eta."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_built and self.policy_options:
            raise InputError(
                f"policy_options={dict(self.policy_options)} cannot change a policy that is built "
                "already: pass its name or its config instead."
            )
        if not self.is_built:
            self.policy_config  # noqa: B018  # refuses wrong options now

    @property
    def is_built(self) -> bool:
        """Whether `policy` is a policy, not a name or a config."""
        return hasattr(self.policy, "edge_mass")

    @property
    def policy_config(self) -> PolicyConfig:
        """The settings of the policy."""
        return policy_config(self.policy, **self.policy_options)

    def known_options(self) -> tuple[str, ...]:
        """Names of all settings, those of the chosen policy included."""
        return (*self.options(), *(() if self.is_built else self.policy_config.options()))

    def _with_policy_options(self, options: Mapping[str, Any]) -> SamplerConfig:
        known = {k: v for k, v in options.items() if k in self.known_options()}
        super()._with_policy_options({k: v for k, v in options.items() if k not in known})
        return replace(self, policy_options={**self.policy_options, **known}) if known else self

    def to_dict(self) -> dict[str, Any]:
        """All settings by name, those of the policy included."""
        own = {name: getattr(self, name) for name in self.options()}
        return own | (asdict(self.policy_config) if isinstance(self.policy, str) else {})


@dataclass(frozen=True, kw_only=True)
class LayerSamplerConfig(PolicySamplerConfig):
    """Settings of a layer-wise sampler put together by hand."""

    builds: ClassVar[str] = "layerwise.LayerSampler"
    estimators: ClassVar[Sequence[str]] = ("ht", "hajek", "released")
    draw: Any = None
    """How masses become sources: a draw of `bliss.samplers.draws`; None: Poisson."""


@dataclass(frozen=True, kw_only=True)
class PoissonConfig(PolicySamplerConfig):
    """Settings of samplers that flip a coin per source."""

    estimators: ClassVar[Sequence[str]] = ("ht", "hajek", "released")
    estimator: str = "ht"
    """Weights of kept edges: ht (unbiased), hajek (rows rescaled) or released (as the authors'
    code)."""
    thinning: Thinning = "exact"
    """How the budget is met: exact, or paper (the paper's iteration, which can miss it)."""


@dataclass(frozen=True, kw_only=True)
class PLADIESConfig(PoissonConfig):
    """Settings of PLADIES."""

    builds: ClassVar[str] = "pladies.PLADIES"


@dataclass(frozen=True, kw_only=True)
class BlissConfig(PoissonConfig):
    """Settings of BLISS."""

    builds: ClassVar[str] = "bliss.Bliss"
    policy: Any = "node"
    """Where the masses come from; see docs/policies.md."""


@dataclass(frozen=True, kw_only=True)
class LADIESConfig(PolicySamplerConfig):
    """Settings of LADIES."""

    builds: ClassVar[str] = "ladies.LADIES"
    policy: Any = "ladies"
    """Where the masses come from; see docs/policies.md."""
    estimator: str = "hajek"
    """Weights of kept edges: ht (unbiased) or hajek (rows rescaled; biased, often less error)."""
    replace: bool = True
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
    needs_features: ClassVar[bool] = True
    thinning: Thinning = "exact"
    """How the budget is met: exact, or paper (the paper's iteration, which can miss it)."""
    eta: float = 0.1
    """Exploration: share of a mass that ignores what was learnt."""
    rate: float = 0.01
    """Adam's step size for the sampler's own parameters."""


@dataclass(frozen=True, kw_only=True)
class FastGCNConfig(EstimatorConfig):
    """Settings of FastGCN."""

    builds: ClassVar[str] = "fastgcn.FastGCN"


@dataclass(frozen=True, kw_only=True)
class FullConfig(SamplerConfig):
    """Full neighbourhoods have no settings."""

    builds: ClassVar[str] = "full.Full"
    unit: ClassVar[Unit] = "none"


@dataclass(frozen=True, kw_only=True)
class NodeSamplerConfig(PolicySamplerConfig):
    """Settings of a node-wise sampler put together by hand."""

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
    needs_features: ClassVar[bool] = True
    linear_only: ClassVar[bool] = True

    def default_budgets(self, layers: int, num_nodes: int) -> tuple[int, ...]:
        """2 neighbours a layer."""
        return (2,) * layers


@dataclass(frozen=True, kw_only=True)
class LABORConfig(EstimatorConfig):
    """Settings of LABOR."""

    builds: ClassVar[str] = "labor.LABOR"
    unit: ClassVar[Unit] = "neighbours"
    iterations: int | str = 0
    """Rounds of LABOR: 0, a number, or converged."""
    shared: bool = False
    """Share coins between layers: fewer nodes, but layers are no longer independent."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.flag("shared", self.shared)
        value = self.iterations
        is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if value != CONVERGED and not (is_whole and 0 <= int(value) < 2**31):
            raise InputError(
                f"iterations={value!r} must be 0 (LABOR-0), a number of rounds (LABOR-i) or "
                f'"{CONVERGED}" (LABOR-*).'
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
    """The bandit: exp3m (k arms at once, without replacement) or exp3 (k plays of one arm)."""
    estimator: str = "ht"
    """Weights of kept edges: ht (unbiased), hajek (rows rescaled) or plain (equal chances)."""
    reward: Reward = "published"
    """published, or thanos: bounded, larger the closer a message is to its target's mean."""
    restart: int | None = None
    """Steps between restarts, 0 for none; default 100 with thanos, otherwise none."""
    eta: float = 0.4
    """Exploration: share of q_ij that is uniform over the neighbours."""
    delta: float = 0.01
    """Step size of EXP3."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bandit  # noqa: B018  # refuses wrong values now

    @property
    def bandit(self) -> TargetBanditConfig:
        """The settings of the policy."""
        default = 100 if self.reward == "thanos" else 0
        return TargetBanditConfig(
            eta=self.eta,
            delta=self.delta,
            reward=self.reward,
            restart=default if self.restart is None else self.restart,
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
    """What samplers of subgraphs have in common."""

    unit: ClassVar[Unit] = "none"
    makes_batches: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class ClusterGCNConfig(SubgraphConfig):
    """Settings of Cluster-GCN."""

    builds: ClassVar[str] = "cluster.ClusterGCN"
    parts: int | None = None
    """Number of clusters; default one per 150 nodes, but at least 10."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.parts is not None:
            checks.whole("parts", self.parts, least=1)


@dataclass(frozen=True, kw_only=True)
class SaintNodeConfig(SubgraphConfig):
    """GraphSAINT's node sampler has no settings."""

    builds: ClassVar[str] = "saint.SaintNode"


@dataclass(frozen=True, kw_only=True)
class SaintEdgeConfig(SubgraphConfig):
    """GraphSAINT's edge sampler has no settings."""

    builds: ClassVar[str] = "saint.SaintEdge"


@dataclass(frozen=True, kw_only=True)
class SaintWalkConfig(SubgraphConfig):
    """Settings of GraphSAINT's random-walk sampler."""

    builds: ClassVar[str] = "saint.SaintWalk"
    length: int = 2
    """Hops of a random walk."""
    coverage: float = 50.0
    """How often a node is visited, on average, by the walks counted before the first batch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.whole("length", self.length, least=1)
        checks.positive("coverage", self.coverage, "no walk would be counted, start with 50.")


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
    """The settings of a sampler by its name, with options changed; "labor-1" fixes iterations."""
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
