"""A run's folder stays whole: damage is noticed, leftovers are removed, one process writes."""

from __future__ import annotations

import itertools
import json
import os
import shutil

import numpy as np
import pytest
import safetensors.torch

from bliss.errors import DamagedError, InputError, ResourceError
from bliss.storage.digests import new_digest
from bliss.train import Evaluation, RunFolder, open_task
from bliss.train.results import StepTime
from tests.train.runs import make_trainer, settings, trained

pytestmark = pytest.mark.slow


@pytest.fixture
def finished(whole, tmp_path):
    """A copy of a finished run."""
    return shutil.copytree(whole(), tmp_path / "run")


def test_a_damaged_checkpoint_falls_back_to_the_one_before(finished):
    folder = RunFolder(finished)
    newest = finished / "checkpoints" / "000000030.safetensors"
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 255
    newest.write_bytes(data)
    said = []
    assert folder.load_checkpoint(said.append).counters["loader"]["step"] == 20
    assert "checkpoint of step 30 is damaged" in said[0]
    (finished / "checkpoints" / "000000020.json").write_text("{")
    with pytest.raises(DamagedError, match="no intact checkpoint"):
        folder.load_checkpoint(said.append)


@pytest.mark.parametrize(
    "damage", ["a counter gone", "a counter changed", "not counters", "nested", "a pipe"]
)
def test_damaged_counters_are_noticed_too(finished, damage):
    newest = finished / "checkpoints" / "000000030.json"
    counters = json.loads(newest.read_text())
    if damage == "a counter gone":
        del counters["progress"]
    else:
        counters["loader"]["step"] = 3
    texts = {"not counters": "[1]", "nested": "[" * 100_000}
    newest.write_text(texts.get(damage, json.dumps(counters)))
    if damage == "a pipe":
        newest.unlink()
        os.mkfifo(newest)
    said = []
    checkpoint = RunFolder(finished).load_checkpoint(said.append)
    assert checkpoint.counters["loader"]["step"] == 20
    assert "checkpoint of step 30 is damaged" in said[0]


NESTED = b"[" * 100_000 + b"\n"


@pytest.mark.parametrize("line", [b"\xff\n", b"[1]\n", b"{}\n", b'{"step": "2"}\n', NESTED])
@pytest.mark.parametrize("number", [2, 3])
def test_a_damaged_line_of_metrics_is_named_and_nothing_is_lost(dataset, finished, line, number):
    file = finished / "metrics.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    lines[number - 1] = line
    before = b"".join(lines)
    file.write_bytes(before)
    with pytest.raises(DamagedError, match=rf"metrics.jsonl, line {number}, "):
        trained(dataset, finished, resume=True)
    assert file.read_bytes() == before


def evaluation(step: int) -> Evaluation:
    return Evaluation(step=step, loss=1.0, metric="f1", train_score=0.5, val_score=0.25)


def test_a_line_of_metrics_cut_short_is_forgotten(tmp_path):
    folder = RunFolder(tmp_path)
    with folder.locked():
        folder.add_metrics(evaluation(1))
        with (tmp_path / "metrics.jsonl").open("a") as file:
            file.write('{"step": 2, "lo')
        folder.forget_after(5)
        folder.add_metrics(evaluation(3))
    assert folder.metrics() == [evaluation(1), evaluation(3)]


def test_a_folder_serves_one_run_at_a_time(dataset, tmp_path):
    with RunFolder(tmp_path).locked(), pytest.raises(InputError, match="in use by another run"):
        trained(dataset, tmp_path)


def test_a_folder_that_cannot_be_written_is_refused(dataset, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot be written"):
        trained(dataset, tmp_path / "file" / "run")


def test_a_full_disk_leaves_the_old_file_whole(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    with folder.locked():
        folder.write_settings(settings(seed=1))

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ResourceError, match="free disk space"):
            folder.write_settings(settings(seed=2))
    assert folder.settings().seed == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "checkpoints", "config.json"]


READERS = {
    "best.safetensors": lambda folder: folder.load_best(),
    "metrics.jsonl": lambda folder: folder.metrics(),
    "times.jsonl": lambda folder: folder.times(),
    "result.json": lambda folder: folder.result(),
}


LEFTOVERS = [
    ".config.json.abcdefgh.bliss-scratch",
    "checkpoints/.000000030.json.a_0bcdef.bliss-scratch",
    "checkpoints/000000025.safetensors",  # its counters were not written
]
OTHERS = [
    "notes.txt",
    ".hidden",
    "x.abcdefgh.bliss-scratch",  # scratch files start with a dot
    ".x.abc.bliss-scratch",  # and have eight letters
    "checkpoints/notes.json",
    "checkpoints/000000025.txt",
]


