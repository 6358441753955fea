"""What a pod waits for, read off its explanation, in a form that can be counted.

    PendingCause("storage", "fast", "in zone b")      14 pods of 3 workloads wait for 2Ti of class fast in zone b
    PendingCause("resources", "cpu", "")              5 pods of 2 workloads wait for 12500m cpu

Of the nodes' reasons that one counts where the pod came furthest: filters are asked in order, so these nodes have
everything else that was looked at. Where the pod itself wants to be (its selector, its volumes' places) is no cause as
long as any node is left; it is told as the place.

A node that is closed (cordoned or tainted) is refused before anything else is looked at. It is a cause only if the pod
would fit there once the node is open. Otherwise the cause is what refuses the pod then.

Pods that are alike share one explanation (`Likeness`):

    alike           of one workload with the same requests and claims, or of one sign (`Plugin.sign`): refused alike
    nearly alike    refused by the same plugins on the same nodes, with claims of the same classes: amounts may differ

Each pod that is like no other is explained on all nodes until that has become dear (`MOST_EXPLAINED_NODES`). From then
on one that is nearly alike will do: what a pod asks for is then its own, how near it came is told of the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tonnage.objects.core_v1 import Node, PersistentVolumeClaim
from tonnage.objects.meta import Key
from tonnage.objects.requirements import UNSCHEDULABLE, RequiredNodeAffinity, find_untolerated
from tonnage.quantity import Quantity
from tonnage.scheduling.cluster.pod_info import CPU, MEMORY, PodInfo
from tonnage.scheduling.decision.answers import Diagnosis
from tonnage.scheduling.decision.explain import Explanation, NodeAnswer
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.engine.profiles import EngineWaking
from tonnage.scheduling.volumes.demand import driver_bytes
from tonnage.scheduling.volumes.explain.account_entries import NodeAccount, amount
from tonnage.scheduling.volumes.volume_fit import BIND_CONFLICT, NODE_CONFLICT, NOT_ENOUGH_SPACE
from tonnage.whatif.page import count_text

FITS, ASSUMED, TERMINATING, FOREIGN, GATED = "fits", "assumed", "terminating", "scheduler", "gates"
STORAGE, RESERVED, NO_CAPACITY, STATIC, SLOTS = "storage", "reserved", "capacity", "volumes", "slots"
RESOURCES, TAINTS, CORDONED, OTHER = "resources", "taints", "cordoned", "reasons"
SELECTOR, PLACES, NOBODY = "selector", "places", "nobody"

_WISHES = frozenset(("NodeName", "NodeAffinity", "VolumeZone"))
_CLOSED = frozenset(("TaintToleration", "NodeUnschedulable"))
_INSUFFICIENT, _RESOURCES = "Insufficient ", {"Too many pods": "pods"}
_MEMORY_LIKE = (MEMORY, "ephemeral-storage", "hugepages-")


class PendingCause(NamedTuple):
    """Why pods wait; pods of the same cause wait together."""

    kind: str
    about: str = ""
    where: str = ""

    def document(self) -> dict[str, str]:
        return {"kind": self.kind, "about": self.about, "where": self.where}


class CauseOfPod(NamedTuple):
    """A pod's cause with what it is summed up from."""

    cause: PendingCause
    nodes: tuple[NodeAnswer, ...] = ()
    """The nodes where it came furthest, the nearest miss first."""
    needs: Mapping[str, int] = {}
    """What it asks for: bytes by class, slots by driver, amounts by resource."""


class NodePlaces(NamedTuple):
    zone_of: Mapping[str, str]
    """By node; empty for one that does not say."""
    order: Mapping[str, int]
    nodes: Mapping[str, Node]


