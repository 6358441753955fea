"""Two schedulers, one API server and one lease on virtual time, with everything that goes wrong between them.

A `Machine` is a process: its engine, its loop, its elector and its clients are the program's own. It can be stopped:
then nothing that it waits for comes back to it, neither sleeps nor answers nor events, while time goes on. It can be
cut off; it can be deaf, when what it asks for is done and no answer comes back; its watch can be stuck; and its
requests can lie in a proxy: bytes that have left arrive even if their sender has given up. The server binds pods, keeps
the lease, and makes volumes as soon as a claim has its node.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from prometheus_client import CollectorRegistry

from support.virtual_clock import VirtualClock
from tonnage.apiserver.requests import fence_of
from tonnage.client.errors import Disconnected
from tonnage.client.http import Client
from tonnage.client.leader import LeaderElector, LeaseLost
from tonnage.client.leadership import Leadership
from tonnage.client.throttle import TokenBucket
from tonnage.client.transport.wire import HttpResponse, Request
from tonnage.documents.patches.json_patch import merge_patch
from tonnage.objects import codec
from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.objects.document import Doc, decode, encode
from tonnage.objects.meta import Object
from tonnage.objects.small_groups import LEASE_HEADER
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduler.bindings_under_way import PreBindWaits, WaitingPod, end_wait
from tonnage.scheduler.context import SchedulerContext
from tonnage.scheduler.loop import SchedulingLoop
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.pod_traces import PodTraces
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.engine.attempt import EngineHooks
from tonnage.scheduling.engine.engine import Engine
from tonnage.store.records import StoreRecord
from tonnage.testing.builders import node
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume

LEASE = "kube-system/tonnage"
CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PROFILES = parse(CONFIGURATION, source="test").profiles
NODES, CPUS, POOL_GI = 3, 4, 3
"""Four pods of one CPU fit a node, and three volumes of 1Gi its pool."""


class Gone(NamedTuple):
    """An event: the object was deleted."""

    cls: type[Object]
    key: str


class TwoLeaders:
    """The server, and what is true. `fences` is whether it looks at the lease a write was made under."""

    def __init__(self, *, fences: bool = True) -> None:
        self.clock = VirtualClock()
        self.fences = fences
        self.objects: dict[tuple[type[Object], str], Any] = {}
        self.machines: list[Machine] = []
        self.lease: Doc | None = None
        self.late = 0
        self._version = 10_000_000  # newer than anything the builders made
        self._started = 0
        self.put(storage_class())
        self.put(driver())
        for number in range(NODES):
            self.put(node(f"n{number}", cpu=str(CPUS)))
            self.put(capacity(node=f"n{number}", pools=[f"{POOL_GI}Gi"], free=f"{POOL_GI}Gi"))
        self.left_gi = {each.name: POOL_GI for each in self._capacities()}

    def add_pods(self, count: int, *, priority: int, with_volume: bool) -> None:
        for _ in range(count):
            self._started += 1
            name, claims = f"p{self._started}", list[str]()
            if with_volume:
                claims = [f"c{self._started}"]
                self.put(claim(claims[0]))
            self.put(pod_with(name, *claims, cpu="1", priority=priority))

    def put(self, new: Any) -> Any:
        """Store an object and tell every machine of it."""
        self._version += 1
        doc = codec.to_doc(new)
        doc["metadata"]["resourceVersion"] = str(self._version)
        new = codec.convert(type(new), doc)
        self.objects[type(new), new.key] = new
        for machine in self.machines:
            machine.events.put_nowait(new)
        return new

    def remove(self, old: Any) -> None:
        del self.objects[type(old), old.key]
        for machine in self.machines:
            machine.events.put_nowait(Gone(type(old), old.key))

    def machine(self, name: str) -> Machine:
        self.machines.append(Machine(self, name))
        return self.machines[-1]

    def problems(self) -> list[str]:
        """What is given away twice."""
        pods = [each for (kind, _), each in self.objects.items() if kind is Pod and each.spec.node_name]
        placed = Counter(each.spec.node_name for each in pods)
        crowded = [f"{count} pods on {name}, which holds {CPUS}" for name, count in placed.items() if count > CPUS]
        overdrawn = [f"the pool {name} is overdrawn: {left} Gi" for name, left in self.left_gi.items() if left < 0]
        return crowded + overdrawn

    # -- requests -----------------------------------------------------------------------------------------------------

    def answer(self, request: Request) -> HttpResponse:
        try:
            return HttpResponse(200, encode(self._answer(request)))
        except LookupError as exc:
            code, reason = exc.args
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
            return HttpResponse(code, encode({**status, "message": reason}))

    def _answer(self, request: Request) -> Doc:
        path, body = request.path.partition("?")[0], decode(request.body) if request.body else {}
        if "/leases" in path:
            return self._about_lease(request.method, body)
        token = dict(request.headers).get(LEASE_HEADER)
        fence = fence_of(token) if self.fences else None
        if fence is not None:
            record = None if self.lease is None else StoreRecord(fence.key, 1, encode(self.lease), None)
            if not fence.holds(record):
                self.late += 1
                raise LookupError(409, "Conflict")
        parts = path.strip("/").split("/")
        namespace, kind, name = parts[3], parts[4], parts[5]
        kinds: dict[str, Any] = {"pods": Pod, "persistentvolumeclaims": PersistentVolumeClaim}
        cls = kinds[kind]
        known = self.objects.get((cls, f"{namespace}/{name}"))
        if known is None:
            raise LookupError(404, "NotFound")
        if request.method == "GET":
            return codec.to_doc(known)
        if parts[-1] == "binding":
            if known.spec.node_name:
                raise LookupError(409, "Conflict")
            spec = msgspec.structs.replace(known.spec, node_name=body["target"]["name"])
            return codec.to_doc(self.put(msgspec.structs.replace(known, spec=spec)))
        if request.method == "DELETE":
            self.remove(known)
            return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        assert request.method == "PATCH"
        if parts[-1] == "status":  # nominations and conditions: nothing here depends on them
            return codec.to_doc(known)
        if body["metadata"].get("resourceVersion", known.metadata.resource_version) != known.metadata.resource_version:
            raise LookupError(409, "Conflict")
        new = self.put(codec.convert(cls, merge_patch(codec.to_doc(known), body)))
        if isinstance(new, PersistentVolumeClaim) and new.selected_node and not new.spec.volume_name:
            self._provision(new)
        return codec.to_doc(new)

    def _provision(self, wanted: PersistentVolumeClaim) -> None:
        """As a driver that does not look: what was decided is made, and the pool has that much less."""
        on = wanted.selected_node
        made = self.put(volume(f"pv-{wanted.name}", on=on, claim=wanted.key))
        doc = codec.to_doc(wanted)
        done = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        bound = {"metadata": done, "spec": {"volumeName": made.name}, "status": {"phase": "Bound"}}
        self.put(codec.convert(PersistentVolumeClaim, merge_patch(doc, bound)))
        found = next(each for each in self._capacities() if on in str(each.node_topology))
        self.left_gi[found.name] -= 1
        left = f"{max(self.left_gi[found.name], 0)}Gi"
        told = {**codec.to_doc(found), "capacity": left, "availableCapacities": [left]}
        self.put(codec.convert(CSIStorageCapacity, told))

    def _capacities(self) -> list[CSIStorageCapacity]:
        return [each for (kind, _), each in self.objects.items() if kind is CSIStorageCapacity]

    def _about_lease(self, method: str, body: Doc) -> Doc:
        known = self.lease
        if method == "GET":
            if known is None:
                raise LookupError(404, "NotFound")
            return known
        if method == "POST" and known is not None:
            raise LookupError(409, "AlreadyExists")
        if method == "PUT":
            if known is None:
                raise LookupError(404, "NotFound")
            if body["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"]:
                raise LookupError(409, "Conflict")
        self._version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}
        return self.lease


class Machine:
    """One process after another on one machine: who loses the lease ends, and is started again."""

    def __init__(self, world: TwoLeaders, name: str) -> None:
        self.world = world
        self.name = name
        self.is_cut = False
        self.is_deaf = False
        self.running, self.watching, self.forwarding = asyncio.Event(), asyncio.Event(), asyncio.Event()
        for each in (self.running, self.watching, self.forwarding):
            each.set()
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        self.known: dict[tuple[type[Object], str], Any] = {}
        self.lives = 0
        self.task = asyncio.create_task(self._live())

    # -- a clock, a wire ----------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        return self.world.clock.now()

    def monotonic(self) -> float:
        return self.world.clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self.world.clock.sleep(seconds)
        await self.running.wait()

    server = "memory://"

    async def send(self, request: Request) -> HttpResponse:
        await self.running.wait()
        if request.before_write is not None:
            request.before_write()
        delivery = asyncio.ensure_future(self._deliver(request))
        delivery.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            # What has left cannot be recalled: it goes on if its sender gives up.
            response = await asyncio.shield(delivery)
        finally:
            await self.running.wait()
        if response is None:
            raise Disconnected(request.method, request.path, "cut", in_doubt=True)
        return response

    async def _deliver(self, request: Request) -> HttpResponse | None:
        await self.world.clock.sleep(0.01)
        if self.is_cut:
            await self.world.clock.sleep(1.0)
            return None
        await self.forwarding.wait()
        response = self.world.answer(request)
        await self.world.clock.sleep(0.01)
        return None if self.is_cut or self.is_deaf else response

    def stream(self, request: Request) -> Any:
        raise AssertionError("events come by `events`")

    async def close(self) -> None: ...

    # -- a program ----------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        while True:
            self.lives += 1
            await self._run_once()
            await self.sleep(1.0)

    async def _run_once(self) -> None:
        rng = random.Random(f"{self.name}{self.lives}")
        leadership = Leadership(f"{self.name}-{self.lives}", clock=self)
        limit = TokenBucket(2.0, 1, clock=self)  # so that there is always something decided and not sent
        client = Client(self, clock=self, rng=rng, guard=leadership, limit=limit)
        waits = PreBindWaits(self)
        waiting: dict[str, WaitingPod] = {}
        engine = Engine(
            PROFILES,
            clock=self,
            rng=rng,
            hooks=EngineHooks(on_change=waits.changed, on_pod_gone=lambda uid: end_wait(waiting, uid)),
        )
        self.events, self.known = asyncio.Queue(), {}
        self._fetch(engine)
        engine.open()
        recorder: Any = self
        loop = SchedulingLoop(
            SchedulerContext(
                engine=engine,
                client=client,
                telling=client,
                events=recorder,
                metrics=SchedulerMetrics(CollectorRegistry(), self),
                newest=self._pod,
                waits=waits,
                traces=PodTraces(None, self),
                waiting_pods=waiting,
                leadership=leadership,
            )
        )

        async def work() -> None:
            if leadership.follows_another:
                await self.sleep(0.05)
                self._fetch(engine)
            await loop.run()

        following = asyncio.create_task(self._follow(engine))
        elector = LeaderElector(Client(self, clock=self, rng=rng), LEASE, leadership)
        try:
            await elector.run(work)
        except LeaseLost:
            pass
        finally:
            following.cancel()

    async def _follow(self, engine: Engine) -> None:
        while True:
            new = await self.events.get()
            await self.watching.wait()
            await self.sleep(0.02)
            self._learn(engine, new)

    def _fetch(self, engine: Engine) -> None:
        """A list: the state as it is, whatever the watch has brought so far."""
        for at in tuple(self.known):
            if at not in self.world.objects:
                self._learn(engine, Gone(*at))
        for new in tuple(self.world.objects.values()):
            self._learn(engine, new)

    def _learn(self, engine: Engine, new: Any) -> None:
        if isinstance(new, Gone):
            gone = self.known.pop((new[0], new[1]), None)
            if gone is not None:
                engine.delete(gone)
            return
        at = (type(new), new.key)
        old = self.known.get(at)
        if old is not None and int(old.metadata.resource_version) >= int(new.metadata.resource_version):
            return
        self.known[at] = new
        if old is None:
            engine.add(new)
        else:
            engine.update(old, new)

    def _pod(self, key: str) -> Pod | None:
        found = self.known.get((Pod, key))
        return found if isinstance(found, Pod) else None

    def event(self, *_: object, **__: object) -> None:
        """Nobody reads them here."""
