"""What makes a comparison fair: sizes with units, equal work, one estimator, one search, ties."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import scipy.stats

from bliss.errors import DamagedError, DivergedError, InputError
from bliss.studies.comparison import comparison
from bliss.studies.comparison.matching import Matcher, Work, nearest
from bliss.studies.comparison.plan import Request, Start, plan, shaped_like, sized
from bliss.studies.comparison.ranking import interval, paired, ranks
from bliss.studies.comparison.sampler_settings import parse_sampler, settings_of
from bliss.studies.comparison.search import candidates, tuning_seed
from bliss.studies.comparison.sizes import parse_budgets, scaled, size_of, unit_of, with_size
from bliss.train import Stepper, TrainConfig, resolve
from tests.studies.conftest import SMALL, quiet

pytestmark = pytest.mark.slow

MANY = ["bliss", "neighbor", "cluster", "vrgcn", "saint-rw"]


def planned(samplers, dataset="toy", shares=(1.0,), **options):
    settings = {**SMALL, "budgets": (), "dataset": dataset}
    request = Request.of(settings, samplers, ["sage"], [0], shares, **options)
    return request, plan(request, 240)


def sizes(samplers, shares=(1.0,), **options):
    """Sizes by sampler, without matching."""
    request, made = planned(samplers, shares=shares, match="none", **options)
    return {key.sampler: size_of(config) for key, config in sized(request, made.starts, None)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60,30", ({"layer": (60, 30)}, False)),
        ("layer=60,30 node=5,5 subgraph=50", (
            {"layer": (60, 30), "node": (5, 5), "subgraph": (50,)}, True,
        )),
    ],
)  # fmt: skip
def test_budgets_have_units(text, expected):
    assert parse_budgets(text) == expected


@pytest.mark.parametrize(
    "text", ["", "many", "edge=5", "node=5,0", "subgraph=5,5", "60,30 5,5", "node=5,5 node=6,6"]
)
def test_budgets_that_cannot_be_read_are_refused(text):
    with pytest.raises(InputError, match="budgets"):
        parse_budgets(text)


def test_a_budget_of_layers_is_neither_a_fanout_nor_a_batch_size():
    found = sizes(MANY, budgets="60,30")
    assert found["bliss"] == (60, 30)
    assert found["neighbor"] == (10, 10)  # defaults
    assert found["vrgcn"] == (2,)
    assert found["cluster"] == found["saint-rw"] == (SMALL["batch_size"],)


def test_each_unit_reaches_its_samplers():
    found = sizes(MANY, budgets="layer=60,30 node=5,4 subgraph=50")
    assert found == {
        "bliss": (60, 30), "neighbor": (5, 4), "cluster": (50,), "vrgcn": (4,), "saint-rw": (50,),
    }  # fmt: skip
    half = sizes(MANY, shares=(0.5,), budgets="layer=60,30 node=5,4 subgraph=50")
    assert half["neighbor"] == (2, 2)
    assert half["saint-rw"] == (25,)


def test_a_unit_that_is_missing_is_a_note_and_the_wrong_number_of_layers_an_error():
    _, made = planned(["bliss", "neighbor"], budgets="layer=60,30", match="none")
    assert made.notes == ["neighbor has no node= in --budgets: it runs at its default node=10,10."]
    with pytest.raises(InputError, match="3 numbers for 2 layers"):
        planned(["bliss"], budgets="60,30,15")
    with pytest.raises(InputError, match="no node="):
        planned(["neighbor", "bliss"], budgets="60,30")


def test_units_turn_matching_off_and_plain_budgets_do_not():
    assert planned(["bliss"], budgets="layer=60,30")[0].match == "none"
    assert planned(["bliss"], budgets="60,30")[0].match == "nodes"
    assert planned(["bliss"], budgets="layer=60,30", match="edges")[0].match == "edges"


def test_fanouts_are_rounded_together():
    assert scaled((10, 10, 10), 0.5, "node") == (5, 5, 5)
    assert scaled((10, 10, 10), 0.43, "node") == (5, 4, 4)
    assert scaled((10, 10, 10), 0.01, "node") == (1, 1, 1)
    assert scaled((60, 30), 0.33, "layer") == (20, 10)


def test_authors_sizes_are_those_of_the_data_set():
    request, made = planned(["saint-node", "saint-edge", "saint-rw", "cluster"], "ppi",
                            sizes="authors")  # fmt: skip
    configs = {start.sampler.label: start.config for start in made.starts}
    assert [size_of(one) for one in configs.values()] == [(6000,), (4000,), (3000,), (1,)]
    assert configs["cluster"].sampler.config.parts == 50
    assert request.match == "none"
    with pytest.raises(InputError, match="published sizes"):
        planned(["saint-node"], sizes="authors")
    with pytest.raises(InputError, match="leave out --match"):
        planned(["saint-node"], "ppi", sizes="authors", match="nodes")


def test_one_cluster_a_batch(dataset):
    pytest.importorskip("pymetis")
    sampler = resolve(**SMALL | {"budgets": ()}, sampler="cluster", parts=6).sampler.config.build(
        dataset.graph, layers=2
    )
    sampler.prepare(dataset.splits["train"].numpy(), 1)
    assert len(sampler.batches(0)) == 6


# Equal work


@pytest.mark.parametrize("target", [0.001, 0.7, 3, 40, 1e9])
def test_the_search_finds_the_nearest_size(target):
    """Work grows as the square root, up to 100: the nearest whole number is known."""

    def ratio(size):
        return min(size[0], 100) ** 0.5 / target

    found = nearest(lambda factor: (max(1, round(10 * factor)),), ratio, 0.001)
    errors = {n: abs(min(n, 100) ** 0.5 / target - 1) for n in range(1, 101)}
    assert abs(found.ratio - 1) <= min(errors.values()) + 0.001


def test_the_search_ends_on_a_plateau():
    calls = []

    def ratio(size):
        calls.append(size)
        return 0.9 if size[0] < 1234 else 1.2

    found = nearest(lambda factor: (max(1, round(256 * factor)),), ratio, 0.01)
    assert found.ratio == 0.9
    assert len(calls) <= 6


@pytest.fixture(scope="module")
def matched(dataset, tmp_path_factory):
    """Rows matched by nodes with the first sampler, and the file of the pilots."""
    file = tmp_path_factory.mktemp("pilots") / "pilots.json"
    request, made = planned(["bliss", "pladies", "neighbor", "saint-rw", "full"], budgets="60,30")
    matcher = Matcher("nodes", dataset, file)
    return request, made, matcher, sized(request, made.starts, matcher, quiet), file


def test_every_sampler_does_the_work_of_the_first(matched):
    _, _, matcher, rows, _ = matched
    works = {key.sampler: matcher.work(config) for key, config in rows}
    target = works.pop("bliss")
    assert works.pop("full") > 1.2 * target  # it has no size
    for name, work in works.items():
        assert work == pytest.approx(target, rel=0.12), name
    unmatched = resolve(**SMALL | {"budgets": ()}, sampler="neighbor").fitted(240)
    assert matcher.work(unmatched) > 1.3 * target  # what matching is for


def test_a_continued_study_finds_the_same_sizes_without_new_pilots(matched, dataset, monkeypatch):
    request, made, _, rows, file = matched
    monkeypatch.setattr("bliss.studies.comparison.matching.pilot", None)
    assert sized(request, made.starts, Matcher("nodes", dataset, file), quiet) == rows


def test_pilots_are_measured_again_on_other_data(matched, dataset, monkeypatch, tmp_path):
    """Two data sets of one name and size differ in their fingerprint alone."""
    config, file, measured = matched[3][0][1], tmp_path / "pilots.json", []

    def pilot(config, dataset):
        measured.append(dataset.fingerprint)
        return Work(nodes=1.0, edges=1.0, ms=1.0)

    monkeypatch.setattr("bliss.studies.comparison.matching.pilot", pilot)
    other = replace(dataset, x=dataset.x + 1)
    for one in (dataset, other, dataset, other):
        Matcher("nodes", one, file).measure(config)
    assert measured == [dataset.fingerprint, other.fingerprint]


def test_a_changed_number_of_a_pilot_is_noticed(matched, dataset, tmp_path):
    values = json.loads(matched[4].read_text())
    next(iter(values["works"].values()))["nodes"] *= 2
    (tmp_path / "pilots.json").write_text(json.dumps(values))
    with pytest.raises(DamagedError, match=r"does not match its digest.*remove it to measure"):
        Matcher("nodes", dataset, tmp_path / "pilots.json")


def test_counts_of_pilots_are_reproducible(matched, dataset, tmp_path):
    _, _, _, rows, file = matched
    again = Matcher("edges", dataset, tmp_path / "pilots.json")
    works = json.loads(file.read_text())["works"].values()
    assert again.work(rows[0][1]) in [work["edges"] for work in works]


def test_a_first_sampler_without_a_size_shrinks_by_its_work(matched, dataset):
    _, _, _, _, file = matched
    request, made = planned(["full", "pladies"], shares=(0.9, 0.5))
    matcher = Matcher("edges", dataset, file)
    rows = sized(request, made.starts, matcher, quiet)
    assert [key.share for key, _ in rows] == [0.9, 0.9, 0.5]
    whole = matcher.work(rows[0][1])
    assert matcher.work(rows[2][1]) == pytest.approx(0.5 * whole, rel=0.1)


# Estimators and options


@pytest.mark.parametrize(
    ("name", "asked", "expected"),
    [
        ("bliss", "hajek", "hajek"),
        ("ladies", "ht", "ht"),
        ("bliss", "own", "ht"),
        ("ladies", "own", "hajek"),
        ("vrgcn", "hajek", "ht"),
        ("bliss+history", "hajek", "ht"),
        ("bliss+estimator=ht", "hajek", "ht"),
        ("sketch", "ht", "debiased"),
    ],
)
def test_one_estimator_for_all_that_offer_it(name, asked, expected):
    config, note = settings_of(SMALL | {"budgets": ()}, "sage", parse_sampler(name), asked)
    assert config.sampler.config.estimator == expected
    is_own = asked in ("own", expected) or "estimator" in name
    assert (note == "") == is_own
    assert is_own or f"has the estimator {expected} instead of {asked}" in note


def test_the_recipe_of_the_data_sets_the_estimator():
    budgets = {"budgets": "60,30", "match": "none"}  # the recipe's are of three layers
    _, made = planned(["pladies"], "ppi", estimator="ht", **budgets)
    assert made.starts[0].config.sampler.config.estimator == "ht"
    _, made = planned(["pladies", "bliss+history"], "ppi", **budgets)
    assert [one.config.sampler.config.estimator for one in made.starts] == ["hajek", "ht"]


@pytest.mark.parametrize("sampler", ["bliss", "pladies", "ladies", "labor", "vrgcn", "sketch"])
def test_without_an_estimator_settings_are_those_of_training(sampler):
    settings = {**SMALL, "budgets": (), "dropout": 0.1}  # without dropout, training has a history
    made = plan(Request.of(settings, [sampler], ["sage"], [0], [1.0]), 240)
    expected = resolve(**settings, model="sage", sampler=sampler).fitted(240)
    assert made.starts[0].config == expected


def test_a_history_takes_part_only_if_it_is_named():
    labels = ["bliss", "bliss+history", "bliss+history=auto", "vrgcn"]
    settings = {**SMALL, "budgets": (), "dropout": 0.0}
    made = plan(Request.of(settings, labels, ["sage"], [0], [1.0]), 240)
    histories = [one.config.sampler.config.history for one in made.starts]
    assert histories == ["none", "nodes", "nodes", "nodes"]


def test_a_default_first_hop_is_said():
    _, made = planned(["bliss", "pladies", "bliss+first_hop=sampled"])
    hops = [one.config.sampler.config.first_hop for one in made.starts]
    assert hops == ["exact", "sampled", "sampled"]
    assert ["bliss has an exact first hop" in note for note in made.notes] == [True]


def test_options_are_part_of_a_samplers_name():
    one = parse_sampler("bliss:exp3+history+eta=0.2")
    assert one.name == "bliss"
    assert one.options == {"policy": "exp3", "history": "nodes", "eta": 0.2}
    assert one.slug == "bliss-exp3-history-eta-0.2"
    assert parse_sampler("neighbor+first-hop").options == {"first_hop": "exact"}
    with pytest.raises(InputError, match="'steps' is not an option"):
        parse_sampler("bliss+steps=5")


# Search


def test_candidates_start_with_the_recipe_and_are_distinct():
    config = TrainConfig.of(lr=0.01, dropout=0.1)
    found = candidates(config, 12)
    assert found[:3] == [(0.01, 0.1), (0.03, 0.1), (0.00333, 0.1)]
    assert len(set(found)) == 12
    assert candidates(config, 0) == []
    with pytest.raises(InputError, match="search=13"):
        candidates(config, 13)


def test_the_seed_of_a_search_is_no_test_seed():
    assert tuning_seed([0, 1, 2]) == 3
    assert tuning_seed([5, 0]) == 1


def test_a_search_chooses_by_validation_and_shows_its_cost(run_comparison, tmp_path):
    found = run_comparison(tmp_path, shares=(1.0,), search=2, settings={"steps": 10})
    for row in found.rows:
        trials = row.search.trials
        assert [(one.lr, one.dropout) for one in trials] == [(0.02, 0.0), (0.06, 0.0)]
        best = max(trials, key=lambda one: one.val_score)
        assert (row.lr, row.dropout) == (best.lr, best.dropout)
        assert row.search.seconds > 0
    configs = [json.loads(p.read_text()) for p in tmp_path.glob("search/*/config.json")]
    assert {one["training"]["seed"] for one in configs} == {3}
    assert len(configs) == 4


def test_a_trial_that_diverges_is_left_out(run_comparison, tmp_path, monkeypatch):
    learn = Stepper.step

    def explode(self, *step):
        if self.task.config.training.lr == 0.06:
            raise DivergedError("loss=nan")
        return learn(self, *step)

    monkeypatch.setattr(Stepper, "step", explode)
    said = []
    options = {"shares": (1.0,), "search": 2, "match": "none"}
    options |= {"settings": {"steps": 4}, "say": said.append}
    found = run_comparison(tmp_path, samplers=("bliss",), **options)
    assert [one.val_score is None for one in found.rows[0].search.trials] == [False, True]
    assert found.rows[0].lr == 0.02
    assert any("left out: loss=nan" in line for line in said)
    monkeypatch.setattr(Stepper, "step", lambda self, *step: explode_always())
    with pytest.raises(InputError, match="every trial of pladies diverged: lower lr"):
        run_comparison(tmp_path, samplers=("pladies",), **options)


def explode_always():
    raise DivergedError("loss=nan")


# Ranks


def by_seed(*scores):
    return dict(enumerate(scores))


CLEAR, SAME, NOISY, WORST = (
    by_seed(0.90, 0.91, 0.92, 0.91, 0.90),
    by_seed(0.91, 0.90, 0.92, 0.90, 0.91),
    by_seed(0.99, 0.70, 0.95, 0.80, 0.90),
    by_seed(0.50, 0.51, 0.52, 0.51, 0.49),
)


def test_samplers_that_do_not_differ_share_a_rank():
    assert ranks([WORST, CLEAR, SAME]) == [(3, False), (1, True), (1, True)]
    assert ranks([NOISY, CLEAR, WORST])[0] == (1, True)  # not significantly worse
    assert ranks([CLEAR, WORST]) == [(1, False), (2, False)]
    assert ranks([CLEAR, CLEAR]) == [(1, True), (1, True)]
    assert ranks([by_seed(0.5), by_seed(0.4)]) == [(None, False)] * 2


def test_the_lowest_error_leads_and_reaches_a_target(tmp_path, run_comparison):
    found = run_comparison(tmp_path, shares=(1.0,), settings={"select": "loss", "lr": 0.02})
    assert found.metric == "loss"
    best = [min(row.curve.val_score) for row in found.rows]
    assert found.target_score >= max(best)  # the run whose lowest loss is the highest reaches it
    assert [row.reached for row in found.rows] == [3, 3]
    means = [row.test_score for row in found.rows]
    ranked = [row.rank for row in found.rows]
    assert ranked[means.index(min(means))] == 1


def test_holms_correction_is_part_of_a_rank():
    """p of the pair is 0.02: significant alone, not among five."""
    other = by_seed(0.897, 0.906, 0.919, 0.903, 0.897)
    _, p = paired(other, CLEAR)
    assert 0.02 < p < 0.05
    assert [rank for rank, _ in ranks([CLEAR, other])] == [1, 2]
    assert [rank for rank, _ in ranks([CLEAR, *[other] * 5])] == [1] * 6


def test_the_interval_is_students():
    scores = list(NOISY.values())
    low, high = scipy.stats.t.interval(0.95, 4, loc=sum(scores) / 5, scale=scipy.stats.sem(scores))
    assert interval(scores) == pytest.approx((high - low) / 2)
    assert interval([0.5]) is None


# What a comparison says


def test_rows_show_size_estimator_match_and_rank(compared):
    _, found = compared
    assert (found.match, found.estimator) == ("nodes", "own")
    assert found.graph.nodes == 240
    for row in found.rows:
        assert row.unit == "layer"
        assert row.estimator == "ht"
        assert row.match == pytest.approx(1, abs=0.1)
        assert row.rank is not None
        assert row.test_score == pytest.approx(sum(row.scores) / 3)
        assert row.test_score_interval == pytest.approx(interval(row.scores))
        assert row.curve.seconds == sorted(row.curve.seconds)
        assert len(row.curve.seconds) == 2
    first = [row for row in found.rows if row.sampler == "bliss"]
    assert all(row.match == 1 for row in first)


def test_a_sampler_that_cannot_match_is_said_to(run_comparison, tmp_path):
    found = run_comparison(
        tmp_path, ("bliss", "full"), (0.3,), settings={"steps": 2}, match="edges"
    )
    (note,) = [note for note in found.notes if note.startswith("full")]
    assert "times the edges of the first sampler in a step and has no size to change" in note
    assert found.rows[1].match > 1.1


@pytest.mark.parametrize(("load", "is_busy"), [(0.1, False), (0.9, True), (None, False)])
def test_a_busy_machine_and_few_seeds_are_noted(monkeypatch, load, is_busy):
    notes = comparison._conditions([0, 1, 2], load)
    assert notes[0].startswith("A ranking needs at least 5 seeds")
    assert any("busy" in note for note in notes) == is_busy
    assert comparison._conditions(range(5), 0.0) == []


def test_units_are_declared_by_samplers():
    for name, unit in {
        "bliss": "layer",
        "labor": "node",
        "cluster": "subgraph",
        "full": "",
    }.items():
        config = TrainConfig.of(sampler=name)
        assert unit_of(config.sampler.config) == unit
    assert with_size(TrainConfig.of(sampler="saint-rw"), (7,)).training.batch_size == 7
    assert TrainConfig.of(budgets=(3, 2, 1)) == with_size(TrainConfig(), (3, 2, 1))


@pytest.mark.parametrize(
    ("sampler", "options", "expected"),
    [
        ("bliss", {}, (40, 20)),  # the same unit: half of the leader's size
        ("bliss", {"first_hop": "exact"}, (20,)),  # the input layer is exact
        ("neighbor", {}, (10, 10)),  # another unit: its own size
    ],
)
def test_matching_starts_from_the_first_samplers_shape(sampler, options, expected):
    settings = {"dataset": "own", "layers": 2}
    leader = resolve(**settings, sampler="pladies", budgets=(80, 40))
    own = {} if sampler == "neighbor" else {"budgets": (64, 64)[len(options) :]}
    config = resolve(**settings, sampler=sampler, **options, **own).fitted(1000)
    start = Start("sage", parse_sampler("pladies"), leader)
    assert size_of(shaped_like(config, start, 0.5)) == expected
