"""Where a driver is: a socket in any of its spellings, or a host and port; what cannot be one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.csi.address import InvalidAddress, socket_path, target_of


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("unix:///run/csi.sock", "unix:/run/csi.sock"),
        ("unix:/run/csi.sock", "unix:/run/csi.sock"),
        ("unix://run/csi.sock", "unix:run/csi.sock"),
        ("/run/csi.sock", "unix:/run/csi.sock"),
        ("./csi.sock", "unix:csi.sock"),
        ("127.0.0.1:10000", "127.0.0.1:10000"),
        ("tcp://127.0.0.1:10000", "127.0.0.1:10000"),
        ("dns:///driver:10000", "driver:10000"),
        ("[::1]:10000", "[::1]:10000"),
    ],
)
def test_an_address_becomes_grpcs_target(address: str, target: str) -> None:
    assert target_of(address) == target


def test_a_host_and_port_is_no_socket() -> None:
    assert socket_path("driver:10000") is None
    assert socket_path("unix:///run/csi.sock") == Path("/run/csi.sock")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("csi.sock", '"csi.sock" is not an address of a CSI driver'),
        ("", '"" is not an address of a CSI driver'),
        ("unix://", '"unix://" names no socket'),
        ("unix:///run/", '"unix:///run/" names no socket'),
        ("http://driver:80", '"http://driver:80" is not an address of a CSI driver: it speaks gRPC'),
    ],
)
def test_what_is_no_address_is_refused(address: str, message: str) -> None:
    with pytest.raises(InvalidAddress) as raised:
        target_of(address)
    assert raised.value.message == message
    assert raised.value.hint is not None and "unix:///run/csi.sock" in raised.value.hint


def test_107_bytes_are_a_path_and_108_are_too_many() -> None:
    # "/" and 106 or 107 letters; an umlaut is two bytes.
    assert socket_path("/" + "x" * 106) is not None
    for path in ("/" + "x" * 107, "/" + "x" * 105 + "ü"):
        with pytest.raises(InvalidAddress) as raised:
            socket_path(path)
        assert raised.value.message == f'"{path}" is too long: a unix socket\'s path has at most 107 bytes'
