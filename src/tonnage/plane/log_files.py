"""Logs of programs that run for weeks: one file and the one before it, each of a bounded size.

A program has its log open for as long as it runs, for appending. So the file is not put aside but copied and emptied:
what the program writes next stands at its beginning. A line that comes between the copy and the emptying is lost, and
that is a moment every ten megabytes.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

MAX_LOG_BYTES: Final = 10 << 20
"""With the one before it a program has at most twice this: days of a quiet cluster, and an hour of a bad one."""


def bound_log(log: Path, *, max_bytes: int = MAX_LOG_BYTES) -> bool:
    """Keep what was written so far as `NAME.log.old` and begin anew, if it is more than this; True if it was.

    A full disk keeps the older file: the log is emptied without a copy, for a log is never worth the data beside it.
    """
    try:
        if log.stat().st_size <= max_bytes:
            return False
    except FileNotFoundError:
        return False
    old, fresh = log.with_suffix(".log.old"), log.with_suffix(".log.new")
    try:
        with log.open("rb") as source, os.fdopen(_create(fresh), "wb") as target:
            shutil.copyfileobj(source, target)
        fresh.replace(old)
    except OSError:
        fresh.unlink(missing_ok=True)
    os.truncate(log, 0)
    return True


def _create(path: Path) -> int:
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
