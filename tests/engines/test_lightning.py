"""Lightning: one policy in two processes, each with its own batches, and both resume."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest

from bliss import InputError

pytestmark = pytest.mark.slow
pytest.importorskip("lightning")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> list[dict]:
    """What both processes have seen and learnt."""
    folder = tmp_path_factory.mktemp("lightning")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "-m", "tests.engines.lightning_fits", str(folder)]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        env=env,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


def test_two_processes_have_one_policy_and_the_same_weights(ranks):
    first, second = (rank["whole"] for rank in ranks)
    assert first["policy"] == second["policy"]
    assert first["weights"] == second["weights"]


def test_a_step_gives_each_process_other_seeds_and_an_epoch_holds_each_seed_once(ranks):
    first, second = (rank["whole"]["trained"] for rank in ranks)
    assert [len(one) for one in first] == [len(one) for one in second] == [25] * 10
    for epoch in (slice(0, 5), slice(5, 10)):
        seeds = [seed for batch in first[epoch] + second[epoch] for seed in batch]
        assert sorted(seeds) == list(range(250))
    assert first[:5] != first[5:]  # shuffled anew


def test_validation_holds_each_node_once_in_equally_many_batches(ranks):
    first, second = (rank["whole"]["evaluated"] for rank in ranks)
    assert [len(one) for one in first] == [len(one) for one in second] == [8, 7] * 2  # two epochs
    seen = [node for batch in first[:2] + second[:2] for node in batch]
    assert sorted(seen) == list(range(30))
    for rank in ranks:
        assert rank["whole"]["accuracy"] == pytest.approx(rank["whole"]["expected"])
        assert rank["whole"]["accuracy"] > 0


@pytest.mark.parametrize("step", [3, 5])
def test_a_run_resumed_within_or_after_an_epoch_ends_with_the_same_bits(ranks, step):
    for rank in ranks:
        whole, resumed = rank["whole"], rank[f"after {step}"]
        assert resumed["trained"] == whole["trained"][step:]
        assert resumed["weights"] == whole["weights"]
        assert resumed["policy"] == whole["policy"]


def test_loaders_that_repeat_batches_and_policies_that_differ_are_refused(ranks):
    for rank, found in enumerate(ranks):
        said = found["refused"]
        assert f"rank {rank} of 2 draws shard 0 of 1" in said["same batches"]
        assert "2 processes train on DataLoader" in said["torch's loader"]
        assert "the policy of rank 1 differs from that of rank 0" in said["policies differ"]


@pytest.fixture
def engine():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of Lightning
        from tests.engines import lightning_fits

        yield lightning_fits


def test_drawing_ahead_resumes_in_the_middle_of_an_epoch(engine, tmp_path):
    whole = engine.fit(tmp_path / "whole", 1, prefetch=1)
    resumed = engine.fit(tmp_path / "more", 1, tmp_path / "whole/step=3.ckpt", prefetch=1)
    assert resumed["policy"] == whole["policy"]
    assert resumed["weights"] == whole["weights"]


def test_a_resumed_run_that_forgets_its_policy_ends_elsewhere(engine, tmp_path, monkeypatch):
    whole = engine.fit(tmp_path / "whole", 1)
    monkeypatch.setattr(engine.PolicyCallback, "load_state_dict", lambda self, state: None)
    resumed = engine.fit(tmp_path / "more", 1, tmp_path / "whole/step=5.ckpt")
    assert resumed["trained"] == whole["trained"][5:]
    assert resumed["policy"] != whole["policy"]


def test_another_number_of_processes_is_refused(engine):
    sampler = engine.Bliss(engine.DATASET.graph, budgets=[60, 40])
    batches = engine.BlockDataModule(engine.DATA, sampler, engine.TRAIN, batch_size=50)
    batches.setup("fit")
    with pytest.raises(engine.InputError, match="written by 2 processes, and there are 1 now"):
        batches.load_state_dict({**batches.state_dict(), "shards": 2})


def test_missing_nodes_blocks_and_batches_are_named(engine):
    sampler = engine.Bliss(engine.DATASET.graph, budgets=[60, 40])
    with pytest.raises(engine.InputError, match="no train nodes: pass input_train_nodes"):
        engine.BlockDataModule(engine.DATA, sampler).setup("fit")
    with pytest.raises(engine.InputError, match="batch_size=251 exceeds the 250 training nodes"):
        engine.BlockDataModule(engine.DATA, sampler, engine.TRAIN, batch_size=251).setup("fit")
    with pytest.raises(engine.InputError, match="a batch of type list has no blocks"):
        engine.PolicyCallback(sampler).on_train_batch_end(None, None, None, [], 0)


def test_a_missing_package_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    monkeypatch.delitem(sys.modules, "bliss.engines.lightning", raising=False)
    words = r"needs Lightning: install it with pip install 'bliss-gnn\[lightning\]'"
    with pytest.raises(InputError, match=words):
        import_module("bliss.engines.lightning")
