"""Ray Train: the training loop in the workers of a Ray cluster.

Ray starts the workers, joins them with torch.distributed and starts them again after a failure;
`Trainer` does the rest, as with torchrun. Ray is imported when it is needed.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bliss import checks
from bliss.data import canonical, dataset_names
from bliss.distributed.equality import CHECK_EVERY
from bliss.distributed.processes import TIMEOUT
from bliss.distributed.shards import check_processes
from bliss.engines.ray_worker import Job, copy_run, work
from bliss.errors import DamagedError, InputError, Interrupted, LostError, ResourceError
from bliss.storage.records import decode
from bliss.train.config import TrainConfig
from bliss.train.entry import run_folder
from bliss.train.folder import REMEDY, RunFolder
from bliss.train.results import RunResult

StrPath = str | PathLike[str]
MAX_FAILURES = 3
"""How often the workers are started again after a failure by default."""
OBJECT_STORE = 100 << 20
"""Bytes of the object store of a cluster on this machine; batches do not pass through it."""
LOOPBACK = "127.0.0.2" if sys.platform == "linux" else None
"""Address of a cluster on this machine; Ray replaces 127.0.0.1 by an address in the network."""


def trainer(
    config: TrainConfig,
    scaling_config: Any,
    *,
    out: StrPath | None = None,
    root: StrPath | None = None,
    run_config: Any = None,
    resume: bool = False,
    verify: bool = False,
    threads: int | None = None,
    timeout: float = TIMEOUT,
    check_every: int = CHECK_EVERY,
) -> Any:
    """A `ray.train.torch.TorchTrainer` for a run; its `fit` trains.

    After each evaluation, the workers report step, loss and scores with `ray.train.report`; rank 0
    adds the run's folder as a checkpoint. After a failure, Ray starts the workers again, and the
    run continues from its newest checkpoint, in its folder or in Ray's storage. It ends with the
    same bits as a run in one process.

    Parameters
    ----------
    config
        The settings. The number of workers must divide config.training.shards.
    scaling_config
        A `ray.train.ScalingConfig`.
    out
        The run's folder, on the machine of rank 0. Default: runs/DATASET-MODEL-SAMPLER-SEED.
    root
        Folder of the named data sets, on all machines. Default: $BLISS_DATA, then the user's cache.
    run_config
        A `ray.train.RunConfig`. By default the run is called OUT.ray and stored beside its folder,
        and the workers are started again after up to `MAX_FAILURES` failures.
    resume
        Whether to continue the run in `out`.
    verify
        Whether to compare every file of the data set with its digest first.
    threads
        Threads of torch in each worker; by default Ray decides by the worker's number of CPUs.
    timeout
        Seconds that a worker waits for the others in each exchange.
    check_every
        Steps between comparisons of the weights and policies of all workers; 0: never.
    """
    check_workers(config.training.shards, scaling_config.num_workers)
    place = checks.path("out", run_folder(config) if out is None else out).absolute()
    _import_ray()
    from ray.train import CheckpointConfig, FailureConfig, RunConfig
    from ray.train.torch import TorchTrainer

    from bliss.engines.ray_backend import OwnGroupConfig

    if run_config is None:
        run_config = RunConfig(
            name=f"{place.name}.ray",
            storage_path=str(place.parent),
            failure_config=FailureConfig(max_failures=MAX_FAILURES),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        )
    _check_places(place, Path(str(run_config.storage_path)), run_config.name, resume)
    job = Job(
        config=config.to_dict(),
        out=str(place),
        dataset=_dataset_place(config.data.dataset),
        root=_absolute(root or os.environ.get("BLISS_DATA")),
        verify=verify,
        threads=None if threads is None else checks.whole("threads", threads, least=1),
        check_every=checks.whole("check_every", check_every),
        timeout=timeout,
    )
    return TorchTrainer(
        work,
        train_loop_config=asdict(job),
        scaling_config=scaling_config,
        run_config=run_config,
        torch_config=OwnGroupConfig(),
    )


def check_workers(shards: int, workers: int | tuple[int, int]) -> None:
    """Refuse numbers of workers that do not divide the number of shards."""
    least, most = workers if isinstance(workers, tuple) else (workers, workers)
    checks.whole("workers", least, least=1)
    for number in range(least, most + 1):
        check_processes(shards, number)


def workers(number: int, threads: int = 1, device: str = "cpu") -> Any:
    """A `ray.train.ScalingConfig` of workers with as many CPUs as threads, and a GPU if needed."""
    _import_ray()
    from ray.train import ScalingConfig

    return ScalingConfig(
        num_workers=number,
        use_gpu=device.startswith("cuda"),
        resources_per_worker={"CPU": threads} | ({"GPU": 1} if device.startswith("cuda") else {}),
    )


def fit(made: Any) -> RunResult:
    """Result of `made.fit()`; failures of workers are raised as errors of one sentence."""
    from ray.exceptions import RayError
    from ray.train import TrainingFailedError

    try:
        with _same_handler():
            outcome = made.fit()
    except TrainingFailedError as error:
        raise _explained(error) from error
    except RayError as error:
        raise LostError(f"Ray has lost the run ({_first_line(error)}).") from error
    except SystemExit as stop:  # Ray's handlers of SIGINT and SIGTERM exit with 0 and 1
        raise Interrupted(signal.SIGTERM if stop.code else signal.SIGINT) from stop
    result = decode(outcome.return_value, RunResult, "the result of rank 0", REMEDY)
    folder = RunFolder(Path(made.train_loop_config["out"]))
    if folder.result() is None and outcome.checkpoint is not None:  # rank 0 was on another machine
        with outcome.checkpoint.as_directory() as place:
            copy_run(Path(place), folder.path)
    return result


@contextmanager
def _same_handler() -> Iterator[None]:
    """Context manager that restores the handler of SIGINT, which Ray replaces."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def cluster(workers: int, threads: int = 1) -> Iterator[None]:
    """Context manager that connects to Ray.

    If RAY_ADDRESS is set, this is that cluster. Otherwise a small one is started on this machine,
    without dashboard, and ended with the context. A token keeps others out of it: one that this
    process draws, unless RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH gives it. Its session folder, which
    Ray opens to all users, is in a folder of this user alone and removed at the end, unless
    RAY_TMPDIR names another place.
    """
    _import_ray()
    import ray

    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address, place = os.environ.get("RAY_ADDRESS"), os.environ.get("RAY_TMPDIR")
    with ExitStack() as stack:
        if not address and "RAY_AUTH_TOKEN_PATH" not in os.environ:  # Ray would write it to ~/.ray
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        if not address and not place:  # a short path: sockets in it have at most 107 characters
            private = TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True)
            place = f"{stack.enter_context(private)}/ray"
        _start(address, workers * threads, place)
        stack.callback(ray.shutdown)
        yield


