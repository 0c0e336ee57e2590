"""`FeatureEncoder`: features as a network takes them, with statistics of the training nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bliss import checks
from bliss.arrays import NOTHING, Array, BoolArray, FloatArray, IntArray
from bliss.data.feature_methods import METHODS
from bliss.data.features import rows_per_chunk
from bliss.data.npy import map_npy_private
from bliss.errors import InputError
from bliss.storage.cached import cached_npy
from bliss.storage.digests import array_digest
from bliss.storage.files import check_space
from bliss.storage.limits import allocating, memory_limit

LARGE = 10.0
"""Root mean square above which `auto` divides a sparse column by it."""
MEMORY_SHARE = 16
"""Encoded features of more than 1 / MEMORY_SHARE of the memory are kept in a file, which the
processes of a machine share."""
_ROUNDING = 1e-6  # a deviation of less than this, relative to the mean, is rounding


@dataclass(frozen=True, eq=False, repr=False)
class FeatureEncoder:
    """Encoding of features: unchanged, divided by row sums, or standardised by column.

    * ``"raw"``: x
    * ``"row"``: each row with a sum above 1 divided by its sum, as PyG's `NormalizeFeatures` does
    * ``"standard"``: (x_vf - shift_f) / scale_f

    Build it with `fit`. Statistics are those of the training nodes: keep the encoder with the
    network (`to_dict`), and encode other graphs with it.
    """

    method: str  # "raw", "row" or "standard"
    shift: FloatArray = field(default_factory=lambda: NOTHING)  # float32[F] for "standard"
    scale: FloatArray = field(default_factory=lambda: NOTHING)  # float32[F], positive

    @classmethod
    def fit(cls, method: str, x: Tensor, nodes: Tensor) -> FeatureEncoder:
        """The encoder of a method, with statistics of some nodes.

        * ``"standard"``: shift and scale are the mean and the standard deviation of each column;
          a constant column has scale 1.
        * ``"auto"``: the same for dense columns, which are those with at most half zeros. Columns
          of 0 and 1 stay as they are. Sparse columns keep their zeros (shift 0): those with a root
          mean square above 10 are divided by it, the others stay as they are. If all columns stay
          as they are, the method is "raw".

        Parameters
        ----------
        method
            "auto", "raw", "row" or "standard".
        x
            float32[V, F] or float16[V, F]. Rows are read in chunks.
        nodes
            Training nodes, int64[N].
        """
        checks.choice("features", method, METHODS)
        if method in ("raw", "row"):
            return cls(method)
        columns = _Columns.of(x, nodes)
        shift, deviation = columns.mean, columns.deviation
        scale = np.where(deviation > _ROUNDING * np.abs(shift), deviation, 1.0)
        if method == "auto":
            is_sparse = columns.zeros > 0.5
            size = columns.root_mean_square
            scale = np.where(is_sparse, np.where(size > LARGE, size, 1.0), scale)
            scale[columns.is_binary] = 1.0
            shift = np.where(is_sparse | columns.is_binary, 0.0, shift)
            if not shift.any() and (scale == 1).all():
                return cls("raw")
        return cls("standard", shift.astype(np.float32), scale.astype(np.float32))

    def __repr__(self) -> str:
        is_fitted = self.method == "standard"
        columns = f", {self.num_changed} of {self.shift.size} columns" if is_fitted else ""
        return f"FeatureEncoder({self.method!r}{columns})"

    @property
    def num_changed(self) -> int:
        """Number of columns that are standardised or divided."""
        return int(np.count_nonzero((self.shift != 0) | (self.scale != 1)))

    def transform(self, x: Tensor) -> Tensor:
        """Encoded rows, in memory. [N, F] -> float32[N, F]; for "raw" x itself."""
        self.check_width(x.size(1))
        if self.method == "raw":
            return x
        rows = x.float()
        if self.method == "row":
            return rows / rows.sum(dim=1, keepdim=True).clamp(min=1.0)
        return (rows - torch.from_numpy(self.shift)) / torch.from_numpy(self.scale)

    def transform_all(self, x: Tensor, folder: Path, key: Callable[[], str]) -> Tensor:
        """Encoded features of all nodes. [V, F] -> float32[V, F].

        Features of more than a sixteenth of the memory are encoded in chunks and kept as a
        memory-mapped file in `folder`, named by `key()`, a digest of the data; another run with
        the same data and encoder uses the file again.
        """
        size = 4 * x.numel()
        if self.method == "raw" or size <= memory_limit() // MEMORY_SHARE:
            with allocating(f"a copy of the features, {size:,} bytes", "choose --features raw"):
                return self.transform(x)
        self.check_width(x.size(1))
        own = array_digest(self.shift, self.scale)
        path = folder / f"features-{self.method}-{key()}-{own}.npy"
        if not path.exists():
            check_space(path, size)
        fill = partial(self._fill, x=x)
        cached_npy(path, tuple(x.shape), np.float32, fill, "encoded features")
        return torch.from_numpy(map_npy_private(path))

    def _fill(self, out: Array, x: Tensor) -> None:
        step = rows_per_chunk(x.size(1))
        for start in range(0, len(x), step):
            out[start : start + step] = self.transform(x[start : start + step]).numpy()

    def check_width(self, width: int) -> None:
        """Raise an error if features do not have the columns that the encoder was fitted to."""
        if self.shift.size and self.shift.size != width:
            raise InputError(
                f"the features have {width} columns, but the network was trained on "
                f"{self.shift.size}: pass the same columns in the same order."
            )

    def to_dict(self) -> dict[str, Tensor]:
        """Statistics by name: shift and scale, or nothing for "raw" and "row"."""
        if self.method != "standard":
            return {}
        return {"shift": torch.from_numpy(self.shift), "scale": torch.from_numpy(self.scale)}

    @classmethod
    def from_dict(cls, method: str, values: Mapping[str, Any]) -> FeatureEncoder:
        """The inverse of `to_dict`, for the setting `method`; "auto" without values is "raw"."""
        if not values:
            return cls("row" if method == "row" else "raw")
        if set(values) != {"shift", "scale"}:
            raise ValueError(f"statistics of features are {sorted(values)}, not scale and shift")
        shift, scale = (
            np.asarray(checks.as_array(name, values[name]), np.float32)
            for name in ("shift", "scale")
        )
        is_whole = shift.ndim == 1 and shift.shape == scale.shape
        if not is_whole or not np.isfinite(shift).all() or not (scale > 0).all():
            raise ValueError("the statistics of features are not finite, or of different lengths")
        return cls("standard", shift, scale)


@dataclass
class _Columns:
    """Statistics of columns over N rows, added up chunk by chunk."""

    count: int
    mean: FloatArray  # float64[F]
    square: FloatArray  # float64[F] sum of squared differences from the mean
    nonzero: IntArray  # int64[F] rows in which the column is not 0
    is_binary: BoolArray  # bool[F] whether all values are 0 or 1

    @classmethod
    def of(cls, x: Tensor, nodes: Tensor) -> _Columns:
        width = x.size(1)
        zeros = np.zeros(width)
        total = cls(0, zeros, zeros, zeros.astype(np.int64), np.ones(width, bool))
        for rows in _chunks(x, nodes):
            total = total.joined(rows)
        return total

    def joined(self, rows: FloatArray) -> _Columns:
        """Statistics with further rows [n, F], by the pairwise formula of Chan et al."""
        count = self.count + len(rows)
        mean = rows.mean(axis=0)
        square = np.square(rows - mean).sum(axis=0)
        apart = mean - self.mean
        share = len(rows) / count
        return _Columns(
            count,
            self.mean + apart * share,
            self.square + square + np.square(apart) * self.count * share,
            self.nonzero + np.count_nonzero(rows, axis=0),
            self.is_binary & ((rows == 0) | (rows == 1)).all(axis=0),
        )

    @property
    def deviation(self) -> FloatArray:
        return np.sqrt(self.square / self.count)

    @property
    def root_mean_square(self) -> FloatArray:
        return np.sqrt(self.square / self.count + np.square(self.mean))

    @property
    def zeros(self) -> FloatArray:
        """Share of zeros."""
        return 1 - self.nonzero / self.count


def _chunks(x: Tensor, nodes: Tensor) -> Iterator[FloatArray]:
    """Rows of some nodes. float64[n, F] each."""
    for part in torch.split(nodes, rows_per_chunk(x.size(1))):
        yield x.index_select(0, part).double().numpy()
