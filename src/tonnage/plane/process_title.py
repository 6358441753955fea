"""What `ps` shows of a process that was forked: its own command line, and not that of the process it was forked from.

The kernel shows the memory in which the arguments of the last exec lie. A child therefore writes its own over them; how
long they may be was decided at that exec, so the forkserver is started with an argument that only makes room
(`ROOM_FLAG`). Only Linux tells where that memory is; elsewhere, and wherever something looks other than expected,
nothing is done: a title is worth no risk.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOM_FLAG: Final = "--title-room"
ROOM: Final = "." * 1500
"""Longer command lines are cut. A page is the most that the kernel shows."""
_PR_SET_NAME: Final = 15
"""From Linux' sys/prctl.h. The name has 15 characters at most."""
_ARG_START, _ARG_END = 47, 48
"""Positions in /proc/PID/stat, from 0."""


def set_title(name: str, words: Sequence[str]) -> None:
    """Be shown as `words` by `ps -f`, and as `name` by `top` and `pgrep`."""
    if sys.platform != "linux":
        return
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NAME, ctypes.create_string_buffer(name.encode()[:15]), 0, 0, 0)
        _overwrite_arguments(" ".join(words).encode())
    except (OSError, ValueError, IndexError):  # a /proc that is not there, or hides what it could say
        return


def _overwrite_arguments(title: bytes) -> None:
    # The second field is the program's name in parentheses, which may hold anything, blanks and parentheses too.
    fields = [b"", b"", *Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()]
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    size = end - start
    if size < 2 or start <= 0 or size > 1 << 20:
        return
    memory = (ctypes.c_char * size).from_address(start)
    if not Path("/proc/self/cmdline").read_bytes().startswith(memory.raw[:16].partition(b"\0")[0]):
        return
    # A last byte that is not zero tells the kernel that this is a title: it is then shown up to its first zero.
    ctypes.memmove(start, title[: size - 2].ljust(size - 1, b"\0") + b".", size)
