"""Who belongs to whom: the index by owner, and what an owner adopts and releases."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import pytest

from support.workload_builders import LABELS, a_pod, ago, replica_set, stateful_set
from tonnage.client.cache import Cache
from tonnage.client.http import Client
from tonnage.client.transport.wire import HttpResponse, Request, Stream
from tonnage.controllers.workloads.workload_controller import by_controller, claim_objects
from tonnage.errors import Conflict
from tonnage.objects.apps_v1 import StatefulSet
from tonnage.objects.codec import encode
from tonnage.objects.core_v1 import Pod

WEB, OTHER = replica_set("web"), replica_set("other")


def names(pods: list[Pod] | tuple[Pod, ...]) -> list[str]:
    return [pod.name for pod in pods]


def matches(pod: Pod) -> bool:
    return LABELS.items() <= pod.metadata.labels.items()


def test_the_index_follows_owners_that_change() -> None:
    cache = Cache(Pod)
    owned = by_controller(cache)
    cache.put(a_pod("a", of=WEB, resourceVersion="1"))
    cache.put(a_pod("b", resourceVersion="2"))
    assert (names(owned(WEB.uid)), names(owned("default/"))) == (["a"], ["b"])
    cache.put(a_pod("b", of=WEB, resourceVersion="3"))
    cache.put(a_pod("a", of=OTHER, resourceVersion="4"))
    assert (names(owned(WEB.uid)), names(owned(OTHER.uid)), names(owned("default/"))) == (["b"], ["a"], [])
    cache.remove("default/b")
    assert owned(WEB.uid) == ()


def test_an_index_made_late_knows_what_was_there() -> None:
    cache = Cache(Pod)
    cache.put(a_pod("a", of=WEB))
    assert names(by_controller(cache)(WEB.uid)) == ["a"]


class OneSet:
    """A server that knows one StatefulSet and adopts pods for it."""

    server = "https://memory"

    def __init__(self, known: StatefulSet) -> None:
        self.known = known
        self.asked: list[str] = []

    async def send(self, request: Request) -> HttpResponse:
        self.asked.append(f"{request.method} {request.path.rpartition('/')[2]}")
        return HttpResponse(200, encode(self.known if request.method == "GET" else a_pod("orphan", of=self.known)))

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError("nothing is watched here")

    async def close(self) -> None:
        pass


async def claimed(owner: StatefulSet, *pods: Pod) -> tuple[list[str], list[str]]:
    """The owner's pods once it has claimed them, and what was asked of the server, reads aside."""
    cache, server = Cache(Pod), OneSet(owner)
    owned = by_controller(cache)
    for pod in pods:
        cache.put(pod)
    found = await claim_objects(Client(server), owner, owned, matches)
    return names(found), [each for each in server.asked if not each.startswith("GET")]


async def test_own_pods_that_match_stay_and_those_that_do_not_are_released() -> None:
    web = stateful_set("web")
    pods = (a_pod("mine", of=web), a_pod("strayed", of=web, labels={}), a_pod("theirs", of=OTHER))
    assert await claimed(web, *pods) == (["mine"], ["PATCH strayed"])


async def test_orphans_that_match_and_stay_are_adopted() -> None:
    pods = (a_pod("orphan"), a_pod("going", going=True), a_pod("other", labels={}))
    assert await claimed(stateful_set("web"), *pods) == (["orphan"], ["PATCH orphan"])


async def test_an_owner_that_is_going_neither_adopts_nor_releases() -> None:
    going = stateful_set("web", metadata={"deletionTimestamp": ago(0)})
    pods = (a_pod("orphan"), a_pod("strayed", of=going, labels={}), a_pod("m", of=going))
    assert await claimed(going, *pods) == (["m"], [])


async def test_an_owner_is_read_anew_before_it_adopts() -> None:
    cache = Cache(Pod)
    owned = by_controller(cache)
    cache.put(a_pod("orphan"))
    server = OneSet(stateful_set("web"))
    assert names(await claim_objects(Client(server), stateful_set("web"), owned, matches)) == ["orphan"]
    assert server.asked == ["GET web", "PATCH orphan"]
    for fresh in ({"deletionTimestamp": ago(0)}, {"uid": "of-another-life"}):
        server = OneSet(stateful_set("web", metadata=fresh))
        with pytest.raises(Conflict, match="StatefulSet default/web does not adopt: it has just been deleted"):
            await claim_objects(Client(server), stateful_set("web"), owned, matches)
        assert server.asked == ["GET web"]


async def test_who_has_nothing_to_adopt_asks_nobody() -> None:
    cache = Cache(Pod)
    owned = by_controller(cache)
    web = stateful_set("web")
    cache.put(a_pod("mine", of=web))
    server = OneSet(web)
    assert names(await claim_objects(Client(server), web, owned, matches)) == ["mine"]
    assert server.asked == []
