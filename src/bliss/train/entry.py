"""Train and predict from Python in one call each."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Any

from bliss import checks
from bliss.data import Dataset, load_dataset
from bliss.errors import InputError
from bliss.train.config import TrainConfig
from bliss.train.folder import RunFolder
from bliss.train.loop import Trainer, open_task
from bliss.train.predictions import prediction_columns
from bliss.train.recipe import resolve
from bliss.train.results import RunResult
from bliss.train.seconds.timed_run import check_timed, timed_config

StrPath = str | PathLike[str]


def train(
    dataset: Dataset | StrPath,
    out: StrPath | None = None,
    *,
    root: StrPath | None = None,
    resume: bool = False,
    seconds: float | None = None,
    say: Callable[[str], None] = print,
    **settings: Any,
) -> RunResult:
    """Train a network and return its result; the run's folder is `out`.

    Parameters
    ----------
    dataset
        A `Dataset`, for instance of `Dataset.from_data`; or a name or folder for `load_dataset`.
        Settings that are not passed come from the recipe of its name, if there is one.
    out
        Folder of the run. Default: runs/DATASET-MODEL-SAMPLER-SEED.
    root
        Folder of the named data sets.
    resume
        Whether to continue the run in `out`.
    seconds
        Time of the whole call. A pilot chooses sampler, history, batch size, budgets and number of
        steps, as far as they are not given; see docs/advice.md. Default: the settings decide.
    say
        Function called with each message.
    **settings
        Settings of `TrainConfig`, of the sampler and of its policy, by name.
    """
    started = perf_counter()
    name = dataset.name if isinstance(dataset, Dataset) else str(dataset)
    given = {"dataset": name, **settings}
    config = resolve(**given) if seconds is None else check_timed(given, seconds)
    if isinstance(dataset, Dataset):
        loaded = dataset
    else:
        loaded = load_dataset(config.data.dataset, root, seed=config.seed)
    label = "" if seconds is None else f"{seconds:g}s"
    place = run_folder(config, label) if out is None else checks.path("out", out)
    if seconds is not None:
        config = timed_config(place, given, loaded, seconds, started=started, say=say)
    return Trainer(config, loaded, place, say).run(resume)


def rolling(
    dataset: Dataset | StrPath, out: StrPath, *, resume: bool = False, **options: Any
) -> list[RunResult]:
    """Train up to a time, score the next window, and move on; returns one result per window.

    The runs are in the folders window-1, window-2, ... of `out`. With N windows, the test share of
    a split by time is cut into N windows of equally many links or nodes, and run k learns from
    everything before window k. With `resume`, finished windows are not run again.

    Parameters
    ----------
    dataset
        A dataset with times, or its name or folder.
    out
        Folder of the runs.
    resume
        Whether to continue the runs in `out`.
    options
        Options and settings of `train`, among them windows.
    """
    number = checks.whole("windows", options.get("windows", 1), least=1)
    place = checks.path("out", out)
    return [
        train(dataset, window_folder(place, k), resume=resume, **options | {"window": k})
        for k in range(1, number + 1)
    ]


def window_folder(out: Path, number: int) -> Path:
    """Folder of a window of a rolling evaluation."""
    return out / f"window-{number}"


def predict(
    run: StrPath,
    dataset: Dataset | StrPath | None = None,
    *,
    root: StrPath | None = None,
    nodes: Any = "all",
    pairs: Any = None,
    top: int | None = None,
    at: int | str | None = None,
) -> dict[str, list[Any]]:
    """Predictions of all nodes or a split by a run's best weights, as columns by name.

    The columns are those that `bliss predict` writes: "node" with the user's ids, then "label" and
    "probability", or the targets of a regression in the user's units.

    Parameters
    ----------
    run
        Folder of a run.
    dataset
        The graph to predict, as a `Dataset`, name or folder: by default that of the run. Another
        one needs the same features, and edge weights if the run had them; labels are not needed.
        Required if the run was trained on a `Dataset` that has no name or folder.
    root
        Folder of the named data sets.
    nodes
        all, or train, val or test; of a split, only its nodes and what they see are computed. With
        `top`, all, numbers of nodes [N], or a file of ids.
    pairs
        Of a run with task="link": pairs [2, P] of numbers of nodes, or a file of pairs, to score.
        The columns are "source", "target", "score" and, for the loss bce, "probability".
    top
        Of such a run: number of targets for each of the nodes, best first, without known edges.
    at
        Of a run by time: a whole number, or a date if the times of the data are dates. Predictions
        are those of the graph as it was then. By default a node is predicted at its own time, and
        links with all edges.
    """

    def load(config: TrainConfig) -> Dataset:
        if isinstance(dataset, Dataset):
            return dataset
        name = config.data.dataset if dataset is None else dataset
        try:
            return load_dataset(name, root, seed=config.seed)
        except InputError as error:
            if dataset is not None:
                raise
            raise InputError(
                f"{error} If the run was trained on a Dataset of your own, pass it to predict as "
                "dataset=...."
            ) from error

    task = open_task(RunFolder(checks.path("run", run)), load, needs_labels=False)
    return prediction_columns(task, nodes, pairs, top, at)


def run_folder(config: TrainConfig, sampler: str = "") -> Path:
    """Default folder of a run: runs/DATASET-MODEL-SAMPLER-SEED, with another name by choice."""
    data, model = Path(config.data.dataset).name, config.network.model
    name = f"{data}-{model}-{sampler or config.sampler.name}-{config.seed}"
    return Path("runs") / name.replace("*", "star")
