"""The exact first hop: right for every norm, for every sampler, with dropout, and cached."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bliss import Bliss, InputError, Neighbor
from bliss.nn import GNN, ModelConfig
from bliss.nn.aggregate import aggregate
from bliss.samplers import SAMPLERS, Full, first_hop, group_sums, sampler_config
from bliss.samplers.config_base import EstimatorConfig
from bliss.samplers.first_hop import FirstHop
from bliss.storage.digests import file_digest
from tests.statistics import features, full_aggregate, heavy_tailed_graph

TARGETS = np.array([0, 2, 5, 9, 14, 20, 30, 40])
X = features().astype(np.float32)
OFFERING = [name for name, config in SAMPLERS.items() if isinstance(config, EstimatorConfig)]


@pytest.mark.parametrize("norm", ["mean", "gcn", "weights"])
def test_sums_are_the_full_aggregates(norm, monkeypatch):
    graph = heavy_tailed_graph(norm)
    monkeypatch.setattr(group_sums, "_CHUNK", 100)  # eight nodes at a time
    sums = FirstHop(graph, X).sums[0]
    exact = full_aggregate(graph, np.arange(60), features())
    np.testing.assert_allclose(sums, exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OFFERING)
def test_every_sampler_leaves_the_input_layer_out(name):
    graph = heavy_tailed_graph()
    config = sampler_config(name, first_hop="exact")
    sampler = config.build(graph, [4, 4], layers=3, x=X, widths=[3, 8, 8])
    assert sampler.layers == 2
    first, second, _ = blocks = sampler.sample(TARGETS, 0)
    assert first.num_edges == 0
    assert torch.equal(first.src, second.src) and torch.equal(first.dst, second.src)
    exact = full_aggregate(graph, first.dst.numpy(), features())
    np.testing.assert_allclose(aggregate(first, first.src), exact, rtol=1e-4, atol=1e-5)
    torch.manual_seed(0)
    net = GNN(3, 4, ModelConfig(layers=3, hidden=8, dropout=0.0))
    net(torch.from_numpy(X)[first.src], blocks)
    sampler.update(blocks)


def test_the_first_layer_is_that_of_full_neighbourhoods():
    graph, x = heavy_tailed_graph(), torch.from_numpy(X)
    torch.manual_seed(0)
    net = GNN(3, 4, ModelConfig(layers=3, hidden=8, dropout=0.0))
    first = Bliss(graph, [20, 20], x=X, first_hop="exact").sample(TARGETS, 0)[0]
    full = Full(graph, layers=1).sample(first.dst, 0)[0]
    torch.testing.assert_close(
        net.layer(0, x[first.src], first), net.layer(0, x[full.src], full), rtol=1e-4, atol=1e-5
    )


def test_dropout_acts_on_the_aggregated_features():
    graph, x = heavy_tailed_graph(), torch.from_numpy(X)
    torch.manual_seed(0)
    net = GNN(3, 4, ModelConfig(layers=2, hidden=8, dropout=0.5))
    first = Bliss(graph, [20], x=X, first_hop="exact").sample(TARGETS, 0)[0]
    linear = net.convs[0].others
    with torch.no_grad():
        net.convs[0].own.weight.zero_(), net.convs[0].own.bias.zero_()
        linear.weight.copy_(torch.eye(8, 3)), net.norms
        outs = {tuple(torch.relu(net.layer(0, x[first.src], first))[0].tolist()) for _ in range(60)}
    kept = torch.relu(first.control.baseline[0]) * 2
    seen = {tuple(bool(v) for v in out[:3]) for out in outs}
    possible = 2 ** int((kept > 0).sum())
    assert len(seen) == possible  # every subset of the aggregated features, each as a whole
    assert net.eval().layer(0, x[first.src], first)[0, :3].allclose(kept / 2)


def test_large_sums_are_kept_on_disk_and_found_again(tmp_path, monkeypatch):
    graph = heavy_tailed_graph()
    assert isinstance(FirstHop(graph, X, tmp_path).sums[0], np.ndarray)
    assert list(tmp_path.iterdir()) == []  # small ones are computed each time
    monkeypatch.setattr(first_hop, "SUM_BYTES_IN_MEMORY", 0)
    made = FirstHop(graph, X, tmp_path)
    (path,) = tmp_path.glob("*.npy")
    assert isinstance(made.sums[0], np.memmap)
    np.testing.assert_array_equal(made.sums[0], FirstHop(graph, X).sums[0])
    before = path.stat().st_mtime_ns
    FirstHop(graph, X, tmp_path)
    assert path.stat().st_mtime_ns == before
    FirstHop(graph, X + 1, tmp_path)  # other features, and another norm
    FirstHop(heavy_tailed_graph("gcn"), X, tmp_path)
    assert len(list(tmp_path.glob("*.npy"))) == 3
    weighted = heavy_tailed_graph("weights")
    for factor in (1, 2):  # the same edges with other weights
        other = replace(weighted, weight=factor * weighted.weight)
        np.testing.assert_array_equal(
            FirstHop(other, X, tmp_path).sums[0], FirstHop(other, X).sums[0]
        )
    assert len(list(tmp_path.glob("*.npy"))) == 5


def test_bad_input_gets_one_sentence():
    graph = heavy_tailed_graph()
    with pytest.raises(InputError, match="x is missing"):
        Bliss(graph, [20], first_hop="exact")
    with pytest.raises(InputError, match=r"has 3 entries for 2 layers above the exact first"):
        Neighbor(graph, [2, 2, 2], layers=3, x=X, first_hop="exact")
    with pytest.raises(InputError, match="layers=1 leaves no layer to sample"):
        Neighbor(graph, [2], layers=1, x=X, first_hop="exact")
    with pytest.raises(InputError, match="first_hop='exakt'"):
        Neighbor(graph, [2], x=X, first_hop="exakt")


DAMAGE = {
    "a flipped bit": lambda path: path.write_bytes(flipped(path.read_bytes())),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "empty": lambda path: path.write_bytes(b""),
    "no seal": lambda path: path.with_suffix(".json").unlink(),
    "a broken seal": lambda path: path.with_suffix(".json").write_text("[]"),
    "another shape": lambda path: np.save(path, X[:, :2]),
    "another shape, sealed": lambda path: seal(path, X[:, :2]),
}


def seal(path: Path, sums: np.ndarray) -> None:
    np.save(path, sums)
    path.with_suffix(".json").write_text(json.dumps({"digest": file_digest(path)}))


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_cache_is_computed_again(tmp_path, monkeypatch, damage):
    monkeypatch.setattr(first_hop, "SUM_BYTES_IN_MEMORY", 0)
    graph = heavy_tailed_graph()
    expected = FirstHop(graph, X).sums[0]
    whole = FirstHop(graph, X, tmp_path).sums[0].copy()
    np.testing.assert_array_equal(whole, expected)
    (path,) = tmp_path.glob("first-hop-*.npy")
    damage(path)
    with pytest.warns(UserWarning, match="is damaged or incomplete"):
        again = FirstHop(graph, X, tmp_path)
    np.testing.assert_array_equal(again.sums[0], expected)
    FirstHop(graph, X, tmp_path)  # whole again, without a warning
