"""`bliss data`: list, describe, verify and import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bliss import data as bliss_data
from bliss.cli.console import console, errors, say, shown_shares
from bliss.cli.options import Debug, Root, folder, numbers
from bliss.errors import InputError
from bliss.text import printable

if TYPE_CHECKING:
    from bliss.data import Dataset

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
        show_dataset(bliss_data.load_dataset(dataset, root))


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
            say(f"No digest is stored for {', '.join(unknown)}.")


def show_dataset(dataset: Dataset) -> None:
    """Print a summary of a data set."""
    show_description(bliss_data.describe(dataset))


def show_description(description: dict[str, Any]) -> None:
    """Print the result of `describe`."""
    from rich.table import Table

    table = Table("", printable(description["name"]))
    for name, value in bliss_data.summary_rows(description):
        table.add_row(name, value)
    console().print(table)


@data_app.command("import")
def data_import(
    out: Annotated[
        Path,
        typer.Argument(help="Folder to write; it must not exist.", parser=folder, metavar="PATH"),
    ],
    edges: Annotated[
        list[str] | None,
        typer.Option(
            help="Pairs of ids: .npy, .npz, .csv or .parquet. Repeat it for several files. With "
            "--nodes, SOURCE,RELATION,TARGET=FILE.",
            metavar="<path>",
        ),
    ] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            help="For a heterogeneous graph: TYPE=FILE for each node type, in the formats of "
            "--features; or TYPE=NUMBER of nodes without features; or TYPE=edges for the nodes "
            "that its edges name, without features.",
            metavar="<type=path>",
        ),
    ] = None,
    node_type: Annotated[
        str | None, typer.Option(help="Type of the nodes that --labels belong to.")
    ] = None,
    no_reverse: Annotated[
        bool, typer.Option("--no-reverse", help="Do not add the reverse of each relation.")
    ] = False,
    features: Annotated[
        Path | None,
        typer.Option(
            help="One row per node: .npy, .npz, .csv or .parquet. Text columns become categories, "
            "and missing values the mean of the others."
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Classes, a 0/1 matrix or numbers to predict: .npy, .csv or .parquet."),
    ] = None,
    graph: Annotated[
        Path | None,
        typer.Option(help="A whole graph instead: .pt of PyG, .graphml, .gexf or a folder of OGB."),
    ] = None,
    label: Annotated[
        str, typer.Option(help="Column of --labels, or node attribute of --graph, to predict.")
    ] = "",
    feature_columns: Annotated[
        str, typer.Option(help="Columns or node attributes to use, separated by commas.")
    ] = "",
    id_column: Annotated[
        str,
        typer.Option(
            help="Column of the ids of nodes in --features and --labels; default the first, if it "
            "is called id, node, node_id or name."
        ),
    ] = "",
    source_column: Annotated[
        str, typer.Option(help="Column of sources in --edges; default src, source, from or row.")
    ] = "",
    target_column: Annotated[
        str, typer.Option(help="Column of targets in --edges; default dst, target, to or col.")
    ] = "",
    weight_column: Annotated[
        str, typer.Option(help="Column of weights in --edges; default weight.")
    ] = "",
    time_column: Annotated[
        str,
        typer.Option(
            help="Column of timestamps in --edges, or edge attribute of a .pt file in --graph: "
            "whole numbers or ISO dates. See docs/time.md."
        ),
    ] = "",
    node_time_column: Annotated[
        str,
        typer.Option(
            help="Column of node timestamps in --features; without --time-column, an edge has the "
            "timestamp of its source."
        ),
    ] = "",
    max_categories: Annotated[
        int,
        typer.Option(
            help="Largest number of categories of a text column that become a feature each; those "
            "of a column with more are hashed into this number of features."
        ),
    ] = 64,
    like: Annotated[
        Path | None,
        typer.Option(
            help="Imported graph whose encoding is used again, for a network trained on it."
        ),
    ] = None,
    norm: Annotated[
        str,
        typer.Option(
            help="How weighted edges are aggregated: weighted-mean (weights are divided by their "
            "sum at each node), or weights (used as they are)."
        ),
    ] = "weighted-mean",
    task: Annotated[
        str, typer.Option(help="classes, labels (several per node), regression or auto.")
    ] = "auto",
    split: Annotated[
        str | None,
        typer.Option(
            help="Fractions of train, validation and test nodes, drawn with --seed; default the "
            "masks of --graph, or 0.6,0.2,0.2."
        ),
    ] = None,
    train_nodes: Nodes = None,
    val_nodes: Nodes = None,
    test_nodes: Nodes = None,
    weight: Annotated[Path | None, typer.Option(help="One number per edge, .npy.")] = None,
    undirected: Annotated[
        bool, typer.Option("--undirected", help="Add the reverse of each edge.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the random split.")] = 0,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Working memory to sort the edges, such as 4GiB; default a quarter of what "
            "this process may use.",
        ),
    ] = None,
    feature_type: Annotated[
        str,
        typer.Option(
            help="Type of the features in the store: float32 or float16, or TYPE=float16 for some "
            "types of nodes, separated by commas."
        ),
    ] = "float32",
    label_edges: Annotated[
        list[str] | None,
        typer.Option(
            help="Links to train on and to score, instead of all edges: columns src, dst and "
            "optionally split and time. Or repeat it for train, val and test files. With --nodes, "
            "SOURCE,RELATION,TARGET=FILE, of one relation.",
            metavar="<path>",
        ),
    ] = None,
    num_nodes: Annotated[
        int | None,
        typer.Option(help="Number of nodes N of a graph without features; ids are 0 to N - 1."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be imported, and write nothing.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Check your own graph and write it as a folder for `bliss train --dataset`.

    All problems of all files are named at once. See docs/graphs.md for the formats.
    """
    with errors(debug):
        files = {"train": train_nodes, "val": val_nodes, "test": test_nodes}
        given: dict[str, Any] = {
            "edges": parse_edges("edges", edges, bool(nodes)),
            "nodes": parse_nodes(nodes),
            "node_type": node_type,
            "reverse": not no_reverse,
            "features": features,
            "labels": labels,
            "graph": graph,
            "splits": parse_splits(split, files),
            "weight": weight,
            "directed": not undirected,
            "label": label,
            "feature_columns": [name for name in feature_columns.split(",") if name],
            "id_column": id_column,
            "source_column": source_column,
            "target_column": target_column,
            "weight_column": weight_column,
            "time_column": time_column,
            "node_time_column": node_time_column,
            "max_categories": max_categories,
            "like": like,
            "norm": norm,
            "task": task,
            "seed": seed,
            "memory": memory,
            "feature_type": by_name("feature_type", feature_type),
            "label_edges": parse_edges("label_edges", label_edges, has_relations(label_edges)),
            "num_nodes": num_nodes,
        }
        with shown_shares() as progress:
            if dry_run:
                preview = bliss_data.preview_import(**given, progress=progress)
            else:
                written = bliss_data.import_graph(out, **given, progress=progress)
        if dry_run:
            show_description(preview | {"name": out.name})
            say("Nothing was written: leave --dry-run out to import.")
            return
        is_taken = bliss_data.canonical(str(written)) in dict(bliss_data.dataset_names())
        path = f"./{written}" if is_taken else written  # "./" avoids a clash with a known name
        dataset = bliss_data.open_store(written)
        show_dataset(dataset)
        say(
            f"Written to {written}; train with: bliss train --dataset {path}{_options_for(dataset)}"
        )


