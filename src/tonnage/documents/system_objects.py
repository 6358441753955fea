"""What every cluster has: the namespaces, priority classes and the Service that Kubernetes itself brings."""

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


def kubernetes_service(port: int) -> Doc:
    """The Service `default/kubernetes`, by which programs in pods find the API server, listening on `port`. Unlike
    other Services here it has an address, because clients read it.
    """
    return {
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": "10.0.0.1",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
    }
