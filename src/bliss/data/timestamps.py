"""Times of edges, nodes and links: whole numbers, or dates as microseconds since 1970 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from bliss.arrays import Array, IntArray
from bliss.errors import InputError

NUMBER, DATE = "number", "date"
"""Units of times: the user's own whole numbers, or microseconds since 1970 in UTC."""
_DAY = 86_400_000_000  # microseconds
_EXACT = 2.0**53  # above it floats skip whole numbers
_FORMS = "whole numbers, or dates such as 2024-05-01T12:00:00+02:00 (without a zone: UTC)"


class Times(NamedTuple):
    """Times with their unit."""

    value: IntArray  # int64[N]
    unit: str  # NUMBER or DATE


def column_times(field: str, name: str, column: Any) -> Times:
    """Times of a pyarrow column: integers, floats that are whole, dates or timestamps.

    A timestamp without a zone is taken as UTC, one with a zone is converted.
    """
    import pyarrow as arrow
    from pyarrow import types

    shown, kind = f"{field} has the column {name!r} of times", column.type
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise InputError(f"{shown} without a time in row {row}: fill it, or remove the row.")
    if types.is_timestamp(kind):
        moments = column.cast(arrow.timestamp("us", kind.tz), safe=False)
        return Times(np.asarray(moments.cast(arrow.int64())), DATE)
    if types.is_date(kind):
        days = column.cast(arrow.date32()).cast(arrow.int32())
        return Times(np.asarray(days).astype(np.int64) * _DAY, DATE)
    if types.is_integer(kind) or types.is_floating(kind):
        return array_times(shown, np.asarray(column))
    example = column[0].as_py() if len(column) else ""
    for row, text in enumerate(column.to_pylist() if "string" in str(kind) else ()):
        try:
            has_zone = datetime.fromisoformat(text.strip()).tzinfo is not None
        except ValueError:
            raise InputError(
                f"{shown}, which holds {text[:40]!r} in row {row}, but times must be {_FORMS}: "
                "convert it."
            ) from None
        if has_zone != (datetime.fromisoformat(column[0].as_py().strip()).tzinfo is not None):
            raise InputError(
                f"{shown}, of which some have a time zone and others do not; row {row} "
                f"({text[:40]!r}) differs from the first: give all of them one, or none."
            )
    raise InputError(f"{shown} of type {kind} (as {example!r}), but times must be {_FORMS}.")


def array_times(shown: str, values: Array) -> Times:
    """Times of an array of numbers [N]; `shown` begins the message of an error."""
    if values.dtype.kind == "M":
        if np.isnat(values).any():
            raise InputError(f"{shown} of which some are missing (NaT): fill them.")
        return Times(values.astype("datetime64[us]").astype(np.int64), DATE)
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise InputError(f"{shown} of which some are missing or infinite: fill them.")
        is_whole = (values == np.round(values)) & (np.abs(values) <= _EXACT)
        if not is_whole.all():
            wrong = float(values[~is_whole][0])
            raise InputError(
                f"{shown} with fractions such as {wrong!r}, but times are whole numbers: multiply "
                "them, for instance from seconds to milliseconds."
            )
    if values.dtype.kind not in "iuf" or values.ndim != 1:
        raise InputError(
            f"{shown} of type {values.dtype} and shape {values.shape}, but times must be {_FORMS}."
        )
    return Times(values.astype(np.int64), NUMBER)


def common_unit(**units: str) -> str:
    """The unit of all times of an import, by what they belong to; empty without times."""
    given = {name: unit for name, unit in units.items() if unit}
    if len(set(given.values())) > 1:
        listed = ", ".join(f"{name}: {unit}s" for name, unit in given.items())
        raise InputError(
            f"times are numbers and dates ({listed}), which cannot be compared: convert them to "
            "one of these."
        )
    return next(iter(given.values()), "")


def parse_time(field: str, text: str | int, unit: str) -> int:
    """A time of a user in the unit of the data: a whole number, or a date."""
    try:
        if unit != DATE:
            return int(text)
        moment = datetime.fromisoformat(str(text).strip())
    except ValueError:
        form = "a date such as 2024-05-01 or 2024-05-01T12:00+02:00"
        form = form if unit == DATE else "a whole number"
        raise InputError(
            f"{field}={text!r} must be {form}, as the times of the data are: write it so."
        ) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def time_text(value: int, unit: str) -> str:
    """A time as text: a number, or a date in UTC, without what is 0 at its end."""
    if unit != DATE:
        return str(value)
    try:
        moment = datetime.fromtimestamp(value // 1_000_000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(value)
    text = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return text[:10] if value % _DAY == 0 else text
