"""`bliss train`, `evaluate` and `predict`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bliss.cli.advise import auto_config
from bliss.cli.console import console, errors, say, shown, silence
from bliss.cli.options import (
    Debug,
    Root,
    Run,
    Seconds,
    Threads,
    Verify,
    folder,
    set_threads,
    takes_settings,
)
from bliss.errors import InputError
from bliss.train.config_parts import AUTO
from bliss.train.results import score_text, title_of

if TYPE_CHECKING:
    from bliss.train import RunResult, Task, TrainConfig
    from bliss.train.results import Assessment, Constant, TimeWindow

_PROCESSES = "Several processes"
MOST_CLASSES, MOST_COLUMNS = 50, 10
"""Classes up to which `bliss evaluate` prints each class, and the confusion matrix."""


@takes_settings(basic=("seconds", "out", "resume", "threads"))
def train(
    settings: dict[str, Any],
    seconds: Seconds = None,
    threads: Threads = None,
    root: Root = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Output directory; default runs/DATASET-MODEL-SAMPLER-SEED, with --seconds 60"
            " runs/DATASET-MODEL-60s-SEED.",
            parser=folder,
            metavar="PATH",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option(help="Continue the run in --out; --steps may be larger than before.")
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option(help="Log to TensorBoard in the run's folder (extra: tensorboard).")
    ] = False,
    engine: Annotated[
        str,
        typer.Option(
            help="Where the run trains: local (this process, or those of torchrun), or ray (workers"
            " of Ray; extra: ray).",
            rich_help_panel=_PROCESSES,
        ),
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(
            help="Workers of --engine ray; the number must divide --shards. Default: --shards.",
            rich_help_panel=_PROCESSES,
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            help="Seconds that a process waits for the others.", rich_help_panel=_PROCESSES
        ),
    ] = 600.0,
    check_every: Annotated[
        int,
        typer.Option(
            help="Steps between comparisons of weights and policies of all processes; 0: never.",
            rich_help_panel=_PROCESSES,
        ),
    ] = 100,
    verify: Verify = False,
    debug: Debug = False,
) -> None:
    """Train a network; without options, GraphSAGE with BLISS on a built-in graph.

    With --seconds, a pilot chooses sampler, history, batch size, budgets and the number of steps.

    Settings come from the options, then from the data set's recipe, then from the defaults.
    `bliss train --dataset cora --help-all` shows the settings of Cora's recipe.

    With torchrun, several processes train together: torchrun --nproc-per-node 2 -m bliss train
    --shards 2. See docs/processes.md, and docs/ray.md for --engine ray.
    """
    started = perf_counter()
    with errors(debug, "Run the same command with --resume to continue."):
        from bliss.distributed.processes import process_group, read_launch

        me = read_launch()
        if me.rank > 0:
            silence()
        check_engine(engine, workers, tensorboard, me.size)
        if engine == "ray":
            options = {"root": root, "resume": resume, "verify": verify, "threads": threads}
            checked = {"timeout": timeout, "check_every": check_every}
            if seconds is not None:
                raise InputError(
                    f"seconds={seconds:g} is not supported with --engine ray: run `bliss advise "
                    "--seconds` first, and pass the settings that it chooses."
                )
            train_with_ray(settings, workers, out, options | checked)
            return
        from bliss.data import load_dataset, size_words
        from bliss.distributed.agreement import Communicator
        from bliss.distributed.shards import check_processes
        from bliss.distributed.shared_dataset import shared_dataset
        from bliss.train import Trainer, resolve
        from bliss.train.entry import run_folder, window_folder
        from bliss.train.seconds.timed_run import check_timed, timed_config
        from bliss.train.tensorboard import tensorboard_writer
        from bliss.train.time_task import sees_times

        device = str(settings.get("device", "cpu"))
        with (
            process_group(me, device, timeout) as group,
            Communicator(group).sharing_errors(),
        ):
            is_auto = seconds is None and settings.get("budgets") == AUTO
            plain = {k: v for k, v in settings.items() if not is_auto or k != "budgets"}
            if seconds is None:
                config, label = resolve(**plain), AUTO if is_auto else ""
            else:
                config, label = check_timed(settings, seconds, me.size), f"{seconds:g}s"
            place = out or run_folder(config, label)
            windows = config.objective.windows
            runs = {place: config}
            if windows > 1 and not config.objective.window:
                runs = {
                    window_folder(place, k): config.with_settings(window=k)
                    for k in range(1, windows + 1)
                }
            check_processes(config.training.shards, me.size)
            if is_auto and me.size > 1:
                raise InputError(
                    "budgets='auto' needs a single process: run `bliss advise` first, and pass the "
                    "budgets that it chooses."
                )
            set_threads(threads)
            loaded = shared_dataset(
                group,
                lambda: load_dataset(config.data.dataset, root, seed=config.seed, verify=verify),
            )
            if is_auto and len(runs) > 1:
                raise InputError(
                    f"budgets='auto' chooses for one run, but windows={windows}: run `bliss "
                    "advise` first, and pass the budgets that it chooses."
                )
            if seconds is not None:
                config = timed_config(place, settings, loaded, seconds, started=started, say=say)
                runs = {place: config}
            has_times = sees_times(config.objective, loaded)
            fitted = config.fitted(loaded.graph.num_nodes, loaded.num_features, has_times)
            say(f"{loaded.name}: {size_words(loaded.graph)}; {summary(fitted, me.size)}")
            for own, one in runs.items():
                if is_auto:
                    one = chosen_before(own, one) or auto_config(settings, loaded)
                trainer = Trainer(one, loaded, own, say, group, check_every)
                if (changed := trainer.task.encoder.num_changed) and own == next(iter(runs)):
                    say(
                        f"Standardised {changed} of {loaded.num_features} features; see --features."
                    )
                logs = own if tensorboard and me.rank == 0 else None
                with tensorboard_writer(logs) as log, shown(one.training.steps) as bar:
                    result = trainer.run(resume or me.restarts > 0, bar, log)
                if me.rank == 0:
                    show_result(result)
                say(f"Written to {own}")


def check_engine(engine: str, workers: int | None, tensorboard: bool, processes: int) -> None:
    """Refuse options that do not fit the engine."""
    from bliss import checks

    checks.choice("engine", engine, ("local", "ray"))
    if engine == "local" and workers is not None:
        raise InputError(
            f"workers={workers} needs --engine ray: pass it, or start the command with torchrun "
            f"--nproc-per-node {workers} -m bliss."
        )
    if engine == "ray" and processes > 1:
        raise InputError(
            "engine='ray' starts its own processes: run the command without torchrun, and pass "
            "--workers."
        )
    if engine == "ray" and tensorboard:
        raise InputError(
            "tensorboard=True is not supported with --engine ray, which keeps the metrics itself: "
            "leave it out."
        )


def train_with_ray(
    settings: dict[str, Any], workers: int | None, out: Path | None, options: dict[str, Any]
) -> None:
    """Train in workers of Ray and show the result; `options` are those of `engines.ray.trainer`."""
    from bliss.engines import ray
    from bliss.train import resolve
    from bliss.train.entry import run_folder

    if settings.get("budgets") == AUTO:
        raise InputError(
            "budgets='auto' needs a single process: run `bliss advise` first, and pass the budgets "
            "that it chooses."
        )
    config = resolve(**settings)
    number = config.training.shards if workers is None else workers
    place = out or run_folder(config)
    threads = options["threads"] or 1
    ray.check_workers(config.training.shards, number)
    workers_of = ray.workers(number, threads, config.training.device)
    made = ray.trainer(config, workers_of, out=place, **options)
    with ray.cluster(number, threads):
        say(summary(config, 1))
        result = ray.fit(made)
    show_result(result)
    say(f"Written to {place}")


def show_result(result: RunResult) -> None:
    """Print the result of a run in two or three lines."""
    scores = result.train_score, result.val_score, result.test_score
    shown = [score_text(result.metric, score) for score in scores]
    if result.window is not None:
        say(window_text(result.window))
    say(
        f"{title_of(result.metric, result.ranks)} of the best step ({result.best_step}): train "
        f"{shown[0]}, validation {shown[1]}, test {shown[2]}"
    )
    others = [
        f"{title_of(name, result.ranks)} {score_text(name, score)}"
        for name, score in result.scores.get("test", {}).items()
        if name != result.metric and (name, result.metric) != ("accuracy", "f1")
    ]
    if others:
        say(f"other test scores: {', '.join(others)}")
    if result.constant is not None:
        say(constant_text(result.constant, result.metric, result.ranks))
    if not result.has_learnt:
        say_unlearnt("on the test split", result.causes)
    parts = ", ".join(f"{name} {ms:.1f}" for name, ms in result.step_ms.items())
    say(f"{result.seconds:.1f} s; median ms per step: {parts}")


def window_text(window: TimeWindow) -> str:
    """Times of the test split."""
    number = f"window {window.number} of {window.of}, " if window.of > 1 else ""
    return f"tested on {number}times {window.start} to {window.end}"


def constant_text(constant: Constant, metric: str, ranks: Mapping[str, int]) -> str:
    """The score and loss of a constant prediction, and the loss of the network."""
    title = title_of(metric, ranks)
    score = f"a constant prediction: test {title} {score_text(metric, constant.score)}"
    if constant.loss is None:
        return score
    loss, own = (score_text("mse", one) for one in (constant.loss, constant.network_loss))
    return f"{score}, loss {loss} (network {own})"


def say_unlearnt(where: str, causes: Sequence[str]) -> None:
    """Print that a network has learnt nothing, and the likely causes."""
    say(
        f"Warning: the network is no better than a constant prediction {where}. Likely causes, the "
        "likeliest first:"
    )
    for number, cause in enumerate(causes, start=1):
        say(f"  {number}. {cause}")


def summary(config: TrainConfig, processes: int) -> str:
    """Network, sampler, steps and processes in a few words."""
    import torch

    sampler, training = config.sampler, config.training
    policy = sampler.config.policy_name
    parts = [f"policy {policy}"] if policy else []
    parts += ["with a history"] if sampler.config.has_history else []
    options = f" ({', '.join(parts)})" if parts else ""
    text = f"{config.network.model} with {sampler.name}{options}, {training.steps} steps"
    if training.shards > 1:
        text += f" of {training.shards} shards"
    if processes > 1:
        threads = torch.get_num_threads()
        text += f" in {processes} processes of {threads} thread{'s' if threads > 1 else ''} each"
    return text


def chosen_before(place: Path, config: TrainConfig) -> TrainConfig | None:
    """The settings with the sampler and budgets of the run in a folder, if there is one."""
    from bliss.train import RunFolder

    run = RunFolder(place)
    if not run.is_started:
        return None
    return replace(config, sampler=run.settings().sampler)


def evaluate(
    run: Run,
    split: Annotated[
        str, typer.Option(help="Split of the scores by class: train, val or test.")
    ] = "test",
    cutoffs: Annotated[
        str,
        typer.Option(
            help="Edges that links by time see: split (those before the first link of their split) "
            "or link (those before each link itself; takes longer)."
        ),
    ] = "split",
    json: Annotated[Path | None, typer.Option(help="Write all scores to this file.")] = None,
    root: Root = None,
    threads: Threads = None,
    verify: Verify = False,
    debug: Debug = False,
) -> None:
    """Evaluate a run's best weights with full neighbourhoods: all scores, by split and by class."""
    with errors(debug):
        from bliss import checks
        from bliss.data.dataset import SPLITS
        from bliss.storage import records
        from bliss.storage.files import refuse_folder
        from bliss.train.assessment import CUTOFFS, assess

        checks.choice("split", split, SPLITS)
        checks.choice("cutoffs", cutoffs, CUTOFFS)
        if json is not None:
            refuse_folder("json", json, "scores.json")
        set_threads(threads)
        task = open_run(run, root, verify)
        assessment = assess(task, cutoffs=cutoffs)
        show_assessment(assessment, split, task.objective.unit)
        if not assessment.has_learnt:
            say_unlearnt("on the test split", assessment.causes)
        if json is not None:
            records.write(json, assessment)
            say(f"Written to {json}")


