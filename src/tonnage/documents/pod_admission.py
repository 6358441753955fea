"""What the admission plugins of a stock server do to a pod, as pure functions.

Upstream runs them between decoding and the strategy: DefaultTolerationSeconds on every create and update, Priority
and PodTopologyLabels on create. The last two look at other objects, so the caller hands those in.
"""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.documents.api_errors import forbidden
from tonnage.errors import Forbidden
from tonnage.objects.core_v1.node import REGION, ZONE
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_PLURAL
from tonnage.objects.taints import NOT_READY, UNREACHABLE

_PODS = BY_PLURAL["", "pods"]
_PRIORITY_CLASSES = BY_PLURAL["scheduling.k8s.io", "priorityclasses"]

_EVICTION_DELAY_S = 300  # upstream's --default-not-ready-toleration-seconds and --default-unreachable-…
_EVICTING_TAINTS = (NOT_READY, UNREACHABLE)

TOPOLOGY_LABELS = (ZONE, REGION)
"""The labels of a node that its pods inherit."""


def tolerate_node_trouble(pod: Doc) -> None:
    """Let the pod stay five minutes on a node that is not ready or unreachable, unless it says how long itself."""
    tolerations = pod["spec"].get("tolerations", [])
    missing = [taint for taint in _EVICTING_TAINTS if not any(_speaks_of(item, taint) for item in tolerations)]
    if missing:
        pod["spec"]["tolerations"] = tolerations + [
            {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICTION_DELAY_S}
            for taint in missing
        ]


def resolve_priority(pod: Doc, classes: Iterable[Doc]) -> None:
    """Turn the name of a PriorityClass into the number and the preemption policy, in place, at creation.

    Without a name the global default class stands in (the lowest one, should there be several); without any, the
    priority is 0. Raises Forbidden for a class that does not exist, and for a number or policy that contradicts the
    class.
    """
    spec = pod["spec"]
    wanted = spec.get("priorityClassName", "")
    by_name = {item["metadata"]["name"]: item for item in classes}
    if wanted and wanted not in by_name:
        raise _forbidden(pod, f"no PriorityClass with name {wanted} was found")
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
        # A class made before there were policies has none, and then the pod's own stands.
        if stated != computed and computed != "":
            raise _forbidden(
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
    """The class marked as global default; the one of lowest value, should a race have left several."""
    return min(
        (item for item in classes if item.get("globalDefault")), key=lambda item: item.get("value", 0), default=None
    )


def refuse_second_default(priority_class: Doc, classes: Iterable[Doc], *, is_update: bool) -> None:
    """Only one PriorityClass may be the global default. Raises Forbidden when another one is."""
    current = default_priority_class(classes) if priority_class.get("globalDefault") else None
    if current is None:
        return
    name, holder = priority_class["metadata"].get("name", ""), current["metadata"]["name"]
    if not is_update or holder != name:
        told = f"PriorityClass {holder} is already marked as default. Only one default can exist"
        raise forbidden(_PRIORITY_CLASSES, name, told)


def inherit_topology(pod: Doc, node: Doc | None) -> None:
    """Give a pod created with a nodeName that node's zone and region labels, in place; a missing node gives none."""
    found = topology_labels(node)
    if pod["spec"].get("nodeName") and found:
        pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), **found}


def carry_topology(binding: Doc, node: Doc | None) -> None:
    """Let a Binding bring the node's zone and region labels to the pod, in place; they win over the Binding's own.

    Only a Binding that says its target is a Node is looked at, as upstream does.
    """
    found = topology_labels(node)
    if binding.get("target", {}).get("kind") == "Node" and found:
        metadata = binding.setdefault("metadata", {})
        metadata["labels"] = {**metadata.get("labels", {}), **found}


def topology_labels(node: Doc | None) -> dict[str, str]:
    """A node's zone and region labels, those it has."""
    labels = node["metadata"].get("labels", {}) if node is not None else {}
    return {key: labels[key] for key in TOPOLOGY_LABELS if key in labels}


def _speaks_of(toleration: Doc, taint: str) -> bool:
    return toleration.get("key", "") in (taint, "") and toleration.get("effect", "") in ("NoExecute", "")


def _forbidden(pod: Doc, reason: str) -> Forbidden:
    # Before a generated name is filled in upstream has only the prefix to show.
    name = pod["metadata"].get("name") or pod["metadata"].get("generateName", "")
    return forbidden(_PODS, name, reason)
