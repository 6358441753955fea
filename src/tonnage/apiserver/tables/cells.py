"""Cells as `kubectl get` shows them: the functions that `kubectl.columns` names. Those of pods are in `pods`.

A function takes the value at the column's path (None if absent), or the document and `now`: nothing reads a clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from tonnage.documents.kinds.storage.storage_class import is_default_class
from tonnage.objects import codec, core_v1, storage_v1
from tonnage.objects.document import Doc, dig
from tonnage.objects.selectors import LabelSelector
from tonnage.quantity import Quantity

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"
Cell = str | int | float | bool | None
"""None if a custom resource has no value."""


def text(value: Any, missing: str = "") -> Cell:
    """The value as text; `missing` when it is absent or empty."""
    return str(value or missing)


def given(value: Any, missing: str) -> Cell:
    """The value as text; `missing` only if it is absent: an empty string stays empty."""
    return missing if value is None else str(value)


def number(value: int | None) -> Cell:
    return int(value or 0)


def flag(value: bool | None, missing: str = "") -> Cell:
    return missing == "true" if value is None else bool(value)


def count(items: list[Any] | None) -> Cell:
    return len(items or ())


def words(items: list[str] | None) -> Cell:
    return ",".join(items or ()) or NONE


def created(doc: Doc, now: datetime) -> Cell:
    return age(dig(doc, "metadata", "creationTimestamp"), now)


def age(timestamp: str | None, now: datetime) -> str:
    """How long ago an RFC 3339 timestamp was: `118s`, `4m5s`, `7h30m`, `3d`."""
    return elapsed(now - datetime.fromisoformat(timestamp)) if timestamp else UNKNOWN


_DAY_S, _YEAR_S = 86_400, 365 * 86_400
_SPANS = (
    (120, 1, "s", 1, ""), (600, 60, "m", 1, "s"), (10_800, 60, "m", 60, ""), (8 * 3600, 3600, "h", 60, "m"),
    (2 * _DAY_S, 3600, "h", 3600, ""), (8 * _DAY_S, _DAY_S, "d", 3600, "h"), (2 * _YEAR_S, _DAY_S, "d", _DAY_S, ""),
    (8 * _YEAR_S, _YEAR_S, "y", _DAY_S, "d"), (math.inf, _YEAR_S, "y", _YEAR_S, ""),
)  # fmt: skip
"""Seconds up to which a duration has this form: its unit, and the smaller unit for the rest, if that is shown."""


def elapsed(span: timedelta) -> str:
    """A duration to two or three significant figures, mirroring upstream's duration.HumanDuration."""
    seconds = int(span.total_seconds())  # towards zero, as Go does: -1.9 s is -1
    if seconds < -1:
        return "<invalid>"
    _, unit_s, unit, rest_s, rest = next(form for form in _SPANS if seconds < form[0])
    large, left = divmod(max(seconds, 0), unit_s)
    small = left // rest_s
    return f"{large}{unit}{small}{rest}" if rest and small else f"{large}{unit}"


def size(value: str | int | float | None) -> str:
    """A quantity in canonical form; a missing one is `0`, as Go's zero value prints."""
    return str(Quantity.of(value))


def labels(pairs: dict[str, str] | None) -> str:
    """`app=web,tier=db`, sorted by key."""
    return ",".join(f"{key}={value}" for key, value in sorted((pairs or {}).items())) or NONE


def selector(wanted: Doc | None, everything: str = "") -> str:
    """A label selector in the syntax of `kubectl get -l`, sorted by key; `everything` when it selects everything."""
    return everything if wanted is None else str(codec.convert(LabelSelector, wanted)) or everything


_ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
"""In the order of the cell, whatever the object's order."""


def access_modes(modes: Iterable[str] | None) -> str:
    """`RWO,ROX`: each mode once, by its initials."""
    asked = set(modes or ())
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in asked)


def joined(items: Iterable[Doc] | None, field: str) -> str:
    """One field of every item, with commas between."""
    return ",".join(str(item.get(field, "")) for item in items or ())


def condition_status(conditions: Iterable[Doc] | None, kind: str) -> str:
    """The `status` of the first condition of a type, empty when there is none."""
    return next((str(found.get("status", "")) for found in conditions or () if found.get("type") == kind), "")


# -- storage ----------------------------------------------------------------------------------------------------------

_MOST_POOLS = 8
_WIDEST = 80
"""The longest cell."""


def storage_class(doc: Doc, now: datetime) -> Cell:
    return core_v1.class_name_in(doc) or ""


def claim(reference: Doc | None) -> Cell:
    return "" if reference is None else f"{reference.get('namespace', '')}/{reference.get('name', '')}"


def audiences(requests: list[Doc] | None) -> Cell:
    return UNSET if requests is None else joined(requests, "audience")


