"""Provisioner and scheduler die together while volumes are made: what the new figures show is not promised again.

Six claims of 16Gi fit a pool of 100Gi. If the volumes that were made before the deaths counted twice, the rest would
wait until those promises end by the clock, after a minute.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from scene import Scene, whole_cluster

from tonnage.stories.story_runner import claim, pod

NAMES = [f"db-{number}" for number in range(6)]


def no_kubectl(*arguments: str, stdin: object = None) -> str:
    return ""


@pytest.mark.parametrize("made", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_pods_go_on_when_provisioner_and_scheduler_die_while_volumes_are_made(made: int) -> None:
    with whole_cluster("--nodes", "1", "--pools", "100Gi") as up, ThreadPoolExecutor(1) as beside:
        scene = Scene(up, no_kubectl, "default")
        pids = [up.pid("provisioner"), up.pid("scheduler")]

        def ask() -> None:
            for name in NAMES:
                up.post("/api/v1/namespaces/default/persistentvolumeclaims", claim(name, "16Gi"))
                up.post("/api/v1/namespaces/default/pods", pod(name, [name]))

        asked = beside.submit(ask)
        scene.until("the first volumes", lambda: len(scene.volumes()) >= made)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        asked.result()
        for name in NAMES:
            scene.running(name, 30.0)
