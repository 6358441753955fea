"""Volumes attached to nodes and taken off again: ControllerPublish and ControllerUnpublish.

A volume can be used on the node that it lives on, and by one node at a time. Publishing it on another is KEP-5925's
signal to rebuild it there, if its own node may be left.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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
            async with using_on(core, self._rebuilder, record, node) as record:
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


@asynccontextmanager
async def using_on(core: Core, rebuilder: Rebuilder, record: VolumeRecord, node: str) -> AsyncIterator[VolumeRecord]:
    """The volume, living on that node, which keeps an attach slot for it while the block runs.

    Raises StatusError when the volume is in use elsewhere, may not or cannot be rebuilt here (FAILED_PRECONDITION), or
    the node has no slot (RESOURCE_EXHAUSTED, and nothing else is: kubelets take it for an attach limit).
    """
    require_unused_elsewhere(core, record, node)
    rebuilder.require_may_rebuild(record, node)
    core.require_slot(node, record.volume_id)
    with core.allocations.reserving_slot(node, record.volume_id):
        yield await rebuilder.ensure_on(record, node)


def require_unused_elsewhere(core: Core, record: VolumeRecord, node: str) -> None:
    """Raises StatusError with FAILED_PRECONDITION, naming the node that has it."""
    others = core.users_of(record, besides=node)
    if others:
        raise StatusError(
            Code.FAILED_PRECONDITION, f"volume {record.volume_id} is published on {', '.join(others)} already"
        )
