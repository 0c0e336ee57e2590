"""Digests of files, arrays and JSON values: 128 bits of BLAKE2b.

They reveal damage, not forgery.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # neither NumPy nor torch is imported to read a JSON file
    from torch import Tensor

    from bliss.arrays import Array

_CHUNK = 1 << 20  # bytes
_KEY = "digest"


def new_digest() -> Any:
    """An empty digest, with `update` and `hexdigest`."""
    return hashlib.blake2b(digest_size=16)


def file_digest(path: Path) -> str:
    """Digest of a file's content, read in chunks."""
    digest, buffer = new_digest(), bytearray(_CHUNK)
    with open(path, "rb", buffering=0) as stream:
        while size := stream.readinto(buffer):
            digest.update(memoryview(buffer)[:size])
    return str(digest.hexdigest())


def array_digest(*arrays: Array) -> str:
    """Digest of the types, shapes and values of arrays of one or more axes, in this order."""
    digest = new_digest()
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode())
        step = max(1, _CHUNK // max(1, array[:1].nbytes))
        for start in range(0, len(array), step):  # a copy of a chunk is small
            digest.update(array[start : start + step].tobytes())
    return str(digest.hexdigest())


def tensor_digest(tensors: Mapping[str, Tensor]) -> str:
    """Digest of the names, types, shapes and values of tensors, whatever their order."""
    import torch

    ordered = sorted(tensors.items())
    kinds = [[name, str(tensor.dtype), [*tensor.shape]] for name, tensor in ordered]
    flat = (tensor.detach().cpu().contiguous().reshape(-1) for _, tensor in ordered)
    return json_digest(kinds, array_digest(*(part.view(torch.uint8).numpy() for part in flat)))


def json_digest(values: Any, after: str = "") -> str:
    """Digest of JSON values; `after` is a digest that it continues."""
    digest = new_digest()
    digest.update(after.encode())
    digest.update(json.dumps(values, sort_keys=True).encode())
    return str(digest.hexdigest())


def sealed(values: Mapping[str, Any], after: str = "") -> dict[str, Any]:
    """Values with their digest as the last entry."""
    return {**values, _KEY: json_digest(values, after)}


def is_sealed(values: Any, after: str = "") -> bool:
    """Whether values hold the digest of the rest of them."""
    if not isinstance(values, dict) or _KEY not in values:
        return False
    rest = {name: value for name, value in values.items() if name != _KEY}
    return bool(values[_KEY] == json_digest(rest, after))
