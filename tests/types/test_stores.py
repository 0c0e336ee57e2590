"""PyG's stores: one call per batch, and the batches of the same data in memory."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch_geometric import typing as pyg
from torch_geometric.data import Data, EdgeAttr, FeatureStore, GraphStore, HeteroData, TensorAttr
from torch_geometric.loader import NeighborLoader, NodeLoader
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput

import bliss
from bliss.data import Dataset, PyGStore, open_store, save_dataset
from bliss.errors import InputError
from bliss.graph import Graph
from tests.types.graphs import RELATIONS, SIZES, hetero, typed_dataset

FIRST = dict(zip(SIZES, (0, 40, 100), strict=True))


class OwnStore(FeatureStore, GraphStore):
    """A store of one's own, which counts the calls for features."""

    def __init__(self, tensors: dict, edges: dict, sizes: dict) -> None:
        FeatureStore.__init__(self)
        GraphStore.__init__(self)
        self.tensors, self.edges, self.sizes = tensors, edges, sizes
        self.calls = self.single = 0

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        return [TensorAttr(*key) for key in self.tensors]

    def _get_tensor(self, attr):
        self.single += 1
        return self._rows(attr)

    def _rows(self, attr):
        whole = self.tensors[attr.group_name, attr.attr_name]
        return whole if attr.index is None else whole[attr.index]

    def _multi_get_tensor(self, attrs):
        self.calls += 1
        return [self._rows(attr) for attr in attrs]

    def _get_tensor_size(self, attr):
        return tuple(self._rows(attr).shape)

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        return [EdgeAttr(key, "coo", size=self.sizes[key]) for key in self.edges]

    def _get_edge_index(self, attr):
        return self.edges[attr.edge_type]

    def _put_tensor(self, tensor, attr): ...
    def _remove_tensor(self, attr): ...
    def _put_edge_index(self, edge_index, edge_attr): ...
    def _remove_edge_index(self, edge_attr): ...


def typed_store(data: HeteroData) -> OwnStore:
    tensors = {(name, "x"): data[name].x for name in SIZES}
    tensors["paper", "y"] = data["paper"].y
    tensors |= {(one, "edge_attr"): data[one].edge_attr for one in RELATIONS}
    sizes = {one: (SIZES[one[0]], SIZES[one[2]]) for one in data.edge_types}
    return OwnStore(tensors, {one: data[one].edge_index for one in data.edge_types}, sizes)


def plain_store(data: Data) -> OwnStore:
    tensors = {
        (None, "x"): data.x,
        (None, "y"): data.y,
        ((None, None), "edge_attr"): data.edge_attr,
    }
    return OwnStore(tensors, {None: data.edge_index}, {None: (105, 105)})


def plain_data() -> Data:
    data = hetero(4).to_homogeneous()
    values = torch.arange(2 * data.num_edges).view(-1, 2).float()
    return Data(x=data.x, y=torch.arange(105), edge_index=data.edge_index, edge_attr=values)


def assert_equal(ours, theirs) -> None:
    """Lists of tensors, tensors and numbers are the same."""
    if isinstance(ours, list):
        for one, two in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, two)
    else:
        torch.testing.assert_close(ours, theirs)


def test_a_typed_store_gives_the_batches_of_its_data_in_one_call_each():
    data = hetero()
    store = typed_store(data)
    seeds = ("paper", data["paper"].train_mask)
    loaders = [
        bliss.BlockLoader(given, bliss.Bliss(given, [20, 10]), seeds, batch_size=8, shuffle=True)
        for given in ((store, store), data)
    ]
    for number, (ours, theirs) in enumerate(zip(*loaders, strict=True), start=1):
        assert (store.calls, store.single) == (number, 0)
        for name in SIZES:
            torch.testing.assert_close(ours[name].x, theirs[name].x)
            torch.testing.assert_close(ours[name].n_id, theirs[name].n_id)
        for one in RELATIONS:
            expected = [data[one].edge_attr[ids] for ids in ours[one].e_id]
            assert_equal(ours[one].edge_attr, expected)
            for block, ids in zip(ours.blocks, ours[one].e_id, strict=True):
                part = block.relations[one]
                ends = torch.stack([part.src[part.row], part.dst[part.col]])
                first = torch.tensor([[FIRST[one[0]]], [FIRST[one[2]]]])
                torch.testing.assert_close(ends, data[one].edge_index[:, ids] + first)
        for name in ("y", "input_id", "batch_size"):
            assert_equal(ours["paper"][name], theirs["paper"][name])


