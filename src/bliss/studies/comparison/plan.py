"""Plan of a comparison: the settings of every sampler, and sizes of equal work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from bliss import checks
from bliss.data import Dataset
from bliss.errors import InputError
from bliss.graph import Graph
from bliss.nn import MODELS
from bliss.nn.block import Block
from bliss.samplers import Full
from bliss.studies.comparison.comparison_record import Skipped
from bliss.studies.comparison.matching import MATCHES, Matcher
from bliss.studies.comparison.sampler_settings import (
    OWN,
    ComparedSampler,
    check_estimator,
    parse_samplers,
    settings_of,
)
from bliss.studies.comparison.sizes import (
    EXAMPLE,
    Budgets,
    authors_settings,
    check_layers,
    parse_budgets,
    scaled,
    size_of,
    size_text,
    unit_of,
    with_size,
)
from bliss.studies.gradients import training_batch
from bliss.train import DataConfig, TrainConfig, build_task, resolve
from bliss.train.budget_text import budgets_text, is_typed


class RowKey(NamedTuple):
    """Key of a row: the settings that its runs share."""

    model: str
    sampler: str
    share: float


@dataclass(frozen=True)
class Request:
    """What is to be compared; see `compare`."""

    settings: Mapping[str, Any]
    samplers: Sequence[ComparedSampler]
    models: Sequence[str]
    seeds: Sequence[int]
    shares: Sequence[float]
    budgets: Budgets = field(default_factory=dict)
    match: str = "nodes"
    """nodes, edges, ms, or none."""
    sizes: str = ""
    estimator: str = OWN
    search: int = 0

    @classmethod
    def of(
        cls,
        settings: Mapping[str, Any],
        samplers: Sequence[str],
        models: Sequence[str],
        seeds: Sequence[int],
        shares: Sequence[float],
        *,
        budgets: str | None = None,
        match: str | None = None,
        sizes: str = "",
        estimator: str | None = None,
        search: int = 0,
    ) -> Request:
        """Check the arguments; budgets and estimator may also be among the settings."""
        rest = {k: v for k, v in settings.items() if k not in ("budgets", "estimator")}
        if not shares or len(set(shares)) < len(shares) or any(not 0 < s <= 1 for s in shares):
            raise InputError(
                f"shares={list(shares)} must be distinct numbers in (0, 1]: write for instance "
                "1,0.5,0.25."
            )
        for model in models:
            checks.choice("models", model, MODELS)
        chosen = parse_samplers(samplers)
        estimator = str(estimator or settings.get("estimator") or OWN)
        check_estimator(estimator)
        plain = settings.get("budgets") or ()
        text = budgets if budgets is not None else budgets_text(plain)
        if budgets is None and is_typed(plain):
            text = f"layer={budgets_text(checks.budgets(plain))}"
        by_unit, has_units = parse_budgets(text) if text else ({}, False)
        if sizes:
            checks.choice("sizes", sizes, ("authors",))
        if match is None:
            match = "none" if has_units or sizes else "nodes"
        checks.choice("match", match, (*MATCHES, "none"))
        if match != "none" and any(map(is_typed, by_unit.values())):
            raise InputError(
                f"match={match!r} changes one number per layer, but budgets={text!r} have one for "
                "each type or relation: leave --match out, or pass one number per layer."
            )
        if sizes and (match != "none" or by_unit):
            raise InputError(
                f"sizes={sizes!r} sets the sizes of samplers: leave out --match and --budgets."
            )
        return cls(rest, chosen, models, seeds, shares, by_unit, match, sizes, estimator, search)


@dataclass(frozen=True)
class Start:
    """Settings of a sampler with a network, before sizes are matched."""

    model: str
    sampler: ComparedSampler
    config: TrainConfig

    @property
    def unit(self) -> str:
        """Unit of the sampler's size; empty without one."""
        return unit_of(self.config.sampler.config)


@dataclass
class Plan:
    """The samplers that can be compared, those that cannot, and remarks."""

    starts: list[Start] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def plan(
    request: Request,
    num_nodes: int,
    num_features: int = 0,
    has_times: bool = False,
    graph: Graph | None = None,
) -> Plan:
    """Settings of every network and sampler; those that are impossible with the reason.

    With a `graph`, budgets by type or relation must be those of it.
    """
    made = Plan()
    names = [sampler.name for sampler in request.samplers]
    dataset = str(request.settings.get("dataset", DataConfig.dataset))
    authors = authors_settings(dataset, names) if request.sizes else {}
    for model in request.models:
        base = {"dataset": dataset, "model": model, "layers": request.settings.get("layers")}
        check_layers(request.budgets, resolve(**base, sampler="full").network.layers)
    for model, sampler in product(request.models, request.samplers):
        own = authors.get(sampler.name, {})
        try:
            merged = {**request.settings, **own}
            config, note = settings_of(merged, model, sampler, request.estimator, request.budgets)
            if graph is not None:
                config.sampler.config.check_types(config.sampler.budgets, graph)
        except InputError as error:
            if len(request.samplers) == 1:
                raise
            made.skipped.append(Skipped(model=model, sampler=sampler.label, why=str(error)))
            continue
        start = Start(model, sampler, config.fitted(num_nodes, num_features, has_times))
        made.notes += [note] if note and note not in made.notes else []
        made.notes += _remarks(request, start, is_authors=bool(own))
        made.starts.append(start)
    if not made.starts:
        raise InputError(f"nothing can be compared: {made.skipped[0].why}")
    _check_first(request, made.starts[0])
    return made


