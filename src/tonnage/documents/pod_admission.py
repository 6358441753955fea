"""The effect of a stock server's admission plugins on a pod, as pure functions.

DefaultTolerationSeconds runs on every create and update; Priority, PodTopologyLabels and ServiceAccount on create. Two
rules are weaker than upstream's (docs/decisions/022-identities.md): a pod may run as a missing account `default`, and
the token volume is only added for pods that ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tonnage.documents.api_errors import forbidden, forbidden_pod
from tonnage.objects.core_v1.node import REGION, ZONE
from tonnage.objects.document import Doc
from tonnage.objects.node_selectors import NOT_READY, UNREACHABLE
from tonnage.objects.resources import BY_PLURAL

_PRIORITY_CLASSES = BY_PLURAL["scheduling.k8s.io", "priorityclasses"]
_EVICTION_DELAY_S = 300  # upstream's --default-not-ready-toleration-seconds and --default-unreachable-…
_EVICTING_TAINTS = (NOT_READY, UNREACHABLE)
TOPOLOGY_LABELS = (ZONE, REGION)
"""The node labels that pods inherit."""


def tolerate_node_trouble(pod: Doc) -> None:
    """Tolerate a not ready or unreachable node for five minutes, unless the pod states its own toleration."""
    tolerations = pod["spec"].get("tolerations", [])
    spoken_of = {item.get("key", "") for item in tolerations if item.get("effect", "") in ("NoExecute", "")}
    missing = [taint for taint in _EVICTING_TAINTS if not spoken_of & {taint, ""}]
    if missing:
        pod["spec"]["tolerations"] = tolerations + [
            {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICTION_DELAY_S}
            for taint in missing
        ]


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
    return min(
        (item for item in classes if item.get("globalDefault")), key=lambda item: item.get("value", 0), default=None
    )


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


def give_account(pod: Doc) -> None:
    """Let a pod without an account run as `default`, in place. Mirror pods stay unchanged."""
    spec = pod["spec"]
    if not is_mirror(pod) and not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"] = DEFAULT_ACCOUNT


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
        spec["imagePullSecrets"] = [
            {k: v for k, v in each.items() if k == "name" and v} for each in account["imagePullSecrets"]
        ]
    if account["metadata"].get("annotations", {}).get(MOUNTABLE_ANNOTATION) in _TRUE:
        for why in _secrets_not_listed(spec, account):
            raise forbidden_pod(
                pod, f"{why} is not allowed because service account {name} does not reference that secret"
            )
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
        sources = [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_S, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                    ]
                }
            },
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
    fields = ("secretName", "secretRef", "nodePublishSecretRef")
    named = [
        source.get(field)
        for volume in volumes
        for source in volume.values()
        if type(source) is dict
        for field in fields
    ]
    if (
        spec.get("imagePullSecrets")
        or any(True for container in containers for _ in _secrets_of_container(container))
        or any(named)
        or any("secret" in source for source in (*volumes, *sources))
    ):
        raise forbidden_pod(pod, "a mirror pod may not reference secrets")
    if any("serviceAccountToken" in source for source in sources):
        raise forbidden_pod(pod, "a mirror pod may not use ServiceAccountToken volume projections")
