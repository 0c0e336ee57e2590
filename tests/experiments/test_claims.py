"""Numbers in sentences are those of stored results."""

from __future__ import annotations

import re

import pytest

from experiments.claims import (
    CLAIMS,
    DECIMAL,
    ROOT,
    corrected,
    is_covered,
    place,
    problems,
    prose,
)


@pytest.mark.parametrize("name", CLAIMS)
def test_numbers_in_sentences_are_those_of_the_results(name):
    """To mend: `python -m experiments.claims`."""
    assert problems(prose(name), CLAIMS[name](), is_covered(name)) == []


def test_all_notes_have_claims():
    notes = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("experiments/*/notes.md")}
    others = {"README.md", "experiments/seconds/defaults_notes.md"}
    assert {name for name in CLAIMS if is_covered(name)} == notes | others
    assert len(CLAIMS["README.md"]()) > 12


def changed(text: str, match: re.Match[str]) -> str:
    """The text with another last digit in a number."""
    digit = str((int(match[0][-1]) + 1) % 10)
    return text[: match.end() - 1] + digit + text[match.end() :]


@pytest.mark.parametrize("name", CLAIMS)
def test_every_changed_decimal_is_noticed_and_corrected(name):
    text, claims = prose(name), CLAIMS[name]()
    assert problems(text, claims, is_covered(name)) == []
    claimed = [place(claim).search(text).span() for claim in claims]
    numbers = [
        match
        for match in DECIMAL.finditer(text)
        if is_covered(name) or any(start <= match.start() < end for start, end in claimed)
    ]
    assert len(numbers) >= (25 if name == "README.md" else len(claims) // 2)
    for match in numbers:
        mutant = changed(text, match)
        assert len(problems(mutant, claims, is_covered(name))) == 1, match[0]
        assert corrected(mutant, claims) == text


CLAIM = "BLISS has 0.936 after 1,200 steps, a tie with 30"
WRONG = "BLISS has .93 after 1,200 steps, a tie with 30"
PROBLEMS = {
    "So BLISS has 0.936 after\n  1,200 steps, a tie with 30.": [],
    WRONG: [f"the text has {WRONG!r}, the results give {CLAIM!r}"],
    "BLISS has 0.936": [
        f"0 sentences like the claim: {CLAIM!r}",
        "0.936 belongs to no claim: ... BLISS has 0.936 ...",
    ],
    f"{CLAIM} and {CLAIM}": [f"2 sentences like the claim: {CLAIM!r}"],
    f"{CLAIM}, but 2.5 here": ["2.5 belongs to no claim: ... , but 2.5 here ..."],
}


def test_numbers_without_a_claim_are_left_alone_if_the_page_need_not_be_covered():
    assert problems(f"{CLAIM}, but 2.5 here", [CLAIM], is_covered=False) == []


@pytest.mark.parametrize(("text", "expected"), PROBLEMS.items())
def test_problems_show_the_right_sentence(text, expected):
    assert problems(text, [CLAIM]) == expected


def test_corrections_keep_line_breaks():
    text = "BLISS has .5 after\n7 steps, a tie with 30; 0.4 is another number"
    expected = "BLISS has 0.936 after\n1,200 steps, a tie with 30; 0.4 is another number"
    assert corrected(text, [CLAIM]) == expected
