"""The admission plugins of a stock kube-apiserver, as far as they concern storage and scheduling.

Unlike a strategy, these rules read other objects, by a `Lister`: LimitRanger, ServiceAccount, Priority, RuntimeClass,
DefaultStorageClass, PodTopologyLabels, NamespaceLifecycle. `mutate_create` and `validate_…` are separate because
objects from files are mutated alike, but not validated against the other objects in the files. Two rules are weaker
than upstream's (docs/decisions/022-identities.md): a pod may run as a missing account `default`, and the token volume
is only added for pods that ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from tonnage.documents.api_errors import forbidden, forbidden_pod, not_found
from tonnage.documents.kinds.limit_range import broken_limits, give_defaults
from tonnage.documents.kinds.pods.pod_defaults import tolerate_node_trouble
from tonnage.documents.kinds.priority_class import SYSTEM_PRIORITIES
from tonnage.documents.kinds.runtime_class import obey_runtime_class, refuse_foreign_overhead
from tonnage.documents.kinds.storage.persistent_volume_claim import resize_refusal
from tonnage.documents.kinds.storage.storage_class import default_class_for
from tonnage.errors import Cause
from tonnage.objects.core_v1 import class_name_in
from tonnage.objects.core_v1.pod import REGION, ZONE
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_PLURAL, Resource

SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
UNDELETABLE_NAMESPACES = ("default", "kube-system", "kube-public")
SYSTEM_PRIORITY_CLASSES: tuple[Doc, ...] = tuple(
    {"metadata": {"name": name}, "value": SYSTEM_PRIORITIES[name], "description": description}
    for name, description in (
        ("system-cluster-critical", "For what the cluster cannot do without, on whichever node."),
        ("system-node-critical", "For what a node cannot do without; nothing has a higher priority."),
    )
)


def kubernetes_service(port: int) -> Doc:
    """The Service `default/kubernetes` for the API server on `port`, with an address because clients read it."""
    return {
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": "10.0.0.1",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
    }


_NAMESPACES = BY_PLURAL["", "namespaces"]
_NODES = BY_PLURAL["", "nodes"]
_LIMIT_RANGES = BY_PLURAL["", "limitranges"]
_PODS = BY_PLURAL["", "pods"]
_SERVICE_ACCOUNTS = BY_PLURAL["", "serviceaccounts"]
_CLAIMS = BY_PLURAL["", "persistentvolumeclaims"]
_RUNTIME_CLASSES = BY_PLURAL["node.k8s.io", "runtimeclasses"]
_STORAGE_CLASSES = BY_PLURAL["storage.k8s.io", "storageclasses"]
_PRIORITY_CLASSES = BY_PLURAL["scheduling.k8s.io", "priorityclasses"]
# The kinds whose objects admission lists, in the namespace or in the whole cluster, for a new object.
READ_FOR = {
    _PODS: (_PRIORITY_CLASSES, _LIMIT_RANGES),
    _CLAIMS: (_STORAGE_CLASSES, _LIMIT_RANGES),
    _PRIORITY_CLASSES: (_PRIORITY_CLASSES,),
}


class Lister(Protocol):
    """Reads the current objects: one by name, all of a kind, or a kind in one namespace."""

    def get(self, resource: Resource, name: str, namespace: str = "") -> Doc | None: ...

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Doc]: ...


class Admission:
    """The admission plugins of one server.

    `is_whole`: an object that the lister lacks does not exist (manifests may leave out objects that they name).
    `generate_name` names the volumes that admission adds to pods.
    """

    def __init__(
        self, lister: Lister, *, is_whole: bool = True, generate_name: Callable[[str], str] = lambda base: base
    ) -> None:
        self._lister = lister
        self._is_whole = is_whole
        self._generate_name = generate_name

    def mutate_create(self, resource: Resource, doc: Doc, *, keep_priority: bool = False) -> None:
        """Fill in, in place, what depends on other objects. `keep_priority` keeps spec.priority. Raises Forbidden."""
        match resource.qualified:  # by group too: a custom kind may be called Pod
            case "pods":
                for limit_range in self._limit_ranges(doc):
                    give_defaults(doc, limit_range)
                name = doc["spec"].get("serviceAccountName")
                if not name and not is_mirror(doc):
                    name = doc["spec"]["serviceAccountName"] = doc["spec"]["serviceAccount"] = DEFAULT_ACCOUNT
                if self._is_whole:
                    account = self._lister.get(_SERVICE_ACCOUNTS, name, doc["metadata"]["namespace"]) if name else None
                    obey_account(doc, account, self._generate_name)
                if not (keep_priority and "priority" in doc["spec"]):
                    resolve_priority(doc, self._lister.list(_PRIORITY_CLASSES))
                if node_name := doc["spec"].get("nodeName"):
                    inherit_topology(doc, self._lister.get(_NODES, node_name))
                runtime_class = self._runtime_class(doc)
                if runtime_class is not None:
                    tolerate_node_trouble(doc)  # comes first upstream: the order of tolerations is visible
                    obey_runtime_class(doc, runtime_class)
            case "persistentvolumeclaims":
                chosen = default_class_for(doc, list(self._lister.list(_STORAGE_CLASSES)))
                if chosen is not None:
                    doc.setdefault("spec", {})["storageClassName"] = chosen

    def validate_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        """Raise NotFound if the object's namespace does not exist, Forbidden if it is being deleted."""
        found = self._lister.get(_NAMESPACES, namespace)
        if found is None:
            raise not_found(_NAMESPACES, namespace)
        if "deletionTimestamp" in found["metadata"]:
            raise forbidden(
                resource,
                name,
                f"unable to create new content in namespace {namespace} because it is being terminated",
                Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"),
            )

    def validate_create(self, resource: Resource, doc: Doc) -> None:
        """Judge a new object that passed the validation of its kind. Raises Forbidden."""
        match resource.qualified:  # by group too: a custom kind may be called Pod
            case "priorityclasses.scheduling.k8s.io":
                refuse_second_default(doc, self._lister.list(_PRIORITY_CLASSES), is_update=False)
            case "pods":
                self._refuse_beyond_limits(resource, doc)
                refuse_foreign_overhead(doc, self._runtime_class(doc))
            case "persistentvolumeclaims":
                self._refuse_beyond_limits(resource, doc)

    def validate_update(self, resource: Resource, new: Doc, old: Doc) -> None:
        """Judge an update that passed the validation of its kind. Raises Forbidden."""
        match resource.qualified:  # by group too: a custom kind may be called Pod
            case "priorityclasses.scheduling.k8s.io":
                refuse_second_default(new, self._lister.list(_PRIORITY_CLASSES), is_update=True)
            case "persistentvolumeclaims":
                if "deletionTimestamp" not in old["metadata"]:
                    self._refuse_beyond_limits(resource, new)
                storage_class = self._lister.get(_STORAGE_CLASSES, class_name_in(new) or "")
                refusal = resize_refusal(new, old, storage_class)
                if refusal is not None:
                    raise forbidden(resource, new["metadata"]["name"], refusal)

    def _limit_ranges(self, doc: Doc) -> Iterable[Doc]:
        return self._lister.list(_LIMIT_RANGES, doc["metadata"].get("namespace", ""))

    def _refuse_beyond_limits(self, resource: Resource, doc: Doc) -> None:
        for limit_range in self._limit_ranges(doc):
            if why := broken_limits(resource.kind, doc, limit_range):
                raise forbidden(resource, doc["metadata"].get("name", ""), why)

    def _runtime_class(self, pod: Doc) -> Doc | None:
        if "runtimeClassName" not in pod["spec"]:
            return None
        name = pod["spec"]["runtimeClassName"]
        found = self._lister.get(_RUNTIME_CLASSES, name)
        if found is None and self._is_whole:
            raise forbidden_pod(pod, f'pod rejected: RuntimeClass "{name}" not found')
        return found

    def validate_delete(self, resource: Resource, name: str) -> None:
        """Raise Forbidden for namespaces and priority classes that Kubernetes itself needs."""
        if resource is _NAMESPACES and name in UNDELETABLE_NAMESPACES:
            raise forbidden(resource, name, "this namespace may not be deleted")
        if resource is _PRIORITY_CLASSES and name in SYSTEM_PRIORITIES:
            raise forbidden(resource, name, "this is a system priority class and cannot be deleted")


