"""Volumes attached to nodes and taken off again: ControllerPublish and ControllerUnpublish.

A volume can be used on the node that it lives on, and by one node at a time. Publishing it on another is KEP-5925's
signal to rebuild it there, if its own node may be left.
"""

from __future__ import annotations

import msgspec

from tonnage.csi.errors import Code
from tonnage.driver.core import Core
from tonnage.driver.errors import StatusError
from tonnage.driver.state.records import Publication, VolumeRecord
from tonnage.driver.volumes.rebuild import Rebuilder


class Publications:
    """Which node has which volume."""

    def __init__(self, core: Core, rebuilder: Rebuilder) -> None:
        self._core = core
        self._rebuilder = rebuilder

    async def publish(self, volume_id: str, node: str, wanted: Publication) -> VolumeRecord:
        """The volume, attached to that node. Raises StatusError as ControllerPublishVolume does."""
        core = self._core
        async with core.locks.hold(volume_id):
            record = core.volume(volume_id)
            core.require_node(node)
            require_access(record, wanted.capability.access_type)
            known = record.published.get(node)
            if known is not None and known != wanted:
                raise StatusError(
                    Code.ALREADY_EXISTS,
                    f"volume {volume_id} is published on {node} already, otherwise than asked",
                )
            require_unused_elsewhere(core, record, node)
            self._rebuilder.require_may_rebuild(record, node)
            core.require_slot(node, volume_id)
            with core.allocations.reserving_slot(node, volume_id):
                record = await self._rebuilder.ensure_on(record, node)
                record = msgspec.structs.replace(record, published={**record.published, node: wanted})
                await core.save(record)
            return record

    async def unpublish(self, volume_id: str, node: str) -> None:
        """See to it that the volume is not attached to that node, or to none if no node is named.

        What is staged there goes from the record as well: a caller who detaches by force never unstages.
        """
        core = self._core
        async with core.locks.hold(volume_id):
            record = core.allocations.volumes.get(volume_id)
            if record is not None:
                await core.save(record.without_users(frozenset({node}) if node else record.users))


def require_access(record: VolumeRecord, access_type: str) -> None:
    """Raises StatusError with INVALID_ARGUMENT for blocks of a mounted volume and the other way round."""
    if record.access_type != access_type:
        raise StatusError(
            Code.INVALID_ARGUMENT,
            f"volume {record.volume_id} is a {record.access_type} volume, not a {access_type} volume",
        )


def require_unused_elsewhere(core: Core, record: VolumeRecord, node: str) -> None:
    """Raises StatusError with FAILED_PRECONDITION, naming the node that has it."""
    others = core.users_of(record, besides=node)
    if others:
        raise StatusError(
            Code.FAILED_PRECONDITION, f"volume {record.volume_id} is published on {', '.join(others)} already"
        )
