"""Which node affinity a volume should have: the driver's half of KEP-5925's contract, as one rule without a history.

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
to two nodes would leave no node for the pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tonnage.driver import TOPOLOGY_KEY
from tonnage.objects.core_v1 import Node, PersistentVolume, Pod, is_out_of_use
from tonnage.objects.core_v1.persistent_volume import VOLUME_HOME
from tonnage.objects.document import Doc


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
