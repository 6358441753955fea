"""KEP-5278's four stories, played with the manifests of `examples/`: server, scheduler and node scaler are processes.

The test is whoever the examples leave out, the slow provisioner and Kueue, and does what their READMEs do by hand. What
only lasts a moment is read back afterwards, from a watch that starts before it.
"""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from test_scheduler_volumes_live import SELECTED_NODE, Doc

from support.eventually import eventually
from support.processes import start_cluster
from support.programs import RunningProgram, spawn
from tonnage.objects.codec import class_of, resource_of

EXAMPLES = Path(__file__).parents[3] / "examples"
GATE_OFF = ("--feature-gates", "NominatedNodeNameForExpectation=false")


class Story:
    """A fresh server, and an example to play on it."""

    def __init__(self, name: str, data: Path) -> None:
        self.folder = EXAMPLES / name
        self.server = start_cluster(data)
        self.begins_at = self.server.get("/api/v1/nodes").body["metadata"]["resourceVersion"]
        (self.namespace,) = (doc["metadata"]["name"] for doc in self.docs("cluster.yaml") if doc["kind"] == "Namespace")

    # -- what one does by hand ----------------------------------------------------------------------------------------

    def docs(self, part: str) -> list[Doc]:
        """The documents of a file, or of a folder's files but not its subfolders', as `kubectl -f` reads them."""
        named = self.folder / part
        files = sorted(named.glob("*.yaml")) if named.is_dir() else [named]
        return [doc for file in files for doc in yaml.safe_load_all(file.read_text())]

    def apply(self, part: str = "") -> None:
        """`kubectl apply -f` of what is not there yet."""
        for doc in self.docs(part):
            reply = self.server.post(self.path(doc["kind"], api_version=doc["apiVersion"]), doc)
            assert reply.code == 201, reply.body

    def bind(self, claim: str, patch: str) -> None:
        """The binder's half: the claim has its volume."""
        (change,) = self.docs(patch)
        reply = self.server.patch(self.path("PersistentVolumeClaim", claim), change)
        assert reply.code == 200, reply.body

    def propose(self, part: str, manager: str) -> None:
        """`kubectl apply --server-side --subresource=status`, under somebody's name."""
        for doc in self.docs(part):
            path = self.path("Pod", doc["metadata"]["name"])
            reply = self.server.patch(f"{path}/status?fieldManager={manager}", doc, "apply")
            assert reply.code == 200, reply.body

    def ungate(self, pod: str, part: str) -> None:
        (change,) = self.docs(part)
        reply = self.server.patch(self.path("Pod", pod), change, "json")
        assert reply.code == 200, reply.body

    @contextmanager
    def program(self, *command: str) -> Iterator[RunningProgram]:
        """A `tonnage` process beside the server; ended at the end, if it still runs."""
        kubeconfig = ["--kubeconfig", str(self.server.kubeconfig)]
        process = spawn(*command, *kubeconfig, log=self.server.folder / f"{command[0]}.log")
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)

    @contextmanager
    def scheduler(self, *flags: str) -> Iterator[RunningProgram]:
        with self.program("scheduler", "--no-leader-elect", "--secure-port", "0", *flags) as process:
            yield process

    @contextmanager
    def scaler(self, *flags: str) -> Iterator[None]:
        """A node scaler that follows the cluster."""
        template = str(self.folder / "pool" / "node.yaml")
        with self.program("node-scaler", "--template", template, "--max", "2", *flags) as process:
            assert process.readline() == "ready\n"
            yield

    # -- what one sees ------------------------------------------------------------------------------------------------

    def path(self, kind: str, name: str = "", *, api_version: str = "v1") -> str:
        return resource_of(class_of(api_version, kind)).path(self.namespace, name)

    def pod(self, name: str) -> Doc:
        return dict(self.server.get(self.path("Pod", name)).body)

    def expected_on(self, pod: str) -> str:
        return expected(self.pod(pod))

    def node_of(self, pod: str) -> str:
        return str(self.pod(pod)["spec"].get("nodeName", ""))

    def refusal(self, pod: str) -> str:
        """Why it was not placed, without what preemption has to say; empty while nobody looked."""
        return refusal(self.pod(pod)).partition(" preemption: ")[0]

    def selected(self, claim: str) -> str:
        """The node that the claim's volume is to be made for."""
        found = self.server.get(self.path("PersistentVolumeClaim", claim)).body["metadata"].get("annotations", {})
        return str(found.get(SELECTED_NODE, ""))

    def nodes(self) -> dict[str, Doc]:
        return {item["metadata"]["name"]: item for item in self.server.get("/api/v1/nodes").body["items"]}

    def told(self, name: str, reason: str) -> list[str]:
        """What the events of that reason say about an object."""
        items = self.server.get("/apis/events.k8s.io/v1/events").body["items"]
        return [each["note"] for each in items if (each["regarding"]["name"], each["reason"]) == (name, reason)]

    def states(self, kind: str, name: str) -> list[Doc]:
        """Every state of an object that was written since the story began, up to now."""
        newest = self.server.get(self.path(kind, name)).body
        query = f"watch=true&resourceVersion={self.begins_at}&timeoutSeconds=30"
        request = urllib.request.Request(
            f"{self.server.url}{self.path(kind)}?{query}", headers={"Authorization": f"Bearer {self.server.token}"}
        )
        found: list[Doc] = []
        with urllib.request.urlopen(request, context=self.server.tls, timeout=30) as answer:
            while not found or revision(found[-1]) < revision(newest):
                seen = json.loads(answer.readline())["object"]
                found += [seen] if seen["metadata"]["name"] == name else []
        return found


