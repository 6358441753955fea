"""An informer through good and bad days, on virtual time: nothing missed, nothing told twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from client_wire import MemoryServer, Refused
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.virtual_clock import VirtualClock
from tonnage.client.http import Client
from tonnage.client.informer import Informer
from tonnage.client.informers import Informers, NotSynced
from tonnage.errors import Forbidden
from tonnage.objects.core_v1 import ConfigMap, Node
from tonnage.objects.document import encode


@dataclass
class InformerRig:
    """A server, a client on virtual time, an informer of ConfigMaps, and what its handlers heard."""

    server: MemoryServer = field(default_factory=MemoryServer)
    clock: VirtualClock = field(default_factory=VirtualClock)
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client = Client(self.server, clock=self.clock, rng=random.Random(1))
        self.informer = self.new_informer()

    def new_informer(self) -> Informer[ConfigMap]:
        informer = Informer(self.client, ConfigMap)
        informer.add_handlers(
            on_add=lambda new: self.told.append(f"+{word(new)}"),
            on_update=lambda old, new: self.told.append(f"{word(old)}>{word(new)}"),
            on_delete=lambda old: self.told.append(f"-{word(old)}"),
        )
        return informer

    def put(self, name: str, value: str = "") -> None:
        self.server.write(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": "ns", "name": name},
                "data": {"v": value},
            }
        )

    def remove(self, name: str) -> None:
        self.server.remove("configmaps", "ns", name)

    async def run(self, seconds: float = 0.0) -> None:
        await self.clock.run_for(seconds)

    def heard(self) -> list[str]:
        heard, self.told[:] = list(self.told), []
        return heard

    def asked(self) -> list[str]:
        asked, self.server.requests[:] = list(self.server.requests), []
        return [each.partition(" ")[0] for each in asked]


def word(found: ConfigMap) -> str:
    return f"{found.name}{found.metadata.resource_version}"


@pytest.fixture
async def world() -> AsyncIterator[InformerRig]:
    world = InformerRig()
    yield world
    await world.informer.stop()


async def test_the_state_comes_first_and_then_every_change(world):
    world.put("a")
    world.put("b")
    world.informer.start()
    await world.run()
    assert world.informer.is_synced and world.heard() == ["+a1", "+b2"]
    world.put("a", "changed")
    world.put("c")
    world.remove("b")
    await world.run()
    assert world.heard() == ["a1>a3", "+c4", "-b2"]
    assert world.asked() == ["WATCH"]  # one request for all of it
    assert world.informer.resource_version == "5"


async def test_without_watch_list_it_lists_in_pages_and_does_not_ask_again(world):
    world.server.watch_list = "refused"
    for number in range(1200):
        world.put(f"c{number}")
    world.informer.start()
    await world.run()
    assert len(world.informer) == 1200 and len(world.heard()) == 1200
    # 1,200 objects are three pages of 500.
    assert world.asked() == ["WATCH", "GET", "GET", "GET", "WATCH"]
    world.server.cut()
    world.put("new")
    world.server.compact()
    await world.run(10.0)
    # 410 to the watch; a first page, 410 to the second, all at once; a watch.
    assert world.asked() == ["WATCH", "GET", "GET", "GET", "WATCH"]
    assert world.heard() == ["+new1201"]


async def test_a_server_that_never_ends_its_state_is_listed(world):
    world.server.watch_list = "silent"
    world.put("a")
    world.informer.start()
    await world.run(29.0)
    assert not world.informer.is_synced
    await world.run(2.0)
    assert world.informer.is_synced and world.heard() == ["+a1"]


async def test_a_stream_that_ends_is_followed_from_the_last_version_at_once(world):
    world.put("a")
    world.informer.start()
    await world.run()
    world.put("b")
    await world.run()
    world.server.end_watches()
    world.put("c")
    await world.run()
    assert world.heard() == ["+a1", "+b2", "+c3"]
    assert world.asked() == ["WATCH", "WATCH"]


async def test_a_stream_that_is_cut_in_the_middle_of_a_line_loses_and_repeats_nothing(world):
    world.informer.start()
    await world.run()
    world.put("a")
    world.put("b")
    await world.run()
    (watch,) = world.server.watches
    world.server.watches.clear()
    world.put("c")  # its event does not get through ...
    watch.queue.put_nowait(b'{"type":"ADDED","object":{"kind":"ConfigMap","metadata":{"name":"c"')
    watch.queue.put_nowait(RuntimeError("cut"))
    await world.run(5.0)
    assert world.heard() == ["+a1", "+b2", "+c3"]  # ... and comes with the next stream


async def test_lines_may_come_in_pieces_of_any_size(world):
    world.informer.start()
    await world.run()
    (watch,) = world.server.watches
    world.server.watches.clear()
    world.put("a")
    world.put("b")
    text = b"".join(b'{"type":"ADDED","object":%s}\n' % encode(doc) for doc in world.server.docs.values())
    for start in range(0, len(text), 7):
        watch.queue.put_nowait(text[start : start + 7])
    await world.run()
    assert world.heard() == ["+a1", "+b2"]


async def test_410_fetches_the_state_anew_and_tells_the_difference(world):
    for name in ("gone", "same", "changed"):
        world.put(name)
    world.informer.start()
    await world.run()
    assert world.heard() == ["+changed3", "+gone1", "+same2"]
    world.server.cut()
    world.server.is_away = True
    world.remove("gone")
    world.put("changed", "1")
    world.put("changed", "2")
    world.put("new")
    world.server.compact()
    world.put("newer")
    await world.run(5.0)
    world.server.is_away = False
    await world.run(60.0)
    # changed: written at 5 and 6, told once.
    assert world.heard() == ["-gone1", "changed3>changed6", "+new7", "+newer8"]
    assert world.informer.last_failure.message == "too old resource version: 3 (7)"


async def test_an_object_made_again_while_nobody_listened_is_a_delete_and_an_add(world):
    world.put("a")
    world.informer.start()
    await world.run()
    world.server.cut()
    world.remove("a")
    world.put("a")
    world.server.compact()
    world.put("b")
    await world.run(60.0)
    assert world.heard() == ["+a1", "-a1", "+a3", "+b4"]


async def test_an_error_event_of_any_kind_fetches_the_state_anew(world):
    world.put("a")
    world.informer.start()
    await world.run()
    world.server.fail_watches(500, "InternalError", "etcd event received with PrevKv=nil")
    world.put("b")
    await world.run(60.0)
    assert world.heard() == ["+a1", "+b2"]
    assert world.asked() == ["WATCH", "WATCH"]
    assert world.informer.last_failure.message == "etcd event received with PrevKv=nil"


async def test_bookmarks_move_the_version_so_that_old_history_is_not_needed(world):
    world.informer.start()
    await world.run()
    world.server.write({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})  # nothing for us
    world.server.bookmark()
    await world.run()
    assert world.informer.resource_version == "1"
    world.server.compact()
    world.server.cut()
    world.put("a")
    await world.run(5.0)
    assert world.heard() == ["+a2"]
    assert world.asked() == ["WATCH", "WATCH"]  # no list, no second state


async def test_a_server_that_is_away_is_asked_less_and_less_often_and_at_once_when_it_was_of_use(world):
    world.server.is_away = True
    tries: list[float] = []
    note = world.server._note

    def noted(request):
        tries.append(world.clock.monotonic())
        note(request)

    world.server._note = noted
    world.informer.start()
    await world.run(600.0)
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    # 0.8 s doubling up to 30 s, each stretched by up to as much again.
    for pause, plain in zip(pauses, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0], strict=False):
        assert plain <= pause < 2 * plain
    assert 10 < len(tries) < 30
    world.server.is_away = False
    await world.run(60.0)
    assert world.informer.is_synced
    # It was of use: the next pause is the first again.
    world.put("a")
    await world.run()
    tries.clear()
    world.server.cut()
    world.server.is_away = True
    await world.run(3.0)
    assert tries[1] - tries[0] < 1.6 and len(tries) >= 2


async def test_a_stream_that_tells_nothing_and_ends_at_once_is_not_hammered(world):
    world.server.watch_list = "refused"
    world.informer.start()
    await world.run()
    for _ in range(5):
        world.server.end_watches()
        await world.run()
    # The first end is followed by a pause, and so nobody was there for the others.
    assert world.asked() == ["WATCH", "GET", "WATCH"]


async def test_a_version_that_keeps_expiring_is_not_hammered_either(world):
    world.informer.start()
    await world.run()
    world.asked()

    def expired() -> Refused:
        return Refused(410, "Expired", "too old")

    world.server.refuse_next = [expired() for _ in range(1000)]
    world.server.cut()
    await world.run(10.0)
    assert len(world.asked()) < 10


async def test_a_refused_version_is_dropped(world):
    world.informer.start()
    await world.run()
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    too_large = Refused(504, "Timeout", "Too large resource version: 9, current: 3", causes=[cause])
    world.server.refuse_next = [too_large]
    world.server.cut()
    await world.run(10.0)
    assert world.asked() == ["WATCH", "WATCH", "WATCH"] and world.informer.resource_version == "0"


async def test_an_object_that_cannot_be_read_is_passed_over(world, caplog):
    world.put("a")
    world.put("bad")
    world.server.docs["configmaps", "ns", "bad"]["data"] = 7
    world.informer.start()
    await world.run()
    assert world.heard() == ["+a1"]
    world.server.docs["configmaps", "ns", "bad"]["data"] = {}
    world.put("bad")
    await world.run()
    assert world.heard() == ["+bad3"]
    world.server.docs["configmaps", "ns", "bad"]["data"] = 7
    world.remove("bad")
    await world.run()
    assert world.heard() == ["-bad3"] and world.informer.resource_version == "4"
    assert {record.message for record in caplog.records if record.levelname == "ERROR"} == {
        "An object cannot be read and is ignored"
    }


async def test_an_object_that_cannot_be_read_is_passed_over_in_a_list_too(world):
    world.server.watch_list = "refused"
    world.put("a")
    world.put("bad")
    world.server.docs["configmaps", "ns", "bad"]["data"] = 7
    world.informer.start()
    await world.run()
    assert world.informer.is_synced and world.heard() == ["+a1"]


async def test_what_is_no_event_at_all_breaks_the_stream_and_not_the_informer(world):
    world.informer.start()
    await world.run()
    (watch,) = world.server.watches
    watch.queue.put_nowait(b"<html>502 Bad Gateway</html>\n")
    await world.run()
    world.put("a")
    await world.run(5.0)
    assert world.heard() == ["+a1"]


async def test_a_stopped_informer_tells_no_more_and_goes_on_where_it_was(world):
    world.put("a")
    world.informer.start()
    await world.run()
    await world.informer.stop()
    assert world.server.watches == []
    world.put("b")
    await world.run(60.0)
    assert world.heard() == ["+a1"] and len(world.informer) == 1
    world.informer.start()
    await world.run()
    assert world.heard() == ["+b2"]


async def test_selection_and_namespace_are_asked_of_the_server():
    asked: list[str] = []

    class Asked(MemoryServer):
        def _note(self, request):
            asked.append(request.path)
            super()._note(request)

    client = Client(Asked(), clock=VirtualClock(), rng=random.Random(1))
    informer = Informer(
        client,
        ConfigMap,
        namespace="ns",
        label_selector="a in (b,c)",
        field_selector="metadata.name=x,metadata.name!=y",
    )
    async with informer:
        await informer.wait_synced()
    timeout_s = asked[0].rpartition("=")[2]
    assert 300 <= int(timeout_s) <= 600
    assert asked == [
        "/api/v1/namespaces/ns/configmaps?watch=true&allowWatchBookmarks=true&labelSelector=a%20in%20%28b%2Cc%29"
        "&fieldSelector=metadata.name%3Dx%2Cmetadata.name%21%3Dy&sendInitialEvents=true"
        f"&resourceVersionMatch=NotOlderThan&timeoutSeconds={timeout_s}"
    ]


async def test_informers_are_shared_and_live_together():
    world = InformerRig()
    world.put("a")
    informers = Informers(world.client)
    config_maps, nodes = informers.of(ConfigMap), informers.of(Node)
    assert informers.of(ConfigMap) is config_maps and informers.of(ConfigMap, namespace="ns") is not config_maps
    async with informers:
        await informers.wait_synced()
        assert informers.are_synced and len(config_maps) == 1 and len(nodes) == 0
        late = informers.of(Node, label_selector="a=b")
        await late.wait_synced()
        assert len(world.server.watches) == 4
    assert world.server.watches == []


async def test_who_waits_too_long_is_told_what_is_in_the_way():
    world = InformerRig()
    world.server.is_away = True
    informers = Informers(world.client)
    informers.of(ConfigMap)
    async with informers:
        waiting = asyncio.create_task(informers.wait_synced(30.0))
        await world.run(30.0)
        with pytest.raises(NotSynced) as caught:
            await waiting
    path = "memory:///api/v1/configmaps"
    told = caught.value.message
    assert told.startswith(f"not in step with the API server after 30 s: configmaps (GET {path}?watch=true")
    assert told.endswith(": connection refused)")


async def test_a_refusal_is_tried_again_and_remembered(world):
    refused = [Refused(403, "Forbidden", 'configmaps is forbidden: User "x" cannot list') for _ in range(3)]
    world.server.refuse_next = refused
    world.informer.start()
    await world.run(1.0)
    assert isinstance(world.informer.last_failure, Forbidden) and not world.informer.is_synced
    await world.run(30.0)
    assert world.informer.is_synced


async def test_nobody_waits_for_an_optional_resource_that_is_refused_and_it_is_followed_once_allowed(world):
    world.put("a")
    world.server.refuse_next = [Refused(403, "Forbidden", "configmaps is forbidden") for _ in range(3)]
    world.informer = Informer(world.client, ConfigMap, is_optional=True)
    world.informer.start()
    await world.run(0.1)
    assert world.informer.is_synced and len(world.informer) == 0
    await world.run(30.0)
    assert len(world.informer) == 1


NAMES = st.sampled_from("abc")
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES),
        st.tuples(st.just("remove"), NAMES),
        st.tuples(st.sampled_from(["away", "back", "cut", "end", "compact", "bookmark", "error", "wait"]), st.just("")),
        # While nobody listens: one is deleted, perhaps made again, and history is forgotten.
        st.tuples(st.sampled_from(["lost", "replaced"]), NAMES),
    ),
    max_size=25,
)


@settings(max_examples=tries(150), deadline=None)
@given(ACTS, st.integers(0, 2**16), st.booleans())
def test_whatever_happens_handlers_hear_a_true_story(acts, seed, watch_list):
    async def run() -> None:
        world = InformerRig()
        server = world.server
        world.client.rng.seed(seed)
        server.watch_list = "yes" if watch_list else "refused"
        mirror: dict[str, ConfigMap] = {}
        lies: list[str] = []  # what handlers raise is only logged, so they write it down

        def add(new: ConfigMap) -> None:
            if new.name in mirror:
                lies.append(f"{word(new)} was added twice")
            mirror[new.name] = new

        def update(old: ConfigMap, new: ConfigMap) -> None:
            if mirror.get(old.name) is not old or old.uid != new.uid:
                lies.append(f"{word(old)} was not what {word(new)} came after")
            if int(old.metadata.resource_version) >= int(new.metadata.resource_version):
                lies.append(f"{word(old)} went back to {word(new)}")
            mirror[new.name] = new

        def delete(old: ConfigMap) -> None:
            if mirror.pop(old.name, None) is not old:
                lies.append(f"{word(old)} was not there to be deleted")

        def remove(name: str) -> None:
            if ("configmaps", "ns", name) in server.docs:
                world.remove(name)

        informer = Informer(world.client, ConfigMap)
        informer.add_handlers(on_add=add, on_update=update, on_delete=delete)
        async with informer:
            for number, (act, name) in enumerate(acts):
                match act:
                    case "put":
                        world.put(name, str(number))
                    case "remove":
                        remove(name)
                    case "away":
                        server.is_away = True
                        server.cut()
                    case "back":
                        server.is_away = False
                    case "cut":
                        server.cut()
                    case "end":
                        server.end_watches()
                    case "compact":
                        server.compact()
                    case "bookmark":
                        server.bookmark()
                    case "error":
                        server.fail_watches(500, "InternalError", "no")
                    case "lost" | "replaced":
                        server.cut()
                        remove(name)
                        if act == "replaced":
                            world.put(name)
                        server.compact()
                        world.put("d", str(number))
                    case "wait":
                        await world.run(1.0)
                for _ in range((0, 1, 5, 40)[number % 4]):
                    await asyncio.sleep(0)
            server.is_away = False
            await world.run(300.0)
            assert informer.is_synced and lies == []
            there = {key[2]: doc["metadata"]["resourceVersion"] for key, doc in server.docs.items()}
            assert {name: found.metadata.resource_version for name, found in mirror.items()} == there
            assert {found.name: found for found in informer} == mirror

    asyncio.run(run())
