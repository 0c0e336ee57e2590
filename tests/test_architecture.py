"""The tree is the architecture: each folder imports only what the map allows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "bliss"

ALLOWED = {
    "errors.py": set(),
    "checks.py": {"errors"},
    "files.py": {"errors"},
    "records.py": {"errors", "files"},
    "arrays.py": set(),
    "rng.py": {"arrays", "kernels"},
    "kernels": {"arrays", "kernels"},
    "types.py": {"arrays", "errors"},
    "graph.py": {"arrays", "checks", "errors", "kernels", "types"},
    "data": {"arrays", "checks", "data", "errors", "files", "graph", "rng"},
    "policies": {"arrays", "checks", "errors", "graph", "kernels", "policies", "types"},
    "samplers": {
        "arrays",
        "checks",
        "errors",
        "graph",
        "kernels",
        "policies",
        "rng",
        "samplers",
        "types",
    },
    "loader.py": {"arrays", "checks", "errors", "rng", "samplers", "types"},
    "nn": {"arrays", "checks", "errors", "graph", "kernels", "nn", "samplers", "types"},
    "train": {
        "arrays",
        "checks",
        "data",
        "errors",
        "files",
        "graph",
        "loader",
        "nn",
        "policies",
        "records",
        "rng",
        "samplers",
        "train",
        "types",
    },
    "studies": {
        "arrays",
        "checks",
        "data",
        "errors",
        "graph",
        "kernels",
        "nn",
        "policies",
        "records",
        "rng",
        "samplers",
        "studies",
        "train",
        "types",
    },
    "report": {"errors", "files", "records", "report", "studies", "train"},
    "cli": {
        "records",
        "checks",
        "cli",
        "data",
        "errors",
        "files",
        "nn",
        "policies",
        "report",
        "samplers",
        "studies",
        "train",
    },
    "__main__.py": {"cli"},
    "demo.py": {"data", "graph", "samplers", "studies", "train"},
}


def files(part: str) -> list[Path]:
    path = SOURCE / part
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("part", ALLOWED)
def test_each_part_imports_only_what_the_map_allows(part):
    own = {name for path in files(part) for name in imports(path) if name.startswith("bliss.")}
    assert {name.split(".")[1] for name in own} <= ALLOWED[part]


def test_every_part_is_on_the_map():
    parts = {path.name for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert parts - {"__init__.py", "__pycache__"} == set(ALLOWED)


@pytest.mark.parametrize("part", ["kernels", "policies", "report", "rng.py"])
def test_kernels_policies_and_reports_know_no_torch(part):
    modules = {name.split(".")[0] for path in files(part) for name in imports(path)}
    assert not modules & {"torch", "torch_geometric"}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.name)
def test_files_stay_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500
