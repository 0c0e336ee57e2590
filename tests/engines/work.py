"""What processes of a group do in tests. Each function takes the group first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bliss.groups import Group
from bliss.train import Trainer
from bliss.train.equality import state_number
from tests.train.conftest import make_dataset
from tests.train.runs import quiet, settings

COMMON = {"steps": 12, "evaluate_every": 5, "batch_size": 10, "shards": 4}
CASES: dict[str, dict[str, Any]] = {
    "sage node": {"model": "sage", "policy": "node", "normalisation": "batch", "dropout": 0.1},
    "sage exp3": {"model": "sage", "policy": "exp3", "normalisation": "batch"},
    "gatv2 node": {"model": "gatv2", "policy": "node", "normalisation": "batch"},
    "gatv2 exp3": {"model": "gatv2", "policy": "exp3", "dropout": 0.1, "prefetch": 1},
    "history": {"model": "sage", "history": "nodes", "budgets": (30,)},
    "saint": {"sampler": "saint-rw", "budgets": (), "normalisation": "batch"},
}


def trainer(group: Group, out: Path, **changes: Any) -> Trainer:
    config = settings(**COMMON | changes)
    return Trainer(config, make_dataset(), out, quiet, group, check_every=4)


def state(made: Trainer) -> dict[str, int]:
    """Digests of weights and policy."""
    model, sampler = made.task.model.state_dict(), made.learner.sampler.state_dict()
    return {"model": state_number(model), "policy": state_number(sampler)}


def train_all(group: Group, folder: Path) -> dict[str, tuple[dict[str, int], float]]:
    """Train every case; returns the states before the best weights are loaded, and test scores."""
    found = {}
    for name, changes in CASES.items():
        made, states = trainer(group, folder / name, **changes), {}
        result = made.run(on_step=lambda now, m=made, s=states: s.update(state(m)))
        found[name] = (states, result.test_f1)
    return found