def show_assessment(assessment: Assessment, split: str, unit: str) -> None:
    """Print the scores of all splits, and the classes and the confusion matrix of one."""
    from rich.table import Table

    names = dict.fromkeys(name for part in assessment.splits.values() for name in part.scores)
    metric, ranks = assessment.metric, assessment.ranks
    titles = [title_of(name, ranks) for name in names]
    table = Table("split", unit, *titles, f"{title_of(metric, ranks)} of a constant")
    for name, part in assessment.splits.items():
        scores = [score_text(n, part.scores.get(n)) for n in names]
        table.add_row(name, f"{part.nodes:,}", *scores, score_text(metric, part.constant.score))
    console().print(table)
    part = assessment.splits[split]
    if not 1 < len(part.classes) <= MOST_CLASSES:
        return
    has_matrix = bool(part.confusion) and len(part.classes) <= MOST_COLUMNS
    columns = [f"as {one.name}" for one in part.classes] if has_matrix else []
    table = Table("class", "nodes", "predicted", "precision", "recall", *columns)
    for place, one in enumerate(part.classes):
        row = map(str, part.confusion[place]) if has_matrix else ()
        ratios = (score_text("", one.precision), score_text("", one.recall))
        table.add_row(one.name, f"{one.nodes:,}", f"{one.predicted:,}", *ratios, *row)
    console().print(table)


