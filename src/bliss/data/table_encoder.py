"""`TableEncoder`: columns of a table as features, so that other tables can be encoded alike.

pyarrow is imported inside the functions because its import is slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bliss.arrays import BoolArray, FloatArray
from bliss.data.names import LONGEST
from bliss.data.problems import raise_problems
from bliss.errors import InputError
from bliss.storage.digests import new_digest
from bliss.text import is_number, printable, shorten

MAX_CATEGORIES = 64
"""Default of `max_categories`."""
MISSING = ("", "#N/A", "#NA", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null")
"""Text that stands for a missing value; in columns of numbers, Arrow takes the same."""


@dataclass(frozen=True)
class ColumnEncoder:
    """How a column becomes one or several features.

    * ``"number"``: one feature; a missing value becomes the mean of the known ones
    * ``"categories"``: one feature per category, 1 where the column has it and 0 elsewhere
    * ``"hashed"``: `width` features; a category is 1 in the one that a hash of its text chooses

    If the column had missing values when the encoder was fitted, a last feature is 1 where the
    value is missing. A missing or unknown category is 0 in all others.
    """

    name: str
    kind: str = "number"
    categories: tuple[str, ...] = ()  # sorted
    width: int = 0  # of "hashed"
    mean: float = 0.0  # of the known numbers
    marks_missing: bool = False

    @property
    def feature_names(self) -> list[str]:
        """Names of the features."""
        names = {
            "number": [self.name],
            "categories": [f"{self.name}={category}" for category in self.categories],
            "hashed": [f"{self.name}#{place}" for place in range(self.width)],
        }[self.kind]
        return [*names, f"{self.name} is missing"] if self.marks_missing else names

    def encode(self, column: Any) -> FloatArray:
        """Features of a pyarrow array [N], as float64[N, F]."""
        features = np.zeros((len(column), len(self.feature_names)))
        if self.kind == "number":
            values, is_missing = numbers_of(self.name, column)
            features[:, 0] = np.where(is_missing, self.mean, values)
        else:
            place, is_missing = self._places(column)
            row = np.flatnonzero(place >= 0)
            features[row, place[row]] = 1.0
        if self.marks_missing:
            features[:, -1] = is_missing
        return features

    def _places(self, column: Any) -> tuple[Any, BoolArray]:
        """Feature of each entry, -1 for none, and whether it is missing. int64[N], bool[N]."""
        import pyarrow as arrow
        from pyarrow import compute

        text = text_of(column)
        is_missing = np.asarray(compute.is_null(text))
        if self.kind == "categories":
            known = arrow.array(self.categories, arrow.large_string())
            place = compute.index_in(text, value_set=known, skip_nulls=True)
            return np.asarray(place.fill_null(-1)).astype(np.int64), is_missing
        encoded = text.dictionary_encode()
        hashed = [_hash(category) % self.width for category in encoded.dictionary.to_pylist()]
        place = np.asarray(encoded.indices.fill_null(len(hashed))).astype(np.int64)
        return np.array([*hashed, -1], np.int64)[place], is_missing


@dataclass(frozen=True, repr=False)
class TableEncoder:
    """Features from the columns of a table, in order. Build it with `fit`."""

    columns: tuple[ColumnEncoder, ...]

    def __repr__(self) -> str:
        return f"TableEncoder(columns={len(self.columns)}, features={len(self.feature_names)})"

    @property
    def feature_names(self) -> list[str]:
        """Names of the features. [F]."""
        return [name for column in self.columns for name in column.feature_names]

    @classmethod
    def fit(
        cls,
        names: Sequence[str],
        batches: Iterable[Sequence[Any]],
        max_categories: int = MAX_CATEGORIES,
    ) -> tuple[TableEncoder, tuple[str, ...]]:
        """An encoder for columns, with notes about categories and missing values.

        Text is one-hot encoded, or hashed into `max_categories` features if it has more categories.
        Raises one error with the problems of all columns.

        names    of the columns
        batches  parts of the table: one pyarrow array per column
        """
        seen = [_Seen(name) for name in names]
        for batch in batches:
            for one, column in zip(seen, batch, strict=True):
                one.add(column)
        raise_problems([problem for one in seen for problem in one.problems()])
        notes = [note for one in seen for note in one.notes(max_categories)]
        return cls(tuple(one.encoder(max_categories) for one in seen)), tuple(notes)

    def transform(self, columns: Sequence[Any]) -> FloatArray:
        """Features of a part of a table: one pyarrow array [N] per column. float64[N, F]."""
        parts = [one.encode(column) for one, column in zip(self.columns, columns, strict=True)]
        return np.concatenate(parts, axis=1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: of each column, what differs from the default."""
        columns = []
        for column in self.columns:
            default = asdict(ColumnEncoder(column.name))
            own = {k: v for k, v in asdict(column).items() if k == "name" or v != default[k]}
            columns.append({k: list(v) if isinstance(v, tuple) else v for k, v in own.items()})
        return {"columns": columns}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableEncoder:
        """The inverse of `to_dict`; raises a `ValueError` for other values."""
        return cls(tuple(_checked(one) for one in values["columns"]))


def _checked(values: Mapping[str, Any]) -> ColumnEncoder:
    column = ColumnEncoder(**{**values, "categories": tuple(values.get("categories", ()))})
    is_right = (
        all(isinstance(text, str) for text in (column.name, *column.categories))
        and column.kind in ("number", "categories", "hashed")
        and type(column.width) is int
        and 0 < column.width + (column.kind != "hashed") <= 1 << 20
        and isinstance(column.mean, (int, float))
        and bool(np.isfinite(column.mean))
        and type(column.marks_missing) is bool
    )
    if not is_right:
        raise ValueError(f"column {shorten(repr(values), 60)} cannot be encoded")
    return column