def _start(address: str | None, cpus: int, place: str | None) -> None:
    """Connect to the cluster at an address, or start one with its sessions in `place`."""
    import ray

    try:
        if address:
            ray.init(address=address)
        else:
            ray.init(
                address="local",
                num_cpus=cpus,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE,
                _node_ip_address=LOOPBACK,
                _temp_dir=place,
            )
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = f"RAY_ADDRESS={address!r}" if address else "on this machine"
        raise ResourceError(
            f"Ray cannot be used {where} ({_first_line(error)}): check the cluster with `ray "
            "status`, or unset RAY_ADDRESS to start one on this machine."
        ) from error


def _check_places(out: Path, storage: Path, name: str | None, resume: bool) -> None:
    """Refuse a folder or a name in Ray's storage that already holds a run, unless it resumes."""
    if storage.absolute().is_relative_to(out):
        raise InputError(
            f"storage_path={str(storage)!r} is inside the run's folder {str(out)!r}, which is "
            "copied there: choose another folder for Ray's storage."
        )
    if resume:
        return
    if RunFolder(out).is_started:
        raise InputError(
            f"out={str(out)!r} already holds a run: pass --resume to continue it, or choose "
            "another folder."
        )
    if name and (storage / name).exists():
        raise InputError(
            f"{str(storage / name)!r} holds checkpoints of another run, which Ray would continue: "
            "pass --resume to do so, choose another --out, or remove that folder."
        )


def _dataset_place(name: str) -> str:
    """Name of a data set, or the absolute path of a folder."""
    known = {dataset.name for dataset in dataset_names()}
    return name if canonical(name) in known else str(_absolute(name))


def _absolute(path: StrPath | None) -> str | None:
    return None if path is None else str(checks.path("path", path).absolute())


def _explained(error: Any) -> Exception:
    """The error of a worker that a user can act on, or that workers are lost."""
    failures: dict[int, Exception] = getattr(error, "worker_failures", {})
    for failure in failures.values():
        cause = getattr(failure, "_base_exc", failure)
        is_own = isinstance(cause, (InputError, DamagedError, ResourceError))
        if is_own and not isinstance(cause, LostError):
            return cause
    for rank, failure in failures.items():
        if not isinstance(getattr(failure, "_base_exc", failure), LostError):
            return LostError(f"worker {rank} of Ray has failed ({_first_line(failure)}).")
    return LostError(f"Ray has stopped the run ({_first_line(error)}).")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _import_ray() -> None:
    """Raise an error with the remedy if Ray is missing."""
    try:
        import ray.train.torch  # noqa: F401
    except ImportError as error:
        raise InputError(
            "engine='ray' needs Ray: install it with pip install 'bliss-gnn[ray]'."
        ) from error
