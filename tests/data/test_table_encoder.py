"""Columns of a table as features: categories, gaps, and other tables that are encoded alike."""

from __future__ import annotations

import json

import numpy as np
import pyarrow
import pytest

from bliss import InputError
from bliss.data import ImportProblems, TableEncoder, encode_table, import_graph, open_store
from tests.data.files import write

TABLE = {
    "age": [30, None, 50, 40],
    "city": ["Bern", " Oslo", None, "Bern"],
    "is_new": [True, False, True, True],
    "code": ["a", "b", "c", "c"],
}
NAMES = ["age", "age is missing", "city=Bern", "city=Oslo", "city is missing", "is_new"]


def columns(table):
    return [pyarrow.array(values) for values in table.values()]


def test_text_is_one_hot_and_gaps_are_filled_and_marked():
    encoder, notes = TableEncoder.fit(list(TABLE), [columns(TABLE)], max_categories=2)
    assert encoder.feature_names == [*NAMES, "code#0", "code#1"]
    x = encoder.transform(columns(TABLE))
    assert x[:, 0].tolist() == [30, 40, 50, 40]
    assert x[:, 1].tolist() == [0, 1, 0, 0]
    assert x[:, 2:5].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert x[:, 5].tolist() == [1, 0, 1, 1]
    assert x[:, 6:].sum(1).tolist() == [1, 1, 1, 1]
    assert x[2, 6:].tolist() == x[3, 6:].tolist()  # the same text
    assert notes == (
        "Column age has 1 missing value, set to the mean of the others (40) and marked by a "
        "feature.",
        "Column city has 2 categories, a feature each.",
        "Column city has 1 missing value, marked by a feature.",
        "Column code has 3 categories, hashed into 2 features: --max-categories raises the limit.",
    )


def test_another_table_is_encoded_alike_also_after_json():
    encoder, _ = TableEncoder.fit(list(TABLE), [columns(TABLE)], max_categories=2)
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert again == encoder
    other = {"age": [None, 70], "city": ["Rome", "Oslo"], "is_new": [None, True], "code": ["c"] * 2}
    x = again.transform(columns(other))
    assert x[0, :6].tolist() == [40, 1, 0, 0, 0, 0.75]  # Rome is unknown; is_new had no gaps
    assert x[1, :6].tolist() == [70, 0, 0, 1, 0, 1]
    assert x[0, 6:].tolist() == encoder.transform(columns(TABLE))[2, 6:].tolist()


def test_parts_of_a_table_are_added_up():
    whole, _ = TableEncoder.fit(list(TABLE), [columns(TABLE)])
    parts = [[column.slice(n, 2) for column in columns(TABLE)] for n in (0, 2)]
    split, _ = TableEncoder.fit(list(TABLE), parts)
    assert split == whole


BAD = {
    "only gaps": ({"a": [None, None]}, "no value in column 'a'"),
    "a word among numbers": ({"a": ["1", "2", "3", "x"]}, "text in column 'a', such as 'x'"),
    "ids": ({"customer": ["p", "q", "r"]}, "each row of column 'customer'.*--id-column"),
    "dates": ({"a": np.array(["2020-01-01"], "M8[D]")}, "column 'a' of type date32"),
    "a long text": ({"a": ["x" * 2000, "y", "y"]}, "text of 2,000 characters"),
}


@pytest.mark.parametrize("case", BAD)
def test_columns_that_cannot_be_encoded_are_named_with_the_remedy(case):
    table, message = BAD[case]
    with pytest.raises(InputError, match=message) as caught:
        TableEncoder.fit(list(table), [columns(table)])
    assert "--feature-columns" in str(caught.value)


def test_all_columns_are_named_at_once():
    tables = {"a": [None, None, None], "b": ["p", "q", "r"], "c": [1, 2, 3]}
    with pytest.raises(ImportProblems) as caught:
        TableEncoder.fit(list(tables), [columns(tables)])
    assert len(caught.value.problems) == 2


DAMAGED = {
    "no columns": {},
    "a number": {"columns": [3]},
    "another kind": {"columns": [{"name": "a", "kind": "embedded"}]},
    "too wide": {"columns": [{"name": "a", "kind": "hashed", "width": 2**40}]},
    "no number": {"columns": [{"name": "a", "mean": "x"}]},
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_encoders_are_refused(case):
    with pytest.raises((ValueError, KeyError, TypeError)):
        TableEncoder.from_dict(DAMAGED[case])


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_store_keeps_its_encoder(tmp_path, form):
    table = TABLE | {"id": ["n1", "n2", "n3", "n4"]}
    content = table
    if form == "csv":
        rows = zip(*table.values(), strict=True)
        lines = [",".join("" if v is None else str(v) for v in row) for row in rows]
        content = "\n".join([",".join(table), *lines]) + "\n"
    given = {
        "edges": write(tmp_path, "e.csv", "src,dst\nn1,n2\n"),
        "features": write(tmp_path, f"x.{form}", content),
        "id_column": "id",
    }
    store = import_graph(tmp_path / "store", **given)
    dataset = open_store(store)
    assert dataset.encoder.feature_names[:6] == NAMES
    assert dataset.node_names.tolist() == table["id"]
    other = write(tmp_path, "new.csv", "name,code,is_new,age,city,more\nz,a,true,,Oslo,1\n")
    ids, x = encode_table(store, other)
    assert ids == ["z"]
    assert x[0].tolist() == [40, 1, 0, 1, 0, 1, 1, 0, 0]
    edges = write(tmp_path, "e2.csv", "src,dst\nz,z\n")
    twin = import_graph(tmp_path / "twin", edges=edges, features=other, like=store)
    assert np.array_equal(open_store(twin).x, x)
    missing = write(tmp_path, "less.csv", "name,code,age\nz,a,3\n")
    with pytest.raises(ImportProblems, match=r"2 problems: \(1\) the store of `like` has 'city'"):
        encode_table(store, missing)
