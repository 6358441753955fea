"""Rows by collection and key, each encoded once, and what of them changed since somebody last asked.

    state = Collections()
    state.put("nodes", "node-1", NodeRow(name="node-1"))
    follower = state.follow()               # knows nothing yet: the first message is the whole state
    await follower.changed()
    message = follower.take()               # {"set": {"nodes": {"node-1": {…}}}, "gone": {…}, "revision": 7}

A follower that is slow is told of a row once, as it is when it next takes: what waits for it is never more than there
are rows. A message is one JSON object; "state": true in the first says that what was known before is to be forgotten.

"at" in a message says up to where its reader knows everything. Whoever lost the connection goes on from there: which
rows changed last is remembered, for a while.

    state.follow(since="3f2a09c1-7")        # None when that is too long ago, or of another start
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar, cast, overload

import msgspec

from tonnage.dashboard.wire.rows import COLLECTIONS, Row

R = TypeVar("R", bound=Row)

MOST_REMEMBERED: Final = 20_000
"""Rows of which it is remembered when they last changed."""

_encoder: Final = msgspec.json.Encoder()
_NAME_OF: Final[dict[type[Row], str]] = {kind: name for name, kind in COLLECTIONS.items()}


class Collections:
    """All rows that there are. `revision` grows with every change."""

    def __init__(self) -> None:
        self.revision = 0
        self._rows: dict[str, dict[str, Row]] = {name: {} for name in COLLECTIONS}
        self._encoded: dict[str, dict[str, msgspec.Raw]] = {name: {} for name in COLLECTIONS}
        self._followers: set[CollectionFollower] = set()
        self._start = secrets.token_hex(4)
        self._changed_at: dict[tuple[str, str], int] = {}  # those that changed last are last
        self._forgotten = 0  # changes up to this revision are not remembered any more

    @property
    def at(self) -> str:
        """The state as it is now, by name: from there one may go on following."""
        return f"{self._start}-{self.revision}"

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
        return _encoder.encode(
            {"state": True, "revision": self.revision, "at": self.at, "set": self._encoded, "gone": {}}
        )

    @overload
    def follow(self) -> CollectionFollower: ...

    @overload
    def follow(self, *, since: str) -> CollectionFollower | None: ...

    def follow(self, *, since: str | None = None) -> CollectionFollower | None:
        """Somebody who is told from now on, or of what changed since then; `CollectionFollower.close` ends it.

        None when it is not known any more what changed since then.
        """
        follower = CollectionFollower(self)
        if since is not None:
            changed = self._changed_since(since)
            if changed is None:
                return None
            follower.goes_on(changed)
        self._followers.add(follower)
        return follower

    def _changed_since(self, at: str) -> list[tuple[str, str]] | None:
        start, _, told = at.partition("-")
        if start != self._start or not (told.isascii() and told.isdigit() and len(told) <= 20):
            return None
        revision = int(told)
        if not self._forgotten <= revision <= self.revision:
            return None
        found = []
        for changed, changed_at in reversed(self._changed_at.items()):
            if changed_at <= revision:
                break
            found.append(changed)
        return found

    def leave(self, follower: CollectionFollower) -> None:
        self._followers.discard(follower)

    def _tell(self, collection: str, key: str) -> None:
        self.revision += 1
        self._changed_at.pop((collection, key), None)
        self._changed_at[collection, key] = self.revision
        if len(self._changed_at) > MOST_REMEMBERED:
            oldest = next(iter(self._changed_at))
            self._forgotten = self._changed_at.pop(oldest)
        for follower in self._followers:
            follower.note(collection, key)


class CollectionFollower:
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

    def goes_on(self, changed: Iterable[tuple[str, str]]) -> None:
        """It knows the state but for these rows."""
        self._knows_state = True
        self._is_changed.clear()
        for collection, key in changed:
            self.note(collection, key)

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
    return {"revision": collections.revision, "at": collections.at, "set": present, "gone": gone}
