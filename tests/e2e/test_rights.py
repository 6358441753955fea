"""Rights: every verb in the role files is used, no call is ever refused, and none is beyond the rules.

A cluster is run through everything that its programs do, on a server that writes an audit log; then the log is compared
with the files. The short run has the programs of `tonnage up` do their everyday work; the long one forces what happens
once in a year, with all programs, and counts what was not used. Both run on `tonnage apiserver`; the long one on
Kubernetes' own server too, which is the better judge.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import rights_acts as acts
import rights_beside as beside
from rights_stage import RightsStage, staged

from support.api_servers import ServerApi, kube_apiserver
from support.processes import start_cluster
from support.rights_audit import audit
from tonnage.roles import PROGRAMS, rules_of

OF_UP = ("csi-driver", "controllers", "scheduler", "provisioner", "node")
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 1000, burst: 2000}
leaderElection: {resourceName: tonnage-scheduler, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 300ms}
"""
POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""
EXTRA = {
    "controllers": ("--leader-elect", "--node-monitor-grace-period", "5s", "--node-monitor-period", "1s"),
    "scheduler": ("--leader-elect",),
    "provisioner": ("--leader-election", "--leader-election-namespace", "kube-system"),
}
SHORT: tuple[Callable[[RightsStage], None], ...] = (
    acts.volumes_live_and_grow,
    acts.pods_give_way,
    acts.attachments_are_refused,
    acts.namespaces_are_kept_and_emptied,
)
LONG: tuple[Callable[[RightsStage], None], ...] = (
    acts.workloads_are_rolled_out,
    acts.jobs_are_run,
    acts.volumes_live_and_grow,
    acts.volumes_find_no_room,
    acts.snapshots_are_restored,
    acts.pods_give_way,
    acts.nodes_come_and_go,
    acts.attachments_are_refused,
    beside.a_driver_that_grows_on_nodes,
    beside.nodes_are_scaled,
    beside.pools_are_kept,
    beside.people_look,
    beside.the_dashboard_shows,
    beside.pages_are_for_whom_the_server_lets_in,
    acts.a_node_stops_and_another_is_removed,
    acts.namespaces_are_kept_and_emptied,
    beside.figures_are_published_unseen,
)


@contextmanager
def server(name: str, folder: Path, log: Path) -> Iterator[ServerApi]:
    """An API server that writes an audit log."""
    folder.mkdir()
    if name == "embedded":
        cluster = start_cluster(folder, "--audit-log-path", str(log))
        api = ServerApi(name, cluster.url, cluster.token)
        try:
            yield api
        finally:
            api.close()
            cluster.stop()
        return
    assets = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nowhere"))
    if not (assets / "kube-apiserver").exists():
        pytest.skip("KUBEBUILDER_ASSETS does not name a folder with kube-apiserver and etcd")
    policy = folder / "policy.yaml"
    policy.write_text(POLICY)
    flags = {"audit-log-path": str(log), "audit-policy-file": str(policy)}
    with kube_apiserver(folder, assets, flags=flags) as api:
        yield api


@contextmanager
def whole_stage(name: str) -> Iterator[RightsStage]:
    """All programs have an identity; those of `tonnage up` run."""
    with tempfile.TemporaryDirectory(prefix="t") as short:  # sockets have short paths
        folder = Path(short)
        log, configuration = folder / "audit.log", folder / "scheduler.yaml"
        configuration.write_text(CONFIGURATION)
        with (
            server(name, folder / "s", log) as api,
            staged(folder / "c", api, log, extra=EXTRA, scheduler_config=configuration) as stage,
        ):
            commands = {program: stage.commands.of(program) for program in OF_UP}
            # What those that run beside the cluster's own will ask for besides.
            commands["scheduler"] = commands["controllers"] = ["--leader-elect"]
            commands["csi-driver"] = ["--lvm-nodes"]
            others: dict[str, list[str]] = {
                "pools": ["--leader-elect"],
                "node-scaler": [],
                "dashboard": [],
                "reader": [],
            }
            stage.identities({**commands, **others})
            stage.trouble.twice.append(("POST", "/nodes$"))
            stage.start(*OF_UP)
            stage.until(lambda: len(stage.objects("CSIStorageCapacity", namespace="kube-system")) == 3, "figures")
            yield stage


def test_no_call_of_an_ordinary_day_is_refused_or_beyond_the_rules() -> None:
    with whole_stage("embedded") as stage:
        for act in SHORT:
            act(stage)
        stage.stop()
        for program in OF_UP:
            found = audit(stage.calls_of(program), rules_of(program, "kube-system"))
            assert [str(each) for each in (*found.refused, *found.beyond)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["embedded", pytest.param("kube-apiserver", marks=pytest.mark.envtest)])
def test_every_right_is_used_and_no_call_is_refused(name: str) -> None:
    with whole_stage(name) as stage:
        for act in LONG:
            act(stage)
        stage.stop()
        for program in PROGRAMS:
            found = audit(stage.calls_of(program), rules_of(program, "kube-system"))
            assert [str(each) for each in found.refused] == []
            assert [str(each) for each in found.beyond] == []
            assert [str(each) for each in found.unused] == []
