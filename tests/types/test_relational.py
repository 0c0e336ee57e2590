"""Networks of graphs with types: formulas, exact inference, unbiased layers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import bliss
from bliss.errors import InputError
from bliss.feedback import log_size
from bliss.graph import Graph
from bliss.nn import ModelConfig, RelationalGNN, RGATConv, RSAGEConv, infer
from bliss.nn.aggregate import aggregate_groups
from bliss.nn.block import Block
from bliss.nn.relational import Maps
from bliss.studies.advice.exact_errors import ExactErrors, _nodewise_error
from tests.statistics import normal_limit
from tests.types.graphs import SIZES, WIDTHS, hetero

DATA = hetero(width=4)
GRAPH = Graph.of(DATA)
TYPES = GRAPH.types
X = torch.cat([DATA[name].x for name in SIZES])
SHAPE = (4, 3, len(TYPES.node_types), len(TYPES.edge_types))
FALSE_ALARM = 1e-6


def edges_of(node: int) -> list[tuple[int, np.ndarray]]:
    """Relations into a node, and the sources of each, read from the data."""
    kind = int(TYPES.type_of(np.array([node]))[0])
    first = dict(zip(SIZES, TYPES.node_ptr.tolist(), strict=False))
    found = []
    for number, (source, name, target) in enumerate(TYPES.edge_types):
        if target != TYPES.node_types[kind]:
            continue
        pairs = DATA[source, name, target].edge_index.numpy()
        own = pairs[0, pairs[1] == node - first[target]] + first[source]
        if own.size:
            found.append((number, own))
    return found


def expected(conv, node: int) -> torch.Tensor:
    """The formula of a convolution's docstring at one node."""
    kind = int(TYPES.type_of(np.array([node]))[0])
    out = conv.own.maps()[kind] @ X[node] + conv.own.bias[kind]
    for r, sources in edges_of(node):
        if isinstance(conv, RSAGEConv):
            out = out + conv.others()[r] @ X[sources].mean(0)
            continue
        values = (X[sources] @ conv.source()[r].T).reshape(-1, conv.heads, conv.width)
        own = (conv.target()[r] @ X[node]).reshape(conv.heads, conv.width)
        inner = torch.nn.functional.leaky_relu(values + own, 0.2)
        share = torch.softmax((inner * conv.vector[r]).sum(-1), 0)  # [n, H]
        heads = (share[..., None] * values).sum(0)
        out = out + (heads.flatten() if conv.concat else heads.mean(0))
    return out


def test_the_node_bandit_observes_the_sizes_of_messages_under_all_relations():
    torch.manual_seed(0)
    conv = RGATConv(*SHAPE)
    maps = conv.source().detach()
    sampler = bliss.Bliss(GRAPH, [40], policy="node")
    (block,) = sampler.sample(np.arange(40, 70), 0)
    conv.train()(X[block.src], block)
    alpha = block.observation.attention
    above, below = np.zeros(block.num_src), np.zeros(block.num_src)
    for edge in range(block.num_edges):
        j, relation = int(block.row[edge]), int(block.relation[edge])
        message = maps[relation] @ X[block.src[j]]
        above[j] += float(alpha[edge] ** 2 * message.square().sum())
        below[j] += float(alpha[edge] ** 2)
    seen = np.flatnonzero(below)
    news = sampler.policy.digest(0, block.feedback())
    assert 0 < seen.size < block.num_src  # targets without kept out-edges are left out
    np.testing.assert_array_equal(news["source"], block.src[seen])
    sizes = np.sqrt(above[seen] / below[seen])
    np.testing.assert_allclose(news["log_size"], log_size(sizes), rtol=1e-4, atol=1e-5)