def _options_for(dataset: Dataset) -> str:
    """Options without which a data set cannot be trained on: of types, links and embeddings."""
    typed = dataset.typed
    options = "" if typed is None else " --model rsage"
    if dataset.num_outputs == 0:
        options += f" --task link{_relation_for(dataset)}"
    if dataset.num_features == 0 if typed is None else typed.without_features:
        options += " --embedding 64"
    return options


def _relation_for(dataset: Dataset) -> str:
    """The option that names the relation of links, if there are several."""
    from bliss.data.typed_nodes import own_relations

    types = dataset.graph.types
    own = [] if types is None else own_relations(types.edge_types)
    is_open = len(own) > 1 and dataset.label_edges is None
    return f" --edge-type {','.join(own[0])}" if is_open else ""


def parse_nodes(given: list[str] | None) -> dict[str, Path | int] | None:
    """Tables of nodes by type; None if there is none."""
    if not given:
        return None
    found: dict[str, Path | int] = {}
    for one in given:
        name, mark, place = one.partition("=")
        if not name or not mark or not place or name in found:
            raise InputError(
                f"nodes={one!r} must be TYPE=FILE, TYPE=NUMBER or TYPE=edges, once for each type: "
                "write for instance author=authors.csv."
            )
        found[name] = int(place) if place.isdigit() else Path(place)
    return found


def has_relations(given: list[str] | None) -> bool:
    """Whether all files are given with their relation."""
    relations = [one.partition("=")[0] for one in given or () if "=" in one]
    return bool(given) and [one.count(",") for one in relations] == [2] * len(given or ())


def parse_edges(field: str, given: list[str] | None, has_types: bool) -> Any:
    """Files of edges, or of links; with types, by relation."""
    if not given:
        return None
    if not has_types:
        return [Path(one) for one in given]
    found: dict[tuple[str, ...], list[Path]] = {}
    for one in given:
        relation, _, file = one.partition("=")
        parts = tuple(part.strip() for part in relation.split(","))
        if len(parts) != 3 or not all(parts) or not file:
            raise InputError(
                f"{field}={one!r} must be SOURCE,RELATION,TARGET=FILE, because there are tables of "
                "nodes: write for instance author,writes,paper=writes.csv."
            )
        found.setdefault(parts, []).append(Path(file))
    return found


def by_name(field: str, given: str) -> str | dict[str, str]:
    """One value, or values by name: "a=x,b=y"."""
    if "=" not in given:
        return given
    pairs = [one.partition("=") for one in given.split(",")]
    if not all(name and mark and value for name, mark, value in pairs):
        raise InputError(f"{field}={given!r} must be TYPE=VALUE, separated by commas: correct it.")
    return {name.strip(): value.strip() for name, _, value in pairs}


def parse_splits(shares: str | None, files: dict[str, Path | None]) -> Any:
    """Files of ids if given, otherwise three shares; None if neither is given."""
    given = {name: path for name, path in files.items() if path is not None}
    if given and len(given) < len(files):
        missing = ", ".join(f"--{name}-nodes" for name in files if name not in given)
        raise InputError(f"{missing} is missing: pass all three files, or none.")
    if given:
        return given
    return None if shares is None else numbers("split", shares, "0.6,0.2,0.2")
