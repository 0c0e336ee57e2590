"""The interface of a sampler: seeds in, one block per layer out, feedback back in."""

from __future__ import annotations

import threading
from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from bliss import checks
from bliss.arrays import Array, IntArray
from bliss.distributed.groups import as_group
from bliss.distributed.packing import pack_news, unpack_news
from bliss.errors import InputError
from bliss.feedback import SURVEY, Feedback, News, check_feedback, check_news, is_survey
from bliss.graph import Graph
from bliss.nn.block import Block
from bliss.nn.inference import LayerSurvey, infer
from bliss.nn.layers import Layer, layers_of
from bliss.policies.base import RowSets, State, load_arrays
from bliss.rng import derive_key
from bliss.samplers.changes import Changes
from bliss.samplers.config_base import EstimatorConfig, SamplerConfig
from bliss.samplers.first_hop import FirstHop
from bliss.samplers.history import PREFIX, History, declared_widths, without_history
from bliss.samplers.workspace import Workspace
from bliss.storage.memory import SharedMemory

StepNews = Sequence[News]
"""News of one shard of a step, by layer, input layer first."""


class Sampler(ABC):  # a family implements `_layer` or `sample`
    """Draws the blocks of a batch layer by layer, from the output down, and learns from feedback.

    `layers` counts the sampled layers, and `layer` is one of them, from 0. With an exact first hop
    the network has one layer more, whose block comes first and is not sampled.

    A draw is a pure function of seed, step, seed nodes and the learnt state. Several threads may
    sample at once, each with its own scratch memory; updates of several threads are applied one
    after the other. For draws that do not depend on timing, update between draws.

    A subclass implements `_layer`, or `sample` if it draws all layers at once. A subclass that
    learns also implements `learns`, `_digest`, `_apply` and `_learnt`; one that learns from
    surveys, also `learns_from_surveys`.

    Parameters
    ----------
    data
        A `Graph`, or anything that `Graph.of` accepts.
    budgets
        One number per layer, input layer first; the config's `unit` says what it counts. -1: all
        of them.
    config
        The settings; by default they are built from `options`.
    seed
        Seed of all coins.
    norm
        Coefficients of the graph if it is built here: "mean" (default), "gcn" or "weights".
    layers
        Number of layers. Required without budgets, otherwise checked against them.
    x
        Features [V, F] for samplers that need them; by default `data.x` of a PyG `Data`.
    widths
        Width of each layer's input, for samplers with a history.
    folder
        Where an exact first hop keeps large aggregated features between runs; None: in memory.
    options
        Fields of the config, such as policy and estimator, and settings of the policy, such as eta.
    """

    Config: ClassVar[type[SamplerConfig]]

    def __init__(
        self,
        data: Any,
        budgets: Sequence[int] = (),
        *,
        config: SamplerConfig | None = None,
        seed: int = 0,
        norm: Any = None,
        layers: int | None = None,
        x: Any = None,
        widths: Sequence[int] = (),
        folder: Path | None = None,
        **options: Any,
    ) -> None:
        config = self._default_config() if config is None else config
        if not isinstance(config, self.Config):
            raise InputError(
                f"config is a {type(config).__name__}, but {type(self).__name__} takes a "
                f"{self.Config.__name__}: pass one, or its fields as options."
            )
        self.config = config.with_options(**options)
        self.budgets = self.config.check_budgets(budgets, layers)
        self.layers = len(self.budgets) or checks.whole("layers", layers, least=1)
        self.seed = checks.whole("seed", seed)
        self.graph = Graph.of(data, norm)
        self.budgets = tuple(self._all() if one == -1 else one for one in self.budgets)
        if self.config.needs_features:
            given = getattr(data, "x", None) if x is None else x
            self.features = checks.features(given, self.graph.num_nodes)
        self.first_hop = (
            FirstHop(self.graph, self.features, folder) if self.config.is_first_hop_exact else None
        )
        self.history = self._make_history(widths)
        self._drawing_ahead = False
        self._pending: list[list[StepNews]] = []  # steps of shards, oldest first
        self._changes: Changes | None = None  # if they are tracked
        self._updates = 0  # steps that were given to `apply`
        self._take_turn: Callable[[Callable[[], None]], None] = _at_once
        self._scratch = threading.local()
        self._lock = threading.RLock()  # of the news and of the state that they change

    @classmethod
    def _default_config(cls) -> SamplerConfig:
        return cls.Config()

    def _all(self) -> int:
        """Budget that keeps everything."""
        if self.config.unit == "neighbours":
            return max(1, int(self.graph.degree.max(initial=1)))
        return max(1, self.graph.num_nodes)

    def _make_history(self, widths: Sequence[int]) -> History | None:
        config = self.config
        if not isinstance(config, EstimatorConfig) or not config.has_history:
            return None
        sampled = declared_widths(widths, self.layers + 1)[1:]
        folder = None if config.history_folder is None else Path(config.history_folder)
        return History(self.graph, sampled, config.history, config.history_type, folder)

    def __repr__(self) -> str:
        shown = {"budgets": list(self.budgets)} if self.budgets else {"layers": self.layers}
        settings = {**shown, **self.config.to_dict()}
        listed = "".join(f", {name}={value!r}" for name, value in settings.items())
        return f"{type(self).__name__}({self.graph!r}{listed})"

    @property
    def depth(self) -> int:
        """Number of layers of the network, sampled or not: that of the blocks."""
        return self.layers + (self.first_hop is not None)

    @property
    def makes_batches(self) -> bool:
        """Whether the sampler, not the loader, decides which seeds form a batch."""
        return self.config.makes_batches

    @property
    def updates(self) -> int:
        """Number of steps whose news was given to this sampler, since it was built."""
        return self._updates

    @property
    def learns(self) -> bool:
        """Whether feedback changes the state of the sampler."""
        return self.history is not None or self._adapts

    @property
    def _adapts(self) -> bool:
        """Whether feedback changes the probabilities."""
        return False

    @property
    def learns_from_surveys(self) -> bool:
        """Whether `survey` changes the state of the sampler."""
        return self.history is not None

    def prepare(self, nodes: Any, batch_size: int) -> None:
        """Set the seed nodes and the batch size. The loader calls this once.

        By default this does nothing. Any effect is a pure function of the sampler's seed and these
        arguments, so it need not be saved.
        """
        return None

    def batches(self, epoch: int) -> Sequence[IntArray]:
        """Seeds of each batch of an epoch, if the sampler `makes_batches`. Arrays int64[B]."""
        raise InputError(
            f"{type(self).__name__} does not choose the seeds of batches: pass them to sample, or "
            "use a BlockLoader."
        )

    def sample(self, seeds: Any, step: int, shard: int = 0) -> list[Block]:
        """Draw the blocks of a batch, input layer first.

        Parameters
        ----------
        seeds
            Seed nodes: distinct ids [B], or a mask [V].
        step
            Number of the step. The same step and shard give the same draw.
        shard
            Number of the batch within the step, if several batches make a step.
        """
        targets: IntArray = checks.seeds(seeds, self.graph.num_nodes)
        step, shard = checks.whole("step", step), checks.whole("shard", shard)
        blocks: list[Block] = []
        for layer in reversed(range(self.layers)):  # output layer first
            block = self._layer(targets, layer, self._key(step, layer, shard))
            blocks.append(self.history.attach(block, layer) if self.history else block)
            targets = block.src.numpy()
        if self.first_hop:
            blocks.append(self.first_hop.block(targets))
        return blocks[::-1]

    def update(self, blocks: Sequence[Block], group: Any = None) -> None:
        """Learn from observed blocks; does nothing if the sampler does not learn.

        While a prefetching loader draws ahead, news is queued until that draw is done, so that
        every batch is drawn from a policy exactly one step old.

        Parameters
        ----------
        blocks
            The blocks of a batch, input layer first.
        group
            Processes that train together, each with its own batch: True for the default group of
            torch.distributed, or a process group. All of them must call `update`; each learns from
            the batches of all, in the order of ranks, so their policies stay equal bit for bit.
        """
        if not self.learns:
            return
        news = [self.digest(blocks)]
        if group is not None:
            packed = as_group(group).all_gather_bytes(pack_news(news))
            news = [shard for content in packed for shard in unpack_news(content)]
        self.apply(news)

    def survey(
        self, model: Iterable[Layer] | Layer, x: torch.Tensor, **options: Any
    ) -> torch.Tensor:
        """Infer all nodes from full neighbourhoods and learn from the pass; returns the outputs.

        The pass shows the exact input norms and attention of every layer to the policy. With a
        history it shows the inputs themselves, which become the history of all nodes; the policy
        then learns nothing, because it follows changes. Like the news of a step, what the pass
        shows is queued while a prefetching loader draws ahead.

        Parameters
        ----------
        model
            A `GNN`, a sequence of layers or a layer; see `bliss.nn.infer`.
        x
            Features [V, F].
        options
            Options of `bliss.nn.infer`, such as device and progress.
        """
        out, news = self.surveyed(model, x, **options)
        if news:
            self.apply([news])
        return out

    def surveyed(
        self, model: Iterable[Layer] | Layer, x: torch.Tensor, **options: Any
    ) -> tuple[torch.Tensor, list[News]]:
        """Outputs and news of a survey. The state does not change; pass [news] to `apply`.

        There is no news if the sampler does not learn from surveys.
        """
        if not self.learns_from_surveys:
            return infer(model, self.graph, x, **options), []
        if (number := len(layers_of(model)[1])) != self.depth:
            raise InputError(
                f"model has {number} layers, but the sampler has {self.depth}: survey the network "
                "that the sampler draws for."
            )
        news: list[News] = []

        def observer(layer: int, survey: LayerSurvey) -> None:
            if layer > 0 or self.first_hop is None:
                news.append(self._digest_survey(survey))

        return infer(model, self.graph, x, observer=observer, **options), news

    def learn_survey(self, layers: Sequence[LayerSurvey]) -> None:
        """Learn from the surveys of all layers of a pass made before, input layer first."""
        self.apply([[self._digest_survey(one) for one in layers[self.depth - self.layers :]]])

    def digest(self, blocks: Sequence[Block]) -> list[News]:
        """News of observed blocks, by layer, input layer first. The state does not change."""
        if len(blocks) != self.depth:
            raise InputError(
                f"{len(blocks)} blocks were given for {self.depth} layers: pass all blocks of a "
                "step, input layer first."
            )
        sampled = blocks[1:] if self.first_hop else blocks
        feedback = [block.feedback() for block in sampled]
        self._check(feedback)
        history = self.history
        if history is None:
            return [self._digest(layer, one) for layer, one in enumerate(feedback)]
        aged = [
            one._replace(age=history.ages(layer, one.src)) for layer, one in enumerate(feedback)
        ]
        return [
            {**self._digest(layer, one), **history.digest(layer, one)}
            for layer, one in enumerate(aged)
        ]

    def apply(self, shards: Sequence[StepNews]) -> None:
        """Learn from the news of one step, one entry per shard, in the order of shards.

        Samplers that apply the same news in the same order have equal states.
        """
        for shard in shards:
            if len(shard) != self.layers:
                raise InputError(
                    f"news of {len(shard)} layers was given for {self.layers} layers: pass all "
                    "layers of a step, input layer first."
                )
            for news in shard:
                check_news(news, self.graph)
        with self._lock:
            self._updates += 1
            self._pending.append(list(shards))
            if not self._drawing_ahead:
                self.settle()

    def settle(self) -> None:
        """Apply the queued news."""
        with self._lock:
            while self._pending:
                self._take_turn(partial(self._learn, self._pending.pop(0)))

    def change_by(self, take_turn: Callable[[Callable[[], None]], None]) -> None:
        """Let `take_turn` decide when, and in which process, a change of the state is made.

        Used when processes share the state and only one of them may change it. `take_turn` gets a
        function that makes the change.
        """
        self._take_turn = take_turn

    def is_shareable(self, memory: SharedMemory) -> bool:
        """Whether all that changes when this sampler learns is in arrays of `memory`."""
        return type(self)._apply is Sampler._apply and memory.holds(self._arrays().values())

    def _learn(self, shards: Sequence[StepNews]) -> None:
        """Apply the news of one step."""
        if self.history and not is_survey(shards[0][0]):
            self.history.tick()
        for layer in range(self.layers):
            news = every = [shard[layer] for shard in shards]
            if self.history:
                self.history.apply(layer, news)
                news = [without_history(one) for one in news]
            self._apply(layer, news)
            if self._changes:
                if self.history:
                    self._changes.add(self.history.changed_rows(layer, every), self._arrays)
                self._changes.add(self._changed_rows(layer, news), self._arrays)

    def track_changes(self) -> Changes:
        """Record from now on which rows of the state change; a byte per node and layer or more."""
        if self._changes is None:
            self._changes = Changes()
        return self._changes

    def changed_rows(self) -> dict[str, IntArray] | None:
        """Changed rows of each array with a row per node or edge; None: any, or not tracked."""
        found = None if self._changes is None else self._changes.rows()
        if found is None:
            return None
        sizes, none = (self.graph.num_nodes, self.graph.num_edges), np.empty(0, np.int64)
        arrays = self._arrays().items()
        return {name: found.get(name, none) for name, one in arrays if len(one) in sizes}

    def _arrays(self) -> State:
        """Learnt arrays and histories by name, without copying."""
        return self._learnt() | (self.history.state_dict() if self.history else {})

    @contextmanager
    def drawing_ahead(self) -> Iterator[None]:
        """Context manager that queues news until `settle` is called."""
        if self._drawing_ahead:
            raise InputError(
                "two loaders with prefetch=1 draw from the same sampler at the same time, so the "
                "age of the policy is undefined: use prefetch=0 or a second sampler for one of "
                "them."
            )
        self._drawing_ahead = True
        try:
            yield
        finally:
            self._drawing_ahead = False

    def state_dict(self) -> dict[str, torch.Tensor]:
        """State needed to resume: the learnt arrays and the queued news.

        As in torch, the learnt tensors share memory with the sampler. Copy them to keep them.
        """
        state = {name: torch.from_numpy(array) for name, array in self._arrays().items()}
        for step, shards in enumerate(self._pending):
            for number, shard in enumerate(shards):
                for layer, news in enumerate(shard):
                    for name, array in news.items():
                        key = f"pending.{step}.{number}.{layer}.{name}"
                        state[key] = torch.from_numpy(array.copy())  # arrays may share memory
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the result of `state_dict`, for the same graph, settings and number of layers."""
        waiting = {k: v for k, v in state.items() if k.startswith("pending.")}
        pending = self._load_pending(waiting)
        known = {k: v for k, v in state.items() if self.history and k.startswith(PREFIX)}
        self._load({k: v for k, v in state.items() if k not in waiting and k not in known})
        if self.history:
            self.history.load_state_dict(known)
        self._pending = pending
        if self._changes:
            self._changes.add(None, self._arrays)

    def _load_pending(self, state: Mapping[str, Any]) -> list[list[StepNews]]:
        found: dict[int, dict[int, list[dict[str, Array]]]] = {}
        for name, value in state.items():
            _, step, shard, layer, field = name.split(".", 4)
            shards = found.setdefault(int(step), {})
            layers = shards.setdefault(int(shard), [{} for _ in range(self.layers)])
            layers[int(layer)][field] = checks.as_array(name, value).copy()
        steps = [[found[step][n] for n in sorted(found[step])] for step in sorted(found)]
        for news in (news for shards in steps for shard in shards for news in shard):
            check_news(news, self.graph)
        return [list(shards) for shards in steps]

    def _layer(self, dst: IntArray, layer: int, key: np.uint64) -> Block:
        """Draw one layer for the targets dst [D]; their coins come from key."""
        raise NotImplementedError(f"{type(self).__name__} implements neither _layer nor sample")

    def _key(self, step: int, layer: int, shard: int = 0) -> np.uint64:
        """Key of a layer's coins: seed, step, layer and, except for the first one, shard."""
        return derive_key(self.seed, step, layer, *((shard,) if shard else ()))

    def _digest(self, layer: int, feedback: Feedback) -> News:
        """News of one layer; by default none."""
        return {}

    def _digest_survey(self, survey: LayerSurvey) -> News:
        """News of the survey of one layer."""
        news: dict[str, Array] = {f"{SURVEY}norm": survey.norm}
        if self.history:
            news[f"{SURVEY}input"] = survey.input.numpy()
        elif survey.attention is not None:
            news[f"{SURVEY}attention"] = survey.attention
        return news

    def _apply(self, layer: int, news: Sequence[News]) -> None:
        """Learn from one layer's news of a step, by shard; by default nothing."""
        return None

    def _changed_rows(self, layer: int, news: Sequence[News]) -> RowSets | None:
        """Rows of the state that `_apply` has just changed; None: any, if there is a state."""
        return None if self._learnt() else {}

    def _learnt(self) -> State:
        """Learnt arrays by name, without copying."""
        return {}

    def _load(self, learnt: Mapping[str, Any]) -> None:
        """Load the result of `_learnt`."""
        load_arrays(self._learnt(), learnt, type(self).__name__)

    def _check(self, feedback: Sequence[Feedback]) -> None:
        """Reject feedback that does not match the layers or the graph, before ids are used."""
        for below, above in pairwise(feedback):
            if below.dst.size != above.src.size:
                raise InputError(
                    f"blocks do not chain: one has {below.dst.size} targets where the next has "
                    f"{above.src.size} sources. Pass the blocks of one step, input layer first."
                )
        for one in feedback:
            check_feedback(one, self.graph)

    def _workspace(self) -> Workspace:
        if not hasattr(self._scratch, "workspace"):
            self._scratch.workspace = Workspace(self.graph)
        workspace: Workspace = self._scratch.workspace
        return workspace


def _at_once(change: Callable[[], None]) -> None:
    change()
