"""`node`: one arm for size and one for attention per node and layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bliss.arrays import NOTHING, FloatArray, IntArray
from bliss.feedback import (
    ATTENTION_TABLE,
    NO_CODES,
    EdgeMass,
    Feedback,
    News,
    NodeCodes,
    Survey,
    log_size,
)
from bliss.graph import Graph, Rows
from bliss.kernels import node_bandit as kernels
from bliss.policies.ages import AgeCurve
from bliss.policies.base import CoefficientPolicy
from bliss.policies.configs import NodeConfig
from bliss.policies.estimates import RunningEstimates
from bliss.policies.guard import Guard
from bliss.policies.learner import RowSets, State
from bliss.policies.surveyed import Codes, Surveyed
from bliss.storage.memory import full

_DECODED = ((np.arange(256) - kernels.CODE_OF_ONE) / kernels.CODES_PER_UNIT).astype(np.float32)
_SMALLEST_SUM = 1e-30  # for a target without in-edges
FIT_ROUNDS = 20
"""Rounds of the fit of scores to surveyed attention. On Physics, V was 1% lower after 30 than after
10 rounds."""


class NodeBandit(CoefficientPolicy):
    """s_j = f_j sqrt(sum_i alpha_ij^2), with f_j the learnt size of source j's message.

    The best masses are |h_j| sqrt(sum_i alpha_ij^2). Without attention the second factor is known.
    The first is shared by all edges out of j and is observed exactly whenever j is kept:

        f_j = (1 - eta) exp(estimate of log|h_j|) + eta

    `RunningEstimates` follows log|h_j| relative to the layer and shrinks it; f_j is 1 for unseen
    nodes. Attention is modelled as one score per node, normalised for each target:

        alpha_ij = a_j / sum_{k in N_i} a_k,
        s_j      = f_j sqrt(sum_i 1 / (sum_{k in N_i} a_k)^2),
        f_j      = (1 - eta) exp(estimate of log|h_j| + estimate of log a_j) + eta

    log a_j is followed and shrunk in the same way; its observation is the log attention minus the
    target's mean (`kernels.node_bandit.source_scores`). The part of attention that depends on the
    target comes from the normalisation, not from learning.

    With a map W_r per relation, the message of j is W_r h_j, and |h_j| is replaced by

        s_j = sqrt(sum_i alpha_ij^2 |W_r h_j|^2 / sum_i alpha_ij^2)

    over the kept edges of j; a target without kept out-edges is not observed.

    With histories (`bliss.samplers.history`), |h_j - h~_j| takes the place of |h_j|. It depends on
    the age of the history, so log|h_j - h~_j| is followed relative to its mean at that age
    (`AgeCurve`), and f_j is multiplied by the curve at the present age.

    A survey gives log|h_j| and alpha_ij of all nodes and edges as they are at that step. From then
    on `RunningEstimates` follow the deviations from the surveyed values, which start at 0:

        estimate of log|h_j| = surveyed log|h_j| + estimate of the deviation

    Deviations are shrunk by their measured variances like other signals: strongly at first, when
    they are noise, and less if the network has changed. Attention is kept in one of two forms:

    * survey_attention="edge": base_ij = surveyed alpha_ij, and a_j is the deviation of node j,

          alpha_ij = (1 - eta) base_ij a_j / sum_{k in N_i} base_ik a_k + eta a_j / |N_i|

    * survey_attention="node": a_j starts at the score fitted to all surveyed alpha_ij
      (`kernels.node_bandit.fit_scores`).

    Without attention and histories, a `Guard` returns a layer to the masses of `static` (f_j = 1)
    while learnt ones have the larger error.

    Cost: with attention, one more pass over the frontier's edges that reads a byte each, or two
    with "edge". State: 18 bytes per node and layer, of which the 8 of scores are not touched
    without attention. log f_j and log a_j are stored as a byte each, because a draw reads them for
    every candidate and edge. Surveyed values are a byte each: one per node and layer and, with
    attention, one more per edge or node.
    """

    name = "node"
    shares_state = True
    learns = True
    learns_from_surveys = True
    watches_errors = True
    power = 0.5

    def __init__(self, graph: Graph, layers: int, config: NodeConfig | None = None) -> None:
        super().__init__(graph, layers)
        self.config = config = config or NodeConfig()
        nodes = graph.num_nodes
        self._size = RunningEstimates(nodes, layers, config.memory)
        self._score = RunningEstimates(nodes, layers, config.memory)
        self._ages = AgeCurve(layers, config.memory)
        self._guard = Guard(layers)
        self._code, self._score_code = (
            [full(nodes, kernels.CODE_OF_ONE, np.uint8) for _ in range(layers)] for _ in range(2)
        )
        by_edge = config.survey_attention == "edge"
        kept = {"attention": graph.num_edges} if by_edge else {"score": nodes}
        self._surveyed = Surveyed("node", layers, {"size": nodes} | kept)
        factor = (1 - config.eta) * np.exp(_DECODED) + config.eta
        self._table = np.square(factor).astype(np.float32)

    def edge_mass(self, layer: int, rows: Rows) -> EdgeMass:
        """alpha_ij without a_j: base_ij over the sum of base_ik a_k, with base_ij 1 if unknown."""
        if not self.has_attention(layer):
            return super().edge_mass(layer, rows)
        base = self._surveyed.get(layer, "attention")
        scores = self._score_code[layer], np.exp(_DECODED)
        edges = *rows.ranges, self.graph.indices
        sums = kernels.coded_sums(*edges, *scores, base, ATTENTION_TABLE)
        share = 1 / np.maximum(sums, _SMALLEST_SUM)
        if not base.size:
            return EdgeMass(share, np.zeros(share.size), NOTHING)
        eta = self.config.eta
        rest = eta / np.maximum(rows.degree, 1)
        return EdgeMass(rest, (1 - eta) * share, base, ATTENTION_TABLE)

    def source_power(self, layer: int) -> float:
        """Power of b_j as for fixed coefficients; 0 with attention."""
        return 0.0 if self.has_attention(layer) else super().source_power(layer)

    def node_codes(self, layer: int) -> NodeCodes:
        """f_j^2, because the mass takes the root; none while the guard prefers static masses."""
        if self._is_static(layer):
            return NO_CODES
        return NodeCodes(self._code[layer], self._table)

    def age_factor(self, layer: int) -> FloatArray:
        """The mean change of an input by the age of its history."""
        return self._ages.factor(layer)

    def digest(self, layer: int, feedback: Feedback) -> News:
        """Sources, log|h_j| and, with attention, scores; empty for an all-zero layer.

        Scores are relative to the surveyed attention.
        """
        size, place = _observed(feedback)
        if not size.any():
            return {}
        news = {"source": feedback.src[place], "log_size": log_size(size)}
        if feedback.age is not None:
            news["age"] = feedback.age[place]
        if feedback.spread is not None and not self.has_attention(layer):
            news["guard.sums"] = self._guard_sums(layer, feedback)
        if feedback.attention is not None:
            attention, source = feedback.attention, feedback.src
            score = _DECODED[self._score_code[layer][source]] - self._base(layer, "score", source)
            base = self._surveyed.get(layer, "attention")
            if base.size:
                attention = attention / ATTENTION_TABLE[base[feedback.edge]]
            elif self._surveyed.get(layer, "score").size:
                attention = attention / np.exp(self._base(layer, "score", source))[feedback.row]
            scores = kernels.source_scores(feedback.indptr, feedback.row, attention, score)
            news["log_score"] = scores[place]
        return news

    def _guard_sums(self, layer: int, feedback: Feedback) -> FloatArray:
        edge, spread, rows = feedback.watched, feedback.spread, feedback.rows
        assert edge is not None and spread is not None  # measured together
        assert feedback.prob is not None  # blocks without probabilities measure no errors
        row = feedback.row[edge]
        if rows.influence.size:
            target = rows.owner[np.searchsorted(feedback.indptr, edge, "right") - 1]
            spread = spread * rows.influence[target]
        factor = np.sqrt(self._table[self._code[layer][feedback.src]])
        drawn = np.ones_like(factor) if self._is_static(layer) else factor
        return self._guard.sums(factor, drawn, feedback.prob < 1, row, spread)

    def _is_static(self, layer: int) -> bool:
        """Whether the layer has the masses of `static`, because learnt ones were worse."""
        return self._guard.prefers_static(layer) and not self.has_attention(layer)

    def apply(self, layer: int, news: Sequence[News]) -> None:
        """Move the estimates of the observed nodes."""
        shards = [shard for shard in news if shard]
        if not shards:
            return
        if watched := [shard["guard.sums"] for shard in shards if "guard.sums" in shard]:
            self._guard.follow(layer, watched)
        self._apply_scores(layer, [shard for shard in shards if "log_score" in shard])
        sources = [shard["source"] for shard in shards]
        bases = [self._base(layer, "size", source) for source in sources]
        signals = [shard["log_size"] - base for shard, base in zip(shards, bases, strict=True)]
        if "age" in shards[0]:
            signals = self._ages.follow(layer, [shard["age"] for shard in shards], signals)
        sizes = self._size.follow(layer, sources, signals)
        for source, base, logarithm in zip(sources, bases, sizes, strict=True):
            logarithm += base
            if self.has_attention(layer):  # learnt in this step or before
                logarithm += _DECODED[self._score_code[layer][source]]
            kernels.encode(source, logarithm, self._code[layer])

    def _apply_scores(self, layer: int, news: Sequence[News]) -> None:
        """Move the scores of the sources whose score was observed (not NaN)."""
        sources, scores = [], []
        for shard in news:
            is_observed = ~np.isnan(shard["log_score"])
            if is_observed.any():
                sources.append(shard["source"][is_observed])
                scores.append(shard["log_score"][is_observed])
        if not sources:
            return
        estimates = self._score.follow(layer, sources, scores)
        for source, logarithm in zip(sources, estimates, strict=True):
            logarithm += self._base(layer, "score", source)
            kernels.encode(source, logarithm, self._score_code[layer])

    def changed_rows(self, layer: int, news: Sequence[News]) -> RowSets:
        """The observed sources."""
        shards = [shard for shard in news if shard]
        if not shards:
            return {}
        source = np.concatenate([shard["source"] for shard in shards])
        rows: RowSets = {(f"node.size.{layer}.arm", f"node.{layer}.code"): source}
        if "log_score" in shards[0]:
            rows[(f"node.score.{layer}.arm", f"node.{layer}.score_code")] = source
        return rows

    def survey(self, layer: int, survey: Survey) -> None:
        """Set all sizes and scores to the surveyed values; ignores an all-zero layer."""
        norm, attention = survey.norm, survey.attention
        if not norm.any():
            return
        size = log_size(norm)
        self._code[layer][:] = self._surveyed.put(layer, "size", _encoded(size - size.mean()))
        self._size.restart(layer)
        if attention is not None:
            self._score.restart(layer)
            if self.config.survey_attention == "edge":
                self._surveyed.put(layer, "attention", attention)
                self._score_code[layer][:] = kernels.CODE_OF_ONE
            else:
                score = self._fitted(attention)
                self._score_code[layer][:] = self._surveyed.put(layer, "score", _encoded(score))
        if self.has_attention(layer):
            logarithm = size - size.mean() + _DECODED[self._score_code[layer]]
            self._code[layer][:] = _encoded(logarithm)

    def _fitted(self, attention: Codes) -> FloatArray:
        """log a_j fitted to surveyed attention, with mean 0. float64[V]."""
        graph = self.graph
        edges = graph.group_ptr, graph.indices, graph.num_nodes
        score = np.log(kernels.fit_scores(*edges, attention, ATTENTION_TABLE, FIT_ROUNDS))
        return np.asarray(score - score.mean())

    def _base(self, layer: int, kind: str, source: IntArray) -> FloatArray:
        """Surveyed logarithms of some nodes; 0 if there was no survey. float32[S]."""
        code = self._surveyed.get(layer, kind)
        return _DECODED[code[source]] if code.size else np.zeros(source.size, np.float32)

    def state_dict(self) -> State:
        """Size and score estimates, the codes of both, and the surveyed values."""
        state = self._size.state_dict("node.size") | self._score.state_dict("node.score")
        state |= self._ages.state_dict("node.age") | self._guard.state_dict("node.guard")
        for layer in range(self.layers):
            state[f"node.{layer}.code"] = self._code[layer]
            state[f"node.{layer}.score_code"] = self._score_code[layer]
        return state | self._surveyed.state_dict()

    def check_state(self, state: Mapping[str, object]) -> None:
        """Raise an error for a state of other settings; it may have surveyed values or not."""
        before = set(self._surveyed.state_dict())
        self._surveyed.expect(state)
        try:
            super().check_state(state)
        finally:
            self._surveyed.expect(before)

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Load a saved state; surveyed values are allocated if it has them."""
        self.check_state(state)
        self._surveyed.expect(state)
        super().load_state_dict(state)

    def has_attention(self, layer: int) -> bool:
        """Whether attention was observed or surveyed in this layer."""
        kinds = ("attention", "score")
        is_surveyed = any(self._surveyed.get(layer, kind).size for kind in kinds)
        return is_surveyed or bool(self._score.steps[layer])


def _observed(feedback: Feedback) -> tuple[FloatArray, IntArray | slice]:
    """Sizes of the observed sources, float32[N], and their positions."""
    if feedback.message is None:
        return feedback.norm, slice(None)
    squares, weight = feedback.squared_messages()
    place = np.flatnonzero(weight)
    return np.sqrt(squares[place] / weight[place]).astype(np.float32), place


def _encoded(logarithm: FloatArray) -> Codes:
    """One logarithm per node as bytes. float[V] -> uint8[V]."""
    code = np.empty(logarithm.size, np.uint8)
    kernels.encode(np.arange(logarithm.size), logarithm.astype(np.float64), code)
    return code
