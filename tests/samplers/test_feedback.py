"""Feedback and updates of other blocks are refused before anything is learnt from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from bliss import InputError
from bliss.nn.block import Block
from bliss.samplers import Sampler
from tests.build import make_sampler, softmax

LEARNERS = {
    "node": ("bliss", {}),
    "exp3": ("bliss", {"policy": "exp3-released"}),
    "exp3-scale-free": ("bliss", {"policy": "exp3-scale-free"}),
    "asgcn": ("asgcn", {}),
    "gat-bs": ("gat-bs", {}),
    "thanos": ("gcn-bs", {"reward": "thanos"}),
    "vrgcn": ("vrgcn", {"layers": 3}),  # the first is not sampled
}
every_learner = pytest.mark.parametrize("name", LEARNERS)


def made(name: str, graph) -> Sampler:
    kind, options = LEARNERS[name]
    return make_sampler(kind, graph, **options)


def observed(sampler: Sampler, step: int = 0) -> list[Block]:
    blocks = sampler.sample(np.arange(12), step)
    score = np.random.default_rng(0).lognormal(0, 1, 60)
    for block in blocks:
        block.observe((1.0 + block.src[:, None] % 5).expand(-1, 5), softmax(block, score))
    return blocks


def poke(array: Tensor, value: int, place: int = -1) -> Tensor:
    changed = array.clone()
    changed[place] = value
    return changed


def set_norm(block: Block, norm: Tensor) -> Block:
    return replace(block, observation=replace(block.observation, norm=norm))


BROKEN: dict[str, tuple[str, Callable[[Block], Block]]] = {
    "negative source": ("src holds -1", lambda b: replace(b, src=poke(b.src, -1))),
    "absurd source": ("src holds 60", lambda b: replace(b, src=poke(b.src, 60))),
    "source past 2^32": (f"src holds {2**40}", lambda b: replace(b, src=poke(b.src, 2**40))),
    "negative target": ("dst differ from the targets", lambda b: replace(b, dst=poke(b.dst, -7))),
    "absurd target": ("dst differ from the targets", lambda b: replace(b, dst=poke(b.dst, 99))),
    "negative position": ("row holds -1", lambda b: replace(b, row=poke(b.row, -1, 0))),
    "position past the sources": (
        "row holds",
        lambda b: replace(b, row=poke(b.row, b.num_src)),
    ),
    "negative edge": ("edge holds -1", lambda b: replace(b, edge=poke(b.edge, -1))),
    "absurd edge": ("edge holds 341", lambda b: replace(b, edge=poke(b.edge, 341))),
    "fractional sources": ("src is float32", lambda b: replace(b, src=b.src.float())),
    "falling pointers": ("indptr must run", lambda b: replace(b, indptr=poke(b.indptr, 9999, 1))),
    "pointers from 1": ("indptr must run", lambda b: replace(b, indptr=poke(b.indptr, 1, 0))),
    "pointers past the end": (
        "indptr must run",
        lambda b: replace(b, indptr=poke(b.indptr, b.num_edges + 1)),
    ),
    "too few pointers": ("indptr must run", lambda b: replace(b, indptr=b.indptr[:-1])),
    "too few positions": ("row has", lambda b: replace(b, row=b.row[:-1])),
    "too few chances": ("edge_prob has", lambda b: replace(b, edge_prob=b.edge_prob[:-1])),
    "too few norms": ("norm has", lambda b: set_norm(b, b.observation.norm[:-1])),
}  # fmt: skip


def copied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in state.items()}


def assert_same(state: dict[str, Tensor], before: dict[str, Tensor]) -> None:
    assert set(state) == set(before)
    for name, tensor in state.items():
        assert torch.equal(tensor, before[name]), name


@every_learner
@pytest.mark.parametrize("case", BROKEN)
def test_broken_blocks_are_refused_before_anything_is_learnt(name, case, toy_graph):
    sampler = made(name, toy_graph)
    sampler.update(observed(sampler))
    before = copied(sampler.state_dict())
    message, broken = BROKEN[case]
    *below, above = observed(sampler, 1)
    for attempt in (sampler.update, sampler.digest):
        with pytest.raises(InputError, match=f"a block's ({message})"):
            attempt([*below, broken(above)])
    assert_same(sampler.state_dict(), before)
    sampler.update([*below, above])  # the blocks themselves are fine
    assert any(not torch.equal(sampler.state_dict()[key], before[key]) for key in before)


def broken_news(news: dict[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """News with one array broken, in every way that fits its meaning."""
    found = {}
    for key, array in news.items():
        own = key.rsplit(".", 1)[-1]
        if own in ("source", "dst", "edge"):
            for value in (-1, 2**40):
                found[f"{key}={value}"] = news | {key: np.r_[array[:-1], value]}
            found[f"{key} float"] = news | {key: array.astype(np.float64)}
        if own == "indptr":
            found["falling"] = news | {key: np.r_[array[:1], array[-1] + 1, array[2:]]}
            found["past the end"] = news | {key: np.r_[array[:-1], array[-1] + 1]}
        if own != "gradient":
            found[f"{key} short"] = news | {key: array[:-1]}
    for key in {"dst", "indptr", "edge"} & news.keys():
        found[f"no {key}"] = {k: v for k, v in news.items() if k != key}
    return found


@every_learner
def test_broken_news_is_refused_before_anything_is_learnt(name, toy_graph):
    sampler = made(name, toy_graph)
    sampler.update(observed(sampler))
    before = copied(sampler.state_dict())
    below, above = sampler.digest(observed(sampler, 1))
    for case, broken in broken_news(dict(above)).items():
        with pytest.raises(InputError):
            sampler.apply([[below, above], [below, broken]])
            pytest.fail(f"news with {case} was taken")
        assert_same(sampler.state_dict(), before)
    with pytest.raises(InputError, match="updates of 1 layers"):
        sampler.apply([[below]])
    assert_same(sampler.state_dict(), before)


@every_learner
def test_broken_news_that_waits_is_not_loaded(name, toy_graph):
    sampler, other = made(name, toy_graph), made(name, toy_graph)
    with sampler.learning.drawing_ahead():
        sampler.update(observed(sampler))
    state = copied(sampler.state_dict())
    prefix = "pending.0.0.1."
    news = {key.removeprefix(prefix): state[key].numpy() for key in state if prefix in key}
    assert news
    rest = {key: value for key, value in state.items() if prefix not in key}
    other.update(observed(other))
    before = copied(other.state_dict())
    for case, broken in broken_news(news).items():
        pending = {prefix + key: torch.from_numpy(array) for key, array in broken.items()}
        with pytest.raises(InputError):
            other.load_state_dict(rest | pending)
            pytest.fail(f"news with {case} was loaded")
        assert_same(other.state_dict(), before)
    for one in (sampler, other):  # the state itself is fine
        one.load_state_dict(state)
        one.learning.settle()
    assert_same(other.state_dict(), sampler.state_dict())


@pytest.mark.parametrize("name", ["exp3", "asgcn"])
def test_blocks_without_inclusion_probabilities_are_refused(name, toy_graph):
    sampler = made(name, toy_graph)
    blocks = [replace(block, prob=None) for block in observed(sampler)]
    with pytest.raises(InputError, match="divides by inclusion probabilities, but these blocks"):
        sampler.update(blocks)
