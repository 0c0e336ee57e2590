"""Places in the source that create or write files, found by a search of its syntax trees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import bliss

SOURCE = Path(bliss.__file__).parent

OF_PYTHON = {
    *("mkdir", "makedirs", "mkdtemp", "mkstemp", "TemporaryDirectory", "TemporaryFile"),
    *("NamedTemporaryFile", "write_text", "write_bytes", "pwrite", "writev", "truncate"),
    *("posix_fallocate", "memfd_create", "copyfileobj", "copyfile", "copy2", "copytree"),
    *("symlink", "symlink_to", "hardlink_to", "touch", "tofile", "open_memmap", "save_file"),
    *("savez", "savez_compressed", "savetxt", "savefig", "to_csv", "to_parquet", "write_table"),
    *("ParquetWriter", "SummaryWriter", "HTTPDownloader", "extractall"),
}
"""Names of functions and methods of Python and of other libraries that write files."""
OF_BLISS = {
    *("new_map", "new_npy", "replacing", "replace_file", "new_folder", "scratch_folder"),
    *("make_folder", "write_npy", "write_npy_rows", "GrowingNpy", "write_header", "write_sealed"),
    *("save_dataset", "copy_run", "publish"),
}
"""Names of functions of bliss that write files."""
IN_FULL = {"np.save", "torch.save", "json.dump", "pickle.dump", "records.write"}
"""Functions whose name alone says too little."""


def places() -> dict[str, set[str]]:
    """Functions that write, as "samplers/history.py:History._allocate", with what they call."""
    found: dict[str, set[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for owner, call in _calls(tree, ""):
            if name := _writer(call):
                place = f"{file.relative_to(SOURCE).as_posix()}:{owner or 'module'}"
                found.setdefault(place, set()).add(name)
    return found


def _calls(node: ast.AST, owner: str) -> Iterator[tuple[str, ast.Call]]:
    """All calls below a node, each with the name of the outermost function or method around it."""
    for child in ast.iter_child_nodes(node):
        inner = owner
        if isinstance(child, ast.ClassDef) or (
            isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            and (not owner or isinstance(node, ast.ClassDef))
        ):
            inner = f"{owner}.{child.name}" if owner else child.name
        if isinstance(child, ast.Call):
            yield owner, child
        yield from _calls(child, inner)


def _writer(call: ast.Call) -> str:
    """Name of the called function if it may write; otherwise empty."""
    full = ast.unparse(call.func)
    name = full.rpartition(".")[2]
    if full == "os.open":
        return "" if ast.unparse(call.args[1]) == "os.O_RDONLY" else name
    if name in ("open", "ZipFile"):
        return name if set(_mode(call, "r")) & set("wax+") else ""
    if name == "memmap":
        return "" if _mode(call, "r+") in ("r", "c") else name
    return name if name in OF_PYTHON | OF_BLISS or full in IN_FULL else ""


def _mode(call: ast.Call, default: str) -> str:
    """The mode of a file: the first argument that looks like one."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    texts = [one.value for one in given if isinstance(one, ast.Constant)]
    return next((text for text in texts if re.fullmatch("[rwaxc][bt+]*", str(text))), default)
