"""What only a live scheduler knows, asked of it, so that what-if answers agree with it; and how it is found.

    /debug/assumed        pods it has decided about and claims and volumes it has promised, that the API does not show;
                          nodes that it passes over for a while
    /debug/reservations   capacity that it keeps back: objects (mode Object) or bytes (mode Ledger)
    /debug/nominations    pods it expects on nodes, and for which of them it holds room
    /configz              the schedulerNames that it serves

The scheduler is asked before the objects are listed: what the API shows otherwise by then is left as it shows it.

Where no flag names its endpoint, it is searched for (`SchedulerSearch`): the chart and the overlays label its Service,
and the lease names the replica that decides. The Service's name leads there from inside the cluster; from outside, a
note says what to run: `kubectl port-forward`, and which flags to add.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tonnage.client.config.connection import KubeconfigUser
from tonnage.clock import Clock
from tonnage.endpoints import Endpoint
from tonnage.errors import TonnageError
from tonnage.keyed import grouped
from tonnage.objects.core_v1 import ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod, Service
from tonnage.objects.meta import Key, Object, changed, split_key
from tonnage.objects.small_groups import Lease
from tonnage.objects.storage_v1 import CSIStorageCapacity
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.plugin_args import Reservation
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.volumes.capacity.class_capacity import identity
from tonnage.scheduling.volumes.reservations.holds import Hold
from tonnage.scheduling.volumes.reservations.promises import includes_claim
from tonnage.whatif.creation import ObjectsByKind

if TYPE_CHECKING:
    from tonnage.client.http import Client


_EPOCH = datetime.fromtimestamp(0, UTC)
RESERVATIONS, ASSUMED, NOMINATIONS = "/debug/reservations", "/debug/assumed", "/debug/nominations"
_CONFIGURATION = "/configz"


class AssumedPod(msgspec.Struct, frozen=True):
    pod: Key
    uid: str
    node: str


class AssumedClaim(msgspec.Struct, frozen=True):
    claim: Key
    uid: str
    annotations: dict[str, str]


class AssumedVolume(msgspec.Struct, frozen=True, rename="camel"):
    volume: str
    uid: str
    claim: Key
    claim_uid: str


class RememberedCapacity(msgspec.Struct, frozen=True):
    mode: Reservation
    capacity: Key
    uid: str
    pod: Key
    claims: list[Key]
    bytes: int
    since: datetime
    why: str

    @property
    def as_hold(self) -> Hold:
        return Hold(self.capacity, self.uid, self.pod, tuple(self.claims), self.bytes, self.since, self.why)


class NominatedPod(msgspec.Struct, frozen=True):
    node: str
    pod: Key
    uid: str
    holds: bool
    since: datetime


class FailedNode(msgspec.Struct, frozen=True):
    uid: str
    node: str
    times: int
    why: str
    until: datetime


class _Assumed(msgspec.Struct, frozen=True, rename="camel"):
    pods: list[AssumedPod] = []
    claims: list[AssumedClaim] = []
    volumes: list[AssumedVolume] = []
    failed_nodes: list[FailedNode] = []


class _Profile(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: str


class _Profiles(msgspec.Struct, frozen=True):
    profiles: list[_Profile] = []


class _Configz(msgspec.Struct, frozen=True):
    componentconfig: _Profiles = _Profiles()


@dataclass(frozen=True, slots=True)
class SchedulerMemory:
    """One scheduler's, at one instant."""

    held: Sequence[RememberedCapacity] = ()
    pods: Sequence[AssumedPod] = ()
    claims: Sequence[AssumedClaim] = ()
    volumes: Sequence[AssumedVolume] = ()
    nominations: Sequence[NominatedPod] | None = None
    """None when it does not tell: then what the API says of nominations counts."""
    failed_nodes: Sequence[FailedNode] = ()
    scheduler_names: Sequence[str] = ()
    """Those of its profiles; none when it does not tell."""

    def node_of(self, pod: Pod) -> str:
        """Where the scheduler has sent a pod that the API does not show there yet; empty when it has not."""
        return next((each.node for each in self.pods if each.uid == pod.uid and not pod.spec.node_name), "")

    def differences(self, engine: Engine) -> list[str]:
        """A sentence for each mode in which the scheduler keeps capacity back and this engine does not."""
        modes = sorted({remembered_capacity.mode for remembered_capacity in self.held} - engine.held.modes.keys())
        told = "and this configuration does not; give its --config"
        return [f"the scheduler keeps capacity back in mode {mode}, {told}" for mode in modes]

    def laid_into(self, engine: Engine, objects: Iterable[Object], asked: Pod | None = None) -> None:
        """Let an engine know it, but for what concerns the pod that is asked about: that one is decided as if new."""
        known = ObjectsByKind(objects)
        pods = known.of(Pod)
        own_claims = self._own_claims(asked, pods) if asked is not None else set()
        asked_uid = asked.uid if asked is not None else None
        claims, volumes = engine.cluster.storage.claims, engine.cluster.storage.volumes
        for told in self.claims:
            claim = claims.get(told.claim) if told.claim not in own_claims else None
            if claim is not None and claim.uid == told.uid and (with_node := _with_annotations(claim, told)) != claim:
                claims.assume(with_node)
        for assumed in self.volumes:
            volume = volumes.get(assumed.volume) if assumed.claim not in own_claims else None
            if volume is not None and volume.uid == assumed.uid and volume.spec.claim_ref is None:
                volumes.assume(_with_owner(volume, assumed))
        for each in self.pods:
            pod = pods.get(each.pod)
            if pod is None or pod.uid != each.uid or pod.spec.node_name or pod.uid == asked_uid:
                continue
            if engine.cluster.node_of(each.uid) is None:
                engine.queue.pod_assumed(pod, each.node)
                engine.assumed.assume(PodInfo(pod), each.node)
        remember = engine.queue.nominator.failed_nodes.remember
        for failed in self.failed_nodes:
            remember(failed.uid, failed.node, failed.times, failed.why, failed.until)
        if self.nominations is not None:
            _nominate(engine, self.nominations, pods)
        kept = (held for held in self.held if not (own_claims | _included(held, known)).issuperset(held.claims))
        holds = grouped((held.mode, held.as_hold) for held in kept)
        engine.held.agree_with(holds, {key: PodInfo(pod) for key, pod in pods.items()})

    def written_to(self, objects: Iterable[Object]) -> list[Object]:
        """The objects as they are when what the scheduler has decided is written: claims with their node, volumes with
        their claim. A pod on its way is nominated to its node, and still to be bound there."""
        claims, volumes = {claim.uid: claim for claim in self.claims}, {volume.uid: volume for volume in self.volumes}
        found = list[Object]()
        for each in objects:
            if isinstance(each, PersistentVolumeClaim) and each.uid in claims:
                found.append(_with_annotations(each, claims[each.uid]))
            elif isinstance(each, PersistentVolume) and each.uid in volumes:
                found.append(_with_owner(each, volumes[each.uid]))
            elif isinstance(each, Pod) and (node := self.node_of(each)):
                found.append(changed(each, status={"nominated_node_name": node}))
            else:
                found.append(each)
        return found

    def after_writing(self) -> SchedulerMemory:
        """What is left of it then: capacity that is kept back, nominations, nodes that are passed over."""
        known = {nomination.uid for nomination in self.nominations or ()}
        sent = [NominatedPod(pod.node, pod.pod, pod.uid, True, _EPOCH) for pod in self.pods if pod.uid not in known]
        nominations = None if self.nominations is None else [*sent, *self.nominations]
        return replace(self, pods=(), claims=(), volumes=(), nominations=nominations)

    def _own_claims(self, asked: Pod, pods: Mapping[Key, Pod]) -> set[Key]:
        """Claims that are on their way because the pod itself is, and no other pod with it."""
        if not self.node_of(asked):
            return set()
        others = [pods[pod.pod] for pod in self.pods if pod.uid != asked.uid and pod.pod in pods]
        return set(asked.claim_keys()).difference(*(pod.claim_keys() for pod in others))


