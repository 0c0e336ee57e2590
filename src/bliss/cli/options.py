"""Options of commands; those of runs are generated from the config dataclasses.

A field's type, default and docstring become the option's type, default and help.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, wraps
from pathlib import Path
from statistics import mode
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import typer

from bliss.cli.console import errors
from bliss.cli.short_help import HelpAll, with_basic
from bliss.data.feature_methods import METHODS
from bliss.errors import InputError
from bliss.nn.model_config import MODELS
from bliss.policies.configs import POLICIES, PolicyConfig
from bliss.samplers.config_base import SamplerConfig
from bliss.samplers.configs import SAMPLERS
from bliss.train.budget_text import EXAMPLE, parse_typed
from bliss.train.config import PARTS, PLACES, TrainConfig
from bliss.train.config_parts import AUTO, TASKS
from bliss.train.recipe import recipe, resolve


def folder(text: str | Path) -> Path:
    """Folder to write; an empty name would be the current folder."""
    if not str(text):
        raise typer.BadParameter("the name is empty: name a folder, or . for the current one.")
    return Path(text)


Root = Annotated[
    Path | None,
    typer.Option(help="Folder of data sets; default $BLISS_DATA, then the user's cache."),
]
Run = Annotated[Path, typer.Argument(help="Folder of a run, as given by --out.")]
Figures = Annotated[
    Path | None,
    typer.Option(
        help="Write the figures into this folder, PNG and SVG.", parser=folder, metavar="PATH"
    ),
]
Verify = Annotated[
    bool, typer.Option(help="Compare every file of the data set with its digest first.")
]
Threads = Annotated[int | None, typer.Option(help="Number of threads of torch and of the kernels.")]
Seconds = Annotated[
    float | None,
    typer.Option(
        help="Time of the run, to choose settings for; a pilot of at most a"
        " tenth of it chooses sampler, history, batch size, budgets and steps, as far as they are"
        " not given. See docs/advice.md.",
        show_default=False,
    ),
]
Debug = Annotated[bool, typer.Option(help="Show tracebacks.")]

CHOICES: Mapping[str, Sequence[str]] = {
    "task": TASKS,
    "features": METHODS,
    "model": MODELS,
    "sampler": tuple(SAMPLERS),
    "policy": tuple(
        dict.fromkeys(
            n for kind in SAMPLERS.values() if "policy" in kind.options() for n in kind.policies
        )
    ),
    "estimator": tuple(
        dict.fromkeys(n for kind in SAMPLERS.values() for n in getattr(kind, "estimators", ()))
    ),
}
"""Allowed values of settings, for their help."""
PANELS = {
    "data": "Data",
    "objective": "Task",
    "network": "Network",
    "sampler": "Sampler",
    "training": "Training",
}
"""Titles of the parts of the settings in the help."""
EXAMPLES = f"4096,2048,1024, or {EXAMPLE} with types"
BASIC = (
    *("dataset", "task", "features", "model", "layers", "hidden", "sampler", "budgets"),
    *("batch_size", "steps", "lr", "seed"),
)
"""Settings that --help shows; --help-all shows the others, too."""
MOST_OWNERS = 3
"""Samplers or policies that the title of a panel of the help names at most."""
_PLAIN = (str, int, float, bool)


class Setting(NamedTuple):
    """One setting of a run as an option."""

    name: str
    kind: type  # str, int, float or bool; other types are parsed from str
    help: str
    default: str  # shown in the help
    panel: str


def takes_settings(
    without: Sequence[str] = (), sampler: bool = True, basic: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator that adds the options of a run, passed to the command as the dict `settings`.

    The command must have an option `debug`.

    `without` are settings to leave out, with sampler=False also those of samplers and policies.
    `basic` are the command's own options that --help shows, beside BASIC.
    """
    left_out = {*without, *(() if sampler else sampler_option_names())}
    chosen = [setting for setting in run_settings() if setting.name not in left_out]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:
            del values["help_all"]
            given = {setting.name: values.pop(setting.name) for setting in chosen}
            with errors(values["debug"]):
                settings = {k: parse(k, v) for k, v in given.items() if v is not None}
            command(settings=settings, **values)

        own = inspect.signature(command, eval_str=True)
        options = [
            inspect.Parameter(
                setting.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[
                    setting.kind | None,
                    typer.Option(
                        help=setting.help,
                        rich_help_panel=setting.panel,
                        show_default=setting.default or False,
                    ),
                ],
            )
            for setting in chosen
        ]
        others = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in own.parameters.items()
            if name != "settings"
        ]
        full = inspect.Parameter(
            "help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=HelpAll
        )
        run.__signature__ = own.replace(parameters=[*options, *others, full])  # type: ignore[attr-defined]
        run.command_class = with_basic((*BASIC, *basic))  # type: ignore[attr-defined]
        return run

    return decorate


