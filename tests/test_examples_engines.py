"""The examples with an own policy, Lightning and torchrun run, learn and resume."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
QUIET = {"enable_progress_bar": False, "enable_model_summary": False}


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_own_policy_learns():
    """The ratio is 0.28 after 60 steps, 0.5 after 10, and 1 if nothing is learnt."""
    module = example("own_policy")
    assert module.main(steps=10) < 0.7
    module.Optimistic.apply = lambda self, layer, news: None
    assert module.main(steps=2) == pytest.approx(1)


@pytest.fixture
def lightning_example():
    yield from lightning("lightning_module")


@pytest.fixture
def links_example():
    yield from lightning("links_lightning")


def lightning(name: str) -> Iterator[ModuleType]:
    pytest.importorskip("lightning")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of Lightning
        yield example(name)


def test_the_lightning_example_of_links_learns(links_example, tmp_path):
    assert links_example.main(tmp_path, epochs=1, **QUIET) > 0.6  # AUC: chance is 0.5
    (saved,) = tmp_path.rglob("*.ckpt")
    callbacks = torch.load(saved, weights_only=True)["callbacks"]
    assert any("policy" in state for state in callbacks.values())


def state(net, sampler) -> dict[str, torch.Tensor]:
    learnt = {f"policy.{name}": value for name, value in sampler.state_dict().items()}
    return {name: value.clone() for name, value in {**net.state_dict(), **learnt}.items()}


def is_equal(one, other) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_the_lightning_example_learns_and_resumes(lightning_example, tmp_path):
    """With other cases, and in two processes, in tests/engines/test_lightning.py."""
    main, options = lightning_example.main, QUIET | {"limit_val_batches": 1}
    *whole, accuracy = main(tmp_path / "whole", epochs=2, **options)
    assert accuracy > 0.6  # of 10 classes
    *first, _ = main(tmp_path / "first", epochs=1, **options)
    (saved,) = (tmp_path / "first").rglob("*.ckpt")
    assert not is_equal(state(*first), state(*whole))
    *resumed, _ = main(tmp_path / "second", epochs=2, resume=str(saved), **options)
    assert is_equal(state(*resumed), state(*whole))


def test_two_processes_keep_one_policy():
    """The example compares weights and policies of its processes, and fails if they differ."""
    script = EXAMPLES / "torchrun.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", str(script), "--steps", "4"]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr
    assert "2 processes, one policy" in done.stdout
