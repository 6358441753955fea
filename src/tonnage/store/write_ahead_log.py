"""SQLite's write-ahead log, looked at before SQLite does: does it break off where commits follow?

After a kill the newest commits are in this file alone. SQLite reads it up to the first frame whose checksum does not
match and takes the rest for what a crash left half written, without a word. A crash leaves no commit behind such a
frame, but a disk that changed a byte does: then acknowledged writes are lost, and that has to be told.

The format is that of https://www.sqlite.org/fileformat2.html#walformat: a header of 32 bytes, then frames, each a
header of 24 bytes and a page. Frames of an earlier round have other salts and do not count.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

_HEADER = struct.Struct(">8I")  # magic, version, page size, round, salt 1, salt 2, checksum 1, checksum 2
_FRAME = struct.Struct(">6I")  # page, pages after a commit (else 0), salt 1, salt 2, checksum 1, checksum 2
_LITTLE, _BIG = 0x377F0682, 0x377F0683
_MASK = 0xFFFFFFFF


def wal_of(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def lost_commits(path: Path) -> int:
    """How many commits stand behind a place where the write-ahead log at `path` cannot be read; 0 when all is well."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return 0
    if len(content) < _HEADER.size + _FRAME.size:
        return 0
    magic, _, page_bytes, _, *salts, sum_1, sum_2 = _HEADER.unpack_from(content)
    order = {_LITTLE: "<", _BIG: ">"}.get(magic, "<" if sys.byteorder == "little" else ">")
    is_header_sound = magic in (_LITTLE, _BIG) and _checksum(content[:24], order, 0, 0) == (sum_1, sum_2)
    if not is_header_sound:
        # Nothing of the file is read. Frames that belong together then tell that there was something to read.
        page_bytes = 4096
        salts = list(_FRAME.unpack_from(content, _HEADER.size)[2:4])
    is_whole, lost = is_header_sound, 0
    for start in range(_HEADER.size, len(content) - _FRAME.size - page_bytes + 1, _FRAME.size + page_bytes):
        _, commits, *found, frame_1, frame_2 = _FRAME.unpack_from(content, start)
        if found != salts:
            if is_whole and is_header_sound:
                # The end of this round, unless these very salts are what is damaged: then more of the round follows.
                is_whole = False
            continue
        if is_whole:
            sum_1, sum_2 = _checksum(content[start : start + 8], order, sum_1, sum_2)
            page = start + _FRAME.size
            sum_1, sum_2 = _checksum(content[page : page + page_bytes], order, sum_1, sum_2)
            is_whole = (sum_1, sum_2) == (frame_1, frame_2)
        if not is_whole and commits:
            lost += 1
    return lost


def _checksum(content: bytes, order: str, sum_1: int, sum_2: int) -> tuple[int, int]:
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for position in range(0, len(words), 2):
        sum_1 = (sum_1 + words[position] + sum_2) & _MASK
        sum_2 = (sum_2 + words[position + 1] + sum_1) & _MASK
    return sum_1, sum_2
