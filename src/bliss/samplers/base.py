"""What every sampler is: seeds in, one block per layer out, feedback back in."""

from __future__ import annotations

import threading
from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from bliss import checks
from bliss.arrays import IntArray
from bliss.errors import InputError
from bliss.graph import Graph
from bliss.policies import POLICIES, Policy, PolicyConfig, State, make_policy
from bliss.policies.base import load_arrays
from bliss.rng import derive_key
from bliss.samplers.estimators import ESTIMATORS
from bliss.samplers.workspace import Workspace
from bliss.types import Block, Feedback

Unit = Literal["sources", "neighbours", "none"]


class Sampler(ABC):  # noqa: B024  # which method a family implements is its choice
    """Draws the blocks of a batch layer by layer, from the output down, and learns from feedback.

    What is drawn is a pure function of seed, step, seeds and what was learnt. Threads may sample
    at once, each with scratch memory of its own. A family implements `_layer`, or `sample` if it
    draws all layers at once; one that learns also `learns`, `_learn` and `_learnt`.

    Parameters
    ----------
    data
        A `Graph`, or anything `Graph.of` takes.
    budgets
        One number per layer, input layer first; `unit` says what it counts.
    seed
        Names the stream of coins.
    norm
        Coefficients of the graph if it is built here: "mean" (default), "gcn" or "weights".
    layers
        The number of layers: needed where `unit` is "none", otherwise checked against the budgets.
    """

    unit: ClassVar[Unit] = "sources"
    """What a budget counts: sources kept per layer, neighbours kept per target, or nothing."""
    choices: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The names that `policy` and `estimator` may have, for samplers that offer them."""
    needs_features: ClassVar[bool] = False
    """Whether the constructor wants the nodes' features as `x`."""
    makes_batches: ClassVar[bool] = False
    """Whether the sampler, by `batches`, decides which seeds make a batch, and not the loader."""
    linear_only: ClassVar[bool] = False
    """Whether it serves sums with fixed coefficients alone, and no attention."""

    def __init__(
        self,
        data: Any,
        budgets: Sequence[int] = (),
        *,
        seed: int = 0,
        norm: Any = None,
        layers: int | None = None,
    ) -> None:
        self.budgets = self.check_budgets(budgets, layers)
        self.layers = len(self.budgets) or checks.whole("layers", layers, least=1)
        self.seed = checks.whole("seed", seed)
        self.graph = Graph.of(data, norm)
        self._drawing_ahead = False
        self._pending: list[tuple[int, Feedback]] = []  # by layer, oldest first
        self._scratch = threading.local()

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self._settings().items())
        return f"{type(self).__name__}({self.graph!r}{settings})"

    @classmethod
    def check_budgets(cls, budgets: Sequence[int], layers: int | None = None) -> tuple[int, ...]:
        """The budgets, checked: one per layer, or none where nothing is counted."""
        if cls.unit != "none":
            return checks.budgets(budgets, layers)
        if np.size(budgets):
            raise InputError(
                f"budgets={budgets!r} would have no effect: {cls.__name__} keeps what it keeps "
                "whatever the budget, so leave them out."
            )
        return ()

    @classmethod
    def default_budgets(cls, layers: int) -> tuple[int, ...]:
        """10 neighbours a layer; or 512 sources at the output, twice as many a layer below."""
        if cls.unit == "neighbours":
            return (10,) * layers
        return tuple(512 << depth for depth in reversed(range(layers)) if cls.unit == "sources")

    @property
    def learns(self) -> bool:
        """Whether feedback changes what is drawn."""
        return False

    def prepare(self, nodes: Any, batch_size: int) -> None:
        """Be told, once, by the loader: whose outputs are wanted, and how many a batch has.

        By default nothing is done about it. What is done is a pure function of the sampler's seed
        and these two, so that it need not be saved.
        """
        return None

    def batches(self, epoch: int) -> Sequence[IntArray]:
        """The seeds of each batch of an epoch, if the sampler `makes_batches`. Arrays int64[B]."""
        raise NotImplementedError

    def sample(self, seeds: Any, step: int) -> list[Block]:
        """Draw the blocks of a batch, input layer first.

        Parameters
        ----------
        seeds
            Distinct node ids whose output is wanted, [B], or a mask [V].
        step
            The number of the batch: the same step gives the same draw.
        """
        targets: IntArray = checks.seeds(seeds, self.graph.num_nodes)
        step = checks.whole("step", step)
        blocks: list[Block] = []
        for layer in reversed(range(self.layers)):  # output layer first
            blocks.append(self._layer(targets, layer, self._key(step, layer)))
            targets = blocks[-1].src.numpy()
        return blocks[::-1]

    def update(self, blocks: Sequence[Block]) -> None:
        """Learn from observed blocks; nothing happens if the sampler does not learn.

        While a prefetching loader draws ahead, the news waits until that draw is done, so that
        what is known behind every batch is exactly one step old.
        """
        if self.learns:
            self.learn([block.feedback() for block in blocks])

    def learn(self, feedback: Sequence[Feedback]) -> None:
        """Learn from one step's feedback, input layer first: of this process or of another."""
        self._check(feedback)
        self._pending += enumerate(feedback)
        if not self._drawing_ahead:
            self.settle()

    def settle(self) -> None:
        """Apply the feedback that waits."""
        while self._pending:
            self._learn(*self._pending.pop(0))

    @contextmanager
    def drawing_ahead(self) -> Iterator[None]:
        """While this lasts, feedback waits until `settle` is called."""
        if self._drawing_ahead:
            raise InputError(
                "two loaders with prefetch=1 draw from one sampler at the same time, so neither "
                "knows how old its policy is: use prefetch=0 or a sampler of its own for one."
            )
        self._drawing_ahead = True
        try:
            yield
        finally:
            self._drawing_ahead = False

    def state_dict(self) -> dict[str, torch.Tensor]:
        """All that a resumed run needs: what was learnt, and the feedback that waits.

        Like torch's, the tensors share memory with the sampler: copy them to keep them.
        """
        state = {name: torch.from_numpy(array) for name, array in self._learnt().items()}
        for position, (layer, feedback) in enumerate(self._pending):
            for name, array in feedback._asdict().items():
                state[f"pending.{position}.{layer}.{name}"] = torch.from_numpy(array)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave, for the same graph, settings and number of layers."""
        waiting: dict[tuple[int, int], dict[str, Any]] = {}
        learnt = {}
        for name, value in state.items():
            if name.startswith("pending."):
                _, position, layer, field = name.split(".")
                waiting.setdefault((int(position), int(layer)), {})[field] = checks.as_array(
                    name, value
                ).copy()
            else:
                learnt[name] = value
        pending = [(layer, Feedback(**waiting[at])) for at in sorted(waiting) for layer in at[1:]]
        for _, feedback in pending:
            self._check_ids(feedback)
        self._load(learnt)
        self._pending = pending

    def _layer(self, dst: IntArray, layer: int, key: np.uint64) -> Block:
        """Draw one layer for the targets dst [D]; their coins come from key."""
        raise NotImplementedError

    def _key(self, step: int, layer: int) -> np.uint64:
        """The key of a layer's coins."""
        return derive_key(self.seed, step, layer)

    def _settings(self) -> dict[str, Any]:
        """What `repr` shows besides the graph."""
        return {"budgets": list(self.budgets)} if self.budgets else {"layers": self.layers}

    def _learn(self, layer: int, feedback: Feedback) -> None:
        """Learn from one layer of one step; by default, nothing."""
        return None

    def _learnt(self) -> State:
        """What was learnt, by name: the arrays themselves, not copies."""
        return {}

    def _load(self, learnt: Mapping[str, Any]) -> None:
        """Take over what `_learnt` gave."""
        load_arrays(self._learnt(), learnt, type(self).__name__)

    def _check(self, feedback: Sequence[Feedback]) -> None:
        """Refuse feedback of other blocks, whose ids would be written where they do not belong."""
        if len(feedback) != self.layers:
            raise InputError(
                f"{len(feedback)} blocks were given for {self.layers} layers: pass all "
                "blocks of a step, input layer first."
            )
        for below, above in pairwise(feedback):
            if below.dst.size != above.src.size:
                raise InputError(
                    f"blocks do not chain: one has {below.dst.size} targets where the next has "
                    f"{above.src.size} sources. Pass the blocks of one step, input layer first."
                )
        for one in feedback:
            self._check_ids(one)

    def _check_ids(self, feedback: Feedback) -> None:
        graph = self.graph
        for name, limit in (("src", graph.num_nodes), ("edge", graph.num_edges)):
            largest = int(getattr(feedback, name).max(initial=0))
            if largest >= limit:
                raise InputError(
                    f"a block's {name} holds {largest}, but this sampler's graph has {limit}: "
                    "update a sampler with the blocks it drew."
                )

    def _workspace(self) -> Workspace:
        if not hasattr(self._scratch, "workspace"):
            self._scratch.workspace = Workspace(self.graph)
        workspace: Workspace = self._scratch.workspace
        return workspace


