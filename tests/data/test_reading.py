"""The border to files of unknown origin: no pipe is opened, no bomb unpacked, no foreign error."""

from __future__ import annotations

import gzip
import io
import os
import struct
import zipfile
from types import SimpleNamespace

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
import scipy.sparse

from bliss import InputError
from bliss.data import import_graph, load_dataset, open_graph
from bliss.data.npy import read_npz, read_sparse
from bliss.data.safe_reading import in_one_sentence, unpack_limit
from bliss.data.tables import read_matrix, read_parquet, read_table
from bliss.errors import ResourceError
from tests.data.files import SOURCE, TARGET, X, write


@pytest.fixture()
def one_mib(monkeypatch):
    """Files may unpack to 1 MiB."""
    monkeypatch.setenv("BLISS_UNPACK_GIB", str(2**-10))


ENDINGS = {
    "edges": (".npy", ".npz", ".csv", ".parquet"),
    "features": (".npy", ".npz", ".parquet"),
    "labels": (".npy", ".csv", ".parquet"),
    "weight": (".npy",),
}


@pytest.mark.parametrize("kind", ["pipe", "/dev/zero"])
@pytest.mark.parametrize(
    ("field", "ending"), [(field, end) for field, ends in ENDINGS.items() for end in ends]
)
def test_pipes_and_devices_are_not_opened(tmp_path, good, field, ending, kind):
    file = tmp_path / f"endless{ending}"
    os.mkfifo(file) if kind == "pipe" else file.symlink_to(kind)
    with pytest.raises(InputError, match=rf"{field}='.*' is a device or a pipe"):
        import_graph(tmp_path / "store", **good | {field: file})


@pytest.mark.parametrize("field", [*ENDINGS, "graph", "out"])
def test_a_link_to_itself_is_no_path(tmp_path, good, field):
    link = tmp_path / "link.csv"
    link.symlink_to(link.name)
    paths = {"out": tmp_path / "store"} | ({} if field == "graph" else good)
    label = {"label": "y"} if field == "labels" else {}
    with pytest.raises(InputError, match=rf"{field}='.*' cannot be a path \(Too many levels"):
        import_graph(**paths | {field: link} | label)


@pytest.mark.parametrize("name", ["dataset.json", "graph.json", "indices.npy", "features.npy"])
def test_a_store_may_hold_no_pipe(tmp_path, good, name):
    folder = import_graph(tmp_path / "store", **good)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(InputError, match=f"{name} is a device or a pipe"):
        load_dataset(folder)


def member(text: str, content: bytes = b"") -> bytes:
    header = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def archive(file, form=zipfile.ZIP_STORED, **members):
    with zipfile.ZipFile(file, "w", form) as opened:
        for name, content in members.items():
            opened.writestr(f"{name}.npy", content)
    return file


def saved(array) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


MEMBERS = {
    "no bytes": ("{'descr': '|V0', 'fortran_order': False, 'shape': (1099511627776,)}", "of numb"),
    "text": (
        "{'descr': '<U4', 'fortran_order': False, 'shape': (0,)}",
        "<U4 is not one of numbers",
    ),
    "records": ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (0,)}", "of numbers"),
    "no values": (
        "{'descr': '<i8', 'fortran_order': False, 'shape': (1099511627776,)}",
        "promises",
    ),
}


@pytest.mark.parametrize("case", MEMBERS)
def test_headers_of_members_are_checked_before_memory_is_allocated(tmp_path, case):
    text, message = MEMBERS[case]
    file = archive(tmp_path / "a.npz", src=member(text))
    with pytest.raises(InputError, match=message):
        read_npz(file, ("src",))


