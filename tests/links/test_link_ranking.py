"""Metrics of links equal those of a brute-force twin and of torchmetrics, in any chunks."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest
import torch

from bliss import InputError
from bliss.links import (
    auc,
    average_precision,
    hits,
    mrr,
    ndcg,
    rank_links,
    rank_sampled,
    recall,
)

NODES = 30


def make(seed: int, levels: int = 6) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    """Scores [V, V] with many ties, distinct links [2, P] and known links [2, M]."""
    random = np.random.default_rng(seed)
    scores = torch.from_numpy(random.integers(0, levels, (NODES, NODES)) / 8).float()
    codes = random.permutation(NODES**2)
    pairs = np.stack(np.divmod(codes, NODES))
    return scores, pairs[:, :40], pairs[:, 30:200]  # some links are known, too


def brute_force(scores, links, known, candidates, k: int) -> dict[str, float]:
    """The definitions, with the mean over every place that ties leave open."""
    scores = scores.numpy()
    ranked = {tuple(pair) for pair in links.T.tolist()}
    left_out = {tuple(pair) for pair in known.T.tolist()} - ranked
    by_source = defaultdict(list)
    for u, v in ranked:
        by_source[u].append(v)
    values = defaultdict(list)
    for u, targets in by_source.items():
        pool = [c for c in candidates if (u, c) not in left_out]
        found = gain = 0.0
        for v in targets:
            alone = [c for c in pool if c == v or c not in targets]
            ranks = {}
            for name, among in (("alone", alone), ("all", pool)):
                others = [scores[u, c] for c in among if c != v]
                above = sum(s > scores[u, v] for s in others)
                same = sum(s == scores[u, v] for s in others)
                ranks[name] = np.arange(above + 1, above + same + 2)
            values["mrr"].append(np.mean(1 / ranks["alone"]))
            values["hits"].append(np.mean(ranks["alone"] <= k))
            found += np.mean(ranks["all"] <= k)
            gain += np.mean((ranks["all"] <= k) / np.log2(1 + ranks["all"]))
        values["recall"].append(found / len(targets))
        best = sum(1 / np.log2(1 + r) for r in range(1, min(k, len(targets)) + 1))
        values["ndcg"].append(gain / best)
    return {name: float(np.mean(value)) for name, value in values.items()}


def measured(ranks, k: int) -> dict[str, float]:
    of_k = {"hits": hits, "recall": recall, "ndcg": ndcg}
    return {"mrr": mrr(ranks), **{name: metric(ranks, k) for name, metric in of_k.items()}}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [1, 5, 20])
@pytest.mark.parametrize("memory", [4, 40, 4 * NODES * 7, 1 << 20])
def test_ranks_are_those_of_brute_force_in_any_memory(seed, k, memory):
    scores, links, known = make(seed)
    largest = 0

    def score(source, candidate):
        nonlocal largest
        part = scores[source][:, candidate]
        largest = max(largest, 4 * part.numel())
        return part

    for pool in (None, np.union1d(links[1], [1, 4, 7])[::-1]):
        given = range(NODES) if pool is None else pool.tolist()
        expected = brute_force(scores, links, known, given, min(k, len(given)))
        ranks = rank_links(score, links, NODES, candidates=pool, known=known, memory=memory)
        assert measured(ranks, min(k, len(given))) == pytest.approx(expected)
        assert largest <= memory
        unfiltered = rank_links(score, links, NODES, candidates=pool, memory=memory)
        assert measured(unfiltered, 1)["mrr"] < expected["mrr"]  # it would notice


def test_a_constant_score_is_worth_what_chance_is_worth():
    links = np.stack([np.arange(NODES), np.roll(np.arange(NODES), 1)])
    ranks = rank_links(lambda s, c: torch.zeros(len(s), NODES), links, NODES)
    assert hits(ranks, 3) == recall(ranks, 3) == pytest.approx(3 / NODES)
    assert mrr(ranks) == pytest.approx(np.mean(1 / np.arange(1, NODES + 1)))


def test_scores_without_a_value_come_last():
    z = torch.full((NODES, NODES), float("nan"))
    ranks = rank_links(lambda s, c: z[s][:, c], [[0, 1], [1, 2]], NODES)
    assert ranks.greater.tolist() == [NODES - 1] * 2


def test_half_precision_and_gradients_are_accepted():
    z = torch.randn(NODES, 4, requires_grad=True)
    links = make(0)[1]
    whole = rank_links(lambda s, c: z[s] @ z[c].T, links, NODES)
    half = rank_links(lambda s, c: (z[s] @ z[c].T).bfloat16(), links, NODES)
    assert mrr(half) == pytest.approx(mrr(whole), rel=0.1)
    double = rank_links(lambda s, c: (z[s] @ z[c].T).double(), links, NODES)
    np.testing.assert_array_equal(double.greater, whole.greater)


def test_sampled_negatives_rank_each_link_by_itself():
    positive, negative = np.array([2.0, 1.0, 0.0]), np.array([[1, 3], [1, 0], [5, 6.0]])
    ranks = rank_sampled(torch.from_numpy(positive), torch.from_numpy(negative))
    assert ranks.greater.tolist() == [1, 0, 2]
    assert ranks.equal.tolist() == [0, 1, 0]
    assert mrr(ranks) == pytest.approx((1 / 2 + (1 + 1 / 2) / 2 + 1 / 3) / 3)
    assert hits(ranks, 1) == recall(ranks, 1) == pytest.approx(0.5 / 3)
    shared = np.array([0.0, 3, 2, 2, -1])
    ranks, apart = rank_sampled(positive, shared), rank_sampled(positive, np.tile(shared, (3, 1)))
    assert ranks.greater.tolist() == apart.greater.tolist() == [1, 3, 3]
    assert ranks.equal.tolist() == apart.equal.tolist() == [2, 0, 1]
    ranks = rank_sampled(positive, negative)
    with pytest.raises(InputError, match="k=4 exceeds the 3 candidates of a link"):
        hits(ranks, 4)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("levels", [3, 10**6])
def test_auc_and_average_precision_are_those_of_their_definitions(seed, levels):
    random = np.random.default_rng(seed)
    positive, negative = random.integers(1, levels, 40) + 1.0, random.integers(0, levels, 60) * 1.0
    pairs = list(itertools.product(positive, negative))
    expected = np.mean([(p > n) + (p == n) / 2 for p, n in pairs])
    assert auc(positive, negative) == pytest.approx(expected)
    every = np.concatenate([positive, negative])
    precision = [(positive >= t).sum() / (every >= t).sum() for t in positive]
    assert average_precision(positive, negative) == pytest.approx(np.mean(precision))
    assert auc(torch.ones(3), torch.ones(2)) == 0.5
    assert average_precision(torch.ones(3), torch.ones(2)) == pytest.approx(0.6)


def test_torchmetrics_agrees():
    reference = pytest.importorskip("torchmetrics")
    scores, links, _ = make(3, levels=10**6)
    ranks = rank_links(lambda s, c: scores[s][:, c], links, NODES)
    used = torch.unique(torch.from_numpy(links[0]))
    target = torch.zeros(NODES, NODES, dtype=torch.bool)
    target[tuple(links)] = True
    rows = torch.repeat_interleave(torch.arange(used.numel()), NODES)
    arguments = scores[used].flatten() / scores.max(), target[used].flatten()  # in [0, 1]
    retrieval = reference.retrieval
    for k in (3, 10):
        found = retrieval.RetrievalRecall(top_k=k)(*arguments, indexes=rows)
        assert recall(ranks, k) == pytest.approx(float(found))
        found = retrieval.RetrievalNormalizedDCG(top_k=k)(*arguments, indexes=rows)
        assert ndcg(ranks, k) == pytest.approx(float(found))
    alone = ranks.alone().greater
    assert mrr(ranks) == pytest.approx(np.mean(1 / (1 + alone)))
    positive, negative = arguments[0][arguments[1]], arguments[0][~arguments[1]]
    classes = arguments[1].long()
    found = reference.functional.classification.binary_auroc(arguments[0], classes)
    assert auc(positive, negative) == pytest.approx(float(found), rel=1e-5)
    found = reference.functional.classification.binary_average_precision(arguments[0], classes)
    assert average_precision(positive, negative) == pytest.approx(float(found), rel=1e-5)


def zeros(source, candidate):
    return torch.zeros(len(source), NODES)


BAD = {
    "k=31 exceeds the 30 candidates": lambda: recall(rank_links(zeros, [[0], [1]], NODES), 31),
    "k=0 must be a whole number, 1 or": lambda: ndcg(rank_links(zeros, [[0], [1]], NODES), 0),
    "links must be at least one link, each once": lambda: rank_links(
        zeros, [[0, 0], [1, 1]], NODES
    ),
    r"links has shape \(1, 2\), but must be \[2, P\]": lambda: rank_links(zeros, [[0, 1]], NODES),
    "links holds 30, but": lambda: rank_links(zeros, [[0], [30]], NODES),
    "links has the target 1, which is not among": lambda: rank_links(
        zeros, [[0], [1]], NODES, candidates=[2, 3]
    ),
    r"score returned shape \(2, 2\) for 1 sources and 30": lambda: rank_links(
        lambda s, c: torch.zeros(2, 2), [[0], [1]], NODES
    ),
    r"positive has shape \(2,\) and negative \(3, 1\)": lambda: rank_sampled([1, 2], [[1]] * 3),
    r"positive has shape \(0,\), but must be": lambda: auc([], [1.0]),
    r"negative has shape \(1,\), but must be at least one score": lambda: average_precision(
        [1.0], [float("nan")]
    ),
    "memory=1 must be a whole number, 4": lambda: rank_links(zeros, [[0], [1]], NODES, memory=1),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_gets_one_sentence(message):
    with pytest.raises(InputError, match=message) as caught:
        BAD[message]()
    assert "\n" not in str(caught.value)
