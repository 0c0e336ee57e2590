"""Addresses that a process listens on, from Linux's /proc."""

from __future__ import annotations

import os
import socket
from pathlib import Path

LISTENING = "0A"  # state of a socket


def own_listeners() -> list[str]:
    """Address of each TCP socket on which this process listens."""
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    own = {os.readlink(link) for link in links if os.path.islink(link)}
    lines = []
    for table in ("tcp", "tcp6"):
        lines += Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]
    rows = [line.split() for line in lines]
    return [
        _address(row[1].split(":")[0])
        for row in rows
        if row[3] == LISTENING and f"socket:[{row[9]}]" in own
    ]


def _address(digits: str) -> str:
    """Address from words of 32 bits in the machine's order."""
    words = bytes.fromhex(digits)
    ordered = b"".join(words[start : start + 4][::-1] for start in range(0, len(words), 4))
    return socket.inet_ntop(socket.AF_INET if len(words) == 4 else socket.AF_INET6, ordered)
