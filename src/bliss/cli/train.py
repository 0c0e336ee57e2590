"""`bliss train`, `evaluate` and `predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from bliss import data as bliss_data
from bliss.cli.console import console, errors, say, shown
from bliss.cli.options import Debug, Root, Run, Threads, parsed, set_threads, takes_settings
from bliss.train import RunFolder, RunResult, Trainer, probabilities, resolve
from bliss.train.predictions import check_format, write_predictions
from bliss.train.tensorboard import tensorboard_writer


@takes_settings()
def train(
    settings: dict[str, Any],
    threads: Threads = None,
    root: Root = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the run in --out.")] = False,
    tensorboard: Annotated[
        bool, typer.Option(help="Log for TensorBoard, in the run's folder (extra: tensorboard).")
    ] = False,
    debug: Debug = False,
) -> None:
    """Train a network; without options, BLISS and GraphSAGE on an embedded graph.

    Settings come from the options, then from the data set's recipe, then from the defaults.
    """
    with errors(debug):
        config = resolve(**parsed(settings))
        folder = out or Path("runs") / f"{Path(config.dataset).name}-{config.model}-{config.seed}"
        set_threads(threads)
        loaded = bliss_data.load_dataset(config.dataset, root, seed=config.seed)
        trainer = Trainer(config, loaded, folder, say)
        policy = f" ({config.policy})" if config.policy else ""
        say(
            f"{loaded.name}: {loaded.graph.num_nodes:,} nodes, {loaded.graph.num_edges:,} edges; "
            f"{config.model} with {config.sampler}{policy}, {config.steps} steps"
        )
        with tensorboard_writer(folder if tensorboard else None) as log, shown(config.steps) as bar:
            result = trainer.run(resume, bar, log)
        show_result(result)
        say(f"Written to {folder}")


def evaluate(
    run: Run,
    root: Root = None,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """F1 of a run's best weights, with full neighbourhoods, on every split."""
    with errors(debug):
        set_threads(threads)
        trainer = open_run(run, root)
        table = Table("split", "nodes", "micro-F1")
        for name, score in trainer.evaluate(("train", "val", "test")).items():
            table.add_row(name, f"{len(trainer.dataset.splits[name]):,}", f"{score:.4f}")
        console.print(table)


def predict(
    run: Run,
    out: Annotated[Path, typer.Option(help="Where to write: .csv or .parquet.")],
    root: Root = None,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Predict every node: its id, its label or labels, and their probability."""
    with errors(debug):
        check_format(out)
        set_threads(threads)
        trainer = open_run(run, root)
        chances = probabilities(trainer.logits(), trainer.dataset.is_multilabel)
        write_predictions(out, chances, trainer.dataset.is_multilabel)
        say(f"{chances.size(0):,} predictions written to {out}")


def open_run(run: Path, root: Path | None) -> Trainer:
    """A run's data and network with its best weights."""
    folder = RunFolder(run)
    config = folder.settings()
    loaded = bliss_data.load_dataset(config.dataset, root, seed=config.seed)
    trainer = Trainer(config, loaded, run, say)
    trainer.load_best()
    return trainer


def show_result(result: RunResult) -> None:
    """Print the scores of a run and its time."""
    say(
        f"micro-F1 at the best step ({result.best_step}): train {result.train_f1:.4f}, "
        f"validation {result.val_f1:.4f}, test {result.test_f1:.4f}"
    )
    parts = ", ".join(f"{name} {ms:.1f}" for name, ms in result.step_ms.items())
    say(f"{result.seconds:.1f} s; milliseconds per step: {parts}")
