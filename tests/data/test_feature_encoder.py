"""Encoding of features: which columns change, whose statistics count, files beyond memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bliss.data import feature_encoder
from bliss.data.feature_encoder import FeatureEncoder
from bliss.errors import InputError

NODES = torch.arange(200)
DENSE, HOT, COUNTS, AMOUNTS = [0, 1, 2], [3, 4], [5], [6]


@pytest.fixture
def x():
    """Age, income and a constant; one-hot and mostly-one columns; counts; rare large amounts."""
    random = np.random.default_rng(3)
    rare = random.random(300) < 0.2
    columns = [
        random.normal(45, 12, 300),
        random.lognormal(10, 1, 300),
        np.full(300, 7.1),
        random.integers(0, 2, 300),
        random.random(300) < 0.9,
        random.poisson(0.3, 300),
        np.where(rare, random.lognormal(8, 1, 300), 0),
    ]
    return torch.from_numpy(np.stack(columns, axis=1).astype(np.float32))


def test_auto_standardises_dense_columns_by_the_statistics_of_training_nodes(x):
    encoder = FeatureEncoder.fit("auto", x, NODES)
    seen = encoder.transform(x)[NODES]
    assert encoder.num_changed == 4
    assert seen[:, :2].mean(0).tolist() == pytest.approx([0, 0], abs=1e-5)
    assert seen[:, :2].std(0, correction=0).tolist() == pytest.approx([1, 1], abs=1e-5)
    assert seen[:, 2].abs().max() < 1e-6  # constant: centred, not divided by rounding errors
    other = x.clone()
    other[200:] *= 1000  # of no training node
    again = FeatureEncoder.fit("auto", other, NODES)
    assert np.array_equal(again.shift, encoder.shift)
    assert np.array_equal(again.scale, encoder.scale)


def test_auto_leaves_binary_columns_and_small_counts_and_the_zeros_of_sparse_ones(x):
    seen = FeatureEncoder.fit("auto", x, NODES).transform(x)
    assert torch.equal(seen[:, HOT + COUNTS], x[:, HOT + COUNTS])
    assert torch.equal(seen[:, AMOUNTS] == 0, x[:, AMOUNTS] == 0)
    size = seen[NODES][:, AMOUNTS].square().mean().sqrt()
    assert float(size) == pytest.approx(1, rel=1e-5)
    few = FeatureEncoder.fit("auto", x[:, HOT + COUNTS], NODES)
    assert few.method == "raw"
    assert few.transform(x[:, HOT]) is not None


def test_standard_takes_every_column_in_chunks_or_at_once(x, monkeypatch):
    encoder = FeatureEncoder.fit("standard", x, NODES)
    monkeypatch.setattr(feature_encoder, "rows_per_chunk", lambda columns: 7)
    parts = FeatureEncoder.fit("standard", x, NODES)
    assert encoder.shift == pytest.approx(parts.shift, rel=1e-6)
    assert encoder.scale == pytest.approx(parts.scale, rel=1e-6)
    exact = x[NODES].double()
    assert encoder.shift == pytest.approx(exact.mean(0).numpy(), rel=1e-6)
    wanted = exact.std(0, correction=0).numpy()
    wanted[2] = 1
    assert encoder.scale == pytest.approx(wanted, rel=1e-6)


def test_a_column_that_varies_by_its_rounding_counts_as_constant():
    x = 1e9 + 64 * (torch.arange(20) % 2)[:, None]  # float32 has steps of 64 there
    assert FeatureEncoder.fit("standard", x, torch.arange(20)).scale.tolist() == [1.0]


def test_row_divides_by_sums_above_one():
    x = torch.tensor([[1.0, 3.0], [0.2, 0.3], [0.0, 0.0]])
    encoder = FeatureEncoder.fit("row", x, torch.arange(1))
    assert torch.equal(encoder.transform(x), torch.tensor([[0.25, 0.75], [0.2, 0.3], [0.0, 0.0]]))


@pytest.mark.parametrize("method", ["auto", "row", "standard"])
@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
def test_features_beyond_the_memory_go_to_a_file(x, tmp_path, monkeypatch, method, kind):
    x = x.clamp(max=6e4).to(kind)
    encoder = FeatureEncoder.fit(method, x, NODES)
    monkeypatch.setattr(feature_encoder, "rows_per_chunk", lambda columns: 7)
    monkeypatch.setattr(feature_encoder, "memory_limit", lambda: 1000)
    made = encoder.transform_all(x, tmp_path, lambda: "key")
    assert torch.equal(made, encoder.transform(x))
    assert len(list(tmp_path.glob("features-*.npy"))) == 1
    again = encoder.transform_all(x * 0, tmp_path, lambda: "key")  # the file, not the features
    assert torch.equal(made, again)


def test_raw_features_are_not_copied(x, tmp_path):
    assert FeatureEncoder.fit("raw", x, NODES).transform_all(x, tmp_path, str) is x


def test_an_encoder_survives_a_dict_and_refuses_other_columns(x):
    encoder = FeatureEncoder.fit("auto", x, NODES)
    again = FeatureEncoder.from_dict("auto", encoder.to_dict())
    assert torch.equal(again.transform(x), encoder.transform(x))
    with pytest.raises(InputError, match="have 6 columns, but the network was trained on 7"):
        again.transform(x[:, :6])
    assert FeatureEncoder.from_dict("auto", {}).method == "raw"
    assert FeatureEncoder.from_dict("row", {}).method == "row"
    with pytest.raises(ValueError, match="not finite"):
        FeatureEncoder.from_dict("auto", {"shift": [0.0], "scale": [0.0]})
    with pytest.raises(ValueError, match="not scale and shift"):
        FeatureEncoder.from_dict("auto", {"shift": [0.0]})
