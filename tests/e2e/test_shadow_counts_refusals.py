"""`tonnage shadow` beside a scheduler whose choices fail: as many volumes are counted as the drivers refuse.

The other scheduler is ours by kube-scheduler's rules: each claim is judged by itself, and nothing is kept back.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scene import Scene, whole_cluster

from tonnage.stories.story_runner import claim, pod
from tonnage.whatif.simulate.presets import PRESETS

EVENTS = "/api/v1/namespaces/default/events"
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles: [{schedulerName: kube}]
"""


@contextmanager
def running(log: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with log.open("w") as told:
        command = [sys.executable, "-m", "tonnage", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=told, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def no_kubectl(*arguments: str, stdin: object = None) -> str:
    return ""


@pytest.mark.slow
def test_every_volume_that_a_driver_refuses_is_counted(tmp_path: Path) -> None:
    """Two nodes with pools of 100Gi and 50Gi. Two claims of 60Gi fit the figures one by one, and no node's pools."""
    config = tmp_path / "kube.yaml"
    config.write_text(CONFIG)
    gates = ",".join(f"{name}=false" for name in PRESETS["kube-scheduler"].gates)
    with whole_cluster("--nodes", "2", "--pools", "100Gi,50Gi") as up:
        scene = Scene(up, no_kubectl, "default")
        server = ("--kubeconfig", str(up.folder / "kubeconfig"))
        theirs = ("scheduler", *server, "--config", str(config), "--secure-port", "0", "--feature-gates", gates)
        log = tmp_path / "shadow.log"
        with (
            running(tmp_path / "kube.log", *theirs),
            running(log, "shadow", *server, "--for", "25s", "-o", "json") as shadow,
        ):
            scene.until("the shadow to follow", lambda: "following: " in log.read_text() or None)
            for number in range(2):
                names = [f"c{number}-{each}" for each in "ab"]
                for name in names:
                    assert up.post("/api/v1/namespaces/default/persistentvolumeclaims", claim(name, "60Gi")).code == 201
                assert (
                    up.post("/api/v1/namespaces/default/pods", pod(f"db-{number}", names, scheduler="kube")).code == 201
                )
            told, _ = shadow.communicate(timeout=90)
        failed = {
            each["involvedObject"]["name"] for each in scene.items(EVENTS) if each["reason"] == "ProvisioningFailed"
        }
    refused = json.loads(told)["volumesRefused"]
    assert failed and refused["volumes"] + refused["notJudged"] >= len(failed), refused
    assert {name for each in refused["refusals"] for name in each["claims"]} == {f"default/{name}" for name in failed}
    assert refused["wouldHaveBeenAvoided"] == refused["theirs"], "no node's pools hold two claims of 60Gi"
