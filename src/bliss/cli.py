"""`bliss`: arguments become settings, settings become one call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from bliss import data as bliss_data
from bliss.errors import DamagedError, InputError, ResourceError
from bliss.train import Interrupted, RunFolder, TrainConfig, Trainer, probabilities, resolve
from bliss.train import Progress as Standing
from bliss.train.predictions import check_format, write_predictions

app = typer.Typer(
    name="bliss",
    help="Train graph neural networks with layer-wise samplers that learn where to look.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="List, describe and import data.", no_args_is_help=True)
app.add_typer(data_app, name="data")

console = Console()
complaints = Console(stderr=True)

Root = Annotated[
    Path | None,
    typer.Option(help="Folder of data sets; by default $BLISS_DATA, then the user's cache."),
]
Run = Annotated[Path, typer.Argument(help="Folder of a run, as --out named it.")]


@app.command()
def train(
    dataset: Annotated[str | None, typer.Option(help="Name or folder; `bliss data list`.")] = None,
    model: Annotated[str | None, typer.Option(help="sage, gcn, gat or gatv2.")] = None,
    sampler: Annotated[str | None, typer.Option(help="ladies, sketch, pladies or bliss.")] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="uniform, ladies, static, exp3, exp3-released or node."),
    ] = None,
    estimator: Annotated[str | None, typer.Option(help="ht, hajek or sketch.")] = None,
    budgets: Annotated[
        str | None, typer.Option(help="Sources kept per layer, input layer first: 4096,2048,1024.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Seeds per step.")] = None,
    steps: Annotated[int | None, typer.Option(help="Training steps.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="L2 penalty.")] = None,
    hidden: Annotated[int | None, typer.Option(help="Width of hidden layers.")] = None,
    layers: Annotated[int | None, typer.Option(help="Number of layers.")] = None,
    heads: Annotated[int | None, typer.Option(help="Attention heads of hidden layers.")] = None,
    dropout: Annotated[float | None, typer.Option(help="Share of inputs dropped.")] = None,
    attention_dropout: Annotated[
        float | None, typer.Option(help="Share of attention dropped.")
    ] = None,
    residual: Annotated[bool | None, typer.Option(help="Hidden layers add their input.")] = None,
    normalisation: Annotated[str | None, typer.Option(help="none, layer or batch.")] = None,
    attention: Annotated[str | None, typer.Option(help="hajek (corrected) or plain.")] = None,
    features: Annotated[str | None, typer.Option(help="raw or row (rows sum to 1).")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides every random choice.")] = None,
    evaluate_every: Annotated[int | None, typer.Option(help="Steps between evaluations.")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Evaluations without progress before stopping; 0: never.")
    ] = None,
    prefetch: Annotated[int | None, typer.Option(help="1: draw ahead in a thread.")] = None,
    precision: Annotated[str | None, typer.Option(help="float32 or bfloat16.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of torch.")] = None,
    root: Root = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the run in --out.")] = False,
    debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False,
) -> None:
    """Train a network; without options, BLISS and GraphSAGE on an embedded graph.

    Settings come from the options, then from the data set's recipe, then from the defaults.
    """
    given = {k: v for k, v in locals().items() if k not in ("threads", "root", "out", "resume")}
    given.pop("debug")
    with errors(debug):
        given["budgets"] = parse_budgets(budgets)
        config = resolve(**given)
        folder = out or Path("runs") / f"{Path(config.dataset).name}-{config.model}-{config.seed}"
        set_threads(threads)
        loaded = bliss_data.load_dataset(config.dataset, root, seed=config.seed)
        trainer = Trainer(config, loaded, folder, say)
        say(
            f"{loaded.name}: {loaded.graph.num_nodes:,} nodes, {loaded.graph.num_edges:,} edges; "
            f"{config.model} with {config.sampler} ({config.policy}), {config.steps} steps"
        )
        with shown(config.steps) as on_step:
            result = trainer.run(resume, on_step)
        show_result(result)
        say(f"Written to {folder}")


@app.command()
def evaluate(
    run: Run,
    root: Root = None,
    threads: Annotated[int | None, typer.Option(help="Threads of torch.")] = None,
    debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False,
) -> None:
    """F1 of a run's best weights, with full neighbourhoods, on every split."""
    with errors(debug):
        set_threads(threads)
        trainer = open_run(run, root)
        table = Table("split", "nodes", "micro-F1")
        for name, score in trainer.evaluate(("train", "val", "test")).items():
            table.add_row(name, f"{len(trainer.dataset.splits[name]):,}", f"{score:.4f}")
        console.print(table)


