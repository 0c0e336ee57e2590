"""`Learning`: the learners of a sampler, with the queue of their updates and their saved state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

from bliss import checks
from bliss.arrays import Array, BoolArray, IntArray
from bliss.errors import InputError
from bliss.feedback import Feedback, News, Survey, check_news, is_survey, survey_news, survey_of
from bliss.graph import Graph
from bliss.policies.learner import Learner, RowSets, State, check_arrays
from bliss.storage.memory import SharedMemory

StepNews = Sequence[News]
"""Update of one shard of a step, by layer, input layer first."""
_PENDING = "pending."


class Learning:
    """Applies the updates of each step to the learners of a sampler, and saves their state.

    Updates of several threads are applied one after the other. While a prefetching loader draws
    ahead, updates are queued, so that every batch is drawn from a state exactly one step old.

    At most one of the learners has no prefix. `owner` is the name of the sampler, for messages.
    """

    def __init__(
        self, graph: Graph, layers: int, learners: tuple[Learner, ...], owner: str
    ) -> None:
        self.graph, self.layers, self.learners = graph, layers, learners
        self.owner = owner
        self.updates = 0  # calls of `apply`
        self.dirty: DirtyRows | None = None  # if changes are tracked
        self._is_drawing_ahead = False
        self._pending: list[list[StepNews]] = []  # queued news, by step and shard, oldest first
        self._take_turn: Callable[[Callable[[], None]], None] = _at_once
        self._lock = threading.RLock()  # for the queue and the state

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the lock, for copies and pickles."""
        if self._take_turn is not _at_once:
            raise InputError(
                f"this {self.owner} shares what it has learnt with other processes and cannot be "
                "copied: build another one, and load state_dict() into it."
            )
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    @property
    def learns(self) -> bool:
        """Whether feedback changes the state."""
        return any(learner.learns for learner in self.learners)

    @property
    def surveyed(self) -> list[Learner]:
        """The learners that learn from surveys: with a history, only the history.

        A policy beside a history follows the change of inputs, which a survey does not show.
        """
        learners = [learner for learner in self.learners if learner.learns_from_surveys]
        return [learner for learner in learners if learner.needs_survey_input] or learners

    def digest(self, feedback: Sequence[Feedback]) -> list[News]:
        """Updates of all learners by layer. The state does not change."""
        news: list[News] = []
        for layer, seen in enumerate(feedback):
            own: dict[str, Array] = {}
            for learner in self.learners:
                own.update(learner.digest(layer, seen))
            news.append(own)
        return news

    def digest_survey(self, survey: Survey) -> News:
        """Update from the survey of one layer: its norms, and its inputs or its attention."""
        needs_input = any(learner.needs_survey_input for learner in self.surveyed)
        return survey_news(
            survey._replace(attention=None) if needs_input else survey._replace(input=None)
        )

    def apply(self, shards: Sequence[StepNews]) -> None:
        """Learn from the updates of one step, one entry per shard, in the order of shards."""
        for shard in shards:
            if len(shard) != self.layers:
                raise InputError(
                    f"updates of {len(shard)} layers were given for {self.layers} layers: pass all "
                    "layers of a step, input layer first."
                )
            for news in shard:
                check_news(news, self.graph)
        with self._lock:
            self.updates += 1
            self._pending.append(list(shards))
            if not self._is_drawing_ahead:
                self.settle()

    def settle(self) -> None:
        """Apply the queued updates."""
        with self._lock:
            while self._pending:
                self._take_turn(partial(self._learn, self._pending.pop(0)))

    @contextmanager
    def drawing_ahead(self) -> Iterator[None]:
        """Context manager that queues updates until `settle` is called."""
        if self._is_drawing_ahead:
            raise InputError(
                "two loaders with prefetch=1 draw from the same sampler at the same time, so the "
                "age of the policy is undefined: use prefetch=0 or a second sampler for one of "
                "them."
            )
        self._is_drawing_ahead = True
        try:
            yield
        finally:
            self._is_drawing_ahead = False

    def change_by(self, take_turn: Callable[[Callable[[], None]], None]) -> None:
        """Call take_turn(change) for each change of the state, where `change` is a function.

        Processes that share the state use this: `take_turn` calls `change` in one of them, when no
        other reads the state.
        """
        self._take_turn = take_turn

    def is_shareable(self, memory: SharedMemory) -> bool:
        """Whether all learners set `shares_state`, and all learnt arrays are in `memory`."""
        declared = (
            not learner.learns or vars(type(learner)).get("shares_state", False)
            for learner in self.learners
        )
        return all(declared) and memory.holds(self.arrays().values())

    def _learn(self, shards: Sequence[StepNews]) -> None:
        """Apply the updates of one step, or of a survey."""
        is_step = not is_survey(shards[0][0])
        learners = self.learners if is_step else self.surveyed
        if is_step:
            for learner in learners:
                learner.begin_step()
        for layer in range(self.layers):
            for learner in learners:
                if is_step:
                    news = [self._part(learner, shard[layer]) for shard in shards]
                    learner.apply(layer, news)
                    rows = learner.changed_rows(layer, news) if self.dirty else {}
                else:
                    learner.survey(layer, survey_of(shards[0][layer]))
                    rows = None
                if self.dirty:
                    self.dirty.add(rows, self.arrays)

    def _part(self, learner: Learner, named: Mapping[str, Any]) -> dict[str, Any]:
        """The entries that belong to a learner, by the prefix of their names."""
        if learner.prefix:
            return {k: v for k, v in named.items() if k.startswith(learner.prefix)}
        prefixes = tuple(other.prefix for other in self.learners if other.prefix)
        return {k: v for k, v in named.items() if not k.startswith(prefixes)}

    def track_changes(self) -> DirtyRows:
        """Track the rows of the state that change from now on. A byte per row and set of arrays."""
        if self.dirty is None:
            self.dirty = DirtyRows()
        return self.dirty

    def changed_rows(self) -> dict[str, IntArray] | None:
        """Changed rows by array with a row per node or edge; None: any row, or not tracked."""
        rows = None if self.dirty is None else self.dirty.rows()
        if rows is None:
            return None
        sizes, none = (self.graph.num_nodes, self.graph.num_edges), np.empty(0, np.int64)
        arrays = self.arrays().items()
        return {name: rows.get(name, none) for name, array in arrays if len(array) in sizes}

    def arrays(self) -> State:
        """Learnt arrays of all learners by name, without copying."""
        return {name: a for learner in self.learners for name, a in learner.state_dict().items()}

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The learnt arrays, without copying, and a copy of the queued updates."""
        state = {name: torch.from_numpy(array) for name, array in self.arrays().items()}
        for step, shards in enumerate(self._pending):
            for number, shard in enumerate(shards):
                for layer, news in enumerate(shard):
                    for name, array in news.items():
                        key = f"{_PENDING}{step}.{number}.{layer}.{name}"
                        state[key] = torch.from_numpy(array.copy())  # arrays may share memory
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the result of `state_dict`. All of it is checked before anything is changed."""
        pending = self._load_pending({k: v for k, v in state.items() if k.startswith(_PENDING)})
        learnt = {k: v for k, v in state.items() if not k.startswith(_PENDING)}
        parts = [self._part(learner, learnt) for learner in self.learners]
        unknown = learnt.keys() - {name for part in parts for name in part}
        check_arrays({}, {name: learnt[name] for name in unknown}, self.owner)
        for learner, part in zip(self.learners, parts, strict=True):
            learner.check_state(part)
        for learner, part in zip(self.learners, parts, strict=True):
            learner.load_state_dict(part)
        self._pending = pending
        if self.dirty:
            self.dirty.add(None, self.arrays)

    def _load_pending(self, state: Mapping[str, Any]) -> list[list[StepNews]]:
        loaded: dict[int, dict[int, list[dict[str, Array]]]] = {}
        for name, value in state.items():
            _, step, shard, layer, field = name.split(".", 4)
            shards = loaded.setdefault(int(step), {})
            layers = shards.setdefault(int(shard), [{} for _ in range(self.layers)])
            layers[int(layer)][field] = checks.as_array(name, value).copy()
        steps = [[loaded[step][n] for n in sorted(loaded[step])] for step in sorted(loaded)]
        for news in (news for shards in steps for shard in shards for news in shard):
            check_news(news, self.graph)
        return [list(shards) for shards in steps]


class DirtyRows:
    """Rows of state arrays that changed since `clear`: a byte per row and set of arrays.

    Checkpoints need not write the other rows. Before the first `clear`, any row counts as changed.
    """

    def __init__(self) -> None:
        self._marks: dict[tuple[str, ...], BoolArray] = {}
        self._is_everything = True

    def add(self, rows: RowSets | None, state: Callable[[], State]) -> None:
        """Note changed rows of the arrays of `state()`; None: any row of any array."""
        if rows is None:
            self._is_everything = True
            return
        for names, ids in rows.items():
            if names not in self._marks:
                self._marks[names] = np.zeros(len(state()[names[0]]), np.bool_)
            self._marks[names][ids] = True

    def rows(self) -> dict[str, IntArray] | None:
        """Changed rows by array; None: any row of any array."""
        if self._is_everything:
            return None
        changed = {names: np.flatnonzero(mark) for names, mark in self._marks.items()}
        return {name: ids for names, ids in changed.items() for name in names}

    def clear(self) -> None:
        """Forget all changes."""
        for mark in self._marks.values():
            mark[:] = False
        self._is_everything = False


def _at_once(change: Callable[[], None]) -> None:
    change()
