"""What every cluster has: the namespaces and the two priority classes that Kubernetes itself brings."""

from __future__ import annotations

from tonnage.objects.document import Doc

SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
UNDELETABLE_NAMESPACES = ("default", "kube-system", "kube-public")

SYSTEM_PRIORITY_CLASSES: tuple[Doc, ...] = (
    {
        "metadata": {"name": "system-cluster-critical"},
        "value": 2000000000,
        "description": "For what the cluster cannot do without, on whichever node.",
    },
    {
        "metadata": {"name": "system-node-critical"},
        "value": 2000001000,
        "description": "For what a node cannot do without; nothing has a higher priority.",
    },
)
