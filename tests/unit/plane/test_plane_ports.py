"""Ports of a cluster's programs."""

from __future__ import annotations

import random
import socket

import pytest

from tonnage.errors import TonnageError
from tonnage.plane import settings
from tonnage.plane.settings import choose_ports, dashboard_port


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


def test_the_dashboard_has_the_port_that_was_named_or_an_error_tells_that_it_is_taken():
    free = choose_ports(["x"], {}, random.Random(4))["x"]
    assert dashboard_port(free, 0, random.Random(5)) == free
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(TonnageError) as told:
            dashboard_port(taken, free, random.Random(5))
    assert f"127.0.0.1:{taken}: another program listens there" in told.value.message
    assert told.value.hint == "choose another --dashboard-port, or 0 for a free one"


def test_the_dashboard_has_the_usual_port_else_that_of_the_last_run(monkeypatch):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        usual = other.getsockname()[1]
        monkeypatch.setattr(settings, "DASHBOARD_PORT", usual)
        kept = choose_ports(["x"], {}, random.Random(6))["x"]
        assert dashboard_port(None, kept, random.Random(7)) == kept
        assert dashboard_port(0, kept, random.Random(7)) == kept
        assert dashboard_port(None, 0, random.Random(7)) not in (usual, kept, 0)
    assert dashboard_port(None, kept, random.Random(7)) == usual


def test_a_port_that_another_is_going_to_have_is_left_alone():
    first = choose_ports(["x"], {}, random.Random(8))["x"]
    assert choose_ports(["x"], {"x": first}, random.Random(8), without=(first,))["x"] != first
