"""Control variates of a block: sums computed exactly, and what each source adds to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bliss.errors import InputError

if TYPE_CHECKING:
    from bliss.nn.typed_block import TypedView


@dataclass(frozen=True, eq=False)
class Control:
    """Control variate: a sum computed exactly, and the value of each source in it.

    `bliss.nn.aggregate` adds baseline_g and sums x_j - history_j instead of x_j. Without a history
    the baseline is the whole aggregate (`bliss.samplers.first_hop`). A group is a target or, with
    types, a target and a relation (`bliss.graph.Rows`).
    """

    baseline: Tensor  # float32[G, F] sum over all edges of each group of alpha_ij h~_j
    history: Tensor | None = None  # float32[S, F] h~_j, the input of each source when last seen
    age: Tensor | None = None  # int64[S] steps since h~_j was written, when the block was drawn

    @property
    def has_history(self) -> bool:
        """Whether there is a history, so that changes are sampled."""
        return self.history is not None


@dataclass(frozen=True, eq=False)
class TypedControl:
    """Control variates of a block whose inputs have a width per type of nodes."""

    parts: tuple[Control, ...]  # [T] baselines of groups with sources of each type [G_t, F_t],
    # histories of the sources of each type [S_t, F_t]; both in the order of the block
    age: Tensor | None = None  # int64[S]

    @property
    def has_history(self) -> bool:
        """Whether there are histories, so that changes are sampled."""
        return self.parts[0].has_history

    def histories(self, view: TypedView) -> dict[str, Tensor]:
        """Histories by type, {type: [S_t, F_t]}."""
        named = zip(view.types.node_types, self.parts, strict=True)
        return {name: part.history for name, part in named if part.history is not None}


def in_one_width(control: Control | TypedControl, view: TypedView) -> Control:
    """One control variate of all groups and sources, if all types have inputs of one width."""
    if isinstance(control, Control):
        return control
    parts = [part for part in control.parts if part.baseline.size(0)]
    if len({part.baseline.size(1) for part in parts}) > 1:
        raise InputError(
            "the history or first hop of the block has a width per type, so that it has no sums of "
            "all relations: use the blocks of block.relations, or HeteroConv."
        )
    if not parts:
        return control.parts[0]
    order = torch.argsort(torch.cat(view.groups_by_source))
    baseline = torch.cat([part.baseline for part in parts])[order]
    if not control.has_history:
        return Control(baseline)
    return Control(baseline, view.padded(control.histories(view)))


def of_source_types(control: Control | TypedControl, view: TypedView) -> list[Control]:
    """The control variate of the groups with sources of each type, as in `TypedControl`."""
    if isinstance(control, TypedControl):
        return list(control.parts)
    history = control.history
    return [
        Control(control.baseline[groups], None if history is None else history[place])
        for groups, place in zip(view.groups_by_source, view.src_place, strict=True)
    ]


def of_relation(control: Control | TypedControl, view: TypedView, relation: int) -> Control:
    """The control variate of the block of one relation: its groups, and sources of one type."""
    source, place = int(view.types.ends[0, relation]), view.group_place[relation]
    if isinstance(control, TypedControl):
        part = control.parts[source]
        place = torch.searchsorted(view.groups_by_source[source], place)
        return Control(part.baseline[place], part.history)
    history = None if control.history is None else control.history[view.src_place[source]]
    return Control(control.baseline[place], history)


def check_width(x: Tensor, history: Tensor, kind: str = "") -> None:
    """Raise an error unless inputs have the width of their history. x, history [S, F]."""
    if x.size(1) != history.size(1):
        raise InputError(
            f"x{kind} has width {x.size(1)}, but its history has width {history.size(1)}: build "
            "the sampler with widths=... of this network."
        )