def expected(pod: Doc) -> str:
    return str(pod["status"].get("nominatedNodeName", ""))


def refusal(pod: Doc) -> str:
    conditions = pod["status"].get("conditions", [])
    return next((each["message"] for each in conditions if each.get("reason") == "Unschedulable"), "")


def revision(each: Doc) -> int:
    return int(each["metadata"]["resourceVersion"])


Tell = Callable[[str], Story]


@pytest.fixture
def tell(tmp_path: Path) -> Iterator[Tell]:
    """Begin the story of an example."""
    begun: list[Story] = []

    def begin(name: str) -> Story:
        begun.append(Story(name, tmp_path / name))
        return begun[-1]

    yield begin
    for story in begun:
        story.server.stop()


# -- story 1 ----------------------------------------------------------------------------------------------------------


def test_a_node_that_a_binding_pod_waits_for_is_not_removed(tell: Tell) -> None:
    story = tell("05-binding-pod-keeps-its-node")
    with story.scheduler():
        story.apply()
        chosen = eventually(lambda: story.expected_on("database"))
        eventually(lambda: story.selected("data") == chosen)
        before = story.nodes()
        (idle,) = before.keys() - {chosen}
        with story.scaler("--unneeded-seconds", "1"):
            # Both nodes are empty. The scaler has looked at both when the one that nobody waits for is gone.
            eventually(lambda: story.nodes().keys() == {chosen})
            assert "taints" not in story.nodes()[chosen].get("spec", {})
            eventually(lambda: "node removed by cluster autoscaler" in story.told(idle, "ScaleDown"))
            assert story.told(chosen, "ScaleDown") == []
            story.apply("provisioner/volume.yaml")
            story.bind("data", "provisioner/claim.yaml")
            eventually(lambda: story.node_of("database") == chosen)
    assert story.nodes()[chosen]["metadata"]["uid"] == before[chosen]["metadata"]["uid"]
    assert story.expected_on("database") == ""


def test_with_the_gate_off_the_claim_alone_keeps_that_node(tell: Tell) -> None:
    story = tell("05-binding-pod-keeps-its-node")
    with story.scheduler(*GATE_OFF):
        story.apply()
        chosen = eventually(lambda: story.selected("data"))
        assert story.expected_on("database") == "", "the pod is on its way, and nominated to no node"
        (idle,) = story.nodes().keys() - {chosen}
        with story.scaler("--unneeded-seconds", "1"):
            eventually(lambda: story.nodes().keys() == {chosen})
            eventually(lambda: "node removed by cluster autoscaler" in story.told(idle, "ScaleDown"))
            assert story.told(chosen, "ScaleDown") == []


# -- story 2 ----------------------------------------------------------------------------------------------------------


def killed_while_the_volume_is_made(story: Story, *flags: str) -> None:
    with story.scheduler(*flags) as process:
        story.apply()
        eventually(lambda: story.selected("data") == "restart-old")
        process.kill()
        process.wait(timeout=10)
    story.apply("meanwhile")


def test_a_scheduler_goes_on_where_the_last_was_killed_though_a_better_node_is_there(tell: Tell) -> None:
    story = tell("06-scheduler-restart")
    killed_while_the_volume_is_made(story)
    with story.scheduler():
        # The better node is the better one: whoever has not been decided about goes there.
        eventually(lambda: story.expected_on("twin") == "restart-new")
        # restart-old has 4 CPU, of which 3 are held for `database`: 1 < 3.
        refused = "1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector."
        eventually(lambda: story.refusal("agent") == f"0/2 nodes are available: {refused}")
        story.apply("provisioner/volume.yaml")
        story.bind("data", "provisioner/claim.yaml")
        eventually(lambda: story.node_of("database") == "restart-old")
    pods, claims = story.states("Pod", "database"), story.states("PersistentVolumeClaim", "data")
    # Made, shown, bound: the second scheduler found everything but the binding done.
    assert [(expected(each), each["spec"].get("nodeName", "")) for each in pods] == [
        ("", ""),
        ("restart-old", ""),
        ("", "restart-old"),
    ]
    assert [each["metadata"].get("annotations", {}).get(SELECTED_NODE, "") for each in claims] == [
        "",
        "restart-old",
        "restart-old",
    ]
    assert claims[-1]["spec"]["volumeName"] == "restart-data"