def _check_first(request: Request, first: Start) -> None:
    """Refuse budgets that do not set the size that all others are matched with."""
    if request.match != "none" and request.budgets and first.unit not in (*request.budgets, ""):
        raise InputError(
            f"budgets have no {first.unit}=, but the first sampler, {first.sampler.label}, is "
            f"sized by it and all others are matched with it: write for instance {EXAMPLE}."
        )


def _remarks(request: Request, start: Start, is_authors: bool) -> list[str]:
    name, size = start.sampler.label, size_text(start.unit, size_of(start.config))
    remarks = []
    if request.sizes and not is_authors and size:
        remarks.append(f"{name} has no published size for this data: it runs at {size}.")
    if request.match == "none" and request.budgets and start.unit not in (*request.budgets, ""):
        remarks.append(f"{name} has no {start.unit}= in --budgets: it runs at its default {size}.")
    kind = start.config.sampler.config
    is_default = "first_hop" not in {**request.settings, **start.sampler.options}
    if kind.is_first_hop_exact and is_default and not kind.has_history:
        remarks.append(
            f"{name} has an exact first hop, which published samplers have only if asked for "
            f"(pladies+first_hop); {name}+first_hop=sampled is without it."
        )
    if kind.has_history:
        remarks.append(
            f"{name} also reads the history of in-edges that it does not sample; they are counted "
            "neither as nodes nor as edges, only in the time."
        )
    return remarks


def sized(
    request: Request,
    starts: Sequence[Start],
    matcher: Matcher | None,
    say: Callable[[str], None] = print,
) -> list[tuple[RowKey, TrainConfig]]:
    """Settings of every row, with its size; the seed is the first one.

    Without a matcher, sizes are multiplied by the share. With one, the first sampler's size is, and
    each other sampler of the same network gets the size whose work is nearest to the first's. A
    sampler without a size runs once, and its row has the largest share.
    """
    rows, targets = [], {}
    first = {start.model: start for start in reversed(starts)}
    for start in starts:
        leader = first[start.model]
        for share in request.shares if start.unit else [max(request.shares)]:
            config = start.config.with_settings(seed=request.seeds[0])
            if start.unit:
                config = with_size(config, scaled(size_of(config), share, start.unit))
            if matcher is not None:
                if (start.model, share) not in targets:
                    targets[start.model, share] = _target(matcher, leader, share, request.seeds[0])
                if start is not leader:
                    config = shaped_like(config, leader, share)
                    nearest = matcher.match(config, targets[start.model, share])
                    config = with_size(config, nearest.size) if nearest.size else config
                    shown = size_text(start.unit, nearest.size) or "its only size"
                    say(
                        f"{start.sampler.label} with {start.model} at share {share:g}: {shown} has "
                        f"{nearest.ratio:.2f} times the {matcher.kind} of {leader.sampler.label} "
                        "in a step."
                    )
            rows.append((RowKey(start.model, start.sampler.label, share), config))
    return rows


def _target(matcher: Matcher, leader: Start, share: float, seed: int) -> float:
    """Work of the first sampler at a share of its size, or a share of its work without a size."""
    config = leader.config.with_settings(seed=seed)
    if not leader.unit:
        return share * matcher.work(config)
    return matcher.work(with_size(config, scaled(size_of(config), share, leader.unit)))


def shaped_like(config: TrainConfig, leader: Start, share: float) -> TrainConfig:
    """The settings with the first sampler's size, if it has the same unit and layers."""
    if unit_of(config.sampler.config) != leader.unit:
        return config
    size = scaled(size_of(leader.config), share, leader.unit)
    if len(size) > len(size_of(config)):  # the input layer is exact
        size = size[-len(size_of(config)) :]
    return with_size(config, size) if len(size) == len(size_of(config)) else config


def coverage_notes(rows: Sequence[tuple[RowKey, TrainConfig]], dataset: Dataset) -> list[str]:
    """One sentence for each row whose budget covers everything, so that it equals `full`."""
    return [
        f"{key.sampler} with {key.model} at share {key.share:g} keeps every neighbour of a batch "
        f"(budgets {budgets_text(config.sampler.budgets).replace(',', ', ')}), so it equals full. "
        "Lower --budgets."
        for key, config in rows
        if covers_everything(config, dataset)
    ]


def covers_everything(config: TrainConfig, dataset: Dataset) -> bool:
    """Whether the budgets cover the full neighbourhoods of a training batch."""
    kind = config.sampler.config
    if kind.unit == "none" or config.sampler.name == "fastgcn" or getattr(kind, "replace", False):
        return False
    task = build_task(config, dataset)
    sampler, seeds = Full(task.graph, layers=1), training_batch(task, 0, 0)
    targets, cutoff = seeds.node, seeds.cutoff
    for budget in reversed(config.sampler.budgets):
        (block,) = sampler.sample(targets, 0, without=seeds.without, time=cutoff)
        if isinstance(budget, dict):
            if not _covers_types(budget, block, task.graph, kind.unit == "sources"):
                return False
        else:
            needed = block.num_src if kind.unit == "sources" else int(block.indptr.diff().max())
            if budget < needed:
                return False
        targets, cutoff = block.src.numpy(), block.cutoff
    return True


def _covers_types(budget: Mapping[str, int], block: Block, graph: Graph, is_by_type: bool) -> bool:
    """Whether budgets by type cover all sources of a block, or those by relation all its edges."""
    assert graph.types is not None
    if is_by_type:
        return all(budget[name] >= number for name, number in block.num_src_dict.items())
    names = {graph.types.edge_types[graph.types.relation(name)]: name for name in budget}
    return all(
        not part.num_edges or budget[names[edge_type]] >= int(part.indptr.diff().max())
        for edge_type, part in block.relations.items()
    )
