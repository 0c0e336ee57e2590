"""A run that was stopped, killed or extended ends like one that never stopped, bit for bit."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bliss.errors import InputError
from bliss.samplers import SAMPLERS
from bliss.train import RunFolder, Trainer, checkpoints, step
from tests.build import make_dataset
from tests.train.runs import (
    BUDGETS,
    assert_same_run,
    make_trainer,
    quiet,
    settings,
    stopped,
    trained,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("prefetch", [0, 1])
@pytest.mark.parametrize(
    ("stop", "number"),
    [
        (1, signal.SIGTERM),
        (10, signal.SIGTERM),
        (13, signal.SIGINT),
    ],
)
def test_a_run_stopped_after_any_step_ends_as_if_it_had_not(
    dataset, tmp_path, whole, stop, number, prefetch
):
    options = {"policy": "exp3-released", "model": "gatv2", "prefetch": prefetch}
    stopped(make_trainer(dataset, tmp_path, **options), stop, number)
    trained(dataset, tmp_path, resume=True, **options)
    assert_same_run(tmp_path, whole(**options))


@pytest.mark.parametrize("sampler", ["asgcn", "fastgcn", "gcn-bs", "gat-bs"])
def test_samplers_with_a_state_of_their_own_resume_it(dataset, tmp_path, whole, sampler):
    budgets = BUDGETS[SAMPLERS[sampler].unit]
    options = {"sampler": sampler, "budgets": budgets, "model": "gat", "prefetch": 1}
    stopped(make_trainer(dataset, tmp_path, **options), 17, signal.SIGTERM)
    trained(dataset, tmp_path, resume=True, **options)
    assert_same_run(tmp_path, whole(**options))


@pytest.mark.parametrize("policy", ["node", "exp3"])
def test_a_layer_that_keeps_all_its_candidates_resumes_with_prefetch(
    dataset, tmp_path, whole, policy
):
    options = {"policy": policy, "prefetch": 1, "budgets": (1000, 30)}
    trainer = make_trainer(dataset, tmp_path, **options)
    stopped(trainer, 13, signal.SIGTERM)
    trained(dataset, tmp_path, resume=True, **options)
    assert_same_run(tmp_path, whole(**options))
    blocks = trainer.stepper.sampler.sample(dataset.splits["train"][:40], 0)
    assert (blocks[0].prob == 1).all()
    assert (blocks[1].prob < 1).any()


PROGRAM = """
    import sys
    from pathlib import Path
    from tests.build import make_dataset
    from tests.train.runs import make_trainer
    trainer = make_trainer(make_dataset(), Path(sys.argv[1]))
    trainer.run(on_step=lambda now: print(now.step, flush=True))
