"""The layer-wise sampler: a policy, a draw and an estimator, put together once for all."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from bliss import checks
from bliss.errors import InputError
from bliss.graph import Graph
from bliss.kernels import fast
from bliss.policies import Policy, PolicyConfig, make_policy
from bliss.rng import derive_key
from bliss.samplers.draws import Draw
from bliss.samplers.estimators import ESTIMATORS, edge_weights
from bliss.samplers.workspace import Workspace
from bliss.types import Block, Feedback, FloatArray, IntArray


class Inclusion(NamedTuple):
    """The candidates of a layer and their chances, before any coin is flipped."""

    candidate: IntArray  # int64[C] graph ids, targets first
    prob: FloatArray  # float64[C] p_j


class LayerSampler:
    """Samples one set of sources for all targets of a layer, from the output layer down.

    For targets D and budget k: the candidates are D and every source of an in-edge of D; the
    policy gives each a mass s_j; the draw keeps about k of them, source j with probability p_j,
    and always the targets; the estimator weighs the kept edges. With Horvitz-Thompson weights
    alpha_ij / p_j, for fixed inputs, the expected aggregate is the full-neighbour one.

    A step costs two passes over the frontier's edges. What is drawn is a pure function of seed,
    step, seeds and policy state. Threads may sample at once, each with scratch memory of its own.

    Parameters
    ----------
    data
        A `Graph`, or anything `Graph.of` takes.
    budgets
        Sources kept per layer on average, before the targets are added; input layer first.
    policy
        A name from `bliss.policies.POLICIES`, a config, or a policy built for this graph.
    draw
        How masses become sources, from `bliss.samplers.draws`.
    estimator
        "ht", "hajek" or "sketch"; see `bliss.samplers.estimators`.
    seed
        Names the stream of coins.
    norm
        Coefficients of the graph if it is built here: "mean" (default), "gcn" or "weights".
    layers
        If given, the number of budgets is checked against it.
    options
        Options of the policy, such as eta.
    """

    def __init__(
        self,
        data: Any,
        budgets: Sequence[int],
        *,
        policy: str | PolicyConfig | Policy,
        draw: Draw,
        estimator: str = "ht",
        seed: int = 0,
        norm: Any = None,
        layers: int | None = None,
        **options: Any,
    ) -> None:
        self.budgets = checks.budgets(budgets, layers)
        self.estimator = checks.choice("estimator", estimator, list(ESTIMATORS))
        self.seed = checks.whole("seed", seed)
        self.draw = draw
        self.graph = Graph.of(data, norm)
        self.policy = make_policy(policy, self.graph, len(self.budgets), **options)
        self._drawing_ahead = False
        self._pending: list[tuple[int, Feedback]] = []  # by layer, oldest first
        self._scratch = threading.local()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.graph!r}, budgets={list(self.budgets)}, "
            f"policy={self.policy.name!r}, draw={self.draw!r}, estimator={self.estimator!r})"
        )

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
        for layer in reversed(range(len(self.budgets))):  # output layer first
            blocks.append(self._layer(targets, layer, derive_key(self.seed, step, layer)))
            targets = blocks[-1].src.numpy()
        return blocks[::-1]

    def inclusion(self, dst: Any, layer: int) -> Inclusion:
        """The chances that `sample` would use for these targets: what theory speaks about."""
        targets: IntArray = checks.seeds(dst, self.graph.num_nodes)
        candidate, mass = self._masses(self._workspace(), targets, layer)
        prob = self.draw.probability(mass, targets.size, self.budgets[layer])
        return Inclusion(candidate.astype(np.int64), prob)

    def update(self, blocks: Sequence[Block]) -> None:
        """Let the policy learn from observed blocks; nothing happens if it does not learn.

        While a prefetching loader draws ahead, the news waits until that draw is done, so that the
        policy behind every batch is exactly one step old.
        """
        if self.policy.learns:
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
            self.policy.update(*self._pending.pop(0))

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
        state = {name: torch.from_numpy(array) for name, array in self.policy.state_dict().items()}
        for position, (layer, feedback) in enumerate(self._pending):
            for name, array in feedback._asdict().items():
                state[f"pending.{position}.{layer}.{name}"] = torch.from_numpy(array)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave, for the same graph, policy and number of layers."""
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
        self.policy.load_state_dict(learnt)
        self._pending = pending

    def _check(self, feedback: Sequence[Feedback]) -> None:
        """Refuse feedback of other blocks, whose ids would be written where they do not belong."""
        if len(feedback) != len(self.budgets):
            raise InputError(
                f"{len(feedback)} blocks were given for {len(self.budgets)} layers: pass all "
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

    def _layer(self, dst: IntArray, layer: int, key: np.uint64) -> Block:
        graph, workspace = self.graph, self._workspace()
        candidate, mass = self._masses(workspace, dst, layer)
        source, prob = self.draw.keep(candidate, mass, dst.size, self.budgets[layer], key)
        kept_indptr, row, edge = fast.gather(
            graph.indptr,
            graph.indices,
            dst,
            source,
            workspace.bits,
            workspace.position,
            workspace.edge,
        )
        weight = edge_weights(self.estimator, graph, dst, source, prob, kept_indptr, row, edge)
        arrays = (source[: dst.size], source, kept_indptr, row, edge, prob, weight)
        return Block(*map(torch.from_numpy, arrays))

    def _masses(
        self, workspace: Workspace, dst: IntArray, layer: int
    ) -> tuple[IntArray, FloatArray]:
        """Candidates int[C] and masses float32[C], both borrowed from the workspace."""
        graph, policy = self.graph, self.policy
        try:
            count, edges = fast.scan(
                graph.indptr,
                graph.indices,
                dst,
                *policy.edge_mass(layer, dst),
                workspace.seen,
                workspace.candidate,
            )
            candidate = workspace.candidate[:count]
            coded = policy.node_codes(layer)
            mass = workspace.mass[:count]
            fast.collect_mass(candidate, workspace.seen, *coded, policy.power, mass)
        except BaseException:
            self._scratch = threading.local()  # `seen` may hold half a layer
            raise
        workspace.reserve_edges(edges)
        if policy.source_factor.size:
            fast.scale_by_node(mass, candidate, policy.source_factor)
        return candidate, mass

    def _workspace(self) -> Workspace:
        if not hasattr(self._scratch, "workspace"):
            self._scratch.workspace = Workspace(self.graph)
        workspace: Workspace = self._scratch.workspace
        return workspace