def phase(doc: Doc, now: datetime) -> Cell:
    """`Terminating` is no phase, but people want to read it here."""
    if dig(doc, "metadata", "deletionTimestamp") is not None:
        return "Terminating"
    return str(dig(doc, "status", "phase") or "")


def claim_capacity(claim: Doc, now: datetime) -> Cell:
    """The volume's size; empty for a claim without a volume, whatever it asks for."""
    return size(dig(claim, "status", "capacity", "storage")) if dig(claim, "spec", "volumeName") else ""


def claim_access_modes(claim: Doc, now: datetime) -> Cell:
    return access_modes(dig(claim, "status", "accessModes")) if dig(claim, "spec", "volumeName") else ""


def class_name(doc: Doc, now: datetime) -> Cell:
    name = str(doc["metadata"]["name"])
    return f"{name} (default)" if is_default_class(doc) else name


def reached_nodes(topology: Doc | None) -> Cell:
    """The nodes that reach the storage, as a selector; `<none>` without a topology, `<all>` for any node."""
    return NONE if topology is None else _fitting(selector(topology)) or "<all>"


def _fitting(text: str) -> str:
    """A text cut so that the line stays readable: a selector may name a hundred zones."""
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"


def amount(value: Any) -> Cell:
    return UNSET if value is None else size(value)


def pools(capacity: Doc, now: datetime) -> Cell:
    """The free bytes of each pool, as many as fit into a cell."""
    sizes = dig(capacity, "availableCapacities")
    if not sizes:
        annotation = str(dig(capacity, "metadata", "annotations", storage_v1.AVAILABLE_CAPACITIES) or "")
        sizes = [part.strip() for part in annotation.split(",") if part.strip()]
    shown = _fitting(",".join(map(str, sizes[:_MOST_POOLS])))
    return f"{shown},… ({len(sizes)})" if len(sizes) > _MOST_POOLS else shown or NONE


# -- workloads --------------------------------------------------------------------------------------------------------


def ready_replicas(doc: Doc, now: datetime) -> Cell:
    return f"{dig(doc, 'status', 'readyReplicas') or 0}/{dig(doc, 'spec', 'replicas') or 0}"


def controller(revision: Doc, now: datetime) -> Cell:
    """`statefulset.apps/web`: the controlling owner."""
    owners = dig(revision, "metadata", "ownerReferences") or ()
    owner = next((owner for owner in owners if owner.get("controller")), None)
    if owner is None:
        return NONE
    group, slash, _ = owner["apiVersion"].partition("/")
    kind = f"{owner['kind']}.{group}" if slash else owner["kind"]
    return f"{kind.lower()}/{owner['name']}"


_JOB_STATES = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def job_status(job: Doc, now: datetime) -> Cell:
    """The first state that is true, final ones first."""
    conditions = dig(job, "status", "conditions") or ()
    states = {condition.get("type") for condition in conditions if condition.get("status") == "True"}
    if dig(job, "metadata", "deletionTimestamp") is not None:
        states.add("Terminating")
    return next((state for state in _JOB_STATES if state in states), "Running")


