"""Pools and slots of nodes as people write them: every spelling, and a sentence for every slip."""

from __future__ import annotations

import pytest

from tonnage.driver.node_pools import PerNode, by_node, parse_node_count, parse_node_pools, parse_pools, pools_by_node

GI = 1 << 30
NODES = ("node-1", "node-2", "node-3")


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("100Gi", (100 * GI,)),
        ("3x100Gi", (100 * GI,) * 3),
        ("100Gi,50Gi", (100 * GI, 50 * GI)),
        ("2x10Gi, 1G", (10 * GI, 10 * GI, 10**9)),
        ("2X1Gi", (GI, GI)),
        ("2*1Gi", (GI, GI)),
        ("1024", (1024,)),
        ("1500m", (2,)),  # a byte and a half needs two
    ],
)
def test_a_list_of_pools_is_read_in_order(text: str, sizes: tuple[int, ...]) -> None:
    assert parse_pools(text) == sizes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", '"" is not a list of pools; write it like "3x100Gi" or "100Gi,50Gi"'),
        ("100Gi,", '"100Gi," is not a list of pools; write it like "3x100Gi" or "100Gi,50Gi"'),
        ("3x", '"3x" is not a list of pools; write it like "3x100Gi" or "100Gi,50Gi"'),
        ("0x1Gi", '"0x1Gi" is 0 pools; a node has between 1 and 1024'),
        ("1024x1Gi,1Gi", '"1024x1Gi,1Gi" is 1025 pools; a node has between 1 and 1024'),
        ("0", 'a pool of "0" is empty; a pool has at least one byte'),
        ("-1Gi", 'a pool of "-1Gi" is empty; a pool has at least one byte'),
        ("100GB", '"100GB" is not a quantity: unknown suffix "GB"; write "100G" or "100Gi"'),
    ],
)
def test_what_is_no_list_of_pools_is_told_with_the_remedy(text: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_pools(text)
    assert str(raised.value) == message


def test_an_option_is_for_every_node_or_for_one() -> None:
    assert parse_node_pools("2x1Gi") == PerNode("", (GI, GI), "2x1Gi")
    assert parse_node_pools("node-2=1Gi") == PerNode("node-2", (GI,), "node-2=1Gi")
    assert parse_node_count("node-2=0") == PerNode("node-2", 0, "node-2=0")


def test_what_is_said_of_one_node_goes_before_what_is_said_of_all() -> None:
    said = [parse_node_pools(text) for text in ("node-2=1Gi", "2x1Gi")]
    assert pools_by_node(said, NODES) == {"node-1": (GI, GI), "node-2": (GI,), "node-3": (GI, GI)}


def test_the_last_word_counts() -> None:
    said = [parse_node_count(text) for text in ("8", "node-1=1", "4", "node-1=2")]
    assert by_node("--max-volumes", said, NODES) == {"node-1": 2, "node-2": 4, "node-3": 4}


def test_a_node_of_which_nothing_is_said_is_left_out() -> None:
    assert by_node("--max-volumes", [parse_node_count("node-1=1")], NODES) == {"node-1": 1}
    assert by_node("--max-volumes", [], NODES) == {}