@app.command()
def predict(
    run: Run,
    out: Annotated[Path, typer.Option(help="Where to write: .csv or .parquet.")],
    root: Root = None,
    threads: Annotated[int | None, typer.Option(help="Threads of torch.")] = None,
    debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False,
) -> None:
    """Predict every node: its id, its label or labels, and their probability."""
    with errors(debug):
        check_format(out)
        set_threads(threads)
        trainer = open_run(run, root)
        chances = probabilities(trainer.logits(), trainer.dataset.is_multilabel)
        write_predictions(out, chances, trainer.dataset.is_multilabel)
        say(f"{chances.size(0):,} predictions written to {out}")


@data_app.command("list")
def data_list(root: Root = None) -> None:
    """Name the data sets, and whether their files are there."""
    with errors(False):
        table = Table("name", "files")
        for name, is_there in bliss_data.dataset_names(root):
            table.add_row(name, "there" if is_there else "missing")
        console.print(table)


@data_app.command("info")
def data_info(
    dataset: Annotated[str, typer.Argument(help="Name or folder.")],
    root: Root = None,
    debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False,
) -> None:
    """Describe a data set."""
    with errors(debug):
        table = Table("", dataset)
        for name, value in bliss_data.describe(bliss_data.load_dataset(dataset, root)).items():
            table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
        console.print(table)


@data_app.command("import")
def data_import(
    out: Annotated[Path, typer.Argument(help="Folder to write; it must not exist.")],
    edges: Annotated[Path, typer.Option(help="Pairs: .npy, .npz, .csv or .parquet.")],
    features: Annotated[Path, typer.Option(help="Rows by node: .npy, .npz or .parquet.")],
    labels: Annotated[
        Path | None, typer.Option(help="Class ids or a 0/1 matrix: .npy, .csv or .parquet.")
    ] = None,
    split: Annotated[
        str, typer.Option(help="Shares of train, validation and test nodes, drawn by --seed.")
    ] = "0.6,0.2,0.2",
    train_nodes: Annotated[Path | None, typer.Option(help="Ids or mask, instead.")] = None,
    val_nodes: Annotated[Path | None, typer.Option(help="Ids or mask, instead.")] = None,
    test_nodes: Annotated[Path | None, typer.Option(help="Ids or mask, instead.")] = None,
    weight: Annotated[Path | None, typer.Option(help="One number per edge, .npy.")] = None,
    directed: Annotated[bool, typer.Option(help="Edges run one way.")] = True,
    seed: Annotated[int, typer.Option(help="Which nodes a share picks.")] = 0,
    debug: Annotated[bool, typer.Option(help="Show tracebacks.")] = False,
) -> None:
    """Check a graph of your own and write it as a folder that `bliss train --dataset` opens."""
    with errors(debug):
        files = {"train": train_nodes, "val": val_nodes, "test": test_nodes}
        written = bliss_data.import_graph(
            out,
            edges=edges,
            features=features,
            labels=labels,
            splits=parse_splits(split, files),
            weight=weight,
            directed=directed,
            seed=seed,
        )
        say(f"Written to {written}; train with: bliss train --dataset {written}")


