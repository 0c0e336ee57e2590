"""What is damaged: files that a reader takes, and how to read them into a digest."""

from __future__ import annotations

import collections
import json
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import scipy.sparse
import torch

from bliss.data import Dataset, import_graph, load_dataset
from bliss.data.unpickle import read_planetoid_pickle
from bliss.storage.digests import new_digest
from tests.data.files import HOT, SOURCE, TARGET, WEIGHT, X, Y, csv
from tests.data.test_foreign import make_data, ogb, people
from tests.fuzz.mutations import mutate


def leave(folder: Path) -> None:
    """Bring no digest up to date."""


@dataclass(frozen=True)
class Subject:
    """Files, and how they are read."""

    make: Callable[[Path], None]
    """Write sound files into a folder."""
    read: Callable[[Path], str]
    """Read the folder; gives a digest of the result."""
    files: str = "*"
    """Pattern of the files to change."""
    is_digested: bool = False
    """Whether digests protect the result: no change may pass."""
    mend: Callable[[Path], None] = leave
    """Called after a change; a forger brings digests up to date."""
    change: Callable[[str, bytes, np.random.Generator], bytes] = mutate
    """Change the content of a file of this name."""


def digest_of(*values: Any) -> str:
    """Digest of arrays, tensors and plain values."""
    digest = new_digest()
    for value in values:
        if isinstance(value, torch.Tensor):
            value = value.numpy()
        if isinstance(value, np.ndarray):
            digest.update(f"{value.dtype} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        else:
            digest.update(repr(value).encode("utf-8", "surrogatepass"))
    return str(digest.hexdigest())


def dataset_digest(dataset: Dataset) -> str:
    """Digest of all that a network is trained on."""
    graph = dataset.graph
    weight = graph.weight if graph.norm == "weights" else None
    names = None if dataset.node_names is None else dataset.node_names.tolist()
    splits = [dataset.splits[name] for name in ("train", "val", "test")]
    arrays = (graph.indptr, graph.indices, weight, dataset.x, dataset.y, *splits)
    return digest_of(*arrays, graph.norm, dataset.num_classes, dataset.class_names, names)


def importing(files: dict[str, Any], **options: Any) -> Subject:
    """Files for `import_graph`, by argument: a name and what writes it."""

    def make(folder: Path) -> None:
        for name, write in files.values():
            write(folder / name)

    def read(folder: Path) -> str:
        store = folder / "store"
        shutil.rmtree(store, ignore_errors=True)
        paths = {field: folder / name for field, (name, _) in files.items()}
        return dataset_digest(load_dataset(import_graph(store, **paths, **options)))

    return Subject(make, read, options.pop("files", "*"))


def save(array: Any) -> Callable[[Path], None]:
    return lambda file: np.save(file, array)


def text(content: str) -> Callable[[Path], None]:
    return lambda file: file.write_text(content, encoding="utf-8") and None


def table(**columns: Any) -> Callable[[Path], None]:
    return lambda file: parquet.write_table(arrow.table(columns), file)


def matrix(array: Any) -> Callable[[Path], None]:
    return lambda file: scipy.sparse.save_npz(file, scipy.sparse.csr_matrix(array))


EDGES = np.stack([SOURCE, TARGET])
ADJACENCY = np.zeros((5, 5))
ADJACENCY[SOURCE, TARGET] = WEIGHT
NAMES = ["ann", "bob", "cat", "dan", "eve"]
KINDS = ["x", "y", "x", "z", "y"]
ROWS = {f"f{n}": X[:, n] for n in range(3)}
NAMED = csv([NAMES[s] for s in SOURCE], [NAMES[t] for t in TARGET], header="src,dst")
TABLE = csv(NAMES, *X.T.tolist(), KINDS, header="id,a,b,c,kind")
SPLITS = {"splits": {"train": [0, 2], "val": [1], "test": [4]}}
PLAIN = {"features": ("features.npy", save(X)), "labels": ("labels.npy", save(Y))}


def write_saint(folder: Path) -> None:
    matrix(ADJACENCY != 0)(folder / "adj_full.npz")
    np.save(folder / "feats.npy", X)
    labels = {str(node): node % 3 for node in range(5)}
    (folder / "class_map.json").write_text(json.dumps(labels))
    (folder / "role.json").write_text(json.dumps({"tr": [0, 2], "va": [1], "te": [3, 4]}))


def write_planetoid(folder: Path) -> None:
    """A data set of 512 nodes in the form of Cora."""
    raw = folder / "Cora" / "raw"
    raw.mkdir(parents=True)
    random = np.random.default_rng(0)
    x = scipy.sparse.csr_matrix((random.random((512, 4)) < 0.5).astype(np.float32))
    y = np.eye(3, dtype=np.int32)[random.integers(0, 3, 512)]
    pairs = random.integers(0, 512, (512, 2)).tolist()
    graph = collections.defaultdict(list, {node: ends for node, ends in enumerate(pairs)})
    parts = {"x": x[:4], "tx": x[504:], "allx": x[:504], "y": y[:4], "ty": y[504:]}
    for part, content in (parts | {"ally": y[:504], "graph": graph}).items():
        (raw / f"ind.cora.{part}").write_bytes(pickle.dumps(content, protocol=3))
    (raw / "ind.cora.test.index").write_text("\n".join(map(str, range(504, 512))))


def write_pickles(folder: Path) -> None:
    write_planetoid(folder)
    shutil.copy(folder / "Cora" / "raw" / "ind.cora.x", folder / "one.pkl")
    shutil.rmtree(folder / "Cora")


def read_pickle(folder: Path) -> str:
    content = read_planetoid_pickle(folder / "one.pkl")
    return digest_of(content.toarray() if hasattr(content, "toarray") else content)


GRAPH = "graph.pt"
READERS: dict[str, Subject] = {
    "edges .npy": importing({"edges": ("e.npy", save(EDGES)), **PLAIN}, **SPLITS),
    "edges .npz": importing(
        {
            "edges": ("e.npz", lambda f: np.savez(f, src=SOURCE, dst=TARGET, weight=WEIGHT)),
            **PLAIN,
        },
        **SPLITS,
    ),
    "edges .npz, sparse": importing(
        {
            "edges": ("e.npz", matrix(ADJACENCY)),
            "features": ("f.npz", matrix(X)),
            "labels": PLAIN["labels"],
        },
        **SPLITS,
    ),
    "tables .csv": importing(
        {
            "edges": ("e.csv", text(NAMED)),
            "features": ("t.csv", text(TABLE)),
            "labels": ("t.csv", text(TABLE)),
        },
        label="kind",
        splits=(0.4, 0.2, 0.4),
    ),
    "tables .parquet": importing(
        {
            "edges": ("e.parquet", table(src=SOURCE, dst=TARGET, weight=WEIGHT)),
            "features": ("f.parquet", table(id=np.arange(5), **ROWS)),
            "labels": ("l.parquet", table(id=np.arange(5), label=KINDS)),
        },
        **SPLITS,
    ),
    "labels and splits": importing(
        {
            "edges": ("e.npy", save(EDGES)),
            "features": PLAIN["features"],
            "labels": ("l.npy", save(HOT)),
            "splits": ("s.npz", lambda f: np.savez(f, **SPLITS["splits"])),
        }
    ),
    "PyG .pt": importing({"graph": (GRAPH, lambda f: torch.save(make_data(), f))}),
    "GraphML": importing(
        {"graph": ("g.graphml", lambda f: networkx.write_graphml(people(), f))},
        label="kind",
        splits={"train": ["ann"]},
    ),
    "GEXF": importing(
        {"graph": ("g.gexf", lambda f: networkx.write_gexf(people(), f))},
        label="kind",
        splits={"train": ["ann"]},
    ),
    "OGB, text": importing({"graph": ("ogb", lambda f: ogb(f, "csv") and None)}),
    "OGB, binary": importing({"graph": ("ogb", lambda f: ogb(f, "npz") and None)}),
    "GraphSAINT": Subject(write_saint, lambda f: dataset_digest(load_dataset(f))),
    "Planetoid": Subject(write_planetoid, lambda f: dataset_digest(load_dataset("cora", f))),
    "one pickle": Subject(write_pickles, read_pickle),
}
