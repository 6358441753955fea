"""The garbage collector against a naive model: whatever is made and deleted, in whatever order the news come.

The server here is a dictionary with Kubernetes' rules for finalizers. The model knows no graph and no events: an object
lives as long as it was not deleted, and names no owner or names one that lives. What an owner that orphans leaves
behind names it no more. After every step the two must agree, and nothing may be left half deleted.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.virtual_clock import VirtualClock
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.client.recorder import Recorder
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.dependency_graph import DependencyGraph, Item
from tonnage.controllers.garbage_collector import GarbageCollector
from tonnage.errors import Conflict, NotFound
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import ConfigMap
from tonnage.objects.meta import OwnerReference
from tonnage.objects.resources import BY_PLURAL, Resource

Doc = dict[str, Any]
CONFIG_MAPS, NODES = BY_PLURAL["", "configmaps"], BY_PLURAL["", "nodes"]
PROPAGATION = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


@dataclass
class Server:
    """Objects by uid, as metadata, and the news about them that the informers have not passed on yet."""

    objects: dict[str, tuple[Resource, Doc]] = field(default_factory=dict)
    news: list[tuple[str, Item | None]] = field(default_factory=list)
    version: int = 0

    def create(self, resource: Resource, uid: str, owners: list[Doc]) -> None:
        namespace = {"namespace": "default"} if resource.namespaced else {}
        self._write(resource, {"name": uid, "uid": uid, "ownerReferences": owners, **namespace})

    def remove(self, uid: str, propagation: str) -> None:
        resource, metadata = self.objects[uid]
        kept = [each for each in metadata.get("finalizers", ()) if each not in PROPAGATION.values()]
        asked = [PROPAGATION[propagation]] if propagation in PROPAGATION else []
        stamp = {"deletionTimestamp": "2026-11-15T00:00:00Z"}
        self._write(resource, {**metadata, **stamp, "finalizers": kept + asked})

    def _write(self, resource: Resource, metadata: Doc) -> None:
        self.version += 1
        metadata = {**metadata, "resourceVersion": str(self.version)}
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            del self.objects[metadata["uid"]]
            self.news.append((metadata["uid"], None))
            return
        self.objects[metadata["uid"]] = (resource, metadata)
        read = convert(ConfigMap, {"metadata": metadata}).metadata
        self.news.append((metadata["uid"], Item.of(resource, read)))

    # -- what the collector asks of a client --------------------------------------------------------------------------

    def _find(self, resource: Resource, key: str, same: Doc) -> Doc:
        found = self.objects.get(key.rpartition("/")[2])
        if found is None or found[0] is not resource:
            raise NotFound(f'{resource.plural} "{key}" not found', name=key.rpartition("/")[2])
        if any(same.get(name, found[1][name]) not in ("", found[1][name]) for name in ("uid", "resourceVersion")):
            raise Conflict("another state")
        return found[1]

    async def get_doc(self, resource: Resource, key: str) -> Doc:
        return {"metadata": dict(self._find(resource, key, {}))}

    async def patch_doc(self, resource: Resource, key: str, patch: Doc) -> Doc:
        metadata = self._find(resource, key, patch["metadata"])
        self._write(resource, {**metadata, **patch["metadata"]})
        return {"metadata": {**metadata, "resourceVersion": str(self.version)}}

    async def delete(self, resource: Resource, key: str, *, uid: str, resource_version: str, propagation: str) -> None:
        self._find(resource, key, {"uid": uid, "resourceVersion": resource_version})
        self.remove(uid, propagation)


@dataclass
class Model:
    """Who names whom; nothing else. Nodes have no namespace, so that a ConfigMap cannot own one."""

    owners: dict[str, set[str]] = field(default_factory=dict)

    def delete(self, uid: str, propagation: str) -> None:
        del self.owners[uid]
        if propagation == "Orphan":
            self.owners = {each: owners - {uid} for each, owners in self.owners.items()}
        self.settle()

    def settle(self) -> None:
        while dead := {uid for uid, owners in self.owners.items() if owners and not owners & self.owners.keys()}:
            for uid in dead:
                del self.owners[uid]
        self.owners = {uid: owners & self.owners.keys() for uid, owners in self.owners.items()}


class Harness:
    """The real collector, on the dictionary; news reach it late, but each object's in their order."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.server = Server()
        clock = VirtualClock()
        unused = cast(Any, None)
        context = ControllerContext(
            cast(Client, self.server), cast(Informers, unused), cast(Recorder, unused), clock, rng
        )
        self.collector = GarbageCollector(context)
        self.collector.start_processing()
        self.clock = clock

    async def settle(self) -> None:
        """News and work in random turns until there is neither. What is tried again later is tried at once."""
        for _ in range(2000):
            queue = self.collector.queue
            if self.server.news and (not len(queue) or self.rng.random() < 0.5):
                self._tell()
            elif len(queue):
                uid = await queue.get()
                assert uid is not None
                try:
                    await self.collector.reconcile(uid)
                except (Conflict, NotFound):
                    queue.add(uid)
                finally:
                    queue.done(uid)
            else:
                return
        raise AssertionError("it does not come to rest")

    def _tell(self) -> None:
        uid = self.rng.choice([uid for uid, _ in self.server.news])
        at = next(idx for idx, (each, _) in enumerate(self.server.news) if each == uid)
        _, item = self.server.news.pop(at)
        if item is None:
            self.collector.remove(uid)
        else:
            self.collector.put(item)


