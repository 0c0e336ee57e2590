"""The interface of a learner: the part of a sampler that changes with feedback."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from bliss import checks
from bliss.arrays import Array, IntArray
from bliss.errors import InputError
from bliss.feedback import Feedback, News, Survey

State: TypeAlias = dict[str, Array]
RowSets: TypeAlias = dict[tuple[str, ...], IntArray]
"""Rows of state arrays, by the names of the arrays that they belong to."""


class Learner(ABC):  # noqa: B024  # every method has a default: a learner need not learn
    """Learns in two halves, so that several processes stay equal.

    `digest` turns the feedback of one layer into an update. It only reads the state, and runs in
    the process that holds the blocks. `apply` takes the updates of all shards of a step and changes
    the state. Processes that apply the same updates in the same order have states that are equal
    bit for bit. A learner that `learns_from_surveys` also learns by `survey`, from a full pass of
    the network. Policies and histories are learners; `bliss.samplers.learning` queues their
    updates.
    """

    prefix: ClassVar[str] = ""
    """Prefix of the names of its updates and arrays; empty for at most one learner of a sampler."""
    learns: ClassVar[bool] = False
    """Whether feedback changes the state."""
    learns_from_surveys: ClassVar[bool] = False
    """Whether `survey` changes the state."""
    needs_survey_input: ClassVar[bool] = False
    """Whether `survey` needs the layer's input (`Survey.input`). Other learners of the sampler are
    then not surveyed."""
    shares_state: ClassVar[bool] = False
    """Whether `apply` and `survey` change nothing but the arrays of `state_dict`, in place, and
    these are allocated by `bliss.storage.memory`. The processes of a machine then share them, and
    only one process calls `apply` and `survey`. A subclass does not inherit it, since it may change
    more."""

    @property
    def title(self) -> str:
        """Name of this learner in messages."""
        return type(self).__name__

    def begin_step(self) -> None:
        """Count a step. Called once, before the updates of a step are applied."""
        return None

    def digest(self, layer: int, feedback: Feedback) -> News:
        """Extract the update of one layer; the state does not change. O(len(feedback))."""
        return {}

    def apply(self, layer: int, news: Sequence[News]) -> None:
        """Learn from one step's updates of a layer, one entry per shard."""
        return None

    def changed_rows(self, layer: int, news: Sequence[News]) -> RowSets | None:
        """Rows of the state that `apply` has just changed, or more; None (default): any row.

        Arrays with a row per node or edge that are not named have not changed. Arrays of other
        lengths may have.
        """
        return None if self.learns else {}

    def survey(self, layer: int, survey: Survey) -> None:
        """Learn from the exact quantities of a layer at all nodes; does nothing by default."""
        return None

    def state_dict(self) -> State:
        """Learnt arrays by name, without copying."""
        return {}

    def check_state(self, state: Mapping[str, object]) -> None:
        """Raise an error unless names, shapes and types are those of `state_dict`."""
        check_arrays(self.state_dict(), state, self.title)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Load a saved state; all of it is checked before the first array is written."""
        self.check_state(state)
        for name, array in self.state_dict().items():
            array[...] = checks.as_array(name, state[name])


def check_arrays(own: State, state: Mapping[str, object], owner: str) -> None:
    """Raise an error unless a saved state has the names, shapes and types of `own`."""
    if set(own) != set(state):
        raise InputError(
            f"the saved state has {sorted(state) or 'nothing'}, but {owner} needs "
            f"{sorted(own) or 'nothing'}: build the sampler with the settings it was saved with."
        )
    for name, array in own.items():
        given = checks.as_array(name, state[name])
        if given.shape != array.shape or given.dtype != array.dtype:
            raise InputError(
                f"the saved {name} is {given.dtype}{list(given.shape)}, but this graph needs "
                f"{array.dtype}{list(array.shape)}: build the sampler with the graph it was "
                "saved with."
            )
        if given.dtype.kind == "f" and not np.isfinite(given).all():
            raise InputError(
                f"the saved {name} holds NaN or infinity: load another checkpoint, because this "
                "one is of a network that diverged."
            )
