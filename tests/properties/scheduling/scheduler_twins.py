"""The row-local plugins once more, slowly: one node at a time, plain Python on plain documents.

Each function follows one of upstream's (v1.36) step by step, so that it can be read beside it; nothing here uses the
code it is to judge, quantities included. `test_row_local_plugins.py` compares, `scheduler_worlds.py` makes up clusters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

Doc = dict[str, Any]
Exact = dict[str, Fraction]
Refusal = tuple[list[str], bool]
"""(reasons, beyond preemption)"""

MAX_SCORE = 100


# -- resource.Quantity ------------------------------------------------------------------------------------------------

_SUFFIXES = {
    **{suffix: Fraction(10) ** (3 * step - 9) for step, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T"))},
    **{suffix: Fraction(2) ** (10 * step) for step, suffix in enumerate(("", "Ki", "Mi", "Gi", "Ti"))},
}


def exact(text: str) -> Fraction:
    number, suffix = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", text).groups()  # ours are plain
    return Fraction(number) * _SUFFIXES[suffix]


def amount(name: str, value: Fraction) -> int:
    """MilliValue for CPU, Value for the rest; both round up."""
    return math.ceil(value * 1000 if name == "cpu" else value)


# -- component-helpers/resource.PodRequests ---------------------------------------------------------------------------


def pod_requests(
    pod: Doc,
    *,
    skip_pod_level: bool = False,
    use_status: bool = False,
    non_missing: Mapping[str, Fraction] | None = None,
) -> Exact:
    spec, status = pod["spec"], pod.get("status", {})
    requests: Exact = {}
    _add(requests, {})
    statuses = {each["name"]: each for each in status.get("containerStatuses", [])}
    statuses |= {each["name"]: each for each in status.get("initContainerStatuses", [])}

    def of(container: Doc, may_resize: bool) -> Exact:
        asked = _exacts(container.get("resources", {}).get("requests", {}))
        told = statuses.get(container["name"])
        if use_status and may_resize and told is not None and "resources" in told:
            asked = _effective(pod, asked, told["resources"].get("requests", {}), told.get("allocatedResources", {}))
        for name, value in (non_missing or {}).items():
            asked.setdefault(name, value)
        return asked

    for container in spec["containers"]:
        _add(requests, of(container, True))
    restartable: Exact = {}
    highest: Exact = {}
    for container in spec.get("initContainers", []):
        is_sidecar = container.get("restartPolicy") == "Always"
        asked = of(container, is_sidecar)
        if is_sidecar:
            _add(requests, asked)
            _add(restartable, asked)
            asked = dict(restartable)
        else:
            asked = dict(asked)
            _add(asked, restartable)
        _max(highest, asked)
    _max(requests, highest)
    if not skip_pod_level and is_pod_level_set(pod):
        pod_level = spec["resources"]["requests"]
        effective = None
        if use_status and "resources" in status:
            in_force, granted = status["resources"].get("requests", {}), status.get("allocatedResources", {})
            effective = _effective(pod, _exacts(pod_level), in_force, granted)
        for name, text in pod_level.items():
            if _may_be_pod_level(name):
                requests[name] = exact(text) if effective is None else effective.get(name, Fraction(0))
    _add(requests, _exacts(spec.get("overhead", {})))
    return requests


def is_pod_level_set(pod: Doc) -> bool:
    return any(map(_may_be_pod_level, pod["spec"].get("resources", {}).get("requests", {})))


def _may_be_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _effective(pod: Doc, asked: Exact, in_force: Mapping[str, str], granted: Mapping[str, str]) -> Exact:
    """determineEffectiveRequests"""
    conditions = [each for each in pod["status"].get("conditions", []) if each["type"] == "PodResizePending"]
    found = {} if conditions and conditions[0].get("reason") == "Infeasible" else dict(asked)
    _max(found, _exacts(in_force))
    _max(found, _exacts(granted))
    return found


def _exacts(texts: Mapping[str, str]) -> Exact:
    return {name: exact(text) for name, text in texts.items()}


def _add(total: Exact, more: Exact) -> None:
    for name, value in more.items():
        total[name] = total.get(name, Fraction(0)) + value


def _max(most: Exact, other: Exact) -> None:
    for name, value in other.items():
        if name not in most or value > most[name]:
            most[name] = value


# -- framework.Resource and NodeInfo ----------------------------------------------------------------------------------

_DEFAULTS = {"cpu": Fraction(1, 10), "memory": Fraction(200 * 1024 * 1024)}


def is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def is_scalar(name: str) -> bool:
    is_native_scalar = name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name
    return is_extended(name) or is_native_scalar


def resource(exacts: Exact) -> dict[str, int]:
    """Resource.SetMaxResource on an empty Resource."""
    native = ("cpu", "memory", "ephemeral-storage")
    return {name: amount(name, value) for name, value in exacts.items() if name in native or is_scalar(name)}


class NodeInfo:
    """What upstream's scheduler knows of a node and the pods on it."""

    def __init__(self, node: Doc, pods: Sequence[Doc]) -> None:
        self.node = node
        self.name: str = node["metadata"]["name"]
        self.labels: Mapping[str, str] = node["metadata"].get("labels", {})
        self.taints: Sequence[Doc] = node["spec"].get("taints", [])
        self.pods = pods
        offered = _exacts(node["status"].get("allocatable", {}))
        self.allocatable = {name: amount(name, value) for name, value in offered.items()}
        self.requested: dict[str, int] = {}
        self.non_zero = {"cpu": 0, "memory": 0}
        self.ports: set[tuple[str, str, int]] = set()
        for pod in pods:
            self._count(pod)

    def _count(self, pod: Doc) -> None:
        """PodInfo.CalculateResource and NodeInfo.update"""
        requests = pod_requests(pod, use_status=True)
        for name, value in resource(requests).items():
            self.requested[name] = self.requested.get(name, 0) + value
        missing = {name: value for name, value in _DEFAULTS.items() if not (is_pod_level_set(pod) and name in requests)}
        non_zero = pod_requests(pod, use_status=True, non_missing=missing) if missing else requests
        for name in self.non_zero:
            self.non_zero[name] += amount(name, non_zero.get(name, Fraction(0)))
        self.ports |= set(host_ports(pod))


