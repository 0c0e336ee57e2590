"""Inputs and outputs of learners as plain arrays: masses, feedback, surveys and updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from bliss.arrays import NOTHING, Array, FloatArray, IntArray
from bliss.errors import InputError
from bliss.graph import Graph, Rows
from bliss.kernels.bounds import first_fall, first_outside

SMALLEST_SIZE = 0.03
"""Norms below this share of the layer's mean are raised to it, so that a node whose input is 0,
because of dropout or missing features, stays reachable."""


ATTENTION_CODES_PER_UNIT = 16
"""Codes per unit of log attention: a rounding error of at most 3%."""
ATTENTION_TABLE: npt.NDArray[np.float32] = np.exp(
    (np.arange(256) - 255) / ATTENTION_CODES_PER_UNIT
).astype(np.float32)
"""Attention of each code of a survey: 1 for code 255, down to e^-15.9 = 1.2e-7 for code 0."""


class EdgeMass(NamedTuple):
    """Masses of the edges of G groups of `Rows`: c_ij = offset_g + slope_g value_ij.

    This form covers coefficients that are constant in a group (slope 0, `value` is not read), given
    edge weights, and a bandit's distribution, normalised on reading. If a table is given, `value`
    holds a code per edge, and value_ij is table[code_ij].
    """

    offset: FloatArray  # float64[G]
    slope: FloatArray  # float64[G]
    value: Array  # [E], or empty if every slope is 0; uint8[E] if there is a table
    table: FloatArray = NOTHING  # float32[256], or empty


class NodeCodes(NamedTuple):
    """One factor per node, stored as a byte: node j has table[code[j]]."""

    code: npt.NDArray[np.uint8]  # [V], or empty if every factor is 1
    table: npt.NDArray[np.float32]  # [256]


NO_CODES = NodeCodes(np.empty(0, np.uint8), np.empty(0, np.float32))


class Feedback(NamedTuple):
    """One observed layer as plain arrays, from which learners learn."""

    rows: Rows  # the edges that the targets could see
    src: IntArray  # [S] graph ids; the first D are the targets
    indptr: IntArray  # [G + 1] kept edges by group of rows
    row: IntArray  # [E'] position in src
    edge: IntArray  # [E'] graph edge id
    edge_prob: FloatArray  # [E'] probability that the edge was kept
    norm: FloatArray  # [S] |h_j|, norm of each source's input; |h_j - h~_j| with a history
    prob: FloatArray | None = None  # [S] inclusion probability p_j, if sources are drawn
    attention: FloatArray | None = None  # [E'] softmax over the kept edges, mean of heads
    message: FloatArray | None = None  # float32[E'] |W_r h_j|, if the layer has maps per relation
    input: FloatArray | None = None  # float32[S, F] h_j itself, if the sampler needs it
    watched: IntArray | None = None  # [N] kept edges whose errors were measured
    spread: FloatArray | None = None  # float32[N] squared errors of these edges
    age: IntArray | None = None  # [S] steps since h~_j was written, 0: never; if there is a history

    @property
    def dst(self) -> IntArray:
        """Graph ids of the targets. [D]."""
        return self.rows.dst

    @property
    def kept_degree(self) -> IntArray:
        """Number of kept edges of each group. [G]."""
        return np.diff(self.indptr)

    def coefficients(self) -> FloatArray:
        """alpha_ij of the kept edges, the graph's coefficients. float32[E']."""
        return self.rows.coefficients(self.src, self.indptr, self.row, self.edge)

    def squared_messages(self) -> tuple[FloatArray, FloatArray]:
        """Sums over the kept edges of each source. float64[S] each.

            sum_i alpha_ij^2 |W_r h_j|^2 and sum_i alpha_ij^2

        alpha_ij is the observed attention or, without attention, the graph's coefficient.
        """
        assert self.message is not None
        alpha = self.coefficients() if self.attention is None else self.attention
        weight, number = np.square(alpha, dtype=np.float64), self.src.size
        weighted = weight * np.square(self.message)
        sums = [np.bincount(self.row, one, number) for one in (weighted, weight)]
        return np.asarray(sums[0], np.float64), np.asarray(sums[1], np.float64)


class Survey(NamedTuple):
    """Exact quantities of one layer at all nodes, from a full pass of the network."""

    norm: FloatArray  # float32[V] |h_j|, norm of the layer's input; see `LayerSurvey`
    attention: npt.NDArray[np.uint8] | None = None  # [E] alpha_ij as codes of ATTENTION_TABLE
    input: Any = None  # float32[V, F] h_j itself, if a learner needs it; {type: [n_t, F_t]}


News: TypeAlias = Mapping[str, Array]
"""The part of one layer's feedback that learners apply, as named arrays: ids and their values.

