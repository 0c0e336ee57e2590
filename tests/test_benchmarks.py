"""Benchmarks run on a small graph, and the comparison with PyG uses the right reference values.

Times themselves are not tested.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch

from benchmarks import (
    blockwise,
    dgl,
    disk,
    dropout,
    inference,
    links,
    neighbor_loader,
    samplers,
    sampling,
    scale,
    step,
    tables,
    threads,
    types,
)
from benchmarks.__main__ import merged
from benchmarks.graphs import power_law
from benchmarks.pyg import floyd_chances, one_sample, two_samples
from bliss import PLADIES
from bliss.samplers import SAMPLERS
from bliss.storage import mapped

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("population", "count"), [(4, 3), (7, 2), (9, 3), (3, 5)])
def test_floyd_draws_every_subset_alike(population, count):
    chances = floyd_chances(population, count, is_short=False)
    kept = min(count, population)
    for size in (1, 2):
        expected = comb(population - size, kept - size) / comb(population, kept)
        for key in combinations(range(population), size):
            assert chances[key] == pytest.approx(expected)


def test_draws_one_short_favour_the_first():
    chances = floyd_chances(4, 3, is_short=True)
    assert [chances[(i,)] for i in range(4)] == pytest.approx([1, 2 / 3, 2 / 3, 2 / 3])


def test_shares_that_cannot_be_are_infinitely_far():
    assert one_sample({"a": 0.1}, {"a": 0.1})["z"] == 0
    assert one_sample({"a": 0.1}, {"a": 0.0})["z"] == float("inf")
    found = one_sample({"a": 0.50}, {"a": 0.51})
    assert found["z"] == pytest.approx(0.01 / (0.51 * 0.49 / 20_000) ** 0.5)
    assert found["bound"] == pytest.approx(4.89, abs=0.01)  # two-sided, 1e-6, of one
    found = two_samples({"a": 0.50}, {"a": 0.52})  # of 20,000 draws each
    assert found["z"] == pytest.approx(4.0, rel=0.01)


def test_the_benchmark_of_sampling_times_every_policy(monkeypatch):
    for name, value in {"BUDGETS": (64, 32, 16), "WARM_UP": 1}.items():
        monkeypatch.setattr(sampling, name, value)
    found = sampling.measure(power_law(500, 5000), repeats=2)
    assert found["pladies_over_floor"] > 0
    assert found["node_update_over_sample"] > 0


def test_the_benchmark_of_threads_times_both_numbers(monkeypatch):
    for name, value in {"BUDGETS": (64, 32, 16), "WARM_UP": 1, "STEPS": 2}.items():
        monkeypatch.setattr(threads, name, value)
    dataset = step.random_dataset(power_law(600, 5000), 8, 3, multilabel=False)
    found = threads.measure(dataset, "gatv2", turns=1)
    assert found["two_threads_over_one"] > 0
    assert set(found["step_ms"]) >= {"prefetch 1, threads 2", "prefetch 0, threads 1"}


def test_the_benchmark_of_blockwise_times_and_scores_both_networks(monkeypatch):
    for name, value in {"HIDDEN": 4, "BATCH": 64, "WARM_UP": 1, "STEPS": 2, "SEEDS": (0,)}.items():
        monkeypatch.setattr(blockwise, name, value)
    dataset = step.random_dataset(power_law(300, 2000), 5, 3, multilabel=True)
    found = blockwise.times(dataset, repeats=2)
    assert found.keys() == blockwise.CASES.keys()
    assert all(one["pyg_over_own"] > 0 for one in found.values())
    for one in blockwise.scores(dataset, 0).values():
        assert all(0 <= score <= 1 for score in [*one["own"], *one["pyg"]])


def test_the_benchmark_of_loaders_times_and_scores_every_sampler(monkeypatch):
    sizes = {"HIDDEN": 4, "BATCH": 64, "WARM_UP": 1, "SECONDS": 0.01, "SEEDS": (0,)}
    sides = tuple(neighbor_loader.SAMPLERS)  # those of PyG need compiled extensions
    for name, value in (sizes | {"SIDES": sides}).items():
        monkeypatch.setattr(neighbor_loader, name, value)
    dataset = step.random_dataset(power_law(300, 2000), 5, 3, multilabel=True)
    found = neighbor_loader.times(dataset, repeats=2)
    assert [one["over_first"] > 0 for one in found.values()] == [True] * len(sides)
    for one in neighbor_loader.scores(dataset, found).values():
        assert all(0 <= score <= 1 for score in [*one["test"], *one["val"]])


def test_hops_of_a_subgraph_are_counted_from_its_edges():
    # Seeds 0 and 1; 0 <- 2, 3; 1 <- 0; then 2 <- 1, 4; 3 has none; then 4 <- 0.
    edge_index = torch.tensor([[2, 3, 0, 1, 4, 0], [0, 0, 1, 2, 2, 4]])
    assert neighbor_loader.hops(edge_index, 2) == ([2, 2, 1, 0], [3, 2, 1])


def test_parts_of_a_benchmark_are_added_to_its_file():
    old = {"settings": {"batches": 9}, "a": {"x": 1, "y": 2}, "seconds": 1.5}
    found = merged(old, {"settings": {"batches": 4}, "a": {"y": 3}, "b": 4, "seconds": 2})
    assert found == {"settings": {"batches": 4}, "a": {"x": 1, "y": 3}, "b": 4, "seconds": 3.5}


def test_the_benchmark_of_samplers_has_a_row_for_each(monkeypatch):
    for name, value in {"BATCH": 16, "BUDGETS": (64, 32, 16), "SUBGRAPH": 64}.items():
        monkeypatch.setattr(samplers, name, value)
    rows = samplers.measure(power_law(500, 5000), repeats=1)
    assert list(rows) == list(SAMPLERS)
    assert all(row["nodes"] > 0 for row in rows.values())


def test_the_benchmark_of_steps_times_every_part_of_every_policy(monkeypatch):
    monkeypatch.setattr(step, "WARM_UP", 1)
    dataset = step.random_dataset(power_law(500, 5000), 8, 3, multilabel=False)
    settings = step.SAMPLERS | step.LESS_TO_SAMPLE
    small = {name: own | {"budgets": (32,) * len(own["budgets"])} for name, own in settings.items()}
    parts = step.steps(dataset, "sage", 1, small)
    assert list(parts) == list(settings)
    assert all(taken["total"] > 0 for taken in parts.values())


def test_the_benchmark_of_links_compares_them_with_nodes_and_ranks_them(tmp_path, monkeypatch):
    for name, value in {"BATCH": 16, "WARM_UP": 1, "WIDTH": 4}.items():
        monkeypatch.setattr(links, name, value)
    graph = power_law(500, 5000)
    found = links.measure(graph, PLADIES(graph, [64, 32, 16]), repeats=2)
    assert found["links_over_nodes"] > 0
    assert 16 < found["seed_nodes"] <= 64
    np.save(tmp_path / "known.npy", graph.edge_index.numpy())
    np.save(tmp_path / "links.npy", np.unique(links.random_links(graph, 40, 0), axis=1))
    assert links.ranking(str(tmp_path), 500)["peak_mib"] > 10


def test_the_benchmark_of_types_divides_edges_and_features(monkeypatch):
    sizes = {"NODES": 500, "BATCH": 16, "WARM_UP": 1, "BUDGETS": [64, 32]}
    for name, value in sizes.items():
        monkeypatch.setattr(types, name, value)
    graph = power_law(500, 5000)
    divided = types.divided(graph, 4)
    assert divided.num_edges == graph.num_edges
    assert len(divided.types.edge_types) == 4
    graphs = {"plain": graph, **{str(n): types.divided(graph, n) for n in types.RELATIONS}}
    samplers = {name: PLADIES(one, [64, 32]) for name, one in graphs.items()}
    assert types.sampling(samplers, repeats=2)["16_over_plain"] > 0
    assert types.gathering(graph, repeats=2, width=4)["typed_over_plain"] > 0


def test_the_benchmark_of_dropout_compares_each_part():
    found = dropout.measure(20, 5, 0.5, repeats=1)
    assert set(found["torch_over_hashed"]) == {"forward", "backward", "both"}


def test_the_benchmark_of_inference_projects_one_side_alone(monkeypatch):
    for name, value in {
        "NODES": 200,
        "EDGES": 900,
        "WIDTH": 300,
        "NETWORKS": [("sage", 8)],
    }.items():
        monkeypatch.setattr(inference, name, value)
    found = inference.run(1)["sage 8"]
    assert found["gathered_over_projected"] == found["gathered"] / found["projected"] > 0


def test_the_benchmark_of_disks_reads_from_the_map_and_from_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "memory_limit", mapped.memory_limit)  # each side sets it
    for name, value in {"BUDGETS": (32, 32, 32), "BATCH": 16, "MEMORY": 1, "WARM_UP": 1}.items():
        monkeypatch.setattr(disk, name, value)
    store = disk.make_store(tmp_path, nodes=800, edges=6000, width=8)
    for name, side in disk.SIDES.items():
        found = disk.time_side(store, side | ({"cache": 4000} if "cache" in name else {}), 2)
        assert found["steps_per_second"] > 0
        assert ("share_of_draws_from_cache" in found) == ("cache" in name)
    found = disk.neighbour_bytes(store, 2)
    assert found["megabytes_of_rows_per_step"] == pytest.approx(32e-6 * found["input_nodes"])


def test_the_benchmark_of_dgl_times_our_side(tmp_path):
    graph = power_law(500, 5000)
    np.save(tmp_path / "indptr.npy", graph.indptr)
    np.save(tmp_path / "indices.npy", graph.indices)
    np.save(tmp_path / "seeds.npy", dgl.seeds(500, dgl.WARM_UP + 2))
    found = dgl.time_side("ours", tmp_path)
    assert set(found["rows"]) == set(dgl.SAMPLERS)
    for row in found["rows"].values():
        assert len(row["ms"]) == len(row["edges"]) == 2
        assert min(row["sources"]) > dgl.BATCH


def test_the_benchmark_of_dgl_explains_the_environment(tmp_path):
    with pytest.raises(SystemExit, match=r"pip install 'dgl==2\.1\.0' 'torch==2\.2\.1'"):
        dgl.prepared(tmp_path / "none", make=False)


def test_the_benchmark_of_processes_reads_the_model_on_paper():
    rank = {"news_bytes": 60_000, "gradient_bytes": 2_000_000, "apply_ms": 1.0}
    found = scale.on_paper(100.0, rank)
    assert list(found) == ["8", "64", "512"]
    alpha, beta = 0.03, 25e9 / 8 / 1e3
    exact = 108 + 7 * (2 * alpha + 60_000 / beta) + 7 * (alpha + 2_000_000 / beta)
    assert found["8"]["exact_ms"] == pytest.approx(exact)
    assert found["512"]["allreduce_ms"] < found["512"]["exact_ms"]
    assert scale.memory_mb() > 10


@pytest.mark.parametrize("path", tables.PAGES, ids=lambda path: path.stem)
def test_tables_on_pages_are_those_of_the_results(path):
    text = path.read_text(encoding="utf-8")
    assert tables.MARKED.search(text)
    assert tables.page(text) == text


def test_a_number_above_its_aim_is_bold():
    found = {"a": {"x": 1.2, "y": 1.0}, "b": {"x": 1.0}}
    row = tables.ratio("x", "x", aim=1.1)
    assert tables.cell(found, "a", row) == "**1.20**"
    assert tables.cell(found, "b", row) == "1.00"
    assert tables.cell(found, "b", tables.ratio("y", "y")) == ""
    assert tables.number({"a_b": {"c": 2}}, "b", "a_*/c") == 2
