"""One question of `fit`, asked: counted, then what stops the next one, and what would let it in.

    answer = fitted(asked, fresh, most=10_000, phase=phase)
    answer.document()

`phase(name)` is a context manager that gives a `step`, which is called for every replica: for bars, and for whoever
wants to end it. Ctrl-C and OutOfTime leave what is known by then.

It is about a workload that is there, or about a template that stands in a file and belongs to no cluster. A template
file holds one workload, or one pod; claims beside a pod are its own, and every replica has them anew.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tonnage.behaviour.workloads import stateful_set_plan
from tonnage.behaviour.workloads.templates import claim_for
from tonnage.errors import TonnageError
from tonnage.objects import apps_v1, meta
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.printable import text
from tonnage.whatif import explain, knobs, manifests
from tonnage.whatif.creation import Creation, renewed
from tonnage.whatif.expansion import Replica, WorkloadExpander, uid_of
from tonnage.whatif.fit.counting import MOST_PODS, Counted, NodesNeeded, count, nodes_needed
from tonnage.whatif.fit.remedies import SHOWN, Remedies
from tonnage.whatif.manifest_errors import Origin
from tonnage.whatif.page import WHOLE, Axis, FittedTable, Page, count_text
from tonnage.whatif.simulate import driver_courses, world
from tonnage.whatif.simulate.played_cluster import PlayedCluster
from tonnage.whatif.simulate.storage_model import StorageModel
from tonnage.whatif.sources import INTERRUPTIONS, ClusterState, Step, from_files
from tonnage.whatif.workloads import Workload, find_workload, is_workload, workload_name

T = TypeVar("T", bound=meta.Object)


@dataclass(frozen=True, slots=True)
class FitQuestion:
    """What is to be counted: its name, what is made before the first replica, replicas without end, how many of them
    it asks for by itself, and how many it has.
    """

    name: str
    made: tuple[meta.Object, ...]
    replicas: Iterator[Replica]
    wanted: int
    present: int = 0
    is_ordered: bool = False
    """Each replica is made when the one before it runs."""
    has_own_nodes: bool = False
    """Each replica is for one node, as a DaemonSet's are."""


def asked_workload(state: ClusterState, creation: Creation, text: str, namespace: str) -> FitQuestion:
    """A workload of the cluster or of the files laid over it. Raises TonnageError."""
    found = find_workload(workload_name(text, namespace), (*state.objects, *state.workloads), state.source)
    return _expanded(state, creation, found)


def asked_template(state: ClusterState, creation: Creation, file: manifests.Source) -> FitQuestion:
    """The one workload or pod of a file. Raises TonnageError when there is none, or more than one."""
    template = from_files([file], creation, with_workloads=True)
    known = [*template.objects, *template.workloads]
    workloads = [each for each in known if is_workload(each)]
    pods = [each for each in known if isinstance(each, Pod)]
    if len(workloads) + len(pods) != 1:
        raise TonnageError(
            f"{file}: holds {len(workloads)} workloads and {len(pods)} pods, and a template is one workload or one pod",
            hint="put the others into other files, and give them with -f",
        )
    if pods:
        claims = [each for each in known if isinstance(each, PersistentVolumeClaim)]
        return FitQuestion(f"Pod {pods[0].key}", (), _pods(pods[0], claims, creation, str(file)), 1)
    others = [each for each in template.objects if not is_workload(each)]
    beside = ClusterState([*state.objects, *others], state.source, state.clock, origins=template.origins)
    asked = _expanded(beside, creation, workloads[0])  # type: ignore[arg-type]  # is_workload has looked
    return dataclasses.replace(asked, made=(*others, *asked.made))


def node_template(creation: Creation, file: Path) -> Sequence[meta.Object]:
    """The Node of a file, with the CSINode and the capacity objects that stand beside it. Raises TonnageError."""
    cluster_state = from_files([str(file)], creation)
    nodes = [each for each in cluster_state.objects if isinstance(each, Node)]
    if len(nodes) != 1:
        raise TonnageError(f"{file}: holds {len(nodes)} Nodes, and a node template is one", hint="leave one in it")
    return cluster_state.objects


