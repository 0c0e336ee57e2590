"""Layers over blocks compute what their formulas say, both ways, and inference is exact."""

from __future__ import annotations

import math
import weakref

import numpy as np
import pytest
import scipy.stats
import torch
from torch_geometric import nn as pyg

from bliss import PLADIES, Bliss, Full, Graph, InputError, Neighbor
from bliss.errors import ResourceError
from bliss.nn import GNN, MODELS, ModelConfig, infer
from bliss.nn import attention as attention_module
from bliss.nn import model as model_module
from bliss.nn.aggregate import aggregate
from bliss.nn.attention import attend, gatv2_scores
from bliss.nn.convs import Attention, GATConv, GATv2Conv, GCNConv, LinearConv, SAGEConv
from bliss.nn.dropout import dropout
from bliss.nn.model_config import RELATIONAL
from tests.conftest import heavy_tailed_pairs

WITH_WEIGHTS = [model for model in MODELS if model not in ("lightgcn", *RELATIONAL)]
"""Networks whose layers have weights, and options such as a normalisation."""


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph.from_edge_index(heavy_tailed_pairs(80, 500), 80)


def sampled(graph: Graph):
    return PLADIES(graph, [25]).sample(np.arange(12), 0)[0]


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def test_aggregation_and_its_gradient_are_those_of_the_dense_product(graph):
    block = sampled(graph)
    dense = torch.zeros(block.num_dst, block.num_src)
    dense.index_put_((block.col, block.row), block.edge_weight, accumulate=True)
    ours, theirs = random(block.num_src, 5), random(block.num_src, 5)
    out = aggregate(block, ours)
    torch.testing.assert_close(out, dense @ theirs)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    (out * weight).sum().backward()
    (dense @ theirs * weight).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_compiled_attention_agrees_with_plain_torch_in_value_and_gradient(
    graph, heads, dropout, monkeypatch
):
    block = sampled(graph)
    results = []
    for compiled in (True, False):
        monkeypatch.setattr(attention_module, "_is_compiled", lambda _, yes=compiled: yes)
        source, target = random(block.num_src, heads, 4), random(block.num_dst, heads, 4, seed=1)
        vector = random(heads, 4, seed=2)
        torch.manual_seed(0)
        scores = gatv2_scores(block, target, source, vector, 0.2)
        out, attention = attend(block, scores, source, dropout)
        (out**2).sum().backward()
        results.append([scores, out, attention, source.grad, target.grad, vector.grad])
    for ours, twin in zip(*results, strict=True):
        torch.testing.assert_close(ours, twin, rtol=1e-4, atol=1e-5)


def test_dropout_of_attention_zeroes_an_edge_or_divides_it_by_the_rest(graph):
    # A target with one edge has attention 1: its output is its source's value, scaled or zeroed.
    block = Neighbor(graph, [1]).sample(np.arange(80), 0)[0]
    values = random(block.num_src, 2, 4).abs() + 1
    torch.manual_seed(0)
    out, _ = attend(block, torch.zeros(block.num_edges, 2), values, 0.75)
    ratio = (out / values[block.row]).flatten()
    assert set(ratio.detach().round(decimals=4).unique().tolist()) == {0.0, 4.0}


@pytest.mark.parametrize("kind", ["sage", "gcn", "gat", "gatv2"])
def test_layers_are_pygs_layers_on_full_neighbourhoods(graph, kind):
    torch.manual_seed(0)
    graph = graph.with_norm("gcn" if kind == "gcn" else "mean")
    block = Full(graph, layers=1).sample(np.arange(80), 0)[0]
    x = torch.randn(80, 6)
    edge_index = block.edge_index  # all nodes in order: positions are ids
    if kind == "sage":
        ours, theirs = SAGEConv(6, 4), pyg.SAGEConv(6, 4)
        ours.own.load_state_dict({"weight": theirs.lin_r.weight, "bias": theirs.lin_l.bias})
        ours.others.load_state_dict({"weight": theirs.lin_l.weight})
        expected = theirs(x, edge_index)
    elif kind == "gcn":
        ours, theirs = GCNConv(6, 4), pyg.GCNConv(6, 4, add_self_loops=False)
        ours.linear.load_state_dict({"weight": theirs.lin.weight})
        # parallel edges and in-degrees: give PyG our coefficients
        theirs.normalize = False
        expected = theirs(x, edge_index, block.edge_weight)
    elif kind == "gat":
        ours, theirs = GATConv(6, 8, heads=2), pyg.GATConv(6, 4, heads=2, add_self_loops=False)
        ours.linear.load_state_dict({"weight": theirs.lin.weight})
        ours.source.data, ours.target.data = theirs.att_src.data[0], theirs.att_dst.data[0]
        expected = theirs(x, edge_index)
    else:
        ours = GATv2Conv(6, 8, heads=2)
        theirs = pyg.GATv2Conv(6, 4, heads=2, add_self_loops=False, share_weights=True, bias=False)
        ours.source.load_state_dict({"weight": theirs.lin_l.weight})
        theirs.lin_l.bias = None
        ours.vector.data = theirs.att.data[0]
        expected = theirs(x, edge_index)
    torch.testing.assert_close(ours(x, block), expected, rtol=1e-4, atol=1e-5)


