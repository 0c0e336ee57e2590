"""Graphs with labels, samplers, sizes and settings that are compared, and the lengths of runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NETWORKS = ("rsage", "rgat", "hgt")
Sizes = dict[str, list[tuple[int, ...]]]
Recipe = tuple[float, float, float]
"""Learning rate, weight decay and dropout."""

HISTORY = {"history": "nodes", "estimator": "ht"}
EXACT = {"first_hop": "exact"}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {  # sampler and its options
    "bliss": ("bliss", {}),
    "pladies": ("pladies", {}),
    "neighbor": ("neighbor", {}),
    "full": ("full", {}),
    "bliss, history": ("bliss", HISTORY),
    "pladies, history": ("pladies", HISTORY),
    "bliss, exact first hop": ("bliss", EXACT),
    "neighbor, exact first hop": ("neighbor", EXACT),
}
FIXED = [name for name, (_, options) in ROWS.items() if options]
"""Rows that need fixed coefficients, so that they are for rsage alone."""
RECIPES: tuple[Recipe, ...] = (
    (0.005, 5e-4, 0.5),
    (0.002, 5e-4, 0.5),
    (0.005, 5e-5, 0.7),
    (0.002, 5e-3, 0.7),
)
SMALL: Sizes = {
    "bliss": [(256, 128), (1024, 512)],
    "pladies": [(256, 128), (1024, 512)],
    "neighbor": [(2, 2), (5, 5)],
    "full": [()],
    "bliss, history": [(256, 128), (1024, 512)],
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """How a graph's networks are trained."""

    batch: int
    sizes: Sizes  # budgets or fanouts, by row
    seconds: float = 5.0
    grid_seconds: float = 2.5  # of runs that choose settings
    evaluations: int = 10
    seeds: int = 5
    recipes: dict[str, tuple[Recipe, ...]]  # by network
    options: dict[str, Any]


EVERYWHERE = dict.fromkeys(NETWORKS, RECIPES)
CASES = {
    "imdb": Case(batch=100, sizes=SMALL, recipes=EVERYWHERE, options={"embedding": 32}),
    "acm": Case(batch=60, sizes=SMALL, recipes=EVERYWHERE, options={"embedding": 32}),
    "library": Case(
        batch=256,
        sizes={
            "bliss": [(1024, 512), (4096, 2048), (16384, 8192)],
            "pladies": [(1024, 512), (4096, 2048), (16384, 8192)],
            "neighbor": [(1, 1), (2, 2), (5, 5)],
            "full": [()],
            "bliss, history": [(512,), (2048,), (8192,)],
            "pladies, history": [(512,), (2048,), (8192,)],
            "bliss, exact first hop": [(512,), (2048,), (8192,)],
            "neighbor, exact first hop": [(1,), (2,), (5,)],
        },
        evaluations=1,
        seeds=3,
        recipes=dict.fromkeys(("rsage", "rgat"), ((0.005, 5e-4, 0.5), (0.005, 5e-5, 0.2))),
        options={"projection": "linear"},  # an exact first hop needs it
    ),
}


def rows_of(graph: str, model: str) -> list[str]:
    """Samplers of a network on a graph; none if it is not trained there."""
    if model not in CASES[graph].recipes:
        return []
    return [name for name in CASES[graph].sizes if model == "rsage" or name not in FIXED]
