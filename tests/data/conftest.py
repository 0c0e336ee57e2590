"""What `import_graph` takes, in order."""

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