def test_the_next_start_removes_what_a_killed_run_left_and_nothing_else(dataset, finished):
    for name in (*LEFTOVERS, *OTHERS):
        (finished / name).write_bytes(b"")
    trained(dataset, finished, resume=True)
    assert [name for name in LEFTOVERS if (finished / name).exists()] == []
    assert [name for name in OTHERS if not (finished / name).exists()] == []
    kept = sorted(path.name for path in (finished / "checkpoints").glob("0000000[23]0.*"))
    assert kept == [f"0000000{s}0.{x}" for s in (2, 3) for x in ("json", "safetensors")]


@pytest.mark.parametrize("resume", [False, True])
def test_checkpoints_without_settings_are_not_mixed_with_those_of_a_new_run(
    dataset, finished, resume
):
    (finished / "config.json").unlink()
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=r"holds checkpoints, metrics.* but no config"):
        make_trainer(dataset, finished, seed=7).run(resume)
    assert before == {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "times.jsonl", "best.safetensors", "result.json"]
)
def test_any_file_of_another_run_is_refused(dataset, finished, tmp_path, name):
    (tmp_path / "new").mkdir()
    shutil.copy(finished / name, tmp_path / "new" / name)
    with pytest.raises(InputError, match=rf"holds {name} of another run but no config"):
        trained(dataset, tmp_path / "new")
    assert (tmp_path / "new" / name).read_bytes() == (finished / name).read_bytes()


def test_checkpoints_of_other_settings_are_refused(dataset, finished, whole):
    shutil.rmtree(finished / "checkpoints")
    shutil.copytree(whole(seed=7) / "checkpoints", finished / "checkpoints")
    with pytest.raises(DamagedError, match=r"checkpoints in .* belong to other settings"):
        trained(dataset, finished, resume=True)


def test_weights_of_another_run_are_refused(finished, whole):
    shutil.copy(whole(seed=7) / "best.safetensors", finished / "best.safetensors")
    with pytest.raises(DamagedError, match="was written with other settings than those in config"):
        RunFolder(finished).load_best()


def values(name, found):
    if name == "best.safetensors":
        return {key: tensor.tolist() for key, tensor in found.items()}
    return found


@pytest.mark.parametrize("name", READERS)
def test_no_bit_of_a_run_changes_without_a_word(finished, name):
    folder, file = RunFolder(finished), finished / name
    original = file.read_bytes()
    expected = values(name, READERS[name](folder))
    random = np.random.default_rng(0)
    noticed = 0
    for place in (0, len(original) - 2, *random.integers(len(original) - 1, size=60).tolist()):
        content = bytearray(original)
        content[place] ^= 1 << random.integers(8)
        file.write_bytes(content)
        try:
            found = values(name, READERS[name](folder))
        except DamagedError:
            noticed += 1
        else:
            assert found == expected  # spaces between names, for instance
    assert noticed > 30


@pytest.mark.parametrize("change", ["removed", "swapped", "repeated"])
def test_lines_of_metrics_are_complete_and_in_order(finished, change):
    file = finished / "metrics.jsonl"
    first, second, third = file.read_bytes().splitlines(keepends=True)
    orders = {"removed": [first, third], "swapped": [second, first], "repeated": [first, first]}
    file.write_bytes(b"".join(orders[change]))
    with pytest.raises(DamagedError, match=r"metrics.jsonl, line [12], does not match its digest"):
        RunFolder(finished).metrics()


@pytest.mark.parametrize("name", ["metrics.jsonl", "times.jsonl"])
def test_a_finished_run_has_the_lines_of_its_last_step(finished, name):
    file = finished / name
    file.write_bytes(file.read_bytes()[:-1])  # the last line is incomplete
    with pytest.raises(DamagedError, match=rf"{name} ends before the last step \(30\)"):
        READERS[name](RunFolder(finished))
    (finished / "result.json").unlink()
    assert [line.step for line in READERS[name](RunFolder(finished))] == [10, 20]


@pytest.mark.parametrize("name", ["metrics.jsonl", "times.jsonl", "result.json"])
def test_files_of_another_run_are_noticed(finished, whole, name):
    shutil.copy(whole(seed=7) / name, finished / name)
    with pytest.raises(DamagedError, match=rf"{name}.* belongs to another run"):
        READERS[name](RunFolder(finished))


