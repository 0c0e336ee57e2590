"""Ray Train: two workers end with the bits of one process, also if one of them is killed."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from bliss import InputError
from bliss.cli import app
from bliss.data import load_dataset, save_dataset
from bliss.engines import ray as engine
from bliss.engines.ray_worker import copy_newer, copy_run, metrics
from bliss.errors import Interrupted, LostError
from bliss.train import RunFolder, Trainer
from tests.engines.dying import die_once
from tests.train.runs import assert_same_run, quiet, settings
from tests.types.graphs import typed_dataset

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # those of Ray
]
ROOT = Path(__file__).resolve().parents[2]
CHANGES = {"steps": 12, "evaluate_every": 5, "batch_size": 20, "shards": 2, "dropout": 0.1}
CHANGES |= {"model": "rsage", "embedding": 6}  # the engine does not know whether there are types


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("store") / "toy"
    save_dataset(typed_dataset(), folder)
    return folder


@pytest.fixture(scope="module")
def config(store):
    return settings(**CHANGES).with_settings(dataset=str(store))


@pytest.fixture(scope="module")
def alone(config, tmp_path_factory) -> Path:
    """The folder of the same run in this process."""
    folder = tmp_path_factory.mktemp("alone")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    Trainer(config, load_dataset(config.data.dataset), folder, quiet).run()
    torch.set_num_threads(threads)
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """One cluster for all tests, with workers that see these modules."""
    pytest.importorskip("ray")
    given = {
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "HOME": str(tmp_path_factory.mktemp("home")),
        "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
        "RAY_TRAIN_METRICS_ENABLED": "0",
        "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "300",
        "RAY_worker_niceness": "0",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_TMPDIR"):
            patch.delenv(name, raising=False)
        for name, value in given.items():
            patch.setenv(name, value)
        with engine.cluster(2):
            yield


def test_two_workers_of_which_one_is_killed_train_like_one_process(
    cluster, config, alone, tmp_path, monkeypatch, capsys
):
    """All that needs a cluster in one test: starting workers takes many times as long as a run."""
    command = ["train", "--engine", "ray", "--workers", "2", "--out", str(tmp_path / "run")]
    for name, value in {**CHANGES, "dataset": config.data.dataset, "budgets": "60,30"}.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    command += ["--layers", "2", "--hidden", "16", "--lr", "0.02"]
    monkeypatch.setattr(engine, "work", die_once)
    app(command, standalone_mode=False)
    expected = RunFolder(alone).result()
    assert f"test {expected.test_score:.4f}" in capsys.readouterr().out
    assert (tmp_path / "died").exists()
    assert_same_run(alone, tmp_path / "run")

    for rank in (0, 1):
        assert (tmp_path / f"listening-{rank}").read_text().split() == ["127.0.0.1"] * (2 - rank)

    from ray._private.worker import global_worker
    from ray.train import Result

    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert not (Path.home() / ".ray").exists()  # where Ray would keep the token
    session = Path(global_worker.node.get_session_dir_path())
    assert session.parents[1].stat().st_mode & 0o777 == 0o700  # Ray makes its own folders 0o777

    found = Result.from_path(tmp_path / "run.ray")
    assert found.metrics["step"] == 12
    assert found.metrics["test_f1"] == expected.test_score
    assert found.metrics["best_step"] == expected.best_step
    with found.checkpoint.as_directory() as folder:
        assert_same_run(alone, Path(folder))


def test_the_snippet_of_the_docs_makes_a_trainer(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "ray.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    scope: dict[str, Any] = {}
    exec(compile(code, "ray.md", "exec"), scope)
    assert scope["ours"].scaling_config.num_workers == 2
    assert scope["ours"].train_loop_config["out"] == str(tmp_path / "runs/on-ray")


def test_a_copied_run_is_the_same_run(alone, tmp_path):
    copy_run(alone, tmp_path / "copy")
    assert_same_run(alone, tmp_path / "copy")
    assert not (tmp_path / "copy/.lock").exists()


def test_a_newer_checkpoint_of_ray_replaces_the_folder_and_an_older_one_does_not(alone, tmp_path):
    folder = RunFolder(tmp_path / "run")
    copy_newer(alone, folder)
    assert folder.last_step == 12
    assert_same_run(alone, folder.path)
    (folder.path / "metrics.jsonl").write_text("")
    copy_newer(alone, folder)
    assert (folder.path / "metrics.jsonl").read_text() == ""
    for path in folder.checkpoints.glob("*12.*"):
        path.unlink()
    copy_newer(alone, folder)
    assert_same_run(alone, folder.path)


def test_metrics_have_the_names_of_scores(alone):
    folder = RunFolder(alone)
    first = folder.metrics()[0]
    expected = {
        "step": 5,
        "loss": first.loss,
        "train_f1": first.train_score,
        "val_f1": first.val_score,
    }
    assert metrics(first) == expected
    regression = replace_record(first, metric="r2", val_mse=2.0)
    assert metrics(regression)["val_r2"] == first.val_score
    assert metrics(regression)["val_mse"] == 2.0
    assert metrics(folder.result())["test_f1"] == folder.result().test_score


def replace_record(record, **changes):
    import msgspec

    return msgspec.structs.replace(record, **changes)


BAD = {
    "workers that do not divide shards": (
        ["--engine", "ray", "--shards", "4", "--workers", "3"],
        "shards=4 cannot be divided among 3 processes",
    ),
    "no workers": (["--engine", "ray", "--workers", "0"], "workers=0 must be a whole number, 1"),
    "workers of no engine": (["--workers", "2"], "workers=2 needs --engine ray"),
    "unknown engine": (["--engine", "spark"], "engine='spark' is not known: choose one of local"),
    "auto": (["--engine", "ray", "--budgets", "auto"], "budgets='auto' needs a single process"),
    "tensorboard": (["--engine", "ray", "--tensorboard"], "tensorboard=True is not supported"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_are_refused_before_ray_starts(case, monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "cluster", None)
    arguments, sentence = BAD[case]
    done = CliRunner().invoke(app, ["train", "--out", str(tmp_path / "run"), *arguments])
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_ray_within_torchrun_is_refused(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = CliRunner().invoke(app, ["train", "--engine", "ray"])
    assert "run the command without torchrun" in done.stderr


def test_a_missing_package_is_named_with_the_remedy(monkeypatch, tmp_path):
    for name in ("ray", "ray.train", "ray.train.torch"):
        monkeypatch.setitem(sys.modules, name, None)
    done = CliRunner().invoke(app, ["train", "--engine", "ray", "--out", str(tmp_path / "run")])
    assert done.exit_code == 2
    assert "needs Ray: install it with pip install 'bliss-gnn[ray]'" in done.stderr


def test_elastic_numbers_of_workers_must_all_divide_shards():
    engine.check_workers(2, (1, 2))
    with pytest.raises(InputError, match="shards=4 cannot be divided among 3 processes"):
        engine.check_workers(4, (1, 4))


def test_folders_of_other_runs_are_refused(alone, tmp_path):
    with pytest.raises(InputError, match="already holds a run: pass --resume"):
        engine._check_places(alone, tmp_path, "other", resume=False)
    (tmp_path / "old.ray").mkdir()
    with pytest.raises(InputError, match="holds checkpoints of another run"):
        engine._check_places(tmp_path / "old", tmp_path, "old.ray", resume=False)
    engine._check_places(alone, tmp_path, "old.ray", resume=True)
    with pytest.raises(InputError, match="is inside the run's folder"):
        engine._check_places(tmp_path, tmp_path / "storage", "name", resume=True)


def test_paths_are_absolute_for_workers_and_names_stay_names(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert engine._dataset_place("cora") == "cora"
    assert engine._dataset_place("graphs/own") == str(tmp_path / "graphs/own")


def test_an_error_of_a_worker_is_raised_as_it_is():
    wrapped = RuntimeError("with a traceback")
    wrapped._base_exc = InputError("lr=0 must be above 0.")
    failed = RuntimeError("training failed")
    failed.worker_failures = {0: LostError("no answer"), 1: wrapped}
    assert engine._explained(failed) is wrapped._base_exc


@pytest.mark.parametrize(("code", "number"), [(0, signal.SIGINT), (1, signal.SIGTERM)])
def test_signals_that_ray_handles_are_interruptions(code, number):
    pytest.importorskip("ray")

    class Stopped:
        def fit(self):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            sys.exit(code)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted) as stop:
        engine.fit(Stopped())
    assert stop.value.number == number
    assert signal.getsignal(signal.SIGINT) is before


def test_failures_without_a_sentence_are_lost_workers():
    failed = RuntimeError("training failed")
    assert str(engine._explained(failed)) == "Ray has stopped the run (training failed)."
    failed.worker_failures = {0: LostError("no answer"), 1: RuntimeError("killed\nmore")}
    assert str(engine._explained(failed)) == "worker 1 of Ray has failed (killed)."
    assert isinstance(engine._explained(failed), LostError)
