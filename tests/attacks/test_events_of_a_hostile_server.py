"""Watches that say what no watch should: old events, no events, errors of any shape, ends without end.

Whatever comes, an informer goes on, fetches the state anew when in doubt, and pauses longer each time that it must.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from support.virtual_clock import VirtualClock
from tonnage.client.http import Client
from tonnage.client.informer import Informer
from tonnage.client.transport.wire import HttpResponse, Request
from tonnage.objects.core_v1 import ConfigMap
from tonnage.objects.document import encode


def head(name: str, version: object, uid: str = "u1", **more: Any) -> dict[str, Any]:
    return {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": version, **more}


def line(type_: str, metadata: Any, **more: Any) -> bytes:
    return encode({"type": type_, "object": {"kind": "ConfigMap", "metadata": metadata, **more}}) + b"\n"


def bookmark(version: object) -> bytes:
    return line("BOOKMARK", {"resourceVersion": version})


class Script:
    """A server whose lists and streams are written beforehand; when they are used up, lists repeat and streams hang."""

    server = "script://"

    def __init__(self) -> None:
        self.lists: list[tuple[str, list[dict[str, Any]]]] = [("10", [head("a", "5")])]
        self.streams: list[bytes] = []
        self.asked: list[tuple[float, str]] = []
        self.clock = VirtualClock()
        self.code, self.headers = 200, {}  # type: ignore[var-annotated]  # it is its own Stream

    async def send(self, request: Request) -> HttpResponse:
        self.asked.append((self.clock.monotonic(), "list"))
        version, items = self.lists[0] if len(self.lists) == 1 else self.lists.pop(0)
        docs = [{"metadata": metadata} for metadata in items]
        return HttpResponse(
            200, encode({"kind": "ConfigMapList", "metadata": {"resourceVersion": version}, "items": docs})
        )

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Script]:
        self.asked.append((self.clock.monotonic(), "watch"))
        yield self

    async def read(self) -> bytes:
        return b""

    async def chunks(self) -> AsyncIterator[bytes]:
        if not self.streams:
            await asyncio.Event().wait()
        yield self.streams.pop(0)

    async def close(self) -> None: ...


async def played(script: Script, seconds: float = 100.0) -> tuple[Informer[ConfigMap], list[str]]:
    """The informer after the script, and what its handlers heard."""
    client = Client(script, clock=script.clock, rng=random.Random(1))
    informer = Informer(client, ConfigMap, watch_list=False)
    heard: list[str] = []
    informer.add_handlers(
        on_add=lambda new: heard.append(f"+{new.name}{new.metadata.resource_version}"),
        on_update=lambda old, new: heard.append(f"{old.metadata.resource_version}>{new.metadata.resource_version}"),
        on_delete=lambda old: heard.append(f"-{old.name}{old.metadata.resource_version}"),
    )
    async with informer:
        await script.clock.run_for(seconds)
    return informer, heard


def lists(script: Script) -> int:
    return [what for _, what in script.asked].count("list")


async def test_an_old_event_about_what_is_known_is_passed_over():
    script = Script()
    script.streams = [
        line("MODIFIED", head("a", "12")) + line("MODIFIED", head("a", "5")) + line("ADDED", head("a", "12"))
    ]
    informer, heard = await played(script)
    assert heard == ["+a5", "5>12"]
    assert informer.resource_version == "12" and lists(script) == 1


@pytest.mark.parametrize(
    "old",
    [
        line("DELETED", head("a", "7")),  # it is there
        line("ADDED", head("b", "7", "u2")),  # it is not there
        line("MODIFIED", head("a", "7", "u0")),  # another life of it
    ],
)
async def test_an_old_event_that_contradicts_what_is_known_has_the_state_fetched_anew(old):
    script = Script()
    script.lists = [("10", [head("a", "5")]), ("20", [head("a", "5"), head("c", "20", "u3")])]
    script.streams = [old]
    informer, heard = await played(script)
    assert heard == ["+a5", "+c20"]
    assert informer.resource_version == "20" and lists(script) == 2


async def test_an_old_deletion_of_what_is_gone_is_passed_over():
    script = Script()
    script.streams = [line("DELETED", head("b", "7", "u2")) + line("DELETED", head("z", "15", "u9"))]
    informer, heard = await played(script)
    assert (heard, informer.resource_version, lists(script)) == (["+a5"], "15", 1)


async def test_an_old_bookmark_does_not_move_the_watch_back():
    script = Script()
    script.streams = [bookmark("30") + bookmark("20") + bookmark("") + bookmark("0")]
    informer, _ = await played(script)
    assert informer.resource_version == "30"


@pytest.mark.parametrize(
    "end",
    [
        b"{\n",
        b"\n",
        b"\xff\n",
        b"null\n",
        b"7\n",
        b"{}\n",
        b"[" * 50_000 + b"\n",
        line("SURPRISE", head("a", "99")),
        line("", head("a", "99")),
        b'{"type":7,"object":{}}\n',
        b'{"type":"ERROR"}\n',
        b'{"type":"ERROR","object":null}\n',
        b'{"type":"ERROR","object":7}\n',
        b'{"type":"ERROR","object":{"kind":"Pod"}}\n',
        b'{"type":"ERROR","object":{"kind":"Status","code":"x","reason":[]}}\n',
        b'{"type":"ERROR","object":{"kind":"Status","code":-1,"reason":"\\u001b[2J","message":"x"}}\n',
        b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n',
        b'{"type":"BOOKMARK"}\n',
        b'{"type":"BOOKMARK","object":{"metadata":7}}\n',
    ],
    ids=range(19),
)
async def test_what_is_no_event_has_the_state_fetched_anew(end):
    script = Script()
    script.lists = [("10", [head("a", "5")]), ("20", [head("a", "20")])]
    script.streams = [end]
    _, heard = await played(script)
    assert heard == ["+a5", "5>20"]


@pytest.mark.parametrize(
    "metadata",
    [
        head("", "11"),
        head("b", "11", ""),
        head("b/c", "11"),
        {"name": "b", "uid": "u2", "resourceVersion": "11"},
        {"resourceVersion": "11"},
        {"namespace": "ns", "name": 7, "resourceVersion": "11"},
        {"namespace": "ns", "name": ["b"], "uid": {}, "resourceVersion": "11"},
    ],
    ids=range(7),
)
async def test_an_object_that_cannot_be_told_from_others_is_passed_over(metadata):
    for type_ in ("ADDED", "MODIFIED", "DELETED"):
        script = Script()
        script.streams = [line(type_, metadata) + line("MODIFIED", head("a", "12"))]
        informer, heard = await played(script)
        assert (heard, informer.resource_version) == (["+a5", "5>12"], "12")


async def test_a_list_of_such_objects_is_read_without_them():
    script = Script()
    script.lists = [("10", [head("", "4"), {}, head("a", "5"), head("b", "6", ""), {"name": 7}])]
    _, heard = await played(script)
    assert heard == ["+a5"]


@pytest.mark.parametrize("version", ["x9", "-3", "9" * 5_000, "1_2", "²", "0x5"])
async def test_a_version_that_is_no_number_is_taken_as_it_comes(version):
    script = Script()
    script.streams = [line("MODIFIED", head("a", version)) + line("MODIFIED", head("a", "12"))]
    informer, heard = await played(script)
    assert heard == ["+a5", f"5>{version}", f"{version}>12"]
    assert informer.resource_version == "12"


@pytest.mark.parametrize("version", [7, None, [], {}, 1.5, True])
async def test_a_version_that_is_no_text_ends_nothing(version):
    script = Script()
    script.streams = [line("MODIFIED", head("a", version)) + bookmark(version), line("MODIFIED", head("a", "12"))]
    informer, heard = await played(script)
    assert heard[-1].endswith(">12") and informer.resource_version == "12"


async def test_a_server_that_was_restored_from_a_copy_is_believed():
    """It counts from an older version, and gives versions out again that stood for something else."""
    script = Script()
    other = head("a", "5", labels={"of": "the copy"})
    script.lists = [("10", [head("a", "5"), head("b", "9", "u2")]), ("6", [other])]
    script.streams = [b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n', line("MODIFIED", head("a", "7"))]
    informer, heard = await played(script)
    assert heard == ["+a5", "+b9", "5>5", "-b9", "5>7"]
    assert informer.resource_version == "7"


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"half a line",
        bookmark("3"),
        line("MODIFIED", head("a", "5")),
        line("ADDED", head("b", "7", "u2")),
        line("SURPRISE", {}),
        b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n',
        line("ADDED", head("b", "11", "u2")) + b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n',
    ],
    ids=range(8),
)
async def test_a_watch_that_ends_at_once_for_ever_is_asked_for_less_and_less(stream):
    script = Script()
    script.streams = [stream] * 10_000
    await played(script, 600.0)
    # 0.8 s, doubled up to 30 s and jittered: some 25 tries in ten minutes, each a list and a watch at most.
    assert len(script.asked) < 100


async def test_a_watch_list_that_says_nonsense_is_tried_again():
    script = Script()
    script.streams = [b"\xff\n", line("ADDED", 7), b"{}\n", line("ADDED", head("a", "5")) + b"nonsense\n"]
    client = Client(script, clock=script.clock, rng=random.Random(1))
    async with Informer(client, ConfigMap) as informer:
        await script.clock.run_for(20.0)
        end = {"resourceVersion": "10", "annotations": {"k8s.io/initial-events-end": "true"}}
        script.streams = [line("ADDED", head("a", "5")) + line("BOOKMARK", end)] * 20
        await script.clock.run_for(60.0)
        assert informer.is_synced and [each.name for each in informer] == ["a"]


async def test_random_lines_never_end_an_informer():
    rng = random.Random(13)
    good = [line("ADDED", head("b", "12", "u2")), bookmark("13"), line("DELETED", head("a", "14"))]
    script = Script()
    for _ in range(300):
        data = bytearray(b"".join(rng.choices(good, k=3)))
        for _ in range(rng.randrange(6)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        script.streams.append(bytes(data))
    client = Client(script, clock=script.clock, rng=random.Random(1))
    async with Informer(client, ConfigMap, watch_list=False) as informer:
        await script.clock.run_for(20_000.0)
        assert not script.streams and informer._task is not None and not informer._task.done()
        assert [each.name for each in informer if each.name == "a"] == ["a"], "the list has the last word"
