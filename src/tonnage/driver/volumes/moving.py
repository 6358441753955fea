"""A volume on the node where it is wanted: its pool chosen, an attach slot reserved, rebuilt there if it may be.

A volume can be used on its own node, and by one node at a time. Publishing or staging it on another is KEP-5925's
signal to rebuild it there, if it may leave its node:

    space on the new node is reserved  ->  contents copied  ->  the record names the new place  ->  the old copy goes

All nodes share the state folder, so the contents of a gone node can still be read: they stand for the replica elsewhere
that a real driver would have.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import msgspec

from tonnage import logs
from tonnage.csi.errors import Code, StatusError, failed_precondition, invalid_argument
from tonnage.driver.driver import Driver
from tonnage.driver.node_pools import PoolId, choose, largest_bytes
from tonnage.driver.state.records import VolumeRecord
from tonnage.driver.volumes.parameters import Parameters, in_words, read_parameters

_log = logs.logger(__name__)


def choose_pool(driver: Driver, nodes: Iterable[str], size_bytes: int, parameters: Parameters) -> PoolId | None:
    """The pool on these nodes for a volume of this size, by its class's policy or the driver's; None if none fits."""
    return choose(
        {node: driver.faults.allocatable_bytes(node) for node in nodes},
        size_bytes,
        policy=parameters.policy or driver.settings.policy,
        rng=driver.rng,
        numbers=parameters.pools,
        kept_bytes=int(parameters.sizes.is_strict),
    )


def most_bytes(driver: Driver, nodes: Iterable[str], parameters: Parameters) -> int:
    """The most that one pool of these nodes has free for such volumes."""
    return largest_bytes({node: driver.faults.allocatable_bytes(node) for node in nodes}, parameters.pools)


# -- rebuilding; the caller of `require_may_rebuild` or `ensure_on` must hold the volume's lock ------------------------


def may_leave(driver: Driver, node: str) -> bool:
    """True if volumes may leave a node: this driver rebuilds, and the node is out of use or gone."""
    return driver.settings.rebuild and (driver.hooks.may_leave(node) or driver.is_gone(node))


def require_may_rebuild(driver: Driver, record: VolumeRecord, to_node: str) -> None:
    """Raises StatusError with FAILED_PRECONDITION unless the volume is on that node or may be rebuilt there."""
    if record.node == to_node:
        return
    where = f"volume {record.volume_id} lives on {record.node} and cannot be used on {to_node}"
    if not driver.settings.rebuild:
        raise failed_precondition(f"{where}: this driver does not rebuild volumes")
    if not may_leave(driver, record.node):
        raise failed_precondition(f"{where}: {record.node} is not out of use")


async def ensure_on(driver: Driver, record: VolumeRecord, to_node: str) -> VolumeRecord:
    """The volume, moved to that node if necessary. Uses on gone nodes are removed with the old place.

    A crash at any instant leaves the volume whole on the old node or the new one; a repeated call finishes it.
    Raises StatusError: FAILED_PRECONDITION if no pool fits (RESOURCE_EXHAUSTED would mean attach slots, and fail
    the pod: KEP-4876), DATA_LOSS if the contents are missing.
    """
    if record.node == to_node:
        return record
    old = driver.folder.contents_of(record)
    parameters = read_parameters(record.parameters)
    place = choose_pool(driver, [to_node], record.size_bytes, parameters)
    if place is None:
        driver.hooks.on_refused(record.volume_id, to_node)
        raise failed_precondition(
            f"volume {record.volume_id} cannot be rebuilt on {to_node}: no pool has room for "
            f"{in_words(record.size_bytes)}, the most that one has free is "
            f"{in_words(most_bytes(driver, [to_node], parameters))}"
        )
    gone = frozenset(node for node in record.users if driver.is_gone(node))
    moved = msgspec.structs.replace(record.without_users(gone), node=place.node, pool=place.pool)
    with driver.allocations.reserving_bytes(place, record.size_bytes):
        try:
            await driver.move(record, moved)
        except FileNotFoundError as exc:
            if old.exists():
                raise
            lost = f"volume {record.volume_id} has no contents left on {record.node}"
            raise StatusError(Code.DATA_LOSS, lost) from exc
    _log.info("Volume rebuilt", volume=record.volume_id, from_node=record.node, to_node=to_node, pool=place.pool)
    driver.hooks.on_rebuilt(record.volume_id, record.node, to_node)
    return moved


def require_access(record: VolumeRecord, access_type: str) -> None:
    """Raises StatusError with INVALID_ARGUMENT for a block use of a mount volume, or the reverse."""
    if record.access_type != access_type:
        raise invalid_argument(
            f"volume {record.volume_id} is a {record.access_type} volume, not a {access_type} volume"
        )


@asynccontextmanager
async def using_on(driver: Driver, record: VolumeRecord, node: str) -> AsyncIterator[VolumeRecord]:
    """The volume, moved to that node; an attach slot is reserved while the block runs.

    Raises StatusError if the volume is in use elsewhere, may not or cannot be rebuilt here (FAILED_PRECONDITION),
    or the node has no slot (RESOURCE_EXHAUSTED, only for this: kubelets read it as the attach limit).
    """
    others = driver.users_of(record, besides=node)
    if others:
        raise failed_precondition(f"volume {record.volume_id} is published on {', '.join(others)} already")
    require_may_rebuild(driver, record, node)
    driver.require_slot(node, record.volume_id)
    with driver.allocations.reserving_slot(node, record.volume_id):
        yield await ensure_on(driver, record, node)
