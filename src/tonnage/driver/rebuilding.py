"""`RebuildController` keeps the driver's half of KEP-5925's contract: volumes of a node out of use may move.

It watches Nodes, this driver's PersistentVolumes and their claims. `change_for` decides a volume's node affinity; the
controller writes it, one volume at a time, with events on the volume and its claim:

    cordon node-1 ──► AffinityUnset ──► a pod elsewhere ──► publish or stage on node-2 ──► VolumeRebuilt ──► AffinitySet
          └─ uncordon ──► AffinitySet, unless a pod is already placed elsewhere

A pod that still runs on the node keeps its volume: the driver refuses to move a volume in use on a live node. State is
reconciled without a history, so one rule serves every moment:

    the volume's home      a pod that uses it was placed elsewhere      node affinity
    ─────────────────      ──────────────────────────────────────      ─────────────
    is out of use          whether or not                               none: any node may take the volume over
    takes pods             yes, and none that stays is at home          none, until it is rebuilt there
    takes pods             no, or another that stays is at home,        the home
                           or it was sent where there is no room

The home is the node with the contents; without an affinity the annotation tonnage.dev/volume-home, written in the same
patch, names it. The second row is the race of a node that is soon uncordoned: the pod placed elsewhere would wait for
ever, so the volume follows it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Final, Self

from tonnage import logs
from tonnage.client.cache import Indexer
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.client.reconciler import Reconciler
from tonnage.client.recorder import EventType, Recorder
from tonnage.clock import Clock
from tonnage.driver import TOPOLOGY_KEY
from tonnage.driver.core import RebuildHooks
from tonnage.driver.driver import Driver
from tonnage.errors import Invalid
from tonnage.objects.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, is_out_of_use
from tonnage.objects.core_v1.persistent_volume import VOLUME_HOME
from tonnage.objects.core_v1.volume import ObjectReference
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


def change_for(
    volume: PersistentVolume, home: str, node: Node | None, placed_elsewhere: str = ""
) -> AffinityChange | None:
    """The change for a volume on `home`, whose Node may be gone; None if nothing has to change."""
    required = volume.spec.node_affinity.required
    why_free = _why_free(home, node, placed_elsewhere)
    if node is None or why_free:
        if required is None and volume.home == home:
            return None
        return AffinityChange(None, home, "AffinityUnset", f"{why_free}; the volume may be rebuilt elsewhere")
    # The topology label counts also before the node has registered.
    if required is not None and required.matches(node.name, {**node.metadata.labels, TOPOLOGY_KEY: node.name}):
        return None
    return AffinityChange(
        confined_to(home), None, "AffinitySet", f'The volume is on node "{home}", and pods that use it go there'
    )


def _why_free(home: str, node: Node | None, placed_elsewhere: str) -> str:
    """Why the volume is not confined to its home; empty if it is."""
    if node is None:
        return f'Node "{home}" is gone'
    if node.spec.unschedulable:
        return f'Node "{home}" is unschedulable'
    if is_out_of_use(node):
        return f'Node "{home}" is out of service'
    if placed_elsewhere:
        return f'Pod "{placed_elsewhere}" was placed elsewhere while node "{home}" was out of use'
    return ""


def confined_to(node: str) -> Doc:
    """The affinity of a volume that can only be used on this node, as a provisioner writes it from our topology."""
    requirement = {"key": TOPOLOGY_KEY, "operator": "In", "values": [node]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}


def pod_elsewhere(pods: Iterable[Pod], claim_name: str, home: str, without_room: Container[str] = ()) -> str:
    """The name of a pod that uses this claim of its namespace and is placed on another node than `home`; else empty.

    Also empty if a pod that uses it stays at home. A pod on a node `without_room` for the volume does not count.
    """
    users = [
        pod
        for pod in pods
        if not pod.is_terminal and any(each.claim_name(pod.name) == claim_name for each in pod.spec.volumes)
    ]
    if any(pod.spec.node_name == home and not pod.metadata.is_terminating for pod in users):
        return ""
    sent = (pod for pod in users if pod.spec.node_name not in ("", home) and pod.spec.node_name not in without_room)
    return next((pod.name for pod in sent), "")


PROGRAM: Final = "tonnage-csi-driver"
"""Our name for the API server: field manager, and reporter of events."""
_SETTLE_S = 2.0
"""How long a binding decided while the affinity was unset may still be under way, unseen."""
_REFUSED_S = 300.0
"""When to ask a server again that refused: it may have been restarted with its gate on."""
_GATE = "MutablePVNodeAffinity"

_log = logs.logger(__name__)


class RebuildController:
    """Keeps the node affinity of every volume of one driver as the contract demands."""

    def __init__(
        self, driver: Driver, client: Client, *, clock: Clock, identity: str = "", telling: Client | None = None
    ) -> None:
        """`telling` writes events; its default is `client`."""
        self.informers = Informers(client)
        self.recorder = Recorder(telling or client, PROGRAM, identity or PROGRAM, by_note=True)
        self._driver = driver
        self._driver_name = driver.core.settings.name
        self._client = client
        self._clock = clock
        self._nodes = self.informers.of(Node)
        self._volumes = self.informers.of(PersistentVolume)
        self._claims = self.informers.of(PersistentVolumeClaim)
        self._of_handle = Indexer(self._volumes, lambda volume: filter(None, (self._handle(volume),)))
        self._settling_since_s: dict[Key, float] = {}
        self._without_room: dict[str, set[str]] = {}  # by handle: nodes that had no room for the volume
        self._refused: set[str] = set()  # by uid: the event on a volume's refusal is sent once
        self._work = Reconciler("rebuilding", self._reconcile, clock=clock)
        self._volumes.add_handlers(on_delete=self._forget)
        self._work.follow(self._volumes)
        self._work.follow(self._claims, lambda claim: (claim.spec.volume_name,) if claim.spec.volume_name else ())
        self._nodes.add_handlers(on_add=self._look_at, on_update=self._node_changed, on_delete=self._look_at)

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
        self._driver.core.hooks = self.hooks
        self.informers.start()
        self.recorder.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.informers.stop()
        await self.recorder.stop()

    async def run(self) -> None:
        """Work until cancelled. It starts when the informers are synced: a node that is not yet known is not gone."""
        await self.informers.wait_synced()
        await self._work.run()

    # -- what to look at ----------------------------------------------------------------------------------------------

    def _handle(self, volume: PersistentVolume) -> str:
        """The volume's handle; empty for another driver's volume."""
        source = volume.spec.csi
        return source.volume_handle if source is not None and source.driver == self._driver_name else ""

    def _forget(self, volume: PersistentVolume) -> None:
        self._settling_since_s.pop(volume.key, None)
        self._refused.discard(volume.uid)
        if not self._of_handle(self._handle(volume)):
            self._without_room.pop(self._handle(volume), None)

    def _node_changed(self, old: Node, new: Node) -> None:
        if is_out_of_use(old) != is_out_of_use(new):
            self._look_at(new)

    def _look_at(self, node: Node) -> None:
        for handle in self._driver.volumes_on(node.name):
            for volume in self._of_handle(handle):
                self._work.add(volume.key)

    def _no_room_on(self, volume_id: str, to_node: str) -> None:
        for volume in self._of_handle(volume_id):
            self._without_room.setdefault(volume_id, set()).add(to_node)
            self._work.add(volume.key)

    def _moved(self, volume_id: str, from_node: str, to_node: str) -> None:
        self._without_room.pop(volume_id, None)
        for volume in self._of_handle(volume_id):
            note = f'The volume was rebuilt on node "{to_node}"; it was on node "{from_node}"'
            self._tell(volume, "Normal", "VolumeRebuilt", note)
            self._work.add(volume.key)

    # -- one volume ---------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: Key) -> float | None:
        volume = self._volumes.get(key)
        handle = "" if volume is None else self._handle(volume)
        if volume is None or not handle or volume.metadata.is_terminating:
            return None
        home = self._driver.node_of(handle)
        if home is None:
            return None
        placed, again_s = await self._placed_elsewhere(volume, home)
        if again_s is not None:
            return again_s
        change = change_for(volume, home, self._nodes.get(home), placed)
        if change is not None:
            return await self._write(volume, change)
        return _SETTLE_S if placed else None

    async def _placed_elsewhere(self, volume: PersistentVolume, home: str) -> tuple[str, float | None]:
        """The pod placed elsewhere with this volume, if any; or the seconds after which that will be known.

        The scheduler writes the selected node into the claim before it binds the pod. Our watch of claims may be behind
        the watch of nodes, so the claim is read before a volume is confined to its home.
        """
        claim = None
        if volume.spec.node_affinity.required is None and not is_out_of_use(self._nodes.get(home)):
            claim = await self._claim_elsewhere(volume, home)
        if claim is None:
            self._settling_since_s.pop(volume.key, None)
            return "", None
        now_s = self._clock.monotonic()
        left_s = self._settling_since_s.setdefault(volume.key, now_s) + _SETTLE_S - now_s
        if left_s > 0:
            return "", left_s
        pods = await self._client.list(Pod, namespace=claim.namespace)
        without_room = self._without_room.get(self._handle(volume), ())
        return pod_elsewhere(pods.items, claim.name, home, without_room), None

    async def _claim_elsewhere(self, volume: PersistentVolume, home: str) -> PersistentVolumeClaim | None:
        """The volume's claim if another node than its home is selected; asks the server unless the cache says so."""
        owner = volume.spec.claim_ref
        if owner is None:
            return None
        claim = self._claims.get(owner.key)
        if claim is None or claim.selected_node in ("", home):
            claim = await self._client.find(PersistentVolumeClaim, owner.key)
        return claim if claim is not None and claim.selected_node not in ("", home) else None

    async def _write(self, volume: PersistentVolume, change: AffinityChange) -> float | None:
        patch = change.patch
        patch["metadata"] |= {"uid": volume.uid, "resourceVersion": volume.metadata.resource_version}
        try:
            await self._client.patch(PersistentVolume, volume.key, patch)
        except Invalid as exc:
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
        self._without_room.pop(self._handle(volume), None)
        _log.info(change.reason, volume=volume.name, note=change.note)
        self._tell(volume, "Normal", change.reason, change.note)
        return None

    def _tell(self, volume: PersistentVolume, type: EventType, reason: str, note: str) -> None:
        """Send an event on the volume, and one on its claim, where people look."""
        self.recorder.event(volume, type, reason, _ACTIONS[reason], note)
        owner = volume.spec.claim_ref
        if owner is not None:
            claim = self._claims.get(owner.key)
            about = claim or ObjectReference(
                api_version="v1",
                kind="PersistentVolumeClaim",
                namespace=owner.namespace,
                name=owner.name,
                uid=owner.uid,
            )
            self.recorder.event(about, type, reason, _ACTIONS[reason], note, related=volume)


_ACTIONS: Final = {
    "AffinityUnset": "UnsetNodeAffinity",
    "AffinitySet": "SetNodeAffinity",
    "AffinityImmutable": "UnsetNodeAffinity",
    "VolumeRebuilt": "RebuildVolume",
}
