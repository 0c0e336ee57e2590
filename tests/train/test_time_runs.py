"""Runs by time: nothing is learnt or scored from the future; windows, predictions, sentences."""

from __future__ import annotations

import csv
import signal
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch
from typer.testing import CliRunner

from bliss import Graph, InputError
from bliss.cli import app
from bliss.data import Dataset, save_dataset
from bliss.data.label_edges import LabelEdges
from bliss.graph import Cutoff
from bliss.kernels.times import ALWAYS
from bliss.links import LinkSplits, Window, split_by_time
from bliss.report import write_report
from bliss.studies import compare
from bliss.train import assess, full_logits, predict, resolve, rolling
from bliss.train.evaluation import own_time_outputs
from bliss.train.link_times import TimedPairs
from bliss.train.task import build_task
from tests.samplers.test_times import violations
from tests.train.runs import SETTINGS, assert_same_run, make_trainer, settings, stopped, trained

SEEN, WITNESSES = 300, 40
FALSE_ALARM = 1e-6
LINK = {"task": "link", "steps": 20, "dropout": 0.0, "edge_split": (0.6, 0.2, 0.2)}


@pytest.fixture(scope="module")
def foretold() -> Dataset:
    """Node i is born at 10 i; its label is the kind of a witness that comes one moment later."""
    random = np.random.default_rng(0)
    nodes, number = SEEN + WITNESSES, np.arange(SEEN)
    y = random.integers(0, 2, SEEN)
    witness = SEEN + 2 * random.integers(0, WITNESSES // 2, SEEN) + y
    earlier = random.integers(0, np.maximum(number, 1))
    pairs = np.stack([np.concatenate([witness, earlier]), np.tile(number, 2)])
    time = np.concatenate([10 * number + 1, 10 * number])
    x = random.normal(size=(nodes, 4))
    x[SEEN:, 0] = np.where(np.arange(WITNESSES) % 2, 3, -3)
    order = torch.from_numpy(random.permutation(SEEN))
    label = np.concatenate([y, np.full(WITNESSES, -1)])
    return Dataset(
        "foretold",
        Graph.from_edge_index(pairs, nodes, time=time),
        torch.from_numpy(x).float(),
        torch.from_numpy(label),
        {"train": order[:180], "val": order[180:240], "test": order[240:]},
        2,
        node_time=np.concatenate([10 * number, np.zeros(WITNESSES, np.int64)]),
    )


def limit(number: int) -> float:
    """Share of right answers that guesses exceed with probability FALSE_ALARM."""
    return float(scipy.stats.binom.isf(FALSE_ALARM, number, 0.5)) / number


@pytest.mark.parametrize("sampler", ["bliss", "neighbor"])
def test_labels_that_only_the_future_shows_are_not_learnt(foretold, tmp_path, sampler):
    options = {"sampler": sampler, "budgets": (), "steps": 40}
    _, result = trained(foretold, tmp_path / "run", **options)
    assert result.test_score <= limit(60)
    assert (result.window.start, result.window.end) == ("2400", "2990")
    for name, mutant in {
        "late": (replace(foretold, node_time=foretold.node_time + 1), {}),
        "untimed": (foretold, {"split": "given"}),
    }.items():
        _, leaking = trained(mutant[0], tmp_path / name, **options, **mutant[1])
        assert leaking.test_score > limit(60), name
    assert leaking.window is None


def test_sampled_evaluation_and_order_of_time_see_no_future(foretold, tmp_path):
    options = {"steps": 30, "evaluate": "sampled", "order": "time"}
    trainer, result = trained(foretold, tmp_path, **options)
    assert result.test_score <= limit(60)
    for batches in trainer.stepper.loader.steps():
        for batch in batches:
            assert batch.seed_time.max() - batch.seed_time.min() <= 10 * 60  # 40 of 180 in 1,800


@pytest.mark.parametrize("window", [0, 40])
def test_outputs_of_nodes_are_those_of_the_graph_at_their_times(foretold, window):
    task = build_task(settings(time_window=window), foretold)
    nodes = torch.tensor([7, 200, 45, 199])
    outputs = own_time_outputs(task, nodes)
    for place, node in enumerate(nodes.tolist()):
        past = task.graph.at(10 * node, window=window or None)
        exact = full_logits(task, graph=past)[node]
        torch.testing.assert_close(outputs[place], exact, rtol=1e-4, atol=1e-5)
    with pytest.raises(AssertionError):  # one moment later
        later = full_logits(task, graph=task.graph.at(451))[45]
        torch.testing.assert_close(outputs[2], later, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def messages() -> Dataset:
    """Messages within two groups, with repetitions, at times 0 to 99; undirected."""
    random = np.random.default_rng(1)
    source = random.integers(0, 60, 700)
    target = (source + 2 * random.integers(1, 30, 700)) % 60
    pairs, time = np.stack([source, target]), np.sort(random.integers(0, 100, 700))
    graph = Graph.from_edge_index(
        np.concatenate([pairs, pairs[::-1]], 1), 60, time=np.tile(time, 2)
    )
    x = random.normal(size=(60, 4)) + np.where(np.arange(60) % 2, 1, -1)[:, None]
    none = torch.empty(0, dtype=torch.int64)
    splits = {"train": torch.arange(1), "val": none, "test": none}
    y = torch.full((60,), -1)
    return Dataset("messages", graph, torch.from_numpy(x).float(), y, splits, 0)


@pytest.fixture(scope="module")
def run(messages, tmp_path_factory):
    out = tmp_path_factory.mktemp("time") / "run"
    return out, *trained(messages, out, **LINK | {"steps": 40, "order": "time"})


def test_links_are_split_by_time_and_messages_are_earlier(messages, run):
    _, trainer, result = run
    objective = trainer.task.objective
    time = objective.splits.time
    assert time["train"].max() < time["val"].min() <= time["val"].max() < time["test"].min()
    pairs = np.concatenate([objective.splits.links(name) for name in time], axis=1)
    assert np.unique(np.sort(pairs, axis=0), axis=1).shape == pairs.shape  # first times alone
    for split, until in (("train", "val"), ("val", "val"), ("test", "test"), ("all", "")):
        own = objective.messages(split).time
        assert (own == ALWAYS).sum() == 60  # self-loops
        wanted = messages.graph.time
        wanted = wanted[wanted < time[until].min()] if until else wanted
        np.testing.assert_array_equal(np.sort(own), np.sort(wanted))
    assert result.test_score > 0.6


@pytest.mark.parametrize("sampler", ["bliss", "neighbor"])
def test_a_link_of_a_batch_sees_what_was_before_it(messages, tmp_path, sampler):
    options = LINK | {"sampler": sampler, "budgets": ()}
    trainer = make_trainer(messages, tmp_path, **options)
    graph = trainer.task.graph
    for batches in trainer.stepper.loader.steps():
        for batch in batches:
            rule = batch.blocks[-1].rows.cutoff
            ends, time = batch.edge_label_index, batch.edge_label_time
            for side in ends:
                np.testing.assert_array_equal(rule.before[side], time)
            assert violations(graph, batch.blocks, rule) == 0
            earlier = Cutoff(rule.before - 5, rule.after)
            assert violations(graph, batch.blocks, earlier) > 0  # would be noticed


def test_a_window_of_time_bounds_training_scores_and_predictions(messages, tmp_path):
    trainer, _ = trained(messages, tmp_path / "run", **LINK, time_window=10)
    task, graph = trainer.task, messages.graph
    first = {name: int(time.min()) for name, time in task.objective.splits.time.items()}
    for batches in trainer.stepper.loader.steps():
        for batch in batches:
            rule = batch.blocks[-1].rows.cutoff
            np.testing.assert_array_equal(rule.after, rule.before - 10)
            assert violations(task.graph, batch.blocks, rule) == 0
    for split, until in (("train", "val"), ("val", "val"), ("test", "test")):
        seen = (graph.time < first[until]) & (graph.time >= first[until] - 10)
        assert task.graph_of(split).num_edges == seen.sum() + 60  # and self-loops
    pairs = np.array([[3, 5], [9, 8]])
    for at in (60, None):
        past = graph.at(99 if at is None else at, window=10).with_norm(task.graph.norm)
        z = full_logits(task, graph=past)
        found = predict(tmp_path / "run", messages, pairs=pairs, at=at)["score"]
        np.testing.assert_allclose(found, (z[pairs[0]] * z[pairs[1]]).sum(1), rtol=1e-4, atol=1e-5)
        whole = full_logits(task, graph=graph.at(99 if at is None else at))
        assert not np.allclose(found, (whole[pairs[0]] * whole[pairs[1]]).sum(1), rtol=1e-2)
    top = predict(tmp_path / "run", messages, top=59, nodes=np.array([4]), at=60)["target"]
    past = graph.at(60)  # links before the window are known, too
    known = np.repeat(np.arange(60), past.degree)[past.indices == 4]
    assert not set(top) & set(known.tolist())


def test_links_are_scored_with_what_was_before_each_of_them(messages, run):
    _, trainer, _ = run
    task, split = trainer.task, "test"
    links, time = task.objective.splits.test, task.objective.splits.time[split]
    index = np.array([0, 40, 9, len(time) - 1])
    drawn = np.stack([links[0, index], np.array([3, 1, 7, 2])])  # negatives of the same sources
    scorer = TimedPairs.of(task, split)
    for pairs in (links[:, index], drawn):
        found = scorer(*pairs, index)
        for n, place in enumerate(index):
            scores = []
            for strict in (True, False):
                past = messages.graph.at(int(time[place]), strict=strict)
                z = full_logits(task, graph=past.with_norm(task.graph.norm))
                scores.append(float(z[pairs[0, n]] @ z[pairs[1, n]]))
            assert found[n] == pytest.approx(scores[0], rel=1e-4, abs=1e-5)
        assert scores[0] != pytest.approx(scores[1], rel=1e-3)  # the link itself would be seen
    at_split, at_link = (assess(task, ("test",), cutoffs=one) for one in ("split", "link"))
    assert at_split.splits["test"].scores.keys() == at_link.splits["test"].scores.keys()
    assert at_split.splits["test"].scores != at_link.splits["test"].scores
    random = build_task(settings(**LINK, split="random"), messages)
    with pytest.raises(InputError, match="cutoffs='link' needs links that are split by time"):
        assess(random, cutoffs="link")


def test_a_run_by_time_resumes_bit_for_bit(messages, run, tmp_path):
    options = LINK | {"steps": 40, "order": "time"}
    stopped(make_trainer(messages, tmp_path, **options), 13, signal.SIGTERM)
    trained(messages, tmp_path, resume=True, **options)
    assert_same_run(run[0], tmp_path)


@pytest.mark.parametrize("shards", [2])
def test_shards_see_no_future(messages, tmp_path, shards):
    trainer = make_trainer(messages, tmp_path, **LINK, shards=shards)
    batches = next(iter(trainer.stepper.loader.steps()))
    for batch in batches:
        rule = batch.blocks[-1].rows.cutoff
        assert violations(trainer.task.graph, batch.blocks, rule) == 0


def test_windows_move_on(messages, tmp_path):
    time = np.sort(np.random.default_rng(0).integers(0, 50, 1000))
    ends = []
    for k in (1, 2, 3):
        split = split_by_time(time, (0.6, 0.1, 0.3), Window(k, 3))
        assert (np.diff(split) >= 0).all()
        ends.append([time[split == number].max() for number in range(3)])
        assert abs(np.mean(split == 2) - 0.1) < 0.04
        assert (split == 3).any() == (k < 3)
    assert (np.diff(np.array(ends), axis=0) > 0).all()
    assert (np.array(ends)[:-1, 2] == np.array(ends)[1:, 1]).all()  # no link is left out
    options = SETTINGS | LINK | {"steps": 10, "windows": 2}
    del options["dataset"]
    results = rolling(messages, tmp_path / "roll", say=lambda _: None, **options)
    windows = [result.window for result in results]
    assert [(one.number, one.of) for one in windows] == [(1, 2), (2, 2)]
    assert int(windows[0].end) < int(windows[1].start)
    page = write_report([tmp_path / "roll"], tmp_path / "report.html").read_text()
    assert "over time" in page and "window 2 of 2" in page
    with pytest.raises(InputError, match="windows=2 are several runs: use "):
        make_trainer(messages, tmp_path / "one", **LINK, windows=2)


def test_predictions_at_a_time_are_those_of_the_graph_then(messages, run, tmp_path):
    out, trainer, _ = run
    pairs = np.array([[3, 5], [9, 8]])
    task = trainer.task
    for at in (20, 60):
        graph = messages.graph.at(at).with_norm(task.graph.norm)
        z = full_logits(task, graph=graph)
        exact = (z[pairs[0]] * z[pairs[1]]).sum(1)
        found = predict(out, messages, pairs=pairs, at=at)
        np.testing.assert_allclose(found["score"], exact, rtol=1e-4, atol=1e-5)
    top = predict(out, messages, top=3, nodes=np.array([4]), at=0)
    assert len(top["target"]) == 3
    store = save_dataset(messages, tmp_path / "store")
    (tmp_path / "pairs.csv").write_text("src,dst\n3,9\n")
    arguments = ["predict", out, "--dataset", store, "--pairs", tmp_path / "pairs.csv"]
    arguments += ["--out", tmp_path / "scores.csv", "--at", "60"]
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    with (tmp_path / "scores.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert float(row["score"]) == pytest.approx(found["score"][0], rel=1e-4)


def test_nodes_are_predicted_at_their_own_time_or_at_one(foretold, tmp_path):
    trained(foretold, tmp_path, steps=10)
    own, late = predict(tmp_path, foretold), predict(tmp_path, foretold, at=5000)
    assert own["probability"][:100] != late["probability"][:100]
    test = predict(tmp_path, foretold, nodes="test")
    assert test["node"] == list(range(240, 300))  # the latest


def test_sentences(messages, foretold, tmp_path):
    plain = replace(messages, graph=messages.graph.without_times())
    for dataset, given, words in (
        (plain, {**LINK, "split": "time"}, "the data has no times of links: import edges with"),
        (plain, {**LINK, "windows": 2, "window": 1}, "windows=2 needs times"),
        (plain, {**LINK, "order": "time"}, "order='time' needs a split by time"),
        (plain, {**LINK, "time_window": 5}, "time_window=5 needs a split by time"),
        (replace(foretold, node_time=None), {"split": "time"}, "no times of nodes"),
        (
            replace(foretold, node_time=foretold.node_time // 2000),
            {},
            "the train split by time has no nodes: .* 300 nodes have 2 different times: change the",
        ),
        (messages, {**LINK, "history": "nodes", "budgets": (9,)}, "not possible with Bliss, becau"),
        (messages, {**LINK, "first_hop": "exact", "budgets": (9,)}, "history none and first_hop s"),
    ):
        with pytest.raises(InputError, match=words):
            make_trainer(dataset, tmp_path / "run", **given)
    for given, words in (
        ({"split": "random"}, "split='random' is a split of links"),
        ({"window": 3, **LINK}, "window=3 is not one of windows=1"),
        ({"windows": 2, "split": "given", **LINK}, "windows=2 are windows of time"),
    ):
        with pytest.raises(InputError, match=words):
            resolve(**SETTINGS | given)
    random = build_task(settings(**LINK, split="random"), messages)
    assert not random.graph.has_times and random.objective.splits.time is None
    links = LabelEdges(np.array([[0, 1, 2], [3, 4, 5]]), None, np.array([0.5, 1.5, 2.5]))
    with pytest.raises(InputError, match="times of links is float64"):
        LinkSplits.by_time(messages.graph, links.pairs, links.time, (0.4, 0.3, 0.3))


def test_a_run_that_was_not_by_time_refuses_at(messages, tmp_path):
    trained(messages, tmp_path, **LINK, split="random")
    with pytest.raises(InputError, match="at=5, but the run was not split by time"):
        predict(tmp_path, messages, pairs=np.array([[0], [1]]), at=5)


def test_comparisons_know_times(messages, tmp_path):
    given = {**SETTINGS, **LINK, "dataset": messages, "steps": 10, "batch_size": 100}
    del given["budgets"]
    options = {"budgets": "30,15", "match": "none", "say": lambda _: None}
    made = compare(given, ["bliss", "neighbor"], ["sage"], [0], [1.0], tmp_path, **options)
    assert {row.sampler for row in made.rows} == {"bliss", "neighbor"}
    for folder in tmp_path.glob("*/result.json"):
        assert b"window" in folder.read_bytes()
