"""Splits, sides and metrics of links in runs: ranks against all targets, chance, sentences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from bliss import Graph, InputError
from bliss.data import Dataset
from bliss.data.label_edges import LabelEdges
from bliss.train import predict, resolve
from bliss.train.link_sides import split_links
from bliss.train.task import build_task
from tests.train.runs import SETTINGS, settings, trained

USERS, ITEMS = 30, 20
SHOP = {
    "task": "link",
    "bipartite": True,
    "embedding": 8,
    "dropout": 0.0,
    "edge_split": (0.6, 0.2, 0.2),
}


@pytest.fixture(scope="module")
def shop() -> Dataset:
    """Users and items of two kinds, with the times of purchases."""
    generator = np.random.default_rng(0)
    user = np.repeat(np.arange(USERS), 8)
    item = USERS + 10 * (user % 2) + generator.integers(0, 10, user.size)
    pairs = np.unique(np.stack([user, item]), axis=1)
    both = np.concatenate([pairs, pairs[::-1]], axis=1)
    nodes, none = USERS + ITEMS, torch.empty(0, dtype=torch.int64)
    return Dataset(
        "shop",
        Graph.from_edge_index(both, nodes, self_loops="add"),
        torch.empty(nodes, 0),
        torch.full((nodes,), -1),
        {"train": torch.arange(1), "val": none, "test": none},
        0,
        label_edges=LabelEdges(pairs, None, generator.permutation(pairs.shape[1])),
    )


def test_recall_and_ndcg_against_all_targets_are_those_of_a_sorted_list(shop):
    task = build_task(settings(**SHOP, candidates="all", cutoff=4), shop)
    scores = task.objective.link_scores
    z = torch.randn(USERS + ITEMS, 16, generator=torch.Generator().manual_seed(0))
    found = scores.values("test", z, ["recall", "ndcg", "mrr", "hits"])
    test = scores.splits.test
    recalls, gains = [], []
    for user in np.unique(test[0]):
        wanted = set(test[1][test[0] == user].tolist())
        known = (
            set(shop.graph.indices[slice(*shop.graph.indptr[user : user + 2])].tolist()) - wanted
        )
        order = (z[user] @ z.T).argsort(descending=True).tolist()
        best = [v for v in order if v >= USERS and v not in known][:4]
        recalls.append(len(wanted & set(best)) / len(wanted))
        gain = sum(1 / np.log2(2 + place) for place, v in enumerate(best) if v in wanted)
        gains.append(gain / sum(1 / np.log2(2 + place) for place in range(min(len(wanted), 4))))
    assert found["recall"] == pytest.approx(np.mean(recalls))
    assert found["ndcg"] == pytest.approx(np.mean(gains))
    shares = []
    progress = scores.values("test", z, ["ndcg"], shares.append)
    assert progress == {"ndcg": found["ndcg"]}
    assert shares[-1] == 1.0


@pytest.mark.parametrize("candidates", ["all", "sampled"])
@pytest.mark.parametrize("metric", ["mrr", "hits", "recall", "ndcg"])
def test_a_constant_score_has_the_value_of_chance(shop, candidates, metric):
    task = build_task(settings(**SHOP, candidates=candidates, cutoff=3, hits=2), shop)
    scores = task.objective.link_scores
    if candidates == "all":  # none is known, so that all links have equally many candidates
        object.__setattr__(scores, "_known", scores.splits.test)
    found = scores.values("test", torch.ones(USERS + ITEMS, 4), [metric])[metric]
    if candidates == "sampled" and metric in ("recall", "ndcg"):  # links of a source compete, too
        assert found == pytest.approx(scores.chance(metric, "test"), rel=0.1)
    elif candidates == "all" and metric in ("mrr", "hits"):  # others of the source are left out
        assert found >= scores.chance(metric, "test")
    else:
        assert found == pytest.approx(scores.chance(metric, "test"))


def test_a_run_by_time_learns_a_bipartite_graph(shop, tmp_path):
    options = SHOP | {"split": "time", "candidates": "all", "cutoff": 5, "select": "ndcg"}
    options |= {"model": "lightgcn", "link_loss": "bpr", "steps": 60, "lr": 0.05}
    trainer, result = trained(shop, tmp_path, **options)
    assert result.metric == "ndcg"
    assert result.test_score > 1.2 * result.constant.score
    drawn = [batch for batches in trainer.stepper.loader.steps() for batch in batches]
    for batch in drawn:
        ends = batch.blocks[-1].dst
        assert ends[batch.dst_neg_index].min() >= USERS > ends[batch.src_index].max()
    top = predict(tmp_path, shop, top=3)
    assert set(top["source"]) <= set(range(USERS))
    assert min(top["target"]) >= USERS


def test_splits_are_those_that_were_asked_for(shop):
    links = shop.label_edges
    given = replace(links, split=np.arange(links.pairs.shape[1]) % 3)
    data = replace(shop, label_edges=given)
    for how, expected in (("auto", 2), ("given", 2), ("random", 0.2), ("time", 0.2)):
        splits = split_links(data, settings(**SHOP, split=how))
        number = (given.split == 2).sum() if expected == 2 else round(0.2 * given.split.size)
        assert abs(splits.test.shape[1] - number) <= 1, how
    for how, words in (("given", "no splits of links"), ("time", "no times of links")):
        bare = replace(shop, label_edges=LabelEdges(links.pairs))
        with pytest.raises(InputError, match=words):
            split_links(bare, settings(**SHOP, split=how))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"task": "link", "cutoff": 200}, "cutoff=200 exceeds the 101 candidates"),
        ({"task": "link", "split": "never"}, "split='never'"),
        ({"bipartite": True}, "pass task='link'"),
    ],
)
def test_bad_settings_get_one_sentence(given, words):
    with pytest.raises(InputError, match=words):
        resolve(**SETTINGS | given)


def test_wrong_sides_and_too_large_a_cutoff_get_one_sentence(shop):
    with pytest.raises(InputError, match="cutoff=21 exceeds the 20 candidates of a link"):
        build_task(settings(**SHOP, candidates="all", cutoff=21), shop)
    turned = shop.label_edges.pairs.copy()
    turned[:, 0] = turned[::-1, 0]
    wrong = replace(shop, label_edges=LabelEdges(turned))
    with pytest.raises(InputError, match="is the source of a link and the target of another"):
        build_task(settings(**SHOP), wrong)