def test_corrected_attention_estimates_the_full_one(graph):
    # Hajek: over many draws the corrected mean is near the full aggregate, the plain one is not.
    torch.manual_seed(0)
    dense = Graph.from_edge_index(heavy_tailed_pairs(80, 4000), 80)
    x = torch.randn(80, 6) * 2
    targets = np.arange(60, 70)
    outs = {}
    for correction in ("hajek", "plain"):
        torch.manual_seed(1)
        conv = GATv2Conv(6, 8, heads=2, correction=correction).eval()
        sampler = PLADIES(dense, [30])
        with torch.no_grad():
            draws = []
            for step in range(1500):
                block = sampler.sample(targets, step)[0]
                draws.append(conv(x[block.src], block))
            full = Full(dense, layers=1).sample(targets, 0)[0]
            exact = conv(x[full.src], full)
        outs[correction] = (torch.stack(draws).mean(0) - exact).norm() / exact.norm()
    assert outs["hajek"] < 0.5 * outs["plain"]


@pytest.mark.parametrize(
    ("model", "options"),
    [
        *((model, {}) for model in MODELS if model not in RELATIONAL),
        *((model, {"residual": True, "normalisation": "layer"}) for model in WITH_WEIGHTS),
        *((model, {"bias": False}) for model in WITH_WEIGHTS),
    ],
)
def test_inference_in_chunks_is_the_full_forward_pass(graph, model, options):
    torch.manual_seed(0)
    config = ModelConfig(model=model, layers=3, hidden=8, heads=2, **options)
    network = GNN(6, 4, config)
    graph = graph.with_norm(config.norm)
    x = torch.randn(80, 6)
    blocks = Full(graph, layers=3).sample(np.arange(80), 0)
    network.eval()
    expected = network(x[blocks[0].src], blocks).detach()
    network.train()
    for chunk_edges in (1, 50, 10**9):
        torch.testing.assert_close(infer(network, graph, x, chunk_edges=chunk_edges), expected)
    assert network.training


@pytest.mark.parametrize("rows", [7, 20])
def test_inference_gathers_no_more_bytes_than_it_may(graph, monkeypatch, rows):
    torch.manual_seed(0)
    network, x = GNN(6, 4, ModelConfig(layers=1)), torch.randn(80, 6)
    expected, taken, layer = infer(network, graph, x), [], GNN.layer
    gathered, gather = [], torch.Tensor.index_select

    def watched(self, number, inputs, block):
        taken.append((inputs.nbytes, block.num_dst))
        return layer(self, number, inputs, block)

    def one_at_a_time(self, *where):
        if self is not x:
            return gather(self, *where)
        assert not any(chunk() is not None for chunk in gathered)
        found = gather(self, *where)
        gathered.append(weakref.ref(found))
        return found

    monkeypatch.setattr(GNN, "layer", watched)
    monkeypatch.setattr(torch.Tensor, "index_select", one_at_a_time)
    chunk_bytes = rows * x[:1].nbytes
    torch.testing.assert_close(infer(network, graph, x, chunk_bytes=chunk_bytes), expected)
    assert all(size <= chunk_bytes or nodes == 1 for size, nodes in taken)
    assert max(nodes for _, nodes in taken) > 1
    taken.clear()
    infer(network, graph, x, chunk_bytes=x.nbytes)  # all fits: one chunk, as without a limit
    assert len(taken) == 1


class Stopped(Exception):
    pass


def test_an_exception_from_the_progress_callback_ends_inference_and_restores_the_mode(graph):
    torch.manual_seed(0)
    network, x = GNN(6, 4, ModelConfig(layers=3, hidden=8)), torch.randn(80, 6)
    for was_training in (True, False):
        network.train(was_training)
        shares = []

        def progress(done: float, shares=shares) -> None:
            assert not network.training
            shares.append(done)
            if done > 0.5:
                raise Stopped

        with pytest.raises(Stopped):
            infer(network, graph, x, chunk_edges=100, progress=progress)
        assert network.training is was_training
        assert shares == sorted(shares)
        assert sum(done > 0.5 for done in shares) == 1  # no chunk after it


def test_progress_is_told_after_every_chunk_up_to_one(graph):
    torch.manual_seed(0)
    network, x = GNN(6, 4, ModelConfig(layers=2, hidden=8)), torch.randn(80, 6)
    shares: list[float] = []
    infer(network, graph, x, chunk_edges=1, progress=shares.append)  # one node each
    np.testing.assert_allclose(shares, np.arange(1, 161) / 160)


