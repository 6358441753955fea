"""Rows of volumes: a claim with its volume, or a volume without a claim.

    unbound claim                                   waiting; making once a provisioner should create its volume
    bound claim, volume exists                      bound; moving while it is rebuilt on another node
    bound claim, volume gone or another claim's     lost
    volume without a claim                          released; available if any claim may take it

A volume belongs to a claim if both name each other. Its node affinity says where it is: on one node, on one of several,
in zones, or reachable from every node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tonnage.dashboard.model import known_objects
from tonnage.dashboard.model.known_objects import Content, DriverContents, KnownObjects, Refusal, names_a_node
from tonnage.dashboard.wire import VolumeRow
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.objects.core_v1.pod import BETA_ZONE, ZONE
from tonnage.objects.meta import Key
from tonnage.scheduling.volumes.capacity.pools import rebuilds_volumes
from tonnage.scheduling.volumes.volume_reach import affinity_of, is_on_its_way
from tonnage.whatif.page import natural
from tonnage.whatif.scheduler_memory import RememberedCapacity

MOST_NODES: Final = 16


class VolumePlace(NamedTuple):
    """`node`: the only node that reaches the volume, or the node that its affinity names although it is gone or no
    longer reaches it. `nodes`: the nodes if several reach it."""

    node: str = ""
    nodes: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    is_confined: bool = False
    is_unreachable: bool = False
    """The affinity names nodes, and no existing node matches."""


def place_of(objects: KnownObjects, volume: PersistentVolume) -> VolumePlace:
    required = affinity_of(volume)
    if required is None:  # from before node affinity: a zone label, with __ between several zones
        labels = volume.metadata.labels
        told = labels.get(ZONE, labels.get(BETA_ZONE, ""))
        return VolumePlace(zones=tuple(sorted({each for each in told.split("__") if each})))
    admitted: set[str] = set()
    named: set[tuple[str, str]] = set()
    zones: set[str] = set()
    is_wide = False
    for term in required.node_selector_terms:
        listed = known_objects.node_requirements(term)
        zones.update(
            value
            for requirement in term.match_expressions
            if requirement.operator == "In" and requirement.key.endswith("/zone")
            for value in requirement.values
        )
        if not listed:
            is_wide = is_wide or bool(term.match_expressions)
            continue
        candidates = {name for value in listed[0].values for name in objects.nodes_by_label[listed[0].key, value]}
        admitted.update(name for name in candidates if term.matches(name, objects.nodes[name].metadata.labels))
        named.update((each.key, value) for each in listed if names_a_node(each.key) for value in each.values)
    if is_wide:
        return VolumePlace(zones=tuple(sorted(zones, key=natural)), is_confined=True)
    found = sorted(admitted)
    if not found:  # a single named node counts even if it does not match; of several, those that do not exist
        gone = {name for key, name in named if not objects.nodes_by_label[key, name]}
        found = sorted({name for _, name in named} if len(named) == 1 else gone)
    return VolumePlace(
        found[0] if len(found) == 1 else "",
        tuple(found[:MOST_NODES]) if len(found) > 1 else (),
        is_confined=True,
        is_unreachable=not admitted,
    )


_SHARED = frozenset(("ReadWriteMany", "ReadOnlyMany"))
_SOON_MADE = "volume.kubernetes.io/storage-provisioner"


@dataclass(frozen=True, slots=True)
class Besides:
    """What is known about volumes apart from objects."""

    contents: DriverContents = field(default_factory=DriverContents)
    errors: Mapping[str, Refusal] = field(default_factory=dict)
    """By a claim's uid: why provisioning failed."""
    held: Mapping[Key, Sequence[RememberedCapacity]] = field(default_factory=dict)
    """By claim: the capacity that is kept back for it."""


def claim_of(objects: KnownObjects, volume: PersistentVolume) -> Key | None:
    """The claim of a volume's row; None for a volume without a claim."""
    owner = volume.spec.claim_ref
    if owner is None:
        bound = [key for key in objects.claims_of_volume[volume.name] if objects.claims[key].is_bound]
        return min(bound, default=None)
    claim = objects.claims.get(owner.key)
    if claim is None or (owner.uid and owner.uid != claim.uid):
        return None
    if claim.spec.volume_name:
        return claim.key if claim.spec.volume_name == volume.name else None
    # Provisioned or prebound for the claim, which does not name it yet. There may be several for a moment.
    first = min(name for name in objects.volumes_of_claim[claim.key] if _is_for(objects.volumes[name], claim))
    return claim.key if first == volume.name else None


def _is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    owner = volume.spec.claim_ref
    return owner is not None and owner.key == claim.key and owner.uid in ("", claim.uid)


def volume_of(objects: KnownObjects, claim: PersistentVolumeClaim) -> PersistentVolume | None:
    """The volume of a claim's row; None while it has none, or if its volume is another claim's."""
    names = {claim.spec.volume_name} if claim.spec.volume_name else objects.volumes_of_claim[claim.key]
    found = (objects.volumes.get(name) for name in sorted(names))
    return next((volume for volume in found if volume is not None and claim_of(objects, volume) == claim.key), None)


def row_of(objects: KnownObjects, key: Key, besides: Besides) -> VolumeRow | None:
    claim, volume = objects.claims.get(key), objects.volumes.get(key)
    if claim is not None:
        return _claim_row(objects, claim, volume_of(objects, claim), besides)
    if volume is None or claim_of(objects, volume) is not None:
        return None
    owner, place = volume.spec.claim_ref, place_of(objects, volume)
    why = volume.status.message or (f"its claim {owner.key} is gone" if owner is not None else "")
    return VolumeRow(
        volume=volume.name,
        storage_class=volume.class_name,
        driver=volume.spec.csi.driver if volume.spec.csi is not None else "",
        bytes=volume.size.value(),
        state="available" if owner is None else "released",
        shared=not _SHARED.isdisjoint(volume.spec.access_modes),
        terminating=volume.metadata.is_terminating,
        since=volume.status.last_phase_transition_time or volume.metadata.creation_timestamp,
        **_whereabouts(objects, volume.name, place, _content(volume, besides), place.node),
        why=why or _oddity(objects, place),
    )