TOPOLOGY_LABELS = (ZONE, REGION)
"""The node labels that pods inherit."""


def resolve_priority(pod: Doc, classes: Iterable[Doc]) -> None:
    """Turn the name of a PriorityClass, or the global default, into number and preemption policy, in place.

    Raises Forbidden for a class that does not exist, and for a number or policy that contradicts the class.
    """
    spec = pod["spec"]
    wanted = spec.get("priorityClassName", "")
    by_name = {item["metadata"]["name"]: item for item in classes}
    if wanted and wanted not in by_name:
        raise forbidden_pod(pod, f"no PriorityClass with name {wanted} was found")
    found = by_name[wanted] if wanted else default_priority_class(by_name.values())
    if found is None:
        name, priority, policy = "", 0, "PreemptLowerPriority"
    else:
        name = found["metadata"]["name"]
        priority = found.get("value", 0)
        policy = found.get("preemptionPolicy", "")

    given, asked = spec.get("priority", priority), spec.get("preemptionPolicy", policy)
    for what, stated, computed in (
        ("the integer value of priority", given, priority),
        ("the string value of PreemptionPolicy", asked, policy),
    ):
        # A class from before policies existed has none; then the pod's own stands.
        if stated != computed and computed != "":
            raise forbidden_pod(
                pod,
                f"{what} ({stated}) must not be provided in pod spec; "
                f"priority admission controller computed {computed} from the given PriorityClass name",
            )
    if name:
        spec["priorityClassName"] = name
    spec["priority"] = priority
    if asked:
        spec["preemptionPolicy"] = asked


