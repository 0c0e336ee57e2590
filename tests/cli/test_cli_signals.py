"""Ctrl-C and SIGTERM at any moment: an exit code and no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

import pytest

pytestmark = pytest.mark.slow

SMALL = ["--steps", "20", "--hidden", "8", "--evaluate-every", "10"]
# Python ends by the signal itself where Ctrl-C came inside `exec` of a string; shells show 130.
BY_CTRL_C = (130, -signal.SIGINT)


def program(code: str, *arguments: object) -> list[str]:
    head = "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    text = head + textwrap.dedent(code)
    return [sys.executable, "-W", "ignore", "-c", text, *map(str, arguments)]


EVALUATIONS = """
    import gc
    import os
    import torch
    from typer.testing import CliRunner
    from bliss.__main__ import main
    from bliss.cli import app
    from bliss.train import loop

    def run(out, numbers):
        def evaluate(*arguments):
            for number in numbers:
                signal.raise_signal(number)
            progress = arguments[-1]
            progress(0.5)
            raise AssertionError("the run did not stop")

        loop.evaluate = loop.evaluate_and_survey = evaluate
        for stream, ending in ((1, ".out"), (2, ".err")):
            os.dup2(os.open(out + ending, os.O_WRONLY | os.O_CREAT), stream)
        sys.argv = ["bliss", "train", "--out", out, *SMALL]
        main()

    torch.set_num_threads(1)  # forks have no other threads
    CliRunner().invoke(app, ["train", "--out", FIRST, "--steps", "1", "--hidden", "8"])
    gc.freeze()
    for out, numbers in RUNS.items():
        if os.fork() == 0:
            run(out, numbers)
        print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
SAVED = "Interrupted; progress is saved. Run the same command with --resume to continue."
INT, TERM = int(signal.SIGINT), int(signal.SIGTERM)
ENDS = {  # by signals: the exit code and what is shown
    (INT,): (130, SAVED),
    (TERM,): (143, SAVED),
    (INT, INT): (130, "Interrupted."),
    (INT, TERM): (-TERM, ""),
}


def test_one_signal_saves_and_a_second_one_stops_at_once(tmp_path):
    """Each run is a fork of a process that has trained before, so that imports are made once."""
    folders = {numbers: tmp_path / "-".join(map(str, numbers)) for numbers in ENDS}
    runs = {str(folder): numbers for numbers, folder in folders.items()}
    names = {"RUNS": runs, "SMALL": SMALL, "FIRST": str(tmp_path / "first")}
    code = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    code += textwrap.dedent(EVALUATIONS)
    done = subprocess.run(program(code), capture_output=True, text=True, check=True)
    codes = map(int, done.stdout.split())
    for code, (numbers, expected) in zip(codes, ENDS.items(), strict=True):
        told = folders[numbers].with_suffix(".err").read_text().strip()
        assert (code, told) == expected, numbers
        saved = (folders[numbers] / "checkpoints" / "000000010.json").exists()
        assert saved == (expected[1] == SAVED), numbers


IMPORTING = """
    from importlib.abc import MetaPathFinder

    class Before(MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name == "MODULE":
                sys.meta_path.remove(self)
                ACTION

    sys.meta_path.insert(0, Before())
    from bliss.__main__ import main
    main()
"""


def importing(module: str, action: str) -> str:
    """A program that does something before it imports a module, then runs the command line."""
    return IMPORTING.replace("MODULE", module).replace("ACTION", action)


@pytest.mark.parametrize(
    "module", ["bliss.cli", "typer", "bliss.samplers.configs", "bliss.train.loop", "torch", "numba"]
)
def test_ctrl_c_while_a_module_is_imported_shows_no_traceback(tmp_path, module):
    code = importing(module, "signal.raise_signal(signal.SIGINT)")
    command = program(code, "train", "--out", tmp_path / "run", *SMALL)
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in BY_CTRL_C, done.stderr
    is_in_command = module in ("bliss.train.loop", "torch", "numba")
    assert done.stderr == ("Interrupted.\n" if is_in_command else "")


def test_ctrl_c_inside_the_body_of_an_imported_class_shows_no_traceback(tmp_path):
    body = "class Odd:\n        __set_name__ = lambda *_: signal.raise_signal(signal.SIGINT)"
    for module in ("bliss.cli.options", "bliss.train.loop"):
        code = importing(module, "type('Owner', (), {'odd': Odd()})").replace(
            "    class Before", f"    {body}\n\n    class Before"
        )
        command = program(code, "train", "--out", tmp_path / "run", *SMALL)
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode in BY_CTRL_C, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("delay", [0, 0.05, 0.2, 0.5, 2.0])
def test_ctrl_c_at_an_early_moment_shows_no_traceback(tmp_path, delay):
    # The outcome is the same at every moment, so the speed of the machine does not matter. Before
    # its first import of bliss.cli the program is still in Python's own start.
    code = importing("bliss.cli", "print('ready', flush=True)")
    command = program(code, "train", "--out", tmp_path / "run", "--steps", "1000000")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
    assert "Traceback" not in told
    if "pybind11::error_already_set" in told:  # torch's own start cannot be interrupted
        assert process.returncode == -signal.SIGABRT
    else:
        assert process.returncode in BY_CTRL_C, told