@cache
def run_settings() -> list[Setting]:
    """All settings of a run: its data, network, sampler, policy and training."""
    config, recipe_names = settings_in_force(sys.argv[1:])
    in_force = config.flat()
    fields_of = {part: {f: (t, doc) for f, t, doc in declared(k)} for part, k in PARTS.items()}
    settings = []
    for name, (part, field) in PLACES.items():
        kind, doc = fields_of[part][field]
        default = _default(name, in_force[name], recipe_names)
        settings.append(Setting(name, kind, doc + _choices(name), default, PANELS[part]))
    for name, (kind, doc, held_by) in sampler_options().items():
        default = _default(name, in_force.get(name), recipe_names)
        named, text = ", ".join(held_by), doc + _choices(name)
        if len(held_by) > MOST_OWNERS:
            settings.append(
                Setting(name, kind, f"{text} Option of {named}.", default, PANELS["sampler"])
            )
        else:
            settings.append(Setting(name, kind, text, default, f"Options of {named}"))
    return settings


def _choices(name: str) -> str:
    return f" One of {', '.join(CHOICES[name])}." if name in CHOICES else ""


def _default(name: str, value: Any, recipe_names: set[str]) -> str:
    """Default value as text; empty if there is none."""
    if isinstance(value, (tuple, list)):
        value = ",".join(map(str, value)) or "depends on the graph"
    source = ", from the recipe" if name in recipe_names else ""
    return "" if value is None else f"{value}{source}"


def settings_in_force(arguments: Sequence[str]) -> tuple[TrainConfig, set[str]]:
    """Settings before options are applied, for --help, and the names set by the recipe.

    They depend on the data set, the network and the sampler, if these are given.
    """
    given = {}
    for option in ("dataset", "model", "sampler", "task"):
        for place, text in enumerate(arguments):
            if text == f"--{option}" and place + 1 < len(arguments):
                given[option] = arguments[place + 1]
            elif text.startswith(f"--{option}="):
                given[option] = text.partition("=")[2]
    try:
        config = resolve(**given)
    except Exception:  # the command reports it
        return TrainConfig(), set()
    if config.objective.is_link:
        return config, set()
    names = recipe(config.data.dataset, config.network.model, config.sampler.name)
    return config, set(names)


def sampler_option_names() -> set[str]:
    """Names of the options of samplers and policies."""
    return set(sampler_options())


@cache
def sampler_options() -> dict[str, tuple[type, str, list[str]]]:
    """Options of samplers and their policies: type, help, and the names of their owners.

    Where owners describe an option in different words, the help is that of most of them.
    """
    described: dict[str, list[tuple[str, type, str]]] = {}
    for owner, config in owners():
        for name, kind, doc in declared(config):
            if name in config.options():
                described.setdefault(name, []).append((owner, kind, doc))
    return {
        name: (
            held[0][1],
            mode([doc for _, _, doc in held]),
            list(dict.fromkeys(o for o, *_ in held)),
        )
        for name, held in described.items()
    }


