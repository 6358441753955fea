"""The file of an audit log: one line an event, mode 0600, put aside when it is full, so many of those kept.

What is put aside is named by when, as upstream's: `audit.log` becomes `audit-2026-11-15T02-29-13.000.log`. A disk that
takes no more stops the log, not the server: that is said once in ten seconds and counted.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from tonnage.errors import TonnageError
from tonnage.private_files import open_own

STANDARD_OUT: Final = "-"
MAX_MEGABYTES: Final = 100
MAX_BACKUPS: Final = 100
"""Upstream's defaults of --audit-log-maxsize and --audit-log-maxbackup."""
_WHEN: Final = r"-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Where the log is, `-` for standard out. `max_bytes` 0 puts nothing aside, `max_backups` 0 keeps all."""

    path: str
    max_bytes: int = MAX_MEGABYTES << 20
    max_backups: int = MAX_BACKUPS


class AuditLogFile:
    """Takes lines. Use it as a context manager."""

    def __init__(self, settings: AuditSettings) -> None:
        """Open it. Raises TonnageError."""
        self._path = None if settings.path == STANDARD_OUT else Path(settings.path)
        self._max_bytes = settings.max_bytes
        self._max_backups = settings.max_backups
        self.lost = 0
        """Lines that the disk did not take."""
        self._fd = sys.stdout.fileno() if self._path is None else self._open(self._path)
        self._bytes = 0 if self._path is None else os.fstat(self._fd).st_size

    def __enter__(self) -> AuditLogFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            os.close(self._fd)

    def write(self, line: bytes, now: datetime) -> None:
        """Add a line, without its end."""
        data = line + b"\n"
        try:
            if self._path is not None and self._max_bytes and self._bytes and self._bytes + len(data) > self._max_bytes:
                self._put_aside(self._path, now)
            written = os.write(self._fd, data)
            while written < len(data):
                written += os.write(self._fd, data[written:])
            self._bytes += len(data)
        except (OSError, TonnageError) as exc:
            self.lost += 1
            _log.error("The audit log takes no more: %s", exc)

    def _put_aside(self, path: Path, now: datetime) -> None:
        when = now.strftime("%Y-%m-%dT%H-%M-%S.") + f"{now.microsecond // 1000:03d}"
        path.rename(path.with_name(f"{path.stem}-{when}{path.suffix}"))
        fresh = self._open(path)
        os.close(self._fd)
        self._fd, self._bytes = fresh, 0
        if self._max_backups:
            mine = re.compile(re.escape(path.stem) + _WHEN + re.escape(path.suffix))
            backups = sorted(each for each in path.parent.iterdir() if mine.fullmatch(each.name))
            for each in backups[: -self._max_backups]:
                with suppress(OSError):
                    each.unlink()

    @staticmethod
    def _open(path: Path) -> int:
        try:
            fd = open_own(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.fchmod(fd, 0o600)  # who asks for what is nobody else's business, whatever made the file
            return fd
        except OSError as exc:
            raise TonnageError(
                f"--audit-log-path {path}: cannot be written: {exc.strerror or exc}",
                hint="name a file in a folder that is there and yours",
            ) from exc
