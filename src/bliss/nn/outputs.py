"""Outputs of a layer, in memory or on disk."""

from __future__ import annotations

import os
import sys
import tempfile
import weakref
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bliss.storage.files import check_space, writing
from bliss.storage.mapped import MappedFile, RowReader, new_map, new_npy


class Outputs:
    """Room for a layer's outputs: in memory, in an .npy file, or in a nameless file of a folder.

    A nameless file is written and, by `rows`, read without a map, which is faster and keeps its
    pages out of the process. `tensor` maps it.

    `place` is an .npy file, or a folder, with `room` bytes that stay in memory; None: in memory.
    """

    def __init__(self, shape: tuple[int, int], place: Path | None = None, room: int = 0) -> None:
        size = 4 * shape[0] * shape[1]
        self._handle = -1  # of a nameless file
        self.rows: RowReader | None = None  # reads a nameless file
        is_file = place is not None and place.is_file()
        if place is None or (size <= room and not is_file):
            self.tensor = torch.empty(shape)
            return
        check_space(place / "outputs", size)
        if is_file:
            with writing(place):
                self.tensor = torch.from_numpy(new_npy(place, shape, np.float32))
            return
        with writing(place):
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place) as file:  # the map and the handle outlive it
                array = new_map(file, shape, np.float32)
                self._handle = os.dup(file.fileno())
            weakref.finalize(self, os.close, self._handle)
            self.tensor = torch.from_numpy(array)
            if sys.platform == "linux":
                name = Path(f"/proc/self/fd/{self._handle}")
                self.rows = RowReader(MappedFile(name, 0, size), array, is_cold=False)
        self._folder = place

    def write(self, start: int, rows: Tensor) -> None:
        """Set the rows from `start` on. [n, F]."""
        if self._handle < 0:
            self.tensor[start : start + len(rows)] = rows
            return
        content = rows.contiguous().view(-1).view(torch.uint8).numpy().data
        place = start * self.tensor[:1].nbytes
        with writing(self._folder):
            while len(content):
                done = os.pwrite(self._handle, content, place)
                content, place = content[done:], place + done
