"""Informers against the embedded server: through restarts, forgotten history and cut connections, nothing is missed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.compaction import compact
from support.eventually import eventually_async
from support.http import free_port
from tonnage.apiserver.server import Server, ServerSettings, serve
from tonnage.apiserver.verbs import reading
from tonnage.client.config import kubeconfig
from tonnage.client.config.connection import ServerConnection
from tonnage.client.http import Client
from tonnage.client.informer import Informer
from tonnage.client.informers import Informers
from tonnage.objects.core_v1 import ConfigMap, Namespace, Node, Pod
from tonnage.objects.meta import ObjectMeta


class Journal:
    """What handlers heard, checked for truth as it is heard, and somebody to wait for it."""

    def __init__(self, informer: Informer[ConfigMap]) -> None:
        self.known: dict[str, ConfigMap] = {}
        self.heard: list[str] = []  # an untrue word too: what a handler raises is only logged
        self._news = asyncio.Event()
        informer.add_handlers(on_add=self._add, on_update=self._update, on_delete=self._delete)

    def _add(self, new: ConfigMap) -> None:
        self._tell(f"+{new.name}" if new.name not in self.known else f"{new.name} was added twice")
        self.known[new.name] = new

    def _update(self, old: ConfigMap, new: ConfigMap) -> None:
        is_true = self.known.get(new.name) is old
        self._tell(f"{new.name}={new.data.get('v', '')}" if is_true else f"{new.name} was updated from nowhere")
        self.known[new.name] = new

    def _delete(self, old: ConfigMap) -> None:
        is_true = self.known.pop(old.name, None) is old
        self._tell(f"-{old.name}" if is_true else f"{old.name} was not there to be deleted")

    def _tell(self, what: str) -> None:
        self.heard.append(what)
        self._news.set()

    async def until(self, *expected: str) -> None:
        """Wait until exactly these have been heard, in this order, since the last time."""
        assert await self.first(len(expected)) == list(expected)

    async def first(self, count: int) -> list[str]:
        """All that was heard since the last time, once it is so many."""
        async with asyncio.timeout(30):
            while len(self.heard) < count:
                self._news.clear()
                await self._news.wait()
        heard, self.heard = self.heard, []
        return heard


class Proxy:
    """A port in front of the server whose connections can be cut."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._pipes: set[asyncio.Task[None]] = set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, there}
        for source, sink in ((reader, there), (there_reader, writer)):
            pipe = asyncio.create_task(self._pipe(source, sink))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)

    async def _pipe(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.transport.abort()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    @asynccontextmanager
    async def open(self):
        listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = listening.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            listening.close()
            self.cut()
            await asyncio.gather(*self._pipes, return_exceptions=True)


def port_of(server: Server) -> int:
    return int(server.url.rpartition(":")[2])


def connect(connection: ServerConnection, on_request: Callable[[str, str, int, float], None] | None = None) -> Client:
    return Client.connect(connection, rng=random.Random(1), on_request=on_request)


def informer_of(client: Client, **options: Any) -> Informer[ConfigMap]:
    # Short pauses, so that a test need not wait; how long they are otherwise is a matter of unit tests.
    return Informer(client, ConfigMap, namespace="default", first_retry_s=0.005, max_retry_s=0.05, **options)


def config_map(name: str, value: str = "1") -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(namespace="default", name=name), data={"v": value})


@pytest.mark.parametrize("watch_list", [True, False])
async def test_an_informer_follows_every_change(tmp_path, watch_list):
    requests: list[tuple[str, int]] = []
    async with (
        serve(ServerSettings(data_dir=tmp_path, port=0)) as server,
        connect(kubeconfig.load(server.kubeconfig), lambda verb, _, code, __: requests.append((verb, code))) as client,
    ):
        for name in "abc":
            await client.create(config_map(name))
        requests.clear()
        informer = informer_of(client, watch_list=watch_list)
        journal = Journal(informer)
        async with informer:
            await informer.wait_synced()
            await journal.until("+a", "+b", "+c")
            assert requests == ([("watch", 200)] if watch_list else [("list", 200)])
            await client.patch(ConfigMap, "default/b", {"data": {"v": "2"}})
            await client.delete(ConfigMap, "default/a")
            await client.create(config_map("a"))
            await journal.until("b=2", "-a", "+a")
        assert {each.name for each in informer} == {"a", "b", "c"}