def test_members_are_read_as_numpy_reads_them(tmp_path):
    arrays = {
        "flat": np.arange(5),
        "scalar": np.array(2.5),
        "fortran": np.asfortranarray(X),
        "empty": np.zeros((0, 3), np.int16),
        "mask": np.array([True, False]),
        "swapped": np.arange(4).astype(">i4"),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        for name, found in read_npz(tmp_path / "a.npz", tuple(arrays)).items():
            np.testing.assert_array_equal(found, arrays[name])
            assert found.dtype == arrays[name].dtype


def test_an_array_that_is_there_twice_is_refused(tmp_path):
    with (
        pytest.warns(UserWarning, match="Duplicate name"),
        zipfile.ZipFile(tmp_path / "a.npz", "w") as opened,
    ):
        opened.writestr("src.npy", saved(SOURCE))
        opened.writestr("src.npy", saved(TARGET))
    with pytest.raises(InputError, match="'src' is there twice"):
        read_npz(tmp_path / "a.npz", ("src",))


def test_other_compressions_are_refused(tmp_path):
    file = archive(tmp_path / "a.npz", zipfile.ZIP_LZMA, src=saved(SOURCE))
    with pytest.raises(InputError, match="in a way that NumPy does not use"):
        read_npz(file, ("src",))


def zipped_zeros(folder):
    np.savez_compressed(folder / "bomb.npz", src=np.zeros(2**18), dst=np.zeros(3))
    return lambda: read_npz(folder / "bomb.npz", ("src",))["src"]


def text_of_zeros(folder):
    with gzip.open(folder / "bomb.csv.gz", "wb") as stream:
        stream.write(b"0,0\n" * 2**19)
    return lambda: np.asarray(read_table("edges", folder / "bomb.csv.gz").columns[0])


def matrix_of_zeros(folder):
    text_of_zeros(folder)
    return lambda: read_matrix(folder / "bomb.csv.gz", np.int64)


def table_of_zeros(folder):
    parquet.write_table(arrow.table({"src": np.zeros(2**18, np.int64)}), folder / "bomb.parquet")
    return lambda: np.asarray(read_parquet("edges", folder / "bomb.parquet").columns[0])


def tall_matrix(folder):
    matrix = scipy.sparse.coo_matrix(([1.0], ([0], [0])), shape=(2**18, 1))
    scipy.sparse.save_npz(folder / "bomb.npz", matrix)
    return lambda: read_sparse(folder / "bomb.npz")


BOMBS = [zipped_zeros, text_of_zeros, matrix_of_zeros, table_of_zeros, tall_matrix]


@pytest.mark.parametrize("make", BOMBS)
def test_what_a_file_unpacks_to_has_a_limit_that_can_be_raised(tmp_path, monkeypatch, make):
    read = make(tmp_path)
    assert read().shape[0] >= 2**18
    monkeypatch.setenv("BLISS_UNPACK_GIB", str(2**-10))
    with pytest.raises(InputError, match=r"limit of 1,048,576: .* BLISS_UNPACK_GIB=1\."):
        read()


def test_incompressible_files_of_any_size_are_read(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", src=np.arange(1000))
    monkeypatch.setenv("BLISS_UNPACK_GIB", "1e-9")
    assert read_npz(tmp_path / "a.npz", ("src",))["src"].size == 1000
    assert unpack_limit(tmp_path / "a.npz") == 32 * (tmp_path / "a.npz").stat().st_size


@pytest.mark.parametrize("value", ["much", "-1", "0", "nan", "inf"])
def test_a_limit_that_is_no_number_is_refused(tmp_path, monkeypatch, value):
    monkeypatch.setenv("BLISS_UNPACK_GIB", value)
    with pytest.raises(InputError, match=f"BLISS_UNPACK_GIB='{value}' must be a number above 0"):
        unpack_limit(tmp_path)


@pytest.mark.parametrize("shape", [(10**12, 3), (5, 10**12), (2**62, 2**62)])
@pytest.mark.parametrize("form", ["coo", "csc"])
def test_shapes_of_sparse_features_are_compared_with_the_limit(tmp_path, good, form, shape):
    matrix = scipy.sparse.coo_matrix(X).asformat(form)
    names = ("row", "col") if form == "coo" else ("indices", "indptr")
    parts = {name: getattr(matrix, name) for name in ("data", *names)}
    file = tmp_path / "x.npz"
    np.savez(file, format=form.encode(), shape=np.array(shape), **parts)
    with pytest.raises(InputError, match=r"its shape \(|cannot be read as a sparse matrix"):
        import_graph(tmp_path / "store", **good | {"features": file})


def test_long_lists_are_refused_before_they_are_read(tmp_path, good, one_mib):
    lists = [[1.0]] * 4 + [[1.0] * 100_000]
    file = write(tmp_path, "x.parquet", {"a": lists})
    with pytest.raises(InputError, match="empty lists or different lengths"):
        import_graph(tmp_path / "store", **good | {"features": file})
    file = write(tmp_path, "y.parquet", {"a": [[0.0] * 2**18]})
    with pytest.raises(InputError, match="a row of it takes 2,097,152"):
        import_graph(tmp_path / "store", **good | {"features": file})


@pytest.mark.parametrize("name", ["e.npz", "e.parquet"])
def test_two_names_for_the_source_are_refused(tmp_path, good, name):
    file = write(tmp_path, name, {"src": SOURCE, "source": TARGET, "dst": TARGET})
    with pytest.raises(InputError, match="must hold src and dst once each"):
        import_graph(tmp_path / "store", **good | {"edges": file})


NAMES = {
    "long": ("x" * 5000, "too long"),
    "unknown user": ("~nosuchuser/a", "unknown user"),
    "null": ("a\0b", "null"),
    "surrogate": ("\ud800", "surrogates not allowed"),
    "empty": ("", "must be the path"),
    "None": (None, "must be the path"),
    "number": (3, "must be the path"),
    "bytes": (b"a", "must be the path"),
}


@pytest.mark.parametrize("case", NAMES)
def test_names_that_are_no_paths_get_one_sentence(tmp_path, good, case):
    name, message = NAMES[case]
    for read in (load_dataset, open_graph, lambda path: import_graph(path, **good)):
        with pytest.raises(InputError, match=message):
            read(name)
    for field in ("edges", "features"):
        with pytest.raises(InputError, match=f"^{field}=.*{message}"):
            import_graph(tmp_path / "store", **good | {field: name})


def test_memory_that_is_not_there_is_no_fault_of_the_file():
    border = in_one_sentence("a", "b", "c")
    with pytest.raises(ResourceError, match="more memory than there is"), border:
        raise MemoryError
    border = in_one_sentence("a", "b", "c")
    with pytest.raises(InputError, match=r"^a cannot be read as b \(too deep\): c\.$"), border:
        raise RecursionError("too deep")


def test_features_that_the_disk_cannot_hold_are_refused_before_they_are_written(
    tmp_path, good, monkeypatch
):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=59))
    with pytest.raises(ResourceError, match="needs 212 bytes, but the disk has 59 free"):
        import_graph(tmp_path / "store", **good)