def parse_splits(shares: str, files: dict[str, Path | None]) -> Any:
    """Files of ids where any was given, otherwise three shares."""
    given = {name: path for name, path in files.items() if path is not None}
    if given and len(given) < len(files):
        missing = ", ".join(f"--{name}-nodes" for name in files if name not in given)
        raise InputError(f"{missing} is missing: give all three files, or none.")
    if given:
        return given
    try:
        return tuple(float(part) for part in shares.split(","))
    except ValueError as error:
        raise InputError(
            f"split={shares!r} must be three numbers separated by commas: 0.6,0.2,0.2."
        ) from error


def main() -> None:
    """Entry point of the command."""
    app()


def open_run(run: Path, root: Path | None) -> Trainer:
    """A run's data and network with its best weights."""
    folder = RunFolder(run)
    config = TrainConfig.from_dict(folder.read_json("config.json"))
    loaded = bliss_data.load_dataset(config.dataset, root, seed=config.seed)
    trainer = Trainer(config, loaded, run, say)
    trainer.model.load_state_dict(folder.load_best())
    return trainer


def parse_budgets(text: str | None) -> tuple[int, ...] | None:
    """Numbers separated by commas."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(
            f"budgets={text!r} must be whole numbers separated by commas: 4096,2048,1024."
        ) from error


def set_threads(threads: int | None) -> None:
    """Fix the number of torch's threads, if it was given."""
    if threads is not None:
        if threads < 1:
            raise InputError(f"threads={threads} must be at least 1.")
        torch.set_num_threads(threads)


def say(text: str) -> None:
    """Print a plain line."""
    console.print(text, highlight=False, markup=False)


def show_result(result: dict[str, Any]) -> None:
    """The end of a run in three lines."""
    say(
        f"micro-F1 of the best step ({result['best_step']}): train {result['train_f1']:.4f}, "
        f"validation {result['val_f1']:.4f}, test {result['test_f1']:.4f}"
    )
    parts = ", ".join(f"{name} {ms:.1f}" for name, ms in result["step_ms"].items())
    say(f"{result['seconds']:.1f} s; a step in ms: {parts}")


@contextmanager
def shown(steps: int) -> Iterator[Callable[[Standing], None]]:
    """A live bar on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        every = max(steps // 10, 1)

        def line(now: Standing) -> None:
            if now.step % every == 0 or now.step == now.steps:
                say(f"step {now.step}/{now.steps}  {standing(now)}")

        yield line
        return
    columns = [
        TextColumn("{task.completed}/{task.total}"),
        BarColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    ]
    started, first = perf_counter(), 0
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=steps)

        def move(now: Standing) -> None:
            nonlocal started, first
            if first == 0:
                started, first = perf_counter(), now.step  # compilation is not counted
            rate = (now.step - first) / max(perf_counter() - started, 1e-9)
            text = f"{standing(now)}  {rate:.1f} steps/s"
            bar.update(task, completed=now.step, description=text)

        yield move


def standing(now: Standing) -> str:
    """Loss and F1 in a few words."""
    score = "-" if now.val_f1 != now.val_f1 else f"{now.val_f1:.4f}"  # NaN before the first
    return f"loss {now.loss:.4f}  val F1 {score}"


@contextmanager
def errors(debug: bool) -> Iterator[None]:
    """One sentence and a code: 2 bad input, 3 damaged state, 4 resources, 130 and 143 signals."""
    try:
        yield
    except Interrupted as stop:
        complaints.print(f"Stopped after a whole step; go on with --resume ({stop}).", markup=False)
        sys.exit(128 + stop.number)
    except (InputError, DamagedError, ResourceError, MemoryError) as error:
        if debug:
            raise
        codes = {InputError: 2, DamagedError: 3}
        complaints.print(f"Error: {error or 'out of memory.'}", markup=False, highlight=False)
        sys.exit(codes.get(type(error), 4))


if __name__ == "__main__":
    main()
