"""Text from files shows every character, and steers no terminal."""

from __future__ import annotations

import sys

import pytest

from bliss.text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("caf\u00e9 \u65e5\u672c \u00b1 \u2013", "caf\u00e9 \u65e5\u672c \u00b1 \u2013"),
        ("1\u00a0ms", "1\u00a0ms"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\tb\r\n\0", r"a\tb\r\n\x00"),
        ("\x9b\x7f", r"\x9b\x7f"),
        ("\u202e\u2066", r"\u202e\u2066"),  # reverse the direction of what follows
        ("\ud800\udcff", r"\ud800\udcff"),
    ],
)
def test_what_cannot_be_shown_is_escaped(text, shown):
    assert printable(text) == shown
    assert printable(shown) == shown


def test_no_control_character_is_left():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    shown = printable(every)
    assert not {*map(chr, range(32)), *map(chr, range(127, 160))} & set(shown)
    shown.encode()  # no surrogate either
