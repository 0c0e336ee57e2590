"""Errors that a user can act on: one sentence with the field, the value and the remedy."""

from __future__ import annotations


class InputError(ValueError):
    """Invalid input; the message gives the field, the reason and the remedy."""


class DivergedError(InputError):
    """A training loss is not finite."""


class DamagedError(RuntimeError):
    """A saved file is damaged and cannot be read."""


class TruncatedError(DamagedError):
    """A file became shorter while it was in use."""


class ResourceError(RuntimeError):
    """The machine lacks a resource: memory, disk space, permission, a package or a device."""


class LostError(ResourceError):
    """Another process of the same run has ended, or does not answer in time."""


class Interrupted(Exception):
    """A signal ended the run; a checkpoint was written."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by signal {number}")
        self.number = number
