"""Graphs with types: ranges of nodes, groups of edges, and coefficients by relation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

import bliss
from bliss.errors import InputError
from bliss.graph import Graph, GraphTypes
from bliss.kernels import links
from bliss.kernels.links import split_ranges
from bliss.nn.block import Block
from tests.twins import links as twins
from tests.types.graphs import RELATIONS, SIZES, hetero, relation_means

DATA = hetero()


def test_ids_and_relations_are_those_of_to_homogeneous():
    graph, plain = Graph.of(DATA), DATA.to_homogeneous()
    relation = graph.relation_of(np.arange(graph.num_edges))
    ours = np.concatenate([graph.edge_index.numpy(), relation[None]])
    theirs = torch.cat([plain.edge_index, plain.edge_type[None]]).numpy()
    for each in (ours, theirs):
        each[:] = each[:, np.lexsort(each)]
    np.testing.assert_array_equal(ours, theirs)
    assert graph.types is not None
    assert graph.types.num_nodes == SIZES
    np.testing.assert_array_equal(graph.types.type_of(np.arange(105)), plain.node_type)


def test_edges_are_sorted_by_target_relation_and_source():
    graph = Graph.of(DATA)
    source, target = graph.edge_index.numpy()
    relation = graph.relation_of(np.arange(source.size))
    order = np.lexsort((source, relation, target))
    np.testing.assert_array_equal(order, np.arange(source.size))


def test_edge_ids_are_columns_of_their_relation():
    graph = Graph.of(DATA)
    assert graph.edge_id is not None
    first = dict(zip(SIZES, graph.types.node_ptr, strict=False))
    for number, edge_type in enumerate(graph.types.edge_types):
        own = np.flatnonzero(graph.relation_of(np.arange(graph.num_edges)) == number)
        given = DATA[edge_type].edge_index[:, graph.edge_id[own]].numpy()
        ends = np.array([[first[edge_type[0]]], [first[edge_type[2]]]])
        np.testing.assert_array_equal(given + ends, graph.edge_index[:, own])


@pytest.mark.parametrize("norm", ["mean", "weights", "weighted-mean"])
def test_coefficients_are_those_of_each_relation_alone(norm):
    data = hetero(weighted=True)
    graph = Graph.of(data, norm)
    alpha = graph.edge_weight.numpy()
    for number, edge_type in enumerate(graph.types.edge_types):
        alone = HeteroData()
        for name, size in SIZES.items():
            alone[name].num_nodes = size
        alone[edge_type].edge_index = data[edge_type].edge_index
        alone[edge_type].edge_weight = data[edge_type].edge_weight
        own = graph.relation_of(np.arange(graph.num_edges)) == number
        plain = alone.to_homogeneous()
        expected = Graph.of(plain, norm).edge_weight.numpy()
        np.testing.assert_allclose(alpha[own], expected, rtol=1e-6)


@pytest.mark.parametrize("without", [None, np.arange(3, 400, 7)])
def test_rows_have_a_group_per_target_and_relation(without):
    graph = Graph.of(DATA)
    dst = np.array([50, 3, 104, 41, 99, 7])
    rows = graph.rows(dst, without)
    indptr, edge = rows.edges()
    hidden = np.empty(0, int) if without is None else without
    groups = {}
    for position, node in enumerate(dst):
        edges = np.arange(graph.indptr[node], graph.indptr[node + 1])
        for relation in np.unique(graph.relation_of(edges)):
            own = edges[graph.relation_of(edges) == relation]
            groups[position, int(relation)] = np.setdiff1d(own, hidden)
    assert list(zip(rows.owner, rows.relation, strict=True)) == list(groups)
    np.testing.assert_array_equal(edge, np.concatenate(list(groups.values())))
    np.testing.assert_array_equal(rows.degree, [own.size for own in groups.values()])
    by_target = [sum(g.size for (t, _), g in groups.items() if t < n) for n in range(7)]
    np.testing.assert_array_equal(rows.by_target(indptr), by_target)
    own = graph.group_ptr[rows.group_id], graph.group_ptr[rows.group_id + 1]
    np.testing.assert_array_equal(rows.is_partial, rows.degree < own[1] - own[0])


def test_targets_without_edges_have_no_groups():
    data = HeteroData()
    data["a"].num_nodes, data["b"].num_nodes = 3, 2
    data["a", "to", "b"].edge_index = torch.tensor([[0, 1], [0, 0]])
    rows = Graph.of(data).rows(np.array([4, 0]))
    assert rows.owner.size == 0
    np.testing.assert_array_equal(rows.by_target(np.array([0])), [0, 0, 0])
    (block,) = bliss.Full(data, layers=1).sample([4, 0, 3], 0)
    assert block.degree.tolist() == [0, 0, 2]
    assert block.num_src_dict == {"a": 2, "b": 2}


def test_kernels_of_groups_agree_with_their_twins():
    graph = Graph.of(DATA)
    types, dst = graph.types, np.random.default_rng(0).permutation(105)[:30]
    given = dst, types.group_ptr, types.group_start
    ranges = links.typed_ranges(*given)
    for ours, twin in zip(ranges, twins.typed_ranges(*given), strict=True):
        np.testing.assert_array_equal(ours, twin)
    target_ptr, start, stop, _ = ranges
    for ours, twin in zip(
        links.places_by_range(dst, types.node_ptr),
        twins.places_by_range(dst, types.node_ptr),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, twin)
    edge = np.unique(np.random.default_rng(1).integers(0, graph.num_edges, 90))
    node = np.unique(graph.edge_index[1].numpy()[edge])
    given = start, stop, np.repeat(dst, np.diff(target_ptr)), node, edge
    for ours, twin in zip(split_ranges(*given), twins.split_ranges(*given), strict=True):
        np.testing.assert_array_equal(ours, twin)


def full_block(data: HeteroData = DATA) -> Block:
    (block,) = bliss.Full(data, layers=1).sample(np.arange(40, 100), 0)
    return block


def test_parts_of_a_block_are_local_to_their_types():
    block = full_block()
    nodes, targets = block.split(block.src), block.split(block.dst)
    assert block.num_dst_dict == {"author": 0, "paper": 60, "venue": 0}
    assert block.num_src_dict == {name: part.numel() for name, part in nodes.items()}
    for name in SIZES:
        torch.testing.assert_close(nodes[name][: targets[name].numel()], targets[name])
    torch.testing.assert_close(block.join(nodes), block.src)
    torch.testing.assert_close(block.join(targets), block.dst)
    for number, (edge_type, pairs) in enumerate(block.edge_index_dict.items()):
        place = block.relation == number
        assert pairs.size(1) == (RELATIONS.get(edge_type) or 0)
        torch.testing.assert_close(nodes[edge_type[0]][pairs[0]], block.src[block.row[place]])
        torch.testing.assert_close(targets[edge_type[2]][pairs[1]], block.dst[block.col[place]])


def test_aggregates_of_a_full_block_are_means_of_each_relation():
    block, x = full_block(), {name: DATA[name].x for name in SIZES}
    means, first = relation_means(DATA, x), dict(zip(SIZES, (0, 40, 100), strict=True))
    weight = block.edge_weight
    for number, (edge_type, pairs) in enumerate(block.edge_index_dict.items()):
        if edge_type[2] != "paper":
            continue
        own = weight[block.relation == number]
        nodes = block.split(block.src)[edge_type[0]] - first[edge_type[0]]
        message = x[edge_type[0]][nodes[pairs[0]]] * own[:, None]
        total = torch.zeros(60, message.size(1)).index_add(0, pairs[1], message)
        np.testing.assert_allclose(total, means[edge_type], atol=1e-5)


BAD = {
    "no nodes": (lambda data: data["author"].pop("x"), "type 'author' has no nodes"),
    "unknown type": (
        lambda data: data["author", "to", "nobody"].update(
            {"edge_index": torch.zeros(2, 1, dtype=torch.long)}
        ),
        "'nobody' is none of author, paper, venue",
    ),
    "an id too large": (
        lambda data: data["paper", "cites", "paper"].edge_index.fill_(60),
        r"edge_index of \('paper', 'cites', 'paper'\) holds 60",
    ),
    "no edges": (
        lambda data: data["paper", "cites", "paper"].pop("edge_index"),
        r"\('paper', 'cites', 'paper'\)\] has no edge_index",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_types_get_one_sentence(case):
    spoil, message = BAD[case]
    data = hetero()
    spoil(data)
    with pytest.raises(InputError, match=message):
        Graph.of(data)


def test_weights_that_are_not_used_are_named():
    data = hetero(weighted=True)
    with pytest.warns(UserWarning, match=r"data.edge_weight is not used.*norm=.weights"):
        Graph.of(data)
    assert Graph.of(data, "mean").norm == "mean"  # without a warning, which would be an error


def test_choices_without_meaning_are_refused():
    with pytest.raises(InputError, match='norm="gcn" divides by in-degrees of sources'):
        Graph.of(DATA, "gcn")
    data = hetero(weighted=True)
    del data["author", "writes", "paper"].edge_weight
    with pytest.raises(InputError, match=r"no entry for relation \('author', 'writes', 'paper'\)"):
        Graph.of(data, "weights")
    with pytest.raises(InputError, match="self_loops cannot be changed"):
        Graph.of(DATA, self_loops="add")
    with pytest.raises(InputError, match="RandomNodes draws one subgraph"):
        bliss.RandomNodes(DATA, layers=2)
    with pytest.raises(InputError, match="types are those of 105 nodes"):
        Graph([0, 1], [0], types=Graph.of(DATA).types)
    with pytest.raises(InputError, match="do not fit"):
        GraphTypes(("a",), np.array([0, 2]), (), np.array([0]), np.array([0]), np.array([], int))