def _claim_row(
    objects: KnownObjects, claim: PersistentVolumeClaim, volume: PersistentVolume | None, besides: Besides
) -> VolumeRow:
    of_class = objects.classes.get(claim.class_name)
    driver = of_class.provisioner if of_class is not None else ""
    if volume is not None and volume.spec.csi is not None:
        driver = volume.spec.csi.driver
    place = place_of(objects, volume) if volume is not None else VolumePlace()
    if volume is not None:
        content = _content(volume, besides)
    else:  # the contents of a volume whose object does not exist yet, or no longer exists
        content = besides.contents.volumes.get(besides.contents.by_name.get(f"pvc-{claim.uid}", ""))
    refused = besides.errors.get(claim.uid)
    state, node, target, why = _state(objects, claim, volume, place)
    if content is None and state in ("bound", "moving") and not node and volume is not None and not place.is_confined:
        node = _home(objects, claim, volume, driver)
    since = claim.metadata.creation_timestamp
    if state == "bound" and volume is not None:
        since = volume.status.last_phase_transition_time or volume.metadata.creation_timestamp or since
    elif state in ("making", "moving"):
        held = (each.since for each in besides.held.get(claim.key, ()))
        since = max(held, default=since if state == "making" else None)
    return VolumeRow(
        claim=claim.key,
        volume=volume.name if volume is not None else claim.spec.volume_name,
        storage_class=claim.class_name,
        driver=driver,
        bytes=(volume.size if volume is not None else claim.requested_size).value(),
        state=state,
        target=target,
        shared=not _SHARED.isdisjoint(claim.spec.access_modes),
        error=refused.message if refused is not None and state in ("waiting", "making") else "",
        terminating=claim.metadata.is_terminating,
        pods=tuple(sorted(key for key in objects.pods_of_claim[claim.key] if not objects.pods[key].is_terminal)),
        since=since,
        **_whereabouts(objects, claim.spec.volume_name, place, content, node),
        why=why or _oddity(objects, place),
    )


def _whereabouts(
    objects: KnownObjects, volume: str, place: VolumePlace, content: Content | None, node: str
) -> dict[str, Any]:
    """The row's fields that say where a volume is: from the driver's records, else `node`."""
    found = [objects.attachments[each] for each in sorted(objects.attachments_of_volume[volume])] if volume else []
    errors = [each.status.attach_error.message for each in found if each.status.attach_error is not None]
    errors += [each.status.detach_error.message for each in found if each.status.detach_error is not None]
    return {
        "node": content.place.node if content is not None else node,
        "nodes": place.nodes,
        "zones": place.zones,
        "pool": content.place.pool if content is not None else -1,
        "attached": tuple(sorted({attachment.spec.node_name for attachment in found if attachment.status.attached})),
        "attaching": tuple(sorted({each.spec.node_name for each in found if not each.status.attached})),
        "attach_error": errors[0] if errors else "",
    }


def _state(
    objects: KnownObjects, claim: PersistentVolumeClaim, volume: PersistentVolume | None, place: VolumePlace
) -> tuple[str, str, str, str]:
    if claim.is_bound:
        if volume is None:
            return "lost", "", "", _why_lost(objects, claim)
        if is_on_its_way(claim, volume):
            return "moving", "", claim.selected_node, ""
        return "bound", place.node, "", ""
    of_class = objects.classes.get(claim.class_name)
    waits = of_class is None or of_class.waits_for_consumer
    is_asked_for = _SOON_MADE in claim.metadata.annotations and not waits
    if volume is not None or claim.selected_node or is_asked_for:
        return "making", place.node or claim.selected_node, "", ""
    return "waiting", "", "", ""


def _why_lost(objects: KnownObjects, claim: PersistentVolumeClaim) -> str:
    name = claim.spec.volume_name
    other = objects.volumes.get(name)
    if other is None:
        return f"its volume {name} was deleted"
    owner = other.spec.claim_ref
    return f"its volume {name} belongs to {owner.key if owner is not None else 'another claim'}"


def _home(objects: KnownObjects, claim: PersistentVolumeClaim, volume: PersistentVolume, driver: str) -> str:
    """Where a volume without affinity has its contents, if its driver rebuilds volumes; else empty: every node reaches
    it. The node it is attached to; else, unless it moves, the node that was selected last."""
    if not rebuilds_volumes(objects.drivers.get(driver)):
        return ""
    attached = {
        found.spec.node_name
        for attachment in objects.attachments_of_volume[volume.name]
        if (found := objects.attachments[attachment]).status.attached
    }
    if is_on_its_way(claim, volume):
        return min(attached - {claim.selected_node}, default="")
    return min(attached) if attached and claim.selected_node not in attached else claim.selected_node


def _content(volume: PersistentVolume, besides: Besides) -> Content | None:
    source = volume.spec.csi
    if source is None or source.driver != besides.contents.driver:
        return None
    return besides.contents.volumes.get(source.volume_handle)


def _oddity(objects: KnownObjects, place: VolumePlace) -> str:
    if not place.is_unreachable:
        return ""
    if place.node and place.node not in objects.nodes:
        return f"its node {place.node} is gone"
    return "no existing node reaches it"
