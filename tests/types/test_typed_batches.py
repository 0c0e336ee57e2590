"""Batches of a `HeteroData` as a user of PyG sees them: names, types, seeds, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import bliss
from bliss.errors import InputError
from tests.types.graphs import RELATIONS, SIZES, hetero

DATA = hetero()
PAPERS = torch.tensor([7, 3, 41, 12])


def batch_of(nodes, budgets=(20, 10), **options):
    sampler = bliss.PLADIES(DATA, budgets, **options)
    return next(iter(bliss.BlockLoader(DATA, sampler, nodes, batch_size=4)))


def test_names_and_rows_are_those_of_pyg():
    batch = batch_of(("paper", PAPERS))
    assert batch.metadata() == DATA.metadata()
    of_all = {"x", "n_id", "num_nodes"}
    names = {kind: set(batch[kind].keys()) for kind in batch.node_types}
    own = {"y", "train_mask", "input_id", "batch_size"}
    assert names == {"author": of_all, "paper": of_all | own, "venue": of_all}
    for name in SIZES:
        ids = batch[name].n_id
        assert batch[name].num_nodes == ids.numel() == ids.unique().numel()
        torch.testing.assert_close(batch[name].x, DATA[name].x[ids])
    paper = batch["paper"]
    assert paper.batch_size == 4
    torch.testing.assert_close(paper.n_id[:4], PAPERS)
    torch.testing.assert_close(paper.y, DATA["paper"].y[PAPERS])  # of the outputs
    torch.testing.assert_close(paper.train_mask, DATA["paper"].train_mask[paper.n_id])
    pairs = batch.blocks[0].edge_index_dict
    for one in DATA.edge_types:
        assert set(batch[one].keys()) == {"e_id"} | ({"edge_attr"} if one in RELATIONS else set())
        ids = batch[one].e_id[0]
        ends = [batch[name].n_id[end] for name, end in zip(one[::2], pairs[one], strict=True)]
        torch.testing.assert_close(torch.stack(ends), DATA[one].edge_index[:, ids])
        if one in RELATIONS:
            torch.testing.assert_close(batch[one].edge_attr[0], DATA[one].edge_attr[ids])


@pytest.mark.filterwarnings("ignore:edge_attr is left out of batches:UserWarning")
def test_without_edge_ids_relations_keep_their_names():
    batch = batch_of(("paper", PAPERS), edge_ids=False)
    assert batch.metadata() == DATA.metadata()
    assert batch["cites"] is batch["paper", "cites", "paper"] is batch["paper", "paper"]
    assert len(batch["cites"]) == 0


def test_a_type_that_is_not_reached_has_no_rows():
    batch = batch_of(("author", torch.arange(4)), [10])
    assert batch["venue"].num_nodes == batch["venue"].n_id.numel() == 0
    assert batch["venue"].x.shape == (0, 3)
    assert "batch_size" not in batch["paper"]
    assert "input_id" in batch["author"]


GIVEN = {
    "mask": (DATA["paper"].train_mask, torch.tensor([0, 3, 6, 9]), torch.tensor([0, 3, 6, 9])),
    "ids": (PAPERS, PAPERS, torch.arange(4)),
    "none": (None, torch.arange(4), torch.arange(4)),
}


@pytest.mark.parametrize("case", GIVEN)
def test_seeds_of_a_type(case):
    """A mask is numbered by nodes, other seeds by position, as in PyG."""
    nodes, expected, number = GIVEN[case]
    paper = batch_of(("paper", nodes))["paper"]
    torch.testing.assert_close(paper.n_id[:4], expected)
    torch.testing.assert_close(paper.input_id, number)
    if nodes is None:
        torch.testing.assert_close(batch_of("paper")["paper"].n_id, paper.n_id)


BAD = {
    "none": (None, r"input_nodes is a NoneType, but must name a type .* pass for instance"),
    "bare mask": (DATA["paper"].train_mask, "input_nodes is a Tensor, but must name a type"),
    "bare ids": (np.arange(3), "input_nodes is a ndarray, but must name a type"),
    "unknown type": ("editor", "'editor' is not a type of nodes: choose one of author, paper"),
    "unknown in a pair": (("editor", None), "'editor' is not a type of nodes"),
    "long mask": (("paper", torch.ones(105, dtype=torch.bool)), "input_nodes .*105.*60"),
    "id of another type": (("venue", [2, 5]), "input_nodes .*5"),
}


@pytest.mark.parametrize("case", BAD)
def test_seeds_that_are_refused(case):
    nodes, message = BAD[case]
    with pytest.raises(InputError, match=message):
        batch_of(nodes)
