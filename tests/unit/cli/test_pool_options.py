"""Pools and slots of nodes on the command line: a slip is wrong usage."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from tonnage.cli.flags.flag_table import flag_table
from tonnage.cli.output import COUNT, POOLS, wrong_usage
from tonnage.driver.node_pools import PerNode, by_node, pools_by_node

NODES = ("node-1", "node-2", "node-3")


def test_a_node_that_is_not_there_is_named() -> None:
    with pytest.raises(click.UsageError) as raised, wrong_usage():
        pools_by_node([POOLS.convert("node-9=1Gi", None, None)], NODES)
    assert raised.value.message == '--pools names the node "node-9"; the nodes are node-1, node-2, node-3'


def test_of_many_nodes_some_are_named() -> None:
    many = [f"node-{number}" for number in range(1, 101)]
    with pytest.raises(click.UsageError) as raised, wrong_usage():
        by_node("--max-volumes", [COUNT.convert("n=1", None, None)], many)
    assert raised.value.message == (
        '--max-volumes names the node "n"; the nodes are node-1, node-2, node-3, node-4 … node-100'
    )


def test_a_node_without_pools_is_named() -> None:
    with pytest.raises(click.UsageError) as raised, wrong_usage():
        pools_by_node([POOLS.convert("node-1=1Gi", None, None)], NODES)
    assert raised.value.message == 'node "node-2" has no pools; give them, such as --pools 3x100Gi'


@click.command()
@flag_table("""
    --pools POOLS...  Pools of every node, or of one.
    --max-volumes COUNT...  Attach limit of every node, or of one.
""")
def probe(pools: tuple[PerNode[tuple[int, ...]], ...], max_volumes: tuple[PerNode[int], ...]) -> None:
    click.echo(f"{[each.text for each in pools]} {[each.value for each in max_volumes]}")


def test_both_options_may_be_repeated() -> None:
    done = CliRunner().invoke(probe, ["--pools", "1Gi", "--pools", "a=2Gi", "--max-volumes", "8"])
    assert done.output == "['1Gi', 'a=2Gi'] [8]\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pools", "1Qi"], '"1Qi" is not a quantity'),
        (
            ["--pools", "=1Gi"],
            '"=1Gi" names no node before "="; write it like "node-1=1Gi", or "1Gi" for every node',
        ),
        (
            ["--max-volumes", "many"],
            '"many" is not a number of volumes; write it like "8" or "node-2=2", 0 is no limit',
        ),
        (["--max-volumes", "-1"], '"-1" is not a number of volumes; write it like "8" or "node-2=2", 0 is no limit'),
    ],
)
def test_a_slip_is_wrong_usage(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(probe, arguments)
    assert done.exit_code == 2 and message in done.output
