"""Signals during evaluations stop a run there; a second one stops it at once."""

from __future__ import annotations

import os
import signal

import pytest

from bliss.errors import Interrupted
from bliss.train import RunFolder, loop
from tests.train.runs import assert_same_run, make_trainer, trained

pytestmark = pytest.mark.slow

PLACES = {
    "first": (10, ("train", "val"), signal.SIGTERM),
    "last": (30, ("train", "val"), signal.SIGINT),
    "final": (30, ("train", "val", "test"), signal.SIGTERM),
}
OPTIONS = {
    "node": {},
    "exp3, prefetch": {"policy": "exp3", "prefetch": 1},
    "surveys of attention, prefetch": {"model": "gatv2", "prefetch": 1},
    "sampled": {"evaluate": "sampled"},
    "split": {"evaluate": "split"},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", OPTIONS)
def test_a_signal_during_an_evaluation_stops_it_and_resuming_repeats_it(
    dataset, tmp_path, monkeypatch, whole, case, place
):
    step, where, number = PLACES[place]
    trainer = make_trainer(dataset, tmp_path, **OPTIONS[case])
    shares = []

    def interrupted(original):
        def run(*arguments, **options):
            *others, splits, progress = arguments

            def noticed(share):
                if (trainer.stepper.steps, splits) == (step, where):
                    shares.append(share)
                    if len(shares) == 1:
                        os.kill(os.getpid(), number)
                progress(share)

            return original(*others, splits, noticed, **options)

        return run

    with monkeypatch.context() as patch, pytest.raises(Interrupted) as stop:
        for name in ("evaluate", "evaluate_and_survey", "evaluate_sampled", "assess"):
            patch.setattr(loop, name, interrupted(getattr(loop, name)))
        trainer.run()
    assert stop.value.number == number
    assert len(shares) == 1  # the rest of the evaluation was not computed
    assert shares[0] < 1
    folder = RunFolder(tmp_path)
    assert (tmp_path / "checkpoints" / f"{step:09d}.json").exists()
    steps = [line.step for line in folder.metrics()]
    assert steps == [10, 20, 30][: step // 10 - (place != "final")]
    assert folder.result() is None
    trained(dataset, tmp_path, resume=True, **OPTIONS[case])
    assert_same_run(tmp_path, whole(**OPTIONS[case]))


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_a_second_ctrl_c_stops_at_once_and_handlers_are_restored(dataset, tmp_path, first):
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    reached = []

    def impatient(now):
        if now.step == 13:
            os.kill(os.getpid(), first)
            reached.append("after the first")
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("after the second")

    with pytest.raises(KeyboardInterrupt):
        make_trainer(dataset, tmp_path).run(on_step=impatient)
    assert reached == ["after the first"]
    assert not (tmp_path / "checkpoints" / "000000013.json").exists()  # there was no time
    assert {n: signal.getsignal(n) for n in before} == before
    trained(dataset, tmp_path, resume=True)  # continues from step 10