# -- filters ----------------------------------------------------------------------------------------------------------


def node_name(pod: Doc, info: NodeInfo) -> Refusal | None:
    wanted = pod["spec"].get("nodeName", "")
    if wanted in ("", info.name):
        return None
    return ["node(s) didn't match the requested node name"], True


def node_unschedulable(pod: Doc, info: NodeInfo) -> Refusal | None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if not info.node["spec"].get("unschedulable") or tolerated(pod, taint):
        return None
    return ["node(s) were unschedulable"], True


def tolerated(pod: Doc, taint: Doc, effects: Iterable[str] | None = None) -> bool:
    """TolerationsTolerateTaint"""
    for toleration in pod["spec"].get("tolerations", []):
        if effects is not None and toleration.get("effect", "") not in effects:
            continue
        if toleration.get("effect") and toleration["effect"] != taint["effect"]:
            continue
        if toleration.get("key") and toleration["key"] != taint["key"]:
            continue
        operator = toleration.get("operator", "Equal")
        if operator == "Exists" or (operator == "Equal" and toleration.get("value", "") == taint.get("value", "")):
            return True
    return False


def taint_toleration(pod: Doc, info: NodeInfo) -> Refusal | None:
    hard = [taint for taint in info.taints if taint["effect"] in ("NoSchedule", "NoExecute")]
    return None if all(tolerated(pod, taint) for taint in hard) else (["node(s) had untolerated taint(s)"], True)


def host_ports(pod: Doc) -> list[tuple[str, str, int]]:
    """GetHostPorts, sanitized: (address, protocol, port)."""
    sidecars = [each for each in pod["spec"].get("initContainers", []) if each.get("restartPolicy") == "Always"]
    return [
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
        for container in (*sidecars, *pod["spec"]["containers"])
        for port in container.get("ports", [])
        if port.get("hostPort", 0) > 0
    ]


def node_ports(pod: Doc, info: NodeInfo) -> Refusal | None:
    for address, protocol, port in host_ports(pod):
        for used_address, used_protocol, used_port in info.ports:
            clashes = address == used_address or "0.0.0.0" in (address, used_address)
            if clashes and (protocol, port) == (used_protocol, used_port):
                return ["node(s) didn't have free ports for the requested pod ports"], False
    return None


def fit(pod: Doc, info: NodeInfo, ignored: Iterable[str] = (), ignored_groups: Iterable[str] = ()) -> Refusal | None:
    """fitsRequest"""
    asked = resource(pod_requests(pod))
    reasons, is_final = [], False
    if len(info.pods) + 1 > info.allocatable.get("pods", 0):
        reasons.append("Too many pods")
    for name, value in asked.items():
        if value == 0 or (is_extended(name) and (name in ignored or name.split("/")[0] in ignored_groups)):
            continue
        if value > info.allocatable.get(name, 0) - info.requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
            is_final |= value > info.allocatable.get(name, 0)
    return (reasons, is_final) if reasons else None


