"""What might help pods that wait: changes of the cluster, proposed by who refused them where.

    delete claim shop/old, which has 40Gi on node-3 and which no pod uses
    uncordon node-5
    class slow instead of fast
    40Gi instead of 60Gi for claim shop/data
    6 more attach slots for csi.example on node-3
    one more pool of 2Ti of class fast on node-b2
    one more node like node-3

A change of a size is as large as all who could use it ask for together; `trials.py` shrinks it to the least that lets
the same pods in.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, Final

from tonnage.keyed import grouped
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Key, changed
from tonnage.objects.requirements import Taint, find_untolerated
from tonnage.objects.storage_v1 import CSINode, CSIStorageCapacity, StorageClass
from tonnage.scheduling.decision.explain import Explanation
from tonnage.scheduling.volumes.capacity.pools import listed_pools
from tonnage.scheduling.volumes.demand import driver_bytes
from tonnage.scheduling.volumes.explain.account_entries import NodeAccount, amount
from tonnage.whatif import creation, knobs, node_copies, page
from tonnage.whatif.pending.causes import is_wish

MOST_OF_A_KIND: Final = 4
"""So many places are tried for a change of one kind: those that the most pods were refused at."""
_MOST_SHAPES: Final = 8


@dataclass(frozen=True, slots=True)
class Waiting:
    pod: Pod
    explanation: Explanation
    """Its own, or that of a pod that is alike."""

    @property
    def key(self) -> Key:
        return self.pod.key


class ChangeProposals:
    def __init__(self, waiting: Sequence[Waiting], objects: creation.ObjectsByKind) -> None:
        self._waiting = waiting
        self._objects = objects
        self._nodes = objects.of(Node)
        self._claims = objects.of(PersistentVolumeClaim)
        self._alike = list(grouped((id(each.explanation), each) for each in waiting).values())
        """Pods that share an explanation: of thousands that are alike it is read once."""

    def all(self) -> list[knobs.Knob]:
        """Changes of claims, then those of the cluster."""
        return [*self._unused_claims(), *self._other_classes(), *self._smaller_claims(), *self.of_cluster()]

    def of_cluster(self) -> list[knobs.Knob]:
        """The cheaper kinds first."""
        return [
            *self._uncordoned(),
            *self._untainted(),
            *self._labelled(),
            *self._ungated(),
            *self._deleted(),
            *self._slots(),
            *self._pools(),
            *self._more_nodes(),
        ]

    def _refused(self, plugin: str) -> Iterator[tuple[int, str]]:
        """Which of those that are alike a plugin refused, and where."""
        for number, (first, *_) in enumerate(self._alike):
            for answer in first.explanation.nodes:
                if not answer.feasible and answer.rejected_by == plugin:
                    yield number, answer.name

    def _bytes_for_all(self, by_number: Mapping[int, int], class_name: str) -> int:
        """Bytes of a class that all pods take: pods that share an explanation may ask for different sizes."""
        total = 0
        for number, size in by_number.items():
            sizes = [sum(self._sizes(each.pod, class_name)) for each in self._alike[number]]
            explained = sum(self._sizes(self._explained(number), class_name))
            total += size * sum(sizes) // explained if explained else size * len(sizes)
        return total

    def _sizes(self, pod: Pod, class_name: str) -> list[int]:
        found = (self._claims[key] for key in pod.claim_keys() if key in self._claims)
        of_class = self._objects.get(StorageClass, class_name)
        return [driver_bytes(each, of_class) for each in found if each.class_name == class_name and not each.is_bound]

    def _common_unit(self, numbers: Iterable[int], class_name: str) -> int:
        """What all sizes are a multiple of that pods ask for which share an explanation with one of another size."""
        found = 0
        for number in numbers:
            explained = self._sizes(self._explained(number), class_name)
            others = (self._sizes(each.pod, class_name) for each in self._alike[number])
            found = gcd(found, *(size for sizes in others if sizes != explained for size in sizes))
        return found

    def _explained(self, number: int) -> Pod:
        """The pod that the explanation is of; it may not be among those that are asked about."""
        first = self._alike[number][0]
        return self._objects.get(Pod, first.explanation.pod) or first.pod

    def _pods(self, numbers: Iterable[int]) -> int:
        return sum(len(self._alike[number]) for number in numbers)

    # -- nodes that are closed, pods that are held back ---------------------------------------------------------------

    def _uncordoned(self) -> Iterator[knobs.Knob]:
        counted: Counter[str] = Counter()
        for number, name in self._refused("NodeUnschedulable"):
            counted[name] += len(self._alike[number])
        for name in _most(counted):
            yield knobs.uncordon_knob(self._nodes[name])

    def _untainted(self) -> Iterator[knobs.Knob]:
        """A taint off every node that has it: who taints, taints by kind."""
        counted: Counter[tuple[str, str, str]] = Counter()
        for number, name in self._refused("TaintToleration"):
            pods = self._alike[number]
            taint = find_untolerated(self._nodes[name].spec.taints, pods[0].pod.spec.tolerations)
            if taint is not None:
                counted[_of_taint(taint)] += len(pods)
        for key, value, effect in _most(counted):
            untainted = [
                changed(node, spec={"taints": kept})
                for node in self._nodes.values()
                if (kept := tuple(each for each in node.spec.taints if _of_taint(each) != (key, value, effect)))
                != node.spec.taints
            ]
            nodes = page.named([node.name for node in untainted])
            told = f"take taint {key}{f'={value}' if value else ''}:{effect} off {nodes}"
            yield knobs.switch(knobs.TAINT, told, untainted)

    def _labelled(self) -> Iterator[knobs.Knob]:
        """Labels that pods select nodes by, on a node that lacks them."""
        counted: Counter[tuple[str, int]] = Counter()
        for number, name in self._refused("NodeAffinity"):
            counted[name, number] += len(self._alike[number])
        for name, number in _most(counted):
            for knob in knobs.state_knobs(self._nodes[name], self._alike[number][0].pod):
                if knob.rank == knobs.LABEL:
                    yield knob

    def _ungated(self) -> Iterator[knobs.Knob]:
        by_gate = grouped((gate.name, each.pod) for each in self._waiting for gate in each.pod.spec.scheduling_gates)
        for gate in _most(Counter({name: len(pods) for name, pods in by_gate.items()})):
            ungated = [
                changed(pod, spec={"scheduling_gates": tuple(g for g in pod.spec.scheduling_gates if g.name != gate)})
                for pod in by_gate[gate]
            ]
            pods = ungated[0].key if len(ungated) == 1 else f"{len(ungated):,} pods"
            yield knobs.switch(knobs.GATE, f"remove scheduling gate {gate} from {pods}", ungated)

    def _deleted(self) -> Iterator[knobs.Knob]:
        """Whoever has a claim that only one pod may have."""
        wanted: Counter[Key] = Counter()
        for pods in self._alike:
            if any(answer.rejected_by == "VolumeRestrictions" for answer in pods[0].explanation.nodes):
                wanted.update(key for each in pods for key in each.pod.claim_keys() if key in self._claims)
        for key in _most(wanted):
            if "ReadWriteOncePod" not in self._claims[key].spec.access_modes:
                continue
            for pod in self._objects.all(Pod):
                if pod.spec.node_name and not pod.is_terminal and key in pod.claim_keys():
                    told = f"delete pod {pod.key}, which has claim {key} for itself"
                    yield knobs.switch(knobs.DELETE, told, [], (pod,))

    # -- the workloads ------------------------------------------------------------------------------------------------

    def _unmade_claims(self) -> list[PersistentVolumeClaim]:
        """Claims without a volume of pods that were refused for their volumes, and of no pod that has a place."""
        waiting = {each.key for each in self._waiting}
        others = [each for each in self._objects.all(Pod) if each.key not in waiting]
        used = {key for pod in others if not pod.is_terminal for key in pod.claim_keys()}
        refused = {number for number, _ in self._refused("VolumeBinding")}
        wanted = {key for number in refused for each in self._alike[number] for key in each.pod.claim_keys()}
        found = (self._claims[key] for key in sorted(wanted - used) if key in self._claims)
        return [claim for claim in found if not claim.spec.volume_name]

    def _unused_claims(self) -> Iterator[knobs.Knob]:
        """Their room helps only pods that were refused for want of it."""
        if any(self._refused("VolumeBinding")):
            yield from knobs.unused_claims(self._objects)

    def _other_classes(self) -> Iterator[knobs.Knob]:
        """All claims of one class in another whose room is known: one that nobody checks would let every pod in."""
        checked = {each.storage_class_name for each in self._objects.all(CSIStorageCapacity)}
        classes = (each for each in self._objects.all(StorageClass) if each.name in checked)
        yield from knobs.class_knobs(self._unmade_claims(), classes)

    def _smaller_claims(self) -> Iterator[knobs.Knob]:
        """Claims of one class and size, down to half of it."""
        by_size = grouped(((each.class_name, each.requested_size.value()), each) for each in self._unmade_claims())
        for place in _most(Counter({place: len(claims) for place, claims in by_size.items()})):
            claims, (class_name, old) = by_size[place], place
            whose = f"claim {claims[0].key}" if len(claims) == 1 else f"each claim of class {class_name}"

            def told(less: int, old: int = old, whose: str = whose) -> str:
                return f"{amount(old - less)} instead of {amount(old)} for {whose}"

            yield replace(knobs.claim_knob(claims[0]), targets=tuple(claims), told=told)

    # -- room ---------------------------------------------------------------------------------------------------------

    def _slots(self) -> Iterator[knobs.Knob]:
        taken: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
        for number, name in self._refused("NodeVolumeLimits"):
            account = self._alike[number][0].explanation.volumes.get(name)
            for claim in account.claims if isinstance(account, NodeAccount) else ():
                if claim.slots is not None and claim.slots.miss is not None:
                    taken[name, claim.slots.driver][number] = claim.slots.new
        limits = self._objects.of(CSINode)
        for place in _most(Counter({place: self._pods(numbers) for place, numbers in taken.items()})):
            name, driver = place
            if name in limits:
                total = sum(size * len(self._alike[number]) for number, size in taken[place].items())
                yield knobs.slots_knob(limits[name], driver, total)

    def _pools(self) -> Iterator[knobs.Knob]:
        """More room in one capacity object; of those for a group of classes that share their pools, in all of them."""
        asked: dict[Key, dict[int, int]] = defaultdict(dict)
        units: dict[Key, int] = defaultdict(int)
        known = self._objects.of(CSIStorageCapacity)
        for number, name in self._refused("VolumeBinding"):
            account = self._alike[number][0].explanation.volumes.get(name)
            of_pod: Counter[Key] = Counter()
            for claim in account.claims if isinstance(account, NodeAccount) else ():
                if claim.miss is not None and claim.supply.capacity is not None:
                    of_pod[claim.supply.capacity.key] += claim.size or 0
                    units[claim.supply.capacity.key] = gcd(
                        units[claim.supply.capacity.key], claim.size or 0, *listed_pools(claim.supply.capacity)
                    )
            for key, size in of_pod.items():
                if key in known:
                    asked[key][number] = size
        counted = Counter({key: self._pods(numbers) for key, numbers in asked.items()})
        by_class: Counter[str] = Counter()
        told: set[Key] = set()
        for key in sorted(counted, key=lambda key: (-counted[key], key)):
            capacity = known[key]
            by_class[capacity.storage_class_name] += 1
            if by_class[capacity.storage_class_name] <= MOST_OF_A_KIND and key not in told:
                sharing = node_copies.sharing_pools(capacity, self._objects)
                told.update(each.key for each in sharing)
                places = [(asked.get(each.key, {}), each.storage_class_name) for each in sharing]
                size = sum(self._bytes_for_all(*place) for place in places)
                unit = gcd(*(units[each.key] for each in sharing), *(self._common_unit(*place) for place in places))
                yield self._pool_change(sharing, size, unit)

    def _pool_change(self, sharing: Sequence[CSIStorageCapacity], size: int, unit: int) -> knobs.Knob:
        topology = sharing[0].node_topology
        nodes = self._nodes.items() if topology is not None else ()
        reaches = [name for name, node in nodes if topology is not None and topology.matches(node.metadata.labels)]
        place = {"node": reaches[0]} if len(reaches) == 1 else {"where": f"for {page.named(sorted(reaches))}"}
        return replace(knobs.pool_knob(sharing, size, **place), unit=unit or 1)

    def _more_nodes(self) -> Iterator[knobs.Knob]:
        """One more of a kind that is there; an empty one, with what volumes take there now free."""
        wanted: Counter[str] = Counter()
        for pods in self._alike:
            if not pods[0].explanation.held_back:
                for answer in pods[0].explanation.nodes:
                    if not answer.feasible and not is_wish(answer):
                        wanted[answer.name] += len(pods)
        looked_at: Counter[Any] = Counter()
        nodes = []
        for name in sorted(wanted, key=lambda name: (-wanted[name], name)):
            alike = node_copies.shape_of([self._nodes[name]])
            looked_at[alike] += 1
            if looked_at[alike] <= MOST_OF_A_KIND:  # what is the node's own is found among all objects: not for each
                nodes.append(self._nodes[name])
        yield from knobs.more_nodes(nodes, self._objects, _MOST_SHAPES)


def _of_taint(taint: Taint) -> tuple[str, str, str]:
    return taint.key, taint.value, taint.effect


def _most(counted: Counter[Any]) -> list[Any]:
    return sorted(counted, key=lambda each: (-counted[each], each))[:MOST_OF_A_KIND]
