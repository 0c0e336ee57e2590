"""Budgets as text, as commands take and print them.

Layers are numbers separated by commas, 512,256. With types, a slash ends a layer, and a layer is a
number or entries NAME=NUMBER separated by commas: author=64,paper=128/32. A relation is called by
its name or by all of author,writes,paper.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bliss.errors import InputError

Budget = int | dict[str, int]
EXAMPLE = "author=64,paper=128/32"
_NUMBER = re.compile(r"(-?\d+)(/|$)")
_ENTRY = re.compile(r"(.+?)=(-?\d+)(,|/|$)")


def parse_typed(text: str) -> tuple[Budget, ...]:
    """Budgets of layers, of which some have a number for each type or relation."""
    layers: list[Budget] = []
    own: dict[str, int] = {}  # entries of the layer so far
    place, end = 0, "/"
    while end:
        number = None if own else _NUMBER.match(text, place)
        found = number or _ENTRY.match(text, place)
        if found is None or (number is None and found[1].strip() in own):
            raise InputError(
                f"budgets={text!r}: {text[place:]!r} does not start with a number of a layer, or "
                "with a type or relation, once per layer, and its number: write for instance "
                f"{EXAMPLE}, with a slash between layers."
            )
        place, end = found.end(), found[found.re.groups]
        if number is None:
            own[found[1].strip()] = int(found[2])
        if end != ",":
            layers.append(own or int(found[1]))
            own = {}
    return tuple(layers)


def is_typed(budgets: Sequence[Budget]) -> bool:
    """Whether a layer has a number for each type or relation."""
    return any(isinstance(one, dict) for one in budgets)


def budgets_text(budgets: Sequence[Budget]) -> str:
    """Budgets as `--budgets` takes them."""
    layers = [
        ",".join(f"{name}={number}" for name, number in one.items())
        if isinstance(one, dict)
        else str(one)
        for one in budgets
    ]
    return ("/" if is_typed(budgets) else ",").join(layers)
