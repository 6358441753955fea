"""Pods whose volumes are not plain claims: generic ephemeral ones, and disks they name themselves."""

from __future__ import annotations

from typing import Any

from tonnage.objects.core_v1 import PersistentVolumeClaim, Pod
from tonnage.testing.builders import Doc, pod
from tonnage.testing.storage_builders import claim


def ephemeral(name: str, **options: Any) -> Pod:
    return pod(name, spec={"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]}, **options)


def made_for(pod_name: str, **options: Any) -> PersistentVolumeClaim:
    """The claim of an ephemeral pod, as the ephemeral volume controller makes it."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": f"default-{pod_name}", "controller": True}
    return claim(f"{pod_name}-scratch", metadata={"ownerReferences": [owner]}, **options)


def with_disk(name: str, source: Doc, **options: Any) -> Pod:
    return pod(name, spec={"volumes": [{"name": "disk", **source}]}, **options)
