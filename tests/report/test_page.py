"""The page in a browser: it renders, sorts, changes colours, fits, and asks for nothing."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from html.parser import HTMLParser

import pytest

from bliss.report import save_figures, write_report
from bliss.report.cells import DASH
from bliss.report.page import _title as title_of
from bliss.report.sections import Section
from tests.report import factory

pytestmark = pytest.mark.slow

KINDS = ("run", "runs", "comparison", "variance", "together")
NASTY = "<script>alert(1)</script>\"'&$x_1$]]>{{ 7 * 7 }}"


@contextmanager
def opened(browser, path, **options):
    """A page with what it asked for and complained about."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}} | options)
    page = context.new_page()
    page.asked, page.complaints = [], []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("dialog", lambda dialog: (page.complaints.append("dialog"), dialog.dismiss()))
    page.goto(path.as_uri())
    yield page
    context.close()


@pytest.fixture(scope="module", params=KINDS)
def shown(request, browser, page_of):
    """The open page of each kind of result."""
    with opened(browser, page_of(request.param)) as page:
        page.wait_for_load_state("networkidle")
        yield page


def test_it_renders_without_complaint_and_asks_for_nothing(shown):
    assert shown.complaints == []
    assert shown.asked == [shown.url]
    assert shown.locator("h1").inner_text()
    assert shown.locator("#summary p").count() >= 1
    sizes = shown.locator("figure svg").evaluate_all(
        "all => all.map(svg => svg.getBoundingClientRect()).map(box => [box.width, box.height])"
    )
    assert len(sizes) >= 2
    assert all(width > 250 and height > 80 for width, height in sizes)


def test_every_figure_is_described(shown):
    described = shown.locator("figure svg[role=img][aria-label]")
    assert described.count() == shown.locator("figure").count() == shown.locator("svg").count()
    for label in described.evaluate_all("all => all.map(s => s.getAttribute('aria-label'))"):
        assert len(label.split()) >= 8


