"""Mapped arrays: rows read from their files, cached, and files that are cut while in use."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from bliss import Bliss, BlockLoader
from bliss.data import import_graph, load_dataset
from bliss.errors import DamagedError, TruncatedError
from bliss.feedback import Survey
from bliss.kernels.row_reading import read_rows
from bliss.loader.gather import draw_scores
from bliss.storage import limits, mapped
from bliss.storage.mapped import RowReader, Watch, files_of, new_map, new_npy
from tests.train.runs import make_trainer, trained

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="maps are found in /proc"),
]
NODES, WIDTH = 600, 20


@pytest.fixture
def store(tmp_path) -> Path:
    random = np.random.default_rng(0)
    group = random.integers(0, 3, NODES)
    chance = 1 / np.arange(1, NODES + 1)
    pairs = random.choice(NODES, (2, 5000), p=chance / chance.sum())
    np.save(tmp_path / "edges.npy", pairs)
    x = random.normal(size=(NODES, WIDTH)) + group[:, None]
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    np.save(tmp_path / "y.npy", group)
    names = {name: tmp_path / f"{name}.npy" for name in ("edges", "x", "y")}
    return import_graph(
        tmp_path / "store",
        edges=names["edges"],
        features=names["x"],
        labels=names["y"],
        splits=(0.5, 0.25, 0.25),
    )


def matrix(path: Path, kind: type = np.float32) -> np.ndarray:
    random = np.random.default_rng(1)
    np.save(path, random.normal(size=(500, 9)).astype(kind))
    return np.load(path, mmap_mode="r")


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("cache", [0, 3000, 10**6])
def test_rows_are_those_of_the_map(tmp_path, kind, cache):
    x = matrix(tmp_path / "x.npy", kind)
    (file,) = files_of([x])
    assert file.path == tmp_path / "x.npy"
    rows, random = RowReader(file, x, cache), np.random.default_rng(2)
    assert rows.capacity == min(cache // (9 * x.itemsize + 16), 500)
    for _ in range(4):
        ids = random.permutation(500)[:60]
        np.testing.assert_array_equal(rows(ids), x[ids])
        rows.renew(random.random(500))
    assert rows(np.empty(0, np.int64)).shape == (0, 9)
    assert (rows.hits > 0) == (cache > 0)


def test_the_cache_holds_the_best_rows_and_reads_each_once(tmp_path):
    x = matrix(tmp_path / "x.npy")
    rows = RowReader(files_of([x])[0], x, 100 * (36 + 16))
    score = np.arange(500.0)
    rows.renew(score)
    assert rows.reads == 100
    np.testing.assert_array_equal(rows(np.arange(400, 500)), x[400:])
    assert (rows.hits, rows.reads) == (100, 100)
    rows.renew(np.where(np.arange(500) < 30, 1000.0, score))  # 30 new ones
    assert rows.reads == 130
    np.testing.assert_array_equal(rows(np.arange(500)), x)
    assert (rows.hits, rows.reads) == (200, 530)


def test_the_kernel_reads_rows_into_their_places(tmp_path):
    x = matrix(tmp_path / "x.npy")
    (file,) = files_of([x])
    out, row, place = np.zeros((4, 9), np.float32), np.array([3, 77, 499]), np.array([2, 0, 3])
    with open(file.path, "rb") as stream:
        flat = out.reshape(-1).view(np.uint8)
        assert read_rows(stream.fileno(), file.offset, 36, row, place, flat, True) == 3
        np.testing.assert_array_equal(out, np.stack([x[77], np.zeros(9), x[3], x[499]]))
        os.truncate(file.path, file.size - 1)
        assert read_rows(stream.fileno(), file.offset, 36, row, place, flat, False) == 2


def test_arrays_in_memory_have_no_file(tmp_path):
    x = np.zeros((500, 9), np.float32)
    assert files_of([x]) == [None]
    assert RowReader.of(x, 1000) is None
    on_disk = matrix(tmp_path / "x.npy")
    assert RowReader.of(on_disk) is None  # small beside the memory
    assert RowReader.of(on_disk, 1000) is not None
    (tmp_path / "x.npy").unlink()
    assert files_of([on_disk]) == [None]
    (tmp_path / "x.npy (deleted)").write_bytes(bytes(20_000))  # as Linux calls what is gone
    assert files_of([on_disk]) == [None]


@pytest.mark.parametrize("name", ["map", "array.npy"])
def test_space_of_a_new_map_is_reserved(tmp_path, name):
    """A write to a map of a full disk would end the process by a signal."""
    shape, file = (1000, 100), tmp_path / name
    if name == "map":
        with file.open("w+b") as opened:
            array = new_map(opened, shape, np.float32)
    else:
        array = new_npy(file, shape, np.float32)
    assert file.stat().st_blocks * 512 >= array.nbytes
    assert not array.any()


def test_a_map_that_was_changed_in_memory_is_read_as_it_is(store):
    x = load_dataset(store).x.numpy()
    assert RowReader.of(x, 1000) is not None
    x[3] += 1  # a private copy of the page
    assert RowReader.of(x, 1000) is None


def test_a_file_larger_than_half_the_memory_is_read_by_rows(tmp_path, monkeypatch):
    on_disk = matrix(tmp_path / "x.npy")
    monkeypatch.setattr(mapped, "memory_limit", lambda: 2 * on_disk.nbytes - 1)
    assert RowReader.of(on_disk) is not None


@pytest.mark.parametrize(
    ("membership", "files", "limit"),
    [
        ("0::/job/step\n", {"job/step/memory.max": "max\n", "job/memory.max": "9000\n"}, 9000),
        ("0::/job\n", {"job/memory.max": "9000\n", "memory.max": "8000\n"}, 8000),
        ("0::/docker/1f\n", {"memory.max": "7000\n"}, 7000),  # the container's group is the root
        ("4:cpu,memory:/a:b\n0::/\n", {"memory/a:b/memory.limit_in_bytes": "600\n"}, 600),
        ("4:cpu:/a\n", {"memory/a/memory.limit_in_bytes": "600\n"}, None),
        (None, {"memory.max": "9000\n"}, None),
    ],
)
def test_memory_is_that_of_the_smallest_control_group(
    tmp_path, monkeypatch, membership, files, limit
):
    monkeypatch.setattr(limits, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(limits, "_MEMBERSHIP", tmp_path / "cgroup")
    if membership is not None:
        (tmp_path / "cgroup").write_text(membership)
    for name, content in files.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert limits.memory_limit() == (machine if limit is None else limit)


@pytest.mark.parametrize("prefetch", [0, 1])
def test_batches_are_the_same_with_and_without_a_cache(store, prefetch):
    dataset = load_dataset(store)
    data = Data(x=dataset.x, y=dataset.y, num_nodes=NODES)
    found = []
    for cache in (0, 60 * (4 * WIDTH + 16)):
        sampler = Bliss(dataset.graph, budgets=[60, 30])
        loader = BlockLoader(
            data,
            sampler,
            dataset.splits["train"],
            batch_size=32,
            prefetch=prefetch,
            feature_cache=cache,
        )
        batches = []
        for batch in loader:
            for block in batch.blocks:
                block.observe(batch.x[: block.num_src])
            batches.append((batch.n_id, batch.x))
            sampler.update(batch.blocks)
            loader.renew_cache()
        found.append(batches)
        if cache:
            rows = loader._gather.readers["x"]
            assert rows.hits > 0.2 * (rows.hits + rows.reads)  # with a tenth of the rows
    for one, other in zip(*found, strict=True):
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])


def test_the_cache_follows_the_policy(store):
    sampler = Bliss(load_dataset(store).graph, budgets=[60, 30])
    degree = np.diff(sampler.graph.indptr)
    np.testing.assert_array_equal(draw_scores(sampler), degree)
    norm = np.ones(NODES, np.float32)
    norm[7] = 50
    sampler.policy.survey(0, Survey(norm))
    found = draw_scores(sampler) / degree
    assert found[7] > 5 * np.delete(found, 7).max()


def test_runs_with_and_without_a_cache_are_the_same(store, tmp_path):
    options = {"steps": 10, "evaluate_every": 5, "features": "raw"}  # others are copied
    dataset = load_dataset(store)
    scores = [
        trained(dataset, tmp_path / str(cache), feature_cache=cache, **options)[1].val_score
        for cache in (0, 5000)
    ]
    lines = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("0", "5000")]
    assert scores[0] == scores[1]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("prefetch", [0, 1])
@pytest.mark.parametrize("name", ["features", "indices"])
def test_a_file_cut_while_training_gives_a_sentence_and_nothing_is_lost(
    store, tmp_path, name, prefetch
):
    options = {"evaluate_every": 10, "steps": 20, "prefetch": prefetch, "feature_cache": 2000}
    options["features"] = "raw"  # others are copied
    expected, _ = trained(load_dataset(store), tmp_path / "whole", **options)
    file = store / f"{name}.npy"
    content = file.read_bytes()

    def cut(now) -> None:
        if now.step == 13:
            os.truncate(file, 5000)  # pages before it stay readable

    trainer = make_trainer(load_dataset(store), tmp_path / "run", **options)
    with pytest.raises(TruncatedError, match=rf"{name}.npy had .* and was cut to 5,000 while"):
        trainer.run(on_step=cut)
    done = trainer.stepper.steps
    assert done in (13, 14)
    assert (tmp_path / "run" / "checkpoints" / f"{done:09d}.json").exists()
    file.write_bytes(content)
    resumed, _ = trained(load_dataset(store), tmp_path / "run", resume=True, **options)
    assert resumed.folder.metrics() == expected.folder.metrics()


@pytest.mark.parametrize("hidden", [8, WIDTH], ids=["projected", "gathered"])
def test_a_file_cut_during_inference_is_noticed_between_chunks(store, hidden):
    from bliss.nn import GNN, ModelConfig, infer

    dataset = load_dataset(store)
    model = GNN(WIDTH, 3, ModelConfig(hidden=hidden, layers=2))
    sizes = {"chunk_edges": 300, "chunk_bytes": 4 * WIDTH * 50}
    seen = []

    def cut(share: float) -> None:
        seen.append(share)
        if len(seen) == 2:
            os.truncate(store / "features.npy", 5000)

    with pytest.raises(TruncatedError, match=r"features\.npy"):
        infer(model, dataset.graph, dataset.x, **sizes, progress=cut)
    assert len(seen) == 2


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    x = matrix(tmp_path / "x.npy")
    rows = RowReader(files_of([x])[0], x)
    os.close(rows._handle)
    rows._handle = os.open(tmp_path, os.O_RDONLY)  # a folder
    with pytest.raises(DamagedError, match=r"x.npy cannot be read at row 4"):
        rows(np.array([4]))


def resident(path: Path) -> int:
    """Kilobytes of a file in this process."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    places = [n for n, line in enumerate(lines) if line.endswith(str(path))]
    sizes = [next(one for one in lines[n:] if one.startswith("Rss:")) for n in places]
    return sum(int(size.split()[1]) for size in sizes)


def test_pages_of_shared_maps_are_released_and_private_ones_are_kept(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(100_000.0))
    shared = np.load(tmp_path / "x.npy", mmap_mode="r+")
    shared[5] = -1
    assert shared.sum() > 0
    assert resident(tmp_path / "x.npy") > 700
    mapped.release([shared, np.zeros(10)])
    assert resident(tmp_path / "x.npy") == 0
    assert shared[5] == -1
    private = np.load(tmp_path / "x.npy", mmap_mode="c")
    private[7] = -2
    mapped.release([private])
    assert private[7] == -2


def test_a_watch_needs_no_file_that_is_gone(tmp_path):
    x = matrix(tmp_path / "x.npy")
    watch = Watch([x, np.zeros(10)])
    assert len(watch.files) == 1
    watch.check()
    (tmp_path / "x.npy").unlink()
    watch.check()  # the map keeps the content