def cause_of(
    pod: PodInfo,
    explanation: Explanation,
    class_of: Mapping[Key, str],
    places: NodePlaces,
    opened: Callable[[], Explanation],
) -> CauseOfPod:
    """The cause of a pod that was tried and fits nowhere. `class_of` are the classes of claims; `opened` explains the
    pod as if no node were cordoned or tainted."""
    refused = [answer for answer in explanation.nodes if not answer.feasible]
    if not refused:
        return CauseOfPod(PendingCause(OTHER, explanation.message))
    if max(_distance(answer, places.order) for answer in refused)[0] != _IS_CLOSED:
        return _refused_cause(pod, explanation, class_of, places)
    behind = opened()
    fitting = {answer.name for answer in behind.nodes if answer.feasible}
    closed = [answer for answer in refused if answer.name in fitting]
    if closed:
        # Of nodes that would take the pod if they were open, those count that the fewest marks close.
        marks = {answer.name: _closing(pod, places.nodes[answer.name]) for answer in closed}
        mark = min(marks.values(), key=lambda text: (text.count(" and "), text))
        nodes = tuple(answer for answer in closed if marks[answer.name] == mark)
        where = _place([answer.name for answer in nodes], places.zone_of)
        return CauseOfPod(PendingCause(CORDONED if mark == _CORDON else TAINTS, mark, where), nodes)
    cause_of_pod = _refused_cause(pod, behind, class_of, places)
    if cause_of_pod.cause.kind in (SELECTOR, PLACES):
        return cause_of_pod
    is_one = len(cause_of_pod.nodes) == 1
    where = f"on {cause_of_pod.nodes[0].name}, which is closed" if is_one else "on nodes that are closed"
    told = {_closing(pod, places.nodes[answer.name]) for answer in cause_of_pod.nodes}
    about = f" ({told.pop()})" if len(told) == 1 else ""
    return cause_of_pod._replace(cause=cause_of_pod.cause._replace(where=where + about))


_CORDON = "a cordon"


def _closing(pod: PodInfo, node: Node) -> str:
    """What keeps a pod off a closed node: `a cordon and taint dedicated=db`."""
    tolerations = pod.pod.spec.tolerations
    is_cordoned = node.spec.unschedulable or any(taint.key == UNSCHEDULABLE for taint in node.spec.taints)
    taints = [taint for taint in node.spec.taints if find_untolerated((taint,), tolerations)]
    others = (taint for taint in taints if taint.key != UNSCHEDULABLE)
    named = dict.fromkeys(f"taint {taint.key}={taint.value}".rstrip("=") for taint in others)
    return " and ".join([*([_CORDON] if is_cordoned else []), *named])


def _selector_text(wanted: RequiredNodeAffinity) -> str:
    """What a pod demands of its node: `disk=tape and (zone in (a) or zone in (b))`."""
    found = [f"{key}={value}" for key, value in sorted(wanted.labels.items())]
    if wanted.affinity is not None:
        terms = [
            " and ".join(map(str, (*term.match_expressions, *term.match_fields)))
            for term in wanted.affinity.node_selector_terms
        ]
        found += [f"({' or '.join(terms)})" if len(terms) > 1 and found else " or ".join(terms)]
    return " and ".join(found)


def _refused_cause(
    pod: PodInfo, explanation: Explanation, class_of: Mapping[Key, str], places: NodePlaces
) -> CauseOfPod:
    refused = [answer for answer in explanation.nodes if not answer.feasible]
    furthest = max(_distance(answer, places.order) for answer in refused)
    nodes = sorted((answer for answer in refused if _distance(answer, places.order) == furthest), key=_nearness)
    where = _place([answer.name for answer in refused if not is_wish(answer)], places.zone_of)
    plugin = nodes[0].rejected_by
    kind, needs = OTHER, {}
    about = Counter(", ".join(answer.reasons) for answer in nodes).most_common(1)[0][0]
    account = explanation.volumes.get(nodes[0].name)
    if plugin == "NodeAffinity" and (selector := _selector_text(pod.pod.required_node_affinity())):
        kind, about = SELECTOR, selector
    elif plugin == "VolumeZone" or NODE_CONFLICT in nodes[0].reasons:
        kind = PLACES
    elif plugin == "NodeResourcesFit":
        resources = [_RESOURCES.get(each, each.removeprefix(_INSUFFICIENT)) for each in about.split(", ")]
        if resources:
            kind, about = RESOURCES, " and ".join(resources)
            needs = {resource: pod.requests.get(resource, 0) for resource in resources}
    elif plugin == "NodeVolumeLimits" and isinstance(account, NodeAccount):
        slots = {claim.slots.driver: claim.slots.new for claim in account.claims if claim.slots and claim.slots.miss}
        if slots:
            kind, about, needs = SLOTS, " and ".join(sorted(slots)), slots
    elif plugin == "VolumeBinding" and isinstance(account, NodeAccount):
        kind, about, needs = _storage(nodes[0], account, class_of, about)
    return CauseOfPod(PendingCause(kind, about, where), tuple(nodes), needs)