@pytest.mark.parametrize("input_residual", [False, True])
@pytest.mark.parametrize("model", WITH_WEIGHTS)
def test_residual_layers_add_their_input_before_normalisation_and_activation(
    graph, model, input_residual
):
    torch.manual_seed(0)
    config = ModelConfig(
        model=model,
        layers=3,
        hidden=8,
        heads=2,
        residual=True,
        input_residual=input_residual,
        normalisation="layer",
    )
    network = GNN(6, 4, config).eval()
    blocks = Full(graph.with_norm(config.norm), layers=3).sample(np.arange(10), 0)
    activation = torch.nn.functional.elu if config.is_attention else torch.relu
    inputs = torch.randn(80, 6)[blocks[0].src]
    first = network.convs[0](inputs, blocks[0])
    if input_residual:
        first = first + inputs[: blocks[0].num_dst] @ network.residuals["0"].weight.T
    x = activation(network.norms[0](first))
    own = x[: blocks[1].num_dst]  # widths agree: as it is
    x = activation(network.norms[1](network.convs[1](x, blocks[1]) + own))
    own = x[: blocks[2].num_dst] @ network.residuals["2"].weight.T  # 8 -> 4: projected
    expected = network.convs[2](x, blocks[2]) + own
    torch.testing.assert_close(network(inputs, blocks), expected)
    shapes = [p.shape for p in network.residuals.parameters()]
    assert shapes == [*([(8, 6)] if input_residual else []), (4, 8)]


@pytest.mark.parametrize("model", WITH_WEIGHTS)
def test_without_bias_nothing_in_gives_nothing_out(graph, model):
    for bias in (False, True):
        torch.manual_seed(0)
        config = ModelConfig(model=model, layers=2, hidden=8, heads=2, bias=bias)
        network = GNN(6, 4, config).eval()
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.ones_(parameter)
        blocks = Full(graph.with_norm(config.norm), layers=2).sample(np.arange(10), 0)
        out = network(torch.zeros(blocks[0].num_src, 6), blocks)
        assert out.any().item() is bias


@pytest.mark.parametrize("model", WITH_WEIGHTS)
@pytest.mark.parametrize("policy", ["node", "exp3-released"])
def test_every_model_trains_and_teaches_every_bandit(graph, model, policy):
    torch.manual_seed(0)
    config = ModelConfig(model=model, layers=2, hidden=16, heads=2, normalisation="batch")
    graph = graph.with_norm(config.norm)
    network = GNN(6, 3, config)
    sampler = Bliss(graph, [30, 20], policy=policy)
    x = torch.randn(80, 6)
    y = x[:, :3].argmax(1)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    losses = []
    for step in range(60):
        blocks = sampler.sample(np.random.default_rng(step).permutation(80)[:30], step)
        logits = network(x[blocks[0].src], blocks)
        loss = torch.nn.functional.cross_entropy(logits, y[blocks[-1].dst])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shown = [block.observation.attention is not None for block in blocks]
        assert shown == [config.is_attention] * 2
        sampler.update(blocks)
        losses.append(loss.item())
    assert np.mean(losses[-10:]) < np.mean(losses[:5])


@pytest.mark.parametrize("history", ["none", "nodes"])
def test_a_single_row_is_normalised_with_running_statistics(history):
    """A batch of one seed without neighbours: its variance would be 0, and torch refuses it."""
    torch.manual_seed(0)
    graph = Graph.from_edge_index(heavy_tailed_pairs(80, 500), 81)  # node 80 has no edges
    config = ModelConfig(layers=3, hidden=4, normalisation="batch", dropout=0.3)
    x, network = random(81, 6).detach(), GNN(6, 3, config)
    sampler = Bliss(graph, [20, 20], history=history, first_hop="exact", x=x, widths=[6, 4, 4])
    for step, seeds in enumerate((np.arange(12), np.array([80]))):
        blocks = sampler.sample(seeds, step)
        before = [norm.running_mean.clone() for norm in network.norms]
        out = network(x[blocks[0].src], blocks)
        sampler.update(blocks)
    assert [len(block.dst) for block in blocks] == [1, 1, 1]
    for norm, mean in zip(network.norms, before, strict=True):
        assert mean.any() and torch.equal(norm.running_mean, mean)
    network.zero_grad()
    out.sum().backward()
    assert all(p.grad.isfinite().all() for p in network.parameters())
    one = network.norms[0](torch.ones(1, 4))
    noiseless = model_module._like_batch(network.norms[0], torch.zeros(1, 4), torch.ones(1, 4))
    torch.testing.assert_close(noiseless, one)
    torch.testing.assert_close(one, network.norms[0].eval()(torch.ones(1, 4)))


