"""Leaks through time: links that nothing foretells cannot be told from others, unless one leaks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch
from torch_geometric.data import Data

from bliss import Graph, LinkLoader
from bliss.links import auc
from tests.build import make_sampler
from tests.statistics import weight_matrix

NODES, LINKS, WIDTH = 150, 1200, 32
FALSE_ALARM = 1e-6  # chance that a loader without leaks fails, each of its runs


def events(late: int = 0) -> Data:
    """Random links, one per time, with reverse edges, which are `late` too early."""
    random = np.random.default_rng(0)
    source = random.integers(0, NODES, LINKS)
    pairs = np.stack([source, (source + random.integers(1, NODES, LINKS)) % NODES])
    time = np.arange(LINKS) + LINKS
    x = random.normal(size=(NODES, WIDTH)) / WIDTH**0.5
    return Data(
        x=torch.from_numpy(x).float(),
        edge_index=torch.from_numpy(np.concatenate([pairs, pairs[::-1]], axis=1)),
        time=torch.from_numpy(np.concatenate([time, time - late])),
    )


def scores(name: str, data: Data, **options) -> float:
    """AUC of links against random pairs, by embeddings without weights: x + mean of neighbours."""
    graph = Graph.of(data, time_attr="time")
    sampler = make_sampler(name, graph, layers=1, budgets=None if name == "full" else [60])
    loader = LinkLoader(
        data, sampler, data.edge_index[:, :LINKS], edge_label_time=torch.arange(LINKS) + LINKS,
        neg_sampling="binary", batch_size=100, shuffle=True, **options,
    )  # fmt: skip
    links, others = [], []
    for batch in loader:
        (block,) = batch.blocks
        z = batch.x[: block.num_dst] + weight_matrix(block) @ batch.x
        score = (z[batch.edge_label_index[0]] * z[batch.edge_label_index[1]]).sum(1).numpy()
        links.append(score[batch.edge_label.numpy() == 1])
        others.append(score[batch.edge_label.numpy() == 0])
    return auc(np.concatenate(links), np.concatenate(others))


def limit() -> float:
    """AUC that independent scores exceed with probability FALSE_ALARM."""
    deviation = np.sqrt((2 * LINKS + 1) / (12 * LINKS**2))
    return 0.5 + scipy.stats.norm.isf(FALSE_ALARM) * deviation


@pytest.mark.parametrize("name", ["bliss", "pladies", "neighbor", "full"])
def test_links_without_a_past_cannot_be_foretold(name):
    assert scores(name, events()) < limit()
    assert scores(name, events(), prefetch=1, order="time") < limit()


@pytest.mark.parametrize("name", ["bliss", "neighbor"])
def test_every_leak_is_noticed(name):
    """The link itself, its reverse edge, and the whole future."""
    assert (
        scores(name, events(), time_strict=False, exclude="none") > limit()
    )  # cut-off one step late
    assert scores(name, events(late=1)) > limit()  # the reverse edge is not cut
    data = events()
    data.time = torch.zeros_like(data.time)  # nothing is cut
    assert scores(name, data) > limit()
