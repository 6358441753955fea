"""Rows of volumes: a claim with what is made for it, or a volume that no claim has."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.dashboard.model.known_objects import KnownObjects
from tonnage.dashboard.wire.rows import VolumeRow
from tonnage.objects.core_v1 import PersistentVolume, PersistentVolumeClaim
from tonnage.scheduling.volumes.rebuilds import is_on_its_way


def key_of_volume(volume: PersistentVolume, objects: KnownObjects) -> str:
    """Under which key a volume is shown: its claim's where it has one, else its own name."""
    owner = volume.spec.claim_ref
    if owner is None:
        return volume.name
    key = f"{owner.namespace}/{owner.name}"
    claim = objects.claims.get(key)
    return key if claim is not None and claim.uid == owner.uid else volume.name


def nodes_of(volume: PersistentVolume) -> Iterator[str]:
    """Nodes that a volume's affinity names, by whatever key: where it may be."""
    required = volume.spec.node_affinity.required
    if required is None:
        return
    for term in required.node_selector_terms:
        for each in (*term.match_expressions, *term.match_fields):
            if each.operator == "In":
                yield from each.values


def row_of(objects: KnownObjects, key: str) -> VolumeRow | None:
    claim = objects.claims.get(key)
    if claim is not None:
        return _claim_row(objects, claim, objects.volumes.get(claim.spec.volume_name))
    volume = objects.volumes.get(key)
    if volume is None or key_of_volume(volume, objects) != key:
        return None
    return VolumeRow(
        volume=volume.name,
        storage_class=volume.class_name,
        driver=volume.spec.csi.driver if volume.spec.csi is not None else "",
        bytes=volume.size.value(),
        state="released",
        node=_place(objects, volume),
    )


def _claim_row(objects: KnownObjects, claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> VolumeRow:
    of_class = objects.classes.get(claim.class_name)
    driver = volume.spec.csi.driver if volume is not None and volume.spec.csi is not None else ""
    state, node, target = "waiting", claim.selected_node, ""
    if claim.is_bound:
        state = "bound" if volume is not None else "lost"
        node = _place(objects, volume) if volume is not None else ""
        if volume is not None and is_on_its_way(claim, volume):
            state, target = "moving", claim.selected_node
    elif claim.selected_node:
        state = "making"
    attachments = [objects.attachments[each] for each in objects.attachments_of_volume.get(claim.spec.volume_name, ())]
    errors = [each.status.attach_error.message for each in attachments if each.status.attach_error is not None]
    return VolumeRow(
        claim=claim.key,
        volume=claim.spec.volume_name,
        storage_class=claim.class_name,
        driver=driver or (of_class.provisioner if of_class is not None else ""),
        bytes=(volume.size if volume is not None else claim.requested_size).value(),
        state=state,
        node=node,
        target=target,
        attached=tuple(sorted(each.spec.node_name for each in attachments if each.status.attached)),
        attach_error=errors[0] if errors else "",
        pods=tuple(sorted(objects.pods_of_claim.get(claim.key, ()))),
        since=claim.metadata.creation_timestamp,
    )


def _place(objects: KnownObjects, volume: PersistentVolume) -> str:
    """The one node that a volume can be reached from; empty when there are several, or none."""
    required = volume.spec.node_affinity.required
    if required is None:
        return ""
    # A node's name, or the value of a label that one node alone has: the usual affinity of a local volume.
    found: set[str] = set()
    for term in required.node_selector_terms:
        for each in term.match_expressions:
            for value in each.values:
                found |= objects.nodes_by_label.get((each.key, value), set())
    admitted = [name for name in found if required.matches(name, objects.nodes[name].metadata.labels)]
    return admitted[0] if len(admitted) == 1 else ""
