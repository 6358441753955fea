"""Faults from the page: on an embedded cluster alone, as `tonnage fault` sets them, and seen by everybody at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.dashboard_requests import dashboard_of
from support.filled_cluster import FilledCluster
from support.virtual_clock import VirtualClock
from tonnage.clock import SystemClock
from tonnage.dashboard.model.shown_cluster import look_at_faults
from tonnage.dashboard.wire import FaultRow, NoticeRow
from tonnage.faults import FAULT_FILE_NAME, KINDS, Fault, FaultFile


async def test_faults_are_set_and_cleared_and_rows_follow(tmp_path: Path):
    cluster, file = FilledCluster(clock=SystemClock()), FaultFile(tmp_path / FAULT_FILE_NAME)
    rows = cluster.collections.of(FaultRow)
    async with dashboard_of(cluster, data_dir=tmp_path) as dashboard:
        status, told = await dashboard.ask("GET", "/api/v1/faults")
        assert status == 200 and list(told["kinds"]) == list(KINDS) and told["faults"] == []
        for body in ({"kind": "slow", "nodes": ["a", "b"], "value": 2}, {"kind": "slow", "value": 1}, {"kind": "dead"}):
            assert (await dashboard.ask("POST", "/api/v1/faults", body))[0] == 200
        assert file.all() == (Fault("slow", "a", 2), Fault("slow", "b", 2), Fault("slow", "", 1), Fault("dead"))
        assert rows["slow@a"] == FaultRow(kind="slow", node="a", value=2) and "dead@" in rows
        # The one for all nodes goes, those of single nodes stay.
        await dashboard.ask("DELETE", "/api/v1/faults?kind=slow&node=")
        assert [each.node for each in file.all() if each.kind == "slow"] == ["a", "b"]
        await dashboard.ask("DELETE", "/api/v1/faults?kind=slow")
        assert file.all() == (Fault("dead"),)
        await dashboard.ask("DELETE", "/api/v1/faults")
        assert file.all() == () and not rows


async def test_what_is_no_fault_is_refused_with_the_sentence_of_the_command(tmp_path: Path):
    async with dashboard_of(data_dir=tmp_path) as dashboard:

        async def refused(body: object) -> tuple[int, str]:
            status, told = await dashboard.ask("POST", "/api/v1/faults", body)
            return status, told["error"]

        assert await refused({"kind": "sloow"}) == (422, 'there is no fault "sloow"')
        assert await refused({"kind": "slow"}) == (422, 'the fault "slow" needs a number of seconds, and was given 0')
        assert await refused({"kind": "dead", "value": 3}) == (
            422,
            'the fault "dead" takes no value, and was given 3',
        )
        assert (await refused({"kind": "dead", "nodes": [""]}))[0] == 400
        assert (await refused([]))[0] == 400
    assert not (tmp_path / FAULT_FILE_NAME).exists()


async def test_a_real_cluster_has_no_faults_also_when_asked_directly():
    async with dashboard_of() as dashboard:
        for method in ("GET", "POST", "DELETE"):
            status, told = await dashboard.ask(method, "/api/v1/faults", {"kind": "dead"} if method == "POST" else None)
            assert status == 403 and "`tonnage up`" in told["error"]


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """A folder that others can write to, with something in it."""
    (tmp_path / "planted").touch()
    tmp_path.chmod(0o777)
    return tmp_path


async def test_a_folder_that_others_can_write_to_has_no_faults(open_folder: Path):
    async with dashboard_of(data_dir=open_folder) as dashboard:
        status, told = await dashboard.ask("POST", "/api/v1/faults", {"kind": "dead"})
        assert status == 403 and "others can write to it" in told["error"]
    assert FaultFile(open_folder / FAULT_FILE_NAME).all() == ()


def test_faults_that_the_command_sets_are_followed_and_a_broken_file_is_a_notice(tmp_path: Path):
    cluster, file = FilledCluster(clock=VirtualClock()), FaultFile(tmp_path / FAULT_FILE_NAME)
    collections = cluster.collections
    file.put(Fault("dead", "a"))
    look_at_faults(cluster, file)
    assert list(collections.of(FaultRow)) == ["dead@a"]
    file.clear()
    look_at_faults(cluster, file)
    assert not collections.of(FaultRow)
    file.path.write_text("{")
    look_at_faults(cluster, file)
    assert "holds no list of faults" in collections.of(NoticeRow)["faults"].text
    file.path.unlink()
    look_at_faults(cluster, file)
    assert not collections.of(NoticeRow)
