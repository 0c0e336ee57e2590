"""`bliss data`: list, describe, verify and import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bliss import data as bliss_data
from bliss.cli.console import console, errors, say
from bliss.cli.options import Debug, Root, folder, numbers
from bliss.errors import InputError

data_app = typer.Typer(help="List, describe, verify and import data.", no_args_is_help=True)


Nodes = Annotated[Path | None, typer.Option(help="Ids or a mask, instead of --split.")]


@data_app.command("list")
def data_list(root: Root = None) -> None:
    """List the data sets, and whether their files are present."""
    with errors(False):
        from rich.table import Table

        table = Table("name", "files")
        for name, is_present in bliss_data.dataset_names(root):
            table.add_row(name, "present" if is_present else "missing")
        console().print(table)


@data_app.command("info")
def data_info(
    dataset: Annotated[str, typer.Argument(help="Name or folder.")],
    root: Root = None,
    debug: Debug = False,
) -> None:
    """Describe a data set."""
    with errors(debug):
        from rich.table import Table

        table = Table("", dataset)
        for name, value in bliss_data.describe(bliss_data.load_dataset(dataset, root)).items():
            table.add_row(name, _shown(value))
        console().print(table)


@data_app.command("verify")
def data_verify(
    dataset: Annotated[str, typer.Argument(help="Name or folder.")],
    root: Root = None,
    debug: Debug = False,
) -> None:
    """Compare every file of a data set with its digest."""
    with errors(debug):
        checked, unknown = bliss_data.verify_dataset(dataset, root)
        say(f"{len(checked)} files match their digests.")
        if unknown:
            say(f"No digest is known of {', '.join(unknown)}.")


def _shown(value: Any) -> str:
    """A value as text: numbers with separators, yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


@data_app.command("import")
def data_import(
    out: Annotated[
        Path,
        typer.Argument(help="Folder to write; it must not exist.", parser=folder, metavar="PATH"),
    ],
    edges: Annotated[Path, typer.Option(help="Pairs: .npy, .npz, .csv or .parquet.")],
    features: Annotated[Path, typer.Option(help="Rows by node: .npy, .npz or .parquet.")],
    labels: Annotated[
        Path | None, typer.Option(help="Class ids or a 0/1 matrix: .npy, .csv or .parquet.")
    ] = None,
    split: Annotated[
        str, typer.Option(help="Shares of train, validation and test nodes, drawn by --seed.")
    ] = "0.6,0.2,0.2",
    train_nodes: Nodes = None,
    val_nodes: Nodes = None,
    test_nodes: Nodes = None,
    weight: Annotated[Path | None, typer.Option(help="One number per edge, .npy.")] = None,
    directed: Annotated[
        bool,
        typer.Option(
            help="Use each edge in its direction only; --no-directed adds the reverse edges."
        ),
    ] = True,
    seed: Annotated[int, typer.Option(help="Seed of the random split.")] = 0,
    debug: Debug = False,
) -> None:
    """Check your own graph and write it as a folder for `bliss train --dataset`."""
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
        is_taken = bliss_data.canonical(str(written)) in dict(bliss_data.dataset_names())
        path = f"./{written}" if is_taken else written  # "./" avoids a clash with a known name
        say(f"Written to {written}; train with: bliss train --dataset {path}")


def parse_splits(shares: str, files: dict[str, Path | None]) -> Any:
    """Files of ids if given, otherwise three shares."""
    given = {name: path for name, path in files.items() if path is not None}
    if given and len(given) < len(files):
        missing = ", ".join(f"--{name}-nodes" for name in files if name not in given)
        raise InputError(f"{missing} is missing: pass all three files, or none.")
    if given:
        return given
    return numbers("split", shares, "0.6,0.2,0.2")