class _Seen:
    """What the parts of a column hold."""

    def __init__(self, name: str) -> None:
        self.name, self.kind = name, ""
        self.rows = self.missing = 0
        self.total = 0.0  # of the known numbers
        self.categories: set[str] = set()

    def add(self, column: Any) -> None:
        """Count the entries of a pyarrow array."""
        self.rows += len(column)
        kind = _kind(column.type)
        if kind == "nothing":
            self.missing += len(column)
            return
        self.kind = kind if self.kind in ("", kind) else f"{self.kind} and {kind}"
        if kind == "number":
            values, is_missing = numbers_of(self.name, column)
            self.total += float(values[~is_missing].sum())
            self.missing += int(is_missing.sum())
        elif kind == "text":
            text = text_of(column)
            self.missing += text.null_count
            self.categories |= set(text.drop_null().unique().to_pylist())

    @property
    def known(self) -> int:
        return self.rows - self.missing

    def problems(self) -> list[str]:
        """What keeps the column from being encoded; empty if nothing does."""
        name = printable(self.name)
        leave = "leave it out with feature_columns=... (--feature-columns)"
        if self.rows and not self.known:
            return [f"features has no value in column {name!r}: {leave}."]
        if self.kind not in ("", "number", "text"):
            return [
                f"features has column {name!r} of type {self.kind}, but must hold numbers or text: "
                f"convert it, or {leave}."
            ]
        if self.kind != "text":
            return []
        longest = max(self.categories, key=len)
        if len(longest) > LONGEST:
            return [
                f"features has a text of {len(longest):,} characters in column {name!r}, but "
                f"categories have at most {LONGEST:,}: shorten it, or {leave}."
            ]
        words = [text for text in self.categories if not is_number(text)]
        if words and len(words) <= len(self.categories) / 2:
            return [
                f"features has text in column {name!r}, such as {shorten(min(words), 40)!r}, among "
                f"numbers: correct it, clear it if the value is missing, or {leave}."
            ]
        if len(self.categories) == self.rows > 2:
            return [
                f"features has a different text in each row of column {name!r}, such as "
                f"{shorten(min(self.categories), 40)!r}: pass id_column={name!r} (--id-column) if "
                f"these are the ids of nodes, or {leave}."
            ]
        return []

    def encoder(self, most: int) -> ColumnEncoder:
        """The encoder of the column."""
        has_gaps = self.missing > 0
        if self.kind != "text":
            mean = self.total / max(self.known, 1)
            return ColumnEncoder(self.name, mean=mean, marks_missing=has_gaps)
        if len(self.categories) > most:
            return ColumnEncoder(self.name, "hashed", width=most, marks_missing=has_gaps)
        names = tuple(sorted(self.categories))
        return ColumnEncoder(self.name, "categories", names, marks_missing=has_gaps)

    def notes(self, most: int) -> list[str]:
        """How categories and missing values were encoded."""
        notes, name, number = [], printable(self.name), len(self.categories)
        if self.kind == "text" and number > most:
            notes.append(
                f"Column {name} has {number:,} categories, hashed into {most} features: "
                "--max-categories raises the limit."
            )
        elif self.kind == "text":
            few = "1 category" if number == 1 else f"{number} categories"
            notes.append(f"Column {name} has {few}, a feature each.")
        if self.missing:
            gaps = "1 missing value" if self.missing == 1 else f"{self.missing:,} missing values"
            mean = self.total / max(self.known, 1)
            filled = (
                "" if self.kind == "text" else f"set to the mean of the others ({mean:.4g}) and "
            )
            notes.append(f"Column {name} has {gaps}, {filled}marked by a feature.")
        return notes


def _kind(kind: Any) -> str:
    """One of number, text and nothing (no values), or the name of a type that is not encoded."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return "number"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    return "nothing" if types.is_null(kind) else str(kind)


def numbers_of(name: str, column: Any) -> tuple[FloatArray, BoolArray]:
    """Numbers of a pyarrow array, and whether they are missing (empty or NaN). [N], [N].

    A column without any value may have another type.
    """
    import pyarrow as arrow
    from pyarrow import compute, types

    if _kind(column.type) == "nothing":
        return np.full(len(column), np.nan), np.ones(len(column), np.bool_)
    if types.is_boolean(column.type):
        column = column.cast(arrow.uint8())
    if _kind(column.type) != "number":
        raise InputError(
            f"features has column {printable(name)!r} of type {column.type}, but numbers are "
            "expected: correct it."
        )
    filled = compute.fill_null(column.cast(arrow.float64(), safe=False), np.nan)
    values = np.asarray(filled)
    return values, np.isnan(values)


def text_of(column: Any) -> Any:
    """Text of a pyarrow array without blanks around it; missing values are null."""
    import pyarrow as arrow
    from pyarrow import compute

    text = compute.utf8_trim_whitespace(column.cast(arrow.large_string()))
    is_missing = compute.is_in(text, value_set=arrow.array(MISSING, arrow.large_string()))
    return compute.if_else(is_missing, arrow.scalar(None, arrow.large_string()), text)


def _hash(text: str) -> int:
    """A number of 64 bits that depends on the text alone."""
    digest = new_digest()
    digest.update(text.encode())
    return int(digest.hexdigest()[:16], 16)
