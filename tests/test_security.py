"""The statements of docs/security.md and SECURITY.md, one by one."""

from __future__ import annotations

import ast
import base64
import hashlib
import os
import re
import socket
import stat
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bliss.cli import app
from bliss.data import load_dataset
from bliss.errors import InputError
from bliss.report import write_report
from bliss.storage.files import new_folder, replacing
from tests.report import factory
from tests.test_packaging import name_of, project

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
CODE = [
    path
    for folder in ("src", "benchmarks", "docs", "examples", "experiments")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
UNPICKLER = ROOT / "src" / "bliss" / "data" / "unpickle.py"

# Modules that run what a file or a string says, and functions that do so.
MODULES = {"cloudpickle", "code", "dill", "joblib", "jsonpickle", "marshal", "pickle", "shelve"}
BUILTINS = {"eval", "exec", "compile", "__import__"}
FUNCTIONS = {"os.system", "os.popen", "pandas.read_pickle", "yaml.load", "yaml.unsafe_load"}


def dangers(source: str) -> list[str]:
    """What a program calls or imports that could run code from a file."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module] if (node.module or "").split(".")[0] in MODULES else []
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found += sorted(names & (FUNCTIONS | {"torch.load", "numpy.load"}))
        elif isinstance(node, ast.Call):
            found += dangers_of_call(node)
    return found


def dangers_of_call(node: ast.Call) -> list[str]:
    called = ast.unparse(node.func)
    options = {one.arg: ast.unparse(one.value) for one in node.keywords}
    found = [called] if called in BUILTINS | FUNCTIONS else []
    if called == "torch.load" and options.get("weights_only") != "True":
        found.append("torch.load")
    if options.get("allow_pickle", "False") != "False":
        found.append("allow_pickle")
    if options.get("weights_only", "True") != "True":
        found.append("weights_only")
    if options.get("shell", "False") != "False":
        found.append("shell")
    return found


def test_no_program_of_the_project_can_run_code_from_a_file():
    found = {path: dangers(path.read_text(encoding="utf-8")) for path in CODE}
    assert {path: names for path, names in found.items() if names} == {UNPICKLER: ["pickle"]}


def test_the_only_use_of_pickle_is_a_reader_that_refuses_names():
    tree = ast.parse(UNPICKLER.read_text(encoding="utf-8"))
    used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    used = {name for name in used if name.startswith("pickle.")}
    assert used == {"pickle.Unpickler", "pickle.UnpicklingError"}


MUTANTS = {
    "import pickle": "pickle",
    "from pickle import load": "pickle",
    "import joblib.parallel": "joblib.parallel",
    "eval(text)": "eval",
    "exec(text)": "exec",
    "torch.load(file)": "torch.load",
    "torch.load(file, weights_only=False)": "torch.load",
    "from torch import load": "torch.load",
    "np.load(file, allow_pickle=True)": "allow_pickle",
    "np.load(file, allow_pickle=flag)": "allow_pickle",
    "lightning.load(file, weights_only=False)": "weights_only",
    "yaml.load(file)": "yaml.load",
    "subprocess.run(text, shell=True)": "shell",
    "os.system(text)": "os.system",
}


@pytest.mark.parametrize("program", MUTANTS)
def test_such_a_program_would_be_noticed(program):
    assert MUTANTS[program] in dangers(program)
    assert dangers("model.eval(); ast.literal_eval(x); re.compile(x); np.load(file)") == []


watched: list[str] | None = None  # events while a test watches
NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.gethostby", "socket.send")
PROGRAMS = ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork")


def watch(event: str, _arguments: object) -> None:
    """Record and refuse whatever reaches for the network or another program."""
    if watched is not None and event.startswith(NETWORK + PROGRAMS):
        watched.append(event)
        raise PermissionError(event)


sys.addaudithook(watch)  # it cannot be removed, and does nothing unless a test watches


@pytest.fixture
def watching():
    global watched
    watched = []
    yield watched
    watched = None


def bliss(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def write_own(folder: Path) -> None:
    """The files of a person's own graph: two groups."""
    random = np.random.default_rng(0)
    group = random.integers(0, 2, 60)
    np.save(folder / "edges.npy", random.integers(0, 60, (2, 400)))
    np.save(folder / "x.npy", (group[:, None] + random.normal(0, 1, (60, 3))).astype("f4"))
    np.save(folder / "y.npy", group)


def work(folder: Path) -> None:
    """Every command from files to a report."""
    files = ("--edges", folder / "edges.npy", "--features", folder / "x.npy")
    bliss("data", "import", folder / "store", *files, "--labels", folder / "y.npy")
    bliss("data", "info", folder / "store")
    small = ("--steps", 2, "--hidden", 4, "--layers", 2, "--budgets", "20,10")
    bliss("train", "--dataset", folder / "store", "--out", folder / "run", *small)
    bliss("evaluate", folder / "run")
    bliss("predict", folder / "run", "--out", folder / "out" / "predictions.csv")
    bliss("report", folder / "run", "--out", folder / "out" / "report.html")


def test_no_command_on_ones_own_files_reaches_for_the_network_or_a_program(tmp_path, watching):
    write_own(tmp_path)
    work(tmp_path)
    assert (tmp_path / "out" / "report.html").exists()
    assert watching == []
    with pytest.raises(PermissionError, match=r"socket\."):  # it would be noticed
        socket.create_connection(("127.0.0.1", 9))


def test_only_a_name_whose_files_are_missing_asks_the_network(tmp_path, watching):
    load_dataset("synthetic")
    for name in ("no-such-name", str(tmp_path)):
        with pytest.raises(InputError):
            load_dataset(name, tmp_path)
    assert watching == []
    with pytest.raises(InputError, match=r"photo needs .* \(the download failed"):
        load_dataset("photo", tmp_path / "root")
    assert watching
    assert not (tmp_path / "root").exists()


@pytest.fixture(params=[0o022, 0o027, 0o077, 0o002], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Permissions of everything under a folder."""
    return {
        path.relative_to(folder).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in folder.rglob("*")
    }


def test_files_and_folders_have_the_permissions_of_the_umask(tmp_path, umask):
    with replacing(tmp_path / "sub" / "file") as scratch:
        assert stat.S_IMODE(scratch.stat().st_mode) == 0o600  # nobody reads half a file
    with new_folder(tmp_path / "store") as scratch:
        assert stat.S_IMODE(scratch.stat().st_mode) == 0o700
        (scratch / "part").write_text("")
    expected = {"sub": 0o777, "sub/file": 0o666, "store": 0o777, "store/part": 0o666}
    assert modes(tmp_path) == {name: mode & ~umask for name, mode in expected.items()}


def test_what_commands_write_is_as_private_as_the_umask_asks(tmp_path):
    write_own(tmp_path)
    before = os.umask(0o077)
    try:
        work(tmp_path)
    finally:
        os.umask(before)
    written = {n: m for n, m in modes(tmp_path).items() if n.startswith(("store", "run", "out"))}
    assert {"store/features.npy", "run/best.safetensors", "run/.lock"} <= set(written)
    assert {"run/metrics.jsonl", "out/predictions.csv", "out/report.html"} <= set(written)
    assert [name for name, mode in written.items() if mode & 0o077] == []


class Scripts(HTMLParser):
    """The scripts of a page, and everything else in it that could run or load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts, self.others, self.is_inside = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.is_inside = tag == "script"
        for name, value in attributes:
            loads = name in ("src", "srcdoc", "action", "data", "formaction")
            link = name.endswith("href") and not (value or "").startswith(("#", "data:,"))
            if name.startswith("on") or loads or link:
                self.others.append((tag, name, value))
        if tag in ("iframe", "object", "embed", "base", "form"):
            self.others.append((tag, "", ""))

    def handle_data(self, data):
        if self.is_inside:
            self.scripts.append(data)
            self.is_inside = False


NASTY = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


def test_a_report_runs_its_own_script_alone_and_shows_text_as_text(tmp_path):
    run = factory.run(tmp_path / "run", dataset=NASTY)
    text = write_report([run], tmp_path / "report.html").read_text(encoding="utf-8")
    found = Scripts(text)
    (script,) = found.scripts
    assert found.others == []
    assert NASTY not in text
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest}'"


def listed(title: str) -> set[str]:
    """Names in the first column of a table of docs/security.md."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    section = text.partition(f"{title}\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| `([^|]*)` \|", section, re.MULTILINE)
    return {name_of(name) for row in rows for name in row.split("`, `")}


EXTRAS = ("tensorboard", "networkx", "metis", "lightning", "ray")  # the tests need these, too


def test_every_dependency_has_a_reason():
    given = project()
    extras = given["optional-dependencies"]
    tools = {name_of(one) for one in (*extras["test"], *extras["docs"])}
    needed = {name_of(one) for one in given["dependencies"]}
    optional = {name_of(one) for name in extras for one in extras[name]} - tools
    optional |= {name_of(one) for name in EXTRAS for one in extras[name]}
    assert listed("### Needed to run") == needed
    assert listed("### Optional") == optional
    assert listed("### Needed to develop") == tools - optional


def test_every_package_that_is_imported_is_a_dependency():
    known = {"torch-geometric", *(name_of(one) for one in project()["dependencies"])}
    known |= {"lightning", "networkx", "pymetis", "ray", "tensorboard"}  # extras
    known |= {"markupsafe", "llvmlite"}  # of jinja2 and numba
    own = [path for path in CODE if (ROOT / "src") in path.parents]
    trees = [ast.walk(ast.parse(path.read_text(encoding="utf-8"))) for path in own]
    found = set()
    for node in (node for tree in trees for node in tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module))
    packages = {name_of(name.split(".")[0]) for name in found}
    standard = {name_of(name) for name in sys.stdlib_module_names}
    assert packages - standard - {"bliss"} <= known
