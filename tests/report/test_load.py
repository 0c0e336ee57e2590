"""What a folder holds says what it is, and what is off is refused before anything is written."""

from __future__ import annotations

import json
import math

import pytest

from bliss.errors import DamagedError, InputError, ResourceError
from bliss.report import save_figures, write_report
from bliss.report.load import Comparison, Reproduction, Run, Variance, load
from tests.report import factory


def change(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_folders_are_told_apart_by_what_they_hold(tmp_path):
    paths = [
        factory.run(tmp_path / "a"),
        factory.comparison(tmp_path / "b"),
        factory.reproduction(tmp_path / "c"),
        factory.variance(tmp_path / "d"),
        factory.variance(tmp_path / "e") / "variance.json",
        factory.variance(factory.run(tmp_path / "f")),
    ]
    kinds = [type(source) for source in load(paths)]
    assert kinds == [Run, Comparison, Reproduction, Variance, Variance, Run, Variance]


def test_a_path_named_twice_is_read_once(tmp_path):
    folder = factory.variance(factory.run(tmp_path / "a"))
    (folder / "checkpoints").mkdir()
    assert len(load([folder, tmp_path / "a" / "checkpoints" / "..", folder / "variance.json"])) == 2


def test_a_run_is_unfinished_until_its_result_is_there(tmp_path):
    (run,) = load([factory.run(tmp_path, finished=False)])
    assert run.result is None
    assert len(run.metrics) == 9


def test_only_the_last_line_of_metrics_may_be_cut_short(tmp_path):
    metrics = factory.run(tmp_path) / "metrics.jsonl"
    whole = metrics.read_text().splitlines()
    metrics.write_text("\n".join([*whole, '{"step": 32']))
    (run,) = load([tmp_path])
    assert len(run.metrics) == len(whole)
    metrics.write_text("\n".join([whole[0], '{"step": 32', *whole[1:]]))
    with pytest.raises(DamagedError, match="line 2"):
        load([tmp_path])


@pytest.mark.parametrize("value", ["null", "NaN", "Infinity", "1" + "0" * 400])
def test_a_number_may_be_no_number(tmp_path, value):
    factory.run(tmp_path)
    (tmp_path / "result.json").write_text(f'{{"test_f1": {value}}}')
    (run,) = load([tmp_path])
    assert not math.isfinite(run.result.test_f1)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[1]", "JSON object"),
        ('{"kind": "variance"}', "kind"),
        ('{"kind": "comparison", "dataset": "x"}', "lacks rows"),
        ('{"kind": "comparison", "dataset": 3, "rows": []}', "dataset is 3, not text"),
        ('{"kind": "comparison", "dataset": "x", "rows": [{"dataset": "x"}]}', r"rows\[0\] lacks"),
        ('{"kind": "comparison", "dataset": "x", "rows": {}}', "rows is {}, not a list"),
    ],
)
def test_a_damaged_comparison_is_refused(tmp_path, text, part):
    (tmp_path / "compare.json").write_text(text)
    with pytest.raises(DamagedError, match=part) as refusal:
        load([tmp_path])
    assert str(tmp_path / "compare.json") in str(refusal.value)
    assert "anew" in str(refusal.value)


def test_numbers_of_the_wrong_kind_are_refused(tmp_path):
    row = json.loads((factory.comparison(tmp_path) / "compare.json").read_text())["rows"][0]
    for values, part in (
        ({"test_f1": "high"}, "test_f1 is 'high', not a number"),
        ({"test_f1": True}, "test_f1 is True, not a number"),
        ({"curve": {"step": [1, 2], "loss": [1.0]}}, "1 values of loss for 2 steps"),
    ):
        change(tmp_path / "compare.json", rows=[row | values])
        with pytest.raises(DamagedError, match=part):
            load([tmp_path])


def test_layers_and_points_that_do_not_fit_are_refused(tmp_path):
    factory.variance(tmp_path / "a", history=[{"step": 1, "layers": []}])
    growth = {"quantity": "time", "sampler": "x", "grows_with": "edges", "points": [[1, 2, 3]]}
    factory.reproduction(tmp_path / "b", tables={"variance": [growth]})
    for name, part in (("a", "0 layers in the history of step 1, but 3"), ("b", "not pairs")):
        with pytest.raises(DamagedError, match=part):
            load([tmp_path / name])


def test_what_holds_no_results_is_refused_and_nothing_written(tmp_path):
    out = tmp_path / "report.html"
    good = factory.run(tmp_path / "good")
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.json").write_text('{"kind": "recipe"}')
    cases = {
        "does not exist": [good, tmp_path / "nowhere"],
        "holds no results": [good, tmp_path / "empty"],
        "kind 'recipe'": [good, tmp_path / "other.json"],
        "nothing to report": [],
    }
    for part, paths in cases.items():
        with pytest.raises(InputError, match=part):
            write_report(paths, out)
        with pytest.raises(InputError, match=part):
            save_figures(paths, tmp_path / "figures")
    assert not out.exists()
    assert not (tmp_path / "figures").exists()


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    run = factory.run(tmp_path / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot be written"):
        write_report([run], tmp_path / "file" / "report.html")
    with pytest.raises(InputError, match="is a folder"):
        write_report([run], tmp_path)


def test_a_failed_write_leaves_the_old_page_and_no_scraps(tmp_path, monkeypatch):
    run, out = factory.run(tmp_path / "run"), tmp_path / "out" / "report.html"
    write_report([run], out)
    before = out.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(ResourceError, match="make room"):
        write_report([run], out)
    assert out.read_bytes() == before
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]
