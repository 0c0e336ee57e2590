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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from bliss import checks
from bliss.data.arrays import map_npy
from bliss.errors import InputError, ResourceError

if TYPE_CHECKING:
    from bliss.graph import Graph, Norm

FORMAT = "bliss-graph-1"


def save_graph(graph: Graph, folder: str | PathLike[str]) -> None:
    """Write `graph` to a folder that does not exist yet; a kill leaves nothing half-written."""
    with fresh_folder(folder) as scratch:
        write_graph(graph, scratch)


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


@contextmanager
def fresh_folder(folder: str | PathLike[str]) -> Iterator[Path]:
    """Give a scratch folder that takes its name only when everything in it is written.

    A kill or an error leaves the name free; what cannot be written says so in one sentence.
    """
    destination = Path(folder)
    if destination.exists():
        raise InputError(
            f"folder={str(destination)!r} exists already: choose another name or remove it first."
        )
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{destination.name}.", dir=destination.parent))
    except OSError as error:
        raise ResourceError(
            f"folder={str(destination)!r} cannot be made ({error.strerror or error}): choose a "
            "place where you may write."
        ) from error
    try:
        yield scratch
        scratch.chmod(0o755)  # mkdtemp makes private folders
        os.rename(scratch, destination)
        _flush_folder(destination.parent)
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        raise ResourceError(
            f"folder={str(destination)!r} could not be written ({error.strerror or error}): free "
            "some space or choose another place."
        ) from error
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def write_graph(graph: Graph, folder: Path) -> None:
    """Write the files of a graph into an existing folder."""
    write_npy(folder / "indptr.npy", graph.indptr)
    write_npy(folder / "indices.npy", graph.indices)
    if graph.norm == "weights":
        write_npy(folder / "weight.npy", graph.weight)
    write_json(
        folder / "graph.json",
        {
            "format": FORMAT,
            "norm": graph.norm,
            "num_nodes": graph.num_nodes,
            "num_edges": graph.num_edges,
        },
    )


def write_npy(file: Path, array: npt.NDArray[Any]) -> None:
    """Write an array and wait until it is on the disk."""
    with open(file, "wb") as stream:
        np.save(stream, array, allow_pickle=False)
        _flush(stream)


def write_npy_rows(
    file: Path, chunks: Iterable[npt.NDArray[Any]], shape: tuple[int, int], dtype: type
) -> None:
    """Write a .npy file piece by piece: chunks of rows that make up `shape` together.

    Written, not mapped: on a full disk a write fails with an error, a mapping with a signal.
    """
    with open(file, "wb") as stream:
        kind = np.lib.format.dtype_to_descr(np.dtype(dtype))
        header = {"descr": kind, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_2_0(stream, header)
        rows = 0
        for chunk in chunks:
            stream.write(np.ascontiguousarray(chunk, dtype).data)
            rows += len(chunk)
        if rows != shape[0]:
            raise InputError(
                f"{file.name} was to have {shape[0]} rows, but {rows} came: its source changed "
                "while it was read, try again."
            )
        _flush(stream)


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write JSON and wait until it is on the disk."""
    with open(file, "w", encoding="utf-8") as stream:
        json.dump(content, stream, indent=2)
        _flush(stream)


def read_json(file: Path, remedy: str = "write it again") -> Any:
    """Read JSON; what is not JSON gets one sentence."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file} is not valid JSON ({error}): {remedy}.") from error


def _read_header(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise InputError(f"folder={str(path)!r} is not a folder: pass one with indptr.npy in it.")
    file = path / "graph.json"
    if not file.exists():
        return {}
    header = read_json(file, "write the graph again")
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"{file} is not of format {FORMAT!r}: write the graph with Graph.save.")
    return header


def _map(path: Path, name: str) -> npt.NDArray[Any]:
    file = path / f"{name}.npy"
    if not file.exists():
        raise InputError(f"{file} is missing: a graph folder needs indptr.npy and indices.npy.")
    return map_npy(file)


def _flush(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """Make the new name itself last; only POSIX systems open folders."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
