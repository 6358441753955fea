"""Runs stories: a running cluster, a namespace per story, and a console to write on.

    async with runner.story("KEP-5925: …"):
        await runner.apply(claim("data", "100Gi"), pod("db", ["data"]))
        node = await runner.bound("db")
        runner.check("it went to node-2", node == "node-2", node)

Before a pod is applied, the runner explains why nodes would be refused (the same code as `tonnage explain`). A wait
that times out is a failed check, and ends the story, not the suite.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import msgspec
from rich.console import Console

from tonnage import driver, printable
from tonnage.behaviour.workloads.stateful_set_plan import claims_for, pod_for
from tonnage.behaviour.workloads.templates import claim_for, pod_from_template
from tonnage.client.http import Client
from tonnage.clock import Clock
from tonnage.errors import NotFound, TonnageError
from tonnage.faults import Fault, FaultFile
from tonnage.objects import apps_v1, codec, meta, storage_v1
from tonnage.objects.core_v1 import Event, Namespace, PersistentVolume, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc, encode
from tonnage.objects.resources import BY_KIND
from tonnage.plane.cluster import Plane
from tonnage.scheduler.configuration_file import load_configuration
from tonnage.scheduling.decision.explain import Explanation
from tonnage.whatif.explain import explain_pod
from tonnage.whatif.sources import listed

IMAGE = "pause:3.10"


def claim(name: str, size: str) -> Doc:
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": claim_spec(size)}


def claim_spec(size: str) -> Doc:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}


def pod(name: str, claims: Sequence[str] = (), **options: Any) -> Doc:
    """A pod that mounts these claims, with options of `pod_spec`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": pod_spec(claims, **options),
    }


def pod_spec(
    claims: Sequence[str] = (),
    *,
    node: str = "",
    scheduler: str = "",
    cpu: str = "",
    is_gated: bool = False,
    ephemeral: Sequence[str] = (),
    prefers: str = "",
) -> Doc:
    """`node` is the only node it may go to, `prefers` the one it prefers; `ephemeral` are sizes of volumes."""
    volumes: list[Any] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    volumes += [
        {"name": f"scratch-{number}", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec(size)}}}
        for number, size in enumerate(ephemeral)
    ]
    container: Doc = {
        "name": "main",
        "image": IMAGE,
        "volumeMounts": [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes],
    }
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    spec: Doc = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 1}
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    if scheduler:
        spec["schedulerName"] = scheduler
    if is_gated:
        spec["schedulingGates"] = [{"name": "example.com/plan"}]
    if prefers:
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [prefers]}]}
        wish = {"weight": 100, "preference": term}
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    return spec


