"""A scenario played on a cluster: its events are put on the agenda of a world, and the world is run to its end."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec

from tonnage.documents.generated_names import NameGenerator
from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.objects.storage_v1 import CSINode, CSIStorageCapacity
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.plugins.registry import ForeignPlugins
from tonnage.whatif.creation import Creation
from tonnage.whatif.expansion import Expander, Replica
from tonnage.whatif.manifest_errors import Origin
from tonnage.whatif.manifests import READ, objects_at
from tonnage.whatif.simulate.measures import Measures
from tonnage.whatif.simulate.node_events import NodeEvents
from tonnage.whatif.simulate.scenario import Apply, Arrive, BrokenScenario, Delete, Event, Join, Lifetime, Scenario
from tonnage.whatif.simulate.world import World, WorldSettings
from tonnage.whatif.sources import ClusterState
from tonnage.whatif.workloads import Workload, find_workload, workload_name

LONGEST_S: Final = 24 * 3600.0
"""A run without a duration ends here at the latest."""
SAMPLES: Final = 120

Progress = Callable[[float], object]


@dataclass(frozen=True, slots=True)
class Run:
    """One way to run a scenario: a name, the scheduler's profiles, a seed."""

    name: str
    profiles: Sequence[ResolvedProfile]
    seed: int = 0
    takes_any_pod: bool = True
    explains: frozenset[int] = frozenset()


class Player:
    """Plays one scenario on one cluster, as often as asked; every run starts from the same objects."""

    def __init__(
        self,
        state: ClusterState,
        scenario: Scenario,
        make_creation: Callable[[], Creation],
        *,
        foreign: ForeignPlugins | None = None,
        namespace: str = "default",
    ) -> None:
        self._state = state
        self._scenario = scenario
        self._make_creation = make_creation
        self._foreign = foreign
        self._namespace = namespace
        self._known = (*state.objects, *state.workloads)
        self.judge()

    def judge(self) -> None:
        """See that every workload and node that the scenario names is there. Raises TonnageError."""
        nodes = {each.name for each in self._state.objects if isinstance(each, Node)}
        for event in self._scenario.events:
            if isinstance(event, Arrive):
                self._workload(event)
            elif isinstance(event, Join):
                if event.like not in nodes:
                    raise BrokenScenario(
                        self._scenario.file, "join.like", f'is "{event.like}", and there is no such node'
                    )
                nodes.update(event.names)
            elif not isinstance(event, Apply | Delete) and event.node not in nodes:
                raise BrokenScenario(
                    self._scenario.file,
                    f"{event.what}",
                    f'is "{event.node}", and there is no such node',
                    hint=f"there are {', '.join(sorted(nodes)[:5])}{' …' if len(nodes) > 5 else ''}",
                )

    def _workload(self, event: Arrive) -> Workload:
        try:
            name = workload_name(event.workload, self._namespace)
            return find_workload(name, self._known, self._state.source)
        except TonnageError as exc:
            raise BrokenScenario(self._scenario.file, "arrive", f": {exc.message}", hint=exc.hint) from exc

    def play(self, run: Run, progress: Progress = lambda amount: None) -> Measures:
        """One run, from beginning to end. A KeyboardInterrupt leaves what was measured so far to who holds it."""
        return Play(self, run).to_end(progress)

    @property
    def scenario(self) -> Scenario:
        return self._scenario

    @property
    def state(self) -> ClusterState:
        return self._state

    def creation(self) -> Creation:
        found = self._make_creation()
        found.know(self._state.objects)
        return found

    def workload(self, event: Arrive) -> Workload:
        return self._workload(event)

    @property
    def foreign(self) -> ForeignPlugins | None:
        return self._foreign


