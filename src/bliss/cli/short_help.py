"""Short and full help: `--help` shows the options that people need, `--help-all` all of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

_ALL = "bliss.help_all"
FEW = 48
"""Letters of allowed values up to which the short help shows them."""


def _show_all(ctx: typer.Context, value: bool) -> None:
    if value:
        ctx.meta[_ALL] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all", help="Show all options and exit.", is_eager=True, callback=_show_all
    ),
]


class ShortHelpCommand(TyperCommand):
    """A command whose --help shows a few options, a line or two each."""

    basic: Collection[str] = ()  # names of the parameters that --help shows, in this order

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the short help, or with --help-all the full one."""
        if ctx.meta.get(_ALL):
            super().format_help(ctx, formatter)
            return
        with self._shortened():
            super().format_help(ctx, formatter)

    @contextmanager
    def _shortened(self) -> Iterator[None]:
        """Context manager that shows the basic parameters alone, each with a short text."""
        text, params = self.help, self.params
        named = {param.name: param for param in params}
        self.help = (text or "").split("\n\n")[0]
        self.params = [_short(named[name]) for name in self.basic if name in named]
        self.params.append(named["help_all"])
        try:
            yield
        finally:
            self.help, self.params = text, params


def _short(param: Any) -> Any:
    """A copy of a parameter for the short help: no panel, no --no-..., default in the text."""
    short = copy(param)
    short.rich_help_panel, short.secondary_opts = None, []
    shown = param.show_default if isinstance(param.show_default, str) else param.default
    is_shown = shown is not None and not isinstance(shown, bool) and shown != ""
    default = f" Default: {shown}." if is_shown else ""
    short.help, short.show_default = f"{first_clause(param.help)}{default}", False
    return short


def with_basic(names: Collection[str]) -> type[ShortHelpCommand]:
    """Class of commands whose --help shows these parameters."""
    return type("BasicCommand", (ShortHelpCommand,), {"basic": tuple(names)})


def first_clause(text: str | None) -> str:
    """Help up to the first full stop, colon or semicolon, and allowed values if they are few."""
    whole = " ".join((text or "").split())
    clause = re.split(r"[.:;](?: |$)", whole, maxsplit=1)[0]
    choices = re.search(r"One of ([^.]*)\.", whole)
    return f"{clause}: {choices[1]}." if choices and len(choices[1]) <= FEW else f"{clause}."
