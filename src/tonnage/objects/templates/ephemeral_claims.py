"""Generic ephemeral volumes: the claim that is made from the template in a pod."""

from __future__ import annotations

from tonnage.objects.codec import to_doc
from tonnage.objects.core_v1 import Pod, Volume
from tonnage.objects.document import Doc
from tonnage.objects.templates.owner_references import controller_ref


def claim_for(pod: Pod, volume: Volume) -> Doc:
    """The claim of an ephemeral volume: the template's spec, labels and annotations, and the pod as its owner."""
    template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else {}
    said = template.get("metadata") or {}
    metadata: Doc = {
        "name": volume.claim_name(pod.name),
        "namespace": pod.namespace,
        "ownerReferences": [to_doc(controller_ref(pod))],
        **{part: dict(said[part]) for part in ("annotations", "labels") if said.get(part)},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": dict(template.get("spec") or {}),
    }
