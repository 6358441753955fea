"""Every resource the API serves, in one table: kind, path, names, scope, subresources and verbs.

Discovery, routing, kubectl's short names and the client's URLs read these rows: a new kind needs a row here, an entry
in a schema file and a strategy. `stored_as` is for the one kind that two APIs serve: an Event of events.k8s.io is a
core Event in another shape.
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
    """(group, plural) of the resource that stores these objects, if it is another one."""
    singular_name: str = ""
    list_kind_name: str = ""
    """Set if a CustomResourceDefinition chooses other names than the usual ones."""

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
        """True if its lists may have this kind: for a resource outside the table, any kind but Status."""
        return kind == self.list_kind or ((self.group, self.plural) not in BY_PLURAL and kind != "Status")

    @cached_property
    def qualified(self) -> str:
        """`pods`, `csinodes.storage.k8s.io`: the name in error messages and store keys."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def stored(self) -> Resource:
        """The resource whose shape its objects have in the store: itself, except for events.k8s.io."""
        return self if self.stored_as is None else BY_PLURAL[self.stored_as]

    @cached_property
    def store_prefix(self) -> str:
        """The prefix of its objects' keys in the store, with a slash at the end."""
        return f"{self.stored.qualified}/"

    @cached_property
    def root(self) -> str:
        """`/api/v1` or `/apis/storage.k8s.io/v1`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def key(self, namespace: str, name: str) -> str:
        """The store's key of one object; `namespace` is ignored for cluster-scoped kinds."""
        return f"{self.store_prefix}{namespace}/{name}" if self.namespaced else f"{self.store_prefix}{name}"

    def path(self, namespace: str = "", name: str = "") -> str:
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.root}{scope}/{self.plural}" + (f"/{name}" if name else "")


_ALL = ("all",)
RBAC = "rbac.authorization.k8s.io"
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
    Resource("", "v1", "ReplicationController", "replicationcontrollers", True, ("rc",), _ALL, ("status", "scale")),
    Resource("", "v1", "ResourceQuota", "resourcequotas", True, ("quota",), subresources=("status",)),
    Resource("", "v1", "Secret", "secrets", True),
    Resource("", "v1", "ServiceAccount", "serviceaccounts", True, ("sa",), subresources=("token",)),
    Resource("", "v1", "Service", "services", True, ("svc",), _ALL, subresources=("status",)),
    Resource(
        *("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False),
        *(("crd", "crds"), ("api-extensions",), ("status",)),
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
    """Every (group, version) served, core first, then by name, as discovery lists them."""
    yield from dict.fromkeys((row.group, row.version) for row in RESOURCES)


BINDINGS = Resource("", "v1", "Binding", "bindings", True)
"""Also an older path to pods/{name}/binding. It stores nothing, so it is not in the table, but clients look for it."""
_AUTHORIZATION = "authorization.k8s.io"
ACCESS_REVIEWS = Resource(_AUTHORIZATION, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False)
"""For `kubectl auth can-i`. Nothing is stored here either."""
LOCAL_ACCESS_REVIEWS = Resource(_AUTHORIZATION, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", True)
RULES_REVIEWS = Resource(_AUTHORIZATION, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False)
SUBJECT_ACCESS_REVIEWS = Resource(_AUTHORIZATION, "v1", "SubjectAccessReview", "subjectaccessreviews", False)
AUTHORIZATION_REVIEWS = (LOCAL_ACCESS_REVIEWS, ACCESS_REVIEWS, RULES_REVIEWS, SUBJECT_ACCESS_REVIEWS)
"""Reviews of one's own rights and of others'."""
_AUTHENTICATION = "authentication.k8s.io"
TOKEN_REVIEWS = Resource(_AUTHENTICATION, "v1", "TokenReview", "tokenreviews", False)
SELF_REVIEWS = Resource(_AUTHENTICATION, "v1", "SelfSubjectReview", "selfsubjectreviews", False)
"""For `kubectl auth whoami`."""
NOT_STORED = (BINDINGS, SELF_REVIEWS, TOKEN_REVIEWS, *AUTHORIZATION_REVIEWS)
_NOT_STORED = frozenset((row.group, row.plural) for row in NOT_STORED)
REVIEW_GROUPS = frozenset((_AUTHENTICATION, _AUTHORIZATION))
"""The groups of reviews: resources of other groups need not be compared with every review."""
REVIEWS_BY_PATH = {(row.group, row.version, row.plural): row for row in NOT_STORED if row is not BINDINGS}
EVICTIONS = Resource("policy", "v1", "Eviction", "evictions", True)
TOKEN_REQUESTS = Resource(_AUTHENTICATION, "v1", "TokenRequest", "tokenrequests", True)
"""The body and the answer of serviceaccounts/{name}/token."""
SCALES = Resource("autoscaling", "v1", "Scale", "scales", True)
_EVERY_VERB = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_VERBS = {
    **{(row.group, row.plural): ("create",) for row in NOT_STORED},
    # All namespaces cannot be deleted at once.
    ("", "namespaces"): tuple(verb for verb in _EVERY_VERB if verb != "deletecollection"),
}
_READ_AND_WRITE = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Subresource:
    """The verbs of a subresource, and its body: objects of `body`, or the object itself."""

    verbs: tuple[str, ...] = _READ_AND_WRITE
    body: Resource | None = None


# Other subresources (status above all) show the object itself.
_SUBRESOURCES = {
    "binding": Subresource(("create",), BINDINGS),
    "eviction": Subresource(("create",), EVICTIONS),
    "finalize": Subresource(("update",)),
    "scale": Subresource(_READ_AND_WRITE, SCALES),
    "token": Subresource(("create",), TOKEN_REQUESTS),
}


def subresource_named(name: str) -> Subresource:
    """The verbs and the body of a subresource; "" is the object itself."""
    return _SUBRESOURCES.get(name, Subresource())


def verbs_of(resource: Resource, subresource: str = "") -> tuple[str, ...]:
    """The verbs of a resource, or of one of its subresources, sorted."""
    if subresource:
        return subresource_named(subresource).verbs
    return _VERBS.get((resource.group, resource.plural), _EVERY_VERB)


def is_stored(resource: Resource) -> bool:
    """True if it has stored objects. Every request needs this, so it compares no fields."""
    return (resource.group, resource.plural) not in _NOT_STORED


_RETURNS_DELETED = frozenset(
    {"persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "resourcequotas", "serviceaccounts"}
    | {"services", "deviceclasses.resource.k8s.io", "resourceclaims.resource.k8s.io"}
    | {"resourceclaimtemplates.resource.k8s.io", "resourceslices.resource.k8s.io", "csidrivers.storage.k8s.io"}
    | {"csinodes.storage.k8s.io", "storageclasses.storage.k8s.io", "volumeattachments.storage.k8s.io"}
)


def returns_deleted(resource: Resource) -> bool:
    """True if DELETE of one object answers with the object instead of a Status; a collection never does."""
    return resource.qualified in _RETURNS_DELETED
