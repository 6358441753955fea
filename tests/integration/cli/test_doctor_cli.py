"""`tonnage doctor` on live servers: what it asks, what it finds there, what it says when it cannot look."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.api_servers import ServerApi, kube_apiserver
from support.http import free_port
from support.recording_proxy import RecordingProxy
from support.refusing_proxy import RefusingProxy
from tonnage.whatif.doctor.facts import scheduler_permissions
from tonnage_command import tonnage

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
OF_OTHERS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
EXAMPLE = Path(__file__).parents[3] / "examples" / "16-doctor"


def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    return tonnage("doctor", *arguments)


def names_in(done: subprocess.CompletedProcess[str]) -> set[str]:
    assert done.stdout, done.stderr
    return {each["name"] for each in json.loads(done.stdout)["findings"]}


def sick_cluster(api: Any) -> None:
    """A driver with a class, two nodes, a capacity object that reaches nobody."""
    for name in ("n1", "n2"):
        api.create("/api/v1/nodes", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
    api.create(
        "/apis/storage.k8s.io/v1/csidrivers", {"metadata": {"name": "d.example"}, "spec": {"storageCapacity": True}}
    )
    api.create(
        "/apis/storage.k8s.io/v1/storageclasses",
        {"metadata": {"name": "sick"}, "provisioner": "d.example", "volumeBindingMode": "WaitForFirstConsumer"},
    )
    api.create(
        "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities",
        {"metadata": {"name": "nowhere"}, "storageClassName": "sick", "capacity": "1Gi"},
    )


@pytest.fixture(scope="module")
def sick(cluster):
    sick_cluster(cluster)
    return cluster


def test_only_reads_and_access_reviews_reach_the_server(sick, tmp_path):
    with RecordingProxy(sick) as proxy:
        done = doctor("--kubeconfig", str(proxy.kubeconfig(tmp_path / "kubeconfig")), "-o", "json")
    assert done.returncode == 4, done.stderr
    writes = [each for each in proxy.requests if each[0] != "GET"]
    assert set(writes) == {("POST", REVIEWS), ("POST", OF_OTHERS)}
    assert writes.count(("POST", REVIEWS)) == len(scheduler_permissions()), "there is no account of the scheduler here"
    assert {"capacity-nil-topology", "driver-unregistered"} <= names_in(done)


def test_a_live_server_tells_its_version_and_gates(sick):
    found = json.loads(doctor("--kubeconfig", str(sick.kubeconfig), "-o", "json").stdout)
    assert found["server"]["version"].startswith("v1.")
    assert {gate["state"] for gate in found["server"]["gates"].values()} == {"on"}
    assert found["server"]["gates"]["MutablePVNodeAffinity"]["by"] == "the server's metrics"


def test_permissions_that_cannot_be_asked_for_are_unknown(sick, tmp_path):
    with RefusingProxy(sick.url, sick.token, {("POST", REVIEWS): 403, ("GET", "/metrics"): 403}) as proxy:
        done = doctor("--kubeconfig", str(proxy.kubeconfig(tmp_path)), "-o", "json")
    assert "permission-unknown" in names_in(done)
    assert "permission-missing" not in names_in(done)


def test_a_kind_that_may_not_be_listed_is_told_and_nothing_is_concluded_from_it(sick, tmp_path):
    with RefusingProxy(sick.url, sick.token, {("GET", "/apis/storage.k8s.io/v1/csinodes"): 403}) as proxy:
        done = doctor("--kubeconfig", str(proxy.kubeconfig(tmp_path)), "-o", "json")
    assert "kind-not-listed" in names_in(done)
    assert "driver-unregistered" not in names_in(done)


def test_expired_credentials_are_one_line(sick, tmp_path):
    with RefusingProxy(sick.url, "expired") as proxy:
        done = doctor("--kubeconfig", str(proxy.kubeconfig(tmp_path)))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ") and "Unauthorized" in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_a_cluster_that_cannot_be_reached_is_one_line(sick, tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(sick.kubeconfig.read_text().replace(sick.url, f"https://127.0.0.1:{free_port()}"))
    kubeconfig.chmod(0o600)
    done = doctor("--kubeconfig", str(kubeconfig))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ") and len(done.stderr.splitlines()) <= 2, done.stderr


def test_files_are_laid_over_a_live_cluster(sick, tmp_path):
    file = tmp_path / "more.yaml"
    file.write_text(
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: lost}\nprovisioner: nobody.example\n"
    )
    done = doctor("--kubeconfig", str(sick.kubeconfig), "-f", str(file), "-o", "json")
    assert "class-without-driver" in names_in(done) and "api-server-version" in names_in(done)


@pytest.mark.envtest
def test_a_real_api_server_is_examined(tmp_path):
    folder = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not folder or not all((Path(folder) / name).exists() for name in ("kube-apiserver", "etcd")):
        pytest.skip("KUBEBUILDER_ASSETS does not name a folder with kube-apiserver and etcd")
    with kube_apiserver(tmp_path, Path(folder)) as api:
        _examine_real(api, tmp_path)


def _examine_real(api: ServerApi, folder: Path) -> None:
    sick_cluster(api)
    with RefusingProxy(api.url, "contract-token") as proxy:
        done = doctor("--kubeconfig", str(proxy.kubeconfig(folder)), "-o", "json")
    assert set(proxy.writes) == {("POST", REVIEWS), ("POST", OF_OTHERS)}
    found = json.loads(done.stdout)
    assert "capacity-nil-topology" in names_in(done) and "permission-missing" not in names_in(done)
    # The one gate of the four enhancements that no upstream server has.
    assert found["server"]["gates"]["CSIStorageCapacityV2"]["state"] == "off"
    assert found["server"]["gates"]["MutablePVNodeAffinity"]["state"] == "on"
