"""The ReplicaSet of a Deployment's template. Its name follows from the template: made twice, it is there once."""

from __future__ import annotations

from typing import Final

from tonnage.objects.apps_v1 import Deployment
from tonnage.objects.codec import to_doc
from tonnage.objects.document import Doc, copy
from tonnage.objects.templates.owner_references import controller_ref
from tonnage.objects.templates.pod_templates import template_hash

POD_TEMPLATE_HASH: Final = "pod-template-hash"
_MAX_NAME: Final = 253


def replica_set_for(deployment: Deployment, replicas: int) -> Doc:
    """The set as its Deployment makes it, but for the annotations that count revisions."""
    name = template_hash(deployment.spec.template, deployment.status.collision_count)
    template: Doc = copy(dict(deployment.spec.template))
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    labels[POD_TEMPLATE_HASH] = name
    selector = to_doc(deployment.spec.selector) if deployment.spec.selector is not None else {}
    selector["matchLabels"] = {**selector.get("matchLabels", {}), POD_TEMPLATE_HASH: name}
    spec: Doc = {"replicas": replicas, "selector": selector, "template": template}
    if deployment.spec.min_ready_seconds:
        spec["minReadySeconds"] = deployment.spec.min_ready_seconds
    metadata: Doc = {
        "name": f"{deployment.name[: _MAX_NAME - 1 - len(name)]}-{name}",
        "namespace": deployment.namespace,
        "labels": dict(labels),
        "ownerReferences": [to_doc(controller_ref(deployment))],
    }
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