"""


def test_a_killed_run_ends_as_if_it_had_not_been(dataset, tmp_path, whole):
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(PROGRAM), str(tmp_path)]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.strip() == "17":
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    trained(dataset, tmp_path, resume=True)
    assert_same_run(tmp_path, whole())


def test_a_finished_run_that_is_resumed_keeps_its_result(dataset, tmp_path):
    _, result = trained(dataset, tmp_path)
    _, again = trained(dataset, tmp_path, resume=True)
    assert again.step_ms == pytest.approx(result.step_ms, rel=1e-5)
    assert list(again.step_ms) == list(result.step_ms)  # in the same order
    assert again.test_score == result.test_score


def test_a_run_does_not_resume_with_other_data(dataset, tmp_path):
    trained(dataset, tmp_path, steps=10)
    changed = make_dataset()
    changed.y[changed.splits["test"][0]] ^= 1
    with pytest.raises(InputError, match="dataset='toy' has changed since the run"):
        trained(changed, tmp_path, resume=True, steps=10)


def test_a_run_does_not_resume_with_a_changed_feature_in_any_row(tmp_path):
    trained(make_dataset(nodes=2500), tmp_path, steps=1)
    changed = make_dataset(nodes=2500)
    changed.x[1::3], changed.x[2::3] = 0, 0
    with pytest.raises(InputError, match="dataset='toy' has changed since the run"):
        trained(changed, tmp_path, resume=True, steps=1)


def test_resuming_nothing_says_so(dataset, tmp_path):
    said = []
    Trainer(settings(steps=1), dataset, tmp_path / "new", said.append).run(resume=True)
    assert "There is no run to resume in" in said[0]


def test_a_started_folder_needs_resume_and_the_same_settings(dataset, tmp_path):
    trained(dataset, tmp_path, steps=10)
    with pytest.raises(InputError, match="already holds a run"):
        trained(dataset, tmp_path, steps=10)
    with pytest.raises(InputError, match=r"lr: 0.5, 0.02; seed: 3, 0"):
        trained(dataset, tmp_path, resume=True, steps=10, lr=0.5, seed=3)
    with pytest.raises(InputError, match=r"then\): eta: 0.2, 0.01\."):
        trained(dataset, tmp_path, resume=True, steps=10, eta=0.2)


@pytest.mark.parametrize("prefetch", [0, 1])
def test_a_run_extended_by_more_steps_equals_a_run_of_that_many(dataset, tmp_path, whole, prefetch):
    trained(dataset, tmp_path, steps=20, prefetch=prefetch)
    trained(dataset, tmp_path, steps=30, prefetch=prefetch, resume=True)
    assert_same_run(tmp_path, whole(prefetch=prefetch))
    assert RunFolder(tmp_path).settings().training.steps == 30


def test_an_extended_run_has_no_result_until_it_is_finished(dataset, tmp_path):
    trained(dataset, tmp_path, steps=20)
    folder = RunFolder(tmp_path)
    assert folder.result().steps == 20
    stopped(make_trainer(dataset, tmp_path, steps=30), 25, signal.SIGTERM, resume=True)
    assert folder.result() is None
    with pytest.raises(InputError, match="steps: 20, 30"):  # it is a run of 30 steps now
        trained(dataset, tmp_path, steps=20, resume=True)
    trained(dataset, tmp_path, steps=30, resume=True)
    assert folder.result().steps == 30


def test_fewer_steps_are_refused_and_nothing_changes(dataset, tmp_path):
    trained(dataset, tmp_path, steps=20)
    with pytest.raises(InputError, match=r"steps: 10, 20\. Resume with the same settings"):
        trained(dataset, tmp_path, steps=10, resume=True)
    assert RunFolder(tmp_path).settings().training.steps == 20
    assert RunFolder(tmp_path).result().steps == 20


def test_more_steps_are_refused_where_the_rate_depends_on_their_number(dataset, tmp_path):
    trained(dataset, tmp_path, steps=20, schedule="linear")
    with pytest.raises(InputError, match="steps=30 exceeds the run's 20, but with"):
        trained(dataset, tmp_path, steps=30, schedule="linear", resume=True)
    assert RunFolder(tmp_path).result().steps == 20


def test_a_checkpoint_holds_the_times_of_the_newest_steps_alone(dataset, tmp_path, monkeypatch):
    for module in (step, checkpoints):
        monkeypatch.setattr(module, "TIMED", 7)
    stopped(make_trainer(dataset, tmp_path), 25, signal.SIGTERM)
    assert RunFolder(tmp_path).load_checkpoint(quiet).tensors["times.total"].shape == (7,)
    resumed, result = trained(dataset, tmp_path, resume=True)
    tensors = RunFolder(tmp_path).load_checkpoint(quiet).tensors
    for part in step.PARTS:
        assert tensors[f"times.{part}"].tolist() == pytest.approx(resumed.stepper.times[part])
        assert len(resumed.stepper.times[part]) == 7
    newest = sorted(resumed.stepper.times["total"])
    assert result.step_ms["total"] == pytest.approx(1e3 * newest[3])