def default_priority_class(classes: Iterable[Doc]) -> Doc | None:
    """The class marked as global default; the one of lowest value if a race has left several."""
    defaults = (item for item in classes if item.get("globalDefault"))
    return min(defaults, key=lambda item: item.get("value", 0), default=None)


def refuse_second_default(priority_class: Doc, classes: Iterable[Doc], *, is_update: bool) -> None:
    """Raise Forbidden if another PriorityClass is already the global default."""
    current = default_priority_class(classes) if priority_class.get("globalDefault") else None
    if current is None:
        return
    name, holder = priority_class["metadata"].get("name", ""), current["metadata"]["name"]
    if not is_update or holder != name:
        told = f"PriorityClass {holder} is already marked as default. Only one default can exist"
        raise forbidden(_PRIORITY_CLASSES, name, told)


def inherit_topology(pod: Doc, node: Doc | None) -> None:
    """Give a pod created with a nodeName that node's zone and region labels, in place; a missing node has none."""
    found = topology_labels(node)
    if pod["spec"].get("nodeName") and found:
        pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), **found}


def carry_topology(binding: Doc, node: Doc | None) -> None:
    """Add the node's zone and region labels to a Binding, in place, which brings them to the pod."""
    found = topology_labels(node)
    if binding.get("target", {}).get("kind") == "Node" and found:
        metadata = binding.setdefault("metadata", {})
        metadata["labels"] = {**metadata.get("labels", {}), **found}


def topology_labels(node: Doc | None) -> dict[str, str]:
    labels = node["metadata"].get("labels", {}) if node is not None else {}
    return {key: labels[key] for key in TOPOLOGY_LABELS if key in labels}


DEFAULT_ACCOUNT: Final = "default"
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
MOUNTABLE_ANNOTATION: Final = "kubernetes.io/enforce-mountable-secrets"
TOKEN_VOLUME_PREFIX: Final = "kube-api-access-"
TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_S: Final = 60 * 60 + 7
"""The token's requested lifetime, by which the server recognises this volume (`verbs/reviews.py`)."""
_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))  # Go's ParseBool


