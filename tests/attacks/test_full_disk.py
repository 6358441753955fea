"""The disk is full: of objects, of another program's file, while it compacts, and when the server starts.

A small tmpfs is full for certain, so most of this needs a root that may mount one. Reads go on, deletions always work,
what needs no room (a lease that is renewed) works, and writing comes back by itself. `tests/unit/store` has what can
be tried without root: a file that may not grow.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.compaction import compact
from support.eventually import eventually, eventually_async
from support.http import Reply
from support.processes import ApiServerProcess, start_cluster, start_up
from tonnage.store.errors import StoreFull
from tonnage.store.folder import StoreOptions
from tonnage.store.records import StoreRecord
from tonnage.store.store import Store
from tonnage_command import tonnage

MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
HEALTH = ("/readyz", "/livez", "/healthz")
RESERVE_BYTES = 8 << 20


@contextmanager
def mounted(folder: Path, size_mb: int) -> Iterator[Path]:
    """A file system of its own, of so many megabytes."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m,mode=700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("only a root that may mount can make a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", 60) as folder:
        yield folder


def fill(disk: Path) -> Path:
    """Somebody else takes all the room there is."""
    path = disk / "filling"
    with path.open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while file.write(b"\0" * size) == size:
                    pass
            except OSError:
                continue
    return path


def config_map(name: str, size: int = 10, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "data": {"k": "x" * size}}