def predict(
    run: Run,
    out: Annotated[Path, typer.Option(help="File to write: .csv or .parquet.")],
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Another graph with the same features, by name or folder; default that of the run."
        ),
    ] = None,
    nodes: Annotated[
        str,
        typer.Option(
            help="Nodes to predict: all, train, val or test; with --top, all or a file of ids."
        ),
    ] = "all",
    pairs: Annotated[
        Path | None,
        typer.Option(help="For links: file of pairs to score, .csv or .parquet with src and dst."),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(help="For links: number of new targets to predict for each node."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            help="With a split by time: predict from the graph as of this time, a number or date."
        ),
    ] = None,
    root: Root = None,
    threads: Threads = None,
    verify: Verify = False,
    debug: Debug = False,
) -> None:
    """Write predictions to a file: labels with probabilities, numbers, or scores of links.

    Ids of nodes and names of classes are those that you imported. With --dataset, the nodes of
    another graph are predicted; it needs no labels. See docs/serving.md.

    For a run with --task link, pass --pairs or --top to write source, target and score. See
    docs/links.md.
    """
    with errors(debug):
        from bliss.checks import choice
        from bliss.train.predictions import (
            NODES,
            check_format,
            prediction_parts,
            write_predictions,
        )

        check_format(out)
        if top is None:
            choice("nodes", nodes, NODES)
        set_threads(threads)
        task = open_run(run, root, verify, dataset, needs_labels=False)
        rows = write_predictions(out, prediction_parts(task, nodes, pairs, top, at))
        say(f"{rows:,} predictions written to {out}")


def open_run(
    run: Path,
    root: Path | None,
    verify: bool,
    dataset: str | None = None,
    needs_labels: bool = True,
) -> Task:
    """Task of a run, with the weights of its best step, on its graph or another one."""
    from bliss.data import load_dataset
    from bliss.train import RunFolder, open_task

    return open_task(
        RunFolder(run),
        lambda config: load_dataset(
            dataset or config.data.dataset, root, seed=config.seed, verify=verify
        ),
        needs_labels=needs_labels,
    )
