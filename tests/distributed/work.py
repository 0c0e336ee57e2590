"""What processes of a group do in tests. Each function takes the group first."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from bliss.data import Dataset
from bliss.distributed.agreement import Communicator
from bliss.distributed.equality import checksum
from bliss.distributed.groups import Group
from bliss.distributed.packing import pack_news, unpack_news
from bliss.distributed.shared_dataset import shared_dataset
from bliss.distributed.shared_state import build_shared
from bliss.errors import InputError, Interrupted, LostError, ResourceError
from bliss.nn import GNN, ModelConfig
from bliss.policies.node import NodeBandit
from bliss.samplers import Sampler
from bliss.storage.memory import SharedMemory
from bliss.train import StepProgress, Trainer
from tests.build import make_dataset, make_sampler, small_features, softmax
from tests.train.runs import quiet, settings
from tests.types.graphs import typed_dataset

COMMON = {"steps": 8, "evaluate_every": 3, "batch_size": 10, "shards": 4}
CASES: dict[str, dict[str, Any]] = {
    "sage node": {"model": "sage", "policy": "node", "normalisation": "batch", "dropout": 0.1},
    "sage exp3": {"model": "sage", "policy": "exp3", "normalisation": "batch"},
    "gatv2 node": {"model": "gatv2", "policy": "node", "normalisation": "batch", "prefetch": 1},
    "gatv2 exp3": {"model": "gatv2", "policy": "exp3", "dropout": 0.1, "prefetch": 1},
    "history": {"model": "sage", "history": "nodes", "budgets": (30,), "prefetch": 1},
    "surveys": {"model": "sage", "history": "surveys", "budgets": (30,)},
    "saint": {"sampler": "saint-rw", "budgets": (), "normalisation": "batch"},
    "embedding": {"task": "link", "model": "lightgcn", "embedding": 6, "prefetch": 1},
    "rsage": {"model": "rsage", "embedding": 6, "bases": 2, "normalisation": "batch"},
    "rgat": {"model": "rgat", "embedding": 6, "prefetch": 1},
    "rsage history": {"model": "rsage", "embedding": 6, "history": "nodes", "prefetch": 1},
    "rsage links": {"model": "rsage", "embedding": 6, "task": "link", "edge_type": "writes"},
}


def trainer(group: Group, out: Path, **changes: Any) -> Trainer:
    config = settings(**COMMON | changes)
    made = typed_dataset() if config.network.is_relational else make_dataset()
    return Trainer(config, made, out, quiet, group, check_every=4)


def state(made: Trainer) -> dict[str, int]:
    """Digests of weights and policy."""
    states = made._states()
    return {"model": checksum(states["weights"]), "policy": checksum(states["policy values"])}


@contextmanager
def on_machines(number: int) -> Iterator[None]:
    """Let the processes seem to be on several machines, in turn."""
    rank = int(torch.distributed.get_rank())
    with mock.patch("bliss.distributed.groups.machine_name", lambda: f"machine {rank % number}"):
        yield


def train_all(group: Group, folder: Path) -> dict[str, tuple[dict[str, int], float]]:
    """Train every case; returns the states before the best weights are loaded, and test scores."""
    found = {}
    for name, changes in CASES.items():
        made, states = trainer(group, folder / name, **changes), {}
        result = made.run(on_step=lambda now, m=made, s=states: s.update(state(m)))
        found[name] = (states, result.test_score)
    return found


def train_case(group: Group, folder: Path, case: str, resume: bool = True, **changes: Any) -> str:
    """Train a case to its end; returns the name of the error, if there is one."""
    try:
        with Communicator(group).sharing_errors():
            made = trainer(group, folder, **CASES[case] | changes)
        made.run(resume)
    except Interrupted as error:
        return f"Interrupted {error.number}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def train_apart(group: Group, folder: Path, case: str, machines: int) -> str:
    """Train a case on several machines."""
    with on_machines(machines):
        return train_case(group, folder, case)


def train_until(group: Group, folder: Path, case: str, step: int, rank: int, number: int) -> str:
    """Train a case; after a step, one process sends itself a signal. Returns the error."""

    def interrupt(now: StepProgress) -> None:
        if now.step == step and group.rank == rank:
            os.kill(os.getpid(), number)

    try:
        trainer(group, folder, **CASES[case]).run(on_step=interrupt)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def refused(group: Group, folder: Path) -> dict[str, str]:
    """Errors of runs that must be refused or stopped, by case; the group survives all of them."""
    one = "sage node"
    is_second = group.rank == 1

    def other_data() -> str:
        config, data = settings(**COMMON | CASES[one]), make_dataset()
        if is_second:
            data.x[0] += 1
        try:
            Trainer(config, data, folder / "data", quiet, group).run()
        except InputError as error:
            return str(error)
        return ""

    def other_policy() -> str:
        with on_machines(group.size):  # on one machine they share the policy
            made = trainer(group, folder / "policy", **CASES[one])

        def disturb(now: StepProgress) -> None:
            if is_second and now.step == 3:
                made.stepper.sampler.state_dict()["node.size.1.arm"][0, 0] += 1

        try:
            made.run(on_step=disturb)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def bad_features() -> str:
        made = trainer(group, folder / "features", **CASES[one])
        if is_second:
            made.task.model.convs[0].register_forward_hook(lambda *called: called[2] * torch.nan)
        try:
            made.run()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def full_disk() -> str:
        made = trainer(group, folder / "disk", **CASES[one])
        made.folder.save_checkpoint = no_space
        try:
            made.run()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def one_sided() -> str:
        weights = {"class_weights": (1.0,) * 99} if is_second else {}
        return train_case(group, folder / "classes", one, **weights)

    found = {
        "one-sided": one_sided(),
        "settings": train_case(group, folder / "settings", one, lr=0.5 if is_second else 0.1),
        "data": other_data(),
        "policy": other_policy(),
        "features": bad_features(),
        "disk": full_disk(),
        "locked": train_case(group, folder / "locked", one),
        "started": train_case(group, folder / "started", one),
    }
    found["started"] = train_case(group, folder / "started", one, resume=False)
    found["shards"] = train_case(group, folder / "shards", one, shards=3)
    return found


def no_space(*_: Any) -> None:
    raise ResourceError("the disk is full: free disk space.")


def train_two_ways(group: Group, folder: Path) -> dict[str, dict[str, np.ndarray]]:
    """Weights, gradients and loss after the first step and the last with both reductions."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for reduction in ("exact", "allreduce"):
        # before a batch normalisation, the gradient of a bias is rounding alone
        plain = {"model": "sage", "normalisation": "none", "reduction": reduction}
        made = trainer(group, folder / reduction, sampler="pladies", **plain)

        def note(now: StepProgress, made: Trainer = made, reduction: str = reduction) -> None:
            when = "first" if now.step == 1 else "last"
            values = weights(made) | gradients(made) | {"loss": np.array(now.loss)}
            mine = found.setdefault(reduction, {})
            mine.update({f"{when} {name}": value for name, value in values.items()})

        made.run(on_step=note)
    return found


