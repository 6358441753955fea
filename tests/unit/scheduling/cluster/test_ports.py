"""Host ports: who clashes with whom, and that nothing is left behind."""

from __future__ import annotations

import pytest

from support.held_memory import entries_held
from tonnage.scheduling.cluster.columns import HostPorts
from tonnage.testing.builders import info

WEB = ("TCP", "0.0.0.0", 80)


@pytest.mark.parametrize(
    ("wanted", "clashes"),
    [
        (("TCP", "0.0.0.0", 80), True),
        (("TCP", "10.0.0.1", 80), True),
        (("TCP", "10.0.0.2", 80), False),
        (("UDP", "10.0.0.1", 80), False),
        (("TCP", "10.0.0.1", 81), False),
    ],
)
def test_a_port_of_one_address_clashes_with_the_same_and_with_all_addresses(wanted, clashes):
    ports = HostPorts()
    ports.add([("TCP", "10.0.0.1", 80)], 3)
    assert ports.rows_in_conflict([wanted]) == ({3} if clashes else set())


def test_a_port_of_all_addresses_clashes_with_every_address():
    ports = HostPorts()
    ports.add([WEB], 0)
    ports.add([("TCP", "10.0.0.1", 80)], 1)
    ports.add([("TCP", "10.0.0.2", 443)], 2)
    assert ports.rows_in_conflict([("TCP", "10.0.0.9", 80)]) == {0}
    assert ports.rows_in_conflict([WEB]) == {0, 1}
    assert ports.rows_in_conflict([WEB, ("TCP", "0.0.0.0", 443)]) == {0, 1, 2}


def test_a_port_is_free_when_the_last_pod_that_has_it_is_gone():
    ports = HostPorts()
    before = entries_held(ports)
    ports.add([WEB], 0)
    ports.add([WEB], 0)  # two pods put there by hand
    ports.add([WEB], 0, -1)
    assert ports.rows_in_conflict([WEB]) == {0}
    ports.add([WEB], 0, -1)
    assert ports.rows_in_conflict([WEB]) == set() and entries_held(ports) == before


def test_ports_of_a_pod_are_those_of_containers_and_sidecars_with_a_host_port():
    dns = {"containerPort": 3, "hostPort": 53, "protocol": "UDP"}
    ports = [{"containerPort": 1, "hostPort": 0}, {"containerPort": 2}, dns]
    side = {
        "name": "side",
        "restartPolicy": "Always",
        "ports": [{"containerPort": 4, "hostPort": 4, "hostIP": "10.0.0.1"}],
    }
    init = {"name": "init", "ports": [{"containerPort": 5, "hostPort": 5}]}
    found = info("dns", spec={"containers": [{"name": "main", "ports": ports}], "initContainers": [init, side]})
    assert found.host_ports == (("UDP", "0.0.0.0", 53), ("TCP", "10.0.0.1", 4))
