"""The disk under the API server fails, fills up, or gives back something else than was written.

Each attack is made on a real server: the kernel refuses its writes (a file-size limit laid on the running process), its
file system is full (a small tmpfs), and its file is changed while it is down. What was written is served or told to be
damaged, health tells while writes fail, and one can always go on: delete, restart, restore.
"""

from __future__ import annotations

import asyncio
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.processes import ApiServerProcess, start_cluster
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.clock import SystemClock
from tonnage.plane.status import storage_of
from tonnage_command import tonnage

MAPS = "/api/v1/namespaces/default/configmaps"
HEALTH = ("/readyz", "/livez", "/healthz")


def config_map(name: str, size: int = 10, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "data": {"k": "x" * size}}


def health(cluster: ApiServerProcess) -> list[int]:
    return [cluster.get(path, token="").code for path in HEALTH]


def log_of(folder: Path) -> Path:
    return folder / "store" / "log.sqlite3"


def sql(folder: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(log_of(folder))) as connection, connection:
        connection.execute(statement, values)


def names_in(cluster: ApiServerProcess, path: str = MAPS) -> set[str]:
    return {item["metadata"]["name"] for item in cluster.get(path).body["items"]}


async def storage_as_status_has_it(cluster: ApiServerProcess) -> tuple[str, ...]:
    """What `tonnage status` says of the store."""
    async with Client.connect(kubeconfig.load(cluster.kubeconfig), clock=SystemClock(), user_agent="test") as client:
        return await storage_of(client)


# The disk fails.


def test_health_tells_of_an_io_error_and_recovers_without_a_restart(tmp_path: Path):
    cluster = start_cluster(tmp_path)
    assert cluster.post(MAPS, config_map("before")).code == 201
    assert health(cluster) == [200, 200, 200]
    # From here on the kernel lets the server write no file beyond what the write-ahead log has: EFBIG, a real error.
    size = log_of(tmp_path).with_name("log.sqlite3-wal").stat().st_size
    soft, hard = resource.prlimit(cluster.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(cluster.process.pid, resource.RLIMIT_FSIZE, (size, hard))
    assert cluster.post(MAPS, config_map("refused", 100_000)).code == 500
    assert health(cluster) == [500, 500, 500]
    assert cluster.get(MAPS).code == 200  # reads go on
    for path in ("/readyz/storage", "/readyz/etcd", "/livez/storage", "/healthz/etcd"):
        assert cluster.get(path).code == 500
    assert cluster.get("/readyz/ping").code == 200
    told = cluster.get("/readyz?verbose").body
    assert "[-]storage failed: reading or writing" in told and "[+]ping ok" in told
    assert told.endswith("readyz check failed\n")
    assert "reason withheld" in cluster.get("/readyz", token="").body
    assert str(tmp_path) not in cluster.get("/readyz", token="").body
    metrics = cluster.get("/metrics", accept="text/plain").body
    assert "tonnage_store_writable 0.0" in metrics
    assert 'tonnage_store_last_error_timestamp_seconds{kind="io"}' in metrics
    # Nobody writes: it finds out by itself.
    resource.prlimit(cluster.process.pid, resource.RLIMIT_FSIZE, (soft, hard))
    eventually(lambda: health(cluster) == [200, 200, 200], "health to recover")
    assert cluster.post(MAPS, config_map("after")).code == 201
    assert names_in(cluster) >= {"before", "after"}
    cluster.stop(signal.SIGKILL)
    done = tonnage("apiserver", "--data-dir", str(tmp_path), "--check")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "ok: nothing is damaged")


# The disk gives back something else.


