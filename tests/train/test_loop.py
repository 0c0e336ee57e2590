"""Training learns, stops and goes on as if it had not stopped, and keeps its files whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import multiclass_f1_score, multilabel_f1_score

from bliss.errors import DamagedError, InputError, ResourceError
from bliss.samplers import SAMPLERS, sampler_class
from bliss.train import Interrupted, RunFolder, TrainConfig, Trainer, micro_f1, resolve
from tests.train.conftest import make_dataset

SETTINGS = {
    "dataset": "toy",
    "layers": 2,
    "hidden": 16,
    "budgets": (60, 30),
    "batch_size": 40,
    "steps": 30,
    "lr": 0.02,
    "evaluate_every": 10,
}


BUDGETS = {"sources": (60, 30), "neighbours": (5, 5)}


def quiet(_: str) -> None:
    pass


def trained(dataset, out: Path, resume: bool = False, **changes):
    trainer = Trainer(TrainConfig(**(SETTINGS | changes)), dataset, out, quiet)
    return trainer, trainer.run(resume)


def state(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {
        **{f"model.{k}": v for k, v in trainer.model.state_dict().items()},
        **{f"sampler.{k}": v.clone() for k, v in trainer.sampler.state_dict().items()},
    }


@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "gatv2"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_model_learns_with_every_sampler(dataset, tmp_path, model, sampler):
    options = {"estimator": "ht" if sampler == "sketch" else ""}
    kind = sampler_class(sampler)
    options["budgets"] = BUDGETS.get(kind.unit, ())
    if kind.makes_batches:
        options["batch_size"] = 60  # half of the training nodes, or as many draws
    if kind.linear_only and model in ("gat", "gatv2"):
        with pytest.raises(InputError, match=f"model='{model}' learns its coefficients"):
            TrainConfig(**(SETTINGS | options), model=model, sampler=sampler)
        return
    _, result = trained(dataset, tmp_path, model=model, sampler=sampler, steps=60, **options)
    assert result["val_f1"] > 0.75  # least squares on the features alone: 0.68
    assert set(result["step_ms"]) == {
        "sample", "gather", "forward", "backward", "update", "total"
    }  # fmt: skip


def test_multi_label_data_trains(tmp_path):
    _, result = trained(make_dataset(multilabel=True), tmp_path, steps=60)
    assert result["test_f1"] > 0.7


def test_bfloat16_trains_too(dataset, tmp_path):
    _, result = trained(dataset, tmp_path, precision="bfloat16", model="gatv2", steps=60)
    assert result["val_f1"] > 0.7


def test_micro_f1_is_torchmetrics():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(500, 7, generator=generator)
    classes = torch.randint(0, 7, (500,), generator=generator)
    several = (torch.rand(500, 7, generator=generator) < 0.3).float()
    expected = multiclass_f1_score(logits, classes, num_classes=7, average="micro")
    assert micro_f1(logits, classes) == pytest.approx(expected.item())
    expected = multilabel_f1_score(logits.sigmoid(), several.long(), num_labels=7, average="micro")
    assert micro_f1(logits, several) == pytest.approx(expected.item())


@pytest.mark.parametrize("prefetch", [0, 1])
@pytest.mark.parametrize(
    ("stop", "number"),
    [
        (1, signal.SIGTERM),
        (7, signal.SIGINT),
        (10, signal.SIGTERM),
        (13, signal.SIGINT),
        (29, signal.SIGTERM),
    ],
)
def test_a_run_stopped_after_any_step_ends_as_if_it_had_not(
    dataset, tmp_path, stop, number, prefetch
):
    options = {"policy": "exp3-released", "model": "gatv2", "prefetch": prefetch}
    whole, expected = trained(dataset, tmp_path / "whole", **options)
    trainer = Trainer(TrainConfig(**(SETTINGS | options)), dataset, tmp_path / "cut", quiet)

    def interrupt(now) -> None:
        if now.step == stop:
            os.kill(os.getpid(), number)

    with pytest.raises(Interrupted):
        trainer.run(on_step=interrupt)
    resumed, result = trained(dataset, tmp_path / "cut", resume=True, **options)
    for name, tensor in state(whole).items():
        assert torch.equal(tensor, state(resumed)[name]), name
    for name in ("train_f1", "val_f1", "test_f1", "best_step", "steps"):
        assert result[name] == expected[name]
    assert RunFolder(tmp_path / "cut").metrics() == RunFolder(tmp_path / "whole").metrics()


PROGRAM = """
    import sys
    from pathlib import Path
    from bliss.train import TrainConfig, Trainer
    from tests.train.conftest import make_dataset
    from tests.train.test_loop import SETTINGS
    trainer = Trainer(TrainConfig(**SETTINGS), make_dataset(), Path(sys.argv[1]), print)
    print("ready", flush=True)
    trainer.run("--resume" in sys.argv, lambda now: print(now.step, flush=True))
