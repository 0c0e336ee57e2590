"""Errors that a user can act on: one sentence with the field, the value and the remedy."""

from __future__ import annotations


class InputError(ValueError):
    """What was given cannot be used; the message says what, why and what to do instead."""


class DamagedError(RuntimeError):
    """What was saved cannot be read back."""


class ResourceError(RuntimeError):
    """The machine lacks what it takes: room, rights or a device."""
