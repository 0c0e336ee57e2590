"""Refusal of link tasks where studies know labels of nodes alone."""

from __future__ import annotations

from typing import Any

from bliss.errors import InputError


def check_node_task(task: Any, command: str) -> None:
    """Raise an error if the setting `task` is not that of nodes."""
    if task not in (None, "node"):
        raise InputError(
            f"task={task!r} is not supported by `bliss {command}`, which studies labels of nodes: "
            "leave it out, or use `bliss train --task link`."
        )
