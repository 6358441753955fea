"""Pools and slots of nodes on the command line: every spelling, and a sentence for every slip."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from tonnage.cli.pool_options import (
    COUNT,
    POOLS,
    PerNode,
    by_node,
    max_volumes_option,
    pools_by_node,
    pools_option,
    read_pools,
)

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
    assert read_pools(text) == sizes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", '"" is no list of pools; write it like "3x100Gi" or "100Gi,50Gi"'),
        ("100Gi,", '"100Gi," is no list of pools; write it like "3x100Gi" or "100Gi,50Gi"'),
        ("3x", '"3x" is no list of pools; write it like "3x100Gi" or "100Gi,50Gi"'),
        ("0x1Gi", '"0x1Gi" is 0 pools; a node has between 1 and 1024'),
        ("1024x1Gi,1Gi", '"1024x1Gi,1Gi" is 1025 pools; a node has between 1 and 1024'),
        ("0", 'a pool of "0" holds nothing; a pool has at least one byte'),
        ("-1Gi", 'a pool of "-1Gi" holds nothing; a pool has at least one byte'),
        ("100GB", '"100GB" is not a quantity: unknown suffix "GB"; write "100G" or "100Gi"'),
    ],
)
def test_what_is_no_list_of_pools_is_told_with_the_remedy(text: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        read_pools(text)
    assert str(raised.value) == message


def test_an_option_is_for_every_node_or_for_one() -> None:
    assert POOLS.convert("2x1Gi", None, None) == PerNode("", (GI, GI), "2x1Gi")
    assert POOLS.convert("node-2=1Gi", None, None) == PerNode("node-2", (GI,), "node-2=1Gi")
    assert COUNT.convert("node-2=0", None, None) == PerNode("node-2", 0, "node-2=0")


def test_what_is_said_of_one_node_goes_before_what_is_said_of_all() -> None:
    said = [POOLS.convert(text, None, None) for text in ("node-2=1Gi", "2x1Gi")]
    assert pools_by_node(said, NODES) == {"node-1": (GI, GI), "node-2": (GI,), "node-3": (GI, GI)}


def test_the_last_word_counts() -> None:
    said = [COUNT.convert(text, None, None) for text in ("8", "node-1=1", "4", "node-1=2")]
    assert by_node("--max-volumes", said, NODES) == {"node-1": 2, "node-2": 4, "node-3": 4}


def test_a_node_of_which_nothing_is_said_is_left_out() -> None:
    assert by_node("--max-volumes", [COUNT.convert("node-1=1", None, None)], NODES) == {"node-1": 1}
    assert by_node("--max-volumes", [], NODES) == {}


def test_a_node_that_is_not_there_is_named() -> None:
    with pytest.raises(click.UsageError) as raised:
        pools_by_node([POOLS.convert("node-9=1Gi", None, None)], NODES)
    assert raised.value.message == '--pools names the node "node-9"; there are node-1, node-2, node-3'


def test_of_many_nodes_some_are_named() -> None:
    many = [f"node-{number}" for number in range(1, 101)]
    with pytest.raises(click.UsageError) as raised:
        by_node("--max-volumes", [COUNT.convert("n=1", None, None)], many)
    assert raised.value.message == (
        '--max-volumes names the node "n"; there are node-1, node-2, node-3, node-4 … node-100'
    )


def test_a_node_without_pools_is_named() -> None:
    with pytest.raises(click.UsageError) as raised:
        pools_by_node([POOLS.convert("node-1=1Gi", None, None)], NODES)
    assert raised.value.message == 'nothing is said about the pools of node "node-2"; say it like --pools 3x100Gi'


@click.command()
@pools_option
@max_volumes_option
def probe(pools: tuple[PerNode[tuple[int, ...]], ...], max_volumes: tuple[PerNode[int], ...]) -> None:
    click.echo(f"{[each.text for each in pools]} {[each.value for each in max_volumes]}")


def test_both_options_may_be_repeated() -> None:
    done = CliRunner().invoke(probe, ["--pools", "1Gi", "--pools", "a=2Gi", "--max-volumes", "8"])
    assert done.output == "['1Gi', 'a=2Gi'] [8]\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pools", "1Qi"], '"1Qi" is not a quantity'),
        (["--max-volumes", "many"], '"many" is no number of volumes; write it like "8" or "node-2=2", 0 is no limit'),
        (["--max-volumes", "-1"], '"-1" is no number of volumes; write it like "8" or "node-2=2", 0 is no limit'),
    ],
)
def test_a_slip_is_wrong_usage(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(probe, arguments)
    assert done.exit_code == 2 and message in done.output