async def test_it_keeps_up_through_a_restart_of_the_server(tmp_path):
    port = free_port()
    settings = ServerSettings(data_dir=tmp_path, port=port)
    requests: list[tuple[str, int]] = []
    async with serve(settings) as server:
        client = connect(kubeconfig.load(server.kubeconfig), lambda verb, _, code, __: requests.append((verb, code)))
        await client.create(config_map("kept"))
        await client.create(config_map("changed"))
        informer = informer_of(client)
        journal = Journal(informer)
        informer.start()
        await journal.until("+changed", "+kept")
    # The server is away; the informer still knows what it knew, and tries.
    assert len(informer) == 2
    async with serve(settings):
        other = connect(kubeconfig.load(tmp_path / "kubeconfig"))
        await other.patch(ConfigMap, "default/changed", {"data": {"v": "2"}})
        await other.create(config_map("new"))
        await journal.until("changed=2", "+new")
        assert {each.name for each in informer} == {"kept", "changed", "new"}
        await other.close()
    await informer.stop()
    await client.close()
    assert ("list", 200) not in requests and requests.count(("watch", 200)) == 2  # it resumed, and did not start over


async def test_history_that_is_gone_is_made_up_for(tmp_path):
    async with (
        serve(ServerSettings(data_dir=tmp_path, port=0)) as server,
        Proxy(port_of(server)).open() as proxy,
        connect(kubeconfig.load(server.kubeconfig)) as direct,
    ):
        connection = kubeconfig.load(server.kubeconfig)
        through = replace(connection, cluster=replace(connection.cluster, server=f"https://127.0.0.1:{proxy.port}"))
        codes: list[tuple[str, int]] = []
        async with connect(through, lambda verb, _, code, __: codes.append((verb, code))) as client:
            for name in ("changed", "gone", "again", "same"):
                await direct.create(config_map(name))
            informer = informer_of(client)
            journal = Journal(informer)
            async with informer:
                await journal.until("+again", "+changed", "+gone", "+same")
                target, proxy.target = proxy.target, 1  # nobody listens there
                proxy.cut()
                await direct.delete(ConfigMap, "default/gone")
                await direct.delete(ConfigMap, "default/again")
                await direct.create(config_map("again"))
                for value in "23":
                    await direct.patch(ConfigMap, "default/changed", {"data": {"v": value}})
                await direct.create(config_map("new"))
                store = server.registry.store
                await compact(store, store.revision)
                await direct.create(config_map("newer"))
                proxy.target = target
                # gone goes first; the two changes are one; what was made again is another.
                await journal.until("-gone", "-again", "+again", "changed=3", "+new", "+newer")
                assert informer.last_failure is not None


async def test_a_connection_cut_at_any_moment_loses_and_repeats_nothing(tmp_path):
    async with (
        serve(ServerSettings(data_dir=tmp_path, port=0)) as server,
        Proxy(port_of(server)).open() as proxy,
        connect(kubeconfig.load(server.kubeconfig)) as direct,
    ):
        connection = kubeconfig.load(server.kubeconfig)
        through = replace(connection, cluster=replace(connection.cluster, server=f"https://127.0.0.1:{proxy.port}"))
        lists: list[str] = []
        on_request = lambda verb, _, __, ___: lists.append(verb) if verb == "list" else None  # noqa: E731
        async with connect(through, on_request) as client:
            informer = informer_of(client)
            journal = Journal(informer)
            async with informer:
                await informer.wait_synced()
                expected: list[str] = []

                async def write(worker: int) -> None:
                    for number in range(40):
                        name = f"w{worker}-{number}"
                        await direct.create(config_map(name))
                        await direct.patch(ConfigMap, f"default/{name}", {"data": {"v": "2"}})
                        if number % 2:
                            await direct.delete(ConfigMap, f"default/{name}")
                        if number % 5 == 0:
                            proxy.cut()

                await asyncio.gather(*(write(worker) for worker in range(4)))
                for worker in range(4):
                    for number in range(40):
                        name = f"w{worker}-{number}"
                        expected += [f"+{name}", f"{name}=2"] + ([f"-{name}"] if number % 2 else [])
                assert sorted(await journal.first(len(expected))) == sorted(expected)
                assert lists == []


