"""Defaults of storage.k8s.io."""

from __future__ import annotations

from tonnage.objects.document import Doc


def default_storage_class(doc: Doc) -> None:
    doc.setdefault("reclaimPolicy", "Delete")
    doc.setdefault("volumeBindingMode", "Immediate")


def default_csi_driver(doc: Doc, *, volume_limit_scaling: bool) -> None:
    """`volume_limit_scaling` is the gate that gives preventPodSchedulingIfMissing a meaning, and with it a default."""
    spec = doc.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("storageCapacity", False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("volumeLifecycleModes", ["Persistent"])
    spec.setdefault("requiresRepublish", False)
    spec.setdefault("seLinuxMount", False)
    if volume_limit_scaling:
        spec.setdefault("preventPodSchedulingIfMissing", False)


def default_volume_attachment(doc: Doc) -> None:
    """Clients count on `attached` being there, though nothing has been attached yet."""
    doc.setdefault("status", {}).setdefault("attached", False)
