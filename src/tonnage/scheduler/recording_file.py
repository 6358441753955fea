"""A recording on disk, written beside the scheduling loop: the loop never waits for the disk.

    loop ── line ──► waiting lines (bounded) ──► a thread ──► FILE, mode 0600

A recording cannot be repeated past a gap, so it is not rotated: at its size limit, on a disk error, or when more than
`MOST_WAITING_BYTES` wait, it ends with a line and a log entry that say why; it can be repeated up to there. The
scheduler goes on in any case. An existing file is kept as FILE.old.
"""

from __future__ import annotations

import os
import queue
import threading
from pathlib import Path
from typing import Final

from tonnage import logs, private_files
from tonnage.clock import Clock
from tonnage.errors import TonnageError
from tonnage.scheduling.recording.recording_engine import RecordedLine, encoded, microseconds

MOST_WAITING_BYTES: Final = 64 << 20
_END_WITHIN_S: Final = 10.0

_log = logs.logger("tonnage.scheduler")


class RecordingFile:
    """Takes lines and writes them. A context manager: at its end all lines are written."""

    def __init__(self, path: Path, *, limit_bytes: int, clock: Clock) -> None:
        """Raises TonnageError if the file cannot be created."""
        self.path = path
        self._limit_bytes = limit_bytes
        self._clock = clock
        self._fd = _opened(path)
        self._taken_bytes = 0
        self._waiting_bytes = 0
        self._lock = threading.Lock()
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.stopped = ""
        """Why writing has stopped; empty while it goes on."""
        self._thread = threading.Thread(target=self._write, name="recording", daemon=True)
        self._thread.start()

    def __enter__(self) -> RecordingFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.put(None)
        self._thread.join(_END_WITHIN_S)

    def take(self, line: bytes) -> None:
        """Queue a line for writing; never waits, never raises."""
        if self.stopped:
            return
        if self._taken_bytes + len(line) > self._limit_bytes:
            self._stop(f"it has reached its limit of {self._limit_bytes} bytes (--record-limit)")
        elif self._waiting_bytes + len(line) > MOST_WAITING_BYTES:
            self._stop(f"the disk is too slow: {self._waiting_bytes} bytes wait to be written")
        else:
            self._taken_bytes += len(line)
            self._put(line)

    def _put(self, line: bytes) -> None:
        with self._lock:
            self._waiting_bytes += len(line)
        self._lines.put(line)

    def _stop(self, why: str) -> None:
        self.stopped = why
        _log.warning("The recording ends here", file=str(self.path), reason=why)
        now_us = microseconds(self._clock.now())
        self._put(encoded(RecordedLine(op="stopped", at=self._clock.monotonic(), now_us=now_us, why=why)))

    def _write(self) -> None:
        try:
            while (line := self._lines.get()) is not None:
                view = memoryview(line)
                while view:
                    view = view[os.write(self._fd, view) :]
                with self._lock:
                    self._waiting_bytes -= len(line)
        except OSError as exc:
            self.stopped = f"it cannot be written: {exc.strerror}"
            _log.warning("The recording ends here", file=str(self.path), reason=self.stopped)
        finally:
            os.close(self._fd)


def _opened(path: Path) -> int:
    try:
        if path.is_file() and not path.is_symlink():
            path.replace(path.with_name(f"{path.name}.old"))
        return private_files.open_own(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    except OSError as exc:
        raise TonnageError(
            f"--record {path}: the file cannot be made: {exc.strerror}", hint="name a file in a folder that is there"
        ) from exc
