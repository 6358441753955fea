"""Waits for the driver at the start and asks once for its name, its capabilities and its node."""

from __future__ import annotations

import random

from tonnage import logs
from tonnage.backoff import Backoff
from tonnage.clock import Clock
from tonnage.csi.address import socket_path
from tonnage.csi.client import CsiClient
from tonnage.csi.driver_capabilities import (
    ControllerCapabilities,
    DriverInfo,
    NodeCapabilities,
    get_controller_capabilities,
    get_driver_name,
    get_node_capabilities,
    get_plugin_capabilities,
)
from tonnage.csi.errors import Code, CsiError

_LOOK_EVERY_S = 0.1

_log = logs.logger("tonnage.provisioner")


def missing_capability(driver: DriverInfo, *, snapshot: bool = False, clone: bool = False, modify: bool = False) -> str:
    """Why a driver cannot create such volumes, in upstream's words; empty if it can. See checkDriverCapabilities."""
    dynamic = "CSI driver does not support dynamic provisioning: "
    if not driver.plugin.controller_service:
        return f"{dynamic}plugin CONTROLLER_SERVICE capability is not reported"
    if not driver.controller.create_delete_volume:
        return f"{dynamic}controller CREATE_DELETE_VOLUME capability is not reported"
    if snapshot and not driver.controller.create_delete_snapshot:
        return (
            "CSI driver does not support snapshot restore: controller CREATE_DELETE_SNAPSHOT capability is not reported"
        )
    if clone and not driver.controller.clone_volume:
        return "CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported"
    if modify and not driver.controller.modify_volume:
        return "CSI driver does not support VolumeAttributesClass: controller MODIFY_VOLUME capability is not reported"
    return ""


async def wait_for_driver(driver: CsiClient, *, with_node: bool, clock: Clock, rng: random.Random) -> DriverInfo:
    """Ask until the driver answers and is ready; it may start after us."""
    await _wait_for_socket(driver.address, clock)
    backoff = Backoff(clock=clock, rng=rng, first_s=0.1, max_s=5.0)
    while True:
        try:
            probed = await driver.probe()
            if not probed.HasField("ready") or probed.ready.value:
                return await _ask(driver, with_node)
            _log.info("The driver is not ready yet", address=driver.address)
        except CsiError as exc:
            _log.warning("The driver cannot be asked", address=driver.address, error=exc.message)
        await clock.sleep(backoff.next_s())


async def _wait_for_socket(address: str, clock: Clock) -> None:
    """Return when the socket exists: a look costs nothing, a refused connection costs a pause."""
    path = socket_path(address)
    if path is not None and not path.exists():
        _log.info("Waiting for the driver's socket", address=address)
        while not path.exists():
            await clock.sleep(_LOOK_EVERY_S)


async def _ask(driver: CsiClient, with_node: bool) -> DriverInfo:
    name = await get_driver_name(driver)
    plugin = await get_plugin_capabilities(driver)
    controller = await get_controller_capabilities(driver) if plugin.controller_service else ControllerCapabilities()
    node = NodeCapabilities()
    try:
        node = await get_node_capabilities(driver)
    except CsiError as exc:
        if exc.code is not Code.UNIMPLEMENTED:
            raise
    node_info = await driver.node_info() if with_node else None
    return DriverInfo(name, plugin, controller, node, node_info)
