"""The interface of a sampler: it takes seeds, returns one block per layer, and takes feedback."""

from __future__ import annotations

import threading
from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from bliss import checks
from bliss.arrays import NOTHING, IntArray
from bliss.distributed.groups import as_group
from bliss.distributed.packing import pack_news, unpack_news
from bliss.errors import InputError
from bliss.feedback import Feedback, News, Survey, check_feedback
from bliss.graph import Cutoff, Graph, HiddenEdges, Rows
from bliss.graph.cutoff import check_times
from bliss.kernels.coins import CoinKey
from bliss.nn.block import Block, Observation
from bliss.nn.inference import LayerSurvey, infer
from bliss.nn.layers import Layer, number_of_layers
from bliss.policies.learner import Learner
from bliss.rng import Stream, coin_key
from bliss.samplers.config_base import EstimatorConfig, SamplerConfig
from bliss.samplers.first_hop import FirstHop, given_features
from bliss.samplers.history import History, declared_widths
from bliss.samplers.influence import of_sources
from bliss.samplers.learning import Learning, StepNews
from bliss.samplers.typed_budgets import divided_budgets
from bliss.samplers.workspace import Workspace

_GRAPH_OPTIONS = ("self_loops", "duplicates", "edge_ids", "num_nodes", "time_attr")


