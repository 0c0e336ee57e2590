"""Faults: killed processes, power loss, disks that fail. `make faults` tries more of them."""

from __future__ import annotations

import os

TIMES = max(int(os.environ.get("FAULTS", "1")), 1)
"""How many times as many random cases are tried; set by `make faults`."""
