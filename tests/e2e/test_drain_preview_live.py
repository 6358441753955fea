"""What drain-preview says is what happens: random small clusters are previewed, then drained by kubectl.

kubectl evicts in no order, and among equally good nodes the scheduler draws lots. So the preview is rehearsed in every
order of the evictions and with several lots: what happens is one of these outcomes, and where there is only one, it is
that. An outcome is who runs where, who waits, who is kept by a budget, and which volumes were rebuilt.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, permutations
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from scene import Scene, whole_cluster

from support.processes import Up
from tonnage.cli.questions import drain_preview
from tonnage.client.config import kubeconfig
from tonnage.gates import Gates
from tonnage.objects.core_v1 import Pod
from tonnage.objects.document import Doc
from tonnage.scheduling.configuration.configuration import default_configuration
from tonnage.stories.story_runner import deployment, pod_spec, stateful_set
from tonnage.whatif.drain.outcome import DrainOutcome
from tonnage.whatif.drain.rehearsal import Rehearsal
from tonnage.whatif.drain.rehearsal import Scene as DrainScene
from tonnage.whatif.simulate.world_state import WorldSettings
from tonnage.whatif.sources import from_cluster

pytestmark = pytest.mark.kubectl

POOLS = ("node-1=100Gi,60Gi", "node-2=100Gi", "node-3=2x60Gi", "node-4=80Gi")
ROOM = (100, 60, 100, 60, 60, 80)
"""The pools in Gi, all of them."""
MOST_ORDERS, LOTS = 24, 4
QUICK, MANY = 2, 12

Entry = tuple[str, str, int]
"""Workload, where it is now or why nowhere, bytes rebuilt."""
WAITS, KEPT, NOT_MADE = "waits", "kept", "not made"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    said: Doc = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": "pools.tonnage.dev"},
        "spec": {"attachRequired": False, "storageCapacity": True, "volumeRebuilding": True},
    }
    driver = tmp_path_factory.mktemp("driver") / "driver.yaml"
    driver.write_text(yaml.safe_dump(said))
    flags = (text for pools in POOLS for text in ("--pools", pools))
    with whole_cluster("--nodes", "4", *flags, "-f", str(driver)) as running:
        yield running


def workloads(rng: random.Random) -> list[Doc]:
    """Databases with a claim each, frontends without, and now and then a budget that keeps one of them."""
    made: list[Doc] = []
    left = len(ROOM)  # as many claims of at most 60Gi always find room, wherever the others went
    for number in range(rng.randint(2, 4)):
        size, cpu = rng.choice(("20Gi", "40Gi", "60Gi", "60Gi")), rng.choice(("100m", "300m", "700m"))
        database = stateful_set(f"db{number}", size, cpu=cpu)
        database["spec"]["replicas"] = min(left, rng.choice((1, 2)))
        left -= database["spec"]["replicas"]
        if database["spec"]["replicas"]:
            made.append(database)
    for number in range(rng.randint(0, 2)):
        web = deployment(f"web{number}", pod_spec(cpu=rng.choice(("200m", "500m"))))
        web["spec"]["replicas"] = rng.randint(1, 2)
        made.append(web)
    if rng.random() < 0.4:
        kept = rng.choice(made)["metadata"]["name"]
        selector = {"matchLabels": {"app": kept}}
        spec = {"selector": selector, "maxUnavailable": 0}
        made.append(
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": kept}, "spec": spec}
        )
    return made


def replicas(made: list[Doc]) -> int:
    return sum(each["spec"].get("replicas", 0) for each in made)


# -- what was foretold ------------------------------------------------------------------------------------------------


def foretold(outcome: DrainOutcome | Doc) -> tuple[Entry, ...]:
    """An outcome in a form that does not depend on names that were drawn."""
    found = outcome if isinstance(outcome, dict) else outcome.document()
    entries = []
    for each in (*found["moves"], *found["preempted"]):
        size = sum(volume["bytes"] for volume in each["volumes"] if volume["action"] == "rebuild")
        entries.append((each["workload"], each["to"], size))
    for each in found["stuck"]:
        is_made = "its StatefulSet makes it again" not in each["message"]
        entries.append((each["workload"], KEPT if not each["evicted"] else WAITS if is_made else NOT_MADE, 0))
    return tuple(sorted(entries))


def possible_outcomes(drained: DrainScene, node: str) -> set[tuple[Entry, ...]]:
    """What comes of every order of the evictions, each with several lots."""
    pods = [each.key for each in Rehearsal(drained).world.pods_on(node)]
    found = set()
    for order in islice(permutations(pods), MOST_ORDERS):
        for lot in range(LOTS):
            rehearsal = Rehearsal(replace(drained, settings=WorldSettings(seed=lot)))
            listed, ranks = rehearsal.world.pods_on, {key: rank for rank, key in enumerate(order)}

            def in_order(name: str, listed: Any = listed, ranks: dict[str, int] = ranks) -> list[Pod]:
                return sorted(listed(name), key=lambda pod: ranks.get(pod.key, 0))

            rehearsal.world.pods_on = in_order  # type: ignore[method-assign,assignment]
            found.add(foretold(rehearsal.drain_together((node,))))
    return found


# -- what happens -----------------------------------------------------------------------------------------------------


class Before:
    """Who was where before the drain."""

    def __init__(self, scene: Scene, node: str) -> None:
        self.scene, self.node = scene, node
        self.uids = {each["metadata"]["uid"]: each for each in scene.pods()}
        self.drained = [each for each in self.uids.values() if each["spec"]["nodeName"] == node]
        self.homes = {each["spec"]["claimRef"]["name"]: _home(each) for each in scene.volumes()}

    def outcome(self, count: int) -> tuple[Entry, ...] | None:
        """What became of those on the node; None while something is on its way."""
        now = self.scene.pods()
        names = {each["metadata"]["name"] for each in now}
        missing = [
            _workload(each)
            for each in self.drained
            if each["metadata"]["name"] not in names and _workload(each).startswith("StatefulSet/")
        ]
        if len(now) + len(missing) != count or any("deletionTimestamp" in each["metadata"] for each in now):
            return None
        volumes = {each["spec"]["claimRef"]["name"]: each for each in self.scene.volumes()}
        entries = [(each, NOT_MADE, 0) for each in missing]
        for pod in now:
            uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
            if uid in self.uids and node != self.node:
                continue
            if uid in self.uids:
                entries.append((_workload(pod), KEPT, 0))
            elif not node:
                told = [each for each in pod["status"].get("conditions", ()) if each["type"] == "PodScheduled"]
                if not told or told[0]["status"] != "False":
                    return None
                entries.append((_workload(pod), WAITS, 0))
            elif pod["status"].get("phase") != "Running":
                return None
            else:
                size = 0
                for claim in _claims(pod):
                    if _home(volumes[claim]) != node:
                        return None  # it is not confined to its new node yet
                    size += _bytes(volumes[claim]) if self.homes[claim] != node else 0
                entries.append((_workload(pod), node, size))
        return tuple(sorted(entries))


def _workload(pod: Doc) -> str:
    owner = pod["metadata"]["ownerReferences"][0]
    name, kind = owner["name"], owner["kind"]
    if kind == "ReplicaSet":
        name, kind = name.rpartition("-")[0], "Deployment"
    return f"{kind}/{pod['metadata']['namespace']}/{name}"


def _claims(pod: Doc) -> list[str]:
    volumes = pod["spec"].get("volumes", ())
    return [each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each]


def _home(volume: Doc) -> str:
    terms = volume["spec"].get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms", ())
    return "".join(value for term in terms for each in term["matchExpressions"] for value in each["values"])


def _bytes(volume: Doc) -> int:
    return int(volume["spec"]["capacity"]["storage"].removesuffix("Gi")) << 30


@pytest.mark.parametrize(
    "seed", [*range(QUICK), *(pytest.param(each, marks=pytest.mark.slow) for each in range(QUICK, MANY))]
)
def test_what_is_foretold_happens(scene: Scene, seed: int):
    rng = random.Random(f"drain {seed}")
    made = workloads(rng)
    scene.apply(*made)
    count = replicas(made)

    def all_run() -> list[Doc]:
        pods = scene.pods()
        return pods if len(pods) == count and all(each["status"].get("phase") == "Running" for each in pods) else []

    pods = scene.until("all to run", all_run)
    nodes = sorted({each["spec"]["nodeName"] for each in pods})
    node = max(nodes, key=lambda name: sum(each["spec"]["nodeName"] == name for each in pods))
    state = asyncio.run(from_cluster(kubeconfig.load(scene.up.kubeconfig), with_workloads=True, user_agent="test"))
    possible = possible_outcomes(DrainScene(state, default_configuration(gates=Gates()).profiles), node)

    command = ["--kubeconfig", str(scene.up.kubeconfig), node, "-o", "json"]
    asked = CliRunner().invoke(drain_preview, command, catch_exceptions=False)
    answer = json.loads(asked.stdout)
    assert foretold(answer) in possible

    before = Before(scene, node)
    with scene.kubectl_goes_on("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force"):
        seen: list[Any] = []

        def as_foretold() -> bool:
            seen[:] = [before.outcome(count)]
            return seen[0] in possible

        try:
            scene.until(f"one of {len(possible)} outcomes of draining {node}", as_foretold)
        except AssertionError as exc:
            raise AssertionError(f"happened: {seen}\nforetold: {sorted(possible)}") from exc
    assert answer["holds"] is all(where not in (WAITS, KEPT, NOT_MADE) for _, where, _ in foretold(answer))
