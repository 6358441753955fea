"""Every resource the API serves, in one table: kind, path, names, scope, subresources.

Discovery, routing, kubectl's short names and the client's URLs all read these rows, so a kind is added by adding a row
here, a schema file entry, and (when it has rules of its own) a strategy.

`stored_as` is for the one kind that two APIs serve: an Event of events.k8s.io is a core Event in another shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Resource:
    """One collection of the REST API."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    stored_as: tuple[str, str] | None = None
    """(group, plural) of the resource whose objects these are, when it is another one."""
    singular_name: str = ""
    list_kind_name: str = ""
    """Where a CustomResourceDefinition names them otherwise than all kinds of the table do."""

    @cached_property
    def singular(self) -> str:
        return self.singular_name or self.kind.lower()

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def list_kind(self) -> str:
        return self.list_kind_name or f"{self.kind}List"

    def is_list_kind(self, kind: str) -> bool:
        """Is this what a list of its objects may be called? Of what is not in the table, discovery does not tell."""
        return kind == self.list_kind or ((self.group, self.plural) not in BY_PLURAL and kind != "Status")

    @cached_property
    def qualified(self) -> str:
        """`pods`, `csinodes.storage.k8s.io`: what error messages and store keys say."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def stored(self) -> Resource:
        """The resource whose shape its objects have in the store: itself, but for events.k8s.io."""
        return self if self.stored_as is None else BY_PLURAL[self.stored_as]

    @cached_property
    def store_prefix(self) -> str:
        """Where its objects live in the store, with a slash at the end."""
        return f"{self.stored.qualified}/"

    @cached_property
    def root(self) -> str:
        """`/api/v1` or `/apis/storage.k8s.io/v1`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def key(self, namespace: str, name: str) -> str:
        """The store's key of one object; `namespace` is not looked at for cluster-scoped kinds."""
        return f"{self.store_prefix}{namespace}/{name}" if self.namespaced else f"{self.store_prefix}{name}"

    def path(self, namespace: str = "", name: str = "") -> str:
        """The REST path of a collection or of one object."""
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.root}{scope}/{self.plural}" + (f"/{name}" if name else "")


_ALL = ("all",)
RBAC = "rbac.authorization.k8s.io"
"""The group of roles and bindings."""

RESOURCES: tuple[Resource, ...] = (
    Resource("", "v1", "ConfigMap", "configmaps", True, ("cm",)),
    Resource("", "v1", "Event", "events", True, ("ev",)),
    Resource("", "v1", "LimitRange", "limitranges", True, ("limits",)),
    Resource("", "v1", "Namespace", "namespaces", False, ("ns",), subresources=("status", "finalize")),
    Resource("", "v1", "Node", "nodes", False, ("no",), subresources=("status",)),
    Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, ("pvc",), subresources=("status",)),
    Resource("", "v1", "PersistentVolume", "persistentvolumes", False, ("pv",), subresources=("status",)),
    Resource("", "v1", "Pod", "pods", True, ("po",), _ALL, ("status", "binding", "eviction")),
    Resource("", "v1", "PodTemplate", "podtemplates", True),
    Resource(
        "",
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        True,
        ("rc",),
        _ALL,
        subresources=("status", "scale"),
    ),
    Resource("", "v1", "ResourceQuota", "resourcequotas", True, ("quota",), subresources=("status",)),
    Resource("", "v1", "Secret", "secrets", True),
    Resource("", "v1", "ServiceAccount", "serviceaccounts", True, ("sa",), subresources=("token",)),
    Resource("", "v1", "Service", "services", True, ("svc",), _ALL, subresources=("status",)),
    Resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        False,
        ("crd", "crds"),
        ("api-extensions",),
        ("status",),
    ),
    Resource("apps", "v1", "ControllerRevision", "controllerrevisions", True),
    Resource("apps", "v1", "DaemonSet", "daemonsets", True, ("ds",), _ALL, ("status",)),
    Resource("apps", "v1", "Deployment", "deployments", True, ("deploy",), _ALL, ("status", "scale")),
    Resource("apps", "v1", "ReplicaSet", "replicasets", True, ("rs",), _ALL, ("status", "scale")),
    Resource("apps", "v1", "StatefulSet", "statefulsets", True, ("sts",), _ALL, ("status", "scale")),
    Resource("batch", "v1", "CronJob", "cronjobs", True, ("cj",), _ALL, ("status",)),
    Resource("batch", "v1", "Job", "jobs", True, (), _ALL, ("status",)),
    Resource("coordination.k8s.io", "v1", "Lease", "leases", True),
    Resource("events.k8s.io", "v1", "Event", "events", True, ("ev",), stored_as=("", "events")),
    Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True, ("netpol",)),
    Resource("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", False),
    Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, ("pdb",), subresources=("status",)),
    Resource(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False),
    Resource(RBAC, "v1", "ClusterRole", "clusterroles", False),
    Resource(RBAC, "v1", "RoleBinding", "rolebindings", True),
    Resource(RBAC, "v1", "Role", "roles", True),
    Resource("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", False),
    Resource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", True, subresources=("status",)),
    Resource("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", True),
    Resource("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", False),
    Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, ("pc",)),
    Resource("storage.k8s.io", "v1", "CSIDriver", "csidrivers", False),
    Resource("storage.k8s.io", "v1", "CSINode", "csinodes", False),
    Resource("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", True),
    Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, ("sc",)),
    Resource("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", False, subresources=("status",)),
    Resource("storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses", False, ("vac",)),
)

BY_PLURAL: dict[tuple[str, str], Resource] = {(row.group, row.plural): row for row in RESOURCES}
BY_KIND: dict[tuple[str, str], Resource] = {(row.api_version, row.kind): row for row in RESOURCES}
BY_PATH: dict[tuple[str, str, str], Resource] = {(row.group, row.version, row.plural): row for row in RESOURCES}


def group_versions() -> Iterator[tuple[str, str]]:
    """Each (group, version) served, core first, then by name, as discovery lists them."""
    yield from dict.fromkeys((row.group, row.version) for row in RESOURCES)