def lease(renewed_at: str) -> dict[str, Any]:
    return {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a", "renewTime": renewed_at}}


def renewals(cluster: ApiServerProcess) -> dict[str, str]:
    leases = cluster.get("/apis/coordination.k8s.io/v1/leases").body["items"]
    return {lease["metadata"]["name"]: lease["spec"]["renewTime"] for lease in leases}


def health(cluster: ApiServerProcess) -> list[int]:
    return [cluster.get(path, token="").code for path in HEALTH]


def names_in(cluster: ApiServerProcess) -> list[str]:
    return [
        item["metadata"]["name"]
        for item in cluster.get(MAPS).body["items"]
        if item["metadata"]["name"] != "kube-root-ca.crt"
    ]


def until_full(cluster: ApiServerProcess, disk: Path) -> Reply:
    """Write small objects, in what room history still gives up, until one is refused: its answer."""
    for number in range(200):
        reply = cluster.post(MAPS, {"metadata": {"generateName": f"small-{number}-"}})
        if reply.code != 201:
            assert reply.code == 500
            return reply
        fill(disk)
    raise AssertionError("the disk never filled up")


def data_on(disk: Path) -> Path:
    data = disk / "data"
    data.mkdir(mode=0o700)
    return data


@pytest.mark.slow
def test_sixty_objects_on_a_disk_that_holds_fewer_can_all_be_deleted(small_disk: Path):
    cluster = start_cluster(data_on(small_disk))
    codes = Counter(cluster.post(MAPS, config_map(f"large-{number}", 900_000)).code for number in range(60))
    assert codes.keys() == {201, 500}  # 60 × 0.9 MB and the reserve are more than there is
    names = names_in(cluster)
    assert len(names) == codes[201] > 40
    assert [cluster.delete(f"{MAPS}/{name}").code for name in names] == [200] * len(names)
    eventually(lambda: health(cluster) == [200, 200, 200], "health to recover")
    assert cluster.post(MAPS, config_map("after", 900_000)).code == 201
    assert cluster.stop() == 0


def test_a_disk_that_another_program_filled_takes_deletions_and_leases(small_disk: Path):
    data = data_on(small_disk)
    cluster = start_cluster(data)
    for number in range(12):
        assert cluster.post(MAPS, config_map(f"large-{number}", 900_000)).code == 201
    assert cluster.post(MAPS, config_map("held", 900_000, finalizers=["example.com/hold"])).code == 201
    pods = "/api/v1/namespaces/default/pods"
    pod = {"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "node-1"}}
    assert cluster.post(pods, pod).code == 201
    assert cluster.post(LEASES, lease("2026-11-16T10:00:00.000000Z")).code == 201
    watch = cluster.get(MAPS).body["metadata"]["resourceVersion"]
    filling = fill(small_disk)
    refused = until_full(cluster, small_disk)
    assert "the disk is full; nothing was stored; make room and retry" in refused.message
    assert health(cluster) == [500, 200, 500]  # a restart makes no room, and would end what still works
    # Two objects in turn: a row that follows another needs a new page of the file now and then.
    for second in range(60):
        at = f"2026-11-16T10:00:{second:02}.000000Z"
        assert cluster.patch(f"{LEASES}/leader", lease(at)).code == 200, at
        assert cluster.patch(f"{pods}/pod", {"metadata": {"annotations": {"at": at}}}).code == 200, at
    assert cluster.patch(f"{MAPS}/large-0", config_map("large-0", 950_000)).code == 500  # it would grow
    # At once, marked and waiting for a finalizer, and marked with a grace period: all of it writes first. The other
    # program takes what comes free.
    for number in range(6):
        assert cluster.delete(f"{MAPS}/large-{number}").code == 200
        fill(small_disk)
    assert cluster.delete(f"{MAPS}/held").code == 200
    assert cluster.patch(f"{MAPS}/held", [{"op": "remove", "path": "/metadata/finalizers"}], "json").code == 200
    assert cluster.delete(f"{pods}/pod").code == 200
    assert cluster.get(f"{MAPS}?watch=true&resourceVersion={watch}&timeoutSeconds=1").body["object"]["code"] == 410
    # A start on the full disk, after a kill and after an orderly end: what is there can be read and deleted.
    for number, end in enumerate((signal.SIGKILL, signal.SIGTERM), 6):
        cluster.stop(end)
        fill(small_disk)
        cluster = start_cluster(data)
        assert {f"large-{left}" for left in range(number, 12)} <= set(names_in(cluster))
        until_full(cluster, small_disk)
        assert health(cluster) == [500, 200, 500]
        assert cluster.delete(f"{MAPS}/large-{number}").code == 200
    assert cluster.delete(MAPS).code == 200
    assert names_in(cluster) == []
    filling.unlink()
    eventually(lambda: health(cluster) == [200, 200, 200], "health to recover")
    assert cluster.post(MAPS, config_map("after", 500_000)).code == 201
    assert cluster.stop() == 0
    done = tonnage("apiserver", "--data-dir", str(data), "--check")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "ok: nothing is damaged")


def always(document: bytes, revision: int) -> bytes:
    """The same at every revision."""
    return document


@pytest.mark.parametrize("seed", range(3))
async def test_small_updates_on_a_full_disk_are_never_refused(small_disk: Path, seed: int):
    """Which row needs a new page depends on what stands beside it, so that objects and sizes are drawn."""
    rng = random.Random(seed)
    store = await Store.open(small_disk / "store", StoreOptions(reserve_bytes=RESERVE_BYTES))
    records = []
    for number in range(rng.randint(2, 60)):
        document = b"x" * rng.choice((100, 700, 2_000, 5_000, 100_000))
        records.append(await store.create(f"a/{number}", partial(always, document)))
    fill(small_disk)
    with pytest.raises(StoreFull):
        for number in range(3_000):
            await store.create(f"b/{number}", partial(always, b"x" * 500))
            fill(small_disk)
    small = [record for record in records if len(record.document) < 6_000][:6]
    for _ in range(120):
        place = rng.randrange(len(small))
        before = small[place]
        small[place] = await store.update(before.key, partial(always, before.document), expected=before.revision)
        if rng.random() < 0.3:
            fill(small_disk)  # the other program takes what comes free
    assert (small_disk / "store" / "reserve").stat().st_size > RESERVE_BYTES // 2
    await store.close()


@pytest.mark.slow
def test_a_whole_cluster_holds_on_a_full_disk_and_starts_again(tmp_path: Path):
    pods = "/api/v1/namespaces/default/pods"
    with mounted(tmp_path / "disk", 80) as disk:
        cluster = start_up(disk / "data")
        for number in range(10):
            assert cluster.post(MAPS, config_map(f"large-{number}", 900_000)).code == 201
        pod = {"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert cluster.post(pods, pod).code == 201
        eventually(lambda: cluster.get(f"{pods}/pod").body["status"].get("phase") == "Running", "the pod to run")
        programs = ("apiserver", "scheduler", "controllers", "csi-driver", "provisioner", "node")
        pids = [cluster.pid(program) for program in programs]
        filling = fill(disk)
        eventually(lambda: fill(disk) and health(cluster) == [500, 200, 500], "the full disk to be told")
        before = renewals(cluster)
        assert before
        eventually(lambda: all(renewals(cluster)[name] > at for name, at in before.items()), "all leases to be renewed")
        assert cluster.delete(f"{pods}/pod").code == 200
        eventually(lambda: cluster.get(f"{pods}/pod").code == 404, "the pod to be gone")
        assert [cluster.pid(program) for program in programs] == pids
        cluster.stop()
        fill(disk)
        cluster = start_up(disk / "data")
        assert [cluster.delete(f"{MAPS}/large-{number}").code for number in range(10)] == [200] * 10
        filling.unlink()
        eventually(lambda: health(cluster) == [200, 200, 200], "health to recover")
        assert cluster.post(MAPS, config_map("after", 500_000)).code == 201
        cluster.stop()


def test_a_new_store_is_not_begun_on_a_full_disk(small_disk: Path):
    fill(small_disk)
    fresh = small_disk / "fresh"
    done = tonnage("apiserver", "--data-dir", str(fresh), "--secure-port", "0")
    path = fresh / "store" / "log.sqlite3"
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"error: cannot write to {path}: the disk is full; nothing was stored",
        "hint: make room on its file system, then start again",
    ]
    assert not path.exists()


# The store alone, over sizes.


@asynccontextmanager
async def opened(disk: Path, **options: Any) -> AsyncIterator[Store]:
    store = await Store.open(disk / "store", StoreOptions(reserve_bytes=RESERVE_BYTES, probe_every_s=0.05, **options))
    try:
        yield store
    finally:
        await store.close()


async def outcomes(writes: list[Coroutine[Any, Any, StoreRecord]], at_once: int) -> Counter[str]:
    """How often each outcome was had, of so many writes at once."""
    gate = asyncio.Semaphore(at_once)

    async def outcome(write: Coroutine[Any, Any, StoreRecord]) -> str:
        async with gate:
            try:
                await write
            except StoreFull:
                return "full"
            return "done"

    return Counter(await asyncio.gather(*(outcome(write) for write in writes)))


def deletions(store: Store, records: list[StoreRecord]) -> list[Coroutine[Any, Any, StoreRecord]]:
    def deletion(record: StoreRecord) -> Coroutine[Any, Any, StoreRecord]:
        return store.delete(record.key, lambda _: record.document, expected=record.revision)

    return [deletion(record) for record in records]


async def check_that_all_can_be_deleted(disk: Path, size: int, count: int, at_once: int) -> None:
    async with opened(disk) as store:
        created = await outcomes([store.create(f"x/{i:06}", lambda _: os.urandom(size)) for i in range(count)], at_once)
        filling = fill(disk)
        while (await outcomes([store.create(f"x/more-{store.revision}", lambda _: bytes(size))], 1))["done"]:
            created["done"] += 1  # in the room that history had
            fill(disk)
        records = list(store.list("x/"))
        assert len(records) == created["done"]
        half = len(records) // 2
        assert await outcomes(deletions(store, records[:half]), at_once) == {"done": half}
        fill(disk)
    fill(disk)
    async with opened(disk) as store:  # a start on a full disk
        assert list(store.list("x/")) == records[half:]
        assert await outcomes(deletions(store, records[half:]), at_once) == {"done": len(records) - half}
        filling.unlink()
        await eventually_async(lambda: store.health.problem is None, "writing to come back")
        assert await outcomes([store.create("x/after", lambda _: bytes(size))], 1) == {"done": 1}
    async with opened(disk) as store:
        assert [record.key for record in store.list("x/")] == ["x/after"]
        assert store.health.damage == []


@pytest.mark.parametrize(
    ("size_mb", "size", "count", "at_once"),
    [
        (40, 900_000, 60, 60),
        (40, 1_000, 8_000, 200),
        pytest.param(40, 1_400_000, 40, 1, marks=pytest.mark.slow),
        pytest.param(60, 900_000, 60, 1, marks=pytest.mark.slow),
        pytest.param(60, 900_000, 60, 60, marks=pytest.mark.slow),
        pytest.param(100, 100, 200_000, 1_000, marks=pytest.mark.slow),
        pytest.param(256, 10_000, 30_000, 100, marks=pytest.mark.slow),
        pytest.param(2_048, 900_000, 2_400, 20, marks=pytest.mark.slow),
    ],
)
async def test_every_object_can_be_deleted_whatever_its_size(
    tmp_path: Path, size_mb: int, size: int, count: int, at_once: int
):
    with mounted(tmp_path / "disk", size_mb) as disk:
        await check_that_all_can_be_deleted(disk, size, count, at_once)


async def test_a_disk_that_fills_up_in_the_middle_of_a_compaction(small_disk: Path):
    async with opened(small_disk, keep_revisions=200) as store:
        record = await store.create("x/a", lambda _: bytes(20_000))
        kept = [await store.create(f"x/kept-{number}", lambda _: bytes(500_000)) for number in range(20)]
        for _ in range(150):
            record = await store.update("x/a", lambda _: bytes(20_000), expected=record.revision)
        compaction = asyncio.create_task(compact(store, store.revision))
        filling = await asyncio.to_thread(fill, small_disk)
        await asyncio.gather(compaction, return_exceptions=True)
        assert await outcomes(deletions(store, kept), 4) == {"done": 20}
        assert list(store.list("x/")) == [record]
        filling.unlink()


async def test_a_full_disk_is_healthy_again_by_what_the_store_itself_can_give_back(small_disk: Path):
    """Nobody writes: to find out that history can go, and its pages with it, is left to the probe."""
    async with opened(small_disk) as store:
        record = await store.create("x/a", lambda _: bytes(500_000))
        for _ in range(20):
            record = await store.update("x/a", lambda _: bytes(500_000), expected=record.revision)
        os.truncate(small_disk / "store" / "reserve", RESERVE_BYTES // 2)
        fill(small_disk)  # 10 MB of history are all the room that there is
        answers = set()

        async def has_given_back() -> bool:
            answers.add(await store.find_trouble())
            return store.compacted == store.revision

        await eventually_async(has_given_back, "history to be given up")
        assert answers == {None}
        assert await outcomes([store.create("x/after", lambda _: bytes(1_000))], 1) == {"done": 1}