def stateful_set(name: str, size: str, *, cpu: str = "") -> Doc:
    """One replica with one claim."""
    mount = {"name": "main", "image": IMAGE, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    claims = [{"metadata": {"name": "data"}, "spec": claim_spec(size)}]
    template = pod_spec(cpu=cpu) | {"containers": [mount]}
    return _workload("StatefulSet", name, template, serviceName=name, volumeClaimTemplates=claims)


def deployment(name: str, template: Doc) -> Doc:
    return _workload("Deployment", name, template)


def _workload(kind: str, name: str, template: Doc, **more: Any) -> Doc:
    labels = {"app": name}
    pods = {"metadata": {"labels": labels}, "spec": template}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": pods, **more}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def described(doc: Doc) -> str:
    """The object on one line: `PersistentVolumeClaim data-0 100Gi`."""
    kind, name, spec = doc["kind"], doc["metadata"]["name"], doc.get("spec", {})
    if kind == "PersistentVolumeClaim":
        return f"{kind} {name}: {spec['resources']['requests']['storage']}"
    if kind == "Pod":
        return f"{kind} {name}: {_pod(spec)}"
    if kind == "StatefulSet":
        sizes = [each["spec"]["resources"]["requests"]["storage"] for each in spec["volumeClaimTemplates"]]
        return f"{kind} {name}: {spec['replicas']} replica with a claim of {', '.join(sizes)}"
    if kind == "Deployment":
        return f"{kind} {name}: {spec['replicas']} replica, {_pod(spec['template']['spec'])}"
    return f"{kind} {name}"


def _pod(spec: Doc) -> str:
    told = []
    claims = [each["persistentVolumeClaim"]["claimName"] for each in spec["volumes"] if "persistentVolumeClaim" in each]
    if claims:
        told.append(f"claims {', '.join(claims)}")
    scratch = [each for each in spec["volumes"] if "ephemeral" in each]
    if scratch:
        told.append(f"{len(scratch)} volumes of its own")
    if "nodeSelector" in spec:
        told.append(f"only on {spec['nodeSelector']['kubernetes.io/hostname']}")
    if "affinity" in spec:
        told.append("prefers a node")
    if "schedulerName" in spec:
        told.append(f"profile {spec['schedulerName']}")
    if "schedulingGates" in spec:
        told.append("held by a scheduling gate")
    return "; ".join(told) or "no claims"


T = TypeVar("T")

PATIENCE_S = 30.0
_LOOK_EVERY_S = 0.1


class StoryEnds(TonnageError):
    """A story waited in vain."""


class StoryRunner:
    def __init__(self, plane: Plane, console: Console, *, clock: Clock) -> None:
        self.plane = plane
        self.console = console
        self.clock = clock
        self.failures: list[str] = []
        self.namespace = ""
        self._stories = 0
        self._faults = FaultFile(plane.settings.faults)

    @property
    def client(self) -> Client:
        return self.plane.client

    # -- one story -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def story(self, title: str) -> AsyncIterator[None]:
        """Run a story in its own namespace; afterwards remove faults, cordons and volumes."""
        self._stories += 1
        self.namespace = f"story-{self._stories}"
        self.console.print()
        self.say(title, style="bold")
        await self.client.create_doc({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        before = len(self.failures)
        try:
            yield
        except TonnageError as exc:
            self.check(exc.message, False)
        held = len(self.failures) == before
        await self._clear_away()
        self.say("  passed" if held else "  failed", style="green" if held else "red")

    def say(self, line: str, style: str = "") -> None:
        """Print a line. On a terminal it goes on beside its own indent; a pipe gets it whole."""
        said, indent = printable.text(line.lstrip(" "), style), len(line) - len(line.lstrip(" "))
        parts = said.wrap(self.console, self.console.width - indent) if self.console.is_terminal else [said]
        for part in parts:
            part.rstrip()
            self.console.print(printable.text(" " * indent) + part, soft_wrap=True)

    async def _clear_away(self) -> None:
        self.faults()
        for node in self.plane.shape.node_names:
            with suppress(NotFound):
                await self.cordon(node, False)
        with suppress(NotFound):
            await self.client.delete(Namespace, self.namespace)

        async def is_clear() -> bool:
            volumes = (await self.client.list(PersistentVolume)).items
            namespaces = {namespace.name for namespace in (await self.client.list(Namespace)).items}
            return not volumes and self.namespace not in namespaces

        try:
            await self.until("everything to be cleared away", is_clear)
        except StoryEnds:
            self.check("everything was cleared away", False, self.namespace)

    # -- writes -------------------------------------------------------------------------------------------------------

    async def apply(self, *docs: Doc) -> None:
        """Create objects; show one per line, and which nodes are refused to the pods."""
        for doc in docs:
            self.say(f"  + {described(doc)}", style="cyan")
        for doc in docs:
            await self.explain(doc, *docs)
        await self.create(*docs)

    async def explain(self, doc: Doc, *others: Doc) -> None:
        """Show which nodes would be refused to an object's pod if it were placed now, unless it is gated."""
        claims: list[Doc] = []
        if doc["kind"] == "StatefulSet":
            owner = self._imagined(apps_v1.StatefulSet, doc)
            doc, claims = pod_for(owner, owner.spec.template, 0, ""), claims_for(owner, 0)
        elif doc["kind"] == "Deployment":
            owner = self._imagined(apps_v1.Deployment, doc)
            doc = pod_from_template(owner.spec.template, owner)
            doc["metadata"]["name"] = f"{owner.name}-0"
            pod = self._imagined(Pod, doc)
            claims = [claim_for(pod, volume) for volume in pod.spec.volumes if volume.ephemeral is not None]
        if doc["kind"] == "Pod" and not doc["spec"].get("schedulingGates"):
            self._show(await self.explanation_of(doc, *others, *claims))

    async def create(self, *docs: Doc) -> None:
        """Create objects without output."""
        for doc in docs:
            metadata = doc["metadata"]
            if BY_KIND[doc["apiVersion"], doc["kind"]].namespaced:
                metadata = {**metadata, "namespace": self.namespace}
            await self.client.create_doc({**doc, "metadata": metadata})

    async def explanation_of(self, pod: Doc, *others: Doc) -> Explanation:
        """What the scheduler would decide about a pod that does not exist yet, with the claims among `others`."""
        with_claims = [doc for doc in others if doc["kind"] == "PersistentVolumeClaim"]
        claims = [self._imagined(PersistentVolumeClaim, doc) for doc in with_claims]
        objects, *_ = await listed(self.client)
        return self._explain(self._imagined(Pod, pod), [*objects, *claims])

    async def explain_anew(self, name: str) -> Explanation:
        """Show and return what the scheduler would decide about a running pod if it had to be placed again."""
        objects, *_ = await listed(self.client)
        others = [each for each in objects if not (isinstance(each, Pod) and each.name == name)]
        pod = await self.pod(name)
        spec = msgspec.structs.replace(pod.spec, node_name="")
        answer = self._explain(msgspec.structs.replace(pod, spec=spec), others)
        self._show(answer)
        return answer

    def _explain(self, pod: Pod, objects: Sequence[meta.Object]) -> Explanation:
        settings = self.plane.settings
        configuration = load_configuration(settings.scheduler_config, settings.gates)
        profile = configuration.profile_named(pod.spec.scheduler_name) or configuration.profiles[0]
        return explain_pod(pod, [*objects, pod], profile, clock=self.clock)

    def _imagined(self, cls: type[Any], doc: Doc) -> Any:
        metadata = {**doc["metadata"], "namespace": self.namespace, "uid": f"imagined-{doc['metadata']['name']}"}
        spec = doc["spec"]
        if cls is PersistentVolumeClaim:
            spec = {"storageClassName": "pools", **spec}
        return codec.decode(cls, encode({**doc, "metadata": metadata, "spec": spec}))

    def _show(self, explanation: Explanation) -> None:
        name = explanation.pod.rpartition("/")[2]
        for answer in explanation.nodes:
            if not answer.feasible:
                why = f"is refused by {answer.rejected_by}: {', '.join(answer.reasons)}"
                self.say(f"    {name}: {answer.name} {why}", style="dim")

    def faults(self, *faults: Fault) -> None:
        """Set exactly these faults."""
        for fault in faults:
            value = f" {fault.value:g}" if fault.value else ""
            self.say(f"  ! fault {fault.kind}{value} on {fault.node or 'every node'}", style="yellow")
        self._faults.write(faults)

    async def cordon(self, node: str, wanted: bool = True) -> None:
        await self.client.patch_doc(BY_KIND["v1", "Node"], node, {"spec": {"unschedulable": True if wanted else None}})

    # -- looks --------------------------------------------------------------------------------------------------------

    async def until(self, what: str, find: Callable[[], Awaitable[T | None]], timeout_s: float = PATIENCE_S) -> T:
        """Call `find` until it returns something; the console shows `what` is waited for. Raises StoryEnds."""
        give_up_at = self.clock.monotonic() + timeout_s
        with self.console.status(printable.text(f"waiting for {what}")):
            while True:
                found = await find()
                if found:
                    return found
                if self.clock.monotonic() > give_up_at:
                    raise StoryEnds(f"waited {timeout_s:g} s for {what}")
                await self.clock.sleep(_LOOK_EVERY_S)

    async def pod(self, name: str) -> Pod:
        return await self.client.get(Pod, f"{self.namespace}/{name}")

    async def pods(self, app: str = "") -> Sequence[Pod]:
        selector = f"app={app}" if app else ""
        return (await self.client.list(Pod, namespace=self.namespace, label_selector=selector)).items

    async def bound(self, name: str, timeout_s: float = PATIENCE_S) -> str:
        async def node() -> str:
            with suppress(NotFound):  # its controller may not have created it yet
                return (await self.pod(name)).spec.node_name
            return ""

        found = await self.until(f"{name} to be placed", node, timeout_s)
        self.say(f"    {name} goes to {found}")
        return found

    async def running(self, name: str, timeout_s: float = PATIENCE_S) -> Pod:
        async def runs() -> Pod | None:
            with suppress(NotFound):
                pod = await self.pod(name)
                return pod if pod.status.phase == "Running" and not pod.metadata.is_terminating else None
            return None

        return await self.until(f"{name} to run", runs, timeout_s)

    async def refused(self, name: str, timeout_s: float = PATIENCE_S) -> str:
        """Wait until the scheduler says why a pod cannot be placed; returns its message."""

        async def message() -> str:
            conditions = (await self.pod(name)).status.conditions
            return next((each.message for each in conditions if each.type == "PodScheduled" and not each.is_true), "")

        try:
            found = await self.until(f"the scheduler's word on {name}", message, timeout_s)
        except StoryEnds as exc:
            now = await self.pod(name)
            where = f"on {now.spec.node_name}" if now.spec.node_name else "without a node"
            raise StoryEnds(f"{exc.message}; it is {now.status.phase or 'Pending'} {where}") from exc
        self.say(f"    {name} waits: {found}")
        return found

    async def events(self, reason: str) -> list[Event]:
        """Events of this story, by reason."""
        return [
            each for each in (await self.client.list(Event, namespace=self.namespace)).items if each.reason == reason
        ]

    async def capacity(self) -> dict[str, storage_v1.CSIStorageCapacity]:
        found: Iterable[storage_v1.CSIStorageCapacity] = (await self.client.list(storage_v1.CSIStorageCapacity)).items
        return {
            capacity.node_topology.match_labels.get(driver.TOPOLOGY_KEY, ""): capacity
            for capacity in found
            if capacity.node_topology is not None
        }

    def check(self, claim: str, true: bool, found: object = "") -> None:
        """Print a check with its evidence, and remember it if it failed."""
        mark = ("✓", "green") if true else ("✗", "red")
        self.console.print(printable.assembled("  ", mark, f" {claim}"))
        if found != "":
            self.say(f"      {found}", style="dim")
        if not true:
            self.failures.append(claim)
