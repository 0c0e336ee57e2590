"""Any change to a file of a store is noticed: small files always, large ones as documented."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
import torch

from bliss.data import import_graph, load_dataset, manifest, open_graph, open_store, verify_dataset
from bliss.errors import DamagedError, InputError, ResourceError
from bliss.storage import digests
from bliss.storage.digests import file_digest, sealed
from tests.data.files import WEIGHT, write

FILES = (
    "dataset.json", "graph.json", "features.npy", "labels.npy", "train.npy", "val.npy", "test.npy",
    "indptr.npy", "indices.npy", "weight.npy",
)  # fmt: skip


@pytest.fixture()
def store(tmp_path, good):
    return import_graph(tmp_path / "store", **good, weight=write(tmp_path, "w.npy", WEIGHT))


def flip(file, place):
    """Change one bit."""
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def test_the_manifest_names_every_file(store):
    assert sorted(path.name for path in store.iterdir()) == sorted(FILES)
    assert verify_dataset(store).checked == sorted(FILES)


@pytest.mark.parametrize("name", FILES)
def test_no_bit_of_a_store_changes_without_a_word(store, name):
    original = (store / name).read_bytes()
    random = np.random.default_rng(0)
    places = {0, len(original) - 1, *random.integers(len(original), size=30).tolist()}
    for place in sorted(places):
        flip(store / name, place)
        with pytest.raises((DamagedError, InputError), match=name):
            open_store(store)
        (store / name).write_bytes(original)
    open_store(store)


@pytest.mark.parametrize("name", ["train.npy", "graph.json"])
def test_files_of_two_stores_are_not_mixed(store, tmp_path, good, name):
    splits = {"train": [1, 2], "val": [0], "test": [4]}
    other = import_graph(tmp_path / "other", **good | {"splits": splits})  # without weights
    shutil.copy(other / name, store / name)
    with pytest.raises(DamagedError, match=f"{name} does not match its digest"):
        open_store(store)


@pytest.fixture()
def large(monkeypatch, store):
    """All files count as large; their stamps were written by a first opening."""
    monkeypatch.setattr(manifest, "SMALL", 0)
    open_store(store)
    return store


def spoil(file):
    """Change the values of an array, but neither its size nor its time."""
    time = file.stat().st_mtime_ns
    flip(file, -1)
    os.utime(file, ns=(time, time))


def test_a_large_file_is_read_once_and_again_after_a_change(large, monkeypatch):
    read, digest = [], manifest.file_digest

    def logged(path):
        read.append(path.name)
        return digest(path)

    monkeypatch.setattr(manifest, "file_digest", logged)
    open_store(large)
    assert read == []
    os.utime(large / "features.npy")
    open_store(large)
    open_store(large)
    assert read == ["features.npy"]
    flip(large / "features.npy", -1)
    with pytest.raises(DamagedError, match=r"features\.npy does not match its digest"):
        open_store(large)


def test_decay_of_a_large_file_is_found_by_verification(large, monkeypatch):
    before = (large / "features.npy").stat().st_ctime_ns
    spoil(large / "features.npy")
    stamp = manifest.stamp  # decay changes no time
    monkeypatch.setattr(
        manifest,
        "stamp",
        lambda file, digest: [
            before if n == 2 and file.name == "features.npy" else one
            for n, one in enumerate(stamp(file, digest))
        ],
    )
    open_store(large)
    with pytest.raises(DamagedError, match=r"features\.npy does not match its digest"):
        verify_dataset(large)
    with pytest.raises(DamagedError, match=r"features\.npy does not match its digest"):
        load_dataset(large, verify=True)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"features.npy": 3}', "[" * 10_000])
def test_damaged_stamps_mean_that_large_files_are_read(large, text):
    spoil(large / "features.npy")
    (large / "stamps.json").write_text(text)
    with pytest.raises(DamagedError, match=r"features\.npy"):
        open_store(large)


def test_indices_of_a_large_store_are_checked_once_and_again_after_a_change(large, monkeypatch):
    def fail(*_):
        raise InputError("checked")

    monkeypatch.setattr("bliss.graph.graph.check_arrays", fail)
    open_store(large)
    os.utime(large / "indices.npy")
    with pytest.raises(InputError, match="checked"):
        open_store(large)
    with pytest.raises(InputError, match="checked"):  # a failed check is not taken for a passed one
        open_store(large)
    monkeypatch.undo()
    monkeypatch.setattr(manifest, "SMALL", 0)
    open_store(large)
    monkeypatch.setattr("bliss.graph.graph.check_arrays", fail)
    open_store(large)
    with pytest.raises(InputError, match="checked"):
        verify_dataset(large)


def test_stamps_that_came_with_a_copy_do_not_vouch_for_indices(large, monkeypatch):
    """A forger can make digests and stamps fit, but not the time of change of the copy."""
    file, header = large / "indices.npy", large / "graph.json"
    indices = np.load(file)
    indices[0] = 10_000
    np.save(file, indices)
    content = json.loads(header.read_text())
    content["files"][file.name] = file_digest(file)
    del content["digest"]
    header.write_text(json.dumps(content := sealed(content)))
    stamp = manifest.stamp(file, content["files"][file.name])
    marks = json.loads((large / "stamps.json").read_text()) | {
        "checked graph.json": content["digest"]
    }
    forged = [*stamp[:2], stamp[2] - 1, stamp[3]]
    (large / "stamps.json").write_text(json.dumps(marks | {file.name: forged}))
    for _ in range(2):  # the first attempt leaves no stamp
        with pytest.raises(InputError, match="indices holds 10000"):
            open_graph(large)
    manifest.check_files(large, {file.name: stamp[3]})  # as if dataset.json named it
    with pytest.raises(InputError, match="indices holds 10000"):
        open_graph(large)
    good = json.dumps(marks | {file.name: stamp})
    (large / "stamps.json").write_text(good)
    open_graph(large)  # the rest of the forgery was good
    monkeypatch.setattr(manifest, "SMALL", 1 << 26)
    (large / "stamps.json").write_text(good)
    with pytest.raises(InputError, match="indices holds 10000"):  # small files are always checked
        open_graph(large)


def test_a_store_that_cannot_be_written_opens(large, monkeypatch):
    def fail(*_):
        raise ResourceError("read-only")

    (large / "stamps.json").unlink()
    monkeypatch.setattr(manifest, "replace_file", fail)
    open_store(large)
    assert not (large / "stamps.json").exists()


def test_the_import_reads_large_files_for_the_first_opening(tmp_path, good, monkeypatch):
    monkeypatch.setattr(manifest, "SMALL", 0)
    store = import_graph(tmp_path / "store", **good)
    monkeypatch.setattr(manifest, "file_digest", None)  # not called
    open_store(store)


@pytest.mark.parametrize("field", ["files", "digest"])
def test_a_header_without_digests_is_damaged(store, field):
    content = json.loads((store / "dataset.json").read_text())
    del content[field]
    (store / "dataset.json").write_text(json.dumps(content))
    with pytest.raises(DamagedError, match=r"dataset\.json does not match its digest"):
        open_store(store)


def test_stores_of_another_version_are_to_be_imported_again(store):
    (store / "dataset.json").write_text('{"format": "bliss-dataset-1"}')
    with pytest.raises(InputError, match="not of format 'bliss-dataset-2': import the graph again"):
        open_store(store)
    (store / "graph.json").write_text('{"format": "bliss-graph-1"}')
    with pytest.raises(InputError, match="not of format 'bliss-graph-2'"):
        open_graph(store)


def test_fingerprints_depend_on_every_row(store, cora):
    opened = open_store(store)
    assert opened.fingerprint == opened.digest != ""
    dataset = load_dataset("cora", cora.parents[1])
    other = load_dataset("cora", cora.parents[1])
    assert dataset.fingerprint == other.fingerprint
    for row in (1, 1354, 2707):
        changed = load_dataset("cora", cora.parents[1])
        changed.x[row] = 0
        assert changed.fingerprint != dataset.fingerprint


@pytest.mark.parametrize("chunk", [1, 100, 1 << 20])
def test_digests_of_arrays_do_not_change(chunk, monkeypatch):
    """Results of earlier runs hold fingerprints, which are such digests."""
    monkeypatch.setattr(digests, "_CHUNK", chunk)
    numbers = np.arange(60, dtype=np.int64)
    assert digests.array_digest(numbers.astype(np.float32).reshape(20, 3), numbers[:0]) == (
        "c9af003b00577db289c4bddd70549613"
    )
    turned = np.asfortranarray(numbers.reshape(12, 5))
    assert digests.array_digest(turned) == digests.array_digest(numbers.reshape(12, 5))
    assert digests.array_digest(numbers.view(np.uint64)) != digests.array_digest(numbers)


def test_digests_of_tensors_cover_names_types_shapes_and_values():
    weight, half = torch.arange(6.0), torch.zeros(3, dtype=torch.bfloat16)
    others = (
        {"a": weight, "c": half},
        {"a": weight.reshape(2, 3), "b": half},
        {"a": weight, "b": half.half()},
        {"a": weight + 1, "b": half},
        {"a": half, "b": weight},
    )
    known = {digests.tensor_digest(one) for one in ({"a": weight, "b": half}, *others)}
    assert len(known) == 6
    assert digests.tensor_digest({"b": half, "a": weight}) in known


def test_named_files_are_compared_with_the_published_digests(cora):
    found = verify_dataset("cora", cora.parents[1])
    assert len(found.checked) == 8
    assert found.unknown == []
    file = cora / "ind.cora.ty"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] = 1
    file.unlink()
    file.write_bytes(content)
    with pytest.raises(DamagedError, match=r"ind\.cora\.ty has the SHA-256 digest"):
        verify_dataset("cora", cora.parents[1])
    with pytest.raises(DamagedError, match=r"ind\.cora\.ty has the SHA-256 digest"):
        load_dataset("cora", cora.parents[1], verify=True)


def test_files_without_a_digest_are_named(data_root):
    found = verify_dataset("physics", data_root)
    assert found.checked == []
    assert found.unknown == ["raw/ms_academic_phy.npz"]
    assert verify_dataset(data_root / "PPI").unknown == [
        "adj_full.npz", "class_map.json", "feats.npy", "role.json"
    ]  # fmt: skip
