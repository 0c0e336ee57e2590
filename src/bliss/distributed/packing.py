"""Policy updates as bytes, for other processes: a header in JSON, then the arrays.

Arrays of ids are sorted by source where their order has no meaning, and stored as differences, 7
bits to a byte. Logarithms (`LOGARITHMS`) are rounded to half precision, which is finer than what
policies keep of them if they are below 64. Other numbers are stored as they are. So a kept source
takes about three bytes, and five with attention.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bliss.arrays import Array, Bytes
from bliss.errors import InputError
from bliss.feedback import LOGARITHMS, News

_LENGTH = np.dtype("<u8")  # of the header, in front of it
_KINDS = "biuf"
_RAW, _DELTA, _HALF = range(3)  # forms of an array
_HALF_TYPE = np.dtype("<f2")
_FAULT = (
    "an update from another process cannot be read ({}): start all processes with the same "
    "version of bliss."
)


def pack_news(shards: Iterable[Sequence[News]]) -> Bytes:
    """Updates of several shards, each by layer, as bytes; `unpack_news` is the inverse.

    Arrays of sources come back sorted, and logarithms rounded.
    """
    header: list[list[list[Any]]] = []
    parts: list[Bytes] = []
    for shard in shards:
        layers: list[list[Any]] = []
        for news in shard:
            entries: list[Any] = []
            for name, array in _sorted_by_source(news).items():
                form = _form(name, array)
                content = _content(array, form)
                entries.append([name, array.dtype.str, list(array.shape), form, content.size])
                parts.append(content)
            layers.append(entries)
        header.append(layers)
    text = np.frombuffer(json.dumps(header, separators=(",", ":")).encode(), np.uint8)
    length = np.array([text.size], _LENGTH).view(np.uint8)
    return np.concatenate([length, text, *parts])


def unpack_news(content: Bytes) -> list[list[News]]:
    """Updates of the shards in the bytes that `pack_news` made."""
    try:
        start = _LENGTH.itemsize
        end = start + int(content[:start].view(_LENGTH)[0])
        header, place = json.loads(content[start:end].tobytes()), end
        shards: list[list[News]] = []
        for layers in header:
            shard: list[News] = []
            for entries in layers:
                news: dict[str, Array] = {}
                for name, kind, shape, form, size in entries:
                    part = content[place : place + size]
                    news[name] = _array(part, np.dtype(kind), shape, form)
                    place += size
                shard.append(news)
            shards.append(shard)
        if place != content.size:
            raise ValueError(f"{content.size} bytes in place of {place}")
        return shards
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise InputError(_FAULT.format(error)) from error


def _form(name: str, array: Array) -> int:
    """How an array is stored: differences of whole numbers, logarithms in half, others as is."""
    if array.ndim == 1 and array.dtype.kind in "iu" and array.dtype.itemsize > 1:
        return _DELTA
    return _HALF if name in LOGARITHMS and array.dtype.kind == "f" else _RAW


def _content(array: Array, form: int) -> Bytes:
    if form == _DELTA:
        return _differences(array)
    return _raw(array.astype(_HALF_TYPE) if form == _HALF else array)


def _array(part: Bytes, kind: np.dtype[Any], shape: Sequence[int], form: int) -> Array:
    if kind.kind not in _KINDS:
        raise ValueError(f"arrays of type {kind}")
    if form == _DELTA:
        values = np.cumsum(_unzigzag(_from_groups(part))).astype(kind)
    elif form == _HALF:
        values = np.frombuffer(part.tobytes(), _HALF_TYPE).astype(kind)
    else:
        values = np.frombuffer(part.tobytes(), kind)
    return values.reshape(shape)


def _raw(array: Array) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _sorted_by_source(news: News) -> News:
    """An update with its sources in increasing order, if all arrays have one number per source."""
    source = news.get("source")
    if source is None or any(array.shape != source.shape for array in news.values()):
        return news
    order = np.argsort(source, kind="stable")
    return {name: array[order] for name, array in news.items()}


def _differences(array: Array) -> Bytes:
    """Differences of neighbours as groups of 7 bits; small differences of any sign are short."""
    steps: npt.NDArray[np.int64] = array.astype(np.int64)
    steps[1:] -= steps[:-1].copy()
    return _to_groups(((steps << 1) ^ (steps >> 63)).view(np.uint64))


def _unzigzag(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    half = (values >> np.uint64(1)).view(np.int64)
    return half ^ -(values & np.uint64(1)).view(np.int64)


def _to_groups(values: npt.NDArray[np.uint64]) -> Bytes:
    """Each number in groups of 7 bits, lowest first; the top bit marks that another follows."""
    lengths = np.ones(values.size, np.int64)
    rest = values >> np.uint64(7)
    while rest.any():
        lengths += rest > 0
        rest >>= np.uint64(7)
    start = np.cumsum(lengths) - lengths
    out = np.empty(int(lengths.sum()), np.uint8)
    for group in range(int(lengths.max(initial=0))):
        longer = lengths > group
        bits = (values[longer] >> np.uint64(7 * group)) & np.uint64(0x7F)
        more = (lengths[longer] > group + 1).astype(np.uint64) << np.uint64(7)
        out[start[longer] + group] = bits | more
    return out


def _from_groups(content: Bytes) -> npt.NDArray[np.uint64]:
    """The numbers that `_to_groups` wrote."""
    stop = np.flatnonzero(content < 0x80) + 1
    start = np.concatenate([[0], stop[:-1]]).astype(np.int64)[: stop.size]
    lengths = stop - start
    if lengths.max(initial=0) > 10 or (stop[-1:] != content.size).any():
        raise ValueError("a number has no end")
    values = np.zeros(stop.size, np.uint64)
    for group in range(int(lengths.max(initial=0))):
        longer = lengths > group
        bits = content[start[longer] + group].astype(np.uint64) & np.uint64(0x7F)
        values[longer] |= bits << np.uint64(7 * group)
    return values
