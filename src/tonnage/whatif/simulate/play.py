"""A scenario played on a cluster: its events are put on a world's agenda, and the world runs to its end.

Arrivals and lifetimes are drawn before any decision, by generators of their own: they are equal in all runs of a seed.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Final

from tonnage.documents.creation import NameGenerator
from tonnage.errors import TonnageError
from tonnage.objects.apps_v1 import DaemonSet, ReplicaSet, StatefulSet
from tonnage.objects.core_v1 import Node, Pod, ReplicationController
from tonnage.objects.document import copy
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.whatif import expansion, manifest_errors, manifests, node_copies, sources
from tonnage.whatif.creation import Creation
from tonnage.whatif.simulate import scenario as scenarios
from tonnage.whatif.simulate.controllers import Seat
from tonnage.whatif.simulate.measures import Measures
from tonnage.whatif.simulate.world import World
from tonnage.whatif.simulate.world_state import WorldSettings
from tonnage.whatif.workloads import Workload, find_workload, is_workload, pods_of, workload_name

LONGEST_S: Final = 3600.0
"""A run without a duration ends at the latest this long after its last event."""
SAMPLES: Final = 120
_READ_KINDS: Final = frozenset(kind for _, kind in manifests.READ)


@dataclass(frozen=True, slots=True)
class Run:
    name: str
    profiles: Sequence[ResolvedProfile]
    seed: int = 0
    takes_any_pod: bool = True
    explains: frozenset[int] = frozenset()
    stops_after: int | None = None


@dataclass(slots=True)
class Player:
    """Plays one scenario on one cluster, any number of times. Raises BrokenScenario if it names unknown objects."""

    state: sources.ClusterState
    scenario: scenarios.Scenario
    make_creation: Callable[[], Creation]
    _: KW_ONLY
    namespace: str = "default"
    updates_attach_limits: bool = True
    is_stopped: Callable[[], bool] = lambda: False
    on_sample: Callable[[Measures], object] = lambda measures: None
    """Called after each sample, with the run."""
    most: int = sys.maxsize
    """Limit of arriving pods and nodes together: all of them are kept in memory."""
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._judge()

    def _judge(self) -> None:
        """Check that every workload and node that the scenario names exists when its time comes."""
        nodes = set(self.state.by_kind.of(Node))
        applied: set[str] = set()
        for event in sorted(self.scenario.events, key=lambda event: event.at_s):
            if isinstance(event, scenarios.Arrive):
                self.workload(event)
            elif isinstance(event, scenarios.Join):
                if event.like not in nodes - applied:
                    raise self._no_node(f"{event.field}.like", event.like, nodes)
                taken = sorted({*event.names} & nodes)
                if taken:
                    told, hint = f'has "{taken[0]}", which is there already', "write a name that no node has"
                    raise scenarios.BrokenScenario(self.scenario.file, f"{event.field}.names", told, hint)
                nodes.update(event.names)
                applied.update(event.names)
            elif isinstance(event, scenarios.Apply):
                self.created(event, self.creation(), [])
                nodes_of = [each for each in event.objects if str(each.get("kind", "")) == "Node"]
                applied.update(str(node.get("metadata", {}).get("name", "")) for node in nodes_of)
                nodes |= applied
            elif isinstance(event, scenarios.NodeEvent):
                if event.node not in nodes:
                    raise self._no_node(event.field, event.node, nodes)
                if event.what == "remove":
                    nodes.discard(event.node)

    def _no_node(self, field: str, name: str, nodes: set[str]) -> scenarios.BrokenScenario:
        shown = ", ".join(sorted(nodes)[:5])
        hint = f"the nodes are {shown}{' …' if len(nodes) > 5 else ''}" if nodes else "give nodes with -f"
        return scenarios.BrokenScenario(self.scenario.file, field, f'is "{name}", and there is no such node then', hint)

    def workload(self, event: scenarios.Arrive) -> Workload:
        try:
            name = workload_name(event.workload, self.namespace)
            return find_workload(name, (*self.state.objects, *self.state.workloads), self.state.source)
        except TonnageError as exc:
            raise scenarios.BrokenScenario(
                self.scenario.file, event.field, f"is wrong: {exc.message}", hint=exc.hint
            ) from exc

    def creation(self) -> Creation:
        """A Creation that knows the initial objects."""
        found = self.make_creation()
        found.know(self.state.objects, self.state.rules)
        return found

    def created(self, event: scenarios.Apply, creation: Creation, warnings: list[str]) -> list[Object]:
        """The objects of an apply event, as a server would store them. Raises BrokenManifest."""
        names, made = NameGenerator(random.Random(0)), []
        for number, doc in enumerate(event.objects):
            origin = manifest_errors.Origin(self.scenario.file, 0, f"{event.field}[{number}]")
            for manifest in manifests.objects_at(origin, copy(doc), names, warnings):
                made.append(creation.of(manifest, warnings))
        return made

    def play(self, run: Run, progress: sources.Step = sources.unheard) -> Measures:
        play = Play(self, run)
        measured = play.to_end(progress)
        self.warnings += [warning for warning in play.warnings if warning not in self.warnings]
        return measured


class Play:
    def __init__(self, player: Player, run: Run) -> None:
        self._player = player
        self._scenario = player.scenario
        self.measures = Measures()
        self.warnings: list[str] = []
        state = player.state
        self.world = World(
            state,
            run.profiles,
            self.measures,
            settings=WorldSettings(
                seed=run.seed,
                storage=self._scenario.storage,
                takes_any_pod=run.takes_any_pod,
                explains=run.explains,
                stops_after=run.stops_after,
                updates_attach_limits=player.updates_attach_limits,
            ),
            is_stopped=player.is_stopped,
        )
        self.measures.begin(self.world)
        self._arrivals = random.Random(f"arrivals {run.seed}")
        self._spans = random.Random(f"lifetimes {run.seed}")
        self._creation = player.creation()
        self._expander = expansion.WorkloadExpander(state, self._creation, self.warnings)
        self._replicas: dict[str, Iterator[expansion.Replica]] = {}
        daemons = (workload for workload in state.workloads if isinstance(workload, DaemonSet))
        self._daemons = {each.key: each for each in daemons if pods_of(each, state.objects)}
        """DaemonSets that have pods; nodes that join get one of each."""
        self._last_s = 0.0
        self._coming = 0
        for event in self._scenario.events:
            self._note(event)

    def to_end(self, progress: sources.Step) -> Measures:
        """Run to the end, with samples at equal intervals."""
        world, measures, duration_s = self.world, self.measures, self._scenario.duration_s
        known_s = self._last_s if duration_s is None else duration_s
        for number in range(SAMPLES + 1) if known_s else (0,):
            world.run_until(known_s * number / SAMPLES)
            self._sample()
            progress(1 / (SAMPLES + 2))
        # The time after the last event is unknown: samples become rarer the longer it takes.
        step_s, end_s = max(1.0, known_s / SAMPLES), known_s + LONGEST_S
        while duration_s is None and not world.run_until_idle(min(end_s, world.agenda.now_s + step_s)):
            self._sample()
            if world.agenda.now_s >= end_s:
                break
            step_s *= 1.2
        self._sample()
        progress(1 / (SAMPLES + 2))
        measures.is_partial = self._player.is_stopped()
        return measures

    def _sample(self) -> None:
        self.measures.sample()
        self._player.on_sample(self.measures)

    # -- events -------------------------------------------------------------------------------------------------------

    def _note(self, event: scenarios.Event) -> None:
        if isinstance(event, scenarios.Arrive):
            self._note_arrivals(event)
            return
        self._last_s = max(self._last_s, event.at_s)
        at = self.world.agenda.at
        if isinstance(event, scenarios.Join):
            self._count(event.field, len(event.names))
            at(event.at_s, partial(self._join, event))
        elif isinstance(event, scenarios.Apply):
            at(event.at_s, partial(self._apply, event))
        elif isinstance(event, scenarios.Delete):
            at(event.at_s, partial(self._delete, event))
        else:
            befalls: Callable[[str], None] = getattr(self.world.nodes, scenarios.NODE_EVENTS[event.what])
            at(event.at_s, partial(befalls, event.node))

    def _note_arrivals(self, event: scenarios.Arrive) -> None:
        """All at one instant, at equal intervals, or at times drawn now, which are equal in every run."""
        workload = self._player.workload(event)
        if event.rate_per_s is not None and event.until_s is not None:
            at_s = event.at_s
            while (at_s := at_s + self._arrivals.expovariate(event.rate_per_s)) <= event.until_s:
                self._count(event.field, 1)
                self._note_arrival(at_s, workload, event.lifetime)
            return
        wanted = event.replicas if event.replicas is not None else self._expander.missing(workload)
        if wanted > scenarios.MOST_ARRIVALS:
            hint = f"at most {scenarios.MOST_ARRIVALS:,} are simulated; write replicas: NUMBER beside it"
            raise scenarios.BrokenScenario(self._scenario.file, event.field, f"is a workload of {wanted:,} pods", hint)
        self._count(event.field, wanted)
        for number in range(wanted):
            self._note_arrival(event.at_s + number * event.every_s, workload, event.lifetime)

    def _count(self, field: str, more: int) -> None:
        """Count further arrivals. Raises BrokenScenario when there are too many."""
        self._coming += more
        if self._coming > self._player.most:
            hint = (
                f"at most {self._player.most:,} pods and nodes may come here; the command plays more: tonnage simulate"
            )
            raise scenarios.BrokenScenario(self._scenario.file, field, "brings more than can be played", hint)

    def _note_arrival(self, at_s: float, workload: Workload, lifetime: scenarios.Lifetime) -> None:
        self._last_s = max(self._last_s, at_s)
        span_s = lifetime.exactly_s
        if lifetime.mean_s is not None:
            span_s = self._spans.expovariate(1 / lifetime.mean_s) if lifetime.mean_s else 0.0
        self.world.agenda.at(at_s, partial(self._arrive, workload, span_s))

    def _arrive(self, workload: Workload, span_s: float | None) -> None:
        place = (type(workload).__name__, workload.key)
        if place not in self.world.sizes:  # its initial size
            found = pods_of(workload, (*self._player.state.objects, *self._player.state.workloads))
            self.world.sizes[place] = sum(not pod.is_terminal for pod in found)
        self.world.sizes[place] += 1
        self.measures.arrived += 1
        if isinstance(workload, DaemonSet):
            self._daemons[workload.key] = workload
        self.world.controllers.arrive(workload, Seat(partial(self._make, workload), span_s, place))

    def _make(self, workload: Workload) -> Pod | None:
        name = f"{type(workload).__name__}/{workload.key}"
        if name not in self._replicas:
            made, self._replicas[name] = self._expander.more(workload)
            for each in (workload, *made):
                if type(each).__name__ in _READ_KINDS and self.world.get(type(each), each.key) is None:
                    self.world.put(each)
        replica = next(self._replicas[name], None)
        return self._come(replica) if replica is not None else None

    def _come(self, replica: expansion.Replica) -> Pod:
        for each in (*replica.claims, replica.pod):
            self.world.put(each)
        return replica.pod

    # -- the rest -----------------------------------------------------------------------------------------------------

    def _apply(self, event: scenarios.Apply) -> None:
        for each in self._player.created(event, self._creation, self.warnings):
            if type(each).__name__ in _READ_KINDS:
                self.measures.arrived += isinstance(each, Pod) and self.world.get(Pod, each.key) is None
                now = self.world.put(each)
                if isinstance(now, StatefulSet | ReplicaSet | ReplicationController):
                    self._size(now)

    def _size(self, workload: StatefulSet | ReplicaSet | ReplicationController) -> None:
        """Give an applied workload the pods that it asks for; its plan says which surplus pods go."""
        place = (type(workload).__name__, workload.key)
        present = [pod for pod in pods_of(workload, self.world) if not pod.is_terminal]
        more = workload.spec.replicas - self.world.sizes.setdefault(place, len(present))
        for _ in range(more):
            self._arrive(workload, None)
        if more < 0:
            self.world.sizes[place] = workload.spec.replicas
            self.world.controllers.shrink(workload, present, -more)

    def _delete(self, event: scenarios.Delete) -> None:
        """Like kubectl delete: pods of a remaining workload are recreated, those of a deleted one are not."""
        for kind, namespace, name in event.objects:
            key = f"{namespace}/{name}" if namespace else name
            found = self.world.named(kind, key)
            workload = found or self.world.workloads.get((kind, key))
            if isinstance(found, Pod):
                self.world.controllers.replace(found, "deleted")
            elif isinstance(found, Node):
                self.world.nodes.remove(name)
            elif found is not None:
                self.world.remove(type(found), key)
            if workload is not None and is_workload(workload):
                self._daemons.pop(key, None)
                for pod in pods_of(workload, self.world):
                    self.world.controllers.end(pod, "deleted")

    def _join(self, event: scenarios.Join) -> None:
        objects = self._player.state.by_kind
        own = node_copies.emptied(objects.of(Node)[event.like], objects)
        for name in event.names:
            if self._player.is_stopped():
                return
            for each in node_copies.copy_of(own, name):
                self.world.put(each)
            node = self.world.get(Node, name)
            for daemons in self._daemons.values() if node is not None else ():
                replica = self._expander.for_node(daemons, node) if node is not None else None
                if replica is not None:
                    self.measures.arrived += 1
                    self._come(replica)