def owners() -> Iterator[tuple[str, type[SamplerConfig] | type[PolicyConfig]]]:
    """Names of samplers and policies, with the classes of their settings.

    Settings of a policy that only one family of samplers has belong to these samplers.
    """
    seen: set[type[SamplerConfig]] = set()
    for name, config in SAMPLERS.items():
        if type(config) not in seen:
            seen.add(type(config))
            yield name, type(config)
            yield from ((name, type(p)) for p in config.policies.values() if p.name not in POLICIES)
    yield from ((name, type(policy)) for name, policy in POLICIES.items())


def declared(kind: type) -> list[tuple[str, type, str]]:
    """Fields of a config dataclass: name, type of the option, docstring in one line."""
    docs, hints = field_docs(kind), get_type_hints(kind)
    described = []
    for field in fields(kind):
        hint = hints[field.name]
        inner = [part for part in get_args(hint) if part in _PLAIN]  # of int | None
        is_optional = len(inner) == 1 and get_origin(hint) is not tuple
        plain = hint if hint in _PLAIN else inner[0] if is_optional else str
        described.append((field.name, plain, " ".join(docs[field.name].split())))
    return described


def field_docs(kind: type) -> dict[str, str]:
    """Docstrings of a dataclass's fields, including inherited ones."""
    docs: dict[str, str] = {}
    for owner in reversed(kind.__mro__[:-1]):
        docs |= class_docs(owner.__module__).get(owner.__name__, {})
    return docs


@cache
def class_docs(module: str) -> dict[str, dict[str, str]]:
    """Docstrings of fields by class and field, read from the module's source."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    docs: dict[str, dict[str, str]] = {}
    for owner in tree.body:
        if isinstance(owner, ast.ClassDef):
            pairs = zip(owner.body, owner.body[1:], strict=False)
            docs[owner.name] = {
                ast.unparse(field.target): str(ast.literal_eval(text.value))
                for field, text in pairs
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
            }
    return docs


def parse(name: str, value: Any) -> Any:
    """Value of a setting: budgets and weights as numbers; options of samplers as JSON or text."""
    if name == "class_weights" and value not in ("none", "balanced"):
        return numbers(name, value, "1,2.5,1, or balanced")
    if name in ("edge_type", "rev_edge_type"):
        return tuple(part.strip() for part in value.split(","))
    if name == "edge_split":
        return numbers(name, value, "0.85,0.05,0.1")
    if name == "budgets":
        if value == AUTO:
            return value
        return parse_typed(value) if "=" in value else whole_numbers("budgets", value, EXAMPLES)
    if name in sampler_option_names() and isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def names(text: str, everything: Sequence[str] = ()) -> list[str]:
    """Names separated by commas, in any case; "all" means everything."""
    if text == "all" and everything:
        return list(everything)
    return [part.strip().lower() for part in text.split(",") if part.strip()]


def whole_numbers(field: str, text: str, example: str) -> tuple[int, ...]:
    """Whole numbers separated by commas."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(
            f"{field}={text!r} must be whole numbers separated by commas: write for instance "
            f"{example}."
        ) from error


def numbers(field: str, text: str, example: str) -> tuple[float, ...]:
    """Numbers separated by commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(
            f"{field}={text!r} must be numbers separated by commas: write for instance {example}."
        ) from error


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds separated by commas; a single number n means 0 to n - 1."""
    numbers = whole_numbers("seeds", text, "0,1,2, or 3 for the same")
    if any(seed < 0 for seed in numbers) or len(set(numbers)) < len(numbers):
        raise InputError(
            f"seeds={text!r} must be distinct and not negative: write for instance 0,1,2."
        )
    return tuple(range(numbers[0])) if len(numbers) == 1 and numbers[0] > 0 else numbers


def set_threads(threads: int | None) -> None:
    """Set torch's number of threads, if given."""
    if threads is not None:
        if threads < 1:
            raise InputError(
                f"threads={threads} must be at least 1: pass the number of cores that torch may "
                "use, or leave it out."
            )
        import torch

        torch.set_num_threads(threads)
