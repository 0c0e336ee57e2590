"""Graphs on disk: a folder of .npy files that are mapped into memory, not read.

    graph.json    format, norm, numbers of nodes and edges (optional when you write it yourself)
    indptr.npy    int64[V + 1]
    indices.npy   int32[E] or int64[E], sources by target
    weight.npy    float32[E], with norm "weights"

Nothing in it is ever unpickled. Opening checks every pointer and index once, because the kernels
trust them.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from bliss import checks
from bliss.errors import InputError

if TYPE_CHECKING:
    from bliss.graph import Graph, Norm

FORMAT = "bliss-graph-1"


def save_graph(graph: Graph, folder: str | PathLike[str]) -> None:
    """Write `graph` to a folder that does not exist yet; a kill leaves nothing half-written."""
    destination = Path(folder)
    if destination.exists():
        raise InputError(
            f"folder={str(destination)!r} exists already: choose another name or remove it first."
        )
    destination.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{destination.name}.", dir=destination.parent))
    try:
        for name, array in _arrays(graph).items():
            with open(scratch / f"{name}.npy", "wb") as file:
                np.save(file, array, allow_pickle=False)
                _flush(file)
        header = {
            "format": FORMAT,
            "norm": graph.norm,
            "num_nodes": graph.num_nodes,
            "num_edges": graph.num_edges,
        }
        with open(scratch / "graph.json", "w", encoding="utf-8") as text:
            json.dump(header, text, indent=2)
            _flush(text)
        scratch.chmod(0o755)  # mkdtemp makes private folders
        os.rename(scratch, destination)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def open_graph(folder: str | PathLike[str], norm: Norm | None = None) -> Graph:
    """Map the arrays of a folder into memory, check them, and make a `Graph` of them."""
    from bliss.graph import Graph

    path = Path(folder)
    header = _read_header(path)
    norm = norm or cast("Norm", header.get("norm", "mean"))
    checks.choice("norm", norm, ("mean", "gcn", "weights"))
    indptr, indices = _map(path, "indptr"), _map(path, "indices")
    for name, expected, found in (
        ("num_nodes", header.get("num_nodes"), indptr.size - 1),
        ("num_edges", header.get("num_edges"), indices.size),
    ):
        if expected is not None and expected != found:
            raise InputError(
                f"{path / 'graph.json'} says {name}={expected}, but the arrays have {found}: the "
                "folder is damaged, write it again."
            )
    weight = _map(path, "weight") if norm == "weights" else None
    return Graph.from_csc(
        indptr, indices, weight=weight, norm=norm, self_loops="keep", duplicates="keep"
    )


def _arrays(graph: Graph) -> dict[str, npt.NDArray[Any]]:
    arrays: dict[str, npt.NDArray[Any]] = {"indptr": graph.indptr, "indices": graph.indices}
    if graph.norm == "weights":
        arrays["weight"] = graph.weight
    return arrays


def _read_header(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise InputError(f"folder={str(path)!r} is not a folder: pass one with indptr.npy in it.")
    file = path / "graph.json"
    if not file.exists():
        return {}
    try:
        header = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file} is not valid JSON ({error}): write the graph again.") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"{file} is not of format {FORMAT!r}: write the graph with Graph.save.")
    return header


def _map(path: Path, name: str) -> npt.NDArray[Any]:
    file = path / f"{name}.npy"
    if not file.exists():
        raise InputError(f"{file} is missing: a graph folder needs indptr.npy and indices.npy.")
    try:
        return cast("npt.NDArray[Any]", np.load(file, mmap_mode="r", allow_pickle=False))
    except (ValueError, EOFError, OSError) as error:
        raise InputError(
            f"{file} cannot be read as an array ({error}): it is cut short or not a .npy file, "
            "write it again."
        ) from error


def _flush(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())