def test_every_entry_of_the_contents_leads_somewhere(shown):
    links = shown.locator("nav a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert len(links) == len(set(links)) >= 3
    for link in links:
        assert shown.locator(link).count() == 1


def test_the_page_never_scrolls_sideways(shown):
    for details in shown.locator("details summary").all():
        details.click()
    for width in (1280, 768, 360):
        shown.set_viewport_size({"width": width, "height": 740})
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        assert shown.evaluate("document.body.scrollWidth") <= width
        widest = shown.locator(".scroll, figure svg, .settings").evaluate_all(
            "all => Math.max(...all.map(box => box.getBoundingClientRect().right))"
        )
        assert widest <= width


def test_the_title_and_the_contents_come_first(browser, page_of):
    with opened(browser, page_of("comparison")) as page:
        assert page.title() == "Comparison: sage and gatv2 on synthetic"
        origin = page.locator(".origin").inner_text()
        for words in ("2026-02-03", "Example 9000, 2 cores", "20,000 nodes, 561,311 edges"):
            assert words in origin
        tops = page.locator("h1, .origin, nav, #summary, #section-1").evaluate_all(
            "all => all.map(box => box.getBoundingClientRect().top)"
        )
        assert tops == sorted(tops)


def test_a_page_of_several_results_has_a_title(browser, page_of):
    with opened(browser, page_of("together")) as page:
        title = page.locator("h1").inner_text()
        kinds, _, subjects = title.partition(": ")
        assert kinds == "Runs, comparison and variance"
        assert subjects == "sage on synthetic, sage and gatv2 on synthetic"


def test_decisive_columns_are_visible_on_a_phone(browser, page_of):
    with opened(browser, page_of("comparison"), viewport={"width": 390, "height": 844}) as page:
        heads = page.locator("table").first.locator("th")
        assert heads.all_inner_texts()[:5] == [
            "Sampler",
            "Rank",
            "Test F1",
            "Difference",
            "p, Holm",
        ]
        right = heads.nth(4).evaluate("cell => cell.getBoundingClientRect().right")
        assert right <= 390


def test_long_names_do_not_widen_the_page(browser, tmp_path):
    run = factory.run(tmp_path / "run", dataset="d" * 300)
    page_path = write_report([run], tmp_path / "report.html")
    with opened(browser, page_path, viewport={"width": 360, "height": 740}) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.fixture
def unordered(tmp_path):
    """A comparison whose numbers sort differently as text, with one missing."""
    folder = factory.comparison(tmp_path / "compared", models=("sage",))
    rows = json.loads((folder / "compare.json").read_text())["rows"]
    whole = [row for row in rows if row["budget_share"] == 1]
    for row, seconds in zip(whole, (900, None, 10_000, 800), strict=True):
        row["seconds_to_target"] = seconds
    factory.comparison(folder, rows=whole)
    return write_report([folder], tmp_path / "report.html")


def target_column(page):
    table = page.locator("table", has=page.get_by_role("button", name="To target, s"))
    header = table.locator("th", has_text="To target, s")
    place = header.evaluate("cell => cell.cellIndex") + 1
    cells = table.locator(f"tbody td:nth-child({place})")
    return header, lambda: cells.all_inner_texts()


def test_numbers_sort_as_numbers_and_dashes_come_last(browser, unordered):
    with opened(browser, unordered) as page:
        header, shown = target_column(page)
        assert shown() == ["900", DASH, "10,000", "800"]
        header.locator("button").click()
        assert shown() == ["800", "900", "10,000", DASH]
        assert header.get_attribute("aria-sort") == "ascending"
        header.locator("button").click()
        assert shown() == ["10,000", "900", "800", DASH]
        assert header.get_attribute("aria-sort") == "descending"


def test_tables_sort_from_the_keyboard_and_by_one_column_at_a_time(browser, unordered):
    with opened(browser, unordered) as page:
        header, shown = target_column(page)
        header.locator("button").focus()
        page.keyboard.press("Enter")
        assert shown()[0] == "800"
        page.keyboard.press("Space")
        assert shown()[0] == "10,000"
        table = page.locator("table", has=page.get_by_role("button", name="To target, s"))
        table.get_by_role("button", name="Policy").click()
        assert header.get_attribute("aria-sort") == "none"
        assert table.locator("tbody td:nth-child(2)").all_inner_texts() == [
            "exp3",
            "ladies",
            "node",
            "static",
        ]


PAPER = "getComputedStyle(document.body).backgroundColor"
INK = (
    "[...document.querySelectorAll('figure svg text')].map(t => getComputedStyle(t).fill)"
    ".every(fill => fill === getComputedStyle(document.body).color)"
)


@pytest.mark.parametrize("first", ["light", "dark"])
def test_colours_follow_the_system_and_then_the_button(browser, page_of, first):
    grounds = {"light": "rgb(253, 253, 252)", "dark": "rgb(20, 22, 25)"}
    second = "dark" if first == "light" else "light"
    with opened(browser, page_of("run"), color_scheme=first) as page:
        assert page.evaluate(PAPER) == grounds[first]
        assert page.evaluate(INK)
        button = page.get_by_role("button", name=f"Change to {second} colours")
        button.focus()
        page.keyboard.press("Enter")
        assert page.evaluate(PAPER) == grounds[second]
        assert page.evaluate(INK)
        for _ in range(40):  # the browser keeps what it was told a moment later
            page.reload()
            if page.evaluate(PAPER) == grounds[second]:
                break
            page.wait_for_timeout(250)
        assert page.evaluate(PAPER) == grounds[second]  # remembered
        page.get_by_role("button", name=f"Change to {first} colours").click()
        assert page.evaluate(PAPER) == grounds[first]


def test_a_print_is_light_and_unfolded(browser, page_of):
    with opened(browser, page_of("run"), color_scheme="dark") as page:
        assert page.locator("details[open]").count() == 0
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details:not([open])").count() == 0
        assert page.evaluate(PAPER) == "rgb(253, 253, 252)"
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("details[open]").count() == 0
        assert page.evaluate(PAPER) == "rgb(20, 22, 25)"


def test_settings_are_folded_and_complete(browser, page_of):
    with opened(browser, page_of("run")) as page:
        assert not page.get_by_text("batch_size").is_visible()
        page.get_by_text("Settings of alone").click()
        assert page.get_by_text("batch_size").is_visible()
        assert page.get_by_text("2048, 1024, 512").is_visible()


class Elements(HTMLParser):
    """The names of all elements of a page."""

    def __init__(self, text):
        super().__init__()
        self.names = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)


