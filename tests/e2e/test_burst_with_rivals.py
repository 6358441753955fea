"""A burst of pods whose driver is slow, a scheduler that is killed or stopped in the middle, and younger rivals.

Fifty pods fill five nodes: ten of 800m on each of 8 CPUs. Whoever is on its way when the scheduler ends keeps its room,
so that no volume is made in vain, and no rival runs.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from scene import Scene, whole_cluster

from support.processes import Up
from tonnage.faults import Fault
from tonnage.objects.document import Doc
from tonnage.stories.story_runner import claim, pod

SELECTED = "volume.kubernetes.io/selected-node"
PODS, CLAIMS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/persistentvolumeclaims"
BURST = [f"db-{number}" for number in range(50)]
RIVALS = [f"rival-{number}" for number in range(10)]


def make(up: Up, path: str, *docs: Doc) -> None:
    def post(doc: Doc) -> None:
        made = up.post(path, doc)
        assert made.code == 201, made.body

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(post, docs))


def no_kubectl(*arguments: str, stdin: object = None) -> str:
    return ""


def revisions(up: Up, since: str) -> tuple[dict[str, int], dict[str, int]]:
    """By name: the first nominations of pods, and the first selected nodes of claims, as resource versions."""
    nominated: dict[str, int] = {}
    for seen in up.watch_to_the_end(f"{PODS}?watch=true&resourceVersion={since}"):
        if seen.object["status"].get("nominatedNodeName"):
            nominated.setdefault(seen.name, int(seen.object["metadata"]["resourceVersion"]))
    selected: dict[str, int] = {}
    for seen in up.watch_to_the_end(f"{CLAIMS}?watch=true&resourceVersion={since}"):
        if SELECTED in seen.object["metadata"].get("annotations", {}):
            selected.setdefault(seen.name, int(seen.object["metadata"]["resourceVersion"]))
    return nominated, selected


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_rivals_do_not_get_the_room_of_pods_that_are_on_their_way(how: signal.Signals) -> None:
    with whole_cluster("--nodes", "5", "--pools", "1x100Gi") as up:
        scene = Scene(up, no_kubectl, "default")
        scene.fault(Fault("slow", value=3.0))
        since = str(up.get(f"{PODS}?limit=1").meta["resourceVersion"])
        make(up, CLAIMS, *(claim(name, "1Gi") for name in BURST))
        make(up, PODS, *(pod(name, [name], cpu="800m") for name in BURST))

        def selected() -> dict[str, str]:
            found = {each["metadata"]["name"]: each["metadata"].get("annotations", {}) for each in scene.items(CLAIMS)}
            return {name: told[SELECTED] for name, told in found.items() if SELECTED in told}

        scene.until("half of the burst to be on its way", lambda: len(selected()) >= len(BURST) // 2)
        os.kill(up.pid("scheduler"), how)
        sent = selected()
        make(up, PODS, *(pod(name, cpu="800m") for name in RIVALS))
        scene.fault()
        for name in BURST:
            running = scene.running(name, 120.0)
            assert running["spec"]["nodeName"] == sent.get(name, running["spec"]["nodeName"])
        assert [name for name in RIVALS if (scene.pod(name) or {})["spec"].get("nodeName")] == []
        nominated, told = revisions(up, since)
        assert told.keys() == set(BURST)
        assert [name for name in BURST if nominated.get(name, 1 << 63) > told[name]] == []
