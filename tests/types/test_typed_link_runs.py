"""Runs on links of one relation of a graph with types: no leaks, exact ranks, same bits, names."""

from __future__ import annotations

import csv
import signal
from dataclasses import replace
from itertools import islice
from math import sqrt

import numpy as np
import pytest
import scipy.stats
import torch
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

from bliss import InputError
from bliss.cli import app
from bliss.data import Dataset, import_graph, load_dataset
from bliss.data.label_edges import LabelEdges
from bliss.links import auc
from bliss.loader.typed_links import TypedLinks
from bliss.train import (
    Stepper,
    TrainConfig,
    Trainer,
    assess,
    build_task,
    full_logits,
    load,
    predict,
    train,
)
from tests.train.runs import assert_same_run, quiet, stopped

USERS, ITEMS = 60, 40
BUYS, BOUGHT = ("user", "buys", "item"), ("item", "rev_buys", "user")
SETTINGS = {
    "task": "link",
    "model": "rsage",
    "layers": 2,
    "hidden": 16,
    "embedding": 8,
    "budgets": (40, 30),
    "batch_size": 64,
    "steps": 40,
    "evaluate_every": 20,
    "lr": 0.02,
    "dropout": 0.0,
    "edge_split": (0.6, 0.2, 0.2),
}


def settings(**changes) -> dict:
    return SETTINGS | {"edge_type": BUYS} | changes