class Sampler(ABC):  # a family implements `_layer` or `sample`
    """Draws the blocks of a batch layer by layer, from the output down, and learns from feedback.

    `layers` counts the sampled layers, and `layer` is one of them, from 0. With an exact first hop
    the network has one layer more, whose block comes first and is not sampled.

    A draw is a pure function of seed, step, seed nodes and the learnt state. Several threads may
    sample at once, each with its own scratch memory; updates of several threads are applied one
    after the other. For draws that do not depend on timing, update between draws.

    A subclass implements `_layer`, or `sample` if it draws all layers at once. `_make_learners`
    returns its learners, such as a policy and a history.

    Parameters
    ----------
    data
        A `Graph`, or anything that `Graph.of` accepts.
    budgets
        One number per layer, input layer first, in the config's `unit`; -1: all. In a graph with
        types, a number is for all types; {type of nodes: number} sets the sources of each type, and
        for node-wise samplers {type of edges: number} the fanout of each relation.
    config
        The settings; by default they are built from `options`.
    seed
        Seed of all coins.
    norm
        Coefficients of the graph if it is built here: "mean" (default), "gcn" or "weights".
    layers
        Number of layers. Required without budgets, otherwise checked against them.
    x
        Features [V, F], or {type: [n_t, F_t]}, for samplers that need them; by default those of the
        data.
    widths
        Width of each layer's input, for samplers with a history; {type: width} if types differ.
    folder
        Folder for large aggregated features of an exact first hop, kept between runs; None: they
        stay in memory.
    options
        Fields of the config, such as policy and estimator, and settings of the policy, such as eta;
        and options of `Graph.of` if the graph is built here: self_loops, duplicates, edge_ids,
        num_nodes and time_attr.
    """

    Config: ClassVar[type[SamplerConfig]]
    divides_budgets: ClassVar[bool] = False
    """Whether a budget may be a dictionary of types, or of relations."""

    def __init__(
        self,
        data: Any,
        budgets: Sequence[Any] = (),
        *,
        config: SamplerConfig | None = None,
        seed: int = 0,
        norm: Any = None,
        layers: int | None = None,
        x: Any = None,
        widths: Sequence[Any] = (),
        folder: Path | None = None,
        **options: Any,
    ) -> None:
        config = self.Config() if config is None else config
        if not isinstance(config, self.Config):
            raise InputError(
                f"config is a {type(config).__name__}, but {type(self).__name__} takes a "
                f"{self.Config.__name__}: pass one, or its fields as options."
            )
        of_graph = {name: options.pop(name) for name in _GRAPH_OPTIONS if name in options}
        self.config = config.with_options(**options)
        given = self.config.check_budgets(budgets, layers)
        self.layers = len(given) or checks.whole("layers", layers, least=1)
        self.seed = checks.whole("seed", seed)
        self.graph = Graph.of(data, norm, **of_graph)
        if self.graph.types is not None and self.makes_batches:
            raise InputError(
                f"{type(self).__name__} draws one subgraph for all layers, but the graph has types "
                "of nodes and edges: use a layer-wise or node-wise sampler, such as bliss.Bliss."
            )
        unit, name = self.config.unit, type(self).__name__
        self.divided = divided_budgets(given, self.graph, unit, name, self.divides_budgets)
        self.budgets = tuple(map(self._in_all, given, self.divided))
        if self.config.needs_features:
            self.features = given_features(self.graph, data, x)
        self.first_hop = (
            FirstHop(self.graph, self.features, folder) if self.config.is_first_hop_exact else None
        )
        self.history = self._make_history(widths)
        self.learning = Learning(
            self.graph, self.layers, self._make_learners(), type(self).__name__
        )
        self._scratch = threading.local()
        self._learnt_from: Observation | None = None  # of the last update

    def __getstate__(self) -> dict[str, Any]:
        """All but the scratch memory of threads, for copies and pickles."""
        return {name: value for name, value in self.__dict__.items() if name != "_scratch"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _scratch=threading.local())

    def _in_all(self, budget: int | dict[str, int], divided: IntArray | None) -> int:
        """Budget of a layer for all types together, or the largest fanout of a relation."""
        if divided is not None:
            return int(divided.max() if self.config.unit == "neighbours" else divided.sum())
        assert isinstance(budget, int)
        return self._all() if budget == -1 else budget

    def _all(self) -> int:
        """Budget that keeps everything."""
        if self.config.unit == "neighbours":
            return max(1, int(self.graph.degree.max(initial=1)))
        return max(1, self.graph.num_nodes)

    def _make_history(self, widths: Sequence[Any]) -> History | None:
        config = self.config
        if not isinstance(config, EstimatorConfig) or not config.has_history:
            return None
        declared = declared_widths(widths, self.depth, self.graph.types)
        sampled = declared[self.depth - self.layers :]
        folder = None if config.history_folder is None else Path(config.history_folder)
        return History(self.graph, sampled, config.history, config.history_type, folder)

    def _make_learners(self) -> tuple[Learner, ...]:
        """The parts that feedback changes; by default the history, if there is one."""
        return () if self.history is None else (self.history,)

    def __repr__(self) -> str:
        shown = {"budgets": list(self.budgets)} if self.budgets else {"layers": self.layers}
        listed = "".join(f", {k}={v!r}" for k, v in {**shown, **self.config.changed()}.items())
        return f"{type(self).__name__}({self.graph!r}{listed})"

    @property
    def depth(self) -> int:
        """Number of layers of the network, sampled or not; equal to the number of blocks."""
        return self.layers + (self.first_hop is not None)

    @property
    def makes_batches(self) -> bool:
        """Whether the sampler, not the loader, decides which seeds form a batch."""
        return self.config.makes_batches

    @property
    def learns(self) -> bool:
        """Whether feedback changes the state of the sampler."""
        return self.learning.learns

    @property
    def learns_from_surveys(self) -> bool:
        """Whether `survey` changes the state of the sampler."""
        return bool(self.learning.surveyed)

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

    def check_times(self) -> None:
        """Raise an error unless the sampler can draw from edges up to a time."""
        if not self.graph.has_times and self.graph.num_edges:
            raise InputError(
                "times were given for seeds, but the sampler's graph has none for its edges: build "
                f'the sampler with time_attr="time", as {type(self).__name__}(data, ..., '
                'time_attr="time").'
            )
        if reason := self.config.times_refused:
            raise InputError(
                f"times are not possible with {type(self).__name__}, because {reason}."
            )

    def sample(
        self, seeds: Any, step: int, shard: int = 0, without: Any = None, time: Any = None
    ) -> list[Block]:
        """Draw the blocks of a batch, input layer first.

        Parameters
        ----------
        seeds
            Seed nodes: distinct ids [B], or a mask [V]. With times, ids may be repeated.
        step
            Number of the step. The same step and shard give the same draw.
        shard
            Number of the batch within the step, if several batches make a step.
        without
            Ids of edges that no layer may see [H], such as the links that a batch predicts. The
            draw is that of the graph without these edges.
        time
            Time of each seed, int64[B]: nothing that it sees, in any layer, is later. A `Cutoff`
            can make it strict or give it a window. None: edges of any time.
        """
        targets: IntArray = checks.seeds(seeds, self.graph.num_nodes, distinct=time is None)
        cutoff = None
        if time is not None:
            self.check_times()
            cutoff = time if isinstance(time, Cutoff) else None
            cutoff = cutoff or Cutoff.of(check_times("time", time, targets.size, "seed"))
        step, shard = checks.whole("step", step), checks.whole("shard", shard)
        hidden = None if without is None else HiddenEdges.of(self.graph, without)
        blocks: list[Block] = []
        influence = NOTHING  # g_i^2 of the targets: 1 at the seeds
        for layer in reversed(range(self.layers)):  # output layer first
            rows = replace(self.graph.rows(targets, hidden, cutoff), influence=influence)
            block = self._layer(rows, layer, self._key(step, layer, shard))
            if cutoff is not None and block.cutoff is None:
                raise InputError(
                    f"{type(self).__name__} draws blocks without times: build its blocks with "
                    "KeptEdges, or leave the times out."
                )
            if layer and self.config.weighs_targets:
                influence = of_sources(block, influence, has_attention=self._has_attention(layer))
            blocks.append(self.history.attach(block, layer) if self.history else block)
            targets, cutoff = block.src.numpy(), block.cutoff
        if self.first_hop:
            blocks.append(self.first_hop.block(self.graph.rows(targets, hidden)))
        return blocks[::-1]

    def update(self, blocks: Sequence[Block], group: Any = None) -> None:
        """Learn from observed blocks; does nothing if the sampler does not learn.

        While a prefetching loader draws ahead, updates are queued until that draw is done, so that
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
        observation = blocks[-1].observation if blocks else None
        if observation is not None and observation is self._learnt_from:
            raise InputError(
                "update was called twice with the same blocks, and the sampler has already learnt "
                "from them: call it once per batch."
            )
        news = [self.digest(blocks)]
        if group is not None:
            packed = as_group(group).all_gather_bytes(pack_news(news))
            news = [shard for content in packed for shard in unpack_news(content)]
        self.apply(news)
        self._learnt_from = observation

    def survey(
        self, model: Iterable[Layer] | Layer, x: torch.Tensor, **options: Any
    ) -> torch.Tensor:
        """Infer all nodes from full neighbourhoods and learn from the pass; returns the outputs.

        The policy learns the exact input norms and attention of every layer. With a history, the
        inputs become the history of all nodes, and the policy learns nothing, because it follows
        changes. Like an update, a survey is queued while a prefetching loader draws ahead.

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
        """Outputs and update of a survey. The state does not change; pass [news] to `apply`.

        The update is empty if the sampler does not learn from surveys.
        """
        if not self.learns_from_surveys:
            return infer(model, self.graph, x, **options), []
        if (number := number_of_layers(model)) != self.depth:
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
        """Learn from the surveys of all layers of an earlier pass, input layer first."""
        self.apply([[self._digest_survey(survey) for survey in layers[self.depth - self.layers :]]])

    def _digest_survey(self, survey: LayerSurvey) -> News:
        inputs = survey.input
        if isinstance(inputs, Mapping):
            assert self.graph.types is not None
            shown = self.graph.types.padded({k: value.numpy() for k, value in inputs.items()})
        else:
            shown = inputs.numpy()
        return self.learning.digest_survey(Survey(survey.norm, survey.attention, shown))

    def digest(self, blocks: Sequence[Block]) -> list[News]:
        """Update from observed blocks, by layer, input layer first. The state does not change."""
        if len(blocks) != self.depth:
            raise InputError(
                f"{len(blocks)} blocks were given for {self.depth} layers: pass all blocks of a "
                "step, input layer first."
            )
        sampled = blocks[1:] if self.first_hop else blocks
        feedback = [block.feedback() for block in sampled]
        self._check(feedback)
        if self.history is not None:
            feedback = [_with_age(seen) for seen in feedback]
        return self.learning.digest(feedback)

    def apply(self, shards: Sequence[StepNews]) -> None:
        """Learn from the updates of one step, one entry per shard, in the order of shards.

        Samplers that apply the same updates in the same order have equal states.
        """
        self.learning.apply(shards)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """State needed to resume: the learnt arrays and the queued updates.

        As in torch, the learnt tensors share memory with the sampler. Copy them to keep them.
        """
        return self.learning.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the result of `state_dict`, for the same graph, settings and number of layers."""
        self.learning.load_state_dict(state)

    def _layer(self, rows: Rows, layer: int, key: CoinKey) -> Block:
        """Draw one layer from the edges that its targets may see, with the coins of `key`."""
        raise NotImplementedError(f"{type(self).__name__} implements neither _layer nor sample")

    def _has_attention(self, layer: int) -> bool:
        """Whether the network is known to learn the coefficients of this layer."""
        return False

    def _key(self, step: int, layer: int, shard: int = 0) -> CoinKey:
        """Key of a layer's coins: seed, step, layer and, except for the first one, shard.

        Coins of evaluations and measurements last for one step: their draws are independent.
        """
        lasting = self.config.lasting if step < Stream.EVALUATION else 1
        return coin_key(self.seed, step, layer, *((shard,) if shard else ()), lasting=lasting)

    def _check(self, feedback: Sequence[Feedback]) -> None:
        """Reject feedback that does not match the layers or the graph, before ids are used."""
        for below, above in pairwise(feedback):
            if below.dst.size != above.src.size:
                raise InputError(
                    f"blocks do not chain: one has {below.dst.size} targets where the next has "
                    f"{above.src.size} sources. Pass the blocks of one step, input layer first."
                )
        for seen in feedback:
            check_feedback(seen, self.graph)

    def _workspace(self) -> Workspace:
        if not hasattr(self._scratch, "workspace"):
            self._scratch.workspace = Workspace(self.graph)
        workspace: Workspace = self._scratch.workspace
        return workspace


def _with_age(feedback: Feedback) -> Feedback:
    """The feedback of a sampler with a history; age 0 if the block was drawn before the first."""
    if feedback.age is not None:
        return feedback
    return feedback._replace(age=np.zeros(feedback.src.size, np.int64))
