"""Text and parquet files: what is accepted, and that damage never ends in a foreign exception."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as arrow
import pytest

from bliss import InputError
from bliss.data import tables
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


COUNT_LOCKS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

int PyGILState_Ensure(void) {
    static int (*real)(void);
    if (!real) real = (int (*)(void))dlsym(RTLD_NEXT, "PyGILState_Ensure");
    if (syscall(SYS_gettid) != getpid()) write(2, "locked\\n", 7);
    return real();
}
"""
READ_OFTEN = """
import sys
import numpy as np
import pyarrow
from pathlib import Path
from bliss import InputError
from bliss.data.chunked_tables import table_blocks
from bliss.data.tables import read_matrix, read_table

pyarrow.set_cpu_count(4)
folder = Path(sys.argv[1])
for file in sorted(folder.glob("*.csv")):
    readers = (
        lambda: read_table("features", file),
        lambda: list(table_blocks("edges", file, 1000)),
        lambda: read_matrix(file, np.float32),
    )
    for reader in readers:
        for _ in range(20):
            try:
                reader()
            except InputError:
                print("refused")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("cc"), reason="needs a C compiler")
def test_no_thread_of_arrow_takes_the_interpreters_lock(tmp_path):
    """A thread that takes it while the interpreter ends would abort the process."""
    (tmp_path / "count.c").write_text(COUNT_LOCKS)
    library = tmp_path / "count.so"
    build = ["cc", "-w", "-shared", "-fPIC", "-o", library, tmp_path / "count.c", "-ldl"]
    subprocess.run(build, check=True)
    rows = ["a,b", *["1.5,2.5"] * 200_000]
    write(tmp_path, "late.csv", "\n".join([*rows, "1,2,3", *rows[1:]]))
    write(tmp_path, "early.csv", "0,1\n1,2,3\n4,5\n")
    write(tmp_path, "comments.csv", "0,1\n# none\n1,2,3\n4,5\n")
    write(tmp_path, "good.csv", "\n".join(rows[1:]))
    found = subprocess.run(
        [sys.executable, "-c", READ_OFTEN, tmp_path],
        env=os.environ | {"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.count("refused") == 3 * 3 * 20
    assert found.stderr == ""


@pytest.mark.parametrize("mark", [",", ";", " "])
def test_tables_of_too_many_columns_are_refused_before_they_are_read(tmp_path, mark, monkeypatch):
    monkeypatch.setattr(tables, "_parse", None)  # nothing is parsed
    line = mark.join(["1"] * (tables.MOST_COLUMNS + 1))
    file = write(tmp_path, "x.csv", f"{line}\n{line}\n")
    with pytest.raises(InputError, match=r"has more than 32,768 columns, .* save features"):
        open_features(file)
    if mark == ",":
        with pytest.raises(InputError, match="more than 32,768 columns"):
            read_matrix(file, np.float32)


def test_parquet_of_too_many_columns_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MOST_COLUMNS", 3)
    file = write(tmp_path, "x.parquet", {name: [1.0] for name in "abcd"})
    with pytest.raises(InputError, match="has more than 3 columns"):
        open_features(file)
    open_features(write(tmp_path, "y.parquet", {name: [1.0] for name in "abc"}))


@pytest.mark.slow
def test_a_wide_table_is_read_in_blocks_of_many_rows(tmp_path):
    """Its numbers are 105 MB. In blocks of a megabyte it would take 1 GB."""
    line = ",".join(["1.5"] * 16384)
    file = write(tmp_path, "x.csv", f"{line}\n" * 800)
    code = (
        "import sys; from pathlib import Path; from bliss.data.tables import read_table\n"
        "import pyarrow.csv\n"
        "peak = lambda: int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])\n"
        "before = peak(); read_table('features', Path(sys.argv[1])); print(peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, file], capture_output=True, check=True)
    assert int(done.stdout) < 700_000  # kB


def test_a_million_quotes_are_refused_in_a_sentence(tmp_path):
    file = write(tmp_path, "x.csv", '"' * 1_000_000)
    with pytest.raises(InputError, match=r"^features=.* cannot be read as a table .*: check"):
        open_features(file)


@pytest.mark.parametrize("ids", ["0x10 0X11 18", "16 0x11 18"])
def test_hexadecimal_ids_are_names(tmp_path, ids):
    rows = "".join(f"{name},1.5\n" for name in ids.split())
    found = open_features(write(tmp_path, "x.csv", f"id,a\n{rows}"))
    assert found.ids.to_pylist() == ids.split()