def shop(seed: int = 0) -> HeteroData:
    """Users buy items of their own kind, which features of items show, and follow each other."""
    generator = torch.Generator().manual_seed(seed)
    data = HeteroData()
    data["user"].num_nodes = USERS
    kind = torch.arange(ITEMS) % 2
    data["item"].x = torch.randn(ITEMS, 3, generator=generator)
    data["item"].x[:, 0] += 3 * kind
    user = torch.arange(USERS).repeat_interleave(6)
    item = 2 * torch.randint(0, ITEMS // 2, (user.numel(),), generator=generator) + user % 2
    data[BUYS].edge_index = torch.stack([user, item])
    data["user", "follows", "user"].edge_index = torch.randint(
        0, USERS, (2, 2 * USERS), generator=generator
    )
    return data


DATA = Dataset.from_data(shop(), "shop", undirected=True)  # without any labels


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("typed-links") / "run"
    return folder, train(DATA, folder, say=quiet, **settings(steps=80))


def codes(graph, edge_type: tuple[str, str, str]) -> set[tuple[int, int]]:
    """Edges of a relation as ids of the graph."""
    types = graph.types
    own = graph.relation_of(np.arange(graph.num_edges)) == types.relation(edge_type)
    target = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return set(zip(graph.indices[own].tolist(), target[own].tolist(), strict=True))


def test_a_run_learns_links_of_a_relation(run):
    folder, result = run
    assert result.has_learnt
    assert result.test_score == result.scores["test"]["auc"] > 0.65
    opened = load(folder)
    assert opened.settings.objective.edge_type == BUYS
    assert opened.embedding.shape == (USERS, 8)


@pytest.mark.parametrize("messages", ["train", "train+val"])
def test_held_out_links_and_their_reverse_are_no_messages(messages):
    task = build_task(TrainConfig.of(**settings(test_messages=messages)), DATA)
    splits, every = task.objective.splits, codes(DATA.graph, BUYS)
    pairs = {n: set(map(tuple, splits.links(n).T.tolist())) for n in ("train", "val", "test")}
    assert set.union(*pairs.values()) == every
    assert sum(map(len, pairs.values())) == len(every)
    seen = {"train": pairs["train"], "val": pairs["train"], "test": pairs["train"]}
    seen["test"] = seen["test"] | (pairs["val"] if "val" in messages else set())
    for split, links in (*seen.items(), ("all", every)):
        graph = task.graph_of(split)
        assert codes(graph, BUYS) == links
        assert codes(graph, BOUGHT) == {(v, u) for u, v in links}
        for other in (("user", "follows", "user"), ("user", "rev_follows", "user")):
            assert codes(graph, other) == codes(DATA.graph, other)


def random_links(exclude: str, monkeypatch, leaves_reverse: bool = False) -> tuple[float, float]:
    """AUC in training, of links seen for the first time, and of test links; all are random."""
    generator = torch.Generator().manual_seed(0)
    data, users, items, number = HeteroData(), 1500, 1500, 4500
    data["user"].x = torch.randn(users, 32, generator=generator)
    data["item"].x = torch.randn(items, 32, generator=generator)
    ends = [torch.randint(0, size, (number,), generator=generator) for size in (users, items)]
    data[BUYS].edge_index = torch.stack(ends)
    if leaves_reverse:
        monkeypatch.setattr(TypedLinks, "edges", property(lambda own: own.own.edge))
    options = settings(exclude=exclude, embedding=0, sampler="full", budgets=(), layers=1)
    options |= {"steps": 1000, "hidden": 64, "batch_size": 32, "edge_split": (0.85, 0.05, 0.1)}
    dataset = Dataset.from_data(data, "random", undirected=True)
    task = build_task(TrainConfig.of(**options), dataset)
    stepper, scores = Stepper(task), ([], [])
    for step, (batch,) in enumerate(islice(stepper.batches(), task.objective.num_seeds // 32)):
        if step >= 60:
            with torch.no_grad():
                z = batch.blocks[-1].split(task.model(task.inputs(batch)[0], batch.blocks))
            source, target = batch.edge_label_index
            score = (z["user"][source] * z["item"][target]).sum(1)
            for label, own in enumerate(scores):
                own += score[batch.edge_label == label].tolist()
        stepper.step([batch])
    return auc(scores[1], scores[0]), assess(task, ("test",)).splits["test"].scores["auc"]


FALSE_ALARM = 1e-6  # chance that an AUC of a correct run is outside its limit


def is_chance(value: float, number: int) -> bool:
    """Whether an AUC may be that of so many links and negatives in random order."""
    deviation = sqrt((2 * number + 1) / (12 * number**2))
    return abs(value - 0.5) < scipy.stats.norm.isf(FALSE_ALARM / 2) * deviation


def test_random_links_cannot_be_learnt_unless_they_leak(monkeypatch):
    training, test = random_links("reverse", monkeypatch)
    assert is_chance(training, 1800)
    assert is_chance(test, 450)
    training, test = random_links("self", monkeypatch)  # the reverse edges leak
    assert training > 0.7
    assert is_chance(test, 450)
    _, test = random_links("self", monkeypatch, leaves_reverse=True)  # of held-out links, too
    assert test > 0.7


def test_both_directions_of_a_link_within_a_type_are_hidden():
    """u -> v and v -> u may both be edges of a relation, and so of its reverse."""
    data = shop()
    pairs = data["user", "follows", "user"].edge_index
    data["user", "follows", "user"].edge_index = torch.cat([pairs, pairs.flip(0)], 1)
    task = build_task(
        TrainConfig.of(**settings(edge_type="follows", sampler="full", budgets=())),
        Dataset.from_data(data, undirected=True),
    )
    for batch in task.seed_loader:
        links = task.objective.splits.train[:, batch.input_id.numpy()].T.tolist()
        hidden = {tuple(pair) for pair in links} | {(v, u) for u, v in links}
        for block in batch.blocks:
            seen = zip(block.src[block.row].tolist(), block.dst[block.col].tolist(), strict=True)
            assert not hidden & set(seen)


@pytest.mark.parametrize("decoder", ["dot", "distmult", "mlp"])
def test_ranks_are_those_of_a_sorted_list_of_the_type(decoder):
    options = settings(decoder=decoder, candidates="all", cutoff=4, hits=3)
    objective = build_task(TrainConfig.of(**options), DATA).objective
    scores, splits = objective.link_scores, objective.splits
    z = torch.randn(USERS + ITEMS, 16, generator=torch.Generator().manual_seed(0))
    found = scores.values("test", z, ["mrr", "hits", "recall"])
    every, reciprocal, recalls = codes(DATA.graph, BUYS), [], []
    for user in np.unique(splits.test[0]):
        wanted = set(splits.test[1][splits.test[0] == user].tolist())
        value = objective.decoder(z[user], z).tolist()
        known = {v for u, v in every if u == user} - wanted
        others = set(range(USERS, USERS + ITEMS)) - known - wanted
        for item in wanted:
            reciprocal.append(1 / (1 + sum(value[v] > value[item] for v in others)))
        best = sorted(others | wanted, key=lambda v: -value[v])[:4]
        recalls.append(len(wanted & set(best)) / len(wanted))
    assert found["mrr"] == pytest.approx(np.mean(reciprocal))
    assert found["hits"] == pytest.approx(np.mean(np.array(reciprocal) >= 1 / 3))
    assert found["recall"] == pytest.approx(np.mean(recalls))


def test_nodes_are_no_candidates_of_their_own_links():
    options = settings(edge_type="follows", candidates="all", cutoff=1, hits=1)
    objective = build_task(TrainConfig.of(**options), DATA).objective
    known = objective.link_scores._known
    assert {(n, n) for n in range(USERS)} <= set(map(tuple, known.T.tolist()))


@pytest.mark.parametrize(
    "changes",
    [
        {"link_loss": "softmax", "negatives": 3, "prefetch": 1, "shards": 2},
        {
            "model": "rgat",
            "heads": 2,
            "decoder": "distmult",
            "sampler": "neighbor",
            "budgets": (3, 3),
        },
    ],
)
def test_a_resumed_run_is_the_same_run(tmp_path, changes):
    options = settings(steps=12, evaluate_every=6, **changes)
    train(DATA, tmp_path / "whole", say=quiet, **options)
    parts = Trainer(TrainConfig.of(**options, dataset="shop"), DATA, tmp_path / "parts", quiet)
    stopped(parts, 7, signal.SIGTERM)
    train(DATA, tmp_path / "parts", say=quiet, resume=True, **options)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_negatives_and_predictions_are_of_the_types_of_the_relation(run):
    folder, _ = run
    task = build_task(TrainConfig.of(**settings(link_loss="bpr", negatives=3)), DATA)
    for batch in task.seed_loader:
        ends = batch.blocks[-1].split(batch.blocks[-1].dst)
        assert len(ends["user"][batch.src_index].unique()) == len(ends["user"])
        drawn = ends["item"][batch.dst_neg_index]
        pairs = zip(ends["user"][batch.src_index].tolist(), drawn.tolist(), strict=True)
        assert not codes(task.graph, BUYS) & {(u, v) for u, vs in pairs for v in vs}
    opened = load(folder).task(DATA)
    z = full_logits(opened, graph=opened.graph_of("all"))
    top = predict(folder, DATA, top=5, nodes=[7])
    score = z[7] @ z[USERS:].T
    known = {v - USERS for u, v in codes(DATA.graph, BUYS) if u == 7}
    best = [v for v in score.argsort(descending=True).tolist() if v not in known][:5]
    assert top["target"] == best
    assert top["source"] == [7] * 5
    both = predict(folder, DATA, pairs=[[7, 7], best[:2]])
    np.testing.assert_allclose(both["score"], top["score"][:2], rtol=1e-5)
    with pytest.raises(InputError, match=r"pairs \(item\) holds 40"):
        predict(folder, DATA, pairs=[[7], [40]])
    with pytest.raises(InputError, match="top=41 exceeds the 40 other nodes"):
        predict(folder, DATA, top=41)


def write_tables(folder) -> dict[str, str]:
    """Tables of the shop with names as ids."""
    data, files = shop(), {}
    rows = [f"i{n},{','.join(map(str, x))}" for n, x in enumerate(data["item"].x.tolist())]
    files["items"] = "\n".join(["id,a,b,c", *rows])
    files["users"] = "\n".join(["id", *(f"u{n}" for n in range(USERS))])
    buys = sorted(set(map(tuple, data[BUYS].edge_index.T.tolist())))
    files["buys"] = "\n".join(["src,dst", *(f"u{a},i{b}" for a, b in buys)])
    split = [("train", "train", "val", "test")[n % 4] for n in range(len(buys))]
    links = [f"u{a},i{b},{one}" for (a, b), one in zip(buys, split, strict=True)]
    files["links"] = "\n".join(["src,dst,split", *links])
    places = {name: str(folder / f"{name}.csv") for name in files}
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text + "\n")
    return places


def test_the_command_line_imports_trains_evaluates_and_predicts_by_name(tmp_path):
    files, out, runner = write_tables(tmp_path), tmp_path / "run", CliRunner()

    def call(*words: object) -> str:
        shown = runner.invoke(app, list(map(str, words)))
        assert shown.exit_code == 0, shown.output
        return shown.output

    nodes = ["--nodes", f"user={files['users']}", "--nodes", f"item={files['items']}"]
    edges = ["--edges", f"user,buys,item={files['buys']}"]
    links = ["--label-edges", f"user,buys,item={files['links']}"]
    text = call("data", "import", tmp_path / "store", *nodes, *edges, *links)
    assert "--model rsage --task link --embedding 64" in " ".join(text.split())
    store = load_dataset(tmp_path / "store")
    assert store.label_edges.edge_type == BUYS
    small = ["--layers", 1, "--hidden", 8, "--embedding", 4, "--steps", 4, "--batch-size", 32]
    text = call(
        *("train", "--dataset", tmp_path / "store", "--out", out, "--task", "link"),
        *("--edge-type", "user,buys,item", "--model", "rgat", "--heads", 2, *small),
    )
    assert "Links of user,buys,item; their reverse: item,rev_buys,user." in text
    number = int((store.label_edges.split == 2).sum())
    assert str(number) in call("evaluate", out)
    (tmp_path / "pairs.csv").write_text("src,dst\nu3,i4\nu5,i6\n")
    (tmp_path / "nodes.csv").write_text("node\nu9\n")
    call("predict", out, "--out", tmp_path / "a.csv", "--pairs", tmp_path / "pairs.csv")
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [(row["source"], row["target"]) for row in rows] == [("u3", "i4"), ("u5", "i6")]
    call("predict", out, "--out", tmp_path / "b.csv", "--top", 3, "--nodes", tmp_path / "nodes.csv")
    rows = list(csv.DictReader((tmp_path / "b.csv").read_text().splitlines()))
    assert [row["source"] for row in rows] == ["u9"] * 3
    assert {row["target"][0] for row in rows} == {"i"}
    call("report", out, "--out", tmp_path / "report.html")


def test_given_links_are_those_of_their_relation(tmp_path):
    files = write_tables(tmp_path)
    given = {
        "nodes": {"user": files["users"], "item": files["items"]},
        "edges": {BUYS: files["buys"]},
        "label_edges": {BUYS: files["links"]},
    }
    store = load_dataset(import_graph(tmp_path / "store", **given))
    splits = build_task(TrainConfig.of(**settings()), store).objective.splits
    links = store.label_edges
    for number, name in enumerate(("train", "val", "test")):
        own = links.pairs[:, links.split == number]
        np.testing.assert_array_equal(splits.links(name), np.unique(own, axis=1))
    timed = replace(store, label_edges=replace(links, split=None, time=np.arange(links.split.size)))
    splits = build_task(TrainConfig.of(**settings(split="time")), timed).objective.splits
    np.testing.assert_array_equal(np.unique(splits.test, axis=1)[0], np.sort(splits.test[0]))
    assert splits.test[0].min() >= splits.train[0].max()  # the table is sorted by user
    early = TrainConfig.of(**settings(split="time", windows=2, window=1))
    task = build_task(early, timed)  # links of the second window are neither scored nor seen
    splits, every = task.objective.splits, codes(store.graph, BUYS)
    scored = sum(splits.links(name).shape[1] for name in ("train", "val", "test"))
    assert 0.85 * len(every) < scored < 0.95 * len(every)
    kept = codes(task.graph, BUYS)
    assert kept == set(map(tuple, splits.train.T.tolist()))
    assert codes(task.graph, BOUGHT) == {(v, u) for u, v in kept}
    for label_edges, words in (
        (files["links"], "label_edges='.*' must be files by relation"),
        ({("user", "likes", "item"): files["links"]}, "must be links of one relation: choose one"),
        ({BUYS: files["users"]}, "label_edges"),
    ):
        with pytest.raises(InputError, match=words):
            import_graph(tmp_path / "bad", **given | {"label_edges": label_edges})
    for wrong, words in (
        (LabelEdges(links.pairs), "label_edges are of the relation None, but must be of one of"),
        (replace(links, edge_type=BOUGHT), "not of type 'item', an end of their relation"),
    ):
        with pytest.raises(InputError, match=words):
            replace(store, label_edges=wrong)


def other_name() -> Dataset:
    """Data whose reverse relation has a name of its own."""
    data = shop()
    data["item", "bought_by", "user"].edge_index = data[BUYS].edge_index.flip(0)
    return Dataset.from_data(data)


def test_a_reverse_relation_with_another_name_must_be_named(dataset):
    with pytest.raises(InputError, match="--rev-edge-type item,bought_by,user"):
        build_task(TrainConfig.of(**settings()), other_name())
    named = settings(rev_edge_type=("item", "bought_by", "user"))
    task = build_task(TrainConfig.of(**named), other_name())
    kept = codes(task.graph, ("item", "bought_by", "user"))
    assert kept == {(v, u) for u, v in codes(task.graph, BUYS)}
    assert len(kept) == task.objective.num_seeds


def test_a_relation_may_be_one_text_as_errors_write_it():
    config = TrainConfig.of(**settings(edge_type="user,buys,item"))
    assert config.objective.edge_type == BUYS
    assert build_task(config, DATA).objective.num_seeds > 0


def refusals() -> dict[str, tuple]:
    empty = shop()
    empty["user", "returns", "item"].edge_index = torch.empty(2, 0, dtype=torch.long)
    bare = Dataset.from_data(empty, "bare", undirected=True)
    return {
        "missing": (DATA, {"edge_type": ()}, "edge_type is missing, but 'shop' has 2 relations"),
        "unknown": (
            DATA,
            {"edge_type": ("user", "sells", "item")},
            "edge_type=user,sells,item is not one relation .* choose one of user,buys,item; user,f",
        ),
        "no edges": (bare, {"edge_type": "returns"}, "relation user,returns,item of 'bare' has no"),
        "reverse": (DATA, {"rev_edge_type": "follows"}, "does not lead from item to user"),
        "bipartite": (DATA, {"bipartite": True}, "bipartite=True has no effect on 'shop'"),
        "given": (DATA, {"split": "given"}, "has no splits of links"),
        "time": (DATA, {"split": "time"}, "has no times of links"),
        "candidates": (DATA, {"candidates": "all", "cutoff": 41}, "exceeds the 40 candidates"),
        "model": (DATA, {"model": "sage"}, "choose model rsage or rgat"),
        "names": (DATA, {"edge_type": 3}, "edge_type=3 must be a source type, a name"),
        "node task": (DATA, {"task": "node"}, "is a setting of links"),
    }


@pytest.mark.parametrize("case", refusals())
def test_bad_input_gets_one_sentence(case):
    data, changes, words = refusals()[case]
    with pytest.raises(InputError, match=words):
        build_task(TrainConfig.of(**settings(**changes)), data)


def test_graphs_without_types_have_no_relations(dataset):
    options = {"task": "link", "edge_type": BUYS}
    with pytest.raises(InputError, match="edge_type=user,buys,item names a relation, but"):
        build_task(TrainConfig.of(**options), dataset)
