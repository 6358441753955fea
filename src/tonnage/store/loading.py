"""From the rows of a log to the newest state of every key, and what is damaged. Pure.

A row with a wrong checksum is kept out. So is its key, unless a sound row follows the damaged one: what came before a
damaged row is not the present. A key kept out can be deleted (`Store.discard`) and then created again. A missing row is
noticed by its neighbour's `follows`, by the count of rows after a compaction, by the seal (schema.sql), or by the
newest acknowledged revision (`folder.py`); its key is unknown, so a gap is reported as loudly. Unnoticed: rows after
all of these, cut off the end as a whole, as in a restored backup.
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tonnage.store.errors import KeyDamaged
from tonnage.store.records import Damage, row_checksum

_REVISIONS_AN_ENTRY = 256
_BYTES_AN_ENTRY = 1 << 20
_MISMATCH = "its checksum does not match"


class HistoryBytes:
    """How many bytes of history the log keeps, and how far to compact for a given budget.

    Bytes are booked under the revision whose compaction frees them: a superseded document under its successor, a
    tombstone under itself. Neighbouring revisions share an entry, so answers are rounded up to the end of an entry.
    """

    def __init__(self) -> None:
        self.total = 0
        self._entries: deque[list[int]] = deque()  # first revision, last revision, bytes

    def add(self, revision: int, size: int) -> None:
        if not size:
            return
        self.total += size
        newest = self._entries[-1] if self._entries else None
        if newest is None or newest[2] >= _BYTES_AN_ENTRY or revision - newest[0] >= _REVISIONS_AN_ENTRY:
            self._entries.append([revision, revision, size])
        else:
            newest[1] = revision
            newest[2] += size

    def forget(self, revision: int) -> None:
        """Drop the entries up to `revision`: they have been compacted."""
        while self._entries and self._entries[0][1] <= revision:
            self.total -= self._entries.popleft()[2]

    def to_keep(self, budget: int) -> int:
        """The revision to compact to so that at most `budget` bytes are left; 0 if nothing needs to go."""
        left, target = self.total, 0
        for _, last, size in self._entries:
            if left <= budget:
                break
            left -= size
            target = last
        return target


StoredRow = tuple[int, bytes, int, int, int, bytes, int]
"""revision, key, previous, follows, deleted, document, checksum: as in the file, of any type."""

REVISION_LEAP = 1_000_000
"""How far a damaged number may move the revision counter. Also how far the counter moves if the number it was kept in
is damaged: no revision may be given twice, and nobody deletes a million objects in a row."""


ENTRIES_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Seal:
    """The compaction table's row. `is_sound`: the checksum matches. `lost_commits`: unreadable at the WAL's end."""

    compacted: int
    rows: int
    sealed: int
    is_sound: bool = True
    lost_commits: int = 0


@dataclass(slots=True)
class Loaded:
    """What a file holds. `records` has the newest sound row of every key that is not kept out: (revision, document).

    `floor`: history up to this revision has holes and is not served, as if it were compacted. `kept_out`: damaged rows
    by key, `intact`: the newest sound row of these keys. `damaged_rows`: all rows whose columns cannot be trusted.
    `superseded`: damaged and missing rows that a sound row of a known key follows. `entries`: a sum, independent of
    order, over what the index should hold.
    """

    records: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    tombstones: dict[str, int] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)
    kept_out: dict[str, list[int]] = field(default_factory=dict)
    intact: dict[str, int] = field(default_factory=dict)
    damaged_rows: set[int] = field(default_factory=set)
    superseded: dict[int, str] = field(default_factory=dict)
    history: HistoryBytes = field(default_factory=HistoryBytes)
    revision: int = 0
    last_row: int = 0
    floor: int = 0
    entries: int = 0

    def error(self, path: Path, key: str) -> KeyDamaged:
        """The error of reading or changing a key that is kept out."""
        revision = max(self.kept_out[key], default=0)
        damage = next((each for each in self.damage if each.revision == revision), None)
        return KeyDamaged(path, key, damage or Damage(key, revision, _MISMATCH))

    def forget(self, key: str) -> set[int]:
        """Forget a discarded key; returns its damaged rows. These may have kept out another key as well."""
        gone = set(self.kept_out.pop(key))
        self.intact.pop(key, None)
        for other, revisions in self.kept_out.items():
            self.kept_out[other] = [revision for revision in revisions if revision not in gone]
        return gone


class _Suspect(NamedTuple):
    key: str
    previous: int
    row: StoredRow


class Scan:
    """Takes the rows one by one, oldest first; `finish` returns the result."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal
        self._loaded = Loaded()  # its floor: the newest row whose predecessor is unknown
        self._heads: dict[str, tuple[int, bool, bytes]] = {}
        self._suspects: dict[int, _Suspect] = {}
        self._missing: dict[int, str] = {}  # revision -> its key, if a later row of the key tells
        self._last = 0  # the newest row, sound or not
        self._last_sound = 0
        self._below = 0  # rows at or before the compacted revision
        self._compacted = seal.compacted if seal.is_sound else 0
        self._whole_after = seal.compacted if seal.is_sound else sys.maxsize  # gaps after this are not compaction's

    def take(self, row: StoredRow) -> None:
        revision, raw_key, previous, follows, deleted, document, checksum = row
        key = raw_key.decode("utf-8", "surrogateescape") if isinstance(raw_key, bytes) else ""
        last, self._last, loaded = self._last, revision, self._loaded
        loaded.entries = loaded.entries + hash((raw_key, previous, revision)) & ENTRIES_MASK
        if revision <= self._compacted:
            self._below += 1
        if checksum != row_checksum(revision, key, previous, follows, deleted, document):
            self._suspects[revision] = _Suspect(key, previous if isinstance(previous, int) else 0, row)
            return
        if follows > last and follows > self._whole_after:
            self._missing[follows] = ""
        if self._suspects and previous in self._suspects:
            # A sound row follows the damaged one: its key is certain, and the damage is history.
            loaded.superseded[previous] = key
            loaded.floor = revision
            loaded.damage.append(Damage(key, previous, "its checksum does not match; a later state is whole"))
            del self._suspects[previous]
        elif previous in self._missing:
            loaded.superseded[previous] = self._missing[previous] = key
            loaded.floor = revision
        self._last_sound = revision
        before = self._heads.get(key)
        freed = len(document) if deleted else 0
        if before is not None and not before[1]:
            freed += len(before[2])
        if revision > self._compacted:
            loaded.history.add(revision, freed)
        self._heads[key] = (revision, bool(deleted), b"" if deleted else document)

    def finish(self) -> Loaded:
        loaded = self._loaded
        loaded.revision = max(self._last_sound, self._compacted)
        within = [r for r in self._suspects if r <= loaded.revision + REVISION_LEAP]
        loaded.revision = max([loaded.revision, *within])
        loaded.damaged_rows = self._suspects.keys() | loaded.superseded.keys()
        self._judge_seal(loaded)
        self._judge_suspects(loaded)
        for revision, key in self._missing.items():
            known = (
                "; a later state is whole" if key else ": whose it was is not known; an object may be as it was before"
            )
            loaded.damage.append(Damage(key, revision, f"it is missing{known}"))
        loaded.damage.sort(key=lambda each: each.revision)
        for key, (revision, deleted, document) in sorted(self._heads.items()):
            if key in loaded.kept_out:
                loaded.intact[key] = revision
            elif deleted:
                loaded.tombstones[key] = revision
            else:
                loaded.records[key] = (revision, document)
        loaded.floor = min(max([loaded.floor, *(damage.revision for damage in loaded.damage)]), loaded.revision)
        # A lost end stays a gap: the next row follows what was there, not what is left.
        loaded.last_row = loaded.revision if loaded.revision in self._missing else max([self._last_sound, *within])
        return loaded

    def _judge_seal(self, loaded: Loaded) -> None:
        seal = self._seal
        if seal.lost_commits:
            # Clients may know these revisions: none is given again, and nobody can continue from one.
            loaded.revision += REVISION_LEAP
            self._missing[loaded.revision] = ""
            reason = f"the write-ahead log breaks off, and {seal.lost_commits} commits before this are lost"
            loaded.damage.append(Damage("", loaded.revision, reason))
        if not seal.is_sound:
            # It is unknown how far history goes and where the counter stood: no history, and a counter well beyond.
            loaded.revision += REVISION_LEAP
            loaded.damage.append(
                Damage("", loaded.revision, "the record of compaction is damaged; history is given up")
            )
            return
        if self._below < seal.rows:
            missing = seal.rows - self._below
            reason = f"{missing} of {seal.rows} rows at or before it are missing: whose they were is not known"
            loaded.damage.append(Damage("", seal.compacted, reason))
        if loaded.revision < seal.sealed:
            self._missing[seal.sealed] = ""
            loaded.revision = seal.sealed

    def _judge_suspects(self, loaded: Loaded) -> None:
        """Keep out every key whose present state may be a damaged row."""
        owner_of = {revision: key for key, (revision, _, _) in self._heads.items()} if self._suspects else {}
        for revision, suspect in self._suspects.items():
            names = self._owners(suspect, owner_of.get(suspect.previous))
            for key in names:
                loaded.kept_out.setdefault(key, []).append(revision)
            loaded.damage.append(Damage(names[0], revision, "its checksum does not match; kept out"))

    def _owners(self, suspect: _Suspect, before: str | None) -> list[str]:
        """The possible keys of a damaged row. `before` is the key of the row it follows, if that is another key's
        newest: then one of the two columns is wrong, and with the right value the checksum may match."""
        if before is None or before == suspect.key:
            return [suspect.key]
        revision, _, previous, follows, deleted, document, checksum = suspect.row
        if checksum == row_checksum(revision, before, previous, follows, deleted, document):
            return [before]
        head = self._heads.get(suspect.key)
        for likely in (0, head[0] if head is not None else 0):
            if checksum == row_checksum(revision, suspect.key, likely, follows, deleted, document):
                return [suspect.key]
        return [suspect.key, before]