def test_a_plain_store_gives_the_batches_of_its_data_in_one_call_each():
    data = plain_data()
    store = plain_store(data)
    loaders = [
        bliss.BlockLoader(given, bliss.PLADIES(Graph.of(given), [30]), batch_size=40)
        for given in ((store, store), data)
    ]
    for number, (ours, theirs) in enumerate(zip(*loaders, strict=True), start=1):
        assert (store.calls, store.single) == (number, 0)
        assert set(ours.n_id.tolist()) == set(theirs.n_id.tolist())
        torch.testing.assert_close(ours.x, data.x[ours.n_id])
        torch.testing.assert_close(ours.y, theirs.y)
        (ids,) = ours.e_id
        torch.testing.assert_close(ours.edge_attr[0], data.edge_attr[ids])
        pairs = torch.stack([ours.n_id[ours.blocks[0].row], ours.blocks[0].dst[ours.blocks[0].col]])
        torch.testing.assert_close(pairs, data.edge_index[:, ids])
    links = bliss.LinkLoader(
        (store, store), loaders[0].node_sampler, data.edge_index[:, :9], batch_size=9
    )
    (batch,) = links
    torch.testing.assert_close(batch.n_id[batch.edge_label_index], data.edge_index[:, :9])
    every = bliss.LinkLoader((store, store), loaders[0].node_sampler, batch_size=data.num_edges)
    (batch,) = every
    torch.testing.assert_close(batch.n_id[batch.edge_label_index], data.edge_index)


@pytest.mark.parametrize("number", [9, None])
def test_links_of_a_relation_come_from_stores(number):
    """Those that are given, or all of the relation; no layer sees their edges."""
    data, key = hetero(), ("author", "writes", "paper")
    store = typed_store(data)
    wanted = data[key].edge_index[:, :number]
    links = key if number is None else (key, wanted)
    sampler = bliss.Full((store, store), layers=1)
    (batch,) = bliss.LinkLoader((store, store), sampler, links, batch_size=200)
    source, target = batch[key].edge_label_index
    found = torch.stack([batch["author"].n_id[source], batch["paper"].n_id[target]])
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(batch["author"].x, data["author"].x[batch["author"].n_id])
    assert (batch.blocks[0].relations[key].num_edges == 0) == (number is None)


@pytest.mark.parametrize("is_typed", [False, True])
def test_local_stores_of_pyg(is_typed):
    distributed = pytest.importorskip("torch_geometric.distributed")
    if is_typed:
        data = hetero()
        ids = {one: torch.arange(data[one].num_edges) for one in data.edge_types}
        nodes = {name: torch.arange(size) for name, size in SIZES.items()}
        values = {one: data[one].edge_attr for one in RELATIONS}
        features = distributed.LocalFeatureStore.from_hetero_data(
            nodes, data.x_dict, data.y_dict, ids, values
        )
        edges = distributed.LocalGraphStore.from_hetero_data(ids, data.edge_index_dict, SIZES)
        loader = bliss.BlockLoader(
            (features, edges), bliss.PLADIES((features, edges), [20]), "paper", batch_size=20
        )
        batch = next(iter(loader))
        torch.testing.assert_close(batch["author"].x, data["author"].x[batch["author"].n_id])
        one = ("author", "writes", "paper")
        (kept,) = batch[one].e_id
        torch.testing.assert_close(batch[one].edge_attr[0], data[one].edge_attr[kept])
        pairs = batch.blocks[0].edge_index_dict[one]
        ends = [batch[one[2 * side]].n_id[pairs[side]] for side in (0, 1)]
        torch.testing.assert_close(torch.stack(ends), data[one].edge_index[:, kept])
        return
    data = plain_data()
    ids = torch.arange(data.num_edges)
    features = distributed.LocalFeatureStore.from_data(
        torch.arange(105), data.x, data.y, ids, data.edge_attr
    )
    edges = distributed.LocalGraphStore.from_data(ids, data.edge_index, 105)
    sampler = bliss.PLADIES((features, edges), [30])
    batch = next(iter(bliss.BlockLoader((features, edges), sampler, batch_size=40)))
    torch.testing.assert_close(batch.x, data.x[batch.n_id])
    block, (kept,) = batch.blocks[0], batch.e_id
    pairs = torch.stack([block.src[block.row], block.dst[block.col]])
    torch.testing.assert_close(pairs, data.edge_index[:, kept])
    torch.testing.assert_close(batch.edge_attr[0], data.edge_attr[kept])


def test_weights_of_a_store_are_those_of_its_edges():
    data = hetero(weighted=True)
    store = typed_store(data)
    store.tensors |= {(one, "edge_weight"): data[one].edge_weight for one in data.edge_types}
    ours, theirs = (Graph.of(given, "weights") for given in ((store, store), data))
    np.testing.assert_array_equal(ours.indices, theirs.indices)
    relation = ours.relation_of(np.arange(ours.num_edges))
    for number, one in enumerate(data.edge_types):
        ids = ours.edge_id[relation == number]  # parallel edges may come in another order
        np.testing.assert_array_equal(ours.weight[relation == number], data[one].edge_weight[ids])


def test_bad_stores_get_one_sentence():
    data = hetero()
    store = typed_store(data)
    with pytest.raises(InputError, match="no edge_weight for relation"):
        Graph.of((store, store), "weights")
    with pytest.raises(InputError, match="self-loops, which are not added to the edges of a store"):
        Graph.of((store, store), "gcn")
    with pytest.raises(InputError, match="self_loops cannot be used with stores"):
        Graph.of((store, store), self_loops="add")
    empty = copy.copy(store)
    empty.edges = {}
    with pytest.raises(InputError, match="the graph store has no edges"):
        Graph.of((empty, empty))
    plain = plain_store(plain_data())
    with pytest.raises(InputError, match="but the sampler's graph has"):
        bliss.BlockLoader((plain, plain), bliss.Full(data, layers=1), "paper")