OWNERS = st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=3)
CREATE = st.tuples(st.just("create"), st.booleans(), OWNERS)
DELETE = st.tuples(
    st.just("delete"), st.integers(0, 30), st.sampled_from(("Background", "Foreground", "Orphan", "Foreground"))
)
ADOPT = st.tuples(st.just("adopt"), st.integers(0, 30), st.integers(0, 30))
# A family first, then what becomes of it: short stories have nobody to mourn for.
STEPS = st.builds(
    lambda born, then: born + then,
    st.lists(st.one_of(CREATE, CREATE, ADOPT), min_size=8, max_size=16),
    st.lists(st.one_of(CREATE, ADOPT, DELETE, DELETE), min_size=6, max_size=16),
)


def reference(resource: Resource, uid: str, blocks: bool) -> Doc:
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**head, "name": uid, "uid": uid, "blockOwnerDeletion": blocks}


@given(steps=STEPS, seed=st.integers(0, 2**32))
@settings(max_examples=tries(40), deadline=None)
def test_what_is_left_is_what_a_naive_model_leaves(steps: list[Any], seed: int) -> None:
    async def play() -> None:
        harness, model = Harness(random.Random(seed)), Model()
        kinds: dict[str, Resource] = {}  # of everything that ever was: owners may be long gone
        for step in steps:
            if step[0] == "create":
                _, is_node, picks = step
                resource = NODES if is_node else CONFIG_MAPS
                able = [uid for uid in kinds if kinds[uid] is NODES or not is_node]
                picked = {able[pick % len(able)]: blocks for pick, blocks in picks} if able else {}
                uid = f"u{len(kinds)}"
                harness.server.create(resource, uid, [reference(kinds[each], each, on) for each, on in picked.items()])
                kinds[uid] = resource
                model.owners[uid] = set(picked)
                model.settle()
            elif model.owners:
                alive = sorted(model.owners)
                uid = alive[step[1] % len(alive)]
                if step[0] == "delete":
                    harness.server.remove(uid, step[2])
                    model.delete(uid, step[2])
                else:
                    # Half of the time a circle is closed, if there is anybody to close it with.
                    dependents = sorted(each for each, owners in model.owners.items() if uid in owners)
                    able = dependents if dependents and step[2] % 2 else alive
                    owner = able[step[2] // 2 % len(able)]
                    resource, metadata = harness.server.objects[uid]
                    if (
                        owner != uid
                        and owner not in model.owners[uid]
                        and (kinds[owner] is NODES or resource.namespaced)
                    ):
                        owners = [*metadata["ownerReferences"], reference(kinds[owner], owner, True)]
                        await harness.server.patch_doc(resource, uid, {"metadata": {"ownerReferences": owners}})
                        model.owners[uid].add(owner)
            await harness.settle()
            found = {
                uid: {owner["uid"] for owner in metadata["ownerReferences"]}
                for uid, (_, metadata) in harness.server.objects.items()
            }
            assert found == model.owners
            assert not any("deletionTimestamp" in metadata for _, metadata in harness.server.objects.values())

    asyncio.run(play())


async def settled(harness: Harness, *steps: tuple[str, str]) -> list[str]:
    """What is left after deletions, each given by uid and propagation."""
    await harness.settle()
    for uid, propagation in steps:
        harness.server.remove(uid, propagation)
        await harness.settle()
    return sorted(harness.server.objects)


async def test_a_circle_deleted_in_the_foreground_does_not_wait_for_itself() -> None:
    harness = Harness(random.Random(1))
    for uid, owner in (("a", "c"), ("b", "a"), ("c", "b")):
        harness.server.create(CONFIG_MAPS, uid, [reference(CONFIG_MAPS, owner, True)])
    assert await settled(harness, ("a", "Foreground")) == []


async def test_a_circle_that_nobody_deletes_stays() -> None:
    harness = Harness(random.Random(1))
    harness.server.create(CONFIG_MAPS, "a", [reference(CONFIG_MAPS, "b", True)])
    harness.server.create(CONFIG_MAPS, "b", [reference(CONFIG_MAPS, "a", True)])
    assert await settled(harness) == ["a", "b"]


async def test_a_cluster_scoped_object_with_a_namespaced_owner_is_left_alone() -> None:
    harness = Harness(random.Random(1))
    harness.server.create(NODES, "n", [reference(CONFIG_MAPS, "gone", False)])
    assert await settled(harness) == ["n"]


async def test_an_owner_of_a_kind_nobody_knows_is_taken_to_exist() -> None:
    harness = Harness(random.Random(1))
    unknown = {**reference(CONFIG_MAPS, "gone", False), "apiVersion": "example.com/v1", "kind": "Widget"}
    harness.server.create(CONFIG_MAPS, "a", [unknown])
    assert await settled(harness) == ["a"]


async def test_a_reference_with_the_right_uid_and_a_wrong_name_is_dangling() -> None:
    harness = Harness(random.Random(1))
    harness.server.create(CONFIG_MAPS, "a", [])
    harness.server.create(CONFIG_MAPS, "b", [{**reference(CONFIG_MAPS, "a", False), "name": "other"}])
    assert await settled(harness) == ["a"]


async def test_a_dependent_with_another_owner_frees_one_that_waits() -> None:
    harness = Harness(random.Random(1))
    for uid in ("a", "b"):
        harness.server.create(CONFIG_MAPS, uid, [])
    owners = [reference(CONFIG_MAPS, uid, True) for uid in ("a", "b")]
    harness.server.create(CONFIG_MAPS, "c", owners)
    assert await settled(harness, ("a", "Foreground")) == ["b", "c"]


ITEMS = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=3, unique_by=lambda each: each[0]),
        st.sampled_from(("alive", "terminating", "foreground", "gone")),
    ),
    max_size=30,
)