# -- node affinity ----------------------------------------------------------------------------------------------------


class BadTerm(Exception):
    """A term that cannot be parsed: it matches nothing."""


def _integer(text: str) -> int | None:
    """strconv.ParseInt(text, 10, 64)"""
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        return None
    return int(text) if -(2**63) <= int(text) < 2**63 else None


def _expression_holds(expression: Doc, labels: Mapping[str, str]) -> bool:
    """labels.NewRequirement and Requirement.Matches"""
    operator, values = expression["operator"], expression.get("values", [])
    has, value = expression["key"] in labels, labels.get(expression["key"], "")
    match operator:
        case "In" | "NotIn":
            if not values:
                raise BadTerm
            is_among = has and value in values
            return bool(is_among if operator == "In" else not is_among)
        case "Exists" | "DoesNotExist":
            if values:
                raise BadTerm
            return bool(has == (operator == "Exists"))
        case "Gt" | "Lt":
            if len(values) != 1 or (bound := _integer(values[0])) is None:
                raise BadTerm
            if not has or (number := _integer(value)) is None:
                return False
            return number > bound if operator == "Gt" else number < bound
    raise BadTerm


def _field_holds(expression: Doc, name: str) -> bool:
    operator, values = expression["operator"], expression.get("values", [])
    if operator not in ("In", "NotIn") or len(values) != 1:
        raise BadTerm
    found = name if expression["key"] == "metadata.name" else ""
    return bool((found == values[0]) == (operator == "In"))


def term_matches(term: Doc, info: NodeInfo) -> bool:
    expressions, fields = term.get("matchExpressions", []), term.get("matchFields", [])
    if not expressions and not fields:
        return False
    try:
        # All of them are parsed before any is asked.
        held = [_expression_holds(each, info.labels) for each in expressions]
        held += [_field_holds(each, info.name) for each in fields]
    except BadTerm:
        return False
    return all(held)


def _node_affinity_of(pod: Doc) -> Doc:
    found: Doc = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    return found


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node_affinity(pod: Doc, info: NodeInfo, added: Doc | None = None) -> Refusal | None:
    enforced = (added or {}).get(_REQUIRED)
    if enforced is not None and not any(term_matches(each, info) for each in enforced["nodeSelectorTerms"]):
        return ["node(s) didn't match scheduler-enforced node affinity"], True
    selector = pod["spec"].get("nodeSelector", {})
    required = _node_affinity_of(pod).get(_REQUIRED)
    matches = all(info.labels.get(key) == value for key, value in selector.items())
    if matches and required is not None:
        matches = any(term_matches(each, info) for each in required["nodeSelectorTerms"])
    return None if matches else (["node(s) didn't match Pod's node affinity/selector"], True)


def names_asked_for(pod: Doc) -> set[str] | None:
    """The node names that PreFilter narrows to; None when it does not narrow, empty when the terms conflict."""
    required = _node_affinity_of(pod).get(_REQUIRED)
    if required is None or not required["nodeSelectorTerms"]:
        return None
    found: set[str] = set()
    for term in required["nodeSelectorTerms"]:
        names: set[str] | None = None
        for field in term.get("matchFields", []):
            if field["key"] == "metadata.name" and field["operator"] == "In":
                values = set(field.get("values", []))
                names = values if names is None else names & values
        if names is None:
            return None
        found |= names
    return found


# -- scores -----------------------------------------------------------------------------------------------------------


def node_affinity_score(pod: Doc, info: NodeInfo, added: Doc | None = None) -> int:
    wishes = [*(added or {}).get(_PREFERRED, []), *_node_affinity_of(pod).get(_PREFERRED, [])]
    return sum(wish["weight"] for wish in wishes if term_matches(wish["preference"], info))


def taint_score(pod: Doc, info: NodeInfo) -> int:
    """countIntolerableTaintsPreferNoSchedule"""
    soft = [taint for taint in info.taints if taint["effect"] == "PreferNoSchedule"]
    return sum(not tolerated(pod, taint, effects=("", "PreferNoSchedule")) for taint in soft)


