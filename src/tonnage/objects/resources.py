"""Every resource the API serves, in one table: kind, path, names, scope, subresources, and what may be done with each.

Discovery, routing, kubectl's short names and the client's URLs read these rows: a kind is added by a row here, a schema
file entry and a strategy. `stored_as` is for the one kind that two APIs serve: an Event of events.k8s.io is a core
Event in another shape.
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
    """Each (group, version) served, core first, then by name, as discovery lists them."""
    yield from dict.fromkeys((row.group, row.version) for row in RESOURCES)


BINDINGS = Resource("", "v1", "Binding", "bindings", True)
"""Also an older way to pods/{name}/binding. Nothing is stored there, so it is not in the table of resources, but
clients look for it."""
_AUTHORIZATION = "authorization.k8s.io"
ACCESS_REVIEWS = Resource(_AUTHORIZATION, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False)
"""What `kubectl auth can-i` asks. Nothing is stored there either."""
LOCAL_ACCESS_REVIEWS = Resource(_AUTHORIZATION, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", True)
RULES_REVIEWS = Resource(_AUTHORIZATION, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False)
SUBJECT_ACCESS_REVIEWS = Resource(_AUTHORIZATION, "v1", "SubjectAccessReview", "subjectaccessreviews", False)
AUTHORIZATION_REVIEWS = (LOCAL_ACCESS_REVIEWS, ACCESS_REVIEWS, RULES_REVIEWS, SUBJECT_ACCESS_REVIEWS)
"""Questions about rights, one's own and others'."""
_AUTHENTICATION = "authentication.k8s.io"
TOKEN_REVIEWS = Resource(_AUTHENTICATION, "v1", "TokenReview", "tokenreviews", False)
SELF_REVIEWS = Resource(_AUTHENTICATION, "v1", "SelfSubjectReview", "selfsubjectreviews", False)
"""What `kubectl auth whoami` asks."""
NOT_STORED = (BINDINGS, SELF_REVIEWS, TOKEN_REVIEWS, *AUTHORIZATION_REVIEWS)
_NOT_STORED = frozenset((row.group, row.plural) for row in NOT_STORED)
REVIEW_GROUPS = frozenset((_AUTHENTICATION, _AUTHORIZATION))
"""The groups of reviews; all else need not be compared with each of them."""
REVIEWS_BY_PATH = {(row.group, row.version, row.plural): row for row in NOT_STORED if row is not BINDINGS}
EVICTIONS = Resource("policy", "v1", "Eviction", "evictions", True)
TOKEN_REQUESTS = Resource(_AUTHENTICATION, "v1", "TokenRequest", "tokenrequests", True)
"""What serviceaccounts/{name}/token takes and gives."""
SCALES = Resource("autoscaling", "v1", "Scale", "scales", True)
_EVERY_VERB = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_VERBS = {
    **{(row.group, row.plural): ("create",) for row in NOT_STORED},
    # Deleting all namespaces at once is the one thing that a collection does not offer.
    ("", "namespaces"): tuple(verb for verb in _EVERY_VERB if verb != "deletecollection"),
}
_READ_AND_WRITE = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Subresource:
    """What one endpoint below an object offers, and in what it deals: objects of `body`, or the object itself."""

    verbs: tuple[str, ...] = _READ_AND_WRITE
    body: Resource | None = None


# Whatever is not listed here (status above all) shows the object itself.
_SUBRESOURCES = {
    "binding": Subresource(("create",), BINDINGS),
    "eviction": Subresource(("create",), EVICTIONS),
    "finalize": Subresource(("update",)),
    "scale": Subresource(_READ_AND_WRITE, SCALES),
    "token": Subresource(("create",), TOKEN_REQUESTS),
}


def subresource_named(name: str) -> Subresource:
    """What a subresource deals in; "" is the object itself."""
    return _SUBRESOURCES.get(name, Subresource())


def verbs_of(resource: Resource, subresource: str = "") -> tuple[str, ...]:
    """What may be done with a resource, or with one of its subresources, sorted."""
    if subresource:
        return subresource_named(subresource).verbs
    return _VERBS.get((resource.group, resource.plural), _EVERY_VERB)


def is_stored(resource: Resource) -> bool:
    """Are there objects of it? It is asked of every request, so nothing is compared field by field."""
    return (resource.group, resource.plural) not in _NOT_STORED


_RETURNS_DELETED = frozenset(
    {"persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "resourcequotas", "serviceaccounts"}
    | {"services", "deviceclasses.resource.k8s.io", "resourceclaims.resource.k8s.io"}
    | {"resourceclaimtemplates.resource.k8s.io", "resourceslices.resource.k8s.io", "csidrivers.storage.k8s.io"}
    | {"csinodes.storage.k8s.io", "storageclasses.storage.k8s.io", "volumeattachments.storage.k8s.io"}
)


def returns_deleted(resource: Resource) -> bool:
    """Whether DELETE answers with the object that is gone (or going) instead of a Status; of a collection never."""
    return resource.qualified in _RETURNS_DELETED
