"""`tonnage node`: what it takes on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tonnage.cli.node import CAPACITY, LISTEN, node


def usage(*arguments: str) -> str:
    done = CliRunner().invoke(node, [*arguments, "--root-dir", "/nowhere"])
    assert done.exit_code == 2
    return done.output.strip().splitlines()[-1]


def test_what_a_node_offers_is_the_default_with_what_was_named():
    assert CAPACITY.convert("cpu=2, example.com/gpu=1", None, None) == {
        "cpu": "2",
        "memory": "32Gi",
        "pods": "110",
        "ephemeral-storage": "100Gi",
        "example.com/gpu": "1",
    }


def test_a_capacity_without_an_amount_or_with_a_bad_one_is_wrong_usage():
    assert usage("--node-name", "a", "--capacity", "cpu") == (
        "Error: Invalid value for '--capacity': \"cpu\" has no amount; write it like cpu=8,memory=32Gi,pods=110"
    )
    assert 'cpu="8 cores" is not a quantity' in usage("--node-name", "a", "--capacity", "cpu=8 cores")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("[::1]:8080", ("::1", 8080)),
        (":8080", ("127.0.0.1", 8080)),
        ("0", ("127.0.0.1", 0)),
    ],
)
def test_metrics_are_served_where_an_address_says(text: str, found: tuple[str, int]):
    assert LISTEN.convert(text, None, None) == found


def test_a_node_is_named_once_and_an_address_must_be_one():
    assert usage("--node-name", "a", "--node-name", "a") == "Error: --node-name: a node is named more than once"
    assert usage("--node-name", "a", "--csi-address", "csi") == (
        'Error: --csi-address: "csi" is not an address of a CSI driver'
    )
    long = f"unix:///{'x' * 90}/{{node}}/csi.sock"
    assert usage("--node-name", "a-long-name", "--csi-address", long).endswith(
        "a unix socket's path has at most 107 bytes"
    )


def test_a_kubeconfig_that_is_not_there_is_said_before_anything_starts(tmp_path: Path):
    done = CliRunner().invoke(
        node, ["--node-name", "a", "--root-dir", str(tmp_path), "--kubeconfig", str(tmp_path / "none")]
    )
    assert done.exit_code == 1 and list(tmp_path.iterdir()) == []
