"""Text and parquet files: what is accepted, and that damage never ends in a foreign exception."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as arrow
import pytest

from bliss import InputError
from bliss.data.edges import open_edges
from bliss.data.features import finite_rows, open_features
from bliss.data.nodes import id_column
from bliss.data.tables import read_matrix, read_parquet, read_table
from tests.data.files import write

ROWS = [[0, 1], [1, 2], [7, 8]]

TEXTS = {
    "commas": "0,1\n1,2\n7,8",
    "semicolons": "0;1\n1;2\n7;8\n",
    "tabs": "0\t1\n1\t2\n7\t8\n",
    "several blanks": "  0   1\n1 2  \n\t7 \t 8\n",
    "blanks around commas": " 0 , 1\n1 ,2 \n7, 8\n",
    "line ends of Windows": "0 1 \r\n1 2\r\n7 8\r\n",
    "empty lines": "\n\n0,1\n\n1,2\n7,8\n\n",
    "comments": "# a comment\n0,1 # of an edge\n#5,6\n  # indented\n1,2\n7,8#\n",
    "comments among blanks": "#src dst\n0 1 # of an edge\n#5 6\n1 2\n7 8\n",
    "byte order mark": "\ufeff0,1\n1,2\n7,8\n",
    "quotes": '"0","1"\n"1","2"\n7,8\n',
    "header": "Src,Dst\n0,1\n1,2\n7,8\n",
    "quoted header": '"src", "dst"\n0,1\n1,2\n7,8\n',
    "header after a comment": "# made by hand\nsrc dst\n0 1\n1 2\n7 8\n",
}


def read_edges(file):
    (edges,) = open_edges(file).chunks(1 << 20)
    return edges


def rows_of(table):
    return [list(row) for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]


@pytest.mark.parametrize("form", TEXTS)
def test_texts_of_every_form_give_the_same_rows(tmp_path, form):
    found = read_table("edges", write(tmp_path, "e.txt", TEXTS[form]))
    assert rows_of(found) == ROWS
    assert {str(column.type) for column in found.columns} == {"int64"}
    names = tuple(name.lower() for name in found.names)
    assert names == (("src", "dst") if "header" in form else ())


def test_a_compressed_text_is_read(tmp_path):
    (tmp_path / "e.csv.gz").write_bytes(gzip.compress(TEXTS["header"].encode()))
    assert rows_of(read_table("edges", tmp_path / "e.csv.gz")) == ROWS
    (tmp_path / "m.csv.gz").write_bytes(gzip.compress(TEXTS["commas"].encode()))
    assert read_matrix(tmp_path / "m.csv.gz", np.float32).tolist() == ROWS


def test_integers_beyond_2_to_the_53_stay_exact(tmp_path):
    ids = [2**53 + 1, 2**63 - 1, -(2**63)]
    file = write(tmp_path, "e.csv", "".join(f"{i},0,0.5\n" for i in ids))
    assert id_column("edges", read_table("edges", file), 0).to_pylist() == ids


def test_only_weights_may_hold_fractions(tmp_path):
    file = write(tmp_path, "e.csv", "src,dst,weight\n0,1,0.5\n1,2,1e3\n")
    edges = read_edges(file)
    assert edges.source.to_pylist() == [0, 1]
    assert edges.weight.tolist() == [0.5, 1000.0]
    with pytest.raises(InputError, match=r"the id 0\.5 in column 'dst'"):
        read_edges(write(tmp_path, "f.csv", "src,weight,dst\n0,1,0.5\n1,2,1e3\n"))


def test_names_stay_as_they_are_in_the_file(tmp_path):
    text = 'src,dst\n"Doe, Jane",C#\nNA,0012\n"Doe, Jane",null\n'
    edges = read_edges(write(tmp_path, "e.csv", text))
    assert edges.source.to_pylist() == ["Doe, Jane", "NA", "Doe, Jane"]
    assert edges.target.to_pylist() == ["C#", "0012", "null"]


def test_names_in_one_column_may_hold_blanks(tmp_path):
    table = read_table("labels", write(tmp_path, "y.csv", "label\nMr. Hi\nOfficer\n"), ["label"])
    assert table.columns[0].to_pylist() == ["Mr. Hi", "Officer"]


def test_numbers_with_leading_zeros_and_of_more_than_64_bits_are_names(tmp_path):
    padded = read_edges(write(tmp_path, "e.csv", "src,dst\n007,10\n8,11\n"))
    assert padded.source.to_pylist() == ["007", "8"]
    assert padded.target.to_pylist() == [10, 11]
    large = read_edges(write(tmp_path, "f.csv", f"src,dst\n{2**64},1\n3,2\n"))
    assert large.source.to_pylist() == [str(2**64), "3"]


def test_a_name_after_a_megabyte_of_numbers_is_found(tmp_path):
    lines = [f"{node},{node + 1}" for node in range(120_000)] + ["alice,bob"]
    edges = read_edges(write(tmp_path, "e.csv", "src,dst\n" + "\n".join(lines) + "\n"))
    assert edges.source[0].as_py() == "0"
    assert edges.source[-1].as_py() == "alice"


def test_a_first_line_that_may_be_a_header_or_a_row_is_refused(tmp_path):
    with pytest.raises(InputError, match="'alice,bob', which may be a header or a row"):
        read_edges(write(tmp_path, "e.csv", "alice,bob\nbob,carol\n"))


BAD_TEXTS = {
    "rows of two lengths": (b"0,1\n1,2,3\n", "Expected 2 columns, got 3"),
    "UTF-16": ("0,1\n1,2\n".encode("utf-16"), "save it as UTF-8"),
    "a comment alone": (b"# nothing\n", "is empty"),
}


@pytest.mark.parametrize("case", BAD_TEXTS)
def test_bad_texts_get_one_sentence(tmp_path, case):
    content, message = BAD_TEXTS[case]
    (tmp_path / "e.csv").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_table("edges", tmp_path / "e.csv")
    assert "\n" not in str(caught.value)


def features_of(file):
    return list(finite_rows("features", open_features(file).chunks()))


def columns_of(file):
    return read_parquet("edges", file)


PARQUETS = {
    "columns": ({"src": np.arange(300), "weight": np.linspace(0, 1, 300)}, columns_of),
    "lists": ({"embedding": np.linspace(0, 1, 400).reshape(100, 4).tolist()}, features_of),
}


@pytest.mark.parametrize("form", PARQUETS)
def test_mutated_parquet_is_read_or_refused_in_one_sentence(tmp_path, form):
    content, read = PARQUETS[form]
    whole = write(tmp_path, "whole.parquet", content).read_bytes()
    random = np.random.default_rng(0)
    refused = 0
    for trial in range(150):
        damaged = bytearray(whole)
        for place in random.integers(0, len(whole), 3):
            damaged[place] ^= 1 << int(random.integers(8))
        if trial % 3 == 0:
            del damaged[int(random.integers(len(whole))) :]
        (tmp_path / "damaged.parquet").write_bytes(damaged)
        try:
            read(tmp_path / "damaged.parquet")
        except InputError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 75


BAD_PARQUETS = {
    "names that differ in case": ({"src": [1], "SRC": [2]}, read_edges, "src and dst once each"),
    "no columns": ({}, columns_of, "has no columns"),
    "ids that are fractions": ({"src": [0.5], "dst": [1]}, read_edges, "ids of type double"),
    "ids that are lists": ({"src": [[1]], "dst": [1]}, read_edges, "ids of type list"),
    "a long name": ({"src": ["a" * 1001], "dst": ["b"]}, read_edges, "an id of 1,001 bytes"),
    "names that are no UTF-8": (
        {"src": arrow.array([b"\xff"]).view(arrow.string()), "dst": ["b"]},
        read_edges,
        "column 'src' of edges cannot be read as ids",
    ),
    "maps": (
        {"x": arrow.array([[(1, 2)]], arrow.map_(arrow.int64(), arrow.int64()))},
        features_of,
        "of type map",
    ),
    "lists of texts": ({"x": [["a"], ["b"]]}, features_of, "of type string"),
    "missing lists": ({"x": [[1.0], None]}, features_of, "1 empty lists"),
    "gaps in lists": ({"x": [[1.0, None], [1.0, 2.0]]}, features_of, "empty entries"),
}


@pytest.mark.parametrize("case", BAD_PARQUETS)
def test_bad_parquet_gets_one_sentence(tmp_path, case):
    content, read, message = BAD_PARQUETS[case]
    file = write(tmp_path, "bad.parquet", content)
    with pytest.raises(InputError, match=message):
        read(file)


def test_features_may_repeat_a_name(tmp_path):
    column = arrow.array([1.0, 2.0])
    table = arrow.Table.from_arrays([column, column], ["a", "a"])
    arrow.parquet.write_table(table, tmp_path / "x.parquet")
    assert features_of(tmp_path / "x.parquet")[0].tolist() == [[1, 1], [2, 2]]
