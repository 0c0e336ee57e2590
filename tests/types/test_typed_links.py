"""Links of one relation: their edges and reverse edges are hidden, negatives have its types."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

import bliss
from bliss.errors import InputError
from bliss.graph import Graph
from tests.types.graphs import hetero

WRITES = ("author", "writes", "paper")


def loader(data: HeteroData, links: object = None, **options) -> bliss.LinkLoader:
    given = {"batch_size": 30, "neg_sampling": "binary", "shuffle": True} | options
    return bliss.LinkLoader(data, bliss.Full(data, layers=2), links or WRITES, **given)


def ids(batch: HeteroData, kind: str, places: torch.Tensor) -> torch.Tensor:
    """Ids within a type of rows of the output, which are the first rows of the batch."""
    return batch[kind].n_id[places]


def test_links_are_rows_of_the_output_of_each_type():
    data = hetero()
    every = data[WRITES].edge_index
    for batch in loader(data):
        own = batch[WRITES]
        source, target = own.edge_label_index
        pairs = torch.stack([ids(batch, "author", source), ids(batch, "paper", target)])
        number = own.input_id.numel()
        assert torch.equal(pairs[:, :number], every[:, own.input_id])
        assert own.edge_label.tolist() == [1] * number + [0] * number
        counts = batch.blocks[-1].num_dst_dict
        assert int(source.max()) < counts["author"]
        assert int(target.max()) < counts["paper"]
        assert counts["venue"] == 0


@pytest.mark.parametrize("exclude", ["reverse", "self", "none"])
def test_edges_of_the_batch_are_hidden_in_both_relations_and_in_no_other(exclude):
    """A pair that is also linked by another relation stays visible there."""
    data = hetero()
    reviews = data["author", "reviews", "paper"]
    reviews.edge_index = data[WRITES].edge_index[:, :40].clone()  # the same pairs
    reviews.edge_attr = torch.ones(40, 2)
    batch = next(iter(loader(data, exclude=exclude, shuffle=False)))
    own = batch[WRITES]
    pairs = {tuple(pair) for pair in data[WRITES].edge_index[:, own.input_id].T.tolist()}
    for block in batch.blocks:
        nodes = block.split(block.src)
        for edge_type, place in block.edge_index_dict.items():
            first = {"author": 0, "paper": 40, "venue": 100}
            ends = [nodes[edge_type[side]] - first[edge_type[side]] for side in (0, 2)]
            seen = set(zip(ends[0][place[0]].tolist(), ends[1][place[1]].tolist(), strict=True))
            flipped = {(target, source) for source, target in pairs}
            if edge_type == WRITES and exclude != "none":
                assert not seen & pairs
            if edge_type[1] == "rev_writes" and exclude == "reverse":
                assert not seen & flipped
            if edge_type[1] == "reviews":
                assert seen & pairs
            if edge_type[1] == "rev_writes" and exclude == "self" and block is batch.blocks[0]:
                assert seen & flipped


def test_negatives_are_no_edges_of_the_relation_and_may_be_edges_of_another():
    data = HeteroData()
    data["a"].num_nodes, data["b"].num_nodes, data["c"].num_nodes = 3, 4, 50
    data["a", "to", "b"].edge_index = torch.tensor([[0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1]])
    data["a", "also", "b"].edge_index = torch.tensor([[0, 1, 2], [2, 2, 2]])
    data["b", "on", "c"].edge_index = torch.tensor([[0], [0]])
    drawn = set()
    sampler = bliss.Full(data, layers=1)
    links = bliss.LinkLoader(data, sampler, "to", neg_sampling="binary", batch_size=6)
    for _ in range(40):
        (batch,) = links
        source, target = batch["a", "to", "b"].edge_label_index[:, 6:]
        drawn |= set(
            zip(
                ids(batch, "a", source).tolist(),
                ids(batch, "b", target).tolist(),
                strict=True,
            )
        )
    assert drawn == {(source, target) for source in range(3) for target in (2, 3)}


def test_triplets_and_weights_are_those_of_types():
    data = hetero()
    weight = np.zeros(60)
    weight[7:9] = 1
    options = {"mode": "triplet", "amount": 2, "dst_weight": weight}
    batch = next(iter(loader(data, neg_sampling=options)))
    negative = ids(batch, "paper", batch["paper"].dst_neg_index)
    assert negative.shape == (30, 2)
    assert set(negative.unique().tolist()) <= {7, 8}
    every = data[WRITES].edge_index[:, batch[WRITES].input_id]
    assert torch.equal(ids(batch, "author", batch["author"].src_index), every[0])
    assert torch.equal(ids(batch, "paper", batch["paper"].dst_pos_index), every[1])


def test_a_reverse_relation_with_another_name_must_be_named():
    data = hetero()
    back = data["paper", "rev_writes", "author"].edge_index
    del data["paper", "rev_writes", "author"]
    data["paper", "written_by", "author"].edge_index = back
    with pytest.raises(InputError, match=r"most links of .* are edges of .*written_by"):
        loader(data)
    for given in ("written_by", {WRITES: ("paper", "written_by", "author")}):
        batch = next(iter(loader(data, rev_edge_types=given)))
        seen = batch.blocks[-1].relations["paper", "written_by", "author"]
        graph, hidden = Graph.of(data), batch[WRITES].input_id
        target, source = data[WRITES].edge_index[:, hidden] + torch.tensor([[0], [40]])
        found = set(zip(seen.src[seen.row].tolist(), seen.dst[seen.col].tolist(), strict=True))
        assert not found & set(zip(source.tolist(), target.tolist(), strict=True))
        assert graph.types is not None
    loader(data, exclude="self")


@pytest.mark.parametrize("form", ["relation", "dictionary"])
def test_a_relation_between_other_types_is_not_the_reverse(form):
    given = ("venue", "publishes", "paper")
    with pytest.raises(InputError, match="does not lead from paper to author, as the reverse of"):
        loader(hetero(), rev_edge_types=given if form == "relation" else {WRITES: given})


def test_bad_links_get_one_sentence():
    data = hetero()
    with pytest.raises(InputError, match="edge_label_index must name a relation"):
        loader(data, data[WRITES].edge_index.numpy().tolist())
    with pytest.raises(InputError, match="'edits' is not a type of edges"):
        loader(data, ("edits", None))
    with pytest.raises(InputError, match=r"edge_label_index \(author\) holds 40"):
        loader(data, (WRITES, torch.tensor([[40], [0]])))
    with pytest.raises(InputError, match=r"dst_weight has shape \(5,\), but its type has 60"):
        loader(data, neg_sampling={"mode": "binary", "dst_weight": np.ones(5)})
