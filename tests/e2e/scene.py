"""What an end-to-end test sees of a whole cluster: objects by kubectl's short words, and waits with an end.

    scene = Scene(up, kubectl, namespace)
    scene.apply(claim("data", "10Gi"), pod("db", ["data"]))
    scene.running("db")

Everything goes in through kubectl and is looked at over HTTPS or in the files of the nodes.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from support.eventually import eventually
from support.processes import Up, start_up
from tonnage.faults import Fault, FaultFile
from tonnage.objects.document import Doc
from tonnage.stories.story_runner import claim, pod

T = TypeVar("T")

PATIENCE_S = 30.0
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_TOPOLOGY_KEY = "topology.tonnage.dev/node"


@contextmanager
def whole_cluster(*flags: str) -> Iterator[Up]:
    """A `tonnage up` in a folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        running = start_up(Path(folder) / "c", *flags)
        try:
            yield running
        finally:
            running.stop()


class Scene:
    """One namespace of a cluster. `kubectl` is the fixture of that name."""

    def __init__(self, up: Up, kubectl: Any, namespace: str) -> None:
        self.up = up
        self.namespace = namespace
        self._kubectl = kubectl

    # -- acts ---------------------------------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, stdin: Any = None) -> str:
        """Run kubectl in this namespace; what it prints."""
        return str(self._kubectl("-n", self.namespace, *arguments, stdin=stdin))

    @contextmanager
    def kubectl_goes_on(self, *arguments: str) -> Iterator[Path]:
        """Leave kubectl running for a while; gives the file of its complaints."""
        with tempfile.NamedTemporaryFile("w") as complaints:
            command = self._kubectl.command("-n", self.namespace, *arguments)
            running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=complaints)
            try:
                yield Path(complaints.name)
            finally:
                running.kill()
                running.wait()

    def apply(self, *docs: Doc) -> str:
        return self.kubectl("apply", "-f", "-", stdin=list(docs))

    def fill(self, node: str, *sizes: str) -> None:
        """Use up room on a node, and wait until it is: a claim a size, of a pod that may go nowhere else."""
        names = [f"fill-{node}-{number}" for number in range(len(sizes))]
        claims = [claim(name, size) for name, size in zip(names, sizes, strict=True)]
        self.apply(*claims, pod(f"fill-{node}", names, node=node))
        self.running(f"fill-{node}")

    def fault(self, *faults: Fault) -> None:
        """Make these go wrong, and nothing else."""
        FaultFile(self.up.folder / "faults.json").write(faults)

    def clear_away(self) -> None:
        """Take nodes into use, delete the namespace, and wait until its room is free again for whoever comes next."""
        self.fault()
        for node in self.items("/api/v1/nodes"):
            left = [each for each in node["spec"].get("taints", ()) if each["key"] != OUT_OF_SERVICE]
            if node["spec"].get("unschedulable") or left != node["spec"].get("taints", []):
                spec = {"unschedulable": None, "taints": left}
                self.up.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": spec})
        self.up.delete(f"/api/v1/namespaces/{self.namespace}")
        self.until(
            f"{self.namespace} to be gone",
            lambda: not self.volumes() and self.up.get(f"/api/v1/namespaces/{self.namespace}").code == 404,
        )

    # -- looks --------------------------------------------------------------------------------------------------------

    def until(self, what: str, find: Callable[[], T | None], timeout_s: float = PATIENCE_S) -> T:
        """Look until something is found, and give it. Fails with what was waited for, and the events of the scene."""
        return eventually(find, what, within_s=timeout_s, details=lambda: self.kubectl("get", "events"))

    def items(self, path: str, selector: str = "") -> list[Doc]:
        query = f"?labelSelector={selector}" if selector else ""
        return list(self.up.get(f"{path}{query}").body["items"])

    def pods(self, selector: str = "") -> list[Doc]:
        return self.items(f"/api/v1/namespaces/{self.namespace}/pods", selector)

    def pod(self, name: str) -> Doc | None:
        return self._found(f"/api/v1/namespaces/{self.namespace}/pods/{name}")

    def claim(self, name: str) -> Doc | None:
        return self._found(f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims/{name}")

    def volumes(self) -> list[Doc]:
        """The PersistentVolumes of this namespace's claims."""
        found = self.items("/api/v1/persistentvolumes")
        return [each for each in found if each["spec"].get("claimRef", {}).get("namespace") == self.namespace]

    def volume_of(self, claim: str) -> Doc:
        found = self.until(f"claim {claim} to be bound", lambda: self._bound(claim))
        return self._found(f"/api/v1/persistentvolumes/{found['spec']['volumeName']}") or {}

    def running(self, name: str, timeout_s: float = PATIENCE_S, *, not_on: str = "") -> Doc:
        """The pod, once it runs with its volumes and is not on its way out; `not_on` is a node it has to have left."""

        def runs() -> Doc | None:
            found = self.pod(name)
            if found is None or "deletionTimestamp" in found["metadata"] or found["spec"].get("nodeName") == not_on:
                return None
            return found if found["status"].get("phase") == "Running" else None

        return self.until(f"{name} to run", runs, timeout_s)

    def waits(self, name: str, reason: str = "", timeout_s: float = PATIENCE_S) -> str:
        """Why the scheduler does not place a pod, once it has said so, and said `reason`."""

        def message() -> str:
            conditions = (self.pod(name) or {}).get("status", {}).get("conditions", [])
            told = [each for each in conditions if each["type"] == "PodScheduled" and each["status"] == "False"]
            return next((each.get("message", "") for each in told if reason in each.get("message", "")), "")

        return self.until(f"the scheduler's word on {name}: {reason}", message, timeout_s)

    def event(self, reason: str, about: str, timeout_s: float = PATIENCE_S) -> Doc:
        """The first event of this reason about an object of this name, once there is one."""
        path = f"/api/v1/namespaces/{self.namespace}/events"

        def found() -> Doc | None:
            told = (each for each in self.items(path) if each["involvedObject"]["name"] == about)
            return next((each for each in told if each["reason"] == reason), None)

        return self.until(f"the event {reason} about {about}", found, timeout_s)

    def pools(self, node: str) -> list[str]:
        """Free room of each pool as it is published."""
        found = self.items("/apis/storage.k8s.io/v1/csistoragecapacities")
        of_node = (each for each in found if each["nodeTopology"]["matchLabels"].get(_TOPOLOGY_KEY) == node)
        return list(next(of_node, {}).get("availableCapacities", []))

    def has_room(self, node: str, *pools: str) -> None:
        """Wait until exactly this room is published, in whatever order."""
        self.until(f"{node} to have {pools}", lambda: sorted(self.pools(node)) == sorted(pools))

    def mount(self, pod: str, volume: str) -> Path:
        """Where the node has put a PersistentVolume for this pod."""
        uid = (self.pod(pod) or {})["metadata"]["uid"]
        return next((self.up.folder / "nodes").glob(f"*/pods/{uid}/volumes/kubernetes.io~csi/{volume}/mount"))

    def _bound(self, claim: str) -> Doc | None:
        found = self.claim(claim)
        return found if found and found["status"].get("phase") == "Bound" else None

    def _found(self, path: str) -> Doc | None:
        reply = self.up.get(path)
        return reply.body if reply.code == 200 else None