def gradients(made: Trainer) -> dict[str, np.ndarray]:
    named = made.task.model.named_parameters()
    return {f"gradient of {n}": p.grad.numpy().copy() for n, p in named if p.grad is not None}


def weights(made: Trainer) -> dict[str, np.ndarray]:
    return {name: value.numpy().copy() for name, value in made.task.model.state_dict().items()}


def late(group: Group, seconds: float) -> str:
    """The second process is late; returns the error."""
    if group.rank == 1:
        time.sleep(seconds)
    try:
        group.all_gather(torch.zeros(1))
    except LostError as error:
        return str(error)
    return ""


def share(group: Group, kind: str) -> dict[str, Any]:
    """Share a data set, and say what this process has of it."""

    def load() -> Dataset:
        loads.append(1)
        if kind == "missing":
            raise InputError("there is no such data: look again.")
        return make_dataset()

    loads: list[int] = []
    try:
        found = shared_dataset(group, load)
    except InputError as error:
        return {"error": str(error)}
    maps = Path("/proc/self/maps").read_text(encoding="ascii")
    own = make_dataset()
    return {
        "loads": len(loads),
        "mapped": [name for name in ("features", "indices") if f"/{name}.npy" in maps],
        "left": [line for line in maps.splitlines() if ".npy" in line and "(deleted)" not in line],
        "equal": torch.equal(found.x, own.x)
        and found.graph.indices.tolist() == own.graph.indices.tolist(),
        "fingerprint": found.fingerprint == own.fingerprint,
    }


SHARED: dict[str, dict[str, Any]] = {
    "bliss": {"policy": "node"},
    "bliss exp3": {"policy": "exp3"},
    "bliss exp3-scale-free": {"policy": "exp3-scale-free"},
    "bliss edges": {"policy": "node", "survey_attention": "edge"},
    "bliss nodes": {"policy": "node", "history": "nodes"},
    "bliss surveys": {"policy": "node", "history": "surveys"},
    "asgcn": {},
    "gcn-bs": {"restart": 2},
    "vrgcn": {},
}


def share_states(group: Group, machines: int) -> dict[str, dict[str, Any]]:
    """What this process has of samplers of all kinds whose state is shared, after three steps."""
    found = {}
    with on_machines(machines):
        for name, options in SHARED.items():
            data = make_dataset()
            build = partial(make_sampler, name.split()[0], data.graph, **options)
            shared, alone = shared_sampler(group, build), build()
            learn_together(group, [shared, alone], data)
            found[name] = {
                "shared": checksum(shared.state_dict()),
                "alone": checksum(alone.state_dict()),
                "is_mapped": is_mapped(shared),
            }
    return found


def shared_sampler(group: Group, build: Callable[[], Sampler]) -> Sampler:
    return build_shared(build, Communicator(group), draws_ahead=False)


