"""The embedded graph shows something true: its neighbourhoods know what its features do not."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
import torch

from bliss.data import describe, load_dataset

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def synthetic():
    return load_dataset("synthetic")


def ridge_accuracy(features, dataset, penalty=1e-3):
    """Test accuracy of linear regression on one-hot labels, solved exactly."""
    features = np.c_[features, np.ones(len(features))].astype(np.float64)
    train, test = dataset.splits["train"].numpy(), dataset.splits["test"].numpy()
    labels = dataset.y.numpy()
    gram = features[train].T @ features[train]
    gram += penalty * np.trace(gram) / len(gram) * np.eye(len(gram))
    weight = np.linalg.solve(gram, features[train].T @ np.eye(10)[labels[train]])
    return float(((features[test] @ weight).argmax(1) == labels[test]).mean())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_graph_is_needed(seed):
    dataset = load_dataset("synthetic", seed=seed)
    graph, x = dataset.graph, dataset.x.numpy()
    mean = scipy.sparse.csr_matrix(
        (np.repeat(1 / graph.degree, graph.degree), graph.indices, graph.indptr)
    )
    alone = max(  # the size of a vector says nothing, so dividing by it may only help
        ridge_accuracy(x, dataset),
        ridge_accuracy(x / np.linalg.norm(x, axis=1, keepdims=True), dataset),
    )
    assert alone <= 0.60
    assert ridge_accuracy(mean @ (mean @ x), dataset) >= 0.85


def test_a_network_without_the_graph_does_no_better(synthetic):
    torch.manual_seed(0)
    x = torch.nn.functional.normalize(synthetic.x) * 8
    network = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(128, 10)
    )
    optimizer = torch.optim.Adam(network.parameters(), 0.005)
    train, test = synthetic.splits["train"], synthetic.splits["test"]
    best = 0.0
    for _ in range(100):
        loss = torch.nn.functional.cross_entropy(network(x[train]), synthetic.y[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            network.eval()
            hits = network(x[test]).argmax(1) == synthetic.y[test]
            network.train()
        best = max(best, float(hits.float().mean()))  # the best on the test: an upper bound
    assert 0.4 <= best <= 0.60


def test_sizes_and_tails_are_as_promised(synthetic):
    found = describe(synthetic)
    assert (found["nodes"], found["classes"]) == (20_000, 10)
    assert 390_000 <= found["edges"] <= 410_000
    assert found["splits"] == {"train": 10_000, "val": 5_000, "test": 5_000}
    assert found["degree"]["max"] > 50 * found["degree"]["median"]
    size = synthetic.x.norm(dim=1)
    assert size.max() > 20 * size.median()


FALSE_ALARM = 1e-5  # chance that independent values fail, per value


@pytest.mark.parametrize("is_mutant", [False, True])
def test_sizes_and_degrees_know_nothing_of_classes(synthetic, is_mutant):
    """Of n values, n times the share of variance between 10 classes is chi-square(9)."""
    limit = scipy.stats.chi2.isf(FALSE_ALARM, 9)
    for value in (synthetic.x.norm(dim=1).log(), torch.from_numpy(synthetic.graph.degree).log()):
        leak = 0.15 * (synthetic.y == 0)  # the mutant's first class is 15 % larger
        value = value + leak if is_mutant else value
        means = torch.stack([value[synthetic.y == label].mean() for label in range(10)])
        between = (means[synthetic.y] - value.mean()).square().mean() / value.var()
        assert (len(value) * between < limit) != is_mutant


def test_a_seed_makes_one_graph(synthetic):
    again, other = load_dataset("Synthetic", seed=0), load_dataset("synthetic", seed=1)
    np.testing.assert_array_equal(again.graph.indices, synthetic.graph.indices)
    assert torch.equal(again.x, synthetic.x)
    assert all(torch.equal(again.splits[k], synthetic.splits[k]) for k in synthetic.splits)
    assert not torch.equal(other.y, synthetic.y)
