"""What a driver can do is read from the capabilities of its services."""

from __future__ import annotations

from tonnage.csi.driver_capabilities import (
    ControllerCapabilities,
    ControllerRpc,
    DriverInfo,
    NodeCapabilities,
    NodeRpc,
    PluginCapabilities,
    Service,
)


def test_a_driver_can_what_it_reports() -> None:
    attaches = ControllerCapabilities(frozenset({ControllerRpc.PUBLISH_UNPUBLISH_VOLUME}))
    assert attaches.publish_unpublish_volume
    assert not attaches.single_node_multi_writer and not attaches.list_volumes_published_nodes
    assert not DriverInfo("csi.example").controller.publish_unpublish_volume
    assert PluginCapabilities(frozenset({Service.CONTROLLER_SERVICE})).controller_service


def test_published_nodes_are_listed_by_a_driver_that_reports_both_capabilities() -> None:
    rpcs = {ControllerRpc.LIST_VOLUMES, ControllerRpc.LIST_VOLUMES_PUBLISHED_NODES}
    assert ControllerCapabilities(frozenset(rpcs)).list_volumes_published_nodes
    assert not any(ControllerCapabilities(frozenset({rpc})).list_volumes_published_nodes for rpc in rpcs)


def test_a_driver_expands_on_nodes_only_when_its_controller_does_not() -> None:
    node = NodeCapabilities(frozenset({NodeRpc.EXPAND_VOLUME}))
    controller = ControllerCapabilities(frozenset({ControllerRpc.EXPAND_VOLUME}))
    assert DriverInfo("d", node=node).expands_on_nodes_only
    assert not DriverInfo("d", node=node, controller=controller).expands_on_nodes_only
