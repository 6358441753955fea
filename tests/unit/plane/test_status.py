"""How a cluster is doing: what is told when nothing runs, and the shape of the answer."""

from __future__ import annotations

import fcntl
import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tonnage.cli.dashboard import status
from tonnage.clock import SystemClock
from tonnage.driver.node_pools import PoolId
from tonnage.driver.state.folder import UnknownContents
from tonnage.errors import TonnageError
from tonnage.faults import Fault
from tonnage.plane.status import ClusterStatus, PlaneNodeStatus, PoolStatus, ProgramStatus, status_of

STATUS = ClusterStatus(
    data_dir=Path("/data"),
    pid=7,
    programs=(
        ProgramStatus("scheduler", 8, "ready", "https://127.0.0.1:20001"),
        ProgramStatus("csi-driver", None, "away", None),
    ),
    nodes=(PlaneNodeStatus("node-1", ready=True, unschedulable=True, pods=2),),
    pools=(PoolStatus("node-1", "pools", "160Gi", ("100Gi", "60Gi"), "kube-system/csisc-1"),),
    faults=(Fault("slow", "node-1", 2.0),),
    unknown=(UnknownContents(Path("/data/driver/node-1/pool-0/vol-x"), PoolId("node-1", 0), 4096),),
    storage=('1 damaged: revision 5 of "nodes/a": its checksum does not match; kept out',),
)


def test_the_answer_has_the_shape_that_is_documented():
    assert STATUS.document() == {
        "dataDir": "/data",
        "pid": 7,
        "kubeconfig": "/data/kubeconfig",
        "programs": [
            {"name": "scheduler", "pid": 8, "state": "ready", "url": "https://127.0.0.1:20001"},
            {"name": "csi-driver", "pid": None, "state": "away", "url": None},
        ],
        "nodes": [{"name": "node-1", "ready": True, "unschedulable": True, "pods": 2}],
        "pools": [
            {
                "node": "node-1",
                "storageClass": "pools",
                "capacity": "160Gi",
                "pools": ["100Gi", "60Gi"],
                "object": "kube-system/csisc-1",
            }
        ],
        "faults": [{"kind": "slow", "node": "node-1", "value": 2.0}],
        "unknownContents": [{"node": "node-1", "pool": 0, "path": "/data/driver/node-1/pool-0/vol-x", "bytes": 4096}],
        "storage": ['1 damaged: revision 5 of "nodes/a": its checksum does not match; kept out'],
        "dashboard": None,
    }


def test_the_dashboards_address_has_its_token_in_json_and_not_in_what_is_written_to_a_pipe(monkeypatch):
    address = "http://127.0.0.1:8080/#token=secret"
    running = replace(STATUS, dashboard=address)

    async def found(*_: object, **__: object) -> ClusterStatus:
        return running

    monkeypatch.setattr("tonnage.plane.status.status_of", found)
    assert running.document()["dashboard"] == address
    shown = CliRunner().invoke(status, ["--data-dir", "x"]).output
    assert "dashboard http://127.0.0.1:8080/ (DIR/dashboard.token has its token)" in shown.splitlines()
    assert "secret" not in shown


def test_the_table_shows_the_same(monkeypatch):
    async def found(*_: object, **__: object) -> ClusterStatus:
        return STATUS

    monkeypatch.setattr("tonnage.plane.status.status_of", found)
    shown = CliRunner().invoke(status, ["--data-dir", "x"])
    trouble = (
        'warning: the API server\'s store: 1 damaged: revision 5 of "nodes/a": its checksum does not match; kept out'
    )
    assert shown.output.splitlines() == [
        trouble,
        "cluster on /data (process 7)",
        "",
        "PROGRAM      STATE   PID   SERVES AT",
        "scheduler    ready   8     https://127.0.0.1:20001",
        "csi-driver   away    -     -",
        "",
        "NODE     STATE                      PODS",
        "node-1   Ready,SchedulingDisabled   2",
        "",
        "NODE     CLASS   FREE    POOLS         OBJECT",
        "node-1   pools   160Gi   100Gi, 60Gi   kube-system/csisc-1",
        "",
        "contents without a record: kept, and counted as used (tonnage csi-driver-quarantine moves them away)",
        "NODE     POOL   SIZE   PATH",
        "node-1   0      4Ki    /data/driver/node-1/pool-0/vol-x",
        "",
        "FAULT   NODE     VALUE",
        "slow    node-1   2",
    ]


@pytest.mark.parametrize("has_lock", [False, True])
async def test_a_folder_on_which_nothing_runs_is_an_error(tmp_path, has_lock):
    if has_lock:
        (tmp_path / "lock").write_text("4711\n")
    with pytest.raises(TonnageError) as caught:
        await status_of(tmp_path, clock=SystemClock())
    assert caught.value.message == f"no cluster runs on {tmp_path}"
    assert caught.value.hint == f"start one with `tonnage up --data-dir {tmp_path}`"


async def test_a_cluster_whose_programs_are_all_away_is_told_as_it_is(tmp_path):
    (tmp_path / "lock").write_text(f"{os.getpid()}\n")
    orphan = tmp_path / "driver" / "node-1" / "pool-2" / "vol-x"
    orphan.mkdir(parents=True)
    with (tmp_path / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = await status_of(tmp_path, clock=SystemClock())
    assert {each.state for each in found.programs} == {"away"}
    assert (found.pid, found.document()["nodes"], found.document()["pools"]) == (os.getpid(), None, None)
    assert "kubeconfig" in found.problem
    assert [(each.path, each.place) for each in found.unknown] == [(orphan, PoolId("node-1", 2))]
