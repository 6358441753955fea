"""`RebuildController` keeps the driver's half of KEP-5925's contract: volumes of a node out of use may move.

It watches Nodes, this driver's PersistentVolumes, their claims and the pods that use them. `change_for` decides a
volume's node affinity, by one rule without a history:

    the volume's home      pods that use the volume                                    node affinity
    ─────────────────      ────────────────────────                                    ─────────────
    in any state           one was sent to a node that has no room for its volumes     the home
    is out of use          otherwise                                                   none
    takes pods             one stays at home                                           the home
    takes pods             one was placed elsewhere while there was no affinity        none, until it is rebuilt there
    takes pods             one has another volume on another node                      none, until they are together
    takes pods             otherwise                                                   the home

The first row lets the kubelet fail a pod that would wait forever (`VolumeNodeAffinity`, KEP-5381); its successor is
placed anew. The fourth row is the race of a node that is soon uncordoned: the volume follows a pod placed elsewhere.
The fifth row is a pod of which one volume was rebuilt or created on a node and another was not: two volumes confined
to two nodes would leave no node for the pod. The controller writes it, one volume at a time, with events on the volume
and its claim:

    cordon node-1 ──► AffinityUnset ──► a pod elsewhere ──► publish or stage on node-2 ──► VolumeRebuilt ──► AffinitySet
          └─ uncordon ──► AffinitySet, unless a pod is already placed elsewhere

A pod that still runs on the node keeps its volume: the driver refuses to move a volume in use on a live node. The home
is the node with the contents; without an affinity the annotation tonnage.dev/volume-home, written in the same patch,
names it. Pods without room on their node are remembered in memory: after a restart, the next attempt to attach tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import msgspec

from tonnage import errors, logs
from tonnage.client import cache, program, reconciler, recorder
from tonnage.driver import TOPOLOGY_KEY
from tonnage.driver.driver import Driver, RebuildHooks
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, is_out_of_use
from tonnage.objects.core_v1.persistent_volume import VOLUME_HOME
from tonnage.objects.document import Doc
from tonnage.objects.meta import Key


@dataclass(frozen=True, slots=True)
class AffinityChange:
    """A change to write, its reason, and the event's note. `affinity` None removes it, `home` None the annotation."""

    affinity: Doc | None
    home: str | None
    reason: str
    note: str

    @property
    def patch(self) -> Doc:
        return {"metadata": {"annotations": {VOLUME_HOME: self.home}}, "spec": {"nodeAffinity": self.affinity}}


class VolumeUser(NamedTuple):
    """A pod that uses a volume and has not ended."""

    pod: Pod
    homes: frozenset[str] = frozenset()
    """The nodes that have the pod's volumes of this driver."""
    is_refused: bool = False
    """True if the pod's node had no room for one of its volumes."""


def change_for(
    volume: PersistentVolume, home: str, node: Node | None, users: Sequence[VolumeUser] = ()
) -> AffinityChange | None:
    """The change for a volume on `home`, whose Node may be gone; None if nothing has to change."""
    required = volume.spec.node_affinity.required
    if why_free := _why_free(home, node, users, is_free=required is None):
        if required is None and volume.home == home:
            return None
        return AffinityChange(None, home, "AffinityUnset", f"{why_free}; the volume may be rebuilt elsewhere")
    # The topology label counts also before the node has registered, and after it is gone.
    labels = {**({} if node is None else node.metadata.labels), TOPOLOGY_KEY: home}
    if required is not None and required.matches(home, labels):
        return None
    return AffinityChange(
        confined_to(home), None, "AffinitySet", f'The volume is on node "{home}", and pods that use it go there'
    )


def _why_free(home: str, node: Node | None, users: Sequence[VolumeUser], *, is_free: bool) -> str:
    """Why the volume is not confined to its home; empty if it is."""
    staying = [user for user in users if not user.pod.metadata.is_terminating]
    if any(user.is_refused and user.pod.spec.node_name != home for user in staying):
        return ""
    if node is None:
        return f'Node "{home}" is gone'
    if node.spec.unschedulable:
        return f'Node "{home}" is unschedulable'
    if is_out_of_use(node):
        return f'Node "{home}" is out of service'
    if any(user.pod.spec.node_name == home for user in staying):
        return ""
    for user in (user for user in users if not user.is_refused):
        if is_free and user.pod.spec.node_name not in ("", home):
            return f'Pod "{user.pod.name}" was placed elsewhere while node "{home}" was out of use'
        if elsewhere := user.homes - {home}:
            return f'Pod "{user.pod.name}" also uses a volume on node "{min(elsewhere)}"'
    return ""