async def test_bookmarks_make_an_old_version_young(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_BOOKMARK_EVERY_S", 0.01)  # a minute is long to wait in a test
    async with (
        serve(ServerSettings(data_dir=tmp_path, port=0)) as server,
        Proxy(port_of(server)).open() as proxy,
        connect(kubeconfig.load(server.kubeconfig)) as direct,
    ):
        connection = kubeconfig.load(server.kubeconfig)
        through = replace(connection, cluster=replace(connection.cluster, server=f"https://127.0.0.1:{proxy.port}"))
        async with connect(through) as client:
            informer = informer_of(client)
            journal = Journal(informer)
            async with informer:
                await informer.wait_synced()
                await direct.create(config_map("first"))
                await journal.until("+first")
                for number in range(5):  # another resource moves the revision on; only bookmarks tell us
                    await direct.create(Namespace(metadata=ObjectMeta(name=f"ns-{number}")))
                store = server.registry.store
                newest = store.revision
                await eventually_async(lambda: int(informer.resource_version) >= newest)
                await compact(store, newest)
                proxy.cut()
                await direct.create(config_map("second"))
                await journal.until("+second")
                # Without the bookmark the version would be the first one's, which is forgotten: 410.
                assert "too old" not in (informer.last_failure.message if informer.last_failure else "")


async def test_a_selection_follows_what_enters_and_leaves_it(tmp_path):
    async with (
        serve(ServerSettings(data_dir=tmp_path, port=0)) as server,
        connect(kubeconfig.load(server.kubeconfig)) as client,
    ):
        heard: asyncio.Queue[str] = asyncio.Queue()
        informer = Informer(client, Pod, field_selector="spec.nodeName=n1,status.phase!=Failed")
        informer.add_handlers(
            on_add=lambda new: heard.put_nowait(f"+{new.key}"), on_delete=lambda old: heard.put_nowait(f"-{old.key}")
        )
        container = {"name": "c", "image": "i"}
        async with informer, asyncio.timeout(20):
            await informer.wait_synced()
            for name in ("a", "b"):
                doc = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name}}
                await client.create_doc({**doc, "spec": {"containers": [container]}})
            await client.bind("default/b", "n2")
            await client.bind("default/a", "n1")
            assert await heard.get() == "+default/a"
            await client.patch(Pod, "default/a", {"status": {"phase": "Failed"}}, subresource="status")
            assert await heard.get() == "-default/a"
            assert len(informer) == 0


async def test_a_set_of_informers_syncs_and_stops_together(tmp_path):
    async with (
        serve(ServerSettings(data_dir=tmp_path, port=0)) as server,
        connect(kubeconfig.load(server.kubeconfig)) as client,
    ):
        await client.create(Node(metadata=ObjectMeta(name="n1")))
        informers = Informers(client)
        nodes, namespaces = informers.of(Node), informers.of(Namespace)
        async with informers:
            await informers.wait_synced(timeout_s=20.0)
            assert len(nodes) == 1 and "default" in namespaces


async def test_a_client_that_closes_leaves_no_watch_behind(tmp_path: Path):
    async with serve(ServerSettings(data_dir=tmp_path, port=0)) as server:
        client = connect(kubeconfig.load(server.kubeconfig))
        informers = Informers(client)
        informers.of(Node)
        async with informers:
            await informers.wait_synced()
            assert len(server.application._watches) == 1
        await client.close()
        await eventually_async(lambda: not server.application._watches)
