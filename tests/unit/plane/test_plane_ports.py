"""Ports of a cluster's programs."""

from __future__ import annotations

import random
import socket

from tonnage.plane.ports import choose_ports


def test_ports_are_different_and_below_those_of_outgoing_connections():
    chosen = choose_ports([f"p{n}" for n in range(20)], {}, random.Random(1))
    assert len(set(chosen.values())) == 20
    assert all(20_000 <= port < 32_768 for port in chosen.values())


def test_a_program_keeps_its_port_unless_somebody_else_has_it():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        free = choose_ports(["x"], {}, random.Random(2))["x"]
        chosen = choose_ports(["a", "b"], {"a": free, "b": taken}, random.Random(3))
    assert chosen["a"] == free
    assert chosen["b"] not in (free, taken)
