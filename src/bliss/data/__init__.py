"""The only reader of disk and network: names, files and folders become graphs."""

from bliss.data.catalog import canonical, data_root, dataset_names, load_dataset, missing_files
from bliss.data.dataset import Dataset, describe, fingerprint
from bliss.data.own import import_graph, open_store

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
    "open_store",
]
