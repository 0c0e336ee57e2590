"""`python -m experiments.paper`: rerun the paper's tables and figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bliss.cli.console import errors, say, shown_study
from bliss.cli.options import Debug, Root, Threads, folder, names, set_threads
from experiments.paper.record import TABLES

HERE = Path(__file__).parent


def main(
    root: Root = None,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder of the results; run the same command again to continue.",
            parser=folder,
            metavar="PATH",
            show_default="experiments/paper",
        ),
    ] = HERE,
    preset: Annotated[
        str, typer.Option(help="paper (like the released code), ours, or both: paper,ours.")
    ] = "paper,ours",
    tables: Annotated[
        str, typer.Option(help="Tables: f1, time, variance (measured complexity and variance).")
    ] = ",".join(TABLES),
    figures: Annotated[
        bool, typer.Option(help="Also write figures, as PNG and SVG, and a page, report.html.")
    ] = False,
    datasets: Annotated[
        str, typer.Option(help="Data sets: citeseer, cora, flickr, pubmed, reddit, yelp, or all.")
    ] = "all",
    models: Annotated[str, typer.Option(help="Networks: gat, sage or both.")] = "gat,sage",
    seeds: Annotated[int, typer.Option(help="Number of runs of each setting.")] = 5,
    steps: Annotated[
        int | None, typer.Option(help="Training steps; default the published number.")
    ] = None,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Rerun the paper's tables and figures, and compare each number with the published one.

    Each data set takes 40 runs with the defaults. Finished runs in --out are not repeated.
    """
    with errors(debug):
        from experiments.paper.console import show_reproduction
        from experiments.paper.page import write
        from experiments.paper.reproduction import reproduce
        from experiments.paper.tables import write_tables

        set_threads(threads)
        with shown_study() as move:
            reproduction = reproduce(
                out,
                presets=names(preset),
                tables=names(tables),
                datasets=None if datasets == "all" else names(datasets),
                models=names(models),
                seeds=seeds,
                steps=steps,
                root=root,
                command=" ".join(["python -m experiments.paper", *sys.argv[1:]]),
                say=say,
                on_progress=move,
            )
        show_reproduction(reproduction)
        say(f"Written to {out / 'results.json'} and {write_tables(out)}")
        if figures:
            page, files = write(out)
            say(f"{len(files)} figures written to {out / 'figures'}, and a page to {page}")


app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(main)

if __name__ == "__main__":
    app(prog_name="python -m experiments.paper")