class PolicySampler(Sampler):
    """A sampler whose masses come from a policy, which does all the learning.

    Parameters
    ----------
    policy
        A name from `bliss.policies.POLICIES`, a config, or a policy built for this graph.
    estimator
        One of `choices`; see `bliss.samplers.estimators`.
    options
        Those of `Sampler` (seed, norm, layers); others go to the policy, such as eta.
    """

    choices: ClassVar[Mapping[str, Sequence[str]]] = {
        "policy": tuple(POLICIES),
        "estimator": tuple(ESTIMATORS),
    }

    def __init__(
        self,
        data: Any,
        budgets: Sequence[int],
        *,
        policy: str | PolicyConfig | Policy,
        estimator: str = "ht",
        seed: int = 0,
        norm: Any = None,
        layers: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(data, budgets, seed=seed, norm=norm, layers=layers)
        self.estimator = checks.choice("estimator", estimator, self.choices["estimator"])
        self.policy = make_policy(policy, self.graph, self.layers, **options)

    @property
    def learns(self) -> bool:
        """Whether the policy does."""
        return self.policy.learns

    def _settings(self) -> dict[str, Any]:
        own = {"policy": self.policy.name, "estimator": self.estimator}
        return super()._settings() | own

    def _learn(self, layer: int, feedback: Feedback) -> None:
        self.policy.update(layer, feedback)

    def _learnt(self) -> State:
        return self.policy.state_dict()

    def _load(self, learnt: Mapping[str, Any]) -> None:
        self.policy.load_state_dict(learnt)
