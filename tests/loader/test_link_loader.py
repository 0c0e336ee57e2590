"""Batches of links: PyG's names, negatives, and blocks of the graph without the batch's links."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch_geometric import loader as pyg
from torch_geometric.data import Data
from torch_geometric.sampler import BaseSampler, NegativeSampling, SamplerOutput
from torch_geometric.sampler.neighbor_sampler import edge_sample

from bliss import PLADIES, Bliss, BlockLoader, ClusterGCN, Graph, InputError, LinkLoader
from bliss.samplers import SAMPLERS
from tests.build import make_sampler, small_features
from tests.conftest import heavy_tailed_pairs
from tests.samplers.test_hidden_edges import assert_same
from tests.statistics import weight_matrix

NODES, LINKS = 60, 50
ABSENT = "3 of 50 links checked are not edges"
pytestmark = pytest.mark.filterwarnings(f"ignore:{ABSENT}")


@pytest.fixture(scope="module")
def data() -> Data:
    """Edges in one or both directions, some of them parallel."""
    pairs = heavy_tailed_pairs(NODES, 200)
    pairs = np.concatenate([pairs, pairs[::-1, :80], pairs[:, :20]], axis=1)
    x = torch.from_numpy(small_features(Graph.from_edge_index(pairs, NODES)))
    return Data(x=x, edge_index=torch.from_numpy(pairs.copy()), num_nodes=NODES)


@pytest.fixture(scope="module")
def links(data) -> torch.Tensor:
    """Edges of the graph, and pairs that are none."""
    others = torch.tensor([[50, 58, 59], [59, 59, 50]])
    return torch.cat([data.edge_index[:, : LINKS - 3], others], dim=1)


def loader(data: Data, links: torch.Tensor, **options) -> LinkLoader:
    given = {"batch_size": 16, "neg_sampling": "binary", "shuffle": True}
    return LinkLoader(data, Bliss(data, [20, 10], seed=3), links, **given | options)


def ends(batch: Data) -> torch.Tensor:
    """Graph ids of the links of a batch. int64[2, ...]."""
    return batch.blocks[-1].dst[batch.edge_label_index]


class Ends(BaseSampler):
    """A sampler of PyG that draws the ends of links alone, without pyg-lib."""

    def sample_from_nodes(self, index, **options):
        raise NotImplementedError

    def sample_from_edges(self, index, neg_sampling=None):
        return edge_sample(index, self._sample, NODES, False, None, neg_sampling)

    def _sample(self, seed, seed_time=None) -> SamplerOutput:
        nothing = torch.empty(0, dtype=torch.long)
        return SamplerOutput(seed, nothing, nothing, nothing, None)


@pytest.mark.parametrize("neg_sampling", [None, "binary", NegativeSampling("triplet", 2)])
def test_batches_have_the_attributes_of_pygs_loader(data, links, neg_sampling):
    own = Data(**data.to_dict(), edge_label_index=links, edge_label=torch.zeros(LINKS))
    options = {"edge_label_index": links, "neg_sampling": neg_sampling, "batch_size": 16}
    theirs = pyg.LinkLoader(own, Ends(), **options)
    ours = LinkLoader(own, PLADIES(data, [20, 10]), **options)
    names = ["input_id", "src_index", "dst_pos_index", "dst_neg_index"]
    if neg_sampling is None or neg_sampling == "binary":
        names += ["edge_label_index", "edge_label"]
    for batch, like in zip(ours, theirs, strict=True):
        for name in names:
            one, other = getattr(batch, name, None), getattr(like, name, None)
            assert (one is None) == (other is None), name
            if one is not None:
                assert one.shape == other.shape, name
                assert one.dtype == other.dtype, name
        assert torch.equal(batch.x, data.x[batch.n_id])
        if neg_sampling is None:
            assert torch.equal(ends(batch), links[:, batch.input_id])
        elif neg_sampling == "binary":
            assert torch.equal(ends(batch)[:, : batch.input_id.numel()], links[:, batch.input_id])
            assert torch.equal(batch.edge_label, like.edge_label)
        else:
            seeds = batch.blocks[-1].dst
            pair = torch.stack([seeds[batch.src_index], seeds[batch.dst_pos_index]])
            assert torch.equal(pair, links[:, batch.input_id])
            assert "edge_label_index" not in batch
            alone = ours(batch.input_id[1:2])  # the same negatives, whatever the batch
            negative = alone.blocks[-1].dst[alone.dst_neg_index]
            assert torch.equal(seeds[batch.dst_neg_index[1:2]], negative)


def test_labels_that_begin_at_0_are_raised_where_negatives_have_the_label_0(data, links):
    label = torch.arange(LINKS) % 3
    with_negatives = next(iter(loader(data, links, edge_label=label, shuffle=False)))
    assert with_negatives.edge_label.tolist() == [*(label[:16] + 1).tolist(), *[0] * 16]
    without = next(iter(loader(data, links, edge_label=label, shuffle=False, neg_sampling=None)))
    assert without.edge_label.tolist() == label[:16].tolist()
    above = loader(data, links, edge_label=label + 5.0, shuffle=False)
    assert next(iter(above)).edge_label[:16].tolist() == (label[:16] + 5.0).tolist()


def test_negatives_are_no_known_links(data, links):
    further = torch.stack([torch.arange(NODES), torch.arange(NODES).roll(1)])
    known = {tuple(pair) for pair in torch.cat([data.edge_index, links, further], 1).T.tolist()}
    amount = 40
    sampling = {"mode": "binary", "amount": amount}
    for batch in loader(data, links, neg_sampling=sampling, known=further):
        drawn = ends(batch)[:, batch.input_id.numel() :].T.tolist()
        assert len(drawn) == amount * batch.input_id.numel()
        assert not known & {tuple(pair) for pair in drawn}
        assert all(source != target for source, target in drawn)


VARIANTS = {
    "pladies": {},
    "ladies": {"estimator": "hajek"},
    "bliss": {},
    "neighbor": {},
    "labor-1": {},
    "asgcn": {},
    "gcn-bs": {},
    "full": {},
    "vrgcn": {"layers": 3},
    "bliss/first-hop": {"first_hop": "exact", "layers": 3},
    "bliss/history": {"history": "nodes", "layers": 3},
}


CASES = [
    ("pladies", "mean", "self"),  # one suffices: the edges are found before a sampler is called
    *((name, "mean", "reverse") for name in VARIANTS),
    *((name, "gcn", "reverse") for name in ("bliss", "labor-1", "bliss/first-hop")),
]


@pytest.mark.parametrize(("name", "norm", "exclude"), CASES)
def test_blocks_are_those_of_the_graph_without_the_links(data, links, name, norm, exclude):
    graph = Graph.of(data, norm)
    settings = {"seed": 5, "width": 5, **VARIANTS[name]}
    sampler = make_sampler(name.split("/")[0], graph, **settings)
    batch = LinkLoader(data, sampler, links, batch_size=16, exclude=exclude)(np.arange(30, LINKS))
    asked = {tuple(pair) for pair in links[:, 30:].T.tolist()}
    if exclude == "reverse":
        asked |= {(target, source) for source, target in asked}
    pairs = graph.edge_index.T.tolist()
    left = np.flatnonzero([tuple(pair) not in asked for pair in pairs])
    assert graph.num_edges - left.size > (20 if exclude == "reverse" else 15)
    target = np.repeat(np.arange(NODES), graph.degree)[left]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=NODES))])
    built = Graph.from_csc(
        indptr, graph.indices[left], None, norm, self_loops="keep", duplicates="keep"
    )
    other = make_sampler(name.split("/")[0], built, **settings)
    theirs = other.sample(batch.blocks[-1].dst.numpy(), 0)
    assert_same(batch.blocks, theirs, left)
    last = batch.blocks[-1], theirs[-1]
    aggregates = [weight_matrix(block) @ data.x[block.src] for block in last]
    torch.testing.assert_close(*aggregates)
    seen = LinkLoader(data, sampler, links, batch_size=16, exclude="none")(np.arange(30, LINKS))
    with pytest.raises(AssertionError):  # the comparison would notice
        assert_same(seen.blocks, theirs, left)


@pytest.mark.parametrize("name", [n for n, c in SAMPLERS.items() if not c.makes_batches])
def test_no_sampler_sees_the_links(data, links, name):
    graph = Graph.of(data)
    sampler = make_sampler(name, graph, layers=3, width=5)
    pairs = graph.edge_index
    for batch in LinkLoader(data, sampler, links, batch_size=25, neg_sampling="binary", prefetch=1):
        asked = links[:, batch.input_id].T.tolist()
        hidden = {(u, v) for pair in asked for u, v in (pair, pair[::-1])}
        for block in batch.blocks:
            seen = {tuple(pair) for pair in pairs[:, block.edge].T.tolist()}
            assert not seen & hidden
            block.observe(torch.ones(block.num_src, 5))
        sampler.update(batch.blocks)


def auc_in_training(exclude: str) -> float:
    """AUC in the second epoch of a decoder that can read off an edge from its ends' aggregates."""
    from bliss.links import auc

    torch.manual_seed(0)
    nodes, width = 1000, 64
    pairs = torch.randint(nodes, (2, 2000))  # links are random: there is nothing to learn
    pairs = pairs[:, pairs[0] != pairs[1]]
    x = torch.randn(nodes, width) / width**0.5
    data = Data(x=x, edge_index=torch.cat([pairs, pairs.flip(0)], dim=1))
    sampler = Bliss(data, [600])
    loader = LinkLoader(
        data, sampler, pairs, neg_sampling="binary", exclude=exclude, batch_size=128, shuffle=True
    )
    decoder = torch.nn.Linear(3, 1)
    optimizer = torch.optim.Adam(decoder.parameters(), lr=0.05)
    scores: dict[bool, list[float]] = {True: [], False: []}
    for epoch in range(2):
        for batch in loader:
            (block,) = batch.blocks
            block.observe(batch.x)
            own, mean = batch.x[: block.num_dst], weight_matrix(block) @ batch.x
            (u, v), is_link = batch.edge_label_index, batch.edge_label > 0
            crossed = own[u] * mean[v] + mean[u] * own[v]
            products = torch.stack([own[u] * own[v], crossed, mean[u] * mean[v]]).sum(2)
            score = decoder(products.T).squeeze(1)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(score, batch.edge_label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sampler.update(batch.blocks)
            if epoch:
                scores[True] += score[is_link].tolist()
                scores[False] += score[~is_link].tolist()
    return auc(scores[True], scores[False])


def test_random_links_cannot_be_learnt_unless_they_leak():
    assert abs(auc_in_training("reverse") - 0.5) < 0.05  # over 3 standard errors, with some fit
    assert auc_in_training("none") > 0.9
    assert auc_in_training("self") > 0.8  # the reverse edges leak


def steps(loader: LinkLoader, epochs: int = 2) -> list[tuple]:
    """What each batch looked like, with a sampler that learns from it."""
    seen = []
    for _ in range(epochs):
        for batch in loader:
            for block in batch.blocks:
                block.observe(loader.data.x[block.src] ** 3)
            loader.node_sampler.update(batch.blocks)
            seen.append((batch.input_id.tolist(), ends(batch).tolist(), batch.n_id.tolist()))
    return seen


@pytest.mark.parametrize("prefetch", [0, 1])
def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(data, links, prefetch):
    whole = steps(loader(data, links, prefetch=prefetch))
    assert len(whole) == 2 * 4
    assert whole[0][1] != whole[4][1]
    first = loader(data, links, prefetch=prefetch)
    seen = []
    for batch in first:
        for block in batch.blocks:
            block.observe(data.x[block.src] ** 3)
        first.node_sampler.update(batch.blocks)
        seen.append((batch.input_id.tolist(), ends(batch).tolist(), batch.n_id.tolist()))
        if len(seen) == 3:
            break
    learnt = {k: v.clone() for k, v in first.node_sampler.state_dict().items()}
    second = loader(data, links, prefetch=prefetch)
    second.node_sampler.load_state_dict(learnt)
    second.load_state_dict(first.state_dict())
    assert seen + steps(second) == whole


def test_links_and_negatives_do_not_depend_on_the_number_of_shards(data, links):
    whole = list(loader(data, links, batch_size=24, drop_last=True))
    parts = [
        list(loader(data, links, batch_size=8, drop_last=True, shards=3, shard=shard))
        for shard in range(3)
    ]
    assert len(whole) == len(parts[0]) == 2
    for step, batch in enumerate(whole):
        pairs = {True: [], False: []}
        for shard in parts:
            is_link = shard[step].edge_label > 0
            for kind in pairs:
                pairs[kind] += ends(shard[step])[:, is_link == kind].T.tolist()
        assert pairs[True] + pairs[False] == ends(batch).T.tolist()


def test_all_edges_of_the_data_are_links_by_default(data):
    made = LinkLoader(data, PLADIES(data, [20]), batch_size=1000)
    (batch,) = made
    assert torch.equal(ends(batch), data.edge_index)
    assert repr(made).endswith(f"links={data.num_edges}, batch_size=1000)")


def test_rows_that_are_not_sorted_are_searched_too():
    graph = Graph.from_csc([0, 3, 3, 4], [2, 1, 2, 0], self_loops="keep")
    assert not graph.has_sorted_rows
    pair, edge = graph.edges_between(np.array([2, 1, 0, 0]), np.array([0, 0, 1, 2]))
    assert pair.tolist() == [0, 0, 1, 3]
    assert edge.tolist() == [0, 2, 1, 3]
    assert Graph.from_csc([0, 2], [0, 0], self_loops="keep").has_sorted_rows
    assert graph.with_norm("gcn").has_sorted_rows is False


BAD = {
    "edge_label_index holds 60, but the graph has 60": ({}, [[0, 1], [3, NODES]]),
    "edge_label_index holds -1, but node ids start": ({}, [[0, -1], [3, 4]]),
    r"edge_label_index has shape \(3, 2\), but must be \[2, P\]": ({}, [[0, 1], [3, 4], [5, 6]]),
    "edge_label_index has type float64, but node ids": ({}, [[0.5], [1]]),
    "edge_label_index has no links": ({}, torch.empty(2, 0, dtype=torch.long)),
    "exclude='both' is not known: choose one of reverse, self, none": ({"exclude": "both"}, None),
    r"edge_label has shape \(3,\) for 50 links": ({"edge_label": torch.ones(3)}, None),
    'edge_label has no effect with "triplet"': (
        {"edge_label": torch.ones(LINKS), "neg_sampling": "triplet"},
        None,
    ),
    "neg_sampling='ternary' is not known": ({"neg_sampling": "ternary"}, None),
    r'pass neg_sampling=\{"mode": "binary", "amount": 2.0\}': ({"neg_sampling_ratio": 2.0}, None),
    "known has no effect without negatives": ({"known": [[1], [2]], "neg_sampling": None}, None),
    r"known has shape \(2,\)": ({"known": [1, 2]}, None),
    "times were given for seeds": ({"edge_label_time": 3}, None),
    "shards=9 exceeds the 50 links in batches of 16": ({"shards": 9, "drop_last": True}, None),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_gets_one_sentence(data, links, message):
    options, given = BAD[message]
    with pytest.raises(InputError, match=message) as caught:
        loader(data, links if given is None else given, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("default")
def test_links_some_of_which_are_no_edges_are_told(data, links):
    """Those of another split are no edges at all; given labels may say that they are none."""
    with pytest.warns(UserWarning, match=ABSENT):
        loader(data, links)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader(data, links[:, :-3])
        loader(data, links[:, -3:])
        loader(data, data.edge_index.flip(0))
        loader(data, links, edge_label=torch.ones(LINKS), neg_sampling=None)


def test_samplers_that_choose_their_seeds_are_refused(data, links):
    with pytest.raises(InputError, match="ClusterGCN chooses the seeds of its batches"):
        LinkLoader(data, ClusterGCN(data, layers=2), links)
    with pytest.raises(InputError, match="data has no edge_index: pass the links"):
        LinkLoader(Data(x=data.x), PLADIES(data, [9]))
    with pytest.raises(InputError, match=r"edge_label_index is .* use bliss\.LinkLoader"):
        BlockLoader(data, PLADIES(data, [9]), edge_label_index=[[0], [1]])


def test_labels_with_a_row_per_edge_are_no_attribute_of_edges(data):
    own = Data(**data.to_dict(), edge_label=torch.ones(data.num_edges))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = next(iter(LinkLoader(own, PLADIES(Graph.of(data), [9]), batch_size=8)))
    assert "edge_label" not in batch