async def memory_of(endpoint: Endpoint, *, clock: Clock, user: KubeconfigUser | None = None) -> SchedulerMemory:
    """Ask a live scheduler, as `user`. Raises Disconnected, Untrusted, NotLetIn, or TonnageError."""
    from tonnage.client.program_pages import NotLetIn, ProgramPages

    async with ProgramPages(endpoint, clock=clock, user=user) as pages:
        held, assumed = await pages.json(RESERVATIONS), await pages.json(ASSUMED)
        nominations = await pages.json(NOMINATIONS)
        configuration = None
        with suppress(NotLetIn):
            configuration = await pages.json(_CONFIGURATION)
    return memory_from(endpoint.url, held, assumed, nominations, configuration)


def memory_from(url: str, held: Any, assumed: Any, nominations: Any, configuration: Any = None) -> SchedulerMemory:
    """What the pages of the scheduler at a URL say; a page that it does not have is None. Raises TonnageError."""
    if held is None:
        raise TonnageError(f"{url}{RESERVATIONS} is not served", hint="is this the scheduler's endpoint?")
    try:
        told = msgspec.convert(assumed or {}, _Assumed)
        return SchedulerMemory(
            msgspec.convert(held, list[RememberedCapacity]),
            told.pods,
            told.claims,
            told.volumes,
            msgspec.convert(nominations, list[NominatedPod] | None),
            told.failed_nodes,
            [each.scheduler_name for each in msgspec.convert(configuration or {}, _Configz).componentconfig.profiles],
        )
    except msgspec.ValidationError as exc:
        raise TonnageError(f"{url} does not answer as a scheduler of Tonnage does: {exc}") from exc