def test_a_damaged_object_is_named_kept_out_and_can_be_deleted(tmp_path: Path):
    cluster = start_cluster(tmp_path)
    for name in ("a", "b", "c"):
        cluster.post(MAPS, config_map(name))
    cluster.put(f"{MAPS}/b", config_map("b", 20))
    cluster.stop()
    key = "configmaps/default/b"
    # One bit of its newest state; the state before it is whole, and is not the present.
    with closing(sqlite3.connect(log_of(tmp_path))) as connection, connection:
        revision, document = connection.execute(
            "SELECT revision, document FROM log WHERE key = ? ORDER BY revision DESC", (key,)
        ).fetchone()
        flipped = bytearray(document)
        flipped[len(flipped) // 2] ^= 4
        connection.execute("UPDATE log SET document = ? WHERE revision = ?", (bytes(flipped), revision))
    # The namespace, too, which every write in it asks for, and one that the server wants to make at its start.
    sql(tmp_path, "UPDATE log SET document = x'7b' WHERE key = 'namespaces/kube-node-lease'")
    cluster = start_cluster(tmp_path)
    found = cluster.get(f"{MAPS}/b")
    assert (found.code, found.body["kind"]) == (500, "Status")
    assert f'"{key}" is damaged in {log_of(tmp_path)} (revision {revision} of "{key}"' in found.message
    assert "delete it and create it again, or restore a backup" in found.message
    assert names_in(cluster) == {"a", "c"}
    assert cluster.get(f"{MAPS}?limit=1").code == 200
    assert cluster.put(f"{MAPS}/b", config_map("b")).code == 500
    assert cluster.post(MAPS, config_map("b")).code == 500
    assert cluster.put(f"{MAPS}/a", config_map("a", 30)).code == 200
    # Told: in the log, by a probe of its own, in the listing and in the metrics; the server is ready all the same.
    assert f'revision {revision} of "{key}": its checksum does not match; kept out' in (
        tmp_path / "stderr.log"
    ).read_text().replace('\\"', '"')
    assert health(cluster) == [200, 200, 200]
    assert cluster.get("/readyz/storage-integrity").code == 500
    assert f'revision {revision} of "{key}"' in cluster.get("/readyz?verbose").body
    assert key not in cluster.get("/readyz?verbose", token="").body  # names are for who has the token
    metrics = cluster.get("/metrics", accept="text/plain").body
    assert "tonnage_store_damaged_rows 2.0" in metrics
    assert f'tonnage_store_damaged_row{{key="{key}",revision="{revision}"}} 1.0' in metrics
    assert f'revision {revision} of "{key}"' in asyncio.run(storage_as_status_has_it(cluster))[0]
    checked = tonnage("apiserver", "--data-dir", str(tmp_path), "--check")
    assert checked.returncode == 1
    assert f'damaged: revision {revision} of "{key}": its checksum does not match; kept out' in checked.stdout
    # One goes on.
    assert cluster.delete(f"{MAPS}/b").code == 200
    assert cluster.delete("/api/v1/namespaces/kube-node-lease").code == 200
    assert cluster.get(f"{MAPS}/b").code == 404
    assert cluster.post(MAPS, config_map("b")).code == 201
    assert cluster.get("/readyz/storage-integrity").code == 200
    cluster.stop()
    assert tonnage("apiserver", "--data-dir", str(tmp_path), "--check").returncode == 0
    cluster = start_cluster(tmp_path)
    assert names_in(cluster) == {"a", "b", "c"}
    assert "kube-node-lease" in names_in(cluster, "/api/v1/namespaces")  # the start has made it anew
    cluster.stop()


def test_pages_that_cannot_be_read_end_the_start_with_one_line(tmp_path: Path):
    cluster = start_cluster(tmp_path)
    for number in range(20):
        cluster.post(MAPS, config_map(f"m{number}", 3_000))
    cluster.stop()
    path = log_of(tmp_path)
    content = bytearray(path.read_bytes())
    content[4096 * 8 :] = b"\xa5" * (len(content) - 4096 * 8)
    path.write_bytes(content)
    done = tonnage("apiserver", "--data-dir", str(tmp_path), "--secure-port", "0")
    assert done.returncode == 1
    error, hint = done.stderr.splitlines()
    assert error == f"error: cannot read {path}: database disk image is malformed (SQLITE_CORRUPT)"
    assert hint.startswith("hint: restore a backup in its place") and "--check" in hint
    assert path.read_bytes() == content
    checked = tonnage("apiserver", "--data-dir", str(tmp_path), "--check")
    assert checked.returncode == 1 and "damaged: " in checked.stdout


# Backups.


def test_a_backup_under_writes_is_whole_and_can_be_restored(tmp_path: Path):
    data, target = tmp_path / "data", tmp_path / "backup.sqlite3"
    data.mkdir(mode=0o700)
    cluster = start_cluster(data)
    acknowledged: list[str] = []
    stop = threading.Event()

    def write(thread: int) -> None:
        for number in range(10_000):
            if stop.is_set():
                return
            name = f"t{thread}-{number}"
            if cluster.post(MAPS, config_map(name, 2_000)).code == 201:
                acknowledged.append(name)

    writers = [threading.Thread(target=write, args=(thread,)) for thread in range(3)]
    for writer in writers:
        writer.start()
    eventually(lambda: len(acknowledged) > 60, "some writes")
    before = list(acknowledged)
    done = tonnage("apiserver", "--data-dir", str(data), "--backup", str(target))
    stop.set()
    for writer in writers:
        writer.join()
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "ok: nothing is damaged"), done.stderr
    assert target.stat().st_mode & 0o777 == 0o600
    again = tonnage("apiserver", "--data-dir", str(data), "--backup", str(target))
    assert (again.returncode, again.stderr.splitlines()[0]) == (
        1,
        f"error: {target} is there already; it was left as it is",
    )
    newest = int(cluster.get(MAPS).body["metadata"]["resourceVersion"])
    cluster.stop()
    # As the help has it: the folder anew, the file in it, start. Tokens and certificates stay.
    (data / "store").rename(data / "old")
    (data / "store").mkdir(mode=0o700)
    shutil.copy(target, log_of(data))
    restored = start_cluster(data)
    listed = restored.get(MAPS).body
    names = {item["metadata"]["name"] for item in listed["items"]}
    assert set(before) <= names <= set(acknowledged)
    assert all(len(item["data"]["k"]) == 2_000 for item in listed["items"])
    # Informers know of more than the server now does. Their watches end with 410, they list again, and what they held
    # is never taken for what is there: the revisions that were lost do not come again.
    assert int(listed["metadata"]["resourceVersion"]) > newest + 1_000_000
    streamed = restored.get(f"{MAPS}?watch=true&resourceVersion={newest}&timeoutSeconds=2").body
    assert (streamed["type"], streamed["object"]["code"]) == ("ERROR", 410)
    assert restored.get(f"{MAPS}?resourceVersion={newest}&resourceVersionMatch=Exact").code == 410
    ahead = restored.get(f"{MAPS}?watch=true&resourceVersion=9000000000&timeoutSeconds=2").body
    assert (ahead["type"], ahead["object"]["code"]) == ("ERROR", 410)
    assert ahead["object"]["message"].startswith("too large resource version: 9000000000, current: 10")
    assert restored.post(MAPS, config_map("after")).code == 201
    restored.stop()


