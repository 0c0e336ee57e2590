"""Kinds of sampler, and their sizes, that a pilot chooses from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from bliss.data import Dataset
from bliss.errors import InputError, ResourceError
from bliss.train.config import LARGE_BYTES, TrainConfig
from bliss.train.config_parts import AUTO
from bliss.train.recipe import resolve
from bliss.train.seconds.gradient_noise import Form, Size
from bliss.train.seconds.rough_costs import first_hop_seconds, nodes_read, setup_seconds
from bliss.train.time_task import sees_times

NO_HISTORY = {"history": "none"}
KINDS: Mapping[str, Mapping[str, Any]] = {
    "bliss, history": {"sampler": "bliss", "first_hop": "exact", "history": "nodes"},
    "pladies, history": {"sampler": "pladies", "first_hop": "exact", "history": "nodes"},
    "bliss": {"sampler": "bliss", "first_hop": "exact", **NO_HISTORY},
    "bliss, sampled first hop": {"sampler": "bliss", "first_hop": "sampled", **NO_HISTORY},
    "pladies": {"sampler": "pladies", "first_hop": "exact", **NO_HISTORY},
    "pladies, sampled first hop": {"sampler": "pladies", "first_hop": "sampled", **NO_HISTORY},
    "vrgcn": {"sampler": "vrgcn", "first_hop": "exact"},
    "neighbor": {"sampler": "neighbor", "first_hop": "exact", **NO_HISTORY},
    "neighbor, sampled first hop": {"sampler": "neighbor", "first_hop": "sampled", **NO_HISTORY},
    "random-nodes": {"sampler": "random-nodes"},
    "saint-rw": {"sampler": "saint-rw"},
    "cluster": {"sampler": "cluster"},
    "full": {"sampler": "full"},
}
"""What is considered, by name, in the order of measurement."""
SETUP = 0.2
"""Largest share of a pilot that may be spent on an exact first hop."""
BIASED = "hajek"
"""Estimator of layer-wise samplers without a history, if none is given; see docs/choose.md."""
BATCH_SIZES = tuple(2**power for power in range(5, 14))
BUDGETS = tuple(2**power for power in range(3, 15))
FANOUTS = (1, 2, 4, 8, 16, 32)
DRAWS = tuple(2**power for power in range(5, 15))
"""Sizes of subgraphs: nodes, walks or seed nodes."""
FIRST_BATCH, FIRST_BUDGET, FIRST_FANOUT, FIRST_DRAWS = 512, 1024, 8, 2048
"""Sizes that are measured first, on graphs that are large enough; then four times as many."""


@dataclass(frozen=True)
class Kind:
    """A kind of sampler with all its settings but batch size and budgets, which may be given."""

    name: str
    config: TrainConfig  # with budgets of any size
    num_seeds: int
    num_nodes: int
    batch_size: int | None = None  # if it was given
    budgets: tuple[int, ...] = ()  # if they were given
    setup: float = 0.0  # expected seconds before the first step

    @property
    def form(self) -> Form:
        """Form of the models of its error and time."""
        kind = self.config.sampler.config
        if kind.makes_batches:
            return "subgraph"
        if kind.unit == "none":
            return "full"
        return "node-wise" if kind.unit == "neighbours" else "layer-wise"

    def at(self, size: Size) -> TrainConfig:
        """The settings of a size."""
        budgets = self.budgets
        if not budgets and size.budget:
            number = self.config.sampler.config.sampled_layers(self.config.network.layers)
            budgets = (size.budget,) * number
        return self.config.with_settings(batch_size=size.batch_size, budgets=budgets)

    def nodes_read(self, size: Size) -> int:
        """Nodes that a step reads, roughly."""
        return nodes_read(self.form, self.config, size, self.num_nodes, self.num_seeds)

    def sizes(self) -> Iterator[Size]:
        """All sizes, smallest batches first."""
        yield from (Size(*pair) for pair in product(self._batch_sizes(), self._budgets()))

    def first_sizes(self) -> list[Size]:
        """Sizes from which the models are fitted: batches and budgets, four times both, and one.

        Of node-wise samplers, budgets are divided by four, because neighbours multiply.
        """
        batch = self._near(self._batch_sizes(), self._first_batch())
        budget = self._near(self._budgets(), self._first_budget())
        more_batch = self._near(self._batch_sizes(), 4 * batch)
        more_budget = self._near(self._budgets(), 4 * budget)
        if self.form == "node-wise":
            more_budget = self._near(self._budgets(), budget // 4)
        wanted = (
            Size(batch, budget),
            Size(more_batch, more_budget),
            Size(batch, more_budget),
        )
        return list(dict.fromkeys(wanted))

    def _batch_sizes(self) -> tuple[int, ...]:
        if self.batch_size is not None:
            return (self.batch_size,)
        if self.form == "subgraph":
            return _up_to(DRAWS, self.num_nodes // 2)
        return _up_to(BATCH_SIZES, self.num_seeds)

    def _budgets(self) -> tuple[int, ...]:
        if self.budgets:
            return (max(1, round(sum(self.budgets) / len(self.budgets))),)
        if self.form == "layer-wise":
            return _up_to(BUDGETS, self.num_nodes // 2)
        return FANOUTS if self.form == "node-wise" else (0,)

    def _first_batch(self) -> int:
        if self.form == "subgraph":
            return min(FIRST_DRAWS, self.num_nodes // 8)
        return min(FIRST_BATCH, self.num_seeds // 4)

    def _first_budget(self) -> int:
        if self.form == "layer-wise":
            return min(FIRST_BUDGET, self.num_nodes // 16)
        return min(FIRST_FANOUT, max(FANOUTS)) if self.form == "node-wise" else 0

    @staticmethod
    def _near(offered: tuple[int, ...], wanted: int) -> int:
        """The largest that is offered up to a wanted one, or the smallest."""
        return max((one for one in offered if one <= wanted), default=offered[0])


def _up_to(offered: tuple[int, ...], most: int) -> tuple[int, ...]:
    return tuple(one for one in offered if one <= most) or offered[:1]


def kinds(
    given: Mapping[str, Any], dataset: Dataset, num_seeds: int, seconds: float
) -> dict[str, Kind]:
    """The kinds that agree with the given settings and fit into memory and time, by name.

    An exact first hop must fit into 4 GiB, like a history, and into SETUP of the pilot's seconds.

    A sampler that is none of KINDS is the only kind if it is given. Budgets without a sampler are
    those of layer-wise ones.
    """
    is_open = {"first_hop": AUTO, "history": AUTO}
    given = {k: v for k, v in given.items() if v is not None and is_open.get(k) != v}
    if "sampler" in given:
        given["sampler"] = str(given["sampler"]).lower()
    if given.get("first_hop") == "history":  # decided by the network
        del given["first_hop"]
    tried = KINDS
    if given.get("sampler", "bliss") not in {kind["sampler"] for kind in KINDS.values()}:
        tried = {given["sampler"]: {}}
    found: dict[str, Kind] = {}
    refused: Exception | None = None
    for name, settings in tried.items():
        if any(given.get(key, value) != value for key, value in settings.items()):
            continue
        try:
            config = _config(given, settings, dataset, seconds)
        except (InputError, ResourceError) as error:
            refused = error  # an option that this sampler does not have, attention, or memory
            continue
        if any(kind.config == config for kind in found.values()):
            continue
        if (
            "budgets" in given
            and "sampler" not in given
            and config.sampler.config.unit != "sources"
        ):
            continue
        budgets = config.sampler.numbers if "budgets" in given else ()
        found[name] = Kind(
            name,
            config,
            num_seeds,
            dataset.graph.num_nodes,
            given.get("batch_size"),
            budgets,
            setup_seconds(config, dataset.graph, dataset.num_features),
        )
    if not found:
        resolve(**given)
        raise refused or InputError(
            "the options of samplers that were given contradict each other: leave one out."
        )
    return found


def _config(
    given: Mapping[str, Any], settings: Mapping[str, Any], data: Dataset, seconds: float
) -> TrainConfig:
    """Settings of a kind; raises an error if the network, the options or the memory forbid it."""
    nodes, layers = data.graph.num_nodes, resolve(**given).network.layers
    wanted = {**settings, **given}
    plain = resolve(**{**wanted, "budgets": given.get("budgets", ())})
    kind = plain.sampler.config
    if "estimator" not in given and not kind.has_history and kind.allows("estimator", BIASED):
        is_layerwise = kind.unit == "sources" and not plain.network.is_attention
        plain = plain.with_settings(estimator=BIASED) if is_layerwise else plain
        kind = plain.sampler.config
    if kind.unit != "none" and kind.sampled_layers(layers) < 1:
        raise InputError(f"sampler {plain.sampler.name!r} has no layer to sample: add a layer.")
    if data.typed is not None and kind.makes_batches:
        raise InputError(
            f"sampler {plain.sampler.name!r} makes subgraphs, and the graph has types: choose a "
            "layer-wise or node-wise sampler."
        )
    has_times = sees_times(plain.objective, data)
    if has_times and (reason := kind.times_refused):
        raise InputError(
            f"times are not possible with sampler {plain.sampler.name!r}, because {reason}."
        )
    fitted = plain.fitted(nodes, data.num_features, has_times)
    kind = fitted.sampler.config
    width = kind.sampled_layers(layers) * plain.network.hidden if kind.has_history else 0
    width += data.num_features if kind.is_first_hop_exact else 0
    is_free = not {"history", "first_hop"} & set(given)
    if is_free and 4 * nodes * width > LARGE_BYTES:
        raise ResourceError(f"{plain.sampler.name} needs more than 4 GiB here.")
    if is_free and first_hop_seconds(kind, data.graph, data.num_features) > SETUP * seconds:
        raise ResourceError(f"{plain.sampler.name} would sum features for too long.")
    return fitted