def test_a_folder_serves_the_loaders_of_pyg_as_both_stores(tmp_path):
    """Rows and edges are those of the data; a loader over the pair gives the same batches."""
    plain = plain_data()
    plain.y = plain.y % 3
    for given in (Dataset.from_data(plain, "plain"), typed_dataset(60)):
        store = PyGStore(open_store(save_dataset(given, tmp_path / given.name)))
        rows, pointers, _ = store.csc()
        if given.typed is None:
            rows, pointers = {None: rows}, {None: pointers}
        graph = Graph.of((store, store))
        np.testing.assert_array_equal(graph.indices, given.graph.indices)
        np.testing.assert_array_equal(graph.indptr, given.graph.indptr)
        assert sum(row.numel() for row in rows.values()) == given.graph.num_edges
        seeds = None if given.typed is None else "paper"
        loader = bliss.BlockLoader(
            (store, store), bliss.PLADIES((store, store), [10]), seeds, batch_size=20
        )
        batch = next(iter(loader))
        if given.typed is None:
            torch.testing.assert_close(batch.x, given.x[batch.n_id])
        else:
            for name in ("author", "paper"):
                torch.testing.assert_close(batch[name].x, given.typed.x[name][batch[name].n_id])
            assert "x" not in batch["venue"]
        assert store.get_tensor_size(store.get_all_tensor_attrs()[0])[0] > 0
        with pytest.raises(InputError, match="is read alone"):
            store.put_tensor(torch.ones(1), group_name=None, attr_name="z", index=None)


WRITES = ("author", "writes", "paper")


class Authors(BaseSampler):
    """All authors of the seeds, read from the edges of a store."""

    def __init__(self, store: PyGStore) -> None:
        self.row, self.pointer = store.get_edge_index(edge_type=WRITES, layout="csc")

    def sample_from_nodes(self, index, **options):
        parts = [self.row[self.pointer[i] : self.pointer[i + 1]] for i in index.node.tolist()]
        author, row = torch.cat(parts).unique(return_inverse=True)
        sizes = torch.tensor([part.numel() for part in parts])
        col = torch.arange(len(parts)).repeat_interleave(sizes)
        nodes = {"author": author, "paper": index.node}
        ends = {WRITES: row}, {WRITES: col}
        return HeteroSamplerOutput(nodes, *ends, None, metadata=(index.input_id, index.time))

    def sample_from_edges(self, index, neg_sampling=None): ...


@pytest.fixture
def opened(tmp_path) -> tuple[Dataset, PyGStore]:
    """A heterogeneous dataset, and the store of its folder."""
    given = typed_dataset(60)
    return given, PyGStore(open_store(save_dataset(given, tmp_path / "folder")))


def test_a_loader_of_pyg_with_an_own_sampler_reads_a_folder(opened):
    given, store = opened
    x, paper = given.typed.x, given.graph.types.range_of("paper")
    source, target = given.graph.edge_index.numpy()
    relation = given.graph.relation_of(np.arange(source.size))
    own = relation == given.graph.types.relation(WRITES)
    pairs = zip(source[own].tolist(), (target[own] - paper.start).tolist(), strict=True)
    seen = []
    for batch in NodeLoader((store, store), Authors(store), input_nodes="paper", batch_size=25):
        for name in ("author", "paper"):
            torch.testing.assert_close(batch[name].x, x[name][batch[name].n_id])
        torch.testing.assert_close(batch["paper"].y, given.y[paper][batch["paper"].n_id])
        row, col = batch[WRITES].edge_index
        ends = batch["author"].n_id[row].tolist(), batch["paper"].n_id[col].tolist()
        seen += zip(*ends, strict=True)
    assert sorted(seen) == sorted(pairs)


@pytest.mark.filterwarnings("ignore:Using .NeighborSampler. without:UserWarning")
def test_a_neighbour_loader_of_pyg_takes_the_edges_of_a_folder(opened):
    """Pointers and sources of each relation; batches where pyg-lib is installed."""
    given, store = opened
    types = given.graph.types
    loader = NeighborLoader((store, store), [3, 2], input_nodes="paper", batch_size=25)
    relation = given.graph.relation_of(np.arange(given.graph.num_edges))
    for number, one in enumerate(types.edge_types):
        start = np.array([[types.range_of(one[0]).start], [types.range_of(one[2]).start]])
        source, target = given.graph.edge_index.numpy()[:, relation == number] - start
        degree = np.bincount(target, minlength=types.num_nodes[one[2]])
        name = "__".join(one)
        np.testing.assert_array_equal(loader.node_sampler.row_dict[name], source)
        pointer = loader.node_sampler.colptr_dict[name]
        np.testing.assert_array_equal(pointer, np.append(0, degree.cumsum()))
    if not pyg.WITH_PYG_LIB:
        return
    for batch in loader:
        for name in ("author", "paper"):
            torch.testing.assert_close(batch[name].x, given.typed.x[name][batch[name].n_id])
