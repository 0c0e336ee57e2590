"""Checks of user input, made before any work starts. NumPy is imported only to check arrays."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bliss.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from torch import Tensor

    from bliss.arrays import Array, FloatArray


_BYTES = re.compile(r"(\d+(?:\.\d+)?(?:e\d{1,2})?) ?(|[kmgt]i?b?|b)", re.IGNORECASE)
_UNITS = {"": 1, "b": 1} | {
    f"{letter}{ending}": base ** (power + 1)
    for power, letter in enumerate("kmgt")
    for ending, base in (("", 1024), ("i", 1024), ("ib", 1024), ("b", 1000))
}


def as_array(field: str, values: Any) -> Array:
    """Convert an array, a tensor on any device, or a list to a NumPy array."""
    import numpy as np

    if hasattr(values, "detach"):  # a torch tensor, perhaps of a subclass such as PyG's EdgeIndex
        return np.asarray(_dense(field, values).cpu().numpy())
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(
            f"{field} cannot be converted to an array ({error}): pass rows of equal length."
        ) from error


def _dense(field: str, tensor: Any) -> Tensor:
    """A tensor that holds its values one after the other, in a type that NumPy knows."""
    import torch

    if tensor.layout != torch.strided:
        raise InputError(f"{field} is {tensor.layout}: pass a dense tensor, {field}.to_dense().")
    if tensor.is_meta:
        raise InputError(
            f"{field} is on the device meta, without values: pass a tensor that has them."
        )
    plain: Tensor = tensor.detach().as_subclass(torch.Tensor)
    return plain.float() if plain.dtype == torch.bfloat16 else plain


def node_ids(field: str, ids: Any, num_nodes: int) -> npt.NDArray[np.integer[Any]]:
    """One-dimensional integer ids in [0, num_nodes), as a NumPy array. [N]."""
    array = _integers(field, ids)
    if array.ndim != 1:
        raise InputError(
            f"{field} has shape {array.shape}, but must be one-dimensional: pass a flat array of "
            "node ids."
        )
    if array.size == 0:
        return array
    low, high = int(array.min()), int(array.max())
    if low < 0:
        raise InputError(
            f"{field} holds {low}, but node ids start at 0: remove padding or shift the ids."
        )
    if high >= num_nodes:
        raise InputError(
            f"{field} holds {high}, but the graph has {num_nodes} nodes (ids 0 to "
            f"{num_nodes - 1}): remove that id, or build the graph with more nodes."
        )
    return array


def node_pairs(field: str, pairs: Any, num_nodes: int) -> npt.NDArray[np.int64]:
    """Pairs of node ids, sources over targets. int64[2, P]."""
    import numpy as np

    array = as_array(field, pairs)
    if array.ndim != 2 or array.shape[0] != 2:
        raise InputError(
            f"{field} has shape {array.shape}, but must be [2, P], sources over targets: transpose "
            "it if it is [P, 2]."
        )
    ids = node_ids(field, array.reshape(-1), num_nodes)
    return ids.astype(np.int64, copy=False).reshape(2, -1)


def seeds(
    ids: Any, num_nodes: int, field: str = "seeds", distinct: bool = True
) -> npt.NDArray[np.int64]:
    """Distinct node ids, at least one, from ids or from a mask over all nodes. int64[B]."""
    import numpy as np

    given = as_array(field, ids)
    if given.dtype == np.bool_:
        if given.shape != (num_nodes,):
            raise InputError(
                f"{field} is a mask of shape {given.shape} for {num_nodes} nodes: pass one entry "
                "per node."
            )
        given = np.flatnonzero(given)
    array = np.ascontiguousarray(node_ids(field, given, num_nodes), dtype=np.int64)
    if array.size == 0:
        raise InputError(f"{field} is empty, but there must be at least one node: pass node ids.")
    if not distinct:
        return array
    ordered = np.sort(array)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if repeated.size:
        raise InputError(
            f"{field} holds node {int(repeated[0])} more than once, but node ids must be "
            "distinct: remove duplicates, for instance with numpy.unique."
        )
    return array


def weights(field: str, values: Any, num_edges: int, start: int = 0) -> npt.NDArray[np.float32]:
    """One finite, non-negative float32 per edge. [E]. `start` is the first position in messages."""
    import numpy as np

    array = as_array(field, values)
    if array.dtype.kind not in "fiu":
        raise InputError(
            f"{field} has type {array.dtype}, but weights must be numbers: convert it to float32."
        )
    if array.shape != (num_edges,):
        raise InputError(
            f"{field} has shape {array.shape}, but there are {num_edges} edges: pass one weight "
            "per edge."
        )
    with np.errstate(over="ignore"):
        array = array.astype(np.float32, copy=False)
    if not np.isfinite(array).all():
        position = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InputError(
            f"{field}[{start + position}] is {array[position]}, but weights must be finite in "
            "float32: remove that edge or set its weight to a finite number."
        )
    if array.size and array.min() < 0:
        position = int(array.argmin())
        raise InputError(
            f"{field}[{start + position}] is {array[position]}, but weights must not be negative: "
            "remove the edge, or move its sign to the features."
        )
    return array


def features(values: Any, num_nodes: int) -> FloatArray:
    """Finite features with one row per node; copied only to convert. float32[V, F]."""
    import numpy as np

    if values is None:
        raise InputError("x is missing, but features are needed: pass x=..., [V, F].")
    given = as_array("x", values)
    if given.ndim != 2 or len(given) != num_nodes or given.dtype.kind not in "fiu":
        raise InputError(
            f"x is {given.dtype} of shape {given.shape}, but the graph has {num_nodes} nodes: pass "
            "one row of features per node."
        )
    array = np.ascontiguousarray(given, dtype=np.float32)
    if not np.isfinite(array).all():
        raise InputError("x holds NaN or infinity: replace these features by finite numbers.")
    return array


def budgets(
    values: Sequence[Any], layers: int | None = None, kind: str = "layers"
) -> tuple[int | dict[str, int], ...]:
    """Positive integers, or -1 for all, one per layer, input layer first.

    A layer may have a dictionary instead, by type of nodes or relation; a relation that is given by
    several names is then called by them, separated by commas.
    """
    if isinstance(values, Integral) or not hasattr(values, "__iter__"):
        raise InputError(
            f"budgets={values!r} must be a list with one number per layer, input layer first: "
            "write for instance budgets=[4096, 2048, 1024]."
        )
    if isinstance(values, Mapping):
        raise InputError(
            "budgets is a dictionary, but must be a list with an entry per layer, input layer "
            "first, of which each may be a dictionary by type or relation: write for instance "
            'budgets=[{"author": 64, "paper": 128}, 32].'
        )
    checked = [_layer_budget(f"budgets[{place}]", value) for place, value in enumerate(values)]
    if not checked:
        raise InputError(
            "budgets is empty, but each layer needs one: pass for instance budgets=[1024]."
        )
    if layers is not None and len(checked) != layers:
        raise InputError(
            f"budgets={checked} has {len(checked)} entries for {layers} {kind}: give one budget "
            "per layer, input layer first."
        )
    return tuple(checked)


def _layer_budget(field: str, value: Any) -> int | dict[str, int]:
    """A budget of one layer: a number, or numbers by type or relation."""
    if not isinstance(value, Mapping):
        return _budget(field, value)
    divided: dict[str, int] = {}
    for key, number in value.items():
        name = ",".join(map(str, key)) if isinstance(key, (tuple, list)) else str(key)
        divided[name] = _budget(f"{field}[{name!r}]", number)
    return divided


def _budget(field: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(
            f"{field}={value!r} must be a whole number of sources to keep: write for instance 1024."
        )
    if value <= 0 and value != -1:
        raise InputError(
            f"{field}={value} must be at least 1, because every layer needs sources: write for "
            "instance 1024, or -1 for all."
        )
    return int(value)


def whole(field: str, value: Any, least: int = 0) -> int:
    """A whole number of 64 bits, at least `least`."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not (is_whole and least <= value < 2**63):
        raise InputError(
            f"{field}={value!r} must be a whole number, {least} or larger"
            + (", of at most 63 bits." if is_whole and value >= 2**63 else ".")
        )
    return int(value)


