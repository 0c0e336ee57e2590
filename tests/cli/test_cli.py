"""The command line: what a person types, what they read, and the code it ends with."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

import bliss as package
from bliss.cli import app, console
from bliss.samplers import SamplerConfig
from bliss.storage.digests import sealed
from bliss.studies import StudyProgress
from bliss.train import RunFolder, StepProgress

pytestmark = pytest.mark.slow

SMALL = ["--steps", "20", "--hidden", "16", "--evaluate-every", "10", "--budgets", "200,100,50"]


def bliss(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A person's own graph: two groups, edges within them, features that tell little."""
    folder = tmp_path_factory.mktemp("own")
    random = np.random.default_rng(0)
    group = random.integers(0, 2, 200)
    pairs = random.integers(0, 200, (2, 3000))
    pairs = pairs[:, group[pairs[0]] == group[pairs[1]]]
    np.save(folder / "edges.npy", pairs)
    np.save(folder / "features.npy", (group[:, None] + random.normal(0, 2, (200, 4))).astype("f4"))
    np.save(folder / "labels.npy", group)
    return folder


@pytest.fixture(scope="module")
def store(own):
    out = own / "store"
    result = bliss(
        "data", "import", out, "--edges", own / "edges.npy", "--features", own / "features.npy",
        "--labels", own / "labels.npy",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture(scope="module")
def run(store, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    result = bliss("train", "--dataset", store, "--out", out, *SMALL)
    assert result.exit_code == 0, result.output
    return out


def test_a_person_gets_from_files_to_predictions_without_writing_python(run, tmp_path, own):
    result = json.loads((run / "result.json").read_text())
    wanted = {"dataset", "model", "sampler", "policy", "seed", "steps", "train_score", "val_score"}
    assert wanted | {"test_score", "seconds", "step_ms"} <= set(result)
    evaluated = bliss("evaluate", run)
    assert f"{result['test_score']:.4f}" in evaluated.output
    for suffix in ("csv", "parquet"):
        out = tmp_path / f"predictions.{suffix}"
        assert bliss("predict", run, "--out", out).exit_code == 0
        assert out.exists()
    rows = list(csv.DictReader((tmp_path / "predictions.csv").read_text().splitlines()))
    assert [int(row["node"]) for row in rows] == list(range(200))
    right = np.array([int(row["label"]) for row in rows]) == np.load(own / "labels.npy")
    assert right.mean() > 0.8
    assert all(0.5 <= float(row["probability"]) <= 1 for row in rows)


def test_train_alone_runs_the_embedded_default(tmp_path):
    result = bliss("train", "--out", tmp_path / "run", "--steps", "3", "--hidden", "8")
    assert result.exit_code == 0, result.output
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    chosen = written["dataset"], written["model"], written["sampler"], written["policy"]
    assert chosen == ("synthetic", "sage", "bliss", "node")


def test_a_finished_run_needs_resume_and_the_same_settings(run, store):
    again = bliss("train", "--dataset", store, "--out", run, *SMALL)
    assert again.exit_code == 2
    assert "pass --resume" in " ".join(again.stderr.split())
    other = bliss("train", "--dataset", store, "--out", run, *SMALL, "--resume", "--lr", "0.5")
    assert other.exit_code == 2
    assert "lr: 0.5, 0.002" in " ".join(other.stderr.split())
    same = bliss("train", "--dataset", store, "--out", run, *SMALL, "--resume")
    assert same.exit_code == 0, same.output


def test_data_can_be_listed_and_described(store):
    listed = bliss("data", "list")
    for name in ("cora", "reddit2", "ogbn-products", "synthetic"):
        assert name in listed.output
    described = bliss("data", "info", store).output
    assert "200" in described
    assert re.search(r"classes\W+2 \(0: \d+, 1: \d+\)", described)
    assert re.search(r"direction\W+one way: \d+\.\d% of the edges", described)
    assert re.search(r"splits\W+train 120, val 40, test 40", described)
    assert "{" not in described
    assert re.search(r"mean \d+\.\d, median", bliss("data", "info", "synthetic").output)


def test_names_of_nodes_and_classes_come_back_with_the_predictions(own, tmp_path):
    names = [f"Node, {place}" for place in range(200)]
    group, x = np.load(own / "labels.npy"), np.load(own / "features.npy")
    kinds = ["ash", "beech"]
    rows = [
        [name, *values, kinds[label]]
        for name, values, label in zip(names, x.tolist(), group.tolist(), strict=True)
    ]
    order = np.random.default_rng(0).permutation(200)
    with open(tmp_path / "nodes.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "a", "b", "c", "d", "tree"], *(rows[p] for p in order)])
    with open(tmp_path / "edges.csv", "w", newline="") as file:
        pairs = np.load(own / "edges.npy").T.tolist()
        csv.writer(file).writerows([["from", "to"], *([names[s], names[t]] for s, t in pairs)])
    nodes = tmp_path / "nodes.csv"
    imported = bliss(
        "data", "import", tmp_path / "s", "--edges", tmp_path / "edges.csv", "--features", nodes,
        "--labels", nodes, "--label", "tree", "--undirected",
    )  # fmt: skip
    assert imported.exit_code == 0, imported.output
    assert re.search(r"classes\W+2 \(ash: \d+, beech: \d+\)", imported.output)
    assert "the reverse of each edge was added" in imported.output
    options = [*SMALL, "--class-weights", "balanced"]
    trained = bliss("train", "--dataset", tmp_path / "s", "--out", tmp_path / "r", *options)
    assert trained.exit_code == 0, trained.output
    assert bliss("predict", tmp_path / "r", "--out", tmp_path / "p.csv").exit_code == 0
    found = {
        row["node"]: row["label"]
        for row in csv.DictReader((tmp_path / "p.csv").read_text().splitlines())
    }
    assert set(found) == set(names)
    right = [found[name] == kinds[label] for name, label in zip(names, group, strict=True)]
    assert np.mean(right) > 0.8


def test_data_can_be_verified(run, store, tmp_path, monkeypatch):
    assert "9 files match their digests." in bliss("data", "verify", store).output
    told = bliss("data", "verify", "synthetic").output
    assert "0 files match" in told
    monkeypatch.setattr("bliss.data.manifest.SMALL", 0)  # all files count as large
    assert bliss("evaluate", run, "--verify").exit_code == 0
    features = store / "features.npy"
    content, time = features.read_bytes(), features.stat().st_mtime_ns
    features.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(features, ns=(time, time))
    for command in (
        ("evaluate", run),  # its time of change differs from the stamp
        ("data", "verify", store),
        ("evaluate", run, "--verify"),
        ("predict", run, "--out", tmp_path / "p.csv", "--verify"),
        ("train", "--dataset", store, "--out", tmp_path / "run", "--verify"),
    ):
        result = bliss(*command)
        assert result.exit_code == 3
        assert "features.npy does not match its digest" in " ".join(result.stderr.split())
    features.write_bytes(content)


def test_evaluate_and_predict_build_no_sampler_policy_or_optimiser(run, tmp_path, monkeypatch):
    expected = bliss("evaluate", run).output

    def fail(*_, **__):
        raise AssertionError("evaluation trains nothing")

    monkeypatch.setattr(SamplerConfig, "build", fail)
    monkeypatch.setattr("bliss.policies.configs.PolicyConfig.build", fail)
    monkeypatch.setattr(torch.optim, "Adam", fail)
    evaluated = bliss("evaluate", run)
    assert evaluated.exit_code == 0, evaluated.output
    assert evaluated.output == expected
    assert bliss("predict", run, "--out", tmp_path / "p.csv").exit_code == 0
    command = ["train", "--out", str(tmp_path), "--debug"]
    with pytest.raises(AssertionError, match="evaluation trains nothing"):  # they would be seen
        CliRunner().invoke(app, command, catch_exceptions=False)


def test_a_run_can_be_extended_by_more_steps(run, store, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    command = ["train", "--dataset", store, "--out", copy, *SMALL, "--resume", "--steps"]
    fewer = bliss(*command, "10")
    assert fewer.exit_code == 2
    assert "steps: 10, 20" in " ".join(fewer.stderr.split())
    more = bliss(*command, "30")
    assert more.exit_code == 0, more.output
    assert "Resuming after step 20." in more.output
    assert json.loads((copy / "result.json").read_text())["steps"] == 30


@pytest.mark.parametrize(
    ("sampler", "folder"), [("labor-*", "store-sage-labor-star-3"), ("full", "store-sage-full-3")]
)
def test_the_default_folder_names_data_network_sampler_and_seed(
    store, tmp_path, monkeypatch, sampler, folder
):
    monkeypatch.chdir(tmp_path)
    options = ["--sampler", sampler, "--seed", "3", "--steps", "1", "--hidden", "8"]
    result = bliss("train", "--dataset", store, *options)
    assert result.exit_code == 0, result.output
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [folder]
    assert f"Written to runs/{folder}" in result.output


def test_early_stopping_is_announced_with_its_step(store, tmp_path):
    result = bliss(
        "train", "--dataset", store, "--out", tmp_path / "run", "--lr", "1e-12", "--patience", "2",
        "--steps", "100", "--evaluate-every", "5", "--hidden", "8",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    steps = json.loads((tmp_path / "run" / "result.json").read_text())["steps"]
    assert f"Stopped early at step {steps}: no better validation F1 in 2 evaluations" in (
        " ".join(result.output.split())
    )


def test_lines_of_a_log_show_the_step_of_the_score(run, store, tmp_path):
    options = [*SMALL, "--evaluate-every", "8", "--steps", "20"]
    lines = bliss("train", "--dataset", store, "--out", tmp_path / "run", *options).output
    found = dict(re.findall(r"step (\d+)/20  loss [\d.]+(.*)", lines))
    assert list(found) == [str(step) for step in range(2, 21, 2)]
    assert found["6"] == ""
    assert re.fullmatch(r"  val F1 [01]\.\d{4}", found["8"])
    assert re.fullmatch(r"  val F1 [01]\.\d{4} \(step 8\)", found["10"])
    assert found["10"].startswith(found["8"])
    assert re.fullmatch(r"  val F1 [01]\.\d{4}", found["20"])


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", [[], ["train"], ["data"], ["data", "list"]])
def test_every_command_has_short_and_long_help(command, flag):
    result = bliss(*command, flag)
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_version_is_the_packages():
    result = bliss("--version")
    assert result.exit_code == 0
    assert result.output == f"bliss {package.__version__}\n"


WRONG = {
    "unknown data": (["train", "--dataset", "nowhere"], 2, "nowhere"),
    "unknown model": (["train", "--model", "gin"], 2, "model='gin'"),
    "bad budgets": (["train", "--budgets", "a,b"], 2, "budgets='a,b'"),
    "budgets of other layers": (["train", "--budgets", "5"], 2, "1 entries for 2 layers"),
    "an option of another sampler": (
        ["train", "--sampler", "neighbor", "--memory", "0.5"],
        2,
        "memory=0.5 is not an option of Neighbor",
    ),
    "an option the name fixes": (
        ["train", "--sampler", "labor-1", "--iterations", "3"],
        2,
        "iterations=3 contradicts sampler 'labor-1'",
    ),
    "an option's value": (
        ["train", "--sampler", "labor", "--iterations", "soon"],
        2,
        "iterations='soon' is not valid",
    ),
    "an option that is no number": (["train", "--eta", "much"], 2, "'--eta'"),
    "an option that is none": (["train", "--sampler-options", "eta=1"], 2, "No such option"),
    "no threads": (["train", "--threads", "0"], 2, "threads=0 must be at least 1: pass"),
    "not a run": (["evaluate", "nowhere"], 2, "is not the folder of a run"),
    "wrong kind of file": (["predict", "nowhere", "--out", "a.txt"], 2, "must end in .csv"),
    "half a split": (
        ["data", "import", "x", "--edges", "a", "--features", "b", "--train-nodes", "c"],
        2,
        "--val-nodes, --test-nodes is missing",
    ),
    "no GPU": (["train", "--device", "cuda", "--steps", "1"], 4, "torch sees no GPU"),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_are_one_sentence_and_a_code(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, code, message = WRONG[case]
    result = bliss(*arguments)
    assert result.exit_code == code
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_damaged_state_has_a_code_of_its_own(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "best.safetensors").write_bytes(b"nothing")
    assert bliss("evaluate", copy).exit_code == 3
    told = " ".join(bliss("evaluate", copy).stderr.split())
    assert "cannot be read" in told
    assert "changed?" not in told
    settings = json.loads((copy / "config.json").read_text())
    for damage in ({"sampler": None}, {"network": {"model": "gin"}}, {"unheard": 1}):
        (copy / "config.json").write_text(json.dumps(settings | damage))
        assert bliss("evaluate", copy).exit_code == 3
    (copy / "config.json").write_text("{")
    assert bliss("evaluate", copy).exit_code == 3


def test_settings_that_the_weights_were_not_trained_with_are_refused(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    settings = RunFolder(copy).settings()

    def write(**change):
        changed = settings.with_settings(**change).to_dict()
        (copy / "config.json").write_text(json.dumps(changed))

    for change in ({"hidden": 8}, {"hidden": 10**9}, {"dropout": 0.5}, {"seed": 1}):
        write(**change)
        result = bliss("evaluate", copy)
        assert result.exit_code == 3
        assert "with other settings than those in config.json" in " ".join(result.stderr.split())
    write(steps=30)
    assert bliss("evaluate", copy).exit_code == 0


def test_data_of_other_sizes_are_named_in_one_line(run, own, tmp_path):
    wide = tmp_path / "wide.npy"
    np.save(wide, np.zeros((200, 5), np.float32))
    files = ["--edges", own / "edges.npy", "--features", wide, "--labels", own / "labels.npy"]
    assert bliss("data", "import", tmp_path / "store", *files).exit_code == 0
    copy = shutil.copytree(run, tmp_path / "copy")
    settings = json.loads((copy / "config.json").read_text())
    settings["data"]["dataset"] = str(tmp_path / "store")  # a data set may be moved
    (copy / "config.json").write_text(json.dumps(settings))
    result = bliss("evaluate", copy)
    assert result.exit_code == 2
    assert "has 5 features, but the run in" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_memory_that_is_not_there_is_a_matter_of_resources(tmp_path):
    out = ["--out", tmp_path / "run", "--steps", "1"]
    for hidden in (10**12, 10**18):  # petabytes, and more than there are addresses
        result = bliss("train", "--hidden", hidden, *out)
        assert result.exit_code == 4
        assert "not have enough memory" in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


FAULTS = {
    "torch": (
        RuntimeError("shape mismatch\nof sorts"),
        1,
        "RuntimeError (shape mismatch)",
    ),
    "empty": (
        KeyError(),
        1,
        "KeyError (no message): this is a bug in bliss",
    ),
    "recursion": (RecursionError("deep"), 1, "RecursionError (deep): this is a bug in bliss"),
    "disk": (OSError(5, "Input/output error", "x.npy"), 4, "x.npy cannot be used (Input/output"),
    "memory": (MemoryError(), 4, "not have enough memory"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_no_error_shows_a_traceback_unless_asked(case, capsys):
    error, code, message = FAULTS[case]
    with pytest.raises(SystemExit) as left, console.errors(debug=False):
        raise error
    assert left.value.code == code
    told = capsys.readouterr().err
    assert f"Error: {message}" in told or message in told
    assert len(told.splitlines()) == 1
    with pytest.raises(type(error)), console.errors(debug=True):
        raise error


def test_a_diverged_run_ends_in_a_sentence(store, tmp_path):
    out = ["--out", tmp_path / "run"]
    result = bliss("train", "--dataset", store, "--lr", "1e30", *SMALL, *out)
    assert result.exit_code == 2
    assert "the network has diverged, lower lr (now 1e+30)" in " ".join(result.stderr.split())


def test_the_end_of_a_pipe_is_no_fault():
    with pytest.raises(BrokenPipeError), console.errors(debug=False):
        raise BrokenPipeError


ODD = "a\x1b]0;title\x07\x1b[31m[/b][red]:bomb:\x9b\u202e\ud800\nz"
SHOWN = r"a\x1b]0;title\x07\x1b[31m[/b][red]:bomb:\x9b\u202e\ud800\nz"


def test_text_from_files_cannot_steer_the_terminal(store, tmp_path):
    copy = shutil.copytree(store, tmp_path / "copy")
    header = json.loads((copy / "dataset.json").read_text()) | {"name": ODD}
    del header["digest"]
    (copy / "dataset.json").write_text(json.dumps(sealed(header)))
    told = bliss("data", "info", copy)
    assert told.exit_code == 0, told.output
    assert SHOWN in told.output
    table = tmp_path / "edges.csv"
    table.write_text("src,\x1b[31m[/b],dst\n0,1,2\n")
    files = ["--edges", table, "--features", tmp_path / "x.npy"]
    np.save(tmp_path / "x.npy", np.eye(3))
    imported = bliss("data", "import", tmp_path / "new", *files)
    assert imported.exit_code == 0, imported.output
    assert r"not used: \x1b[31m[/b]" in imported.output
    for text in (told.output, imported.output):
        assert "\x1b" not in text


@pytest.mark.parametrize("live", [False, True])
def test_names_in_tables_lines_and_bars_are_shown_as_they_are(monkeypatch, live):
    screen = io.StringIO()
    terminal = console.make_console(file=screen, force_terminal=live, width=200, color_system=None)
    monkeypatch.setattr(console, "console", lambda: terminal)
    table = Table(ODD, title=ODD)
    table.add_row(ODD)
    terminal.print(table)
    console.say(ODD)
    with console.shown_study() as move:
        move(StudyProgress(1, 2, ODD, True))
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())  # of the bar itself
    assert text.count(SHOWN) >= 5
    assert "\x1b" not in text
    assert "\x07" not in text


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--out", ""],
        ["compare", "--out", ""],
        ["report", "x", "--figures", ""],
        ["data", "import", "", "--edges", "e.npy", "--features", "f.npy"],
    ],
    ids=lambda command: command[0],
)
def test_an_empty_name_is_not_the_current_folder(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = bliss(*command)
    assert result.exit_code == 2
    assert "the name is empty" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_names_may_be_in_any_case(tmp_path):
    out = ["--out", tmp_path / "run", *SMALL]
    result = bliss("train", "--dataset", "Synthetic", "--model", "SAGE", "--sampler", "Bliss", *out)
    assert result.exit_code == 0, result.output
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (written["dataset"], written["model"], written["sampler"]) == (
        "synthetic", "sage", "bliss"
    )  # fmt: skip
    assert bliss("train", "--dataset", "synthetic", *out, "--resume").exit_code == 0


def test_a_store_named_like_a_data_set_is_shown_as_a_path(own, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = ["--edges", own / "edges.npy", "--features", own / "features.npy"]
    told = bliss("data", "import", "Cora", *files).output
    assert "--dataset ./Cora" in told
    assert "--dataset mine" in bliss("data", "import", "mine", *files).output
    refused = bliss("data", "import", "other", *files, "--seed", "-1")
    assert refused.exit_code == 2
    assert not (tmp_path / "other").exists()


def test_debug_shows_the_traceback(tmp_path):
    result = bliss("train", "--model", "gin", "--debug")
    assert result.exception is not None
    assert result.exit_code == 1


def test_a_terminal_shows_a_live_bar_with_loss_f1_speed_and_time_left(monkeypatch):
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr(console, "console", lambda: terminal)
    with console.shown(4) as move:
        for step in range(1, 5):
            score = 0.25 if step > 2 else float("nan")
            move(StepProgress(step, 4, 0.5, 3 if step > 2 else 0, score))
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    for part in ("4/4", "loss 0.5000", "val F1 0.2500 (step 3)", "steps/s", "0:00:00"):
        assert part in text
    assert "nan" not in text


def test_the_module_is_the_command():
    helped = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "bliss", "--help"], capture_output=True, text=True
    )
    assert helped.returncode == 0
    for command in (
        "train",
        "evaluate",
        "predict",
        "data",
        "compare",
        "variance",
        "report",
    ):
        assert command in helped.stdout
