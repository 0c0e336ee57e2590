"""Base classes of the samplers' settings. Imports neither numba nor torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from bliss import checks
from bliss.errors import InputError
from bliss.policies.configs import POLICIES, PolicyConfig
from bliss.samplers.estimators import estimator_of

if TYPE_CHECKING:
    from bliss.graph import Graph
    from bliss.samplers.base import Sampler

Unit = Literal["sources", "neighbours", "none"]
Thinning = Literal["exact", "paper"]
FirstHop = Literal["auto", "sampled", "exact", "history"]
HistoryKind = Literal["auto", "none", "nodes", "surveys"]
HistoryType = Literal["float32", "float16"]
Influence = Literal["auto", "none", "prior"]
LONGEST_COIN = 1 << 32


@dataclass(frozen=True, kw_only=True)
class SamplerConfig:
    """Settings of a sampler, which `build` makes for a graph."""

    builds: ClassVar[str] = ""
    """module.Class of the sampler, inside `bliss.samplers`; empty if it is elsewhere."""
    unit: ClassVar[Unit] = "sources"
    """Unit of a budget: sources kept per layer, neighbours kept per target, or none."""
    policies: ClassVar[Mapping[str, PolicyConfig]] = {}
    """Policies to choose from, by name; empty if there is no field `policy`."""
    makes_batches: ClassVar[bool] = False
    """Whether the sampler, not the loader, decides which seeds form a batch."""

    def __post_init__(self) -> None:
        if "thinning" in self.options():
            checks.choice("thinning", self.thinning, get_args(Thinning))  # type: ignore[attr-defined]

    def build(
        self,
        data: Any,
        budgets: Sequence[Any] = (),
        *,
        layers: int | None = None,
        seed: int = 0,
        norm: Any = None,
        x: Any = None,
        widths: Sequence[Any] = (),
        folder: Path | None = None,
    ) -> Sampler:
        """Build the sampler for a graph, or anything that `Graph.of` accepts."""
        given = {"layers": layers, "seed": seed, "norm": norm, "x": x}
        kind = self._sampler_class()
        return kind(data, budgets, config=self, widths=widths, folder=folder, **given)

    def check_types(self, budgets: Sequence[int | dict[str, int]], graph: Graph) -> None:
        """Raise an error unless budgets by type or relation are those of the graph."""
        if not any(isinstance(one, dict) for one in budgets):
            return
        from bliss.samplers.typed_budgets import divided_budgets

        kind = self._sampler_class()
        divided_budgets(budgets, graph, self.unit, kind.__name__, kind.divides_budgets)

    def _sampler_class(self) -> type[Sampler]:
        if not self.builds:
            raise InputError(
                f"{type(self).__name__} names no sampler to build: call the sampler's class with "
                "config=..., or set `builds`."
            )
        module, _, name = self.builds.partition(".")
        kind: type[Sampler] = getattr(import_module(f"bliss.samplers.{module}"), name)
        return kind

    @property
    def times_refused(self) -> str:
        """Why the sampler cannot draw from edges up to a time, with a remedy; empty if it can."""
        return ""

    @property
    def needs_features(self) -> bool:
        """Whether `build` needs node features x."""
        return False

    @property
    def is_first_hop_exact(self) -> bool:
        """Whether features are aggregated exactly, so that the input layer is not sampled."""
        return False

    @property
    def has_history(self) -> bool:
        """Whether the sampler has a history, so that `build` needs widths."""
        return False

    @property
    def needs_surveys(self) -> bool:
        """Whether the sampler learns only from evaluations of all nodes."""
        return False

    @property
    def weighs_targets(self) -> bool:
        """Whether masses weigh each target by its influence on the loss."""
        return False

    @property
    def lasting(self) -> int:
        """Number of steps for which a node keeps its coin."""
        return 1

    @property
    def linear_only(self) -> bool:
        """Whether the sampler needs fixed coefficients, so that attention is not supported."""
        return self.is_first_hop_exact or self.has_history

    def decided(
        self, suits_first_hop: bool, suits_history: bool = False, has_fixed_inputs: bool = True
    ) -> SamplerConfig:
        """A copy in which first_hop="auto" and history="auto" are decided.

        `suits_first_hop` and `suits_history` say whether the network, the task and the graph allow
        an exact first hop and a history. With a history, the first hop is exact if the inputs of
        the network are fixed.
        """
        return self

    def sampled_layers(self, layers: int) -> int:
        """Number of sampled layers of a network."""
        return layers - self.is_first_hop_exact

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Names of the settings, excluding those of the policy."""
        return tuple(field.name for field in fields(cls))

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
        of_policy = {k: v for k, v in options.items() if k not in self.options()}
        return changed._with_policy_options(of_policy)

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
        return self.builds.partition(".")[2] or type(self).__name__.removesuffix("Config")

    @property
    def policy_name(self) -> str:
        """Name of the chosen policy; empty if there is no choice."""
        return ""

    def to_dict(self) -> dict[str, Any]:
        """All settings by name, as accepted by `with_options`."""
        return {name: getattr(self, name) for name in self.options()}

    def changed(self) -> dict[str, Any]:
        """Settings that differ from the defaults, by name."""
        usual = type(self)().to_dict()
        return {k: v for k, v in self.to_dict().items() if k not in usual or usual[k] != v}

    def check_budgets(
        self, budgets: Sequence[Any], layers: int | None = None
    ) -> tuple[int | dict[str, int], ...]:
        """The budgets, checked: one per sampled layer, or none if the sampler has no budgets."""
        if self.unit != "none":
            if layers == 1 and self.is_first_hop_exact:
                raise InputError(
                    "layers=1 leaves no layer to sample with first_hop='exact': use sampler full, "
                    "or more layers."
                )
            sampled = None if layers is None else self.sampled_layers(layers)
            above = "layers above the exact first" if self.is_first_hop_exact else "layers"
            return checks.budgets(budgets, sampled, above)
        if not hasattr(budgets, "__len__") or len(budgets):
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
        layers = self.sampled_layers(layers)
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
    estimator: Any = "ht"
    """Weights of kept edges; see docs/samplers.md."""
    first_hop: FirstHop = "sampled"
    """Input layer: sampled, exact (features aggregated once; not for attention), history (of learnt
    inputs), or auto: in training exact for policy node, unless the network has attention or learnt
    inputs, there are as many budgets as layers, or the sums take more than 4 GiB; otherwise
    sampled. With exact, budgets are those of the layers above."""
    history: HistoryKind = "none"
    """Sample only the change of a node's input since it was last sampled (nodes) or since the last
    full evaluation (surveys); or sample the whole input (none). Sets first_hop exact, or history if
    inputs are learnt, and needs an unbiased estimator, such as ht; not for attention. See
    docs/histories.md for auto."""
    history_type: HistoryType = "float32"
    """Type of the numbers of a history: float32, or float16 (half the memory)."""
    history_folder: str | None = None
    """Folder in which to keep a history as a memory-mapped file; default: in memory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.estimator, str):
            checks.choice("estimator", self.estimator, self.estimators)
        estimator = estimator_of(self.estimator)
        checks.choice("first_hop", self.first_hop, get_args(FirstHop))
        checks.choice("history", self.history, get_args(HistoryKind))
        checks.choice("history_type", self.history_type, get_args(HistoryType))
        if self.first_hop == "history" and not self.has_history:
            raise InputError(
                "first_hop='history' has no effect without a history: choose history nodes or "
                "surveys, too, or first_hop sampled."
            )
        if self.has_history:
            hop = "history" if self.first_hop == "history" else "exact"
            object.__setattr__(self, "first_hop", hop)
            if not estimator.is_unbiased:
                raise InputError(
                    f"estimator={self.estimator!r} is biased, but history={self.history!r} needs "
                    "an unbiased one: choose estimator ht."
                )

    @property
    def times_refused(self) -> str:
        """A history and an exact first hop sum over neighbours of any time."""
        if not self.is_first_hop_exact and not self.has_history:
            return super().times_refused
        return (
            "a history or an exact first hop sums over neighbours of any time: choose history none "
            "and first_hop sampled"
        )

    @property
    def needs_features(self) -> bool:
        """Whether `build` needs node features x."""
        return self.is_first_hop_exact

    @property
    def is_first_hop_exact(self) -> bool:
        """Whether features are aggregated exactly, so that the input layer is not sampled."""
        return self.first_hop == "exact"

    @property
    def has_history(self) -> bool:
        """Whether the sampler has a history, so that `build` needs widths."""
        return self.history in ("nodes", "surveys")

    @property
    def needs_surveys(self) -> bool:
        """Whether the history is written only by evaluations of all nodes."""
        return self.history == "surveys"

    def decided(
        self, suits_first_hop: bool, suits_history: bool = False, has_fixed_inputs: bool = True
    ) -> SamplerConfig:
        """A copy in which first_hop="auto" and history="auto" are decided; see the base class.

        Both are for policy node alone, and a history for an exact first hop, an unbiased estimator
        and coins of one step alone.
        """
        first_hop, history, is_node = self.first_hop, self.history, self.policy_name == "node"
        if first_hop == "auto":
            first_hop = "exact" if suits_first_hop and is_node else "sampled"
        if history == "auto":
            is_suited = suits_history and is_node and first_hop == "exact"
            history = "nodes" if is_suited and self.allows("history", "nodes") else "none"
        if self.has_history and not has_fixed_inputs:
            first_hop = "history"
        return replace(self, first_hop=first_hop, history=history)


@dataclass(frozen=True, kw_only=True)
class CoinConfig(EstimatorConfig):
    """Settings of a sampler with a coin per node, which may last several steps."""

    coin_steps: int = 1
    """Steps for which a node keeps its coin, the random number that decides whether it is kept.
    More steps let consecutive batches share sources, so that less is read from disk; 1: new coins
    in every step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        steps = checks.whole("coin_steps", self.coin_steps, least=1)
        if steps > LONGEST_COIN:
            raise InputError(
                f"coin_steps={steps} is more than {LONGEST_COIN}, the number of different phases "
                "of coins: start with 64."
            )
        if steps > 1 and self.history == "nodes":
            raise InputError(
                f"coin_steps={steps} is not possible with history='nodes', because a node is then "
                "sampled again while its history is new, and not while it is old, which is biased: "
                "choose coin_steps 1, or history none or surveys."
            )

    @property
    def lasting(self) -> int:
        """Number of steps for which a node keeps its coin."""
        return self.coin_steps


