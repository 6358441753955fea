"""A volume moves to another node: KEP-5925's rebuild.

    room on the new node is held  ->  contents copied  ->  the record names the new place  ->  the old copy goes

A death before the record is written leaves the volume where it was, and after it where it should be; the other copy is
removed at the next start, which knows it by what the call wrote before it began (`state.intents`). The state folder is
shared by all nodes, so that the contents of a node that is gone can still be read: that is what a replica elsewhere
would be to a real driver.
"""

from __future__ import annotations

import msgspec

from tonnage import logs
from tonnage.csi.errors import Code
from tonnage.driver.core import Core
from tonnage.driver.errors import StatusError
from tonnage.driver.pool_choice import choose, largest_bytes
from tonnage.driver.state.records import VolumeRecord
from tonnage.driver.volumes.parameters import in_words, read_parameters

_log = logs.logger(__name__)


class Rebuilder:
    """Whoever calls `require_may_rebuild` or `ensure_on` holds the volume's lock."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def rebuild(self, volume_id: str, to_node: str) -> bool:
        """Move a volume, whoever says that it may; False if it lives there already. Raises StatusError."""
        async with self._core.locks.hold(volume_id):
            record = self._core.volume(volume_id)
            self._core.require_node(to_node)
            return await self.ensure_on(record, to_node) is not record

    def may_leave(self, node: str) -> bool:
        """Whether volumes may be taken away from a node: this driver rebuilds them, and the node lets them go."""
        core = self._core
        return core.settings.rebuild and (core.hooks.may_leave(node) or core.is_gone(node))

    def require_may_rebuild(self, record: VolumeRecord, to_node: str) -> None:
        """Raises StatusError with FAILED_PRECONDITION unless the volume lives on that node or may be rebuilt there."""
        if record.node == to_node:
            return
        core, where = self._core, f"volume {record.volume_id} lives on {record.node} and cannot be used on {to_node}"
        if not core.settings.rebuild:
            raise StatusError(Code.FAILED_PRECONDITION, f"{where}: this driver does not rebuild volumes")
        if not self.may_leave(record.node):
            raise StatusError(Code.FAILED_PRECONDITION, f"{where}: {record.node} is not out of use")

    async def ensure_on(self, record: VolumeRecord, to_node: str) -> VolumeRecord:
        """The volume, living on that node. What is left of its use on nodes that are gone goes with the old place.

        Raises StatusError: FAILED_PRECONDITION when no pool has room, DATA_LOSS when there is nothing left to copy.
        Not RESOURCE_EXHAUSTED: of ControllerPublish and NodeStage that says that the node has no attach slot left, and
        its kubelet would fail the pod for it (KEP-4876). This one waits: it is asked again, and goes on with room.
        """
        if record.node == to_node:
            return record
        core, old = self._core, self._core.folder.contents_of(record)
        parameters = read_parameters(record.parameters)
        room = {to_node: core.faults.allocatable_bytes(to_node)}
        policy = parameters.policy or core.settings.policy
        place = choose(room, record.capacity_bytes, policy=policy, rng=core.rng, numbers=parameters.pools)
        if place is None:
            core.hooks.on_refused(record.volume_id, to_node)
            raise StatusError(
                Code.FAILED_PRECONDITION,
                f"volume {record.volume_id} cannot be rebuilt on {to_node}: no pool has room for "
                f"{in_words(record.capacity_bytes)}, the most that one has free is "
                f"{in_words(largest_bytes(room, parameters.pools))}",
            )
        gone = frozenset(node for node in record.users if core.is_gone(node))
        moved = msgspec.structs.replace(record.without_users(gone), node=place.node, pool=place.pool)
        with core.allocations.reserving_bytes(place, record.capacity_bytes):
            try:
                await core.move(record, moved)
            except FileNotFoundError as exc:
                if old.exists():
                    raise
                lost = f"volume {record.volume_id} has no contents left on {record.node}"
                raise StatusError(Code.DATA_LOSS, lost) from exc
        _log.info("Volume rebuilt", volume=record.volume_id, from_node=record.node, to_node=to_node, pool=place.pool)
        core.hooks.on_rebuilt(record.volume_id, record.node, to_node)
        return moved
