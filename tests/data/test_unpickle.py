"""Planetoid's pickles are read, and nothing in a pickle is run."""

from __future__ import annotations

import collections
import os
import pickle

import numpy as np
import pytest
import scipy.sparse

from bliss import InputError
from bliss.data import load_dataset, planetoid
from bliss.data.unpickle import read_planetoid_pickle


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_a_malicious_pickle_is_refused_and_not_run(tmp_path):
    mark, file = tmp_path / "was_run", tmp_path / "ind.cora.x"
    file.write_bytes(pickle.dumps(Malicious(mark), protocol=2))
    pickle.loads(file.read_bytes())
    assert mark.exists()  # it does run where it is allowed to
    mark.unlink()
    with pytest.raises(InputError, match=r"cannot be read as a Planetoid file \(it asks for") as e:
        read_planetoid_pickle(file)
    assert not mark.exists()
    assert "\n" not in str(e.value)


def test_a_malicious_file_among_good_ones_is_refused(tmp_path, cora):
    (cora / "ind.cora.graph").unlink()
    (cora / "ind.cora.graph").write_bytes(pickle.dumps(Malicious(tmp_path / "was_run")))
    with pytest.raises(InputError, match="asks for"):
        load_dataset("cora", tmp_path)
    assert not (tmp_path / "was_run").exists()


def python_2(value) -> bytes:
    """A pickle as Python 2 wrote it: bytes as strings. Ours encodes them as latin1 text."""
    return pickle.dumps(value, protocol=2)


def test_lists_and_objects_of_python_2(tmp_path):
    lists = collections.defaultdict(list, {0: [1, 2], 5: []})
    (tmp_path / "graph").write_bytes(python_2(lists))
    assert read_planetoid_pickle(tmp_path / "graph") == {0: [1, 2], 5: []}


def array_program(kind: bytes, shape: bytes, content: bytes) -> bytes:
    """The pickle of an array, written by hand: _reconstruct, then its state."""
    return (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01" + shape + b"cnumpy\ndtype\nU\x02" + kind + b"K\x00K\x01\x87R"
        b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        b"U" + bytes([len(content)]) + content + b"tb."
    )


def test_an_array_of_python_2(tmp_path):
    content = np.array([1.5, -2.0], "<f4").tobytes()
    (tmp_path / "x").write_bytes(array_program(b"f4", b"K\x02\x85", content))
    np.testing.assert_array_equal(read_planetoid_pickle(tmp_path / "x"), [1.5, -2.0])


FORGED = {
    "objects": array_program(b"O8", b"K\x01\x85", b"12345678"),
    "more than there is": array_program(b"f4", b"K\x63\x85", b"12345678"),
    "a text": python_2("hello"),
    "a class by name": b"\x80\x02cnumpy\nndarray\n.",
    "a function of builtins": b"\x80\x02c__builtin__\neval\nU\x031+1\x85R.",
    "cut short": python_2({0: [1]})[:-3],
    "nothing": b"",
    "a number in the memo that takes 30 GB": b"\x80\x02}r\xff\xff\xff\x7f.",
    "more bytes than there are": b"\x80\x03B\xff\xff\xff\x7fabc.",
    "state for a class": b"\x80\x02cnumpy\ndtype\n}b.",
    "matrix without parts": b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n)R}b.",
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_pickles_are_refused(tmp_path, case):
    (tmp_path / "x").write_bytes(FORGED[case])
    with pytest.raises(InputError, match="cannot be read as a Planetoid file"):
        read_planetoid_pickle(tmp_path / "x")


@pytest.fixture()
def one_mib(monkeypatch):
    """A limit of 1 MiB on what a file may unpack to."""
    monkeypatch.setenv("BLISS_UNPACK_GIB", str(2**-10))


def test_a_matrix_of_many_columns_is_not_made_dense(tmp_path, one_mib):
    wide = scipy.sparse.csr_matrix((1000, 10**9), dtype=np.float32)
    (tmp_path / "x").write_bytes(pickle.dumps(wide, protocol=3))
    with pytest.raises(InputError, match="bytes, but unpacks to 4,000,000,000,000"):
        planetoid._dense(tmp_path / "x", np.float32)


def test_one_list_many_times_over_is_not_joined(tmp_path, one_mib):
    shared = [0] * 1000
    lists = {node: shared for node in range(2000)}
    (tmp_path / "graph").write_bytes(python_2(lists))
    with pytest.raises(InputError, match="bytes, but unpacks to 32,000,000"):
        planetoid._graph(tmp_path / "graph", 2000)


def test_a_real_matrix_is_read_as_scipy_reads_it(data_root):
    matrix = read_planetoid_pickle(data_root / "PubMed" / "raw" / "ind.pubmed.x")
    assert scipy.sparse.issparse(matrix)
    assert matrix.shape == (60, 500)
    assert matrix.dtype == np.float32