class Play:
    """One run of a scenario."""

    def __init__(self, player: Player, run: Run) -> None:
        self._player = player
        self._scenario = player.scenario
        self.measures = Measures()
        settings = WorldSettings(
            seed=run.seed,
            storage=self._scenario.storage,
            takes_any_pod=run.takes_any_pod,
            explains=run.explains,
        )
        self.world = World(player.state.objects, run.profiles, self.measures, foreign=player.foreign, settings=settings)
        self.measures.world = self.world
        self.measures.on_running.append(self._started)
        self.nodes = NodeEvents(self.world, random.Random(f"successors {run.seed}"))
        self._rng = random.Random(f"arrivals {run.seed}")
        self._creation = player.creation()
        self._expander = Expander(player.state, self._creation, [])
        self._replicas: dict[str, Iterator[Replica]] = {}
        self._lifetimes: dict[str, Lifetime] = {}
        self._warnings: list[str] = []
        for event in self._scenario.events:
            self._note(event)

    def to_end(self, progress: Progress) -> Measures:
        """Run it; samples are taken at equal distances."""
        duration_s = self._scenario.duration_s
        if duration_s is None:
            self.measures.sample()
            self.world.run_until_idle(LONGEST_S)
            self.measures.sample()
            progress(1.0)
            return self.measures
        for number in range(SAMPLES + 1):
            self.world.run_until(duration_s * number / SAMPLES)
            self.measures.sample()
            progress(1 / (SAMPLES + 1))
        return self.measures

    # -- events -------------------------------------------------------------------------------------------------------

    def _note(self, event: Event) -> None:
        agenda = self.world.agenda
        if isinstance(event, Arrive):
            self._note_arrivals(event)
        elif isinstance(event, Join):
            agenda.at(event.at_s, lambda: self._join(event))
        elif isinstance(event, Apply):
            agenda.at(event.at_s, lambda: self._apply(event))
        elif isinstance(event, Delete):
            agenda.at(event.at_s, lambda: self._delete(event))
        else:
            befalls: Callable[[str], None] = getattr(self.nodes, event.what)
            agenda.at(event.at_s, lambda: befalls(event.node))

    def _note_arrivals(self, event: Arrive) -> None:
        """At an instant, one after the other, or at times that are drawn now, alike in every run."""
        workload = self._player.workload(event)
        if event.rate_per_s is not None and event.until_s is not None:
            at_s = event.at_s
            while (at_s := at_s + self._rng.expovariate(event.rate_per_s)) <= event.until_s:
                self._note_arrival(at_s, workload, event.lifetime)
            return
        count = event.replicas if event.replicas is not None else self._expander.missing(workload)
        for number in range(count):
            self._note_arrival(event.at_s + number * event.every_s, workload, event.lifetime)

    def _note_arrival(self, at_s: float, workload: Workload, lifetime: Lifetime) -> None:
        self.world.agenda.at(at_s, lambda: self._arrive(workload, lifetime))

    def _arrive(self, workload: Workload, lifetime: Lifetime) -> None:
        name = f"{type(workload).__name__}/{workload.key}"
        if name not in self._replicas:
            made, self._replicas[name] = self._expander.more(workload)
            for each in (workload, *made):
                if type(each).__name__ in {kind for _, kind in READ}:
                    self.world.put(each)
        for replica in islice(self._replicas[name], 1):
            for each in (*replica.claims, replica.pod):
                self.world.put(each)
            if lifetime != Lifetime():
                self._lifetimes[replica.pod.uid] = lifetime

    def _started(self, pod: Pod) -> None:
        lifetime = self._lifetimes.pop(pod.uid, None)
        if lifetime is None:
            return
        span_s = lifetime.exactly_s
        if span_s is None:
            span_s = self._rng.expovariate(1 / lifetime.mean_s) if lifetime.mean_s else 0.0
        self.world.agenda.after(span_s, lambda: self._done(pod))

    def _done(self, pod: Pod) -> None:
        """A pod's life is over, and its claims go with it."""
        found = self.world.get(Pod, pod.key)
        if found is None or found.uid != pod.uid:
            return
        self.world.evict(pod, "done")
        for name in pod.claim_names():
            self.world.remove(PersistentVolumeClaim, f"{pod.namespace}/{name}")

    def _apply(self, event: Apply) -> None:
        names = NameGenerator(random.Random(0))
        for number, doc in enumerate(event.objects):
            origin = Origin(self._scenario.file, 0, f"{event.field}[{number}]")
            for manifest in objects_at(origin, msgspec.convert(doc, dict), names, self._warnings):
                self.world.put(self._creation.of(manifest, self._warnings))

    def _delete(self, event: Delete) -> None:
        for kind, namespace, name in event.objects:
            key = f"{namespace}/{name}" if namespace else name
            found = self.world.objects.get(kind, key)
            if isinstance(found, Pod):
                self.world.evict(found, "deleted")
            elif found is not None:
                self.world.remove(type(found), key)

    def _join(self, event: Join) -> None:
        for name in event.names:
            self.nodes.join(self._like(event.like, name))

    def _like(self, like: str, name: str) -> list[Object]:
        """A node like another, empty, with its CSINode and its capacity objects under its own name."""
        made: list[Object] = []
        node = self.world.get(Node, like)
        if not isinstance(node, Node):
            return made
        for each in (node, self.world.get(CSINode, like), *self._capacities_of(node)):
            if each is not None:
                made.append(_renamed(each, like, name))
        return made

    def _capacities_of(self, node: Node) -> list[CSIStorageCapacity]:
        """The objects that reach this node alone, as full as their disks were at the beginning."""
        found = []
        for each in self._player.state.objects:
            topology = each.node_topology if isinstance(each, CSIStorageCapacity) else None
            if topology is not None and isinstance(each, CSIStorageCapacity) and topology.matches(node.metadata.labels):
                reached = sum(topology.matches(other.metadata.labels) for other in self.world.nodes())
                if reached == 1:
                    found.append(each)
        return found


def _renamed(found: Object, like: str, name: str) -> Object:
    """An object with another node's name wherever it has this one's, as its own and as a value of labels."""
    replace = msgspec.structs.replace
    own = name if found.name == like else f"{found.name}-{name}"
    labels = {key: name if value == like else value for key, value in found.metadata.labels.items()}
    metadata = replace(found.metadata, name=own, uid="", resource_version="", creation_timestamp=None, labels=labels)
    if isinstance(found, CSIStorageCapacity) and found.node_topology is not None:
        matched = {key: name if value == like else value for key, value in found.node_topology.match_labels.items()}
        topology = replace(found.node_topology, match_labels=matched)
        return replace(found, metadata=metadata, node_topology=topology)
    if isinstance(found, Node):
        spec = replace(found.spec, unschedulable=False)
        return replace(found, metadata=metadata, spec=spec)
    return replace(found, metadata=metadata)