def named(values, name):
    """Results with a name in place of every name that comes from data."""
    if isinstance(values, dict):
        keys = {"dataset", "model", "sampler", "policy", "command", "processor", "date"}
        return {
            name if key in ("node", "exp3") else key: name
            if key in keys and isinstance(value, str)
            else named(value, name)
            for key, value in values.items()
        }
    return [named(value, name) for value in values] if isinstance(values, list) else values


def nasty_results(tmp_path):
    """Results whose every name is hostile."""
    folders = [paths[0] for paths in factory.every_kind(tmp_path / "in").values()]
    for folder in folders[:-1]:
        factory.alter(folder, lambda values: named(values, NASTY))
    return folders[:-1]


def test_control_characters_from_data_are_escaped(tmp_path):
    odd, shown = "a\x1b[31m\x00\x9b\u202e\ud800\nz", r"a\x1b[31m\x00\x9b\u202e\ud800\nz"
    runs = [factory.run(tmp_path / name, dataset=odd) for name in ("a", "b\x1b[32m\udcff")]
    study = factory.comparison(tmp_path / "compared")
    factory.alter(study, lambda values: named(values, odd))
    html = write_report([*runs, study], tmp_path / "report.html").read_text(encoding="utf-8")
    assert re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", html) == []
    assert html.count(f"<td>{shown}") >= 2
    assert html.count(f"<dd>{shown}</dd>") >= 2
    assert html.count(f"<dt>type {shown}</dt>") == 1  # of both runs
    assert re.search(rf"<text[^>]*>{re.escape(shown[:30])}", html)
    assert re.search(rf'aria-label="[^"]*{re.escape(shown)}', html)
    assert r"b\x1b[32m\udcff" in html


def test_names_from_data_show_as_text(browser, tmp_path):
    path = write_report(nasty_results(tmp_path), tmp_path / "report.html")
    assert Elements(path.read_text(encoding="utf-8")).names.count("script") == 1
    with opened(browser, path) as page:
        assert page.complaints == []
        assert page.asked == [path.as_uri()]
        assert page.locator("td", has_text=NASTY).count() > 5
        texts = page.locator("figure svg text").all_text_contents()
        assert any(text.startswith("<script>alert(1)</script>") for text in texts)
        assert "49" not in page.locator("h1").inner_text()


def test_figures_of_such_names_are_files_like_others(tmp_path):
    folder = tmp_path / "figures"
    for file in save_figures(nasty_results(tmp_path), folder, ("svg",)):
        assert file.parent == folder
        assert "<script" not in file.read_text(encoding="utf-8")


def test_missing_numbers_show_as_dashes(browser, tmp_path):
    runs = [factory.run(tmp_path / "cut", finished=False), factory.run(tmp_path / "whole")]
    path = write_report(runs, tmp_path / "report.html")
    with opened(browser, path) as page:
        cells = page.locator("tbody tr").first.locator("td").all_inner_texts()
        assert cells.count(DASH) == 6  # test F1, seconds, step, nodes, edges, memory
        assert "none" not in page.locator("main").inner_text().lower()


def test_titles_name_kinds_and_subjects():
    def section(kind, title):
        return Section(kind=kind, title=title, summary=[], tiles=[], parts=[])

    one, other = section("Run", "sage on a"), section("Runs", "sage on b")
    compared, measured = section("Comparison", "sage on a"), section("Variance", "sage on a")
    assert title_of([one]) == "Run: sage on a"
    assert title_of([other]) == "Runs: sage on b"
    assert title_of([one, one, compared]) == "Runs and comparison: sage on a"
    assert title_of([other, one]) == "Runs: sage on b, sage on a"
    assert title_of([compared, compared]) == "Comparisons: sage on a"
    assert title_of([measured, measured]) == "Variance: sage on a"
    many = [section("Run", name) for name in "abcde"]
    assert title_of(many) == "Runs: a, b, c and 2 more"
