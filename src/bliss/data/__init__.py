"""Names, files and folders become graphs. Only this package reads data from disk and network.

Listing the datasets imports neither torch nor any other heavy package: names other than those of
`bliss.data.catalog` are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bliss.data.catalog import canonical, data_root, dataset_names, load_dataset, missing_files
from bliss.lazy import lazy_names

if TYPE_CHECKING:
    from bliss.data.dataset import Dataset, describe, fingerprint
    from bliss.data.importing import import_graph
    from bliss.data.store import open_graph, open_store, save_graph

_MODULES = {
    "dataset": ("Dataset", "describe", "fingerprint"),
    "importing": ("import_graph",),
    "store": ("open_graph", "open_store", "save_graph"),
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

__getattr__ = lazy_names(
    __name__, {name: f"bliss.data.{file}" for file, names in _MODULES.items() for name in names}
)