"""


def start(out: Path, *flags: str) -> subprocess.Popen:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(PROGRAM), str(out), *flags]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)


def test_a_killed_run_ends_as_if_it_had_not_been(dataset, tmp_path):
    trained(dataset, tmp_path / "whole")
    with start(tmp_path / "cut") as process:
        for line in process.stdout:
            if line.strip() == "17":
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    with start(tmp_path / "cut", "--resume") as again:
        again.communicate()
    assert again.returncode == 0
    ours, theirs = RunFolder(tmp_path / "cut"), RunFolder(tmp_path / "whole")
    found = ours.load_checkpoint(quiet).tensors
    for name, tensor in theirs.load_checkpoint(quiet).tensors.items():
        if name.startswith("times."):  # no two runs take the same time
            assert found[name].shape == tensor.shape == (30,)
        else:
            assert torch.equal(found[name], tensor), name
    assert ours.metrics() == theirs.metrics()


def test_two_runs_with_one_seed_are_equal_and_with_two_are_not(dataset, tmp_path):
    first, _ = trained(dataset, tmp_path / "a")
    again, _ = trained(dataset, tmp_path / "b")
    other, _ = trained(dataset, tmp_path / "c", seed=1)
    weight = "model.convs.0.own.weight"
    assert torch.equal(state(first)[weight], state(again)[weight])
    assert not torch.equal(state(first)[weight], state(other)[weight])


def test_patience_ends_a_run_early(dataset, tmp_path):
    _, result = trained(dataset, tmp_path, steps=400, patience=2, lr=1e-9, evaluate_every=5)
    assert result["steps"] <= 30


def test_a_damaged_checkpoint_falls_back_to_the_one_before(dataset, tmp_path):
    trained(dataset, tmp_path)
    folder = RunFolder(tmp_path)
    newest = tmp_path / "checkpoints" / "000000030.safetensors"
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 255
    newest.write_bytes(data)
    said = []
    assert folder.load_checkpoint(said.append).counters["loader"]["step"] == 20
    assert "checkpoint of step 30 is damaged" in said[0]
    (tmp_path / "checkpoints" / "000000020.json").write_text("{")
    with pytest.raises(DamagedError, match="no whole checkpoint"):
        folder.load_checkpoint(said.append)


@pytest.mark.parametrize("damage", ["a counter gone", "a counter changed", "not counters"])
def test_damaged_counters_are_noticed_too(dataset, tmp_path, damage):
    trained(dataset, tmp_path)
    newest = tmp_path / "checkpoints" / "000000030.json"
    counters = json.loads(newest.read_text())
    if damage == "a counter gone":
        del counters["best"]
    else:
        counters["loader"]["step"] = 3
    newest.write_text("[1]" if damage == "not counters" else json.dumps(counters))
    said = []
    checkpoint = RunFolder(tmp_path).load_checkpoint(said.append)
    assert checkpoint.counters["loader"]["step"] == 20
    assert "checkpoint of step 30 is damaged" in said[0]


def test_a_finished_run_that_is_resumed_keeps_its_result(dataset, tmp_path):
    _, result = trained(dataset, tmp_path)
    _, again = trained(dataset, tmp_path, resume=True)
    assert again["step_ms"] == pytest.approx(result["step_ms"], rel=1e-5)
    assert list(again["step_ms"]) == list(result["step_ms"])  # for those who read it
    assert again["test_f1"] == result["test_f1"]


def test_a_run_does_not_go_on_with_other_data(dataset, tmp_path):
    trained(dataset, tmp_path)
    changed = make_dataset()
    changed.y[changed.splits["test"][0]] ^= 1
    with pytest.raises(InputError, match="dataset='toy' is not as it was when the run"):
        trained(changed, tmp_path, resume=True)


def test_resuming_nothing_says_so(dataset, tmp_path):
    said = []
    Trainer(TrainConfig(**SETTINGS), dataset, tmp_path / "new", said.append).run(resume=True)
    assert "no run in" in said[0]


@pytest.mark.parametrize("line", [b"\xff\n", b"[1]\n", b"{}\n", b'{"step": "2"}\n'])
@pytest.mark.parametrize("number", [2, 3])
def test_a_damaged_line_of_metrics_is_named_and_nothing_is_lost(dataset, tmp_path, line, number):
    trained(dataset, tmp_path)
    file = tmp_path / "metrics.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    lines[number - 1] = line
    before = b"".join(lines)
    file.write_bytes(before)
    with pytest.raises(DamagedError, match=rf"metrics.jsonl cannot be read at line {number}"):
        trained(dataset, tmp_path, resume=True)
    assert file.read_bytes() == before


def test_a_folder_serves_one_run_at_a_time(dataset, tmp_path):
    with RunFolder(tmp_path).locked(), pytest.raises(InputError, match="in use by another run"):
        trained(dataset, tmp_path)


def test_a_started_folder_needs_resume_and_the_same_settings(dataset, tmp_path):
    trained(dataset, tmp_path)
    with pytest.raises(InputError, match="holds a run already"):
        trained(dataset, tmp_path)
    with pytest.raises(InputError, match=r"lr: 0.5, 0.02; seed: 3, 0"):
        trained(dataset, tmp_path, resume=True, lr=0.5, seed=3)


def test_a_folder_that_cannot_be_written_is_refused(dataset, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot be written"):
        trained(dataset, tmp_path / "file" / "run")


def test_a_full_disk_leaves_the_old_file_whole(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    with folder.locked():
        folder.write_json("config.json", {"a": 1})

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ResourceError, match="make room"):
            folder.write_json("config.json", {"a": 2})
    assert json.loads((tmp_path / "config.json").read_text()) == {"a": 1}
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "checkpoints", "config.json"]


def test_a_line_of_metrics_cut_short_is_forgotten(dataset, tmp_path):
    folder = RunFolder(tmp_path)
    with folder.locked():
        folder.add_metrics({"step": 1})
        with (tmp_path / "metrics.jsonl").open("a") as file:
            file.write('{"step": 2, "lo')
        folder.forget_metrics_after(5)
        folder.add_metrics({"step": 3})
    assert folder.metrics() == [{"step": 1}, {"step": 3}]


def test_divergence_is_named(dataset, tmp_path):
    wild = make_dataset()
    wild.x[:] = np.inf
    with pytest.raises(InputError, match="loss=nan at step 1"):
        trained(wild, tmp_path, sampler="pladies")


REFUSED = {
    "budgets for other layers": ({"budgets": (5,)}, "1 entries for 2 layers"),
    "unknown sampler": ({"sampler": "neighbour"}, "sampler='neighbour'"),
    "no steps": ({"steps": 0}, "steps=0"),
    "no learning": ({"lr": 0.0}, "lr=0.0"),
    "unknown precision": ({"precision": "float8"}, "precision='float8'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_settings_get_one_sentence(case):
    changes, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        TrainConfig(**(SETTINGS | changes))


def test_an_empty_split_and_a_missing_gpu_are_refused(dataset, tmp_path):
    import dataclasses

    empty = dataclasses.replace(dataset, splits={**dataset.splits, "val": torch.arange(0)})
    with pytest.raises(InputError, match="the val split of 'toy' is empty"):
        trained(empty, tmp_path)
    if not torch.cuda.is_available():
        with pytest.raises(ResourceError, match="torch sees no GPU"):
            trained(dataset, tmp_path, device="cuda")


def test_settings_come_from_options_then_recipe_then_defaults():
    plain = resolve(dataset="somewhere/else")
    assert plain.lr == TrainConfig.lr
    recipe = resolve(dataset="Cora", model="sage")
    assert recipe.batch_size == 32
    assert recipe.budgets == (512, 256, 128)
    assert resolve(dataset="cora", model="sage", batch_size=7).batch_size == 7
