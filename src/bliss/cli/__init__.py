"""The command line: each command converts its arguments to settings and calls the library.

Commands import torch and the rest of the library when they run, so that --help is fast.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bliss import __version__
from bliss.cli.data import data_app
from bliss.cli.demo import demo
from bliss.cli.report import report
from bliss.cli.train import evaluate, predict, train
from bliss.studies.registry import imported, studies

ABOUT = "Train graph neural networks on large graphs, within a fixed time budget."
FIRST = "Start with `bliss demo`, then import your graph: `bliss data import --help`."

app = typer.Typer(
    name="bliss",
    help=ABOUT,
    epilog=FIRST,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        print(f"bliss {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Train graph neural networks on large graphs, within a fixed time budget."""


study_commands = [imported(study.command) for study in studies()]
for command in (train, evaluate, predict, *study_commands, report, demo):
    app.command(cls=getattr(command, "command_class", None))(command)
app.add_typer(data_app, name="data")
