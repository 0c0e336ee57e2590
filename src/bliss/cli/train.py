"""`bliss train`, `evaluate` and `predict`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bliss.cli.advise import auto_config
from bliss.cli.console import console, errors, say, shown
from bliss.cli.options import Debug, Root, Run, Threads, Verify, folder, set_threads, takes_settings
from bliss.train.config import AUTO

if TYPE_CHECKING:
    from bliss.train import Task, TrainConfig


@takes_settings()
def train(
    settings: dict[str, Any],
    threads: Threads = None,
    root: Root = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the run; default runs/DATASET-MODEL-SAMPLER-SEED.",
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
    verify: Verify = False,
    debug: Debug = False,
) -> None:
    """Train a network; without options, GraphSAGE with BLISS on an embedded graph.

    Settings come from the options, then from the data set's recipe, then from the defaults.
    `bliss train --dataset cora --help` shows the settings of Cora's recipe.
    """
    with errors(debug, "Run the same command with --resume to continue."):
        from bliss.cli.tables import show_result
        from bliss.data import load_dataset
        from bliss.train import Trainer, resolve
        from bliss.train.entry import run_folder
        from bliss.train.tensorboard import tensorboard_writer

        is_auto = settings.get("budgets") == AUTO
        config = resolve(**{k: v for k, v in settings.items() if not is_auto or k != "budgets"})
        place = out or run_folder(config, AUTO if is_auto else "")
        set_threads(threads)
        loaded = load_dataset(config.dataset, root, seed=config.seed, verify=verify)
        if is_auto:
            config = chosen_before(place, config) or auto_config(settings, loaded)
        trainer = Trainer(config, loaded, place, say)
        policy = f" ({config.policy})" if config.policy else ""
        say(
            f"{loaded.name}: {loaded.graph.num_nodes:,} nodes, {loaded.graph.num_edges:,} edges; "
            f"{config.model} with {config.sampler}{policy}, {config.steps} steps"
        )
        with tensorboard_writer(place if tensorboard else None) as log, shown(config.steps) as bar:
            result = trainer.run(resume, bar, log)
        show_result(result)
        say(f"Written to {place}")


def chosen_before(place: Path, config: TrainConfig) -> TrainConfig | None:
    """The settings with the sampler and budgets of the run in a folder, if there is one."""
    from bliss.train import RunFolder

    run = RunFolder(place)
    if not run.is_started:
        return None
    then = run.settings()
    options = then.sampler_options
    return replace(config, sampler=then.sampler, sampler_options=options, budgets=then.budgets)


def evaluate(
    run: Run,
    root: Root = None,
    threads: Threads = None,
    verify: Verify = False,
    debug: Debug = False,
) -> None:
    """Evaluate a run's best weights with full neighbourhoods: micro-F1 or R2 on every split."""
    with errors(debug):
        from rich.table import Table

        from bliss.train import evaluate as evaluate_task
        from bliss.train.evaluation import infers_all, scored_nodes

        set_threads(threads)
        task = open_run(run, root, verify)
        splits = ("train", "val", "test")
        scores = evaluate_task(task, splits)
        has_errors = task.dataset.is_regression
        table = Table("split", "nodes", task.metric, *(["MSE"] if has_errors else []))
        for name in splits:
            error = [f"{scores[f'{name}_mse']:.4g}"] if has_errors else []
            every = task.dataset.splits[name]
            nodes = len(every if infers_all(task) else scored_nodes(task, name))
            table.add_row(name, f"{nodes:,}", f"{scores[name]:.4f}", *error)
        console().print(table)


def predict(
    run: Run,
    out: Annotated[Path, typer.Option(help="File to write: .csv or .parquet.")],
    nodes: Annotated[str, typer.Option(help="Nodes to predict: all, train, val or test.")] = "all",
    root: Root = None,
    threads: Threads = None,
    verify: Verify = False,
    debug: Debug = False,
) -> None:
    """Write predictions of nodes: id, label or labels and their probability, or targets.

    Ids of nodes and names of classes are those that you imported.
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
        choice("nodes", nodes, NODES)
        set_threads(threads)
        task = open_run(run, root, verify)
        rows = write_predictions(out, prediction_parts(task, nodes))
        say(f"{rows:,} predictions written to {out}")


def open_run(run: Path, root: Path | None, verify: bool) -> Task:
    """Task of a run, with the weights of its best step."""
    from bliss.data import load_dataset
    from bliss.train import RunFolder, open_task

    return open_task(
        RunFolder(run),
        lambda config: load_dataset(config.dataset, root, seed=config.seed, verify=verify),
    )