Empty if there is nothing to learn. Processes exchange news, never state. Arrays of ids have fixed
names: `source` holds nodes, `dst` groups (`Rows.group_id`: nodes, if there are no types), `edge`
edges, and `indptr` points into `edge`. Other arrays
have one entry per edge, or per source if there are no edges; `log_size` and `log_score` are rounded
to half precision between processes. Arrays with a common prefix ("history.source") form a separate
group. The group "survey" covers the whole graph: `norm` float32[V] and, with attention, `attention`
uint8[E] or, with histories, `input` float32[V, F].
"""

LOGARITHMS = ("log_size", "log_score")
"""Arrays of updates that are sent to other processes in half precision."""

SURVEY = "survey."
"""Prefix of the update of a survey."""

_IDS = {"source": "nodes", "dst": "groups", "edge": "edges"}
_BY_EDGE = {"dst", "indptr", "edge"}


def check_feedback(feedback: Feedback, graph: Graph) -> None:
    """Reject ids and positions that would make a kernel read or write out of bounds."""
    limits = {
        "dst": graph.num_nodes,
        "src": graph.num_nodes,
        "edge": graph.num_edges,
        "row": feedback.src.size,
    }
    for name, limit in limits.items():
        _check_ids(name, getattr(feedback, name), limit)
    edges = feedback.edge.size
    _check_pointers(feedback.indptr, feedback.rows.degree.size, edges)
    sizes = {
        "row": edges,
        "edge_prob": edges,
        "attention": edges,
        "message": edges,
        "norm": feedback.src.size,
        "prob": feedback.src.size,
        "input": feedback.src.size,
        "age": feedback.src.size,
    }
    for name, size in sizes.items():
        array = getattr(feedback, name)
        if array is not None:
            _check_size(name, array, size)
    if feedback.watched is not None and feedback.spread is not None:
        _check_ids("watched", feedback.watched, edges)
        _check_size("spread", feedback.spread, feedback.watched.size)


def check_news(news: News, graph: Graph) -> None:
    """Reject ids and lengths that would make a kernel read or write out of bounds."""
    groups_of_graph = graph.group_ptr.size - 1
    limits = {"nodes": graph.num_nodes, "groups": groups_of_graph, "edges": graph.num_edges}
    groups: dict[str, dict[str, Array]] = {}
    for name, array in news.items():
        prefix, _, own = name.rpartition(".")
        groups.setdefault(prefix, {})[own] = array
        if own in _IDS:
            _check_ids(name, array, limits[_IDS[own]])
    guard = groups.pop("guard", {})
    if guard and (set(guard) != {"sums"} or guard["sums"].shape != (4,)):
        raise InputError(
            "the update of a guard must hold four sums: apply the result of a sampler's digest."
        )
    if "survey" in groups:
        _check_survey(groups.pop("survey"), graph)
    for group in groups.values():
        if _BY_EDGE & group.keys():
            missing = sorted(_BY_EDGE - group.keys())
            if missing:
                raise InputError(
                    f"the update of edges has no {' and no '.join(missing)}: apply the result of a "
                    "sampler's digest."
                )
            _check_pointers(group["indptr"], group["dst"].size, group["edge"].size)
        owner = group.get("edge", group.get("source"))
        if owner is not None:
            for name in group.keys() - _BY_EDGE:
                _check_size(name, group[name], owner.size)


def _check_survey(survey: Mapping[str, Array], graph: Graph) -> None:
    kinds = {"norm": (np.float32, graph.num_nodes), "attention": (np.uint8, graph.num_edges)}
    kinds["input"] = np.float32, graph.num_nodes
    for name, array in survey.items():
        kind, size = kinds.get(name, (array.dtype, -1))
        if array.dtype != kind or array.shape[:1] != (size,) or array.ndim != 1 + (name == "input"):
            raise InputError(
                f"the survey's {name} is {array.dtype}{list(array.shape)}, but this graph has "
                f"{graph.num_nodes} nodes and {graph.num_edges} edges: survey the graph that the "
                "sampler was built with."
            )
    norm = survey.get("norm")
    if norm is None or not np.isfinite(norm).all() or norm.min(initial=0.0) < 0:
        raise InputError(
            "the survey's norm is missing, negative or not finite: check the features, or lower "
            "the learning rate if the network diverged."
        )


def is_survey(news: News) -> bool:
    """Whether the update is that of a survey."""
    return f"{SURVEY}norm" in news


def survey_news(survey: Survey) -> News:
    """A survey as an update."""
    arrays = survey._asdict().items()
    return {f"{SURVEY}{name}": array for name, array in arrays if array is not None}


def survey_of(news: News) -> Survey:
    """The survey that an update holds."""
    return Survey(**{name.removeprefix(SURVEY): array for name, array in news.items()})


def _check_ids(name: str, ids: Array, limit: int) -> None:
    if ids.dtype.kind not in "iu" or ids.ndim != 1:
        raise InputError(
            f"a block's {name} is {ids.dtype} of shape {ids.shape}, but must be whole numbers [N]: "
            "update each sampler with the blocks that it drew."
        )
    place = first_outside(ids, limit)
    if place >= 0:
        raise InputError(
            f"a block's {name} holds {ids[place]}, which is not in [0, {limit}): update each "
            "sampler with the blocks that it drew."
        )


def _check_size(name: str, array: Array, size: int) -> None:
    entries = len(array) if array.ndim else 0
    if entries != size:
        raise InputError(
            f"a block's {name} has {entries} entries, but {size} are expected: update each sampler "
            "with the blocks that it drew."
        )


def _check_pointers(indptr: Array, targets: int, edges: int) -> None:
    fits = indptr.dtype.kind in "iu" and indptr.shape == (targets + 1,)
    if not fits or indptr[0] != 0 or indptr[-1] != edges or first_fall(indptr) >= 0:
        raise InputError(
            f"a block's indptr must run from 0 to its {edges} edges in {targets + 1} entries, "
            "without decreasing: update each sampler with the blocks that it drew."
        )


def joined(news: Sequence[News], name: str) -> Array:
    """Array `name` of all updates, concatenated in order; not copied if there is only one."""
    return news[0][name] if len(news) == 1 else np.concatenate([shard[name] for shard in news])


def encode_attention(attention: FloatArray) -> npt.NDArray[np.uint8]:
    """Attention as codes of ATTENTION_TABLE, rounded in logarithms. float[N] -> uint8[N]."""
    logs = np.log(np.maximum(attention, ATTENTION_TABLE[0]))
    codes = ATTENTION_CODES_PER_UNIT * logs + np.float32(255.5)
    return np.asarray(np.clip(codes, 0, 255), np.uint8)


def log_size(norm: FloatArray) -> FloatArray:
    """log|h_j|, with |h_j| at least SMALLEST_SIZE of the layer's mean. [S] -> float32[S]."""
    size = np.minimum(norm, np.float32(1e30))
    least = max(SMALLEST_SIZE * float(size.mean(dtype=np.float64)), 1e-30)
    return np.asarray(np.log(np.maximum(size, np.float32(least))))


def optional(array: FloatArray | None) -> FloatArray:
    """The array, or an empty array in place of None, for kernels."""
    return NOTHING if array is None else array
