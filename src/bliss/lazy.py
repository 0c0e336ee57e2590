"""Names of a package that are imported when they are first used (PEP 562).

torch, numba and PyG take seconds to import; `bliss --help` needs none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """A module `__getattr__` that imports each name of `modules` from its module.

    Parameters
    ----------
    package
        The package's ``__name__``.
    modules
        Name -> the module that defines it.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return get
