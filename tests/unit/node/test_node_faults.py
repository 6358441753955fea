"""Faults that nodes play."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.virtual_clock import VirtualClock
from tonnage.faults import Fault, FaultFile
from tonnage.node.context import NodeFaults, NodeIdle


def faults_of(path: Path, *faults: Fault) -> tuple[VirtualClock, NodeFaults]:
    file = FaultFile(path / "faults.json")
    file.write(faults)
    clock = VirtualClock()
    return clock, NodeFaults(file, clock=clock)


def test_a_stopped_or_removed_node_does_nothing_and_the_others_go_on(tmp_path: Path):
    _, faults = faults_of(tmp_path, Fault("node-stopped", "a"), Fault("node-removed", "b"))
    assert [faults.is_idle(node) for node in "abc"] == [True, True, False]
    assert [faults.is_removed(node) for node in "abc"] == [False, True, False]


def test_a_slow_node_waits_before_each_step(tmp_path: Path):
    clock, faults = faults_of(tmp_path, Fault("node-slow", "a", 3.0))

    async def story() -> None:
        step = asyncio.create_task(faults.delay_or_stop("a"))
        await clock.run_for(2.9)
        assert not step.done()
        await clock.run_for(0.1)
        assert step.done()
        await faults.delay_or_stop("b")

    asyncio.run(story())


def test_a_node_that_is_stopped_leaves_what_it_is_at(tmp_path: Path):
    _, faults = faults_of(tmp_path, Fault("node-stopped"))
    with pytest.raises(NodeIdle) as found:
        asyncio.run(faults.delay_or_stop("a"))
    assert found.value.message == "node a does nothing on request"


def test_a_broken_file_changes_nothing(tmp_path: Path):
    _, faults = faults_of(tmp_path, Fault("node-stopped", "a"))
    assert faults.is_idle("a")
    (tmp_path / "faults.json").write_text("[{")
    assert faults.is_idle("a") and faults.changes == 1


def test_a_fault_that_came_and_went_between_two_looks_is_counted(tmp_path: Path):
    _, faults = faults_of(tmp_path)
    file = FaultFile(tmp_path / "faults.json")
    file.write([Fault("node-stopped", "a")])
    assert faults.is_idle("a")
    file.write([])
    assert not faults.is_idle("a") and faults.changes == 2
