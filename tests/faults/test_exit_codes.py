"""Every error of bliss ends every command with its code and one sentence."""

from __future__ import annotations

import errno
import os
import signal

import pytest
import typer.main
from typer.testing import CliRunner

from bliss import errors
from bliss.cli import app

CODES = {
    "InputError": 2,
    "DivergedError": 2,
    "DamagedError": 3,
    "TruncatedError": 3,
    "ResourceError": 4,
    "LostError": 4,
}
COMMANDS = {
    "train": (["--out", "OUT"], "bliss.train.resolve"),
    "evaluate": (["OUT"], "bliss.train.open_task"),
    "predict": (["OUT", "--out", "OUT.csv"], "bliss.train.open_task"),
    "advise": ([], "bliss.train.resolve"),
    "compare": (["--out", "OUT"], "bliss.studies.compare"),
    "variance": ([], "bliss.train.resolve"),
    "demo": (["--out", "OUT"], "bliss.studies.demonstration.demonstrate"),
    "report": (["OUT", "--out", "OUT.html"], "bliss.report.write_report"),
    "data list": ([], "bliss.data.dataset_names"),
    "data info": (["cora"], "bliss.data.load_dataset"),
    "data verify": (["cora"], "bliss.data.verify_dataset"),
    "data import": (["OUT", "--edges", "edges.npy"], "bliss.data.import_graph"),
}
"""Arguments of each command, and a function that it calls."""


def ended(command: str, error: BaseException, tmp_path, monkeypatch) -> tuple[int, str]:
    """Exit code and error output of a command in which a function raises an error."""

    def fail(*_, **__):
        raise error

    arguments, function = COMMANDS[command]
    monkeypatch.setattr(function, fail)
    (tmp_path / "out").mkdir(exist_ok=True)
    words = [word.replace("OUT", str(tmp_path / "out")) for word in arguments]
    result = CliRunner().invoke(app, [*command.split(), *words])
    return result.exit_code, result.stderr


def test_every_error_and_every_command_is_here():
    public = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert public == {*CODES, "Interrupted"}, "give the new error an exit code here"
    top = typer.main.get_command(app)
    names = {
        f"{name} {inner}" if inner else name
        for name, one in top.commands.items()
        for inner in getattr(one, "commands", [""])
    }
    assert names == set(COMMANDS), "say here what the new command calls"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", CODES)
def test_every_error_ends_every_command_with_its_code_and_one_sentence(
    name, command, tmp_path, monkeypatch
):
    kind = getattr(errors, name)
    for raised in (kind, type("Special", (kind,), {})):
        error = raised("x=1 is too small: pass 2.")
        code, said = ended(command, error, tmp_path, monkeypatch)
        assert code == CODES[name]
        assert said.startswith("Error: x=1 is too small: pass 2.")
        assert said.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_every_command_with_its_code(number, command, tmp_path, monkeypatch):
    code, said = ended(command, errors.Interrupted(number), tmp_path, monkeypatch)
    assert code == 128 + number
    assert said.startswith("Interrupted; progress is saved. ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_a_disk_that_fails_under_a_library_is_no_fault_of_bliss(number, tmp_path, monkeypatch):
    """Numba, for instance, writes compiled kernels, and its error names no file."""
    code, said = ended("train", OSError(number, os.strerror(number)), tmp_path, monkeypatch)
    assert code == 4
    assert said.startswith("Error: a file, such as a compiled kernel in NUMBA_CACHE_DIR, cannot")
    assert said.count("\n") == 1


def test_any_other_error_is_a_fault_of_bliss(tmp_path, monkeypatch):
    code, said = ended("train", KeyError("name"), tmp_path, monkeypatch)
    assert code == 1
    assert "this is a bug in bliss" in said
