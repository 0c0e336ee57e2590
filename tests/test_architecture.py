"""The tree is the architecture: parts import only what the map allows, and never in a cycle."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "bliss"

BASE = {"arrays", "checks", "errors", "storage", "text"}
CONTRACTS = {"feedback", "graph", "nn"}
LEARNING = {"kernels", "policies", "rng", "samplers"}

# Parts from the bottom up. A part may import itself, too.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "arrays": set(),
    "checks": {"arrays", "errors"},
    "text": set(),
    "kernels": {"arrays"},
    "rng": {"arrays", "kernels"},
    "storage": {"arrays", "errors", "kernels"},
    "graph": {"arrays", "checks", "errors", "kernels"},
    "feedback": {"arrays", "errors", "graph", "kernels"},
    "policies": {"arrays", "checks", "errors", "feedback", "graph", "kernels", "storage"},
    "nn": {"arrays", "checks", "errors", "feedback", "graph", "kernels", "rng", "storage"},
    "data": BASE | {"graph", "kernels", "rng"},
    "distributed": {"arrays", "data", "errors", "feedback", "storage"},
    "samplers": (BASE - {"text"}) | CONTRACTS | {"distributed", "kernels", "policies", "rng"},
    "links": {"arrays", "checks", "errors", "graph", "kernels", "rng"},
    "loader": BASE - {"text"} | {"graph", "kernels", "links", "nn", "rng", "samplers"},
    "train": BASE | CONTRACTS | LEARNING | {"data", "distributed", "links", "loader"},
    "studies": BASE | CONTRACTS | LEARNING | {"data", "loader", "train"},
    "report": BASE | {"studies", "train"},
    "engines": BASE | {"data", "distributed", "loader", "rng", "samplers", "train"},
    "cli": BASE
    | {"data", "distributed", "engines", "nn"}
    | {"policies", "report", "samplers", "studies", "train"},
    "__main__": {"cli"},
}


def files(part: str) -> list[Path]:
    path = SOURCE / f"{part}.py"
    return [path] if path.is_file() else sorted((SOURCE / part).rglob("*.py"))


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_each_part_imports_only_what_the_map_allows():
    offenders = []
    for part, allowed in ALLOWED.items():
        for path in files(part):
            found = {name.split(".")[1] for name in imports(path) if name.startswith("bliss.")}
            more = found - allowed - {part, "__version__"}
            offenders += [f"{path.relative_to(SOURCE)} imports {name}" for name in sorted(more)]
    assert offenders == []


def test_every_part_is_on_the_map():
    parts = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert parts - {"__init__", "__pycache__"} <= set(ALLOWED)


def test_the_map_has_no_cycle_and_runs_upwards():
    order = list(ALLOWED)
    assert set(TopologicalSorter(ALLOWED).static_order()) == set(order)
    for place, part in enumerate(order):
        assert ALLOWED[part] <= set(order[:place]), part
    with pytest.raises(CycleError):  # what the check would say
        list(TopologicalSorter(ALLOWED | {"graph": {"data"}}).static_order())


def loaded(statements: str, *unwanted: str) -> list[str]:
    """Which of the unwanted modules a new process has loaded after these statements."""
    code = f"import sys\n{statements}\nprint(*(m for m in {unwanted!r} if m in sys.modules))"
    options = {"capture_output": True, "text": True, "check": True}
    return subprocess.run([sys.executable, "-c", code], **options).stdout.split()


def modules(part: str) -> list[str]:
    """Names of all modules of a part."""
    names = [path.relative_to(SOURCE.parent).with_suffix("").parts for path in files(part)]
    return [".".join(name).removesuffix(".__init__") for name in names]


def test_kernels_and_policies_load_no_torch():
    names = [*modules("kernels"), *modules("policies")]
    names += ["bliss.feedback", "bliss.graph", "bliss.rng"]
    assert loaded(f"import {', '.join(names)}", "torch", "torch_geometric") == []
    assert loaded("import json", "torch", "json") == ["json"]  # it would show


CONFIGS = ["bliss.samplers.configs", "bliss.policies.configs", "bliss.nn.model_config"]


def test_settings_load_neither_torch_nor_numba():
    unwanted = "torch", "numba", "torch_geometric", "scipy"
    assert loaded(f"import {', '.join(CONFIGS)}", *unwanted) == []


def test_sections_of_studies_load_no_torch():
    names = [f"bliss.report.{name}_section" for name in ("comparison", "variance")]
    assert loaded(f"import {', '.join(names)}", "torch", "numba", "scipy") == []


def test_reports_import_no_torch():
    names = {name.split(".")[0] for path in files("report") for name in imports(path)}
    assert not names & {"torch", "torch_geometric"}


def test_files_stay_short():
    lines = {path: len(path.read_text("utf-8").splitlines()) for path in SOURCE.rglob("*.py")}
    assert {str(path.relative_to(SOURCE)): n for path, n in lines.items() if n > 500} == {}


def test_one_module_makes_digests():
    """Pages need SHA-256, which browsers know."""
    users = {path.name for path in SOURCE.rglob("*.py") if "hashlib" in imports(path)}
    assert users == {"digests.py", "page.py"}


# one mirrors the other: kernels of a sampler or a sort, and policies beside samplers
MIRRORS = {"base.py", "configs.py", "labor.py", "ladies.py", "nodewise.py", "sorting.py"}


def test_no_file_name_stands_for_two_things():
    names = [path.name for path in SOURCE.rglob("*.py") if not path.name.startswith("__")]
    assert {name for name in names if names.count(name) > 1} == MIRRORS


def test_no_class_name_is_used_twice():
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")]
    names = [node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    assert sorted(names) == sorted(set(names))
