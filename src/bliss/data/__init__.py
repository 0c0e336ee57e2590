"""Names, files and folders become graphs. Only this package reads data from disk and network.

Listing the datasets imports neither torch nor any other heavy package: names other than those of
`bliss.data.catalog` are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bliss.data.catalog import canonical, data_root, dataset_names, load_dataset, missing_files

if TYPE_CHECKING:
    from bliss.data.dataset import Dataset, describe, fingerprint
    from bliss.data.importing import import_graph
    from bliss.data.store import open_graph, open_store, save_graph

_LAZY = {
    "Dataset": "dataset",
    "describe": "dataset",
    "fingerprint": "dataset",
    "import_graph": "importing",
    "open_graph": "store",
    "open_store": "store",
    "save_graph": "store",
}

__all__ = [
    "Dataset",
    "canonical",
    "data_root",
    "dataset_names",
    "describe",
    "fingerprint",
    "import_graph",
    "load_dataset",
    "missing_files",
    "open_graph",
    "open_store",
    "save_graph",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
