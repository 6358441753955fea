"""Which node affinity a volume's PersistentVolume should have: KEP-5925's contract of drivers, as one rule.

    the volume's home      a pod that uses it was placed elsewhere      node affinity
    ─────────────────      ──────────────────────────────────────      ─────────────
    is out of use          whether or not                               none: any node may take the volume over
    takes pods             yes, and none that stays is at home          none, until it is rebuilt there
    takes pods             no, or another that stays is at home,        the home
                           or it was sent where there is no room

Out of use is a node that is gone, cordoned, or out of service by a person's word (the taint out-of-service).
The home is where the contents are, which only the driver knows: a volume without affinity has it in an annotation
(tonnage.dev/volume-home), written in the same patch, so that the scheduler knows it too. So one rule serves every
moment: a node that is cordoned, one that takes pods again, a volume that has just been rebuilt, and a start after a
death at any instant.

The second row is the race of a node that is cordoned and soon uncordoned: while the affinity was unset the scheduler
may have sent a pod to another node. That cannot be taken back, and confining the volume to its old home again would
leave the pod waiting for ever; so the volume follows it. It cannot follow where another pod of the same claim lives at
home, as after a Node that went and came back with its pods: then neither would ever have it for good, and no pod that
comes would know where to go. So the home is said, and the other pod's kubelet turns it away (`node/mounts`). The same
where the rebuild was refused for want of room: at home it needs none.

Nothing here does I/O; `controller` writes it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from tonnage.driver.names import TOPOLOGY_KEY
from tonnage.objects.core_v1 import Node, PersistentVolume, Pod, is_out_of_use
from tonnage.objects.core_v1.persistent_volume import VOLUME_HOME
from tonnage.objects.document import Doc
from tonnage.objects.node_selectors import NodeSelector


@dataclass(frozen=True, slots=True)
class AffinityChange:
    """What is to be written, why, and what people are told. `affinity` None unsets it, `home` None the annotation."""

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
    """What has to change about a volume that lives on `home`; None if it is as it should be.

    `node` is the home's Node, None if it is gone; `placed_elsewhere` names the pod that was sent to another node.
    """
    required = volume.spec.node_affinity.required
    why_free = _why_free(home, node, placed_elsewhere)
    if node is None or why_free:
        if required is None and volume.home == home:
            return None
        return AffinityChange(None, home, "AffinityUnset", f"{why_free}; the volume may be rebuilt elsewhere")
    if required is not None and _admits(required, node):
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
    """The affinity of a volume that can be used on this node only, as a provisioner writes it from our topology."""
    requirement = {"key": TOPOLOGY_KEY, "operator": "In", "values": [node]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}


def _admits(required: NodeSelector, node: Node) -> bool:
    """Whether pods may come to this node. It counts as labelled by its topology, also before it has registered.

    An affinity that somebody wrote in other words, or that takes in more, is theirs and stays.
    """
    return required.matches(node.name, {**node.metadata.labels, TOPOLOGY_KEY: node.name})


def pod_elsewhere(pods: Iterable[Pod], claim_name: str, home: str, without_room: Container[str] = ()) -> str:
    """The name of a pod that uses this claim of its namespace and was sent to another node than `home`; else empty.

    Empty as well when a pod that uses it is at home, and is not being deleted: the volume stays with that one. A pod on
    a node `without_room` for the volume does not count: it cannot follow there.
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
