"""The reference CSI driver in few words, for tests: a driver on a folder, and the requests it is asked.

driver = driver_at(folder, "2x10Gi", nodes=("node-1", "node-2"), rebuild=True)
await controller(driver).CreateVolume(create("a", "4Gi", node="node-1"), None)
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.virtual_clock import VirtualClock
from tonnage.clock import Clock
from tonnage.csi import csi_pb2 as csi
from tonnage.driver.controller_service import ControllerService
from tonnage.driver.driver import CsiDriverSettings, Driver, RebuildHooks
from tonnage.driver.node_pools import Policy, parse_node_pools, pools_by_node
from tonnage.driver.node_service import NodeService
from tonnage.driver.volumes.moving import ensure_on
from tonnage.driver.volumes.parameters import topology_of
from tonnage.faults import FaultFile
from tonnage.quantity import Quantity

WRITER = csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER


def size_bytes(text: str) -> int:
    """`size_bytes("10Gi")`."""
    return Quantity.parse(text).value()


def driver_at(
    folder: Path,
    *pools: str,
    nodes: Sequence[str] = ("node-1",),
    max_volumes: Mapping[str, int] | None = None,
    policy: Policy = "best-fit",
    report_pools: bool = True,
    one_number: str = "",
    rebuild: bool = False,
    faults: FaultFile | None = None,
    hooks: RebuildHooks | None = None,
    clock: Clock | None = None,
) -> Driver:
    """A driver with its state below `folder`; one pool of 10Gi on each node unless said otherwise."""
    return Driver(
        CsiDriverSettings(
            pools=pools_by_node([parse_node_pools(text) for text in pools or ("10Gi",)], nodes),
            max_volumes=max_volumes or {},
            policy=policy,
            report_pools=report_pools,
            one_number=one_number,
            rebuild=rebuild,
        ),
        folder,
        clock=clock or VirtualClock(),
        rng=random.Random(1),
        faults=faults,
        hooks=hooks,
    )


def controller(driver: Driver, node: str = "") -> ControllerService:
    """The Controller service of all nodes, or the one that is bound to a node."""
    return ControllerService(driver, (node,) if node else driver.nodes)


def node_service(driver: Driver, node: str = "node-1") -> NodeService:
    """The Node service of a node."""
    return NodeService(driver, node)


def mounted(mode: csi.VolumeCapability.AccessMode.Mode = WRITER) -> csi.VolumeCapability:
    """A capability: mounted, by one node."""
    return csi.VolumeCapability(
        mount=csi.VolumeCapability.MountVolume(), access_mode=csi.VolumeCapability.AccessMode(mode=mode)
    )


def as_blocks(mode: csi.VolumeCapability.AccessMode.Mode = WRITER) -> csi.VolumeCapability:
    """A capability: as blocks, by one node."""
    return csi.VolumeCapability(
        block=csi.VolumeCapability.BlockVolume(), access_mode=csi.VolumeCapability.AccessMode(mode=mode)
    )


def within(required: str = "", limit: str = "") -> csi.CapacityRange:
    """A range of sizes, `within("1Gi", "2Gi")`."""
    return csi.CapacityRange(
        required_bytes=size_bytes(required) if required else 0, limit_bytes=size_bytes(limit) if limit else 0
    )


def create(
    name: str,
    size: str = "1Gi",
    *,
    limit: str = "",
    node: str = "",
    requisite: Sequence[str] = (),
    preferred: Sequence[str] = (),
    capability: csi.VolumeCapability | None = None,
    parameters: Mapping[str, str] | None = None,
    snapshot: str = "",
    volume: str = "",
) -> csi.CreateVolumeRequest:
    """A volume as a provisioner asks for it. `node` is both requisite and preferred, as with a selected node."""
    asked = csi.CreateVolumeRequest(
        name=name, volume_capabilities=[capability or mounted()], parameters=parameters or {}
    )
    if size or limit:
        asked.capacity_range.CopyFrom(within(size, limit))
    for wanted in (node, *requisite):
        if wanted:
            asked.accessibility_requirements.requisite.append(topology_of(wanted))
    for wanted in (node, *preferred):
        if wanted:
            asked.accessibility_requirements.preferred.append(topology_of(wanted))
    if snapshot:
        asked.volume_content_source.snapshot.snapshot_id = snapshot
    if volume:
        asked.volume_content_source.volume.volume_id = volume
    return asked


def publish(
    volume_id: str, node: str = "node-1", *, readonly: bool = False, capability: csi.VolumeCapability | None = None
) -> csi.ControllerPublishVolumeRequest:
    """Attach a volume."""
    return csi.ControllerPublishVolumeRequest(
        volume_id=volume_id, node_id=node, volume_capability=capability or mounted(), readonly=readonly
    )


def unpublish(volume_id: str, node: str = "") -> csi.ControllerUnpublishVolumeRequest:
    """Detach a volume."""
    return csi.ControllerUnpublishVolumeRequest(volume_id=volume_id, node_id=node)


def stage(volume_id: str, path: Path, *, capability: csi.VolumeCapability | None = None) -> csi.NodeStageVolumeRequest:
    """Stage a volume."""
    return csi.NodeStageVolumeRequest(
        volume_id=volume_id, staging_target_path=str(path), volume_capability=capability or mounted()
    )


def node_publish(
    volume_id: str,
    staging: Path,
    target: Path,
    *,
    readonly: bool = False,
    capability: csi.VolumeCapability | None = None,
) -> csi.NodePublishVolumeRequest:
    """Show a staged volume to a pod."""
    return csi.NodePublishVolumeRequest(
        volume_id=volume_id,
        staging_target_path=str(staging),
        target_path=str(target),
        volume_capability=capability or mounted(),
        readonly=readonly,
    )


def expand(volume_id: str, size_bytes: int) -> csi.ControllerExpandVolumeRequest:
    """Let a volume have this size."""
    return csi.ControllerExpandVolumeRequest(
        volume_id=volume_id, capacity_range=csi.CapacityRange(required_bytes=size_bytes)
    )


async def rebuild(driver: Driver, volume_id: str, to_node: str) -> bool:
    """Move a volume without asking the hooks, as an operator of the driver would; False if it is there already."""
    async with driver.locks.hold(volume_id):
        record = driver.volume(volume_id)
        return await ensure_on(driver, record, to_node) is not record