def test_a_survey_shows_the_sizes_of_messages_over_all_edges():
    torch.manual_seed(0)
    conv = RGATConv(*SHAPE)
    maps = conv.source().detach()
    found = []
    infer(conv, GRAPH, X, chunk_edges=50, observer=lambda layer, survey: found.append(survey))
    (block,) = bliss.Full(GRAPH, layers=1).sample(np.arange(GRAPH.num_nodes), 0)
    alpha = conv.attention(X, block).detach()
    messages = torch.einsum("eoi,ei->eo", maps[block.relation], X[block.src[block.row]])
    source, number = block.src[block.row].numpy(), GRAPH.num_nodes
    weight = alpha.square().numpy()
    above = np.bincount(source, weight * messages.square().sum(1).numpy(), number)
    below = np.bincount(source, weight, number)
    expected = np.where(below > 0, np.sqrt(above / np.maximum(below, 1e-30)), X.norm(dim=1))
    np.testing.assert_allclose(found[0].norm, expected, rtol=1e-3)


@pytest.mark.parametrize("bases", [0, 2])
@pytest.mark.parametrize("kind", ["rsage", "rgat", "rgat, mean of heads"])
def test_a_layer_on_full_neighbourhoods_is_its_formula(kind, bases):
    torch.manual_seed(0)
    conv = RSAGEConv(*SHAPE, bases)
    if kind != "rsage":
        conv = RGATConv(*SHAPE, bases, heads=3, concat=kind == "rgat")
    torch.nn.init.normal_(conv.own.bias)
    nodes = np.array([50, 3, 104, 41, 99, 7])
    (block,) = bliss.Full(GRAPH, layers=1).sample(nodes, 0)
    out = conv.eval()(X[block.src], block)
    wanted = torch.stack([expected(conv, int(node)) for node in nodes])
    torch.testing.assert_close(out, wanted, rtol=1e-4, atol=1e-5)
    if bases:
        maps = conv.others if kind == "rsage" else conv.source
        combined = sum(maps.share[1, b] * maps.matrix[b] for b in range(bases))
        torch.testing.assert_close(maps()[1], combined)


@pytest.mark.parametrize("model", ["rsage", "rgat"])
def test_inference_of_all_nodes_is_the_network_on_full_blocks(model):
    data, graph = hetero(), Graph.of(hetero())
    config = ModelConfig(model=model, layers=2, hidden=8, heads=2, normalisation="layer")
    network = RelationalGNN(WIDTHS, graph.types.edge_types, 3, config).eval()
    x = {name: data[name].x for name in SIZES}
    nodes = np.array([60, 41, 99])
    blocks = bliss.Full(graph, layers=2).sample(nodes, 0)
    first = dict(zip(SIZES, graph.types.node_ptr.tolist(), strict=False))
    rows = {n: x[n][ids - first[n]] for n, ids in blocks[0].split(blocks[0].src).items()}
    everywhere = infer(network, graph, network.embed_all(x, torch.device("cpu")))
    torch.testing.assert_close(network(rows, blocks), everywhere[nodes], rtol=1e-4, atol=1e-5)


SAMPLERS = {
    "pladies": lambda: bliss.PLADIES(GRAPH, [12], seed=1, estimator="ht"),
    "bliss": lambda: bliss.Bliss(GRAPH, [12], seed=1, estimator="ht"),
    "neighbor": lambda: bliss.Neighbor(GRAPH, [2], seed=1),
}


def variants(block: Block) -> list[Block]:
    """The block; without importance weights; and with the degree under all relations as one."""
    degree = block.degree[block.col] * block.coefficient
    weights = block.edge_weight, block.coefficient, block.edge_weight / degree
    return [replace(block, edge_weight=weight) for weight in weights]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_only_the_corrected_layer_is_unbiased(sampler):
    """z-test of the outputs of rsage at six targets, over 800 draws; false alarms: FALSE_ALARM."""
    torch.manual_seed(0)
    conv, nodes = RSAGEConv(*SHAPE).eval(), np.array([50, 43, 60, 41, 99, 77])
    drawn = SAMPLERS[sampler]()
    (full,) = bliss.Full(GRAPH, layers=1).sample(nodes, 0)
    outputs = []
    with torch.no_grad():
        exact = conv(X[full.src], full)
        for step in range(800):
            (block,) = drawn.sample(nodes, step)
            outputs.append(torch.stack([conv(X[one.src], one) for one in variants(block)]))
    draws = torch.stack(outputs)  # [N, variants, D, out]
    error = draws.std(0) / len(draws) ** 0.5 + 1e-6 * exact.abs()
    worst = ((draws.mean(0) - exact) / error).abs().flatten(1).max(1).values
    limit = normal_limit(FALSE_ALARM, exact.numel())
    assert (worst < limit).tolist() == [True, False, False]