def _storage(
    node: NodeAnswer, account: NodeAccount, class_of: Mapping[Key, str], about: str
) -> tuple[str, str, dict[str, int]]:
    lacking = [claim for claim in account.claims if claim.miss is not None]
    classes = " and ".join(sorted({class_of.get(each.claim, "") for each in lacking} - {""}))
    if not classes:
        return OTHER, about, {}
    if BIND_CONFLICT in node.reasons:
        return STATIC, classes, {}
    if NOT_ENOUGH_SPACE not in node.reasons:
        return OTHER, about, {}
    if any(each.supply.reserved_by is not None for each in lacking):
        return RESERVED, classes, {}
    if all(each.supply.capacity is None for each in lacking):
        return NO_CAPACITY, classes, {}
    wanted: Counter[str] = Counter()
    for each in lacking:
        wanted[class_of.get(each.claim, "")] += each.size or 0
    return STORAGE, classes, wanted


def is_wish(answer: NodeAnswer) -> bool:
    """The pod does not want to be there, or its volumes are not."""
    plugins = set(answer.rejected_by.split(", "))
    return bool(plugins & _WISHES) or NODE_CONFLICT in answer.reasons


_IS_CLOSED = 1


def _distance(answer: NodeAnswer, order: Mapping[str, int]) -> tuple[int, int]:
    """How far a pod came on a node before it was refused."""
    if answer.rejected_by in _CLOSED:
        return _IS_CLOSED, 0
    return 0 if is_wish(answer) else 2, order.get(answer.rejected_by, -1)


def _nearness(answer: NodeAnswer) -> tuple[bool, tuple[int, int], str]:
    miss = answer.miss
    return miss is None, (miss.rank, miss.lacking_bytes) if miss is not None else (0, 0), answer.name


def _place(nodes: Sequence[str], zone_of: Mapping[str, str]) -> str:
    """Where these of all nodes are, if that can be said in a word; empty when they are all there are."""
    if not nodes or len(nodes) == len(zone_of):
        return ""
    if len(nodes) == 1:
        return f"on {nodes[0]}"
    zones = {zone_of[node] for node in nodes}
    return f"in zone {zones.pop()}" if len(zones) == 1 and zones != {""} and len(set(zone_of.values())) > 1 else ""


def common_place(refusals: Sequence[CauseOfPod], zone_of: Mapping[str, str]) -> str:
    """Where the pods of one cause came furthest, all of them together; what their cause says, if it says it."""
    distinct = {id(one.nodes): one.nodes for one in refusals}.values()  # pods that are alike share theirs
    names = {answer.name for nodes in distinct for answer in nodes}
    return refusals[0].cause.where or _place(sorted(names), zone_of)


def sentence(cause: PendingCause, pods: int, owners: Sequence[str], needs: Mapping[str, int], where: str) -> str:
    """What so many pods of these workloads wait for."""
    who = count_text(pods, "pod")
    if len(owners) == 1:
        who += f" of {owners[0]}"
    elif owners:
        who += f" of {len(owners):,} workloads"
    is_one, at = pods == 1, f" {where}" if where else ""
    wait, are = ("waits", "is") if is_one else ("wait", "are")
    sizes = " and ".join(f"{amount(size)} of class {name}" for name, size in sorted(needs.items()))
    slots = " and ".join(f"{count_text(count, 'attach slot')} of {driver}" for driver, count in sorted(needs.items()))
    words = {
        FITS: f"{'fits' if is_one else 'fit'} now",
        ASSUMED: f"{are} on {'its' if is_one else 'their'} way to a node",
        TERMINATING: f"{are} being deleted, so schedulers ignore {'it' if is_one else 'them'}",
        FOREIGN: f"{wait} for scheduler {cause.about}, which this configuration does not have",
        NOBODY: f"{'has' if is_one else 'have'} no scheduler: none named {cause.about} seems to run",
        GATED: f"{are} not tried: {cause.about}",
        STORAGE: f"{wait} for {sizes}{at}",
        RESERVED: f"{wait} for capacity of class {cause.about}{at} that is reserved for others",
        NO_CAPACITY: f"{wait} for capacity of class {cause.about}: no capacity object reaches a node{at}",
        STATIC: f"{wait} for a free volume of class {cause.about}{at}",
        SLOTS: f"{wait} for {slots}{at}",
        RESOURCES: f"{wait} for {' and '.join(_resource(*each) for each in needs.items())}{at}",
        TAINTS: f"{are} kept off by {cause.about}{at}",
        CORDONED: f"{wait} for a cordoned node{at}",
        SELECTOR: f"{wait} for a node with {cause.about}: no node matches",
        PLACES: f"{wait} for a node that can reach {'its' if is_one else 'their'} volumes{at}",
    }
    return f"{who} {words.get(cause.kind, f'{wait}{at}: {cause.about}')}"