@dataclass(frozen=True, kw_only=True)
class InfluenceConfig(EstimatorConfig):
    """Settings of a sampler that can weight each target by its influence on the loss."""

    influence: Influence = "none"
    """Weight of each target in the masses: none (equal weights, as published), prior (its influence
    on the loss, estimated from the weights of the layers above), or auto: prior for policy node
    without a history, none otherwise."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice("influence", self.influence, get_args(Influence))

    @property
    def weighs_targets(self) -> bool:
        """Whether masses weigh each target by its influence on the loss."""
        if self.influence == "auto":
            return self.policy_name == "node" and not self.has_history
        return self.influence == "prior"


@dataclass(frozen=True, kw_only=True)
class PolicySamplerConfig(EstimatorConfig):
    """Settings of a sampler whose masses come from a policy.

    The settings of the policy are also options of the sampler. A sampler with a single policy has
    no option `policy`.
    """

    policies: ClassVar[Mapping[str, PolicyConfig]] = POLICIES
    policy: Any = "static"
    """Policy that sets the masses (sampling weights) of nodes; see docs/policies.md."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.policy, str):
            checks.choice("policy", self.policy, list(self.policies))
            object.__setattr__(self, "policy", self.policies[self.policy])
        if not (self.is_built or isinstance(self.policy, PolicyConfig)):
            raise InputError(
                f"policy={self.policy!r} is not a policy: pass a name "
                f"({', '.join(self.policies)}), a config such as Exp3Config(eta=0.4), or a policy "
                "built for this graph."
            )

    @property
    def is_built(self) -> bool:
        """Whether `policy` is a policy object, not a config."""
        return hasattr(self.policy, "edge_mass")

    @property
    def policy_config(self) -> PolicyConfig:
        """The settings of a policy that is not built."""
        assert isinstance(self.policy, PolicyConfig)
        return self.policy

    @property
    def policy_name(self) -> str:
        """Name of the chosen policy; empty if there is no choice."""
        return str(self.policy.name) if len(self.policies) > 1 else ""

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Names of the settings, excluding those of the policy."""
        names = super().options()
        return names if len(cls.policies) > 1 else tuple(n for n in names if n != "policy")

    def known_options(self) -> tuple[str, ...]:
        """Names of all settings, including those of the chosen policy."""
        return (*self.options(), *(() if self.is_built else self.policy_config.options()))

    def _with_policy_options(self, options: Mapping[str, Any]) -> SamplerConfig:
        unknown = {k: v for k, v in options.items() if k not in self.known_options()}
        super()._with_policy_options(unknown)  # raises an error if there are any
        return replace(self, policy=self.policy_config.with_options(**options)) if options else self

    def to_dict(self) -> dict[str, Any]:
        """All settings by name, including those of the policy."""
        own = super().to_dict()
        if self.is_built:
            return own
        chosen = {"policy": self.policy_name} if "policy" in own else {}
        return own | chosen | asdict(self.policy_config)