def is_mapped(sampler: Sampler) -> bool:
    """Whether all of a sampler's learnt arrays are in a file in memory."""
    lines = Path("/proc/self/maps").read_text(encoding="ascii").splitlines()
    found = [line.split()[0].split("-") for line in lines if "/memfd:bliss" in line]
    ranges = [(int(start, 16), int(end, 16)) for start, end in found]
    places = [one.data_ptr() for one in sampler.state_dict().values()]
    return all(any(start <= place < end for start, end in ranges) for place in places)


class Counting(NodeBandit):
    """A policy with a state of which `state_dict` does not know."""

    calls = 0

    def apply(self, layer: int, news: Any) -> None:
        super().apply(layer, news)
        self.calls += 1


def not_shared(group: Group, folder: Path) -> dict[str, Any]:
    """What this process has of samplers that cannot be shared, and how often each was built."""
    data, found = make_dataset(), {}

    def own_policy() -> Sampler:
        return make_sampler("bliss", data.graph, policy=Counting(data.graph, 2))

    def histories_in_files() -> Sampler:
        return make_sampler("vrgcn", data.graph, history_folder=str(folder / str(group.rank)))

    for build in (own_policy, histories_in_files, partial(make_sampler, "ladies", data.graph)):
        made: list[Sampler] = []
        sampler = shared_sampler(group, lambda b=build, m=made: m.append(b()) or m[-1])
        alone = build()
        if sampler.learns:
            learn_together(group, [sampler, alone], data)
        name = getattr(build, "__name__", "ladies")
        same = checksum(sampler.state_dict()) == checksum(alone.state_dict())
        found[name] = {"builds": len(made), "same": same, "mapped": is_mapped(sampler)}
        if name == "own_policy":
            found[name]["calls"] = sampler.policy.calls
    return found


def cannot_open(group: Group) -> dict[str, Any]:
    """A shared sampler, if the second process cannot open the memory of the first."""

    def refused(address: str) -> SharedMemory:
        raise PermissionError(address)

    data = make_dataset()
    build = partial(make_sampler, "bliss", data.graph)
    with mock.patch.object(SharedMemory, "open", refused):
        sampler, alone = shared_sampler(group, build), build()
    learn_together(group, [sampler, alone], data)
    same = checksum(sampler.state_dict()) == checksum(alone.state_dict())
    return {"same": same, "mapped": is_mapped(sampler)}


def all_change(group: Group) -> bool:
    """Whether a shared state stays right if every process makes every change."""
    data = make_dataset()
    build = partial(make_sampler, "bliss", data.graph)

    def owned(address: str) -> SharedMemory:
        return SharedMemory(os.open(address, os.O_RDWR), is_owner=True)

    with mock.patch.object(SharedMemory, "open", owned):
        shared, alone = shared_sampler(group, build), build()
    learn_together(group, [shared, alone], data)
    group.all_gather(torch.zeros(1))  # all have ended
    return checksum(shared.state_dict()) == checksum(alone.state_dict())


def learn_together(group: Group, samplers: list[Sampler], data: Dataset) -> None:
    """Three steps and a survey of all samplers, each with the news of all processes."""
    for step in range(3):
        seeds = data.splits["train"][group.rank * 20 : group.rank * 20 + 20]
        blocks = samplers[0].sample(seeds, step, group.rank)
        same = torch.from_numpy(small_features(data.graph))
        x = same * (1 + group.rank)
        for block in blocks[1:] if samplers[0].first_hop else blocks:
            has_attention = samplers[0].history is None
            attention = softmax(block, np.exp(x[:, 0].numpy())) if has_attention else None
            block.observe(x[block.src], attention)
        packed = group.all_gather_bytes(pack_news([samplers[0].digest(blocks)]))
        news = [shard for content in packed for shard in unpack_news(content)]
        for sampler in samplers:
            sampler.apply(news)
        if step == 1 and samplers[0].learns_from_surveys:
            torch.manual_seed(0)
            kind = "gatv2" if samplers[0].history is None else "sage"
            model = GNN(5, 3, ModelConfig(model=kind, hidden=5, heads=1, layers=2))
            for sampler in samplers:
                sampler.survey(model, same)


def update_together(group: Group) -> tuple[dict[str, int], dict[str, int]]:
    """A sampler updated with the group, and one that applies the news of both batches by itself."""
    data = make_dataset()
    samplers = [make_sampler("bliss", data.graph, budgets=[30, 20]) for _ in range(2)]
    for step in range(4):
        batches = []
        for shard in range(group.size):
            seeds = data.splits["train"][shard * 20 : shard * 20 + 20]
            blocks = samplers[0].sample(seeds, step, shard)
            for block in blocks:
                block.observe(data.x[block.src] * (1 + shard))
            batches.append(blocks)
        news = pack_news([samplers[1].digest(blocks) for blocks in batches])
        samplers[0].update(batches[group.rank], group=True)
        samplers[1].apply(unpack_news(news))
    return tuple({"policy": checksum(one.state_dict())} for one in samplers)
