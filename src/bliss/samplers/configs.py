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
    """Unit of a budget: sources kept per layer, neighbours kept per target, or none."""
    policies: ClassVar[Sequence[str]] = ()
    """Allowed names for `policy`; empty if there is no such field."""
    needs_features: ClassVar[bool] = False
    """Whether `build` needs node features x."""
    makes_batches: ClassVar[bool] = False
    """Whether the sampler, not the loader, decides which seeds form a batch."""
    linear_only: ClassVar[bool] = False
    """Whether the sampler needs fixed coefficients, so that attention is not supported."""

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
        """Build the sampler for a graph, or anything that `Graph.of` accepts."""
        module, _, name = self.builds.partition(".")
        kind = getattr(import_module(f"bliss.samplers.{module}"), name)
        made: Sampler = kind(data, budgets, config=self, layers=layers, seed=seed, norm=norm, x=x)
        return made

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Names of the settings, excluding those of the policy."""
        return tuple(one.name for one in fields(cls) if one.name != "policy_options")

    def known_options(self) -> tuple[str, ...]:
        """Names of all settings, including those of the chosen policy."""
        return self.options()

    def allows(self, name: str, value: Any) -> bool:
        """Whether the option exists and accepts this value."""
        try:
            self.with_options(**{name: value})
        except InputError:
            return False
        return True

    def with_options(self, **options: Any) -> SamplerConfig:
        """A copy with changed settings; raises an error for unknown names."""
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
        """All settings by name, as accepted by `with_options`."""
        return asdict(self)

    def check_budgets(self, budgets: Sequence[int], layers: int | None = None) -> tuple[int, ...]:
        """The budgets, checked: one per layer, or none if the sampler has no budgets."""
        if self.unit != "none":
            return checks.budgets(budgets, layers)
        if np.size(budgets):
            raise InputError(
                f"budgets={budgets!r} would have no effect, because {self.title} has no budgets: "
                "leave them out."
            )
        return ()

    def default_budgets(self, layers: int, num_nodes: int) -> tuple[int, ...]:
        """Default budgets for a graph, input layer first.

        10 neighbours per layer; or 512 sources in the output layer and twice as many in each layer
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
    """Allowed names for `estimator`."""
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
    """Policy that sets the masses; see docs/policies.md."""
    policy_options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Settings of the policy, such as eta."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_built and self.policy_options:
            raise InputError(
                f"policy_options={dict(self.policy_options)} cannot change a policy that is "
                "already built: pass its name or its config instead."
            )
        if not self.is_built:
            self.policy_config  # noqa: B018  # rejects wrong options early

    @property
    def is_built(self) -> bool:
        """Whether `policy` is a policy object, not a name or a config."""
        return hasattr(self.policy, "edge_mass")

    @property
    def policy_config(self) -> PolicyConfig:
        """The settings of the policy."""
        return policy_config(self.policy, **self.policy_options)

    def known_options(self) -> tuple[str, ...]:
        """Names of all settings, including those of the chosen policy."""
        return (*self.options(), *(() if self.is_built else self.policy_config.options()))

    def _with_policy_options(self, options: Mapping[str, Any]) -> SamplerConfig:
        known = {k: v for k, v in options.items() if k in self.known_options()}
        super()._with_policy_options({k: v for k, v in options.items() if k not in known})
        return replace(self, policy_options={**self.policy_options, **known}) if known else self

    def to_dict(self) -> dict[str, Any]:
        """All settings by name, including those of the policy."""
        own = {name: getattr(self, name) for name in self.options()}
        return own | (asdict(self.policy_config) if isinstance(self.policy, str) else {})


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
    """Solver for the budget: exact, or paper (the paper's iteration, which can miss it)."""
    eta: float = 0.1
    """Exploration: share of each mass that does not depend on the learnt parameters."""
    rate: float = 0.01
    """Adam step size for the sampler's parameters."""


@dataclass(frozen=True, kw_only=True)
class FastGCNConfig(EstimatorConfig):
    """Settings of FastGCN."""

    builds: ClassVar[str] = "fastgcn.FastGCN"


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
    needs_features: ClassVar[bool] = True
    linear_only: ClassVar[bool] = True

    def default_budgets(self, layers: int, num_nodes: int) -> tuple[int, ...]:
        """2 neighbours per layer."""
        return (2,) * layers


@dataclass(frozen=True, kw_only=True)
class LABORConfig(EstimatorConfig):
    """Settings of LABOR."""

    builds: ClassVar[str] = "labor.LABOR"
    unit: ClassVar[Unit] = "neighbours"
    iterations: int | str = 0
    """Number of iterations (0 for LABOR-0), or converged."""
    shared: bool = False
    """Share coins between layers: fewer nodes, but layers are not independent."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.flag("shared", self.shared)
        value = self.iterations
        is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
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
    """Steps between resets of the bandit, 0 for none; default 100 with thanos, otherwise 0."""
    eta: float = 0.4
    """Exploration: share of q_ij that is uniform over the neighbours."""
    delta: float = 0.01
    """Step size of EXP3."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bandit  # noqa: B018  # rejects wrong values early

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
    """Base class of the settings of subgraph samplers."""

    unit: ClassVar[Unit] = "none"
    makes_batches: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class ClusterGCNConfig(SubgraphConfig):
    """Settings of Cluster-GCN."""

    builds: ClassVar[str] = "cluster.ClusterGCN"
    parts: int | None = None
    """Number of clusters; default one per 150 nodes, at least 10."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.parts is not None:
            checks.whole("parts", self.parts, least=1)


@dataclass(frozen=True, kw_only=True)
class SaintNodeConfig(SubgraphConfig):
    """Settings of GraphSAINT's node sampler: none."""

    builds: ClassVar[str] = "saint.SaintNode"


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
    """Average number of visits per node by the walks counted before the first batch."""

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
