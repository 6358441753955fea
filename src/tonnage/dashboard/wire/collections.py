"""Rows by collection and key, each encoded once, and what of them changed since somebody last asked.

    state = Collections()
    state.put("nodes", "node-1", NodeRow(name="node-1"))
    follower = state.follow()               # knows nothing yet: the first message is the whole state
    await follower.changed()
    message = follower.take()               # {"set": {"nodes": {"node-1": {…}}}, "gone": {…}, "revision": 7}

A follower that is slow is told of a row once, as it is when it next takes: what waits for it is never more than there
are rows. A message is one JSON object; "state": true in the first says that what was known before is to be forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar, cast

import msgspec

from tonnage.dashboard.wire.rows import COLLECTIONS, Row

R = TypeVar("R", bound=Row)

_encoder: Final = msgspec.json.Encoder()
_NAME_OF: Final[dict[type[Row], str]] = {kind: name for name, kind in COLLECTIONS.items()}


class Collections:
    """All rows that there are. `revision` grows with every change."""

    def __init__(self) -> None:
        self.revision = 0
        self._rows: dict[str, dict[str, Row]] = {name: {} for name in COLLECTIONS}
        self._encoded: dict[str, dict[str, msgspec.Raw]] = {name: {} for name in COLLECTIONS}
        self._followers: set[Follower] = set()

    def rows(self, collection: str) -> Mapping[str, Row]:
        return self._rows[collection]

    def of(self, kind: type[R]) -> Mapping[str, R]:
        """The rows of one class by key: `of(NodeRow)` is the collection nodes."""
        return cast("Mapping[str, R]", self._rows[_NAME_OF[kind]])

    def encoded(self, collection: str, key: str) -> msgspec.Raw | None:
        return self._encoded[collection].get(key)

    def put(self, collection: str, key: str, row: Row) -> None:
        """Add a row, or change it; one that is as it was is no change."""
        rows = self._rows[collection]
        if rows.get(key) == row:
            return
        rows[key] = row
        self._encoded[collection][key] = msgspec.Raw(_encoder.encode(row))
        self._tell(collection, key)

    def remove(self, collection: str, key: str) -> None:
        if self._rows[collection].pop(key, None) is not None:
            del self._encoded[collection][key]
            self._tell(collection, key)

    def state(self) -> bytes:
        """The whole state as one message."""
        return _encoder.encode({"state": True, "revision": self.revision, "set": self._encoded, "gone": {}})

    def follow(self) -> Follower:
        """Somebody who is told from now on; `Follower.close` ends it."""
        follower = Follower(self)
        self._followers.add(follower)
        return follower

    def leave(self, follower: Follower) -> None:
        self._followers.discard(follower)

    def _tell(self, collection: str, key: str) -> None:
        self.revision += 1
        for follower in self._followers:
            follower.note(collection, key)


class Follower:
    """Somebody who is told what changed. Nothing is lost, and nothing is told twice."""

    def __init__(self, collections: Collections) -> None:
        self._collections = collections
        self._knows_state = False
        self._changed: dict[str, set[str]] = {}
        self._is_changed = asyncio.Event()
        self._is_changed.set()

    def note(self, collection: str, key: str) -> None:
        if self._knows_state:
            self._changed.setdefault(collection, set()).add(key)
            self._is_changed.set()

    async def changed(self) -> None:
        """Return when there is something to take."""
        await self._is_changed.wait()

    def take(self) -> bytes:
        """What this follower does not know yet, as one message; the whole state the first time."""
        self._is_changed.clear()
        changed, self._changed = self._changed, {}
        if not self._knows_state:
            self._knows_state = True
            return self._collections.state()
        return _encoder.encode(difference(self._collections, changed))

    def close(self) -> None:
        self._collections.leave(self)

    def __iter__(self) -> Iterator[str]:  # names of collections with changes, for tests and logs
        return iter(self._changed)


def difference(collections: Collections, changed: Mapping[str, set[str]]) -> dict[str, object]:
    """These rows as they are now: those that are, and those that are not any more."""
    present: dict[str, dict[str, msgspec.Raw]] = {}
    gone: dict[str, list[str]] = {}
    for name, keys in changed.items():
        for key in sorted(keys):
            row = collections.encoded(name, key)
            if row is None:
                gone.setdefault(name, []).append(key)
            else:
                present.setdefault(name, {})[key] = row
    return {"revision": collections.revision, "set": present, "gone": gone}
