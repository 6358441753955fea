"""`tonnage status` with the account `tonnage-reader`: what is wrong, what may not be seen, and commands that work."""

from __future__ import annotations

import copy
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_guides_as_reader_on_every_server import kubeconfig, path_of

from support.api_servers import ServerApi
from tonnage.roles import documents_of
from tonnage_command import tonnage

LONG_AGO = "2026-01-01T00:00:00.000000Z"


@pytest.fixture
def troubled(api: ServerApi, ns: str) -> str:
    """A node that is not ready, a claim whose volume is gone, and a provisioner's lease that nobody renews."""
    driver = f"csi.{ns}"
    api.create("/api/v1/nodes", {"metadata": {"name": ns}})
    ready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet is silent."}
    condition = {**ready, "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    body = {"status": {"conditions": [condition]}}
    assert api.patch(f"/api/v1/nodes/{ns}/status", body).code == 200
    api.create("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": ns}, "provisioner": driver})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "gone"}
    api.create(f"/api/v1/namespaces/{ns}/persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": spec})
    lease = {"holderIdentity": "h", "leaseDurationSeconds": 15, "renewTime": LONG_AGO, "acquireTime": LONG_AGO}
    name = driver.replace(".", "-")
    api.create(f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", {"metadata": {"name": name}, "spec": lease})
    return ns


def reader(api: ServerApi, ns: str, folder: Path, without: str = "") -> Path:
    """The kubeconfig of the reader's account; `without`: a resource that it may not list."""
    for doc in copy.deepcopy(list(documents_of("reader", namespace=ns, prefix=f"{ns}:"))):
        for rule in doc.get("rules", ()):
            if without in rule.get("resources", ()):
                rule["verbs"] = ["get"]
        api.create(path_of(doc), doc)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    account = f"/api/v1/namespaces/{ns}/serviceaccounts/tonnage-reader/token"
    file = folder / "kubeconfig"
    file.write_text(json.dumps(kubeconfig(api.url, api.post(account, asked).body["status"]["token"])))
    return file


def status(file: Path) -> tuple[int, dict[str, Any]]:
    done = tonnage("status", "--kubeconfig", str(file), "-o", "json")
    return done.returncode, json.loads(done.stdout)


def test_the_reader_sees_what_is_wrong_and_the_commands_work(api: ServerApi, troubled: str, tmp_path: Path):
    code, found = status(reader(api, troubled, tmp_path))
    assert code == 5 and found["unseen"] == []
    own = {each["kind"]: each for each in found["troubles"] if troubled in each["object"]}
    assert {"node-not-ready", "provisioner-silent", "claim-of-missing-class"} <= own.keys()
    assert own["node-not-ready"]["since"] == "2026-01-01T00:00:00Z"
    kubectl = shutil.which("kubectl", path=f"{os.environ['PATH']}:{os.environ.get('KUBEBUILDER_ASSETS', '')}")
    if kubectl is None:
        pytest.skip("needs kubectl")
    admin = tmp_path / "admin"
    admin.write_text(json.dumps(kubeconfig(api.url, api.token)))
    for each in own.values():
        program, *words = shlex.split(each["command"])
        assert program == "kubectl" and words[-2:] == ["--kubeconfig", str(tmp_path / "kubeconfig")]
        command = [kubectl, *words[:-1], str(admin), "--cache-dir", str(tmp_path / "cache")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout, f"{command}\n{done.stderr}"


def test_what_may_not_be_read_is_named_and_the_rest_is_told(api: ServerApi, troubled: str, tmp_path: Path):
    code, found = status(reader(api, troubled, tmp_path, without="leases"))
    assert code == 5
    assert [each.partition(":")[0] for each in found["unseen"]] == ["cannot see leases"]
    kinds = {each["kind"] for each in found["troubles"] if troubled in each["object"]}
    assert "node-not-ready" in kinds and "provisioner-silent" not in kinds


def test_a_server_that_does_not_answer_is_a_failure(tmp_path: Path):
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(kubeconfig("https://127.0.0.1:1", "t")))
    done = tonnage("status", "--kubeconfig", str(file))
    assert done.returncode == 1 and done.stderr.startswith("error: ")
    assert tonnage("status", "--kubeconfig", str(file), "--data-dir", str(tmp_path)).returncode == 2
