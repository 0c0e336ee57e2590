"""Headers of .npy files are checked before memory is allocated; archives are never unpickled."""

from __future__ import annotations

import struct
import zipfile

import numpy as np
import pytest
import scipy.sparse

from bliss import InputError
from bliss.data.npy import map_npy, map_npy_private, read_npy, read_npz, read_sparse, write_npy_rows

HEADERS = {
    "a type without bytes": "{'descr': '|V0', 'fortran_order': False, 'shape': (1099511627776,)}",
    "texts without bytes": "{'descr': '|S0', 'fortran_order': False, 'shape': (2**62, 2)}",
    "a negative side": "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1)}",
    "truth values for sides": "{'descr': '|b1', 'fortran_order': False, 'shape': (True, True)}",
    "no numbers in a wide shape": "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 2**70)}",
    "sides that overflow": f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**61}, 4, 0)}}",
    "70 sides": f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({'1, ' * 70})}}",
    "an open bracket": "{'descr': '<f8', 'fortran_order': False, 'shape': (1,",
    "no dictionary": "[1, 2]",
    "deep nesting": "(" * 3000,
}


@pytest.mark.parametrize("case", HEADERS)
@pytest.mark.parametrize("read", [map_npy, map_npy_private, read_npy])
def test_hostile_headers_get_one_sentence(tmp_path, case, read):
    text = HEADERS[case].encode() + b"\n"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(InputError, match="cannot be read as an array") as caught:
        read(tmp_path / "x.npy")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("read", [map_npy, map_npy_private, read_npy])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 3)])
def test_arrays_are_read_back(tmp_path, read, shape):
    array = np.arange(np.prod(shape, dtype=int), dtype=np.int16).reshape(shape)
    np.save(tmp_path / "x.npy", np.asfortranarray(array))
    found = read(tmp_path / "x.npy")
    np.testing.assert_array_equal(found, array)
    assert found.dtype == np.int16


def test_rows_that_do_not_fill_the_shape_are_refused(tmp_path):
    with pytest.raises(InputError, match="should have 3 rows, but its source gave 2"):
        write_npy_rows(tmp_path / "x.npy", [np.zeros((2, 1))], (3, 1), np.float32)


def save_parts(file, **changes):
    matrix = scipy.sparse.csr_matrix(np.eye(3))
    parts = {name: getattr(matrix, name) for name in ("data", "indices", "indptr", "shape")}
    np.savez(file, **{"format": b"csr"} | parts | changes)


MATRICES = {
    "two formats": ({"format": np.array([b"csr", b"csc"])}, "does not name one matrix format"),
    "a number for a format": ({"format": 7}, "type int64 is not one of text"),
    "an unknown format": ({"format": b"dia"}, "holds a 'dia' matrix"),
    "a text for a shape": ({"shape": "wide"}, "type <U4 is not one of numbers"),
    "NaN for a shape": ({"shape": np.array([np.nan, 3])}, "cannot be read as a sparse matrix"),
    "three sides": ({"shape": np.array([3, 3, 3])}, "cannot be read as a sparse matrix"),
    "a part missing": ({"indices": np.zeros(2, np.int32)}, "cannot be read as a sparse matrix"),
}


@pytest.mark.parametrize("case", MATRICES)
def test_bad_matrices_get_one_sentence(tmp_path, case):
    changes, message = MATRICES[case]
    save_parts(tmp_path / "m.npz", **changes)
    with pytest.raises(InputError, match=message) as caught:
        read_sparse(tmp_path / "m.npz")
    assert "\n" not in str(caught.value)


def test_an_encrypted_archive_gets_one_sentence(tmp_path):
    np.savez(tmp_path / "a.npz", src=np.arange(3))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        start = archive.start_dir
    content[6] |= 1  # the flag of encryption, in the member's header and in the directory
    content[start + 8] |= 1
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(InputError, match="cannot be read as arrays"):
        read_npz(tmp_path / "a.npz", ("src",))
