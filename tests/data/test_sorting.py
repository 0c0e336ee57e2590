"""The sort on disk gives the graph that is made in memory, however little memory it has."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest

from bliss import InputError
from bliss.data import import_graph, importing, npy, open_store, sorting, verify_dataset
from bliss.data.edges import Edges, held, make_graph
from bliss.data.summary import import_summary
from bliss.errors import ResourceError
from bliss.train import resolve
from bliss.train.step import Stepper
from bliss.train.task import build_task
from tests.data.files import csv, write

pytestmark = pytest.mark.slow

NODES = 300


def edges(kind, seed=0, size=6000):
    """Edges with hubs, duplicates in both directions and self-loops; and their weights."""
    random = np.random.default_rng(seed)
    spread = {"hubs": 4, "flat": 1}[kind]
    source = (NODES * random.random(size) ** spread).astype(np.int64)
    target = (NODES * random.random(size) ** (2 * spread)).astype(np.int64)
    return np.stack([source, target]), (10 * random.random(size)).astype(np.float32)


@pytest.fixture(params=[(64, 40), (1000, 700), (1 << 20, 1 << 20)], ids=["tiny", "small", "ample"])
def limits(request, monkeypatch):
    """Edges of a chunk and keys of a bucket: many runs and several levels of buckets, or one."""
    rows, keys = request.param
    monkeypatch.setattr(sorting, "_MOST_EDGES", rows)
    monkeypatch.setattr(sorting, "_MOST_KEYS", keys)
    monkeypatch.setattr(sorting, "_BUCKET_BITS", 4)


@pytest.mark.parametrize("kind", ["hubs", "flat"])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_graph_and_summary_are_those_made_in_memory(tmp_path, limits, kind, directed, is_weighted):
    pairs, weight = edges(kind)
    files = {
        "edges": write(tmp_path, "e.npy", pairs.T),
        "features": write(tmp_path, "x.npy", np.zeros((NODES, 1))),
    }
    if is_weighted:
        files["weight"] = write(tmp_path, "w.npy", weight)
    store = open_store(import_graph(tmp_path / "s", **files, directed=directed))
    given = Edges(*pairs, weight if is_weighted else None)
    graph = make_graph(given, NODES, directed)
    assert store.graph.norm == graph.norm
    for name in ("indptr", "indices", "weight"):
        found, expected = getattr(store.graph, name), getattr(graph, name)
        np.testing.assert_array_equal(found, expected)  # also the last bit of sums of weights
        assert found.dtype == expected.dtype or not found.size
    assert store.imported == import_summary(given, graph, directed, ())
    assert store.graph.__dict__["has_self_loops"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [path.name for path in files.values()] + ["s"]
    )


@pytest.mark.parametrize("size", [1, 2, 2**5, 2**5 + 1])
def test_sizes_at_powers_of_two_and_edges_of_one_pair(tmp_path, limits, size):
    pairs = np.zeros((200, 2), np.int64)
    pairs[:, 0] = size - 1
    features = write(tmp_path, "x.npy", np.zeros((size, 1)))
    folder = import_graph(tmp_path / "s", edges=write(tmp_path, "e.npy", pairs), features=features)
    graph = make_graph(Edges(*pairs.T, None), size, directed=True)
    found = open_store(folder).graph
    np.testing.assert_array_equal(found.indptr, graph.indptr)
    np.testing.assert_array_equal(found.indices, graph.indices)


def forms(folder, pairs, weight):
    """The same edges in files of every form."""
    table = {"src": pairs[0], "dst": pairs[1], "weight": weight, "other": weight}
    np.save(folder / "f.npy", np.asfortranarray(pairs))
    return {
        "fortran": {"edges": folder / "f.npy", "weight": write(folder, "w.npy", weight)},
        "big-endian": {
            "edges": write(folder, "b.npy", pairs.astype(">i4")),
            "weight": folder / "w.npy",
        },
        "npz": {"edges": write(folder, "e.npz", dict(list(table.items())[:3]))},
        "parquet": {"edges": write(folder, "e.parquet", table)},
        "csv": {"edges": write(folder, "e.csv", csv(*pairs, weight, header="src,dst,weight"))},
        "csv with an index": {
            "edges": write(
                folder, "i.csv", csv(range(len(weight)), *pairs, weight, header=",u,v,weight")
            )
        },
        "csv and weights": {
            "edges": write(folder, "p.csv", csv(*pairs)),
            "weight": folder / "w.npy",
        },
        "blanks": {
            "edges": write(folder, "e.txt", "# a comment\n" + csv(*pairs, weight, mark="  "))
        },
    }


def test_every_form_is_read_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(sorting, "_MOST_EDGES", 100)
    pairs, weight = edges("hubs")
    weight = weight.round(2)
    features = write(tmp_path, "x.npy", np.zeros((NODES, 1)))
    expected = make_graph(Edges(*pairs, weight), NODES, directed=True)
    for name, files in forms(tmp_path, pairs, weight).items():
        told = []
        folder = import_graph(
            tmp_path / f"s {name}",
            features=features,
            **files,
            progress=lambda what, share, told=told: told.append((what.partition(":")[0], share)),
        )
        found = open_store(folder).graph
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_array_equal(found.weight, expected.weight)
        assert sum(what == "reading edges" for what, _ in told) >= 8, name
        shares = [share for what, share in told if what == "sorting edges"]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0


def test_names_are_found_in_every_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(sorting, "_MOST_EDGES", 1)
    names = [f"n{node}" if node % 2 else str(node) for node in range(NODES)]
    pairs, _ = edges("flat")
    lines = [f"{names[j]},{names[i]}" for j, i in pairs.T]
    folder = import_graph(
        tmp_path / "s",
        edges=write(tmp_path, "e.csv", "src,dst\n" + "\n".join(lines)),
        features=write(tmp_path, "x.csv", csv(names, range(NODES), header="id,x")),
    )
    expected = make_graph(Edges(*pairs, None), NODES, directed=True)
    np.testing.assert_array_equal(open_store(folder).graph.indices, expected.indices)


@pytest.mark.parametrize("field", ["edges", "features", "weight"])
def test_a_source_that_is_cut_short_while_it_is_read_gets_one_sentence(
    tmp_path, monkeypatch, field
):
    monkeypatch.setattr(sorting, "_MOST_EDGES", 100)
    pairs, weight = edges("flat")
    files = {
        "edges": write(tmp_path, "edges.npy", pairs),
        "features": write(tmp_path, "features.npy", np.zeros((NODES, 100))),
        "weight": write(tmp_path, "weight.npy", weight),
    }
    before = sorted(tmp_path.iterdir())

    def cut(what, share):
        if "reading" in what:
            os.truncate(files[field], 1000)

    with pytest.raises(InputError, match=rf"{field}\.npy cannot be read .* cut short") as caught:
        import_graph(tmp_path / "s", **files, progress=cut)
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("most", [20_000, 60_000])
def test_a_disk_that_is_full_while_edges_are_sorted_is_said(tmp_path, most):
    """A limit on the size of files stands in for the end of the disk, in the runs or the graph."""
    pairs, _ = edges("flat", size=8000)
    files = {
        "edges": write(tmp_path, "e.npy", pairs),
        "features": write(tmp_path, "x.npy", np.zeros((20_000, 1))),
    }
    before, limits = sorted(tmp_path.iterdir()), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    try:
        with pytest.raises(ResourceError, match=r"cannot be written .*: free disk space, then try"):
            import_graph(tmp_path / "s", **files)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(tmp_path.iterdir()) == before


def test_too_many_nodes_are_refused(tmp_path):
    with pytest.raises(InputError, match="at most 2,147,483,648 nodes"):
        sorting.EdgeSorter(tmp_path, 2**31 + 1, False, True, 1 << 20)


def test_a_killed_import_leaves_no_store_and_the_next_one_cleans_up(tmp_path):
    pairs, _ = edges("flat")
    files = {
        "edges": write(tmp_path, "e.npy", pairs),
        "features": write(tmp_path, "x.npy", np.zeros((NODES, 1))),
    }
    code = (
        "import sys, time; from bliss.data import import_graph\n"
        "def wait(what, share):\n"
        "    if 'sorting' in what: print('sorting', flush=True); time.sleep(60)\n"
        "import_graph(sys.argv[1], edges=sys.argv[2], features=sys.argv[3], progress=wait)\n"
    )
    command = [sys.executable, "-c", code, tmp_path / "s", *files.values()]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"sorting\n"
        (scratch,) = tmp_path.glob(".s.*")
        import_graph(tmp_path / "other", **files)
        import_graph(tmp_path / "s", **files)  # while the first one is at work
        assert scratch.exists()
        process.send_signal(signal.SIGKILL)
    (tmp_path / "s").rename(tmp_path / "first")
    assert {path.name for path in scratch.iterdir()} >= {"indices.npy"}
    import_graph(tmp_path / "s", **files)
    assert not scratch.exists()


@pytest.mark.parametrize("memory", [0, -1, "much", "1 XB", 1.5, True])
def test_memory_is_a_number_of_bytes(tmp_path, good, memory):
    with pytest.raises(InputError, match=r"memory=.* must be a number of bytes"):
        import_graph(tmp_path / "s", **good, memory=memory)


def test_the_default_memory_is_a_quarter_of_the_control_groups(tmp_path, good, monkeypatch):
    sizes = []
    monkeypatch.setattr("bliss.storage.limits._GROUPS", tmp_path)
    monkeypatch.setattr("bliss.storage.limits._MEMBERSHIP", tmp_path / "cgroup")
    (tmp_path / "cgroup").write_text("0::/\n")
    (tmp_path / "memory.max").write_text(f"{2**28}\n")
    monkeypatch.setattr(importing, "chunk_rows", lambda size: sizes.append(size) or 1000)
    import_graph(tmp_path / "s", **good)
    assert sizes == [2**26]


def test_arrays_are_read_in_parts_of_either_axis_and_order(tmp_path):
    array = np.arange(35, dtype=np.int16).reshape(5, 7)
    for name, stored in (("c", array), ("f", np.asfortranarray(array))):
        rows = npy.NpyRows(write(tmp_path, f"{name}.npy", stored))
        np.testing.assert_array_equal(rows.read(1, 4), array[1:4])
        np.testing.assert_array_equal(rows.read(2, 9, axis=1), array[:, 2:9])
    flat = npy.NpyRows(write(tmp_path, "1.npy", array[0]))
    np.testing.assert_array_equal(flat.read(3, 6), array[0, 3:6])


def test_held_edges_come_in_chunks():
    pairs, weight = edges("flat", size=10)
    parts = list(held(Edges(*pairs, weight)).chunks(4))
    assert [len(part.source) for part in parts] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate([part.weight for part in parts]), weight)


def test_half_precision_features_train_like_the_numbers_they_hold(tmp_path):
    random = np.random.default_rng(0)
    pairs, _ = edges("flat")
    x = random.normal(size=(NODES, 8)).astype(np.float16)
    files = {
        "edges": write(tmp_path, "e.npy", pairs),
        "labels": write(tmp_path, "y.npy", np.arange(NODES) % 3),
    }
    losses = {}
    for kind in ("float16", "float32"):
        features = write(tmp_path, f"{kind}.npy", x.astype(kind))
        folder = import_graph(tmp_path / f"s{kind}", features=features, feature_type=kind, **files)
        verify_dataset(folder)
        dataset = open_store(folder)
        assert str(dataset.x.dtype) == f"torch.{kind}"
        config = resolve(dataset=str(folder), hidden=8, batch_size=50, budgets=(60, 40), layers=2)
        stepper = Stepper(build_task(config, dataset))
        batches = islice(stepper.batches(), 3)
        losses[kind] = [stepper.step(batch) for batch in batches]
        made = {"degree", "_source_factors"}
        assert not made & set(stepper.task.graph.__dict__)  # 8 bytes per node each
    assert losses["float16"] == losses["float32"]
    assert losses["float16"][0] != losses["float16"][1]


def test_features_that_half_precision_cannot_hold_are_refused(tmp_path, good):
    features = write(tmp_path, "x.npy", np.full((5, 2), 7e4, np.float32))
    good["features"] = features
    with pytest.raises(InputError, match=r"is 70000\.0, but .* finite in float16: scale the feat"):
        import_graph(tmp_path / "s", **good, feature_type="float16")
    with pytest.raises(InputError, match="feature_type='float64' is not known"):
        import_graph(tmp_path / "s", **good, feature_type="float64")
    np.testing.assert_array_equal(open_store(import_graph(tmp_path / "s", **good)).x, 7e4)


def test_files_are_closed_even_if_they_cannot_be_deleted_or_the_second_not_opened(
    tmp_path, monkeypatch
):
    def fails(*_, **__):
        raise PermissionError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(sorting.Path, "unlink", fails)
        sorter = sorting.EdgeSorter(tmp_path, 10, True, True, 1 << 20)
        opened = list(sorter._runs.files)
        with pytest.raises(PermissionError), sorter:
            pass
    assert len(opened) == 2
    assert all(file.closed for file in opened)

    kept = []

    def first_only(path, mode):
        if kept:
            fails()
        kept.append(open(path, mode))  # noqa: SIM115
        return kept[0]

    monkeypatch.setattr(sorting.Path, "open", first_only)
    folder = tmp_path / "new"
    folder.mkdir()
    with pytest.raises(PermissionError):
        sorting.EdgeSorter(folder, 10, True, True, 1 << 20)
    assert kept[0].closed
    assert not list(folder.iterdir())
