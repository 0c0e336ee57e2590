"""Training on graphs with types: runs, predictions, stores, and bad input."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from bliss.data import Dataset, describe, open_store, save_dataset, summary_rows
from bliss.data.typed_nodes import TypedNodes
from bliss.errors import InputError, TruncatedError
from bliss.nn import infer
from bliss.samplers import PLADIES, Full
from bliss.storage import mapped
from bliss.storage.mapped import RowReader
from bliss.studies import VarianceStudy, advise
from bliss.train import Stepper, TrainConfig, build_task, load, predict, train
from bliss.train.evaluation import evaluate_sampled, on_blocks
from tests.build import make_dataset
from tests.train.runs import assert_same_run, quiet
from tests.types.graphs import hetero, typed_dataset

DATA = typed_dataset()
SETTINGS = {
    "layers": 2,
    "hidden": 16,
    "heads": 2,
    "embedding": 6,
    "budgets": (30, 20),
    "batch_size": 24,
    "steps": 40,
    "evaluate_every": 20,
    "lr": 0.02,
}


def settings(**changes) -> dict:
    return SETTINGS | {"model": "rsage"} | changes


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("typed")
    save_dataset(DATA, folder / "store")
    result = train(open_store(folder / "store"), folder / "run", say=quiet, **settings())
    return folder, result


def test_a_network_learns_from_the_authors_of_papers(run):
    folder, result = run
    assert result.test_score > 0.8  # the papers' own features are noise: chance is 1/3
    table = predict(folder / "run", DATA, nodes="test")
    wanted = DATA.y[DATA.splits["test"]].numpy()
    assert np.mean(np.array(table["label"]) == wanted) == pytest.approx(result.test_score)
    assert len(predict(folder / "run", DATA)["node"]) == 120  # papers alone
    assert max(table["node"]) < 120


def test_a_run_can_be_opened_without_its_data(run):
    folder, _ = run
    opened = load(folder / "run")
    assert opened.data.node_types == {"author": 4, "paper": 6, "venue": 0}
    assert opened.data.node_type == "paper"
    assert opened.embedding.shape == (5, 6)
    task = opened.task(DATA)
    torch.testing.assert_close(task.everywhere().shape, torch.Size([245, 16]))


@pytest.mark.slow
def test_a_first_hop_of_features_trains_and_studies_measure_histories(tmp_path):
    """Without a type without features: projections are linear, and the input layer not sampled."""
    typed = Dataset.from_data(hetero(), "toy", splits=(0.5, 0.3, 0.2))
    options = settings(embedding=0, projection="linear", budgets=(20,), steps=6, evaluate_every=3)
    result = train(typed, tmp_path / "run", say=quiet, **options)  # first_hop auto
    task = build_task(TrainConfig.of(**options), typed)
    assert task.config.sampler.config.first_hop == "exact"
    stepper = Stepper(task)
    (batch,) = next(stepper.batches())
    assert batch.blocks[0].num_edges == 0
    full = Full(task.graph, layers=2).sample(batch.blocks[-1].dst, 0)
    model = task.model.eval()
    everywhere = infer(model, task.graph, task.everywhere())
    torch.testing.assert_close(
        model(task.at(full[0]), full), everywhere[full[-1].dst], rtol=1e-4, atol=1e-5
    )
    assert np.isfinite(result.test_score)
    given = {"model": "rsage", "steps": 4, "batch_size": 8, "layers": 2, "hidden": 8}
    config = TrainConfig.of(**given, budgets=(20, 10), first_hop="sampled")
    study = VarianceStudy(config, typed, ("node",), every=2, history=True)
    record = study.run()
    changes = [layer.policies["node+history"] for layer in record.history[-1].layers]
    assert all(one > 0 for one in changes)  # of both layers
    asked = given | {"sampler": "bliss", "history": "nodes"}
    advice = advise(asked | {"embedding": 6, "lr": 0.02}, DATA, pilot_steps=10, compare=False)
    assert advice.choice is not None
    assert (advice.choice.history, len(advice.choice.budgets)) == ("nodes", 2)


BY_TYPE = {"author": 20, "paper": 15, "venue": 3}
BY_RELATION = {",".join(one): 2 for one in DATA.graph.types.edge_types} | {"cites": -1}
RESUMED = {
    "rsage": {},
    "rgat": {"model": "rgat"},
    "history": {"history": "nodes", "dropout": 0.2},
    "budgets by type": {"budgets": (BY_TYPE, 20)},
    "fanouts by relation": {"sampler": "neighbor", "budgets": (BY_RELATION, 3)},
    "vrgcn": {"sampler": "vrgcn", "budgets": (2, 2), "history_type": "float16"},
}


@pytest.mark.parametrize("case", RESUMED)
def test_a_resumed_run_ends_with_the_same_bits(tmp_path, case):
    options = settings(**{"steps": 8, "evaluate_every": 4, "shards": 2, **RESUMED[case]})
    train(DATA, tmp_path / "whole", say=quiet, **options)
    train(DATA, tmp_path / "parts", say=quiet, **options | {"steps": 4})
    train(DATA, tmp_path / "parts", say=quiet, resume=True, **options)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_budgets_of_a_run_are_those_of_its_sampler():
    """From JSON, too; a relation may be a tuple, its names in one text, or its only name."""
    by_relation = {tuple(name.split(",")): number for name, number in BY_RELATION.items()}
    for budgets, sampler in (((BY_TYPE, 20), "pladies"), ((by_relation, 3), "neighbor")):
        config = TrainConfig.of(**settings(sampler=sampler, budgets=budgets))
        again = TrainConfig.from_dict(json.loads(json.dumps(config.to_dict())))
        assert again == config
        drawn = Stepper(build_task(again, DATA)).sampler
        own = config.sampler.config.build(DATA.graph, list(budgets), layers=2)
        np.testing.assert_array_equal(drawn.divided[0], own.divided[0])
        assert (drawn.divided[1], drawn.budgets) == (None, own.budgets)
    assert drawn.divided[0].max() == DATA.graph.num_edges  # cites: all


def test_a_step_changes_the_embedding_of_the_drawn_nodes_alone():
    task = build_task(TrainConfig.of(**settings(budgets=(2, 2), batch_size=2)), DATA)
    stepper = Stepper(task)
    before = task.embedding.value.clone()
    batch = next(stepper.batches())[0]
    stepper.step([batch])
    changed = (task.embedding.value != before).any(1).nonzero()[:, 0]
    drawn = batch["venue"].n_id
    assert 0 < len(drawn) < 5
    assert set(changed.tolist()) <= set(drawn.tolist())
    torch.testing.assert_close(task.typed.x["venue"], task.embedding.value)


def test_sampled_evaluation_and_split_evaluation_agree_with_full_ones(tmp_path):
    options = settings(sampler="full", budgets=(), steps=4, evaluate_every=4)
    scores = {
        mode: train(DATA, tmp_path / mode, say=quiet, evaluate=mode, **options).val_score
        for mode in ("full", "split", "sampled")
    }
    assert len(set(scores.values())) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="maps are found in /proc")
def test_evaluation_on_blocks_reads_mapped_rows_as_loaders_do(tmp_path, monkeypatch):
    """The same scores from the files as from the maps; a file that was cut is named."""
    store = save_dataset(typed_dataset(600), tmp_path / "store")
    config = TrainConfig.of(**settings(features="raw"))
    calls, call = [], RowReader.__call__

    def counted(self, ids):
        calls.append(self.file.path.name)
        return call(self, ids)

    monkeypatch.setattr(RowReader, "__call__", counted)
    scores = []
    for limit in (2**40, 1):
        assert not calls
        monkeypatch.setattr(mapped, "memory_limit", lambda limit=limit: limit)
        task = build_task(config, open_store(store))
        sampler = PLADIES(task.graph, [30, 20])
        scores.append(evaluate_sampled(task, sampler, ("val",)))
    assert scores[0] == scores[1]
    assert len(set(calls)) == 2  # files of authors and papers
    monkeypatch.setattr(mapped, "memory_limit", lambda: 2**40)
    run, blocks = on_blocks(task, sampler), sampler.sample(task.dataset.splits["val"][:5], 0)
    run(blocks)
    path = store / calls[0]
    os.truncate(path, path.stat().st_size - 1)  # its pages stay readable
    with pytest.raises(TruncatedError, match=f"{path.name} had .* and was cut to"):
        run(blocks)


def test_a_store_holds_every_type(tmp_path):
    typed = DATA.typed
    half = TypedNodes(typed.x | {"author": typed.x["author"].half()}, "paper")
    save_dataset(replace(DATA, typed=half), tmp_path / "store")
    opened = open_store(tmp_path / "store")
    assert opened.typed.x["author"].dtype == torch.float16
    assert opened.typed.widths == typed.widths
    assert torch.equal(opened.typed.x["paper"], typed.x["paper"])
    assert opened.graph.types.edge_types == DATA.graph.types.edge_types
    for ours, theirs in zip(opened.graph.types.arrays, DATA.graph.types.arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    rows = dict(summary_rows(describe(opened)))
    assert rows["type paper"] == "120 nodes, 6 features, labels"
    assert rows["type venue"] == "5 nodes, no features"
    assert "(author, writes, paper)" in rows["relation 1"]


@pytest.mark.parametrize("part", ["group_relation", "group_start", "indices"])
def test_a_damaged_store_is_refused(tmp_path, part):
    graph = DATA.graph
    wrong = np.array(getattr(graph.types, part) if part != "indices" else graph.indices)
    wrong[3 if part == "group_start" else -1] = 4 if part != "indices" else 0
    changed = replace(graph.types, **{part: wrong}) if part != "indices" else graph.types
    from bliss.graph.type_checks import check_types

    check_types(graph.types, graph.indptr, graph.indices)
    with pytest.raises(InputError, match="types of the graph are damaged"):
        check_types(changed, graph.indptr, wrong if part == "indices" else graph.indices)


BAD_BUDGETS = {
    "unknown type": (DATA, ({"editor": 3}, 4), {}, "'editor' is not a type of nodes"),
    "no entry": (DATA, ({"author": 3, "paper": 4}, 4), {}, "no entry for type 'venue'"),
    "layers": (DATA, (BY_TYPE,), {}, r"budgets=\[\{'author': 20.* has 1 entries for 2 layers"),
    "zero": (DATA, (BY_TYPE | {"venue": 0}, 4), {}, r"budgets\[0\]\['venue'\]=0 must be at least"),
    "sampler": (DATA, (BY_TYPE, 4), {"sampler": "fastgcn"}, "FastGCN has one budget for all types"),
    "relation": (DATA, ({"cites": 3}, 4), {"sampler": "neighbor"}, "no entry for relation"),
    "plain graph": (
        make_dataset(),
        (BY_TYPE, 4),
        {"model": "sage"},
        "the graph has no types of nodes and edges",
    ),
    "no budgets": (DATA, (BY_TYPE, 4), {"sampler": "full"}, "would have no effect"),
}


def refusals() -> dict[str, tuple]:
    plain = hetero()
    unlabelled = Dataset.from_data(plain, "toy", node_type="author")
    labelled = Dataset.from_data(plain, "toy", splits=(0.5, 0.3, 0.2))
    data = hetero()
    for name in ("author", "venue"):
        data[name].num_nodes = data[name].x.size(0)
        del data[name].x
    bare = Dataset.from_data(data, "toy")
    return {
        "model": (DATA, {"model": "sage"}, "has types of nodes and edges, which model='sage'"),
        "embedding": (
            DATA,
            {"embedding": 0},
            r"type venue of 'types' has no features: .* embedding=64 \(--embedding 64\)",
        ),
        "embeddings": (
            bare,
            {"embedding": 0},
            r"types author, venue of 'toy' have no features: .* \(--embedding 64\)",
        ),
        **{
            f"budgets, {name}": (data, {"budgets": budgets} | more, message)
            for name, (data, budgets, more, message) in BAD_BUDGETS.items()
        },
        "no need": (labelled, {}, "embedding=6 has no effect, because all types"),
        "labels": (unlabelled, {"embedding": 0}, "type 'author' of 'toy' has no labels"),
        "loops": (DATA, {"self_loops": "remove"}, "self_loops='remove' has no effect"),
        "first hop": (DATA, {"first_hop": "exact", "budgets": (20,)}, "cannot be exact"),
        "learnt rows": (
            DATA,
            {"first_hop": "exact", "budgets": (20,), "projection": "linear"},
            "is learnt, but",
        ),
        "subgraphs": (DATA, {"sampler": "saint-rw", "budgets": ()}, "the graph has types"),
    }


@pytest.mark.parametrize("case", refusals())
def test_bad_input_gets_one_sentence(tmp_path, case):
    dataset, changes, message = refusals()[case]
    with pytest.raises(InputError, match=message):
        train(dataset, tmp_path / "run", say=quiet, **settings(**changes))


def test_types_that_do_not_fit_a_run_are_named(run, dataset):
    folder, _ = run
    with pytest.raises(InputError, match="has no types, but the run"):
        predict(folder / "run", dataset)
    data = HeteroData()
    data["paper"].x, data["paper"].y = torch.zeros(3, 6), torch.zeros(3, dtype=torch.long)
    data["paper", "cites", "paper"].edge_index = torch.zeros(2, 1, dtype=torch.long)
    other = Dataset.from_data(data, "other")
    with pytest.raises(InputError, match=r"the types paper \(6 features\) and the relations paper"):
        predict(folder / "run", other)


def test_one_type_has_the_labels():
    data = hetero()
    data["author"].y = torch.zeros(40, dtype=torch.long)
    with pytest.raises(InputError, match="types author, paper have labels, but one type is learnt"):
        Dataset.from_data(data)
    assert Dataset.from_data(data, node_type="author").typed.node_type == "author"
    del data["author"].y, data["paper"].y
    unlabelled = Dataset.from_data(data)  # for links
    assert (unlabelled.typed.node_type, unlabelled.num_outputs) == ("author", 0)
    with pytest.raises(InputError, match="node_type='editor' is not a type of nodes"):
        Dataset.from_data(data, node_type="editor")
