"""The JSON formats a report reads, as dataclasses; `decode` fills them and refuses what is off.

A field without a default must be there. A number may be null or absent: it is NaN then.
"""

from __future__ import annotations

import math
import types
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

NAN = math.nan


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Scores over steps; the deviations are over seeds, and empty where there is one seed."""

    step: list[float] = field(default_factory=list)
    val_f1: list[float] = field(default_factory=list)
    val_f1_std: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    loss_std: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("val_f1", "val_f1_std", "loss", "loss_std"):
            if (length := len(getattr(self, name))) not in (0, len(self.step)):
                raise ValueError(f"has {length} values of {name} for {len(self.step)} steps")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What a report needs of a run's config.json."""

    dataset: str
    model: str
    sampler: str
    policy: str = ""
    seed: int = 0
    steps: float = NAN


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One line of a run's metrics.jsonl."""

    step: float
    loss: float = NAN
    train_f1: float = NAN
    val_f1: float = NAN


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """Mean nodes and edges of a step's blocks, over all layers."""

    nodes: float = NAN
    edges: float = NAN


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """A run's result.json."""

    steps: float = NAN
    best_step: float = NAN
    train_f1: float = NAN
    val_f1: float = NAN
    test_f1: float = NAN
    seconds: float = NAN
    step_ms: dict[str, float] = field(default_factory=dict)
    sampled: Sampled = field(default_factory=Sampled)
    peak_mb: float = NAN


@dataclass(frozen=True, kw_only=True)
class Row:
    """One sampler with one network at one share of the budget, over seeds."""

    dataset: str
    model: str
    sampler: str
    policy: str = ""
    budget_share: float = 1.0
    budgets: list[float] = field(default_factory=list)
    seeds: float = NAN
    train_f1: float = NAN
    val_f1: float = NAN
    val_f1_std: float = NAN
    test_f1: float = NAN
    test_f1_std: float = NAN
    difference: float = NAN
    p_value: float = NAN
    step_ms: dict[str, float] = field(default_factory=dict)
    nodes: float = NAN
    edges: float = NAN
    peak_mb: float = NAN
    seconds: float = NAN
    seconds_to_target: float = NAN
    reached: float = NAN
    curve: Curve = field(default_factory=Curve)


@dataclass(frozen=True, kw_only=True)
class ComparisonFile:
    """A comparison's compare.json."""

    dataset: str
    rows: list[Row]
    command: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    date: str = ""
    seeds: list[int] = field(default_factory=list)
    target_f1: float = NAN


@dataclass(frozen=True, kw_only=True)
class Score:
    """One published F1 beside ours."""

    preset: str
    dataset: str
    model: str
    sampler: str
    split: str = "test"
    ours: float = NAN
    ours_std: float = NAN
    published: float = NAN
    published_std: float = NAN
    difference: float = NAN
    seeds: float = NAN


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Published seconds of an iteration beside ours."""

    preset: str
    dataset: str
    model: str
    sampler: str
    ours: float = NAN
    ours_std: float = NAN
    published: float = NAN
    published_std: float = NAN
    ratio: float = NAN


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How a quantity grows: y ~ x ** exponent, fitted to `points` (x, y)."""

    quantity: str
    sampler: str
    grows_with: str
    exponent: float = NAN
    stated: float | str = NAN
    points: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if any(len(point) != 2 for point in self.points):
            raise ValueError("has points that are not pairs of numbers")


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The tables of a reproduction; any may be absent."""

    f1: list[Score] = field(default_factory=list)
    time: list[Pace] = field(default_factory=list)
    variance: list[Growth] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class PresetCurve(Curve):
    """A curve of a reproduction."""

    preset: str
    dataset: str
    model: str
    sampler: str


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A data set that was not there, and what to do about it."""

    dataset: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class ReproductionFile:
    """A reproduction's reproduce.json."""

    tables: Tables = field(default_factory=Tables)
    figures: list[PresetCurve] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    presets: list[str] = field(default_factory=list)
    command: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    date: str = ""
    seconds: float = NAN


@dataclass(frozen=True, kw_only=True)
class PolicyVariance:
    """V of a policy as ratios: over PLADIES' and over the limit, absolute and relative error."""

    over_pladies: float = NAN
    over_limit: float = NAN
    relative_over_pladies: float = NAN
    relative_over_limit: float = NAN


@dataclass(frozen=True, kw_only=True)
class LayerVariance:
    """One layer's ratios, over all steps measured."""

    budget: float = NAN
    limit_over_pladies: float = NAN
    relative_limit_over_pladies: float = NAN
    policies: dict[str, PolicyVariance] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LayerMoment:
    """One layer's V at one step."""

    pladies: float = NAN
    limit: float = NAN
    policies: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Moment:
    """V of every layer at one step, input layer first."""

    step: float
    layers: list[LayerMoment]


@dataclass(frozen=True, kw_only=True)
class VarianceFile:
    """A variance.json; layers are listed input first."""

    dataset: str
    model: str
    layers: list[LayerVariance]
    history: list[Moment] = field(default_factory=list)
    budgets: list[float] = field(default_factory=list)
    batch_size: float = NAN
    steps: float = NAN
    seed: int = 0

    def __post_init__(self) -> None:
        for moment in self.history:
            if len(moment.layers) != len(self.layers):
                raise ValueError(
                    f"has {len(moment.layers)} layers in the history of step {moment.step:g}, but "
                    f"{len(self.layers)} elsewhere"
                )


def decode(kind: Any, value: Any, where: str) -> Any:
    """Turn a JSON value into `kind`; a ValueError says where and what is off."""
    if is_dataclass(kind):
        return _record(kind, _typed(dict, "an object", value, where), where)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is list:
        values = [] if value is None else _typed(list, "a list", value, where)
        return [decode(inner[0], item, f"{where}[{n}]") for n, item in enumerate(values)]
    if origin is dict:
        items = {} if value is None else _typed(dict, "an object", value, where)
        return {_printable(k): decode(inner[1], v, f"{where}.{k}") for k, v in items.items()}
    if origin in (Union, types.UnionType):  # number or text
        return decode(str if isinstance(value, str) else float, value, where)
    if kind is float:
        return _number(value, where)
    if kind is int:
        return _typed(int, "a whole number", value, where)
    if kind is str:
        return _printable("" if value is None else _typed(str, "text", value, where))
    return value


def _record(kind: Any, values: dict[str, Any], where: str) -> Any:
    hints = get_type_hints(kind)
    known = {f.name: hints[f.name] for f in fields(kind)}
    given = {k: decode(known[k], v, f"{where}.{k}") for k, v in values.items() if k in known}
    try:
        return kind(**given)
    except TypeError:
        missing = [f.name for f in fields(kind) if f.name not in given and _is_needed(f)]
        raise ValueError(f"{where} lacks {', '.join(missing)}") from None
    except ValueError as error:
        raise ValueError(f"{where} {error}") from None


def _is_needed(entry: Any) -> bool:
    return entry.default is entry.default_factory  # both are dataclasses.MISSING


def _number(value: Any, where: str) -> float:
    if value is None:
        return NAN
    try:
        return float(_typed((int, float), "a number", value, where))
    except OverflowError:
        return math.inf


def _typed(kind: Any, name: str, value: Any, where: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{where} is {_short(value)}, not {name}")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"


def _printable(text: str) -> str:
    """Text that HTML and SVG can hold: control characters and lone surrogates are replaced."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)
