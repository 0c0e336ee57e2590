"""What a worker of Ray does: train its shards, report metrics and checkpoints, and resume."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bliss.data import Dataset, load_dataset, size_words
from bliss.distributed.groups import Group
from bliss.distributed.processes import LOOPBACK, Launch, listen, make_store, process_group
from bliss.distributed.shared_dataset import shared_dataset
from bliss.storage.files import replace_file
from bliss.storage.records import to_json
from bliss.train.config import TrainConfig
from bliss.train.folder import RunFolder
from bliss.train.loop import Trainer
from bliss.train.results import Evaluation, RunResult, score_text, short_name


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a worker gets: paths are absolute, because workers have another working directory."""

    config: dict[str, Any]
    out: str
    dataset: str
    root: str | None
    verify: bool
    threads: int | None
    check_every: int
    timeout: float


def work(values: dict[str, Any]) -> dict[str, Any]:
    """Train in a worker of Ray; returns the values of the result."""
    import torch
    from ray import train

    job = Job(**values)
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    config, here = TrainConfig.from_dict(job.config), train.get_context()
    size = here.get_world_size()
    is_local = here.get_local_world_size() == size
    launch = Launch(here.get_world_rank(), size, here.get_local_rank(), 0, is_local)
    store = _store(launch, job.timeout) if size > 1 else None
    with process_group(launch, config.training.device, job.timeout, store) as group:
        return _train(job, config, group)


def _store(launch: Launch, timeout: float) -> Any:
    """Store of rank 0, which listens on one address: loopback, or that of its node."""
    from ray.train.collective import broadcast_from_rank_zero
    from ray.util import get_node_ip_address

    server = None
    if launch.rank == 0:
        server = listen(LOOPBACK if launch.is_local else get_node_ip_address())
    own = None if server is None else server.getsockname()[:2]
    address, port = broadcast_from_rank_zero(own)
    return make_store(launch, timeout, address, port, server)


def _train(job: Job, config: TrainConfig, group: Group) -> dict[str, Any]:
    """Train as a process of a group; returns the values of the result."""
    import torch
    from ray import train

    folder = RunFolder(Path(job.out))
    say: Callable[[str], None] = print if group.rank == 0 else lambda _: None

    def load() -> Dataset:
        return load_dataset(job.dataset, job.root, seed=config.seed, verify=job.verify)

    data = shared_dataset(group, load)
    run = Trainer(config, data, folder.path, say, group, job.check_every)
    say(
        f"{data.name}: {size_words(data.graph)}; "
        f"workers: {group.size}, threads of each: {torch.get_num_threads()}"
    )

    def report(record: Evaluation | RunResult) -> None:
        checkpoint = train.Checkpoint.from_directory(folder.path) if group.rank == 0 else None
        train.report(metrics(record), checkpoint=checkpoint)

    def on_evaluation(evaluation: Evaluation) -> None:
        score = short_name(evaluation.metric, config.objective.ranks)
        value = score_text(evaluation.metric, evaluation.val_score)
        shown = f"loss {evaluation.loss:.4f}  val {score} {value}"
        say(f"step {evaluation.step}/{config.training.steps}  {shown}")
        report(evaluation)

    checkpoint = train.get_checkpoint()
    if group.rank == 0 and checkpoint is not None:
        with checkpoint.as_directory() as place:
            copy_newer(Path(place), folder)
    result = run.run(folder.is_started, on_evaluation=on_evaluation)
    report(result)
    fields: dict[str, Any] = json.loads(to_json(result))
    return fields


def metrics(record: Evaluation | RunResult) -> dict[str, Any]:
    """Scores by name, as Ray shows them: step, loss, val_f1, ...; a result has test scores, too."""
    if isinstance(record, RunResult):
        shown = {"step": record.steps, "best_step": record.best_step, "seconds": record.seconds}
    else:
        shown = {"step": record.step, "loss": record.loss}
    for name in (
        f"{split}_{kind}" for split in ("train", "val", "test") for kind in ("score", "mse")
    ):
        value = getattr(record, name, None)
        if value is not None:
            shown[name.replace("score", record.metric)] = value
    return shown


def copy_newer(source: Path, folder: RunFolder) -> None:
    """Copy a run into its folder if it has got further there than the folder."""
    if RunFolder(source).last_step > folder.last_step:
        copy_run(source, folder.path)


def copy_run(source: Path, target: Path) -> None:
    """Copy the files of a run; counters last, so that a killed copy leaves no false checkpoint."""
    files = [path for path in source.rglob("*") if path.is_file() and path.name != ".lock"]
    for path in sorted(files, key=lambda path: (path.suffix == ".json", str(path))):
        replace_file(target / path.relative_to(source), path.read_bytes())
