"""Options that commands share."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from bliss.errors import InputError
from bliss.nn import MODELS
from bliss.policies import POLICIES
from bliss.samplers import SAMPLERS

Root = Annotated[
    Path | None,
    typer.Option(help="Folder of data sets; by default $BLISS_DATA, then the user's cache."),
]
Run = Annotated[Path, typer.Argument(help="Folder of a run, as --out named it.")]
Threads = Annotated[int | None, typer.Option(help="Threads of torch.")]
Debug = Annotated[bool, typer.Option(help="Show tracebacks.")]

SETTINGS: dict[str, tuple[Any, str]] = {
    "dataset": (str, "Name or folder; see `bliss data list`."),
    "model": (str, f"{', '.join(MODELS)}."),
    "sampler": (str, f"{', '.join(SAMPLERS)}."),
    "policy": (str, f"Where masses come from: {', '.join(POLICIES)}."),
    "estimator": (str, "ht, hajek, sketch, released or plain, where a sampler has it."),
    "thinning": (str, "How the budget is met: exact or paper."),
    "sampler_options": (
        str,
        "What only this sampler or its policy knows: replace=true, or iterations=2,shared=true.",
    ),
    "budgets": (
        str,
        "Per layer, input layer first: sources kept (4096,2048,1024), or neighbours of each target "
        "for samplers that choose neighbours (10,10,10).",
    ),
    "batch_size": (int, "Seeds per step."),
    "steps": (int, "Training steps."),
    "lr": (float, "Learning rate."),
    "schedule": (str, "Learning rate over steps: constant, or linear to 0."),
    "lr_decay": (float, "Factor on the learning rate every --decay-epochs epochs."),
    "decay_epochs": (int, "Epochs between decays of the learning rate."),
    "weight_decay": (float, "L2 penalty."),
    "hidden": (int, "Width of hidden layers."),
    "layers": (int, "Number of layers."),
    "heads": (int, "Attention heads of hidden layers."),
    "dropout": (float, "Share of inputs dropped."),
    "attention_dropout": (float, "Share of attention dropped."),
    "residual": (bool, "Layers from the second on add their input."),
    "bias": (bool, "Convolutions add a learnt constant."),
    "normalisation": (str, "none, layer or batch."),
    "attention": (str, "hajek (corrected) or plain."),
    "initialisation": (str, "Weights at the start: default or relu (wider, as in DGL)."),
    "feedback": (str, "What attention tells the policy: softmax or scores."),
    "features": (str, "raw, or row: divided by their sum where it is above 1, a copy in memory."),
    "seed": (int, "Decides every random choice."),
    "evaluate_every": (int, "Steps between evaluations."),
    "validation": (str, "Neighbourhoods of evaluations during training: full or sampled."),
    "patience": (int, "Evaluations without progress before stopping; 0: never."),
    "prefetch": (int, "1: draw ahead in a thread."),
    "precision": (str, "float32 or bfloat16."),
    "device": (str, "cpu or cuda."),
}
"""Settings of a run, as options: type and help. What is not given comes from recipe or default."""


def takes_settings(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of SETTINGS but `without`; it gets them as `settings`."""
    names = [name for name in SETTINGS if name not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:
            settings = {name: values.pop(name) for name in names}
            command(settings=settings, **values)

        own = inspect.signature(command, eval_str=True)
        options = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[
                    SETTINGS[name][0] | None, typer.Option(help=SETTINGS[name][1])
                ],
            )
            for name in names
        ]
        others = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in own.parameters.items()
            if name != "settings"
        ]
        run.__signature__ = own.replace(parameters=[*options, *others])  # type: ignore[attr-defined]
        return run

    return decorate


def parsed(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with their budgets as numbers, and the sampler's options by name."""
    found = dict(settings)
    if found.get("budgets") is not None:
        found["budgets"] = whole_numbers("budgets", found["budgets"], "4096,2048,1024")
    if found.get("sampler_options") is not None:
        pairs = [named_value(text) for text in found["sampler_options"].split(",")]
        twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        if twice:
            raise InputError(f"sampler_options has {twice[0]} more than once: give it once.")
        found["sampler_options"] = dict(pairs)
    return found


def named_value(text: str) -> tuple[str, Any]:
    """NAME=VALUE: a number, true or false, null, or else a word."""
    name, is_there, value = (part.strip() for part in text.partition("="))
    if not (name and is_there and value):
        raise InputError(
            f"sampler_options has {text!r}, which is not NAME=VALUE: replace=true,iterations=2."
        )
    if value.lower() in ("true", "false"):  # Python's spelling, too
        return name, value.lower() == "true"
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def names(text: str, everything: Sequence[str] = ()) -> list[str]:
    """Names separated by commas, in any case; "all" stands for everything."""
    if text == "all" and everything:
        return list(everything)
    return [part.strip().lower() for part in text.split(",") if part.strip()]


def whole_numbers(field: str, text: str, example: str) -> tuple[int, ...]:
    """Whole numbers separated by commas."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(
            f"{field}={text!r} must be whole numbers separated by commas: {example}."
        ) from error


def numbers(field: str, text: str, example: str) -> tuple[float, ...]:
    """Numbers separated by commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(
            f"{field}={text!r} must be numbers separated by commas: {example}."
        ) from error


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds separated by commas; a single number n stands for 0 to n - 1."""
    found = whole_numbers("seeds", text, "0,1,2, or 3 for the same")
    if any(seed < 0 for seed in found) or len(set(found)) < len(found):
        raise InputError(f"seeds={text!r} must be different and not negative: 0,1,2.")
    return tuple(range(found[0])) if len(found) == 1 and found[0] > 0 else found


def set_threads(threads: int | None) -> None:
    """Fix the number of torch's threads, if it was given."""
    if threads is not None:
        if threads < 1:
            raise InputError(f"threads={threads} must be at least 1.")
        torch.set_num_threads(threads)
