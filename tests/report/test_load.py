"""The files in a folder determine its kind; damaged ones are refused before anything is written."""

from __future__ import annotations

import json

import pytest

from bliss.errors import DamagedError, InputError, ResourceError
from bliss.report import save_figures, write_report
from bliss.report.load import load
from tests.report import factory

pytestmark = pytest.mark.slow


def change(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_folders_are_told_apart_by_what_they_hold(tmp_path):
    paths = [
        factory.run(tmp_path / "a"),
        factory.comparison(tmp_path / "b"),
        factory.variance(tmp_path / "d"),
        factory.variance(tmp_path / "e") / "variance.json",
        factory.variance(factory.run(tmp_path / "f")),
    ]
    kinds = [type(getattr(source, "record", source)).__name__ for source in load(paths)]
    names = ["Run", "Comparison", "Variance", "Variance", "Run", "Variance"]
    assert kinds == names


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
def test_a_score_that_is_no_number_is_refused(tmp_path, value):
    file = factory.run(tmp_path) / "result.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"test_score": 0.125}))
    file.write_text(file.read_text().replace("0.125", value))
    with pytest.raises(DamagedError, match=r"result.json .*(\$.test_score|out of range)"):
        load([tmp_path])


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"rows": ' + "[" * 100_000, "nested too deeply"),
        ("[" * 700 + "]" * 700, "nested too deeply|JSON object"),
        ("[1]", "JSON object"),
        ('{"kind": "variance"}', "kind"),
        ('{"kind": ["comparison"]}', "kind"),
        ('{"kind": "comparison", "dataset": "x"}', "missing required field `command`"),
        ('{"kind": "comparison", "dataset": 3}', r"Expected `str`, got `int` - at `\$.dataset`"),
        ('{"kind": "comparison", "rows": [{"dataset": 3}]}', r"`\$.rows\[0\].dataset`"),
        ('{"kind": "comparison", "\\ud800": 1}', "surrogates not allowed"),
        ('{"kind": "comparison", "rows": {}}', r"Expected `array`, got `object` - at `\$.rows`"),
    ],
)
def test_a_damaged_comparison_is_refused(tmp_path, text, part):
    (tmp_path / "compare.json").write_text(text)
    with pytest.raises(DamagedError, match=part) as refusal:
        load([tmp_path])
    assert str(tmp_path / "compare.json") in str(refusal.value)
    assert str(refusal.value).endswith("write it again with `bliss compare`.")


def test_a_kind_of_any_length_makes_a_short_sentence(tmp_path):
    (tmp_path / "compare.json").write_text(json.dumps({"kind": "a\n" * 5000}))
    with pytest.raises(DamagedError, match=r"is of kind 'a\\n") as refusal:
        load([tmp_path])
    assert len(str(refusal.value)) < 500 + len(str(tmp_path))


def test_numbers_of_the_wrong_kind_are_refused(tmp_path):
    row = json.loads((factory.comparison(tmp_path) / "compare.json").read_text())["rows"][0]
    for values, part in (
        ({"test_score": "high"}, r"got `str` - at `\$.rows\[0\].test_score`"),
        ({"test_score": True}, r"got `bool` - at `\$.rows\[0\].test_score`"),
        ({"curve": row["curve"] | {"loss": [1.0]}}, "1 values of `loss` for 15 steps"),
    ):
        change(tmp_path / "compare.json", rows=[row | values])
        with pytest.raises(DamagedError, match=part):
            load([tmp_path])


def test_layers_that_do_not_fit_are_refused(tmp_path):
    factory.variance(tmp_path, history=[{"step": 1, "layers": []}])
    with pytest.raises(DamagedError, match="0 layers in the history of step 1, but 3"):
        load([tmp_path])


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
    with pytest.raises(ResourceError, match="free disk space"):
        write_report([run], out)
    assert out.read_bytes() == before
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]