def byte_count(field: str, value: Any) -> int:
    """A number of bytes: a whole number, or a text such as "4GiB", "512 MiB" or "2e9"."""
    match = _BYTES.fullmatch(value.strip()) if isinstance(value, str) else None
    if match:
        value = int(float(match[1]) * _UNITS[match[2].lower()])
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not (is_whole and 1 <= value < 2**63):
        raise InputError(
            f"{field}={value!r} must be a number of bytes, at least 1: write for instance 4GiB."
        )
    return int(value)


def flag(field: str, value: Any) -> bool:
    """True or False."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise InputError(f"{field}={value!r} must be True or False.")
    return bool(value)


def share(field: str, value: float, why: str) -> float:
    """A number in (0, 1]; `why` completes the error message."""
    if not (_is_number(value) and 0 < value <= 1):
        raise InputError(f"{field}={value!r} must be a number in (0, 1]: {why}")
    return float(value)


def positive(field: str, value: float, why: str) -> float:
    """A finite number above 0; `why` completes the error message."""
    if not (_is_number(value) and 0 < value <= sys.float_info.max):
        raise InputError(f"{field}={value!r} must be a finite number above 0: {why}")
    return float(value)


def not_negative(field: str, value: float, why: str) -> float:
    """A finite number, 0 or larger; `why` completes the error message."""
    if not (_is_number(value) and 0 <= value <= sys.float_info.max):
        raise InputError(f"{field}={value!r} must be a finite number, 0 or larger: {why}")
    return float(value)


def choice(field: str, value: str, choices: Sequence[str]) -> str:
    """One of the names in `choices`."""
    if value not in choices:
        raise InputError(f"{field}={value!r} is not known: choose one of {', '.join(choices)}.")
    return value


def path(field: str, value: Any) -> Path:
    """A path that the system accepts, with ~ expanded; the file need not exist."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else value
    if not isinstance(text, str) or not text:
        raise InputError(f"{field}={value!r} must be the path of a file or folder: pass a string.")
    shown = text if len(text) <= 200 else f"{text[:200]}..."
    try:
        expanded = Path(text).expanduser()
        os.stat(expanded)
    except RuntimeError as error:  # ~name of an unknown user
        raise InputError(
            f"{field}={shown!r} names an unknown user: write the path in full."
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a null character or a lone surrogate
        if getattr(error, "errno", errno.EINVAL) in (errno.EINVAL, errno.ENAMETOOLONG, errno.ELOOP):
            reason = getattr(error, "strerror", None) or error
            raise InputError(
                f"{field}={shown!r} cannot be a path ({reason}): choose another name."
            ) from error
    return expanded


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _integers(field: str, values: Any) -> npt.NDArray[np.integer[Any]]:
    array = as_array(field, values)
    if array.size == 0 and array.dtype.kind == "f":
        return array.astype("int64")  # numpy gives an empty list the type float64
    if array.dtype.kind not in "iu":
        raise InputError(
            f"{field} has type {array.dtype}, but node ids are whole numbers: convert it to int64."
        )
    return array
