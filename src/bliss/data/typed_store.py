"""Files of a store that belong to types of nodes and edges.

    group_ptr.npy, group_start.npy, group_relation.npy    groups of edges, see `GraphTypes`
    features_T.npy, names_T.npy, name_ends_T.npy          of type number T, if it has any

graph.json names the types, dataset.json the type that has labels and the columns of tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bliss import checks
from bliss.arrays import Array
from bliss.data.names import NodeNames
from bliss.data.npy import map_npy, map_npy_private, write_npy
from bliss.data.safe_reading import in_one_sentence
from bliss.data.table_encoder import TableEncoder
from bliss.data.typed_nodes import TypedNodes
from bliss.errors import InputError
from bliss.graph import GraphTypes

GROUPS = ("group_ptr", "group_start", "group_relation")
GROUP_FILES = tuple(f"{name}.npy" for name in GROUPS)


def features_file(number: int) -> str:
    """File of the features of a type, by its number."""
    return f"features_{number}.npy"


def names_files(number: int) -> tuple[str, str]:
    """Files of the names of the nodes of a type, and of their ends."""
    return f"names_{number}.npy", f"name_ends_{number}.npy"


def write_groups(folder: Path, types: GraphTypes) -> None:
    """Write the groups of edges."""
    for name in GROUPS:
        write_npy(folder / f"{name}.npy", getattr(types, name))


def types_header(types: GraphTypes) -> dict[str, Any]:
    """What graph.json says about types."""
    relations = [list(edge_type) for edge_type in types.edge_types]
    return {"node_types": types.num_nodes, "edge_types": relations}


def open_types(folder: Path, header: Mapping[str, Any]) -> GraphTypes | None:
    """Types of a graph store; None if it has none. Their values are not checked."""
    if "types" not in header:
        return None
    remedy = "import the graph again"
    with in_one_sentence(str(folder), "types of nodes and edges", remedy):
        sizes, relations = header["types"]["node_types"], header["types"]["edge_types"]
        names = [str(name) for name in sizes]
        number = [checks.whole(f"num_nodes of {name!r}", sizes[name], least=1) for name in names]
        edge_types = [(str(s), str(r), str(t)) for s, r, t in relations]
        if any(end not in names for s, _, t in edge_types for end in (s, t)):
            raise ValueError("a relation is between unknown types")
        arrays = [_whole(folder / file, map_npy(folder / file)) for file in GROUP_FILES]
        pointers = np.concatenate([[0], np.cumsum(number, dtype=np.int64)])
        return GraphTypes(tuple(names), pointers, tuple(edge_types), *arrays)


def _whole(file: Path, array: Array) -> Array:
    kind = np.int32 if file.name == "group_relation.npy" else np.int64
    if array.dtype != kind or array.ndim != 1 or (kind == np.int64 and not array.size):
        raise InputError(f"{file} has type {array.dtype}{list(array.shape)}: import it again.")
    return array


def nodes_header(typed: TypedNodes) -> dict[str, Any]:
    """What dataset.json says about the nodes of types."""
    encoders = {name: encoder.to_dict() for name, encoder in typed.encoders.items()}
    return {"node_type": typed.node_type, "features": encoders}


def names_arrays(typed: TypedNodes) -> dict[str, Array]:
    """Arrays of names by file."""
    found: dict[str, Array] = {}
    for number, name in enumerate(typed.x):
        if name in typed.names:
            arrays = typed.names[name].files.values()
            found |= dict(zip(names_files(number), arrays, strict=False))
    return found


def open_nodes(
    folder: Path, header: Mapping[str, Any], types: GraphTypes | None
) -> TypedNodes | None:
    """Features and names by type; None if the store has no types."""
    if types is None:
        return None
    files = header["files"]
    with in_one_sentence(str(folder), "nodes of several types", "import the graph again"):
        own = header["typed"]
        encoders = {str(n): TableEncoder.from_dict(one) for n, one in own["features"].items()}
        x, names = {}, {}
        for number, (name, size) in enumerate(types.num_nodes.items()):
            x[name] = torch.empty(size, 0)
            if features_file(number) in files:
                array = map_npy_private(folder / features_file(number))
                if array.dtype not in (np.float32, np.float16):
                    raise ValueError(f"features of {name!r} are {array.dtype}")
                x[name] = torch.from_numpy(array)
            values, ends = names_files(number)
            if values in files:
                text = map_npy(folder / ends) if ends in files else None
                names[name] = NodeNames.check(map_npy(folder / values), text)
                if len(names[name]) != size:
                    raise ValueError(f"{len(names[name])} names for {size} nodes of {name!r}")
        for name, encoder in encoders.items():
            if name not in x or len(encoder.feature_names) != x[name].size(1):
                raise ValueError(f"the columns of {name!r} do not fit its features")
        types.node_type(own["node_type"])
        return TypedNodes(x, str(own["node_type"]), names, encoders)