def obey_account(pod: Doc, account: Doc | None, generate_name: Callable[[str], str]) -> None:
    """Apply the account's settings to a pod, in place. Raises Forbidden, in upstream's words."""
    spec = pod["spec"]
    if is_mirror(pod):
        _refuse_references_of_mirror(pod)
        return
    name = spec["serviceAccountName"]
    if account is None:
        if name == DEFAULT_ACCOUNT:
            return
        at = f"{pod['metadata'].get('namespace', '')}/{name}"
        raise forbidden_pod(pod, f'error looking up service account {at}: serviceaccount "{name}" not found')
    if spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", False)):
        _mount_token(spec, generate_name)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        pulled = account["imagePullSecrets"]
        spec["imagePullSecrets"] = [{"name": each["name"]} if each.get("name") else {} for each in pulled]
    if account["metadata"].get("annotations", {}).get(MOUNTABLE_ANNOTATION) in _TRUE:
        for why in _secrets_not_listed(spec, account):
            told = f"because service account {name} does not reference that secret"
            raise forbidden_pod(pod, f"{why} is not allowed {told}")
        allowed = {each.get("name", "") for each in account.get("imagePullSecrets", ())}
        for i, each in enumerate(spec.get("imagePullSecrets", ())):
            if (secret := each.get("name", "")) not in allowed:
                why = f"because service account {name} does not reference that imagePullSecret"
                raise forbidden_pod(pod, f'imagePullSecrets[{i}].name="{secret}" is not allowed {why}')


def is_mirror(pod: Doc) -> bool:
    return MIRROR_ANNOTATION in pod["metadata"].get("annotations", {})


def _mount_token(spec: Doc, generate_name: Callable[[str], str]) -> None:
    """Mount token, CA and namespace into every container that has no other mount at that path."""
    volumes = spec.get("volumes", ())
    existing = next((each["name"] for each in volumes if each.get("name", "").startswith(TOKEN_VOLUME_PREFIX)), None)
    name = existing or generate_name(TOKEN_VOLUME_PREFIX)
    is_needed = False
    for field in ("initContainers", "containers"):
        for container in spec.get(field, ()):
            mounts = container.get("volumeMounts", [])
            if all(mount.get("mountPath") != TOKEN_PATH for mount in mounts):
                container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}]
                is_needed = True
    if is_needed and existing is None:
        namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
        sources = [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_S, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
        ]
        spec["volumes"] = [*volumes, {"name": name, "projected": {"sources": sources, "defaultMode": 0o644}}]


def _secrets_not_listed(spec: Doc, account: Doc) -> Iterator[str]:
    """References of a pod to secrets that its account does not list, in upstream's order and words."""
    listed = {each.get("name", "") for each in account.get("secrets", ())}
    for volume in spec.get("volumes", ()):
        if "secret" in volume and (name := volume["secret"].get("secretName", "")) not in listed:
            yield f'volume with secret.secretName="{name}"'
    for field, kind in (("initContainers", "init container"), ("containers", "container")):
        for container in spec.get(field, ()):
            for how, name in _secrets_of_container(container):
                if name not in listed:
                    yield f'{kind} {container.get("name", "")} with {how} referencing secret.secretName="{name}"'


def _secrets_of_container(container: Doc) -> Iterator[tuple[str, str]]:
    for env in container.get("env", ()):
        if (ref := env.get("valueFrom", {}).get("secretKeyRef")) is not None:
            yield f"envVar {env.get('name', '')}", ref.get("name", "")
    for source in container.get("envFrom", ()):
        if (ref := source.get("secretRef")) is not None:
            yield "envFrom", ref.get("name", "")


def _refuse_references_of_mirror(pod: Doc) -> None:
    """A mirror pod shows a file of its node, and that file has no rights in the cluster."""
    spec = pod["spec"]
    if spec.get("serviceAccountName"):
        raise forbidden_pod(pod, "a mirror pod may not reference service accounts")
    containers = [each for field in ("initContainers", "containers") for each in spec.get(field, ())]
    volumes = spec.get("volumes", ())
    sources = [source for volume in volumes for source in volume.get("projected", {}).get("sources", ())]
    # Drivers of CSI, RBD, CephFS and others name a secret in one of these fields.
    fields = {"secretName", "secretRef", "nodePublishSecretRef"}
    details = [detail for volume in volumes for detail in volume.values() if type(detail) is dict]
    if (
        spec.get("imagePullSecrets")
        or any(True for container in containers for _ in _secrets_of_container(container))
        or any(detail.get(field) for detail in details for field in fields)
        or any("secret" in source for source in (*volumes, *sources))
    ):
        raise forbidden_pod(pod, "a mirror pod may not reference secrets")
    if any("serviceAccountToken" in source for source in sources):
        raise forbidden_pod(pod, "a mirror pod may not use ServiceAccountToken volume projections")
