"""A block: an immutable draw, its edges by source, and what the model showed of it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch

from bliss import PLADIES, InputError
from bliss.nn.block import Block
from bliss.samplers import Neighbor


def block_of(toy_graph, step: int = 0, **options) -> Block:
    return Neighbor(toy_graph, [4], **options).sample(np.arange(15), step)[0]


@pytest.mark.parametrize("replace", [False, True])
def test_edges_by_source_are_a_plain_grouping(toy_graph, replace):
    for step in range(5):
        block = block_of(toy_graph, step, replace=replace)
        indptr, order = (tensor.tolist() for tensor in block.by_source)
        groups = [np.flatnonzero(block.row.numpy() == s).tolist() for s in range(block.num_src)]
        assert indptr == np.cumsum([0, *map(len, groups)]).tolist()
        assert order == [edge for group in groups for edge in group]
    assert min(map(len, groups)) == 0  # sources without edges have a pointer, too


def test_the_representation_is_one_line(toy_graph):
    block = block_of(toy_graph)
    block.observe(torch.ones(block.num_src, 2))
    expected = f"Block({block.num_src} sources -> 15 targets, {block.num_edges} edges)"
    assert repr(block) == repr(block.to("cpu")) == expected


def test_a_draw_cannot_be_changed(toy_graph):
    block = block_of(toy_graph)
    for name in ("src", "edge_weight", "observation", "control"):
        with pytest.raises(FrozenInstanceError):
            setattr(block, name, None)


def test_the_last_observation_counts(toy_graph):
    block = PLADIES(toy_graph, [9]).sample(np.arange(5), 0)[0]
    assert block.observation is None
    block.observe(torch.full((block.num_src, 4), 3.0), torch.full((block.num_edges, 2), 0.5))
    assert block.observation.norm.tolist() == [6.0] * block.num_src
    assert block.observation.attention.tolist() == [0.5] * block.num_edges
    assert block.observation.input is None
    block.observe(torch.full((block.num_src, 4), 1.0))
    assert block.observation.norm.tolist() == [2.0] * block.num_src
    assert block.observation.attention is None


def test_feedback_of_a_copy_has_the_draw_of_the_original(toy_graph):
    block = PLADIES(toy_graph, [9]).sample(np.arange(5), 0)[0]
    copy = block.to("cpu").cpu()
    assert copy.origin is block
    copy.observe(torch.ones(block.num_src, 1))
    feedback = copy.feedback()
    assert feedback.rows is block.rows
    for name in ("src", "indptr", "row", "edge", "edge_prob", "prob"):
        assert np.shares_memory(getattr(feedback, name), getattr(block, name).numpy()), name
    with pytest.raises(InputError, match="this block was not observed"):
        block.feedback()


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("field", ["norm", "attention"])
def test_numbers_that_are_none_are_refused(toy_graph, field, value):
    block = PLADIES(toy_graph, [9]).sample(np.arange(5), 0)[0]
    x, attention = torch.ones(block.num_src, 2), torch.ones(block.num_edges)
    (x if field == "norm" else attention)[-1] = value
    block.observe(x, attention)
    with pytest.raises(InputError, match=f"the observed {field} holds NaN or infinity"):
        block.feedback()