FALSE_ALARM = 1e-6


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_drops_its_share_scales_the_rest_and_goes_back_the_same_way(rate):
    torch.manual_seed(0)
    x = torch.ones(997, 101, requires_grad=True)
    out = dropout(x, rate, training=True)
    dropped = (out == 0).float().mean().item()
    error = np.sqrt(rate * (1 - rate) / x.numel())
    limit = scipy.stats.norm.isf(FALSE_ALARM / 2)
    assert abs(dropped - rate) < limit * error
    assert abs(dropped - rate * 1.1) > limit * error  # a share 10% too large is noticed
    np.testing.assert_allclose(out[out != 0].detach(), 1 / (1 - rate), rtol=1e-4)
    out.sum().backward()
    torch.testing.assert_close(x.grad, out.detach())


def test_dropout_follows_torchs_seed_and_rests_outside_training():
    x = torch.ones(50, 7)
    torch.manual_seed(0)
    first, second = dropout(x, 0.5, True), dropout(x, 0.5, True)
    torch.manual_seed(0)
    assert torch.equal(dropout(x, 0.5, True), first)
    assert not torch.equal(first, second)
    assert dropout(x, 0.5, training=False) is x


REFUSED = {
    "unknown model": ({"model": "gin"}, "model='gin'"),
    "no layers": ({"layers": 0}, "layers=0"),
    "heads that do not divide": ({"model": "gat", "hidden": 10, "heads": 4}, "hidden=10"),
    "all dropped": ({"dropout": 1.0}, "dropout=1.0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_settings_get_one_sentence(case):
    options, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        ModelConfig(**options)


@pytest.mark.parametrize("model", WITH_WEIGHTS)
def test_the_wide_start_is_xavier_with_the_gain_of_relu(model):
    config = ModelConfig(model=model, hidden=256, layers=2, initialisation="relu")
    torch.manual_seed(0)
    network = GNN(300, 40, config)
    for name, parameter in network.convs.named_parameters():
        if parameter.ndim == 1:
            assert (parameter == 0).all()
        elif parameter.numel() > 10_000:
            expected = math.sqrt(2) * math.sqrt(2 / sum(parameter.shape))
            assert parameter.std().item() == pytest.approx(expected, rel=0.05), name


@pytest.mark.parametrize(
    ("base", "missing"), [(LinearConv, "_own"), (Attention, "_scores")], ids=lambda one: str(one)
)
def test_a_convolution_without_its_hooks_cannot_be_built(base, missing):
    incomplete = type("Incomplete", (base,), {})
    with pytest.raises(TypeError, match=rf"abstract class Incomplete .*{missing}"):
        incomplete(4, 4)


def test_a_network_refuses_inputs_that_do_not_fit(graph):
    network = GNN(5, 3, ModelConfig(layers=2, hidden=8))
    blocks = PLADIES(graph, [25, 20]).sample(np.arange(12), 0)
    x = random(blocks[0].num_src, 5).detach()
    for wrong, sentence in (
        (x[:-1], r"but there are \d+ sources of the first block: pass one row for each"),
        (x[:, :4], "but the layer takes 5 features"),
        (x.half(), r"x is torch.float16, but the layer's weights are torch.float32: convert x"),
        (x.bfloat16(), "x is torch.bfloat16"),
        (x.long(), "x is torch.int64, but must hold floats"),
        (x.to_sparse(), "x is torch.sparse_coo, but must be dense"),
        (x.to("meta"), "x is on meta, but the block is on cpu"),
        (x.tolist(), "x is a list"),
    ):
        with pytest.raises(InputError, match=sentence):
            network(wrong, blocks)
    for number in (0, 1, 3):
        with pytest.raises(InputError, match=f"there are {number} blocks, but the network has 2"):
            network(x, [*blocks, *blocks][:number])
    with torch.autocast("cpu", torch.bfloat16):
        assert network(x.bfloat16(), blocks).shape == (12, 3)


@pytest.mark.parametrize("hidden", [10**12, 10**18])
@pytest.mark.parametrize("model", WITH_WEIGHTS)
def test_widths_that_no_machine_holds_are_a_matter_of_resources(model, hidden):
    with pytest.raises(ResourceError, match=rf"not have enough memory for layers .*{hidden}"):
        GNN(5, 3, ModelConfig(model=model, layers=2, hidden=hidden))


@pytest.mark.parametrize("given", [(-1, 3), ("a", 3), (5, -1), (5, 2.5), (5, 2**63)])
def test_widths_of_a_network_are_whole_numbers(given):
    with pytest.raises(InputError, match=r"(in|out)puts=.* must be a whole number, 0 or larger"):
        GNN(*given, ModelConfig(layers=2, hidden=8))
