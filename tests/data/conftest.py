"""Arguments of `import_graph`, and a copy of Cora that a test may damage."""

from __future__ import annotations

import pytest

from tests.data.files import SOURCE, SPLITS, TARGET, X, Y, write


@pytest.fixture()
def good(tmp_path):
    return {
        "edges": write(tmp_path, "edges.npz", {"src": SOURCE, "dst": TARGET}),
        "features": write(tmp_path, "features.npy", X),
        "labels": write(tmp_path, "labels.npy", Y),
        "splits": SPLITS,
    }


@pytest.fixture()
def cora(tmp_path, data_root):
    """The raw folder of Cora under tmp_path, as links: replace one to damage the copy."""
    raw = tmp_path / "Cora" / "raw"
    raw.mkdir(parents=True)
    for file in (data_root / "Cora" / "raw").iterdir():
        (raw / file.name).symlink_to(file)
    return raw
