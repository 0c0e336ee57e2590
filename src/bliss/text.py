"""Text from files and names, made fit for a terminal, a page or a figure."""

from __future__ import annotations

import unicodedata


def printable(text: str) -> str:
    r"""Text with control characters and lone surrogates shown as escapes, such as \x1b.

    Control characters can move the cursor, change the title of a window or hide text.
    """
    if text.isprintable():
        return text
    return "".join(c if _is_shown(c) else c.encode("unicode_escape").decode() for c in text)


def _is_shown(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"  # wide or no-break


def shorten(text: str, limit: int = 200) -> str:
    """Text as one line that can be shown, cut to `limit` characters if it is longer."""
    shown = printable(text)
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."


def is_number(text: str) -> bool:
    """Whether a text is a number, as `float` reads it."""
    try:
        float(text)
    except ValueError:
        return False
    return True