def confined_to(node: str) -> Doc:
    """The affinity of a volume that can only be used on this node, as a provisioner writes it from our topology."""
    requirement = {"key": TOPOLOGY_KEY, "operator": "In", "values": [node]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}


PROGRAM: Final = "tonnage-csi-driver"
"""Our name for the API server: field manager, and reporter of events."""
_SETTLE_S = 2.0
"""How long a binding decided while the affinity was unset may still be under way, unseen."""
_REFUSED_S = 300.0
"""When to ask a server again that refused: it may have been restarted with its gate on."""
_GATE = "MutablePVNodeAffinity"

_log = logs.logger(__name__)


class RebuildController(program.Program):
    """Keeps the node affinity of every volume of one driver as the contract demands."""

    def __init__(self, runtime: program.Runtime, driver: Driver) -> None:
        super().__init__(runtime)
        self.recorder = self._new_recorder(PROGRAM, runtime.identity or PROGRAM)
        self._driver = driver
        self._driver_name = driver.settings.name
        self._nodes = self.informers.of(Node)
        self._volumes = self.informers.of(PersistentVolume)
        self._claims = self.informers.of(PersistentVolumeClaim)
        self._pods = self.informers.of(Pod)
        self._of_handle = cache.Indexer(self._volumes, lambda volume: filter(None, (self._handle(volume),)))
        self._pods_of_claim = cache.Indexer(self._pods, Pod.claim_keys)
        self._settling_since_s: dict[Key, float] = {}
        self._without_room: set[str] = set()  # uids of pods whose node had no room for one of their volumes
        self._refused: set[str] = set()  # by uid: the event on a volume's refusal is sent once
        self._work = reconciler.Reconciler("rebuilding", self._reconcile, clock=runtime.clock)
        self._volumes.add_handlers(on_delete=self._forget)
        self._work.follow(self._volumes)
        self._work.follow(self._claims, self._volumes_beside)
        self._work.follow(
            self._pods,
            self._volumes_of,
            changed_by=lambda pod: (pod.spec.node_name, pod.is_terminal, pod.metadata.is_terminating),
        )
        self._pods.add_handlers(on_delete=lambda pod: self._without_room.discard(pod.uid))
        self._work.follow(self._nodes, self._volumes_on, changed_by=is_out_of_use)

    @property
    def hooks(self) -> RebuildHooks:
        """The driver's hooks. A volume wanted on another node is the signal to rebuild it, whatever the state of its
        home.

        To refuse a pod placed elsewhere between a cordon and an uncordon would leave it waiting for ever. The driver
        itself refuses to move a volume in use on a live node.
        """
        return RebuildHooks(
            may_leave=lambda _node: True, is_gone=self.is_gone, on_rebuilt=self._moved, on_refused=self._no_room_on
        )

    def is_gone(self, node: str) -> bool:
        """True if the informer is synced and the node is missing, or declared dead by a person (`Node.is_dead`)."""
        known = self._nodes.get(node)
        return self._nodes.is_synced and (known is None or known.is_dead)

    async def __aenter__(self) -> Self:
        self._driver.hooks = self.hooks
        return await super().__aenter__()

    async def run(self) -> None:
        """Work until cancelled. It starts when the informers are synced: a node that is not yet known is not gone."""
        await self.wait_synced()
        await self._work.run()

    # -- what to look at ----------------------------------------------------------------------------------------------

    def _handle(self, volume: PersistentVolume) -> str:
        """The volume's handle; empty for another driver's volume."""
        source = volume.spec.csi
        return source.volume_handle if source is not None and source.driver == self._driver_name else ""

    def _forget(self, volume: PersistentVolume) -> None:
        self._settling_since_s.pop(volume.key, None)
        self._refused.discard(volume.uid)

    def _volumes_on(self, node: Node) -> Iterator[Key]:
        for handle in self._driver.volumes_on(node.name):
            yield from (volume.key for volume in self._of_handle(handle))

    def _users(self, volume: PersistentVolume) -> list[Pod]:
        """The pods that use a volume and have not ended."""
        owner = volume.spec.claim_ref
        claim = self._claims.get(owner.key) if owner is not None else None
        if claim is None or claim.spec.volume_name not in ("", volume.name):
            return []
        return [pod for pod in self._pods_of_claim(claim.key) if not pod.is_terminal]

    def _volumes_of(self, pod: Pod) -> Iterator[Key]:
        for key in pod.claim_keys():
            claim = self._claims.get(key)
            if claim is not None and claim.spec.volume_name:
                yield claim.spec.volume_name

    def _volumes_beside(self, claim: PersistentVolumeClaim) -> Iterator[Key]:
        """A claim's volume, and the other volumes of the pods that use it."""
        if claim.spec.volume_name:
            yield claim.spec.volume_name
        for pod in self._pods_of_claim(claim.key):
            yield from self._volumes_of(pod)

    def _no_room_on(self, volume_id: str, to_node: str) -> None:
        for volume in self._of_handle(volume_id):
            self._without_room |= self._uids_on(volume, to_node)
            self._look_at_users(volume)

    def _moved(self, volume_id: str, from_node: str, to_node: str) -> None:
        for volume in self._of_handle(volume_id):
            note = f'The volume was rebuilt on node "{to_node}"; it was on node "{from_node}"'
            self._tell(volume, "Normal", "VolumeRebuilt", note)
            self._without_room -= self._uids_on(volume, to_node)
            self._work.add(volume.key)
            self._look_at_users(volume)

    def _uids_on(self, volume: PersistentVolume, node: str) -> set[str]:
        return {pod.uid for pod in self._users(volume) if pod.spec.node_name == node}

    def _look_at_users(self, volume: PersistentVolume) -> None:
        for pod in self._users(volume):
            for key in self._volumes_of(pod):
                self._work.add(key)

    # -- one volume ---------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> float | None:
        volume = self._volumes.get(key)
        handle = "" if volume is None else self._handle(volume)
        if volume is None or not handle or volume.metadata.is_terminating:
            return None
        home = self._driver.node_of(handle)
        if home is None:
            return None
        change = change_for(volume, home, self._nodes.get(home), [self._as_user(pod) for pod in self._users(volume)])
        if change is not None and change.affinity is not None:
            left_s = await self._settling_s(volume, home)
            if left_s > 0:
                return left_s
        self._settling_since_s.pop(key, None)
        return None if change is None else await self._write(volume, change)

    def _as_user(self, pod: Pod) -> VolumeUser:
        volumes = filter(None, map(self._volumes.get, self._volumes_of(pod)))
        homes = filter(None, (self._driver.node_of(self._handle(volume)) for volume in volumes))
        return VolumeUser(pod, frozenset(homes), pod.uid in self._without_room)

    async def _settling_s(self, volume: PersistentVolume, home: str) -> float:
        """For how many more seconds a free volume is not confined: its pod may be about to be bound elsewhere.

        The scheduler writes the selected node into the claim before it binds the pod. Our watch of claims may be behind
        the watch of nodes, so the claim is read before a volume is confined to its home.
        """
        if volume.spec.node_affinity.required is not None or not await self._is_selected_elsewhere(volume, home):
            return 0.0
        now_s = self._clock.monotonic()
        return self._settling_since_s.setdefault(volume.key, now_s) + _SETTLE_S - now_s

    async def _is_selected_elsewhere(self, volume: PersistentVolume, home: str) -> bool:
        """True if the claim selects another node than the home; asks the server unless the cache says so."""
        owner = volume.spec.claim_ref
        if owner is None:
            return False
        claim = self._claims.get(owner.key)
        if claim is None or claim.selected_node in ("", home):
            claim = await self._client.find(PersistentVolumeClaim, owner.key)
        return claim is not None and claim.selected_node not in ("", home)

    async def _write(self, volume: PersistentVolume, change: AffinityChange) -> float | None:
        patch = change.patch
        patch["metadata"] |= {"uid": volume.uid, "resourceVersion": volume.metadata.resource_version}
        try:
            await self._client.patch(PersistentVolume, volume.key, patch)
        except errors.Invalid as exc:
            if "nodeAffinity" not in exc.message:
                raise
            if not self._refused:
                _log.warning("The node affinity of volumes cannot be changed", gate=_GATE, error=exc.message)
            if volume.uid not in self._refused:
                self._refused.add(volume.uid)
                note = "The API server does not let node affinity be changed"
                note += f"; its feature gate {_GATE} is needed for that"
                self._tell(volume, "Warning", "AffinityImmutable", note)
            return _REFUSED_S
        self._refused.discard(volume.uid)
        _log.info(change.reason, volume=volume.name, note=change.note)
        self._tell(volume, "Normal", change.reason, change.note)
        return None

    def _tell(self, volume: PersistentVolume, type: recorder.EventType, reason: str, note: str) -> None:
        """Send an event on the volume, and one on its claim, where people look."""
        self.recorder.event(volume, type, reason, _ACTIONS[reason], note)
        owner = volume.spec.claim_ref
        if owner is not None:
            claim = self._claims.get(owner.key)
            about = claim or msgspec.structs.replace(owner, resource_version="")
            self.recorder.event(about, type, reason, _ACTIONS[reason], note, related=volume)


_ACTIONS: Final = {
    "AffinityUnset": "UnsetNodeAffinity",
    "AffinitySet": "SetNodeAffinity",
    "AffinityImmutable": "UnsetNodeAffinity",
    "VolumeRebuilt": "RebuildVolume",
}
