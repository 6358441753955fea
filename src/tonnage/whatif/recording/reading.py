"""A recording's file, line by line. What is wrong with it is told with its file and line.

A file whose last line is cut off belongs to a scheduler that was killed, or that runs still: it is read up to there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from tonnage.errors import TonnageError
from tonnage.scheduling.recording.lines import VERSION, Header, RecordedLine, read_header, read_line


class UnreadableRecording(TonnageError):
    """A file that is no recording, or one that cannot be repeated."""

    def __init__(self, path: Path, line: int, problem: str, *, hint: str | None = None) -> None:
        self.path, self.line = path, line
        super().__init__(f"{path}: line {line}: {problem}" if line else f"{path}: {problem}", hint=hint)


@dataclass(slots=True)
class Recording:
    """One file. `lines` reads it anew each time; `number` is the line that it has come to."""

    path: Path
    header: Header
    number: int = 1
    ending: str = ""
    """How it ends, once it is read: empty where its scheduler stopped in order."""

    def lines(self) -> Iterator[RecordedLine]:
        """Raises UnreadableRecording for a line that is none."""
        self.number, self.ending = 1, "its scheduler was killed, or runs still"
        with _opened(self.path) as file:
            file.readline()
            for text in file:
                if not text.endswith(b"\n"):
                    return  # cut off
                self.number += 1
                try:
                    line = read_line(text)
                except msgspec.MsgspecError as exc:
                    raise UnreadableRecording(self.path, self.number, f"it is no line of a recording: {exc}") from exc
                if line.op in ("end", "stopped"):
                    self.ending = line.why
                    return
                yield line


def open_recording(path: Path) -> Recording:
    """Raises UnreadableRecording for what is none, or of another version."""
    hint = "give a file that `tonnage scheduler --record FILE` has written"
    with _opened(path) as file:
        first = file.readline()
    try:
        header = read_header(first)
    except msgspec.MsgspecError as exc:
        raise UnreadableRecording(path, 1, f"it is no recording: {exc}", hint=hint) from exc
    if header.recording != VERSION:
        told = f"it is a recording of version {header.recording}; this Tonnage reads version {VERSION}"
        raise UnreadableRecording(path, 1, told, hint=f"repeat it with Tonnage {header.tonnage}")
    return Recording(path, header)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as exc:
        raise UnreadableRecording(path, 0, f"the file cannot be read: {exc.strerror}") from exc
