"""The people of a cluster in a storm: what they ask for while `fault_weather` is doing its worst.

StatefulSets, Deployments with volumes of their pods' own, bare pods with claims, pods that share their claims and whole
namespaces come, grow, shrink and go; claims are expanded, nodes cordoned and drained. All of it is drawn from one seed,
so that it can be had again, as far as a real machine allows. They never ask for more than fits: after the storm every
pod of theirs can run.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Final, TypeVar

from support.cluster_sight import Sight
from tonnage.client.errors import Disconnected
from tonnage.client.http import Client
from tonnage.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, ServiceUnavailable, TooManyRequests
from tonnage.objects.apps_v1 import Deployment, StatefulSet
from tonnage.objects.core_v1 import Namespace, Node, PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.quantity import Quantity
from tonnage.stories import story_runner
from tonnage.stories.story_runner import claim_spec, deployment, pod_spec

T = TypeVar("T", bound=Object)

HOME: Final = "storm"
_SIZES: Final = ("1Gi", "2Gi", "3Gi")
_CLASSES: Final = ("pools", "pools-2")
"""They draw from the same pools, and say so by their capacity group."""
_GROWN: Final = ("4Gi", "5Gi")
_ROOM_TO_GROW: Final = 15 << 30
_PEOPLE: Final = 3
_AS_BLOCKS: Final = 0.25
"""The part of bare pods that want their volumes as blocks."""
_MAX_SETS, _MAX_DEPLOYMENTS, _MAX_PODS, _MAX_REPLICAS, _MAX_TWINS = 3, 2, 5, 3, 2
_TWIN: Final = "-twin"
"""How the name of a pod ends that shares the claims of another."""


class Load:
    """People at work on a cluster, until they are told to stop. What they still want stands in `pods`."""

    def __init__(self, client: Client, rng: random.Random, nodes: list[str], pace_s: float = 0.0) -> None:
        """`pace_s`: each person begins one thing in so many seconds; at 0 the next as soon as the last is answered."""
        self._client = client
        self._pace_s = pace_s
        self._rng = rng
        self._nodes = nodes
        self._numbers = 0
        self._sets: dict[str, int] = {}
        self._deployments: dict[str, int] = {}
        self._side: list[str] = []
        self.pods: dict[str, Doc] = {}
        """The bare pods that are wanted, by name: nobody but us makes them again."""
        self.done: Counter[str] = Counter()
        self.acts = 0
        self.is_over = False

    async def open(self) -> None:
        await self._sent(lambda: self._client.create_doc(_namespace(HOME)))

    async def work(self) -> None:
        """Several people at once, each one thing after the other, until it is over; what was begun is finished."""
        await asyncio.gather(*(self._person() for _ in range(_PEOPLE)))

    async def _person(self) -> None:
        acts: dict[Callable[[], Awaitable[object]], int] = {
            self._new_set: 4,
            self._new_deployment: 3,
            self._new_pod: 6,
            self._share_claims: 3,
            self._scale_set: 5,
            self._scale_deployment: 4,
            self._roll_deployment: 1,
            self._expand: 3,
            self._lose_a_pod: 3,
            self._delete_pod: 3,
            self._delete_set: 1,
            self._delete_deployment: 1,
            self._cordon: 1,
            self._drain: 1,
            self._uncordon: 3,
            self._side_project: 1,
            self.tidy: 3,
        }
        clock = asyncio.get_running_loop().time
        while not self.is_over:
            next_at = clock() + self._pace_s
            act = self._rng.choices(list(acts), list(acts.values()))[0]
            await act()
            self.acts += 1
            await asyncio.sleep(max(self._rng.uniform(0.05, 0.5), next_at - clock()))

    async def end_of_storm(self) -> None:
        """Every node may be used again, no namespace but home is kept, and what is wanted is said once more."""
        for node in self._nodes:
            await self._uncordon(node)
        for name in tuple(self._side):
            await self._drop_side(name)
        for name, count in self._sets.items():
            await self._patch(StatefulSet, name, {"spec": {"replicas": count}})
        for name, count in self._deployments.items():
            await self._patch(Deployment, name, {"spec": {"replicas": count}})

    async def tidy(self) -> None:
        """Make lost bare pods again and take away pods that have ended, as people do."""
        found = {each.name: each for each in await self._list(Pod, HOME)}
        for each in found.values():
            is_stray = not each.metadata.owner_references and each.name not in self.pods
            if (each.is_terminal or is_stray) and not each.metadata.is_terminating:
                self.done[f"pods taken away: {each.status.reason or each.status.phase}"] += 1
                await self._delete(Pod, each.key, uid=each.uid)
        for name in tuple(self.pods):
            if name not in found and name in self.pods:
                await self._create(self.pods[name])

    def missing(self, sight: Sight) -> Iterator[str]:
        """What is wanted and not there, or not as often as wanted."""
        found = {each.key: each.spec.replicas for each in sight.stateful_sets}
        found |= {each.key: each.spec.replicas for each in sight.deployments}
        pods = {each.key for each in sight.pods}
        for name, count in (self._sets | self._deployments).items():
            if found.get(f"{HOME}/{name}") != count:
                yield f"{name} wants {count} replicas, not {found.get(f'{HOME}/{name}')}"
        yield from (f"{name} is not there" for name in self.pods if f"{HOME}/{name}" not in pods)

    async def delete_everything(self) -> None:
        """The last wish."""
        self.pods.clear()
        for kind in (StatefulSet, Deployment, Pod, PersistentVolumeClaim):
            for each in await self._list(kind, HOME):
                await self._delete(kind, each.key)

    # -- what they do -------------------------------------------------------------------------------------------------

    async def _new_set(self) -> None:
        if len(self._sets) >= _MAX_SETS:
            return
        name = self._name("set")
        self._sets[name] = self._rng.randint(1, _MAX_REPLICAS)
        await self._create(self._stateful_set(name, self._sets[name]))

    async def _new_deployment(self) -> None:
        if len(self._deployments) >= _MAX_DEPLOYMENTS:
            return
        name = self._name("app")
        self._deployments[name] = self._rng.randint(1, _MAX_REPLICAS)
        template = pod_spec(ephemeral=[self._rng.choice(_SIZES) for _ in range(self._rng.randint(1, 2))])
        doc = deployment(name, template)
        doc["spec"]["replicas"] = self._deployments[name]
        await self._create(doc)

    async def _new_pod(self) -> None:
        if sum(not name.endswith(_TWIN) for name in self.pods) >= _MAX_PODS:
            return
        name = self._name("pod")
        claims = [f"{name}-{number}" for number in range(self._rng.randint(1, 2))]
        self.pods[name] = story_runner.pod(name, claims)
        docs = [story_runner.claim(each, self._rng.choice(_SIZES)) for each in claims]
        for doc in docs:
            doc["spec"]["storageClassName"] = self._rng.choice(_CLASSES)
        if self._rng.random() < _AS_BLOCKS:
            for doc in docs:
                doc["spec"]["volumeMode"] = "Block"
            (container,) = self.pods[name]["spec"]["containers"]
            mounts = container.pop("volumeMounts")
            container["volumeDevices"] = [{"name": each["name"], "devicePath": each["mountPath"]} for each in mounts]
        for doc in (*docs, self.pods[name]):
            await self._create(doc)

    async def _share_claims(self) -> None:
        """A second pod for the claims of one that is there: wherever they go, they go together."""
        alone = [name for name in self.pods if not name.endswith(_TWIN) and f"{name}{_TWIN}" not in self.pods]
        if alone and sum(name.endswith(_TWIN) for name in self.pods) < _MAX_TWINS:
            name = self._rng.choice(sorted(alone))
            first = self.pods[name]
            twin = {**first, "metadata": {**first["metadata"], "name": f"{name}{_TWIN}"}}
            self.pods[f"{name}{_TWIN}"] = twin
            await self._create(twin)

    async def _scale_set(self) -> None:
        if self._sets:
            name = self._rng.choice(sorted(self._sets))
            self._sets[name] = self._rng.randint(0, _MAX_REPLICAS)
            await self._patch(StatefulSet, name, {"spec": {"replicas": self._sets[name]}})

    async def _scale_deployment(self) -> None:
        if self._deployments:
            name = self._rng.choice(sorted(self._deployments))
            self._deployments[name] = self._rng.randint(0, _MAX_REPLICAS)
            await self._patch(Deployment, name, {"spec": {"replicas": self._deployments[name]}})

    async def _roll_deployment(self) -> None:
        if self._deployments:
            name = self._rng.choice(sorted(self._deployments))
            template = {"metadata": {"annotations": {"rolled": self._name("at")}}}
            await self._patch(Deployment, name, {"spec": {"template": template}})

    async def _expand(self) -> None:
        """Let a claim grow, where every pool of its node has room for that: which of them it is in is not told."""
        claims = [each for each in await self._list(PersistentVolumeClaim, HOME) if each.is_bound]
        if claims:
            chosen, wanted = self._rng.choice(claims), Quantity.parse(self._rng.choice(_GROWN))
            is_larger = chosen.requested is not None and chosen.requested.value() < wanted.value()
            if is_larger and chosen.selected_node in await self._roomy_nodes():
                spec = {"spec": {"resources": {"requests": {"storage": str(wanted)}}}}
                await self._patch(PersistentVolumeClaim, chosen.name, spec)

    async def _roomy_nodes(self) -> set[str]:
        """Those whose every pool holds all that is going to be made or to grow there before they are asked again."""
        found: dict[str, int] = {}
        for each in await self._list(CSIStorageCapacity):
            labels = each.node_topology.match_labels if each.node_topology is not None else {}
            least = min((pool.value() for pool in each.available_capacities), default=0)
            for node in labels.values():
                found[node] = min(found.get(node, least), least)
        return {node for node, least in found.items() if least >= _ROOM_TO_GROW}

    async def _lose_a_pod(self) -> None:
        pods = await self._list(Pod, HOME)
        if pods:
            chosen = self._rng.choice(pods)
            grace_s = self._rng.choice((None, None, 0))
            await self._delete(Pod, chosen.key, grace_s=grace_s)

    async def _delete_pod(self) -> None:
        if self.pods:
            name = self._rng.choice(sorted(self.pods)).removesuffix(_TWIN)
            doc = self.pods.pop(name)
            claims = [each["persistentVolumeClaim"]["claimName"] for each in doc["spec"]["volumes"]]
            # In any order: a claim in use waits for its pods.
            keys: list[tuple[type[Object], str]] = [(Pod, name), *((PersistentVolumeClaim, each) for each in claims)]
            if self.pods.pop(f"{name}{_TWIN}", None) is not None:
                keys.append((Pod, f"{name}{_TWIN}"))
            self._rng.shuffle(keys)
            for kind, each in keys:
                await self._delete(kind, f"{HOME}/{each}")

    async def _delete_set(self) -> None:
        if self._sets:
            name = self._rng.choice(sorted(self._sets))
            del self._sets[name]
            await self._delete(StatefulSet, f"{HOME}/{name}")
            for each in await self._list(PersistentVolumeClaim, HOME):
                if each.metadata.labels.get("app") == name:
                    await self._delete(PersistentVolumeClaim, each.key)

    async def _delete_deployment(self) -> None:
        if self._deployments:
            name = self._rng.choice(sorted(self._deployments))
            del self._deployments[name]
            propagation = self._rng.choice(("Background", "Foreground"))
            await self._delete(Deployment, f"{HOME}/{name}", propagation=propagation)

    async def _cordon(self) -> str:
        """Take one node out of use and say which, never a second one: what was asked for must still fit."""
        nodes = await self._list(Node)
        if any(each.spec.unschedulable for each in nodes):
            return ""
        node = self._rng.choice(self._nodes)
        await self._patch(Node, node, {"spec": {"unschedulable": True}})
        return node

    async def _uncordon(self, node: str = "") -> None:
        for each in await self._list(Node):
            if each.spec.unschedulable and node in ("", each.name):
                await self._patch(Node, each.name, {"spec": {"unschedulable": None}})

    async def _drain(self) -> None:
        node = await self._cordon()
        for each in await self._list(Pod):
            if node and each.spec.node_name == node:
                with suppress(TooManyRequests):
                    await self._sent(lambda each=each: self._client.evict(each.key))  # type: ignore[misc]

    async def _side_project(self) -> None:
        """A namespace that comes whole and goes whole."""
        if self._side:
            await self._drop_side(self._side[0])
            return
        name = self._name("side")
        await self._sent(lambda: self._client.create_doc(_namespace(name)))
        await self._create(self._stateful_set("db", 2), name)
        await self._create(deployment("web", pod_spec(ephemeral=["1Gi"])), name)
        self._side.append(name)

    async def _drop_side(self, name: str) -> None:
        if name in self._side:
            self._side.remove(name)
            await self._delete(Namespace, name)

    # -- how they ask -------------------------------------------------------------------------------------------------

    def _stateful_set(self, name: str, replicas: int) -> Doc:
        templates = [
            {"metadata": {"name": volume}, "spec": self._claim_spec()}
            for volume in ("data", "log")[: self._rng.randint(1, 2)]
        ]
        mounts = [{"name": each["metadata"]["name"], "mountPath": f"/{each['metadata']['name']}"} for each in templates]
        template = pod_spec()
        template["containers"][0]["volumeMounts"] = mounts
        del template["volumes"]
        policy = {
            "whenDeleted": self._rng.choice(("Retain", "Delete")),
            "whenScaled": self._rng.choice(("Retain", "Delete")),
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "serviceName": name,
                "podManagementPolicy": self._rng.choice(("OrderedReady", "Parallel")),
                "persistentVolumeClaimRetentionPolicy": policy,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": template},
                "volumeClaimTemplates": templates,
            },
        }

    def _claim_spec(self) -> Doc:
        return {**claim_spec(self._rng.choice(_SIZES)), "storageClassName": self._rng.choice(_CLASSES)}

    def _name(self, kind: str) -> str:
        self._numbers += 1
        return f"{kind}-{self._numbers}"

    async def _create(self, doc: Doc, namespace: str = HOME) -> None:
        wanted = {**doc, "metadata": {**doc["metadata"], "namespace": namespace}}
        self.done[f"{doc['kind']} created"] += 1
        await self._sent(lambda: self._client.create_doc(wanted))

    async def _patch(self, kind: type[Object], name: str, patch: Doc) -> None:
        key = name if kind is Node else f"{HOME}/{name}"
        self.done[f"{kind.__name__} changed"] += 1
        await self._sent(lambda: self._client.patch_doc(kind, key, patch))

    async def _delete(
        self, kind: type[Object], key: str, *, uid: str = "", grace_s: int | None = None, propagation: str = ""
    ) -> None:
        self.done[f"{kind.__name__} deleted"] += 1
        await self._sent(lambda: self._client.delete(kind, key, uid=uid, grace_s=grace_s, propagation=propagation))

    async def _list(self, kind: type[T], namespace: str = "") -> list[T]:
        found: list[T] = []

        async def ask() -> None:
            found[:] = (await self._client.list(kind, namespace=namespace)).items

        await self._sent(ask)
        return found

    async def _sent(self, ask: Callable[[], Awaitable[object]]) -> None:
        """Ask until there is an answer. What a lost answer may have done already is no trouble."""
        while True:
            try:
                await ask()
                return
            except (AlreadyExists, NotFound):
                return
            except (Disconnected, ServiceUnavailable):
                await asyncio.sleep(0.2)
            except (Conflict, Forbidden, Invalid) as exc:
                # Somebody was faster, or the namespace is on its way out: people shrug and go on.
                self.done[f"refused: {exc.reason}"] += 1
                return


def _namespace(name: str) -> Doc:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
