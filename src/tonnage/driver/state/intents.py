"""What a call wrote before it began: the contents that it is about to make or remove, and no others.

    STATE/.intents/<token>.json     on disk before the call touches anything, gone once nothing is left to do
    STATE/<node>/pool-<n>/.<token>  contents aside: a copy that is not complete, or what is being removed

After a death only what an intent names is put right, and only if it is what the intent says. A token is drawn anew for
each call, so that whatever else lies in a pool, put there by whomever, is nobody's remains: it may be data, and stays.

| action | the call does | after a death |
| --- | --- | --- |
| make | makes empty contents in place, saves the record | without a record: removed, if there is nothing in them |
| copy | copies to aside, saves the record, moves aside into place | with a record: moved; without: aside is removed |
| remove | moves contents aside, saves or forgets the record, removes aside | with a record: moved back, else removed |
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from tonnage import logs
from tonnage.driver.pool_choice import PoolId
from tonnage.driver.state.records import AccessType, SnapshotRecord, VolumeRecord, is_contents_id, is_node_id
from tonnage.errors import TonnageError
from tonnage.private_files import own_folder, read_own, write_private

Action = Literal["make", "copy", "remove"]
FOLDER_NAME: Final = ".intents"
_TOKEN_BYTES: Final = 16

_log = logs.logger(__name__)


class Intent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that a call is about to do to contents."""

    token: str
    action: Action
    id: str
    node: str
    pool: int
    access_type: AccessType

    @property
    def pool_id(self) -> PoolId:
        return PoolId(self.node, self.pool)

    @property
    def aside_name(self) -> str:
        return f".{self.token}"


def intent_of(action: Action, record: VolumeRecord | SnapshotRecord) -> Intent:
    """An intent about the contents of a record, with a token that was never used."""
    return Intent(
        token=secrets.token_hex(_TOKEN_BYTES),
        action=action,
        id=record.id,
        node=record.node,
        pool=record.pool,
        access_type=record.access_type,
    )


class Intents:
    """The folder of intents. Everything here blocks."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / FOLDER_NAME

    def prepare(self) -> None:
        """Make the folder."""
        own_folder(self._folder)

    def write(self, intent: Intent) -> None:
        """Have an intent on disk, for good."""
        write_private(self._path(intent), msgspec.json.encode(intent))

    def drop(self, intent: Intent) -> None:
        """Nothing is left to do. Not synced: an intent that comes back after a power cut finds nothing to do."""
        self._path(intent).unlink(missing_ok=True)

    def all(self) -> list[Intent]:
        """Every intent that can be read. One that cannot be is logged and left: what it named is then unknown."""
        found: list[Intent] = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                found.append(_checked(path, msgspec.json.decode(read_own(path), type=Intent)))
            except FileNotFoundError:  # its call has come to its end
                continue
            except (TonnageError, OSError, ValueError, msgspec.MsgspecError) as exc:
                _log.warning("An intent cannot be read, and is left alone", path=str(path), err=str(exc))
        return found

    def sweep(self) -> None:
        """Remove intents that were half written: their calls had not begun."""
        for path in self._folder.glob(".*.json.*"):
            with suppress(OSError):
                path.unlink()

    def _path(self, intent: Intent) -> Path:
        return self._folder / f"{intent.token}.json"


def _checked(path: Path, intent: Intent) -> Intent:
    """The intent, if nothing in it leads elsewhere. Raises ValueError."""
    is_token = len(intent.token) == 2 * _TOKEN_BYTES and all(digit in "0123456789abcdef" for digit in intent.token)
    if not (is_token and path.stem == intent.token and is_contents_id(intent.id) and is_node_id(intent.node)):
        raise ValueError("it names no contents of this driver")
    if intent.pool < 0:
        raise ValueError(f"there is no pool {intent.pool}")
    return intent
