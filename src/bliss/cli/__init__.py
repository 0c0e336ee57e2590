"""`bliss`: arguments become settings, settings become one call."""

from __future__ import annotations

import typer

from bliss.cli.data import data_app
from bliss.cli.studies import compare, report, reproduce, variance
from bliss.cli.train import evaluate, predict, train

app = typer.Typer(
    name="bliss",
    help="Train graph neural networks with layer-wise samplers that learn where to look.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (train, evaluate, predict, compare, variance, reproduce, report):
    app.command()(command)
app.add_typer(data_app, name="data")


def main() -> None:
    """Entry point of the command."""
    app()