@given(changes=ITEMS)
@settings(max_examples=tries(60), deadline=None)
def test_nothing_that_needs_a_look_is_left_unnamed(changes: list[Any]) -> None:
    graph, shown = DependencyGraph(), dict[str, Item]()
    for number, owners, state in changes:
        uid = f"u{number}"
        before = {each for each, item in shown.items() if graph.needs_processing(item)}
        was_blocked = {each for each in shown if graph.blocking(each)}
        if state == "gone":
            named = graph.remove(uid)
            shown.pop(uid, None)
        else:
            references = tuple(
                convert(OwnerReference, reference(CONFIG_MAPS, f"u{owner}", blocks)) for owner, blocks in owners
            )
            is_leaving, waits = state != "alive", state == "foreground"
            shown[uid] = Item(CONFIG_MAPS, "default", uid, uid, references, is_leaving, False, waits)
            named = graph.put(shown[uid])
        needy = {each for each, item in shown.items() if graph.needs_processing(item)}
        assert needy - before <= named  # whoever comes to need a look by a change is named by it
        for each in shown:
            depend = {other for other, item in shown.items() if any(owner.uid == each for owner in item.owners)}
            assert {item.uid for item in graph.dependents(each)} == depend
            blocking = {
                other
                for other in depend
                if any(owner.uid == each and owner.block_owner_deletion for owner in shown[other].owners)
            }
            assert {item.uid for item in graph.blocking(each)} == blocking
            if shown[each].deletes_dependents and not blocking and each in was_blocked:
                assert each in named  # it may go now
        assert {item.uid for item in graph} == shown.keys()