def test_with_the_gate_off_its_room_goes_to_another_and_its_volume_is_made_in_vain(tell: Tell) -> None:
    story = tell("06-scheduler-restart")
    killed_while_the_volume_is_made(story, *GATE_OFF)
    with story.scheduler(*GATE_OFF):
        # Nobody knows of the room; the queue of a new scheduler is in the order of names.
        eventually(lambda: story.node_of("agent") == "restart-old")
        refused = "1 Insufficient cpu, 1 node(s) didn't find available persistent volumes to bind."
        eventually(lambda: story.refusal("database") == f"0/2 nodes are available: {refused}")


# -- story 3 ----------------------------------------------------------------------------------------------------------


def test_nodes_to_come_go_to_the_pods_they_were_proposed_to(tell: Tell) -> None:
    story = tell("07-proposed-node")
    web, small = ("web-1", "web-2"), ("small-1", "small-2")
    with story.scheduler():
        story.apply()
        eventually(lambda: all(map(story.refusal, (*web, *small))))
        with story.scaler("--provision-seconds", "1", "--ready-seconds", "4"):
            eventually(lambda: all(map(story.node_of, web)))
            # A new node has 4 CPU, of which 3 are the web pod's that is expected or there: 1 < 2, as on the node that
            # was there from the start. The other new node may not have been ready yet.
            enough = ("2 Insufficient cpu.", "3 Insufficient cpu.")
            eventually(lambda: all(story.refusal(each).endswith(enough) for each in small))
    assert {name: story.node_of(name) for name in (*web, *small)} == {
        "web-1": "grown-1",
        "web-2": "grown-2",
        "small-1": "",
        "small-2": "",
    }
    for pod, node in (("web-1", "grown-1"), ("web-2", "grown-2")):
        assert story.told(pod, "TriggeredScaleUp") == ["pod triggered scale-up: [{grown 0->2 (max: 2)}]"]
        made, *_, placed = story.states("Pod", pod)
        waiting = [each for each in story.states("Pod", pod) if expected(each)]
        # Proposed before the node was there, and kept from then on: through attempts that failed, because there was no
        # such node and because it was not ready.
        assert revision(waiting[0]) < revision(story.states("Node", node)[0])
        assert {expected(each) for each in waiting} == {node}
        assert [(expected(each), each["spec"].get("nodeName", "")) for each in (made, placed)] == [("", ""), ("", node)]
        assert any("had untolerated taint(s)" in refusal(each) for each in waiting)
    for pod in small:
        assert story.told(pod, "NotTriggerScaleUp") == ["pod didn't trigger scale-up: 1 max node group size reached"]


# -- story 4 ----------------------------------------------------------------------------------------------------------


def gang_that_lost_a_place(story: Story) -> None:
    """Two gated pods have a proposal each; a third of higher priority takes the place of one. Now they may go."""
    story.apply()
    story.propose("kueue/proposals.yaml", "kueue")
    story.apply("others")
    elsewhere = "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector"
    # Both nodes of rack a: 4 CPU, of which 3 are held, 1 < 3; 100Gi, of which 60 are held, 40 < 60.
    eventually(lambda: story.refusal("walk-in") == f"{elsewhere}, 2 Insufficient cpu.")
    eventually(lambda: story.refusal("archive") == f"{elsewhere}, 2 node(s) did not have enough free storage.")
    story.apply("urgent")
    eventually(lambda: story.node_of("urgent") == "rack-a-2")
    assert [story.expected_on(f"train-{i}") for i in range(2)] == ["rack-a-1", "rack-a-2"]
    for i in range(2):
        story.ungate(f"train-{i}", "kueue/ungate.yaml")
    eventually(lambda: story.selected("scratch-0") and story.selected("scratch-1"))


def test_gated_pods_hold_their_room_against_all_but_higher_priority(tell: Tell) -> None:
    story = tell("08-gated-pod-holds-its-room")
    with story.scheduler():
        gang_that_lost_a_place(story)
        # rack-b-1 is the better node for both, with 16 CPU and 1000Gi. One goes where it was proposed all the same; for
        # the other the scheduler decides anew, and says so.
        assert [story.expected_on(f"train-{i}") for i in range(2)] == ["rack-a-1", "rack-b-1"]
        story.apply("provisioner/volumes.yaml")
        for i in range(2):
            story.bind(f"scratch-{i}", f"provisioner/scratch-{i}.yaml")
        eventually(lambda: [story.node_of(f"train-{i}") for i in range(2)] == ["rack-a-1", "rack-b-1"])
        assert story.node_of("walk-in") == ""


def test_storage_that_a_moved_nomination_held_goes_to_the_pod_that_waited_for_it(tell: Tell) -> None:
    story = tell("08-gated-pod-holds-its-room")
    with story.scheduler():
        gang_that_lost_a_place(story)
        # `train-1` is expected in rack b: on rack-a-2 all 100Gi are free, and 1 CPU.
        eventually(lambda: story.expected_on("archive") == "rack-a-2")
