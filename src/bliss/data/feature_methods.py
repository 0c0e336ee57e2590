"""Names of the encodings of features. Imports nothing, for `--help`."""

from __future__ import annotations

METHODS = ("auto", "raw", "row", "standard")
"""Encodings of `FeatureEncoder`; "auto" is raw, or standard for the columns that need it."""