def _expanded(state: ClusterState, creation: Creation, workload: Workload) -> FitQuestion:
    expander = WorkloadExpander(state, creation, [])
    made, replicas = expander.more(workload)
    name, wanted = f"{type(workload).__name__} {workload.key}", expander.missing(workload)
    is_ordered = isinstance(workload, apps_v1.StatefulSet) and stateful_set_plan.is_ordered(workload)
    present, is_daemon = max(0, expander.wanted(workload) - wanted), isinstance(workload, apps_v1.DaemonSet)
    return FitQuestion(name, made, replicas, wanted, present, is_ordered, is_daemon)


def _pods(pod: Pod, claims: Sequence[PersistentVolumeClaim], creation: Creation, file: str) -> Iterator[Replica]:
    """Pods like this one, each with claims like those that stand beside it, and those of its ephemeral volumes."""
    own = [claim for claim in claims if claim.key in pod.claim_keys()]
    for number in itertools.count(1):
        named = {claim.name: _renamed(claim, f"{claim.name}-{number}") for claim in own}
        volumes = []
        for volume in pod.spec.volumes:
            source = volume.persistent_volume_claim
            if source is not None and source.claim_name in named:
                claim_name = {"claim_name": named[source.claim_name].name}
                volume = meta.changed(volume, persistent_volume_claim=claim_name)
            volumes.append(volume)
        made = meta.changed(_renamed(pod, f"{pod.name}-{number}"), spec={"node_name": "", "volumes": tuple(volumes)})
        ephemeral = []
        for doc in (claim_for(made, volume) for volume in volumes if volume.ephemeral is not None):
            name = doc["metadata"]["name"]
            doc["metadata"]["uid"] = uid_of("PersistentVolumeClaim", pod.namespace, name)
            origin = Origin(file, 0, object=f"PersistentVolumeClaim {name}")
            ephemeral.append(creation.made(PersistentVolumeClaim, origin, doc, warnings=[]))
        yield Replica(made, (*named.values(), *ephemeral))


def _renamed(found: T, name: str) -> T:
    uid = uid_of(type(found).__name__, found.namespace, name)
    return renewed(found, {"name": name, "uid": uid, "creation_timestamp": None})


Phase = Callable[[str], AbstractContextManager[Step]]


def fitted(
    asked: FitQuestion,
    fresh: Callable[..., PlayedCluster],
    *,
    most: int,
    phase: Phase,
    with_disks: bool = True,
    node_template: Sequence[meta.Object] | None = None,
) -> FitAnswer:
    """The whole answer; `fresh(luck=…)` makes the cluster. Raises TonnageError."""

    def made(luck: driver_courses.DriverLuck) -> PlayedCluster:
        cluster = fresh(luck=luck)
        cluster.apply(asked.made)
        return cluster

    needed, replicas = None, asked.replicas
    if node_template is not None:
        if asked.wanted > MOST_PODS:
            raise TonnageError(
                f"{asked.name} asks for {asked.wanted:,} more pods, and nodes are counted for {MOST_PODS:,} at most",
                hint="write fewer replicas, or leave out --nodes-needed to count how many fit",
            )
        wanted = list(islice(asked.replicas, asked.wanted))
        with phase("adding nodes"):
            needed = nodes_needed(lambda: made(driver_courses.DriverLuck.WORST), wanted, node_template)
        replicas = chain(wanted, asked.replicas)
    answer = _counted(dataclasses.replace(asked, replicas=replicas), made, most, phase, with_disks=with_disks)
    return dataclasses.replace(answer, needed=needed)


def _counted(
    asked: FitQuestion,
    fresh: Callable[[driver_courses.DriverLuck], PlayedCluster],
    most: int,
    phase: Phase,
    *,
    with_disks: bool,
) -> FitAnswer:
    made = list[Replica]()
    counting = partial(count, is_ordered=asked.is_ordered, has_own_nodes=asked.has_own_nodes)
    with phase(f"placing replicas of {asked.name}") as step:
        cluster = fresh(driver_courses.DriverLuck.WORST)
        counted = counting(cluster, _kept(asked.replicas, made), most, step)
    at_most, is_sure = counted.count, not cluster.choices.is_cut
    if cluster.choices.has_chosen and not counted.is_cut:
        with phase("the same with a driver that packs well") as step:
            lucky = fresh(driver_courses.DriverLuck.BEST)
            again = counting(lucky, chain(made, asked.replicas), most, step)
            at_most, is_sure = max(at_most, again.count), is_sure and not lucky.choices.is_cut
            counted.is_interrupted |= again.is_interrupted
    disks = _disks(cluster.world.storage) if with_disks else []
    class_names = {claim.class_name for replica in made[:1] for claim in replica.claims}
    note = "; ".join(explain.RoomRemarks(cluster.world).about(class_names))
    answer = FitAnswer(asked, counted, at_most, is_sure and not note, note, disks=disks)
    if counted.refusal is None or counted.refused is None or counted.is_interrupted:
        return answer
    try:
        with phase("looking for changes that let the next one fit") as step:
            found = Remedies(cluster.as_replay(), counted.refused, counted.refusal, step).found()
            return dataclasses.replace(answer, remedies=tuple(found))
    except INTERRUPTIONS:
        counted.is_interrupted = True
        return answer


