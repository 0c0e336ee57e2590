"""`LinkLoader`: batches of links, whose edges the batch does not see."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bliss.errors import InputError
from bliss.graph.cutoff import times_of
from bliss.graph.stores import is_store_pair, stored_pairs
from bliss.loader.edge_seeds import EdgeSeeds
from bliss.loader.seed_loader import SeedLoader
from bliss.loader.seed_times import SeedTimes
from bliss.loader.typed_links import typed_links
from bliss.samplers.base import Sampler

if TYPE_CHECKING:
    from torch_geometric.data import Data


_LOOKED_AT = 1000  # links, spread evenly, that are looked up at the beginning


class LinkLoader(SeedLoader):
    """Batches of links of a PyG `Data`, each with the blocks of a sampler.

    The seeds of a batch are links: pairs (source, target) and, on request, negatives. The edges of
    these links and their reverse edges are hidden from all layers of the batch: blocks, degrees and
    coefficients are those of the graph without them. A link need not be an edge of the graph; if
    some are and others are not, and there are no labels, there is a warning.

    A batch has the attributes that `BlockLoader` describes, where the seeds are the distinct ends
    of links and negatives, and ``batch_size`` is their number; and

    * ``input_id`` [B]: positions in `edge_label_index`
    * without negatives or with "binary": ``edge_label_index`` [2, B + N], rows of the network's
      output, the links first; and ``edge_label`` [B + N], 0 for negatives. Labels default to 1
      where negatives are drawn; given labels that begin at 0 are then raised by 1
    * with "triplet": ``src_index`` [B], ``dst_pos_index`` [B] and ``dst_neg_index`` [B], or
      [B, amount] for more than one negative per link

    Negatives are neither edges of the graph, nor links of this loader, nor pairs of `known`. With
    timestamps, they are neither edges up to the link's timestamp nor pairs of `known`; a negative
    may become a link later. They depend on seed, epoch and link alone; see
    `bliss.links.Negatives`. To evaluate on fixed negatives, pass them in `edge_label_index`
    with the label 0.

    In a `HeteroData`, links are of one relation, and negatives have ends of its types. The relation
    of the batch has ``edge_label_index``, ``edge_label`` and ``input_id``, or the types of its ends
    have ``src_index``, ``dst_pos_index`` and ``dst_neg_index``: rows of the output of these types.

    Parameters
    ----------
    data
        The PyG data whose attributes are batched; edges come from the sampler's graph.
    node_sampler
        A layer-wise or node-wise sampler, such as `bliss.Bliss`.
    edge_label_index
        Links [2, P], sources over targets; None: all edges of `data.edge_index`. With types, a pair
        of relation and links, such as (("user", "buys", "item"), links); without links, all edges
        of the relation.
    edge_label
        Labels [P, ...]; None: none, or 1 where negatives are drawn.
    neg_sampling
        "binary", "triplet", a dict or a `NegativeSampling`, ours or PyG's; None: no negatives.
    edge_label_time
        Timestamp of each link [P], whole numbers. For both ends of a link and for its negatives,
        every layer uses only earlier edges. The sampler's graph needs timestamps: build it with
        time_attr. A batch then has ``edge_label_time`` [B + N], or ``seed_time`` [B] for
        "triplet".
    time_attr
        Attribute of the data with the timestamps of edges, the default of edge_label_time if the
        links are all edges.
    time_strict
        Whether the ends of a link use only edges earlier than it (the default), which leaves out
        the link's own edge.
    time_window
        How far back in time they see, in units of the timestamps; None: everything.
    exclude
        Edges hidden from a batch: "reverse" for its links and their reverse, "self" for its links
        only, or "none". With "none", a network can infer a link from its own edge. Default:
        "reverse"; with strict timestamps "none", because they already hide the links and their
        reverse, and earlier edges between the same nodes may be used.
    rev_edge_types
        With types: the reverse relation, or a dictionary from relations to their reverse; None: by
        its name, "rev_buys" of "buys".
    known
        Further pairs [2, K] that are never drawn as negatives, such as links of other splits.
    options
        Options of `BlockLoader`: batch_size, shuffle, drop_last, transform, prefetch, shards, ....
    """

    seeds: EdgeSeeds
    _warns_of_absent: ClassVar[bool] = True
    _skipped: ClassVar[frozenset[str]] = SeedLoader._skipped | {
        "edge_label_index",
        "edge_label",
        "edge_label_time",
    }

    def __init__(
        self,
        data: Data,
        node_sampler: Sampler,
        edge_label_index: Any = None,
        edge_label: Any = None,
        *,
        neg_sampling: Any = None,
        neg_sampling_ratio: float | None = None,
        edge_label_time: Any = None,
        time_attr: str | None = None,
        time_strict: bool = True,
        time_window: int | None = None,
        exclude: str | None = None,
        rev_edge_types: Any = None,
        known: Any = None,
        **options: Any,
    ) -> None:
        if neg_sampling_ratio:
            raise InputError(
                f"neg_sampling_ratio={neg_sampling_ratio!r} is not an option of LinkLoader: pass "
                f'neg_sampling={{"mode": "binary", "amount": {neg_sampling_ratio!r}}}.'
            )

        def make_seeds() -> EdgeSeeds:
            if node_sampler.makes_batches:
                raise InputError(
                    f"{type(node_sampler).__name__} chooses the seeds of its batches, but here "
                    "they are links: use a layer-wise or node-wise sampler, such as bliss.Bliss."
                )
            typed, store = None, data
            if node_sampler.graph.types is not None:
                given = node_sampler.graph, data, edge_label_index, rev_edge_types
                typed, links = typed_links(*given)
                store = None if is_store_pair(data) else data[typed.edge_type]
            elif edge_label_index is not None:
                links = edge_label_index
            else:
                links = stored_pairs(data[1]) if is_store_pair(data) else data.edge_index
            if links is None:
                raise InputError("data has no edge_index: pass the links as edge_label_index.")
            time = edge_label_time
            is_all = links is getattr(store, "edge_index", None)
            if time is None and time_attr is not None and is_all:
                time = times_of(store, time_attr)
            size = int(np.shape(links)[-1]) if np.ndim(links) == 2 else 0
            rule = time, size, node_sampler, time_strict, time_window
            times = SeedTimes.of("edge_label_time", *rule)
            if times is None and time_attr is not None:
                raise InputError(
                    f"time_attr={time_attr!r} has no effect on links that are given, whose times "
                    "it does not hold: pass edge_label_time, one time per link."
                )
            negatives = {"neg_sampling": neg_sampling, "known": known, "seed": node_sampler.seed}
            hidden = exclude or ("none" if times is not None and times.strict else "reverse")
            settings = {"exclude": hidden, "times": times, "typed": typed, **negatives}
            seeds = EdgeSeeds.of(node_sampler.graph, links, edge_label, **settings)
            if typed is not None and hidden == "reverse":
                typed.check_reverse(*seeds.edge_label_index)
            return seeds

        super().__init__(data, node_sampler, make_seeds, **options)
        if edge_label is None and self._warns_of_absent:
            self._warn_of_absent()

    def _warn_of_absent(self) -> None:
        """Warn if some links are edges and others are not, which may be a mistake."""
        pairs, graph = self.seeds.edge_label_index, self.seeds.graph
        number = min(pairs.shape[1], _LOOKED_AT)
        source, target = pairs[:, np.arange(number) * pairs.shape[1] // number]
        ends = np.concatenate([source, target]), np.concatenate([target, source])
        present = np.unique(graph.edges_between(*ends)[0] % number).size
        if 0 < present < number:
            warnings.warn(
                f"{number - present} of {number} links checked are not edges of the sampler's "
                "graph, in either direction: they are trained on but pass no messages. Add them to "
                "the graph, or ignore this if they should stay hidden.",
                stacklevel=3,
            )
