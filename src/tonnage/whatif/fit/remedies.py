"""The least that would let the next replica in. Every remedy is tried on the engine before it is told.

    uncordon node-5                              what costs nothing comes first: a claim that no pod uses,
    40Gi instead of 60Gi for claim data          a closed node, a taint, a label, another class, a smaller request
    2 more attach slots for DRIVER on node-3     the fewest that do
    one more pool of 80Gi on any of n0 to n9     the smallest that does; classes that share their pools are one purchase
    500m more cpu on node-2                      what it lacks
    one more pool of 80Gi on node-7 and …        two at once, where no single change of a node does
    one more node like node-3                    empty, with its capacity

On a large cluster the nodes that came nearest are tried. A node refuses a pod by the first thing that is in the way;
what else is, shows when that is gone. So where no single change helps, each two changes of one node are tried: the
first is made as small as it can be beside the largest second, then the second as small as it can be beside the first.
What lets the pod in only if its driver picks the right pools is made larger until that does not matter, if it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final

from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSINode, CSIStorageCapacity, StorageClass
from tonnage.scheduling.cluster.pod_info import CPU, MEMORY, PodInfo
from tonnage.scheduling.decision.explain import Explanation, NodeAnswer
from tonnage.scheduling.volumes.capacity.pools import free_bytes
from tonnage.scheduling.volumes.demand import driver_bytes
from tonnage.scheduling.volumes.explain.account_entries import NodeAccount
from tonnage.whatif import knobs, node_copies, sources
from tonnage.whatif.replay import Replay

NODES_TRIED: Final = 64
"""Of each kind of refusal; where there are more nodes, those with the most room."""
NODES_PAIRED: Final = 8
MOST_KNOBS: Final = 12
"""What may be changed about one node; of more, the first. Twelve are 66 pairs."""
SHOWN: Final = 8
_A_BYTE_MORE: Final = 1
"""A driver may want strictly more free than it takes (`strict` in `tonnage.dev/size-rules`)."""
_ON_NODE: Final = " on {node}"
_STATES: Final = ("NodeUnschedulable", "TaintToleration", "NodeAffinity")
"""Plugins that refuse a node that is out of use, tainted, or without a label."""
_KNOB_OF: Final = {"NodeVolumeLimits": knobs.SLOTS, "VolumeBinding": knobs.POOL, "NodeResourcesFit": knobs.RESOURCE}
"""By the plugin that refused a node, the kind of change that may help by itself."""


class Remedies:
    """What would let a pod in that fits nowhere now. `step` is called at each try, and may end it by raising."""

    def __init__(self, replay: Replay, pod: Pod, refusal: Explanation, step: sources.Step = sources.unheard) -> None:
        self._step = step
        self._replay = replay
        self._pod = pod
        self._refusal = refusal
        self._nodes = replay.of(Node)
        asked = (replay.get(PersistentVolumeClaim, key) for key in PodInfo(pod).claim_keys)
        self._claims = [claim for claim in asked if claim is not None]
        self._classes = {claim.class_name for claim in self._claims}

    def found(self) -> list[knobs.Remedy]:
        if self._refusal.held_back:
            return []
        of_nodes, of_workload = self._tried(self._of_nodes()), self._tried(self._of_workload())
        singles = knobs.merged([*self._by_unused_claims(), *of_workload, *of_nodes], _words)
        singles.sort(key=lambda each: (each.rank, each.amount, each.node, each.pattern))
        return [
            *singles,
            *([] if of_nodes else knobs.merged(self._pairs(), _words)),
            *knobs.merged(self._another_node(), _words),
        ]

    def _nearest(self, most: int, is_meant: Callable[[NodeAnswer], bool]) -> list[Node]:
        """Nodes with such answers, those with the most room first."""
        names = [answer.name for answer in self._refusal.nodes if is_meant(answer)]
        nodes = [self._nodes[name] for name in names if name in self._nodes]
        return sorted(nodes, key=lambda node: (-self._room(node), node.name))[:most]

    def _room(self, node: Node) -> int:
        return sum(free_bytes(capacity) or 0 for capacity in self.capacities_of(node.name))

    def capacities_of(self, node_name: str) -> list[CSIStorageCapacity]:
        """Objects that reach the node, of the classes that the pod's claims want."""
        labels = self._nodes[node_name].metadata.labels
        return [
            each
            for each in self._replay.all(CSIStorageCapacity)
            if each.node_topology is not None
            and each.node_topology.matches(labels)
            and (not self._classes or each.storage_class_name in self._classes)
        ]

    # -- trying -------------------------------------------------------------------------------------------------------

    def fits(self, changes: Iterable[Object], gone: Sequence[Object] = (), *, surely: bool = False) -> bool:
        """Whether the pod fits with these objects changed or added, and those gone; afterwards everything is as before.
        `surely`: whatever pools its driver picks."""
        self._step(1)
        known, engine = list(changes), self._replay.engine
        pod = next((each for each in known if isinstance(each, Pod)), self._pod)
        with self._replay.changed([each for each in known if each is not pod], gone):
            profile = engine.profile_of(pod)
            if profile is None or not profile.decider.decide(engine.cluster, PodInfo(pod), ()).fits:
                return False
            return not surely or len(self._claims) < 2 or _is_sure(engine.explain(pod))

    def _tried(self, changes: Iterable[knobs.Knob]) -> list[knobs.Remedy]:
        """Those that let the pod in by themselves; one that lacks two things is not helped."""
        least = ((knob, self._least(knob)) for knob in changes)
        return [_remedy(knob, amount) for knob, amount in least if amount is not None]

    def _least(self, knob: knobs.Knob) -> int | None:
        """The smallest amount that does, if there is one whatever the driver picks."""
        found = knobs.least(knob.most, lambda more: self.fits(knob.turned(more)))
        if found is None or self.fits(knob.turned(found), surely=True):
            return found
        return knobs.least(knob.most, lambda more: self.fits(knob.turned(more), surely=True)) or found

    # -- one change ---------------------------------------------------------------------------------------------------

    def _of_nodes(self) -> Iterator[knobs.Knob]:
        """Of each node what the plugin looked at that refused it."""
        for answer in self._refusal.nodes:
            if answer.rejected_by in _STATES and answer.name in self._nodes:
                yield from knobs.state_knobs(self._nodes[answer.name], self._pod)
        for plugin, rank in _KNOB_OF.items():
            for node in self._nearest(NODES_TRIED, lambda answer, plugin=plugin: answer.rejected_by == plugin):  # type: ignore[misc]
                yield from (knob for knob in self._knobs(node) if knob.rank == rank)

    def _of_workload(self) -> Iterator[knobs.Knob]:
        """Another class for its claims, or a smaller request, of at least half of what it was."""
        own = [claim for claim in self._claims if not claim.spec.volume_name]
        yield from knobs.class_knobs(own, self._replay.all(StorageClass))
        yield from knobs.request_knobs(self._pod, own)

    def _by_unused_claims(self) -> Iterator[knobs.Remedy]:
        """It fits wherever a volume's room comes back to."""
        for knob in knobs.unused_claims(self._replay, self._claims, but_by=self._pod.key):
            if all(self.fits(case, knob.gone) for case in (knob.targets, *knob.or_else)):
                yield _remedy(knob, 0)

    def _knobs(self, node: Node) -> Iterator[knobs.Knob]:
        yield from (state_knob for state_knob in knobs.state_knobs(node, self._pod) if state_knob.rank != knobs.LABEL)
        csi_node = self._replay.get(CSINode, node.name)
        if csi_node is not None:
            yield from knobs.slots_knobs(csi_node)
        # Room for all that is promised and asked for: whatever the driver does with the promises, this is enough.
        classes, claims = self._replay.of(StorageClass), self._replay.all(PersistentVolumeClaim)
        wanted = sum(driver_bytes(claim, classes.get(claim.class_name)) + _A_BYTE_MORE for claim in claims)
        told: set[str] = set()
        for capacity in self.capacities_of(node.name) if self._classes else ():
            if capacity.key not in told:
                siblings = node_copies.sharing_pools(capacity, self._replay)
                told.update(sibling.key for sibling in siblings)
                yield knobs.pool_knob(siblings, max(wanted, 1), node.name)
        asked = {CPU, MEMORY, "pods", *PodInfo(self._pod).requests}
        yield from (knobs.resource_knob(node, resource) for resource in node.status.allocatable if resource in asked)

    # -- more than one ------------------------------------------------------------------------------------------------

    def _pairs(self) -> list[knobs.Remedy]:
        """Two changes of one node; the cheaper kinds first, of the same kinds the smaller amounts."""
        found = []
        for node in self._nearest(NODES_PAIRED, lambda answer: not answer.feasible):
            for changes in self._pairs_of(list(self._knobs(node))[:MOST_KNOBS]):
                parts = tuple(_remedy(knob, amount) for knob, amount in changes)
                told = " and ".join(part.pattern for part in parts)
                if all(part.pattern.endswith(_ON_NODE) for part in parts):
                    told = " and ".join(part.pattern.removesuffix(_ON_NODE) for part in parts) + _ON_NODE
                cost = sorted((part.rank, part.amount) for part in parts)
                found.append((cost, knobs.Remedy(knobs.PAIR, len(parts), told, (node.name,), parts)))
        return [remedy for _, remedy in sorted(found, key=lambda each: (each[0], each[1].node, each[1].text))]

    def _pairs_of(self, known: Sequence[knobs.Knob]) -> Iterator[knobs.Changes]:
        """Every pair of changes that does, each as small as it can be; none where not even all together do."""
        if len(known) < 2 or not self.fits(knobs.turned((knob, knob.most) for knob in known)):
            return
        for one, other in combinations(known, 2):
            first = knobs.least(one.most, lambda n, a=one, b=other: self.fits(knobs.turned(((a, n), (b, b.most)))))  # type: ignore[misc]
            if first is None:
                continue
            second = knobs.least(other.most, lambda n, a=(one, first), b=other: self.fits(knobs.turned((a, (b, n)))))  # type: ignore[misc]
            if second is not None:
                yield (one, first), (other, second)

    def _another_node(self) -> Iterator[knobs.Remedy]:
        """A node like one that is there; of equal nodes the first."""
        nodes = sorted(self._nodes.values(), key=lambda each: each.name)[: NODES_TRIED * 4]
        for knob in knobs.more_nodes(nodes, self._replay, NODES_TRIED):
            if self.fits(knob.targets):
                yield _remedy(knob, 1)


def _remedy(knob: knobs.Knob, amount: int) -> knobs.Remedy:
    return knobs.Remedy(knob.rank, amount, knob.told(amount), (knob.node,) if knob.node else ())


def _words(remedy: knobs.Remedy) -> Hashable:
    """Those in the same words are one; of a pair, both changes are of the same node."""
    of_one = remedy.node if remedy.pattern.count("{node}") > 1 else ""
    return remedy.rank, remedy.amount, remedy.pattern, of_one


def _is_sure(explained: Explanation) -> bool:
    """Whether the pod's volumes are made whatever pools the driver picks, on the node that it goes to."""
    account = explained.volumes.get(explained.node)
    claims = account.claims if isinstance(account, NodeAccount) else ()
    return not any(claim.supply.grade == "possible" for claim in claims)