def _kept(replicas: Iterator[Replica], made: list[Replica]) -> Iterator[Replica]:
    for replica in replicas:
        made.append(replica)
        yield replica


def _disks(storage: StorageModel) -> list[dict[str, Any]]:
    """The disks with the replicas that fit; their volumes are not there yet: their room is free, and promised."""
    made = {name for disk in storage.disks for name in disk.claims if disk.volumes.get(name, (-1, 0))[0] >= 0}
    found = world.disk_documents(storage, None)
    for disk in found:
        there = [each for each in disk["volumes"] if each["volume"] not in made]
        coming = sorted((each for each in disk["volumes"] if each["volume"] in made), key=lambda each: each["claim"])
        for each in coming:
            disk["freeBytes"][each["pool"]] += each["bytes"]
        disk["volumes"] = [*there, *({**each, "volume": None, "promised": True} for each in coming)]
    return found


@dataclass(frozen=True, slots=True)
class FitAnswer:
    """How many more replicas of a workload fit, and all that belongs to it."""

    asked: FitQuestion
    counted: Counted
    at_most: int
    """If the driver picks its pools well."""
    is_sure: bool = True
    """Whether all that the driver may choose was looked at, and its pools are told."""
    note: str = ""
    remedies: tuple[knobs.Remedy, ...] = ()
    needed: NodesNeeded | None = None
    disks: Sequence[Mapping[str, Any]] = ()
    """The disks with the replicas that fit, as `disk_documents` has them."""

    @property
    def has_all(self) -> bool:
        """All replicas that the workload still asks for fit; where it asks for none, one more does."""
        return self.counted.count >= max(self.asked.wanted, 1)

    @property
    def text(self) -> str:
        """How many fit, in words."""
        counted, some = self.counted, "at least " if self.counted.is_cut else ""
        told = f"{some}{counted.count:,} more {'fits' if counted.count == 1 else 'fit'}"
        if self.at_most > counted.count:
            told = f"{counted.count:,} more for certain, {self.at_most:,} if the driver packs well"
        if counted.refusal is not None and counted.refusal.held_back:
            told += f": {counted.refusal.held_back}"
        if not self.is_sure and not self.note:
            told += " (not every choice of the driver was tried)"
        total = self.asked.wanted + self.asked.present
        if self.asked.wanted and total > 1:
            told += f"; room for {self.asked.present + min(counted.count, self.asked.wanted):,} of {total:,} replicas"
        return told

    def shown_remedies(self) -> list[knobs.Remedy]:
        """The least of each kind first, then others, as many as people read."""
        first_of = {remedy.kind: remedy for remedy in reversed(self.remedies)}
        return sorted(self.remedies, key=lambda remedy: first_of[remedy.kind] is not remedy)[:SHOWN]

    def document(self) -> dict[str, Any]:
        is_exact = self.at_most == self.counted.count
        return {
            "workload": self.asked.name,
            "text": self.text,
            "count": self.counted.count,
            "atMost": self.at_most,
            "grades": {
                "count": "guaranteed" if self.is_sure else "possible",
                "atMost": "guaranteed" if self.is_sure and is_exact else "possible",
            },
            "replicas": {"wanted": self.asked.wanted + self.asked.present, "present": self.asked.present},
            **self.counted.document(),
            "wouldHelp": [shown_remedy.text for shown_remedy in self.shown_remedies()],
            "remedies": [remedy.document() for remedy in self.remedies],
            "notes": [self.note] if self.note else [],
            "partial": self.counted.is_cut,
            "interrupted": self.counted.is_interrupted,
            "disks": list(self.disks),
            **({"nodesNeeded": msgspec.to_builtins(self.needed)} if self.needed is not None else {}),
        }