def _resource(name: str, number: int) -> str:
    if name == "pods" or not number:  # every pod takes one of them, and no pod asks for it
        return "room for more pods" if name == "pods" else name
    if name == CPU:
        quantity = Quantity.parse(f"{number}m") if number % 1000 else Quantity.from_int(number // 1000)
        return f"{quantity} {name}"
    return f"{amount(number) if name.startswith(_MEMORY_LIKE) else f'{number:,}'} {name}"


MOST_EXPLAINED_NODES: Final = 10_000
"""So many nodes of explanations, at 0.1 to 0.2 ms each, before pods that are nearly alike share one: 100 pods on 100
nodes, two on 5,000."""


class Likeness:
    """What makes the pods that one engine refused alike."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rules = EngineWaking(engine.cluster, engine.profiles)
        self._name_of = {id(profile): name for name, profile in engine.profiles.items()}

    def of(self, pod: PodInfo, workload: str, message: str, diagnosis: Diagnosis | None) -> list[Hashable]:
        """Any of these is shared by pods that are alike."""
        found: list[Hashable] = []
        if workload:
            sizes = [(claim.class_name, str(claim.requested), claim.spec.volume_name) for claim in self._claims(pod)]
            asked = (pod.ordered_requests, pod.node_constraints, pod.priority, tuple(sizes))
            found.append((workload, message, *asked))
        refusers = diagnosis.rejecting_plugins() if diagnosis is not None else frozenset()
        sign = self._rules.sign(self._profile(pod), pod, refusers) if refusers else None
        if sign is not None:
            found.append((message, refusers, sign))
        return found

    def nearly(self, pod: PodInfo, message: str, diagnosis: Diagnosis | None) -> Hashable:
        """Shared by pods that are nearly alike. Whom preemption may help depends on all that a pod asks for."""
        if diagnosis is None or diagnosis.refusal is not None:
            return pod.key
        where = diagnosis.first.tobytes(), diagnosis.bits.tobytes(), tuple(diagnosis.reasons)
        classes = tuple((claim.class_name, bool(claim.spec.volume_name)) for claim in self._claims(pod))
        amounts = pod.ordered_requests if self._rules.may_preempt(self._profile(pod), pod) else ()
        return message, where, classes, pod.node_constraints, pod.priority, amounts

    def needs(self, pod: PodInfo, like: CauseOfPod) -> Mapping[str, int]:
        """What a pod asks for that waits for the same as one that is nearly alike."""
        if like.cause.kind == RESOURCES:
            return {each: pod.requests.get(each, 0) for each in like.needs}
        if like.cause.kind != STORAGE:
            return like.needs
        found: Counter[str] = Counter()
        for each in self._claims(pod):
            if each.class_name in like.needs and not each.spec.volume_name:
                found[each.class_name] += driver_bytes(each, self._engine.cluster.storage.classes.get(each.class_name))
        return dict(found)

    def _profile(self, pod: PodInfo) -> str:
        return self._name_of.get(id(self._engine.profile_of(pod.pod)), "")

    def _claims(self, pod: PodInfo) -> Iterator[PersistentVolumeClaim]:
        known = (self._engine.cluster.storage.claims.get(key) for key in pod.claim_keys)
        return (claim for claim in known if claim is not None)
