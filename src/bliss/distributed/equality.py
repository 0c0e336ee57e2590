"""Checks that all processes of a run have the same settings, data, weights and policy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import torch

from bliss.distributed.agreement import Communicator
from bliss.distributed.groups import all_gather_text
from bliss.errors import DamagedError, InputError
from bliss.storage.digests import tensor_digest

State: TypeAlias = Mapping[str, torch.Tensor]

CHECK_EVERY = 100
"""Steps between comparisons of weights and policies."""


def check_same_start(
    communicator: Communicator, settings: Mapping[str, Any], fingerprint: str
) -> None:
    """Raise an error that names the rank if settings or data differ from those of rank 0.

    settings     the settings of a run by name; "device" may differ
    fingerprint  digest of the data
    """
    if communicator.group.size == 1:
        return
    communicator.barrier()
    own = {"settings": {**settings, "device": ""}, "data": fingerprint}
    texts = all_gather_text(communicator.group, json.dumps(own))
    first, *others = (json.loads(text) for text in texts)
    for rank, other in enumerate(others, start=1):
        differences = _differences(other["settings"], first["settings"])
        if differences:
            raise InputError(
                f"settings on rank {rank} differ from rank 0 (rank {rank}, rank 0): "
                f"{'; '.join(differences)}. Start all processes with the same command."
            )
        if other["data"] != first["data"]:
            raise InputError(
                f"data on rank {rank} differ from rank 0 for dataset={settings['dataset']!r}: put "
                "the same files on all machines (check --root)."
            )


def check_equal_states(communicator: Communicator, step: int, states: Mapping[str, State]) -> None:
    """Raise an error that names the rank if a state differs from that of rank 0.

    step    number of steps taken
    states  named tensors by what they are: weights, policy values
    """
    if communicator.group.size == 1:
        return
    rows = communicator.all_gather(*(checksum(state) for state in states.values()))
    for column, what in enumerate(states):
        for rank, row in enumerate(rows):
            if row[column] != rows[0][column]:
                raise DamagedError(
                    f"{what} on rank {rank} differ from rank 0 after step {step}, because "
                    f"machines, library versions or memory differ: check the machine of rank "
                    f"{rank}, then continue from the last checkpoint."
                )


def checksum(state: State) -> int:
    """Digest of named tensors, as a whole number of 64 bits."""
    return int.from_bytes(bytes.fromhex(tensor_digest(state))[:8], "little", signed=True)


def _differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    return [f"{k}: {ours[k]}, {theirs.get(k)}" for k in ours if ours[k] != theirs.get(k)]