def completions(job: Doc, now: datetime) -> Cell:
    """`2/5`; without `completions` `1/1 of 3`: one of three pods is enough."""
    succeeded, wanted = dig(job, "status", "succeeded") or 0, dig(job, "spec", "completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = dig(job, "spec", "parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def duration(job: Doc, now: datetime) -> Cell:
    started, ended = dig(job, "status", "startTime"), dig(job, "status", "completionTime")
    if started is None:
        return ""
    until = datetime.fromisoformat(ended) if ended is not None else now
    return elapsed(until - datetime.fromisoformat(started))


def last_schedule(job: Doc, now: datetime) -> Cell:
    at = dig(job, "status", "lastScheduleTime")
    return NONE if at is None else age(at, now)


# -- the device API, quotas, roles, settings ---------------------------------------------------------------------------


def claim_state(claim: Doc, now: datetime) -> Cell:
    """`pending`, `allocated`, `allocated,reserved`, with `deleted` in front while it waits to go."""
    words = ["deleted"] if dig(claim, "metadata", "deletionTimestamp") is not None else []
    if dig(claim, "status", "allocation") is not None:
        words += ["allocated", "reserved"] if dig(claim, "status", "reservedFor") else ["allocated"]
    return ",".join(words or ["pending"])


def quota(status: Doc | None, part: str) -> Cell:
    """`pods: 1/5, requests.cpu: 250m/2`: used and hard, of the names that begin with `limits.` or of the others."""
    hard, used = dig(status or {}, "hard") or {}, dig(status or {}, "used") or {}
    shown = [name for name in sorted(hard) if name.startswith("limits.") is (part == "limits")]
    return ", ".join(f"{name}: {size(used.get(name))}/{size(hard[name])}" for name in shown)


def role(reference: Doc | None) -> Cell:
    return f"{dig(reference or {}, 'kind') or ''}/{dig(reference or {}, 'name') or ''}"


def subjects(items: list[Doc] | None, kind: str) -> Cell:
    """The subjects of one kind, accounts with their namespace."""
    named = [(each.get("namespace", ""), str(each.get("name", ""))) for each in items or () if each.get("kind") == kind]
    return ", ".join(f"{namespace}/{name}" if kind == "ServiceAccount" else name for namespace, name in named)


def entries(config_map: Doc, now: datetime) -> Cell:
    return len(config_map.get("data", ())) + len(config_map.get("binaryData", ()))


# -- services ---------------------------------------------------------------------------------------------------------


def cluster_ip(service: Doc, now: datetime) -> Cell:
    spec = service.get("spec", {})
    first = next(iter(spec.get("clusterIPs", ())), None)
    return str(first or spec.get("clusterIP") or NONE)


def external_ip(service: Doc, now: datetime) -> Cell:
    """Addresses from outside, by type; a load balancer that has none yet is `<pending>`."""
    spec = service.get("spec", {})
    given = list(spec.get("externalIPs", ()))
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or NONE
        case "LoadBalancer":
            ingress = dig(service, "status", "loadBalancer", "ingress") or ()
            balancers = {str(point.get("ip") or point.get("hostname") or "") for point in ingress} - {""}
            return ",".join(sorted(balancers) + given) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return UNKNOWN


def ports(items: list[Doc] | None) -> Cell:
    return ",".join(map(_port, items or ())) or NONE


def _port(port: Doc) -> str:
    """`80/TCP`, or `80:30080/TCP` where a node port leads to it."""
    inside = f"{port['port']}:{port['nodePort']}" if port.get("nodePort") else str(port["port"])
    return f"{inside}/{port.get('protocol', '')}"


# -- nodes ------------------------------------------------------------------------------------------------------------

_ROLE_PREFIX = "node-role.kubernetes.io/"


def node_status(node: Doc, now: datetime) -> Cell:
    """`Ready`, `NotReady` or `Unknown`, and `SchedulingDisabled` behind it when the node is cordoned."""
    is_ready = condition_status(dig(node, "status", "conditions"), "Ready")
    word = {"True": "Ready", "": "Unknown"}.get(is_ready, "NotReady")
    return f"{word},SchedulingDisabled" if dig(node, "spec", "unschedulable") else word


def roles(node: Doc, now: datetime) -> Cell:
    """Names behind `node-role.kubernetes.io/`, and the value of `kubernetes.io/role`."""
    of_node = dig(node, "metadata", "labels") or {}
    names = {key.removeprefix(_ROLE_PREFIX) for key in of_node if key.startswith(_ROLE_PREFIX)}
    names.add(of_node.get("kubernetes.io/role", ""))
    return ",".join(sorted(names - {""})) or NONE


def address(addresses: list[Doc] | None, kind: str) -> Cell:
    return next((str(each["address"]) for each in addresses or () if each.get("type") == kind), NONE)


def kernel(info: Doc | None) -> Cell:
    """Kernel version with the architecture in brackets."""
    info = info or {}
    version = info.get("kernelVersion") or UNKNOWN
    return f"{version} ({info['architecture']})" if info.get("architecture") else str(version)


# -- events, in the core shape: what was new in events.k8s.io (`series`, `eventTime`) comes first ----------------------


def first_seen(event: Doc, now: datetime) -> Cell:
    return age(event.get("firstTimestamp") or event.get("eventTime"), now)


def last_seen(event: Doc, now: datetime) -> Cell:
    if series := event.get("series"):
        return age(series.get("lastObservedTime"), now)
    last = event.get("lastTimestamp")
    return age(last, now) if last else first_seen(event, now)


def times(event: Doc, now: datetime) -> Cell:
    """An event seen once has no count in the newer shape."""
    if series := event.get("series"):
        return int(series.get("count", 0))
    return int(event.get("count") or 1)


def target(reference: Doc | None) -> Cell:
    """`pod/web-0`, or just the kind when there is no name."""
    kind = str((reference or {}).get("kind", "")).lower()
    return f"{kind}/{reference['name']}" if reference and reference.get("name") else kind


def message(value: str | None) -> Cell:
    return str(value or "").strip()


def source(event: Doc, now: datetime) -> Cell:
    """`kubelet, node-1`: who reported it, and from which instance."""
    reporter = event.get("source", {})
    component = reporter.get("component") or event.get("reportingComponent") or ""
    instance = reporter.get("host") or event.get("reportingInstance")
    return f"{component}, {instance}" if instance else str(component)
