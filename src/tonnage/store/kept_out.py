"""Keys whose newest state is damaged: not served, not written to, until they are discarded."""

from __future__ import annotations

from pathlib import Path

from tonnage.store.errors import KeyDamaged
from tonnage.store.loading import Loaded
from tonnage.store.records import Damage


class KeptOut:
    """The damaged rows of each such key, and the newest sound row it has."""

    def __init__(self, path: Path, loaded: Loaded) -> None:
        self._path = path
        self._rows = loaded.kept_out
        self._intact = loaded.intact
        self._damage = {each.revision: each for each in loaded.damage}

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self._rows)

    def rows_of(self, key: str) -> list[int] | None:
        """The revisions of its damaged rows, None for a key that is not kept out."""
        return self._rows.get(key)

    def intact_row(self, key: str) -> int:
        """The revision of its newest sound row, 0 when there is none."""
        return self._intact.get(key, 0)

    def error(self, key: str) -> KeyDamaged:
        revision = max(self._rows[key], default=0)
        damage = self._damage.get(revision) or Damage(key, revision, "its checksum does not match")
        return KeyDamaged(self._path, key, damage)

    def forget(self, key: str) -> set[int]:
        """The key was discarded, and its damaged rows with it: which. They may have kept out another key as well."""
        gone = set(self._rows.pop(key))
        self._intact.pop(key, None)
        for other, revisions in self._rows.items():
            self._rows[other] = [revision for revision in revisions if revision not in gone]
        return gone