_NODES_SHOWN = 40
_PREEMPTING_SHOWN = 8
_DISKS = (
    "Hatched claims are promised: those of the replicas that fit, and others that wait for their volume. "
    "Where it is not known which pool the driver picks, the worst pool is drawn."
)


def show(answer: FitAnswer, page: Page) -> None:
    counted, told = answer.counted, f"{answer.asked.name}: {answer.text}"
    page.title(told, is_partial=counted.is_interrupted)
    page.say(text(told, "bold"))
    page.section("places", "Where they fit")
    if counted.by_node:
        page.blank()
        _show_places(answer, page)
    preempting = page.first(counted.preempting, _PREEMPTING_SHOWN)
    for replica in preempting:
        page.say(text(f"{replica.pod} runs on {replica.node} by preempting {page.named(replica.victims)}"))
    if left := len(counted.preempting) - len(preempting):
        page.say(text(f"… and {left:,} more by preempting others"))
    if counted.stuck:
        page.say(text(f"stuck with some of their volumes made: {page.named(counted.stuck)}"))
    page.section("disks", "The disks, with them")
    page.disks(("disks-map", "Pools and claims once they are placed", answer.disks), note=_DISKS)
    page.section("stops", "What stops the next replica")
    if counted.stops:
        page.blank()
        stops = [(f"{stop.nodes:,}" if stop.nodes else "", stop.reason) for stop in counted.stops]
        page.table(FittedTable(("NODES", "WHAT STOPS THE NEXT REPLICA"), "1w", stops))
    page.section("remedies", "What would let it in, and what to know")
    if answer.remedies:
        page.part(text("The smallest changes that would make it fit:"))
        for shown_remedy in answer.shown_remedies():
            page.say(text(shown_remedy.text), indent=2)
    if answer.note:
        page.part(text(f"note: {answer.note}", "yellow"))
    if answer.needed is not None:
        page.part(text(_nodes_needed(answer, answer.needed)))


def _nodes_needed(answer: FitAnswer, needed: NodesNeeded) -> str:
    total = answer.asked.present + needed.pods
    if not needed.nodes:
        return f"all {total:,} replicas fit today; no more nodes are needed"
    fitting = answer.asked.present + min(answer.counted.count, needed.pods)
    some = "at least " if answer.counted.is_cut and answer.counted.count < needed.pods else ""
    nodes = "1 more node" if needed.nodes == 1 else f"{needed.nodes:,} more nodes"
    hold = "holds" if needed.nodes == 1 else "hold"
    return f"{some}{fitting:,} of {total:,} replicas fit today; {nodes} like `{needed.template}` {hold} the rest"


def _show_places(answer: FitAnswer, page: Page) -> None:
    """Nodes with their share, the largest first."""
    counted = answer.counted
    ordered = sorted(counted.by_node.items(), key=lambda each: (-each[1], each[0]))
    undrawn = len(ordered) - _NODES_SHOWN
    note = f"{count_text(undrawn, 'node')} that take fewer are not drawn." if undrawn > 0 else ""
    axis = Axis("more replicas", WHOLE)
    page.bar_chart("places-chart", "More replicas by node", ordered[:_NODES_SHOWN], axis, note=note)
    shown = page.first(ordered, _NODES_SHOWN)
    rows = [(node, counted.zone_of.get(node, ""), f"{more:,}") for node, more in shown]
    if left := ordered[len(shown) :]:
        rows.append((f"and {len(left):,} more", "", f"{sum(count for _, count in left):,}"))
    if not any(counted.zone_of.get(node) for node in counted.by_node):
        page.table(FittedTable(("NODE", "MORE"), "n1", [(node, more) for node, _, more in rows]))
        return
    page.table(FittedTable(("NODE", "ZONE", "MORE"), "nw1", rows))
    if page.has_room:
        zones = [(zone, f"{count:,}") for zone, count in sorted(counted.by_zone.items()) if zone]
        page.table(FittedTable(("ZONE", "MORE"), "n1", zones))
