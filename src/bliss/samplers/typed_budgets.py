"""Budgets for each type of nodes, and fanouts for each relation, in place of one number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bliss.arrays import FloatArray, IntArray
from bliss.errors import InputError
from bliss.graph import Graph, GraphTypes
from bliss.kernels.coins import CoinKey
from bliss.rng import derive_key
from bliss.samplers.draws import Draw, Drawn


def divided_budgets(
    budgets: Sequence[int | dict[str, int]],
    graph: Graph,
    unit: str,
    sampler: str,
    is_possible: bool,
) -> tuple[IntArray | None, ...]:
    """Budgets by type int64[T], or fanouts by relation int64[R], of each layer; None: one number.

    budgets  those of all layers, numbers or dictionaries, as `checks.budgets` returns them
    unit     "sources": by type of nodes; "neighbours": by type of edges
    """
    return tuple(
        _divided(one, f"budgets[{layer}]", graph, unit, sampler, is_possible)
        if isinstance(one, Mapping)
        else None
        for layer, one in enumerate(budgets)
    )


def _divided(
    given: Mapping[str, int],
    field: str,
    graph: Graph,
    unit: str,
    sampler: str,
    is_possible: bool,
) -> IntArray:
    types = graph.types
    if types is None:
        raise InputError(
            f"{field} is a dictionary, but the graph has no types of nodes and edges: pass one "
            "number per layer."
        )
    if not is_possible:
        raise InputError(
            f"{field} is a dictionary, but {sampler} has one budget for all types: pass one "
            "number, or use bliss.LayerSampler or bliss.Neighbor."
        )
    by_relation = unit == "neighbours"
    number = types.relation if by_relation else types.node_type
    names: Sequence[Any] = types.edge_types if by_relation else types.node_types
    budgets = np.zeros(len(names), np.int64)
    for key, budget in given.items():
        place = number(key)
        if budget == -1:
            budget = graph.num_edges if by_relation else int(np.diff(types.node_ptr)[place])
        budgets[place] = max(budget, 1)
    missing = [name for name, budget in zip(names, budgets, strict=True) if not budget]
    if missing:
        what = "relation" if by_relation else "type"
        raise InputError(
            f"{field} has no entry for {what} {missing[0]!r}: add it, or pass one number for all."
        )
    return budgets


class DrawByType:
    """A draw for each type of nodes, with a budget of its own."""

    def __init__(self, draw: Draw, types: GraphTypes, budgets: IntArray) -> None:
        self.draw, self.types, self.budgets = draw, types, budgets

    def probability(self, candidate: IntArray, mass: FloatArray, num_dst: int) -> FloatArray:
        """p_j of every candidate, targets first. [C], [C] -> float64[C]."""
        prob = np.ones(mass.size)
        for place, targets, budget in self._parts(candidate, num_dst):
            prob[place] = self.draw.probability(mass[place], targets, budget)
        return prob

    def keep(self, candidate: IntArray, mass: FloatArray, num_dst: int, key: CoinKey) -> Drawn:
        """Draw the sources of each type; targets come first, in their order."""
        source = np.array(candidate[:num_dst], np.int64)
        prob = np.ones(num_dst, np.float32) if self.draw.has_probability else None
        correction = np.ones(num_dst)
        parts = [Drawn(source, prob, correction)]
        for number, (place, targets, budget) in enumerate(self._parts(candidate, num_dst)):
            own = key._replace(step=derive_key(int(key.step), number))
            drawn = self.draw.keep(candidate[place], mass[place], targets, budget, own)
            correction[place[:targets]] = drawn.correction[:targets]
            rest = None if drawn.prob is None else drawn.prob[targets:]
            parts.append(Drawn(drawn.source[targets:], rest, drawn.correction[targets:]))
        return Drawn(
            np.concatenate([part.source for part in parts]),
            None if prob is None else np.concatenate([part.prob for part in parts]),
            np.concatenate([part.correction for part in parts]),
        )

    def _parts(self, candidate: IntArray, num_dst: int) -> list[tuple[IntArray, int, int]]:
        """Places of the candidates of each type, number of targets among them, and budget."""
        places = self.types.places(candidate)
        targets = [int(np.searchsorted(place, num_dst)) for place in places]
        return list(zip(places, targets, self.budgets.tolist(), strict=True))