def default_normalize(scores: Sequence[int], *, reverse: bool) -> list[int]:
    """DefaultNormalizeScore"""
    highest = max([*scores, 0])
    if highest == 0:
        return [MAX_SCORE] * len(scores) if reverse else list(scores)
    return [MAX_SCORE - MAX_SCORE * each // highest if reverse else MAX_SCORE * each // highest for each in scores]


def _allocation(
    pod: Doc, info: NodeInfo, resources: Sequence[tuple[str, int]], *, use_requested: bool
) -> list[tuple[int, int, int, int]]:
    """calculateNodeAllocatableRequest: (requested, allocated, allocatable, weight); zeros for what takes no part."""
    requests = pod_requests(pod, skip_pod_level=not use_requested, non_missing=None if use_requested else _DEFAULTS)
    found = []
    for name, weight in resources:
        asked = amount(name, requests.get(name, Fraction(0)))
        has = info.allocatable.get(name, 0)
        if (asked == 0 and is_scalar(name)) or has == 0:
            found.append((0, 0, 0, weight))
            continue
        used = info.requested.get(name, 0) if use_requested or name not in info.non_zero else info.non_zero[name]
        found.append((used + asked, used, has, weight))
    return found


def fit_score(
    pod: Doc,
    info: NodeInfo,
    strategy: str,
    resources: Sequence[tuple[str, int]],
    shape: Sequence[tuple[int, int]] = (),
) -> int:
    """leastResourceScorer, mostResourceScorer, buildRequestedToCapacityRatioScorerFunction (scores of 0 to 10)"""
    total, weights = 0, 0
    for requested, _, capacity, weight in _allocation(pod, info, resources, use_requested=False):
        if capacity == 0:
            continue
        if strategy == "LeastAllocated":
            score = 0 if requested > capacity else (capacity - requested) * MAX_SCORE // capacity
        elif strategy == "MostAllocated":
            score = min(requested, capacity) * MAX_SCORE // capacity
        else:
            score = _along(shape, 100 if requested > capacity else requested * 100 // capacity)
            if score <= 0:
                continue
        total += score * weight
        weights += weight
    if weights == 0:
        return 0
    if strategy == "RequestedToCapacityRatio":
        return math.floor(Fraction(total, weights) + Fraction(1, 2))  # math.Round of what is not negative
    return total // weights


def _along(shape: Sequence[tuple[int, int]], utilization: int) -> int:
    """BuildBrokenLinearFunction"""
    points = [(at, score * 10) for at, score in shape]
    for i, (at, score) in enumerate(points):
        if utilization <= at:
            if i == 0:
                return score
            before, low = points[i - 1]
            return low + int(Fraction((score - low) * (utilization - before), at - before))  # truncates, as Go does
    return points[-1][1]


def balanced_score(pod: Doc, info: NodeInfo, resources: Sequence[tuple[str, int]]) -> int | None:
    """balancedResourceScorer; None when PreScore skips."""
    requests = pod_requests(pod)
    if not any(amount(name, requests.get(name, Fraction(0))) for name, _ in resources):
        return None
    found = _allocation(pod, info, resources, use_requested=True)
    with_pod = _balance([(requested, capacity) for requested, _, capacity, _ in found])
    without_pod = _balance([(allocated, capacity) for _, allocated, capacity, _ in found])
    return 50 + int(Fraction(50 + with_pod - without_pod, 2))


def _balance(uses: Sequence[tuple[int, int]]) -> int:
    """balancedResourceScore"""
    fractions = [min(float(used) / float(capacity), 1.0) for used, capacity in uses if capacity]
    std = 0.0
    if len(fractions) == 2:
        std = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        total = 0.0
        for each in fractions:
            total += each
        mean = total / float(len(fractions))
        squares = 0.0
        for each in fractions:
            squares = squares + (each - mean) * (each - mean)
        std = math.sqrt(squares / float(len(fractions)))
    return int((1 - std) * float(MAX_SCORE))


def image_score(pod: Doc, info: NodeInfo, every: Sequence[NodeInfo]) -> int:
    """sumImageScores and calculatePriority; the size is this node's own."""
    containers = [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
    total = 0
    for container in containers:
        name = _normalized(container["image"])
        sizes = _images(info)
        if name in sizes:
            having = sum(name in _images(other) for other in every)
            total += int(float(sizes[name]) * (float(having) / float(len(every))))
    low, high = 23 * 1024 * 1024, 1000 * 1024 * 1024 * len(containers)
    return MAX_SCORE * (min(max(total, low), high) - low) // (high - low)


def _images(info: NodeInfo) -> dict[str, int]:
    listed = info.node["status"].get("images", [])
    return {_normalized(name): image.get("sizeBytes", 0) for image in listed for name in image["names"]}


def _normalized(name: str) -> str:
    return f"{name}:latest" if name.rfind(":") <= name.rfind("/") else name
