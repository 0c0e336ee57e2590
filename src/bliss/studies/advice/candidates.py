"""Kinds of sampler that advice chooses from, each with models of its error and its time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bliss.errors import InputError
from bliss.samplers import LayerSampler
from bliss.studies.advice.advice_record import Fit
from bliss.studies.advice.budgets import Budgets, Expectation, Sensitivity, fit_sensitivity, search
from bliss.studies.advice.costs import CostModel, Work, fit_costs
from bliss.studies.advice.pilot import Pilot
from bliss.train import TrainConfig, resolve
from bliss.train.config import PLACES

KINDS: Mapping[str, Mapping[str, Any]] = {
    "pladies": {"sampler": "pladies"},
    "bliss": {"sampler": "bliss", "first_hop": "sampled", "history": "none"},
    "bliss, exact first hop": {"sampler": "bliss", "first_hop": "exact", "history": "none"},
    "bliss, history": {"sampler": "bliss", "history": "nodes", "estimator": "ht"},
    "neighbor": {"sampler": "neighbor"},
    "full": {"sampler": "full"},
}
"""What is considered, by name."""
OPEN = {"first_hop": "auto", "history": "auto"}.items()
"""Values of options that leave them to the choice."""
REFERENCES = ("pladies", "neighbor", "full")
"""Kinds that every choice is compared with."""
SCALES = (1 / 8, 1 / 2, 2.0)
"""Budgets that are measured, as multiples of the default ones."""
FANOUT = 16
"""Neighbours per target of which the measured fanouts are multiples."""
ROUNDS = 3
"""How often the search is repeated at most."""
MOST_NEIGHBOURS = 1024
"""Largest fanout considered."""


def configs(given: Mapping[str, Any], has_times: bool = False) -> dict[str, TrainConfig]:
    """Settings of the kinds that agree with the given ones, with default budgets or none.

    With times, kinds that sum over edges of any time are left out.
    """
    given = {**given, **({"sampler": str(given["sampler"]).lower()} if "sampler" in given else {})}
    given = {name: value for name, value in given.items() if (name, value) not in OPEN}
    chosen: dict[str, TrainConfig] = {}
    for name, kind in KINDS.items():
        if any(given.get(key, value) != value for key, value in kind.items()):
            continue
        try:
            config = resolve(**{**given, **kind})
        except InputError:  # an option that this sampler does not have, or attention
            continue
        if _is_supported(config) and not (has_times and config.sampler.config.times_refused):
            chosen = {other: same for other, same in chosen.items() if same != config}
            chosen[name] = config  # by its most specific name
    return chosen


def references(given: Mapping[str, Any]) -> dict[str, TrainConfig]:
    """Settings of the references: those given for training, without those of the sampler."""
    own = PLACES.keys() - {"sampler"}
    plain = configs({name: value for name, value in given.items() if name in own})
    return {name: plain[name] for name in REFERENCES}


def _is_supported(config: TrainConfig) -> bool:
    """Whether the errors of the sampler have a closed form."""
    options = config.flat()
    if config.sampler.name == "full":
        return True
    if config.sampler.config.sampled_layers(config.network.layers) < 1:
        return False
    is_uniform = options["policy"] == "uniform" and not options.get("replace")
    is_nodewise = config.sampler.config.unit == "neighbours"
    if is_nodewise and (not is_uniform or options["history"] != "none"):
        return False
    if is_nodewise and config.sampler.config.weighs_targets:
        return False
    if options.get("temporal_strategy") == "last":  # keeps the newest, and draws nothing
        return False
    return options["estimator"] in ("ht", "hajek")


@dataclass(eq=False)
class Candidate:
    """A kind of sampler on a pilot's network, measured at some budgets."""

    name: str
    config: TrainConfig  # with default budgets
    pilot: Pilot
    limit: float
    settings: list[Budgets] = field(default_factory=list)
    errors: list[list[float]] = field(default_factory=list)  # e_l in closed form
    gradient: list[float] = field(default_factory=list)  # measured r
    ms: list[float] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sampler = self.pilot.sampler(self.config)
        self.changes = self.pilot.exact.changes(self.sampler)
        self.sensitivity: Sensitivity | None = None
        self.costs: CostModel | None = None
        self._known: dict[Budgets, Expectation] = {}

    @property
    def is_sampled(self) -> bool:
        """Whether there are budgets to choose."""
        return self.config.sampler.name != "full"

    def choose(self) -> Budgets:
        """Best budgets: measure some, search, measure around the result, search again, ..."""
        if not self.is_sampled:
            self.measure([()])
            return ()
        self.measure(list(self._first_settings()))
        best = self._search(self.config.sampler.numbers)
        for _ in range(ROUNDS):
            if best in self.settings:
                break
            self.measure([best, *_lowered(best, 2)])
            best = self._search(best)
        return best

    def measure(self, settings: list[Budgets]) -> None:
        """Measure gradient errors and times of these budgets, and fit the models to all so far."""
        new = [budgets for budgets in dict.fromkeys(settings) if budgets not in self.settings]
        if not new:
            return
        for budgets in new if self.is_sampled else ():
            errors, _ = self.pilot.expected(
                self.sampler, budgets, self.changes, len(self.pilot.batches)
            )
            self.errors.append(errors)
            self.gradient.append(self.pilot.gradient_error(self.sampler, budgets))
        self.settings += new
        self._time(new)
        if not self.is_sampled:
            return
        self.sensitivity = fit_sensitivity(self.errors, self.gradient, self.limit)
        self.costs = fit_costs(self.works, self.ms, self.sampler.history is not None)
        self._known.clear()

    def expect(self, budgets: Budgets) -> Expectation:
        """Errors and time that are expected; the gradient error as measured, if it was."""
        if not self.is_sampled:
            return Expectation(self.ms[0], 0.0, (0.0,) * self.config.network.layers)
        if budgets not in self._known:
            assert self.sensitivity is not None and self.costs is not None
            errors, work = self.pilot.expected(self.sampler, budgets, self.changes)
            gradient = (
                self.gradient[self.settings.index(budgets)]
                if budgets in self.settings
                else self.sensitivity.gradient_error(errors)
            )
            self._known[budgets] = Expectation(self.costs.ms(work), gradient, tuple(errors))
        return self._known[budgets]

    def check(self, budgets: Budgets) -> tuple[float, float]:
        """Gradient error and milliseconds of a step, measured again with other coins."""
        (ms,), _ = self.pilot.times(self.config, [budgets])
        if not self.is_sampled:
            return 0.0, ms
        return self.pilot.gradient_error(self.sampler, budgets, first=len(self.pilot.batches)), ms

    def fit(self) -> Fit:
        """The fitted models."""
        assert self.sensitivity is not None and self.costs is not None
        layers = self.works[0]
        return Fit(
            name=self.name,
            sensitivity=self.sensitivity.weight.tolist(),
            power=self.sensitivity.power,
            gradient_residual=self.sensitivity.residual,
            base_ms=float(self.costs.coefficient[0]),
            source_us=[self.costs.per_source(layer) for layer in layers],
            edge_us=[self.costs.per_edge(layer) for layer in layers],
            ms_residual=self.costs.residual,
        )

    def _search(self, start: Budgets) -> Budgets:
        graph = self.pilot.task.graph
        is_layerwise = isinstance(self.sampler, LayerSampler)
        most = min(int(graph.degree.max()), MOST_NEIGHBOURS)
        return search(self.expect, start, graph.num_nodes if is_layerwise else most, self.limit)

    def _time(self, settings: list[Budgets]) -> None:
        ms, works = self.pilot.times(self.config, settings)
        self.ms += ms
        self.works += works

    def _first_settings(self) -> Iterator[Budgets]:
        base = self.config.sampler.numbers
        if self.config.sampler.config.unit == "neighbours":
            base = (FANOUT,) * len(base)
        for scale in SCALES:
            yield tuple(max(1, int(scale * budget)) for budget in base)
        yield from _lowered(tuple(max(1, budget // 2) for budget in base), 4)


def _lowered(budgets: Budgets, by: int) -> list[Budgets]:
    """The budgets with one of them lowered, for each in turn."""
    return [
        (*budgets[:place], max(1, budget // by), *budgets[place + 1 :])
        for place, budget in enumerate(budgets)
    ]


def with_best_estimator(config: TrainConfig, pilot: Pilot, given: Mapping[str, Any]) -> TrainConfig:
    """The settings with ht or hajek, whichever has the smaller gradient error at default budgets.

    A given estimator stays. With attention the coefficients do not come from the estimator.
    """
    offered = [name for name in ("hajek", "ht") if config.sampler.config.allows("estimator", name)]
    if "estimator" in given or config.network.is_attention or len(offered) < 2:
        return config
    tried = [config.with_settings(estimator=name) for name in offered]
    return min(
        tried, key=lambda kind: pilot.gradient_error(pilot.sampler(kind), kind.sampler.numbers)
    )
