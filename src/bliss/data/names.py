"""Names of nodes: the user's own ids, whole numbers or text, beside the numbers 0 to V - 1.

pyarrow is imported inside the functions because its import is slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bliss.arrays import Array, IntArray
from bliss.errors import InputError
from bliss.text import printable

LONGEST = 1000
"""Largest length of a name, in bytes of UTF-8."""
NAMES, ENDS = "names.npy", "name_ends.npy"


class NodeNames:
    """Distinct names of V nodes.

    Whole numbers are kept as numbers. Text is kept as UTF-8, all names one after the other, so that
    names can be mapped into memory.
    """

    def __init__(self, values: Array, ends: IntArray | None = None) -> None:
        self.values = values  # int64[V], or uint8[N] with `ends`
        self.ends = ends  # int64[V]: the byte after each name

    @classmethod
    def of(cls, column: Any, field: str = "names") -> NodeNames:
        """Names from a pyarrow array of int64 or string, after a check that they are distinct."""
        from pyarrow import compute

        counts = compute.value_counts(column)
        if len(counts) != len(column):
            name = next(pair["values"] for pair in counts if pair["counts"].as_py() > 1)
            raise InputError(
                f"{field} has the id {shown(name.as_py())} more than once: keep one row per node."
            )
        if str(column.type) == "int64":
            return cls(np.array(column, np.int64))
        encoded = [name.encode() for name in column.to_pylist()]
        ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), ends)

    @classmethod
    def check(cls, values: Array, ends: IntArray | None) -> NodeNames:
        """Names from the arrays of a store, after a check of every byte."""
        names = cls(values, ends)
        is_whole = values.dtype == np.int64 if ends is None else values.dtype == np.uint8
        if not is_whole or values.ndim != 1 or (ends is not None and ends.dtype != np.int64):
            raise ValueError(f"names are of type {values.dtype}")
        if ends is not None and (ends.size and ends[-1] != values.size):
            raise ValueError("the names end at another byte than their array")
        names.arrow().validate(full=True)
        return names

    @property
    def is_text(self) -> bool:
        """Whether the names are text."""
        return self.ends is not None

    @property
    def files(self) -> Mapping[str, Array]:
        """Arrays by the name of their file in a store."""
        return {NAMES: self.values} | ({} if self.ends is None else {ENDS: self.ends})

    def __repr__(self) -> str:
        return f"NodeNames({len(self)}{f', such as {shown(self[0])}' if len(self) else ''})"

    def __len__(self) -> int:
        return self.values.size if self.ends is None else self.ends.size

    def __iter__(self) -> Iterator[str | int]:
        return iter(self.tolist())

    def __getitem__(self, node: int) -> str | int:
        """Name of a node."""
        if self.ends is None:
            return int(self.values[node])
        node = range(self.ends.size)[node]
        start = int(self.ends[node - 1]) if node else 0
        return bytes(self.values[start : int(self.ends[node])]).decode()

    def tolist(self) -> list[str | int]:
        """All names."""
        names: list[str | int] = self.arrow().to_pylist()
        return names

    def arrow(self) -> Any:
        """All names as a pyarrow array, without a copy of the text."""
        import pyarrow as arrow

        if self.ends is None:
            return arrow.array(self.values)
        starts = np.concatenate([np.zeros(1, np.int64), self.ends])
        buffers = [
            None,
            arrow.py_buffer(starts),
            arrow.py_buffer(np.ascontiguousarray(self.values)),
        ]
        return arrow.Array.from_buffers(arrow.large_string(), self.ends.size, buffers)

    def find(self, field: str, column: Any) -> IntArray:
        """Numbers of the nodes that a pyarrow array of int64 or string names. int64[N]."""
        import pyarrow as arrow
        from pyarrow import compute

        own = self.arrow()
        if str(column.type) != "int64" or self.is_text:  # compare as text
            own, column = own.cast(arrow.large_string()), column.cast(arrow.large_string())
        place = compute.index_in(column, value_set=own)
        if place.null_count:
            missing = column.filter(compute.is_null(place))
            raise InputError(
                f"{field} names {len(compute.unique(missing)):,} nodes that the features do not "
                f"have, such as {shown(missing[0].as_py())}: add their rows to the features, or "
                "remove them."
            )
        return np.asarray(place).astype(np.int64)


def shown(name: str | int) -> str:
    """A name for a message: printable, and not too long."""
    text = printable(str(name))
    return repr(text if len(text) <= 60 else f"{text[:60]}...") if isinstance(name, str) else text