@pytest.mark.parametrize("name", ["config.json", *READERS])
def test_pipes_in_the_folder_of_a_run_are_not_opened(finished, name):
    (finished / name).unlink()
    os.mkfifo(finished / name)
    read = READERS.get(name, RunFolder.settings)
    with pytest.raises(InputError, match="is a device or a pipe"):
        read(RunFolder(finished))


def test_odd_values_of_settings_are_refused_before_a_network_is_built(dataset, finished):
    file = finished / "config.json"
    original = json.loads(file.read_text())
    odd = [
        None,
        True,
        -1,
        7,
        10**9,
        2**70,
        1e400,
        0.25,
        "",
        "x",
        "\ud800",
        [],
        [[1]],
        {"a": [None]},
    ]
    free = {"dataset", "device", "steps", "feature_cache"}  # may change
    places = [(part, name) for part in original for name in original[part] if name not in free]
    for (part, name), value in itertools.product(places, odd):
        if value != original[part][name]:
            file.write_text(json.dumps(original | {part: original[part] | {name: value}}))
            with pytest.raises(DamagedError):
                open_task(RunFolder(finished), lambda config: dataset)


@pytest.mark.parametrize("name", ["metrics.jsonl", "times.jsonl"])
def test_a_line_that_the_checkpoint_counts_is_missed(dataset, finished, name):
    """Only a line after the checkpoint may be incomplete: the run writes it again."""
    file = finished / name
    (finished / "result.json").unlink()
    file.write_bytes(file.read_bytes()[:-5])
    before = file.read_bytes()
    with pytest.raises(DamagedError, match=rf"{name} does not hold the evaluation after step 30"):
        trained(dataset, finished, resume=True)
    assert file.read_bytes() == before


def test_an_evaluation_that_the_checkpoint_does_not_count_is_forgotten(tmp_path):
    """The checkpoint of step 8 was written when a signal stopped the evaluation after it."""
    folder = RunFolder(tmp_path)
    with folder.locked():
        for step in (4, 8):
            folder.add_metrics(evaluation(step))
            folder.add_times(StepTime(step=step, seconds=1.0))
        folder.forget_after(8, evaluated=4)
    assert [line.step for line in folder.metrics()] == [4]
    assert [line.step for line in folder.times()] == [4]


def forged(folder, **changes):
    """Settings, or counters of the newest checkpoint, changed with their digests."""
    file = folder / "checkpoints" / "000000030.json"
    counters = {k: v for k, v in json.loads(file.read_text()).items() if k != "digest"} | changes
    digest = new_digest()
    digest.update(file.with_suffix(".safetensors").read_bytes())
    digest.update(json.dumps(counters, sort_keys=True).encode())
    file.write_text(json.dumps(counters | {"digest": digest.hexdigest()}))


COUNTERS = {
    "losses": ["a", {}, [1.0], [0.0, "x"]],
    "sampled": [[], [1.5, 2], {"a": 1}],
    "step_seconds": [{}, None],
    "progress": [{"stale": "a"}, {"unknown": 1}, []],
    "loader": [{}, {"epoch": -1, "batch": 0, "step": 0}],
}


@pytest.mark.parametrize("name", COUNTERS)
def test_counters_of_other_types_are_refused(dataset, finished, name):
    for value in COUNTERS[name]:
        forged(finished, **{name: value})
        with pytest.raises(DamagedError, match="the checkpoint does not fit the settings"):
            trained(dataset, finished, resume=True)


def test_a_checkpoint_that_does_not_name_its_data_is_refused(dataset, finished):
    forged(finished, data=None)
    with pytest.raises(InputError, match="has changed since the run"):
        trained(dataset, finished, resume=True)


@pytest.mark.parametrize("changes", [{"hidden": 2**31}, {"layers": 3000, "budgets": [9] * 3000}])
def test_a_network_larger_than_its_weights_is_not_built(dataset, finished, changes):
    folder = RunFolder(finished)
    schema, changed = folder.schema(), folder.settings().with_settings(**changes)
    (finished / "config.json").write_text(json.dumps(changed.to_dict()))
    weights = safetensors.torch.load((finished / "best.safetensors").read_bytes())
    folder.save_best(weights, schema)  # with a digest of these settings
    with pytest.raises(DamagedError, match="are smaller than layers="):
        open_task(folder, lambda config: dataset)


def test_odd_names_of_settings_make_one_short_line(finished):
    values = json.loads((finished / "config.json").read_text()) | {"\r\n" * 5000: 1}
    (finished / "config.json").write_text(json.dumps(values))
    with pytest.raises(DamagedError, match="does not hold the settings") as caught:
        RunFolder(finished).settings()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000