def _nominate(engine: Engine, nominations: Iterable[NominatedPod], pods: Mapping[Key, Pod]) -> None:
    """Expect pods where the scheduler does, in its order, holding room for those alone for which it does."""
    nominator = engine.queue.nominator
    for known in list(nominator):
        nominator.remove(known.info.pod)
    for each in nominations:
        pod = pods.get(each.pod)
        if pod is None or pod.uid != each.uid or pod.spec.node_name or engine.cluster.node_of(each.uid) is not None:
            continue
        nominator.nominate(pod, each.node)
        made = nominator.get(pod)
        if made is not None:
            made.since, made.holds = each.since, each.holds


def _included(held: RememberedCapacity, objects: ObjectsByKind) -> set[Key]:
    """The held claims that the object itself says its figures include: by now it keeps nothing back for them.

    What it says of a volume that is rebuilt was said at the volume's creation, and does not count.
    """
    capacity = objects.get(CSIStorageCapacity, held.capacity)
    if capacity is None or identity(capacity) != held.uid:
        return set()
    found = (objects.get(PersistentVolumeClaim, key) for key in held.claims)
    made = (claim for claim in found if claim is not None and not claim.rebuild_target)
    return {claim.key for claim in made if includes_claim(capacity, claim.uid)}


def _with_annotations(claim: PersistentVolumeClaim, told: AssumedClaim) -> PersistentVolumeClaim:
    return changed(claim, metadata={"annotations": {**claim.metadata.annotations, **told.annotations}})


def _with_owner(volume: PersistentVolume, told: AssumedVolume) -> PersistentVolume:
    if volume.spec.claim_ref is not None:
        return volume
    namespace, name = split_key(told.claim)
    owner = ObjectReference(
        api_version="v1", kind="PersistentVolumeClaim", namespace=namespace, name=name, uid=told.claim_uid
    )
    return changed(volume, spec={"claim_ref": owner})


LABELS: Final = "app.kubernetes.io/name=tonnage,app.kubernetes.io/component=scheduler"
CA_FILE: Final = "/tmp/certs/ca.crt"
"""Where the chart and the overlays have the scheduler keep the certificate that it signs itself."""
SCHEDULER_NOT_ASKED: Final = (
    "Not connected to the scheduler, so its reservations are ignored. Add --scheduler-endpoint URL."
)
_PORT: Final = 10259


