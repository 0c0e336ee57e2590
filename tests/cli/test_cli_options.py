"""The options of commands are the fields of the config dataclasses, with their docstrings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, fields

import pytest
import typer
from typer.testing import CliRunner

from bliss.cli import app, options
from bliss.nn.model_config import ModelConfig
from bliss.policies.configs import POLICIES, PolicyConfig
from bliss.samplers import SAMPLERS, SamplerConfig
from bliss.train import LoopConfig, TrainConfig
from bliss.train.config import PARTS, PLACES

pytestmark = pytest.mark.slow

OWN_POLICIES = [
    (name, policy)
    for name, config in SAMPLERS.items()
    for policy in config.policies.values()
    if policy.name not in POLICIES
]
OWNERS = [*SAMPLERS.items(), *OWN_POLICIES, *POLICIES.items()]
OF_SAMPLERS = [
    (name, type(config), one.name)
    for name, config in OWNERS
    for one in fields(config)
    if one.name in config.options()
]


def all_subclasses(kind: type) -> list[type]:
    return [kind, *(one for sub in kind.__subclasses__() for one in all_subclasses(sub))]


CONFIGS = [
    one
    for kind in (TrainConfig, *PARTS.values(), SamplerConfig, PolicyConfig)
    for one in all_subclasses(kind)
    if one.__module__.startswith("bliss.")
]


@pytest.fixture(scope="module")
def parameters() -> dict[str, str]:
    """Help of `bliss train` by option, --no-replace included."""
    command = typer.main.get_command(app).commands["train"]
    return {
        flag: " ".join((one.help or "").split())
        for one in command.params
        for flag in (*one.opts, *one.secondary_opts)
    }


@pytest.fixture(scope="module")
def panels() -> dict[str, str | None]:
    """Panel of each option of `bliss train`."""
    command = typer.main.get_command(app).commands["train"]
    return {flag: one.rich_help_panel for one in command.params for flag in one.opts}


@pytest.fixture(scope="module")
def shown() -> str:
    """`bliss train --help-all` on a terminal wide enough to wrap nothing."""
    return helped("train", "--help-all")


def helped(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "bliss", *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"TERMINAL_WIDTH": "500", "COLUMNS": "500", "NO_COLOR": "1"},
    )
    return done.stdout


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def docs(kind: type, name: str) -> str:
    return " ".join(options.field_docs(kind)[name].split())


def test_every_field_has_a_docstring():
    every = [(kind, one.name) for kind in CONFIGS for one in fields(kind)]
    assert [f"{kind.__name__}.{name}" for kind, name in every if not docs(kind, name)] == []


def test_a_field_without_a_docstring_is_noticed():
    @dataclass(frozen=True, kw_only=True)
    class Forgetful(ModelConfig):
        forgotten: int = 0

    with pytest.raises(KeyError, match="forgotten"):
        options.declared(Forgetful)


def test_every_setting_is_an_option_with_its_docstring(parameters, shown):
    for name, (part, field) in PLACES.items():
        assert docs(PARTS[part], field) in parameters[flag(name)]
        assert docs(PARTS[part], field) in shown
        assert f" {flag(name)} " in shown


def test_every_field_of_a_part_is_an_option():
    held = {(part, one.name) for part, kind in PARTS.items() for one in fields(kind)}
    assert held - set(PLACES.values()) == {("sampler", "config")}  # its entries are options
    assert list(PARTS) == [one.name for one in fields(TrainConfig)]


def test_every_option_of_a_sampler_or_policy_is_an_option(parameters, panels, shown):
    for owner, kind, name in OF_SAMPLERS:
        text, panel = parameters[flag(name)], panels[flag(name)]
        owners = {one for one, config in OWNERS if type(config) is kind}  # labor, labor-0, ...
        is_shared = panel == options.PANELS["sampler"]
        listed = text.rpartition("Option of ")[2].rstrip(".") if is_shared else panel
        named = listed.removeprefix("Options of ").split(", ")
        assert is_shared == ("Option of" in text)
        assert owners & set(named), f"{flag(name)} does not name {owner}"
        kinds = [type(one) for _, one in OWNERS if name in options.field_docs(type(one))]
        assert any(text.startswith(docs(one, name)) for one in kinds), flag(name)  # of the first
        assert text in shown


def test_flags_have_a_negative(parameters):
    assert {"--replace", "--no-replace", "--shared", "--no-shared", "--no-bias"} <= set(parameters)


def test_help_shows_the_defaults_and_no_recipe_where_none_is_in_force(shown):
    assert "from the recipe" not in shown
    assert f"[default: ({LoopConfig.lr})]" in line_of(shown, "--lr")
    assert f"[default: ({LoopConfig.batch_size})]" in line_of(shown, "--batch-size")
    assert "[default: (depends on the graph)]" in line_of(shown, "--budgets")
    assert "[default: (node)]" in line_of(shown, "--policy")


def test_help_shows_the_values_of_the_recipe_in_force():
    given = ["train", "--dataset", "Cora", "--model=gatv2", "--sampler", "neighbor"]
    assert "Default: 32, from the recipe." in line_of(helped(*given, "--help"), "--batch-size")
    text = helped(*given, "--help-all")
    assert "[default: (32, from the recipe)]" in line_of(text, "--batch-size")
    assert "[default: (0.7, from the recipe)]" in line_of(text, "--dropout")
    assert "[default: (256, from the recipe)]" in line_of(text, "--hidden")
    assert "[default: (0)]" in line_of(text, "--seed")
    assert "[default: (uniform)]" in line_of(text, "--policy")


@pytest.mark.parametrize("command", ["train", "compare", "advise", "variance"])
def test_help_fits_on_a_screen_and_help_all_has_the_rest(command):
    short, full = (
        CliRunner().invoke(app, [command, flag], env={"COLUMNS": str(width)}).output
        for flag, width in (("--help", 80), ("--help-all", 300))
    )
    lines = [line for line in short.splitlines() if line.strip()]
    assert len(lines) <= 36
    assert all(f" {name} " in short for name in ("--dataset", "--hidden", "--steps", "--help-all"))
    assert "Encoding of features: auto, raw, row," in short
    assert " --weight-decay " not in short
    assert " --weight-decay " in full
    for name in re.findall(r" (--[a-z-]+) ", short):
        assert f" {name} " in full


def test_the_short_help_leaves_the_command_as_it_was():
    first, short, second = (bliss("train", flag).output for flag in HELP)
    assert first == second
    assert len(short.splitlines()) < len(first.splitlines()) / 3


HELP = ("--help-all", "--help", "--help-all")


def line_of(text: str, option: str) -> str:
    (found,) = [line for line in text.splitlines() if f" {option} " in line]
    return found


def bliss(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--sampler", "neighbor", "--replace"], {"replace": True}),
        (["--sampler", "ladies", "--replace"], {"replace": True}),
        (["--sampler", "labor", "--iterations", "2"], {"iterations": 2}),
        (["--sampler", "labor", "--iterations", "converged"], {"iterations": "converged"}),
        (["--policy", "exp3", "--eta", "0.2"], {"policy": "exp3", "eta": 0.2, "delta": None}),
        (["--policy", "exp3", "--delta", "1e-3"], {"delta": 0.001}),
        (["--sampler", "cluster", "--parts", "12"], {"parts": 12}),
        (["--sampler", "gcn-bs", "--policy", "exp3-single", "--restart", "5"], {"restart": 5}),
    ],
)  # fmt: skip
def test_options_of_samplers_reach_the_settings_of_the_run(tmp_path, arguments, expected):
    out = tmp_path / "run"
    result = bliss("train", *arguments, "--steps", "1", "--hidden", "8", "--out", out)
    assert result.exit_code == 0, result.output
    found = json.loads((out / "config.json").read_text())["sampler"]["config"]
    assert expected.items() <= found.items()
