"""`PyGStore`: a dataset as PyG's FeatureStore and GraphStore."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import EdgeAttr, FeatureStore, GraphStore, TensorAttr

from bliss.data.dataset import Dataset
from bliss.errors import InputError


class PyGStore(FeatureStore, GraphStore):  # type: ignore[misc]
    """A dataset, for instance an imported folder, in the place of both stores of PyG's loaders.

    Pass (store, store) as `data`. Features and edges stay where they are, in memory or in files:
    rows are read when they are asked for. The attributes are x and y, of nodes (group None) or, in
    a heterogeneous graph, of each type. Edges are in the layout CSC, of the whole graph or of each
    relation. A store is read alone.

    Parameters
    ----------
    dataset
        The dataset.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> pairs = torch.tensor([[0, 1], [1, 2]])
    >>> data = Data(x=torch.rand(3, 2), y=torch.tensor([0, 1, 0]), edge_index=pairs)
    >>> store = PyGStore(Dataset.from_data(data))
    >>> store.get_tensor(None, "y", torch.tensor([1, 2]))
    tensor([1, 0])
    >>> row, colptr, _ = store.csc()
    """

    def __init__(self, dataset: Dataset) -> None:
        FeatureStore.__init__(self)
        GraphStore.__init__(self)
        self.dataset, self.types = dataset, dataset.graph.types
        self._tensors: dict[tuple[Any, str], Tensor] = {}
        if self.types is None or dataset.typed is None:
            self._tensors = {(None, "x"): dataset.x, (None, "y"): dataset.y}
            return
        for name, x in dataset.typed.x.items():
            if x.size(1):
                self._tensors[name, "x"] = x
        labelled = dataset.typed.node_type
        self._tensors[labelled, "y"] = dataset.y[self.types.range_of(labelled)]

    def __repr__(self) -> str:
        return f"PyGStore({self.dataset!r})"

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """Groups and names of all attributes."""
        return [TensorAttr(group, name) for group, name in self._tensors]

    def _get_tensor(self, attr: TensorAttr) -> Tensor | None:
        tensor = self._tensors.get((attr.group_name, attr.attr_name))
        if tensor is None or attr.index is None:
            return tensor
        index = attr.index
        if isinstance(index, np.ndarray):
            index = torch.from_numpy(index)
        return tensor[index]

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        tensor = self._tensors.get((attr.group_name, attr.attr_name))
        return None if tensor is None else tuple(tensor.shape)

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """The relations, or one entry without a type."""
        if self.types is None:
            nodes = self.dataset.graph.num_nodes
            return [EdgeAttr(None, "csc", is_sorted=True, size=(nodes, nodes))]
        sizes = self.types.num_nodes
        return [
            EdgeAttr(one, "csc", is_sorted=True, size=(sizes[one[0]], sizes[one[2]]))
            for one in self.types.edge_types
        ]

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        """Sources and pointers of targets, int64, as ids within their types."""
        graph, types = self.dataset.graph, self.types
        if edge_attr.layout.value != "csc":
            return None
        if types is None:
            arrays = graph.indices, graph.indptr
        else:
            number = types.relation(edge_attr.edge_type)
            source, _, target = edge_attr.edge_type
            own = types.range_of(target)
            first, last = types.group_ptr[own.start], types.group_ptr[own.stop]
            group = first + np.flatnonzero(types.group_relation[first:last] == number)
            start, size = types.group_start[group], np.diff(types.group_start)[group]
            before = np.concatenate([[0], np.cumsum(size)])  # edges of the relation, by group
            indptr = before[np.searchsorted(group, types.group_ptr[own.start : own.stop + 1])]
            edge = np.repeat(start - before[:-1], size)
            edge += np.arange(edge.size)
            arrays = graph.indices[edge] - types.range_of(source).start, indptr
        row, pointer = (torch.from_numpy(np.array(one, np.int64)) for one in arrays)
        return row, pointer

    def _refuse(self) -> InputError:
        return InputError(
            "a PyGStore is read alone: change the dataset, for instance by a new import."
        )

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        raise self._refuse()

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        raise self._refuse()

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        raise self._refuse()

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise self._refuse()
