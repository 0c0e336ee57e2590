"""JSON values -> the dataclasses of records.py, or a ValueError that says where and what is off."""

from __future__ import annotations

import math
import types
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints


def decode(kind: Any, value: Any, where: str) -> Any:
    """Turn a JSON value into `kind`; a ValueError says where and what is off."""
    if is_dataclass(kind):
        return _record(kind, _typed(dict, "an object", value, where), where)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is list:
        values = [] if value is None else _typed(list, "a list", value, where)
        return [decode(inner[0], item, f"{where}[{n}]") for n, item in enumerate(values)]
    if origin is dict:
        items = {} if value is None else _typed(dict, "an object", value, where)
        return {_printable(k): decode(inner[1], v, f"{where}.{k}") for k, v in items.items()}
    if origin in (Union, types.UnionType):  # number or text
        return decode(str if isinstance(value, str) else float, value, where)
    if kind is float:
        return _number(value, where)
    if kind is int:
        return _typed(int, "a whole number", value, where)
    if kind is str:
        return _printable("" if value is None else _typed(str, "text", value, where))
    return value


def _record(kind: Any, values: dict[str, Any], where: str) -> Any:
    hints = get_type_hints(kind)
    known = {f.name: hints[f.name] for f in fields(kind)}
    given = {k: decode(known[k], v, f"{where}.{k}") for k, v in values.items() if k in known}
    try:
        return kind(**given)
    except TypeError:
        missing = [f.name for f in fields(kind) if f.name not in given and _is_needed(f)]
        raise ValueError(f"{where} lacks {', '.join(missing)}") from None
    except ValueError as error:
        raise ValueError(f"{where} {error}") from None


def _is_needed(entry: Any) -> bool:
    return entry.default is entry.default_factory  # both are dataclasses.MISSING


def _number(value: Any, where: str) -> float:
    if value is None:
        return math.nan
    try:
        given = float(_typed((int, float), "a number", value, where))
    except OverflowError:
        return math.nan
    return given if math.isfinite(given) else math.nan


def _typed(kind: Any, name: str, value: Any, where: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{where} is {_short(value)}, not {name}")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"


def _printable(text: str) -> str:
    """Text that HTML and SVG can hold: control characters and lone surrogates are replaced."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)