@dataclass(frozen=True, slots=True)
class InClusterScheduler:
    namespace: str
    service: str
    port: int = _PORT
    pod: str = ""
    """The replica that holds the lease; empty if it is not known."""

    @property
    def url(self) -> str:
        return f"https://{self.service}.{self.namespace}.svc:{self.port}"

    def note(self, kubectl: str, *, is_untrusted: bool) -> str:
        """What to run to be connected. `is_untrusted`: it answers here, with a certificate that is not trusted."""
        there = f"{kubectl} --namespace {self.namespace}"
        target = f"pod/{self.pod}" if self.pod else f"service/{self.service}"
        service = f"{self.namespace}/{self.service}"
        found = f"Not connected to the scheduler (Service {service}), so its reservations are ignored."
        ca = f"`{there} exec {target} -- cat {CA_FILE} > ca.crt`"
        if is_untrusted:
            return f"{found} Its certificate is not trusted: add --scheduler-ca FILE."
        return (
            f"{found} Run `{there} port-forward {target} {self.port}` in another terminal and {ca}, then add "
            f"--scheduler-endpoint https://localhost:{self.port} --scheduler-ca ca.crt."
        )


def find(services: Iterable[Service], leases: Iterable[Lease]) -> InClusterScheduler | None:
    """The first scheduler whose lease a pod holds, else the first Service; None without one. A pod's name begins with
    that of its Deployment, which is the Service's, and a lease's holder with the pod's."""
    holders = sorted(lease.spec.holder_identity.partition("_")[0] for lease in leases if lease.spec.holder_identity)
    found = [
        InClusterScheduler(
            service.namespace,
            service.name,
            next((port.port for port in service.spec.ports), _PORT),
            next((name for name in holders if name.startswith(f"{service.name}-")), ""),
        )
        for service in sorted(services, key=lambda each: each.key)
    ]
    return next((scheduler for scheduler in found if scheduler.pod), found[0] if found else None)


async def leases_of(client: Client) -> list[Lease]:
    """The leases of programs. A node's lease is none, and there are as many of them as nodes. Raises TonnageError."""
    selected = "metadata.namespace!=kube-node-lease"
    return list((await client.list(Lease, field_selector=selected, retry=False)).items)


@dataclass(frozen=True, slots=True)
class SchedulerSearch:
    """How to look for it: whose certificates are trusted, who asks, how the user calls kubectl, and where it is if that
    is known already."""

    ca_pem: bytes = b""
    user: KubeconfigUser = field(default_factory=KubeconfigUser)
    kubectl: str = "kubectl"
    known: Endpoint | None = None

    async def find(self, client: Client) -> tuple[Endpoint | None, str]:
        """The endpoint, if it can be reached from here and is trusted; otherwise None, and what to say about it."""
        if self.known is not None:
            return self.known, ""
        services, leases = list[Service](), list[Lease]()
        with suppress(TonnageError):  # what may not be read is not found
            services = list((await client.list(Service, label_selector=LABELS, retry=False)).items)
            leases = await leases_of(client) if services else []
        in_cluster_scheduler = find(services, leases)
        if in_cluster_scheduler is None:
            return None, SCHEDULER_NOT_ASKED
        return await self._tried(in_cluster_scheduler, client)

    async def _tried(self, found: InClusterScheduler, client: Client) -> tuple[Endpoint | None, str]:
        from tonnage.client.errors import Untrusted
        from tonnage.client.program_pages import ProgramPages

        endpoint = Endpoint(found.url, self.ca_pem)
        try:
            async with ProgramPages(endpoint, clock=client.clock) as pages:
                await pages.is_good("/livez")
        except TonnageError as exc:
            return None, found.note(self.kubectl, is_untrusted=isinstance(exc, Untrusted))
        return endpoint, ""