def test_the_policy_observes_the_attention_under_each_relation():
    conv = RGATConv(*SHAPE, heads=2, concat=False)
    sampler = bliss.PLADIES(GRAPH, [20], seed=0)
    (block,) = sampler.sample(np.arange(40, 60), 0)
    conv(X[block.src], block)
    shown, groups = block.observation.attention, block.group_indptr
    sums = torch.zeros(groups.numel() - 1).index_add(
        0, torch.arange(groups.numel() - 1).repeat_interleave(groups.diff()), shown
    )
    kept = groups.diff() > 0
    torch.testing.assert_close(sums[kept], torch.ones(int(kept.sum())))


def test_a_block_of_other_types_is_refused():
    config = ModelConfig(model="rsage", layers=1, hidden=4)
    network = RelationalGNN(dict.fromkeys(SIZES, 4), TYPES.edge_types[:2], 3, config)
    (block,) = bliss.Full(GRAPH, layers=1).sample([45], 0)
    with pytest.raises(InputError, match="other types of nodes or edges"):
        network({name: DATA[name].x for name in SIZES}, [block])


def test_settings_of_relations_have_an_effect_or_are_refused():
    with pytest.raises(InputError, match="bases=2 has no effect with model='sage'"):
        ModelConfig(bases=2)
    wide = ModelConfig(model="rsage", layers=1, hidden=4, initialisation="relu")
    network = RelationalGNN(dict.fromkeys(SIZES, 4), TYPES.edge_types, 3, wide)
    assert (network.convs[0].own.bias == 0).all()
    assert (network.convs[0].others().flatten(1).std(1) > 0.1).all()


def test_the_closed_form_error_of_fanouts_is_that_of_draws_under_each_relation():
    """z-test of the mean squared error over 600 draws; false alarms: FALSE_ALARM."""
    config = ModelConfig(model="rsage", layers=1, hidden=4)
    network = RelationalGNN(dict.fromkeys(SIZES, 4), TYPES.edge_types, 3, config).eval()
    nodes, sampler = np.array([50, 43, 60, 41, 99, 77]), bliss.Neighbor(GRAPH, [2], seed=3)
    (full,) = bliss.Full(GRAPH, layers=1).sample(nodes, 0)
    exact = aggregate_groups(full, X[full.src])
    found = []
    for step in range(600):
        (block,) = sampler.sample(nodes, step)
        apart = aggregate_groups(block, X[block.src]) - exact
        found.append(float(apart.square().sum()))
    errors = ExactErrors(network, GRAPH, X)
    (error,) = errors.of(sampler, [block])
    rows, layer = GRAPH.rows(nodes), errors.layers[0]
    indptr, edge = rows.edges()
    squares, centre = layer.squares(edge, "ht"), layer.square[rows.group_id]
    together = np.bincount(rows.owner, centre, nodes.size)
    mutant = _nodewise_error(rows.by_target(indptr), squares, together, 2)  # of all relations
    deviation = np.std(found, ddof=1) / len(found) ** 0.5
    z = np.abs(np.mean(found) - np.array([error.error, mutant])) / deviation
    limit = normal_limit(FALSE_ALARM, 1)
    assert (z < limit).tolist() == [True, False]


def test_maps_of_bases_begin_with_the_variance_of_a_linear_layer():
    """64 bases: the estimate has a deviation of 2.5%, and a share of deviation 1 is off by 64."""
    torch.manual_seed(0)
    variance = float(Maps(64, inputs=16, outputs=16, bases=64)().detach().square().mean())
    assert variance == pytest.approx(1 / (3 * 16), rel=0.15)