@pytest.mark.slow
def test_a_backup_that_is_killed_leaves_no_file_of_that_name(tmp_path: Path):
    data, target = tmp_path / "data", tmp_path / "backup"
    data.mkdir(mode=0o700)
    cluster = start_cluster(data)
    for number in range(60):
        assert cluster.post(MAPS, config_map(f"m{number}", 500_000)).code == 201
    command = [sys.executable, "-m", "tonnage", "apiserver", "--data-dir", str(data), "--backup", str(target)]
    for number in range(12):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(0.25 + 0.05 * number)
            process.kill()
        if target.exists():  # it was done before it was killed: then it is whole
            with closing(sqlite3.connect(f"{target.as_uri()}?immutable=1", uri=True)) as copy:
                assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                assert copy.execute("SELECT count(*) FROM log WHERE key LIKE 'configmaps/%'").fetchone() == (60,)
            target.unlink()
    assert cluster.post(MAPS, config_map("after")).code == 201
    cluster.stop()
    assert tonnage("apiserver", "--data-dir", str(data), "--check").returncode == 0


# History.


@pytest.mark.slow
def test_five_hundred_updates_of_a_megabyte_do_not_take_half_a_gigabyte(tmp_path: Path):
    cluster = start_cluster(tmp_path)
    assert cluster.post(MAPS, config_map("large")).code == 201
    largest = 0
    for number in range(500):
        doc = config_map("large", 1_000_000)
        doc["data"]["n"] = str(number)
        assert cluster.put(f"{MAPS}/large", doc).code == 200
        largest = max(largest, sum(path.stat().st_size for path in (tmp_path / "store").iterdir()))
    # 128 MiB of history and a tenth, what is being compacted, the write-ahead log and the reserve.
    assert largest < 256 << 20
    cluster.stop()
    assert log_of(tmp_path).stat().st_size < 160 << 20
