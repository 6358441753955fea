"""Somebody removes, replaces, cuts or renames the files of a store under its server, as cleaners of /tmp do.

SQLite writes on into files that have lost their names, and what is committed there is gone with the process. So nothing
is acknowledged from then on, the reason and the remedy are told, all that was acknowledged before can be had back, and
no empty store starts beside the keys of the one that was.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from support.eventually import eventually
from support.processes import ApiServerProcess, start_cluster
from tonnage_command import tonnage

MAPS = "/api/v1/namespaces/default/configmaps"
FILES = ("log.sqlite3", "log.sqlite3-wal", "log.sqlite3-shm")


def post(cluster: ApiServerProcess, name: str) -> int:
    return cluster.post(MAPS, {"metadata": {"name": name}, "data": {"k": "x" * 2_000}}).code


def names_in(cluster: ApiServerProcess) -> set[str]:
    return {item["metadata"]["name"] for item in cluster.get(MAPS).body["items"]} - {"kube-root-ca.crt"}


def clean_up(store: Path) -> None:
    """What a cleaner of temporary folders does: whatever is old and not in use by name."""
    for name in (*FILES, "reserve"):
        (store / name).unlink()


def replace(store: Path) -> None:
    other = store / "other"
    shutil.copy(store / "log.sqlite3", other)
    other.rename(store / "log.sqlite3")


def remove_wal(store: Path) -> None:
    (store / "log.sqlite3-wal").unlink()


def cut_wal(store: Path) -> None:
    (store / "log.sqlite3-wal").write_bytes(b"")


@pytest.fixture
def cluster(tmp_path: Path) -> ApiServerProcess:
    cluster = start_cluster(tmp_path)
    for number in range(20):
        assert post(cluster, f"m{number}") == 201
    return cluster


ALL = {f"m{number}" for number in range(20)}


def trouble(cluster: ApiServerProcess) -> str:
    """What health says of the store, once it knows where the acknowledged writes are."""
    return eventually(
        lambda: str(cluster.get("/readyz?verbose").body),
        "health to tell",
        holds=lambda body: "while it was in use; nothing more is stored" in body,
    )


@pytest.mark.parametrize("attack", [clean_up, replace])
def test_a_removed_or_replaced_file_is_noticed_and_what_it_held_is_kept(
    cluster: ApiServerProcess, tmp_path: Path, attack: Callable[[Path], None]
):
    store = tmp_path / "store"
    attack(store)
    refused = cluster.post(MAPS, {"metadata": {"name": "lost"}})
    assert refused.code == 500
    assert f"{store / 'log.sqlite3'} was re" in refused.message  # removed, or replaced
    assert names_in(cluster) == ALL  # from memory
    assert "removed" in (tmp_path / "stderr.log").read_text() or "replaced" in (tmp_path / "stderr.log").read_text()
    assert cluster.get("/livez").code == 200  # a restart would give up what only this process still has open
    rescued = eventually(lambda: next(store.glob("rescued-*.sqlite3"), None), "the copy")
    eventually(
        lambda: str(rescued) in cluster.post(MAPS, {"metadata": {"name": "lost"}}).message, "its name to be told"
    )
    cluster.stop(signal.SIGKILL)
    if attack is clean_up:
        assert_no_empty_start(tmp_path, f"copy {rescued} to {store / 'log.sqlite3'} and start again")
    for name in FILES:
        (store / name).unlink(missing_ok=True)
    rescued.rename(store / "log.sqlite3")
    again = start_cluster(tmp_path)
    assert names_in(again) == ALL
    assert post(again, "after") == 201
    again.stop()
    assert tonnage("apiserver", "--data-dir", str(tmp_path), "--check").returncode == 0


def assert_no_empty_start(data: Path, remedy: str) -> None:
    before = {path.name for path in (data / "store").iterdir()} | {"lock"}
    for _ in range(2):  # the first attempt leaves nothing that would let the second begin
        done = tonnage("apiserver", "--data-dir", str(data), "--secure-port", "0")
        assert (done.returncode, done.stdout) == (1, "")
        error, hint = done.stderr.splitlines()
        path, key = data / "store" / "log.sqlite3", data / "pki" / "ca.key"
        assert (
            error == f"error: {path} is not there or is empty, but {key} of an earlier start is: the store was removed"
        )
        assert hint == f"hint: {remedy}; to begin with an empty store, move {key} away first"
    assert {path.name for path in (data / "store").iterdir()} <= before


def test_a_write_ahead_log_that_is_removed_alone_loses_nothing(cluster: ApiServerProcess, tmp_path: Path):
    remove_wal(tmp_path / "store")
    assert post(cluster, "refused") == 500
    # What it held is brought into the file, from what is still open; then a restart is all there is to do.
    eventually(
        lambda: "start this server again" in cluster.post(MAPS, {"metadata": {"name": "refused"}}).message, "the remedy"
    )
    assert cluster.get("/livez").code == 500
    cluster.stop(signal.SIGKILL)
    again = start_cluster(tmp_path)
    assert names_in(again) - {"refused"} == ALL
    again.stop()


def test_a_file_that_is_cut_is_noticed(cluster: ApiServerProcess, tmp_path: Path):
    cut_wal(tmp_path / "store")
    refused = cluster.post(MAPS, {"metadata": {"name": "refused"}})
    assert (refused.code, "log.sqlite3-wal was cut from" in refused.message) == (500, True)
    assert names_in(cluster) == ALL
    cluster.stop(signal.SIGKILL)


def test_a_folder_that_is_renamed_and_put_back_goes_on_by_itself(cluster: ApiServerProcess, tmp_path: Path):
    store, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    store.rename(elsewhere)
    assert post(cluster, "refused") == 500
    assert f"{store / 'log.sqlite3'} was removed" in trouble(cluster)
    elsewhere.rename(store)
    eventually(lambda: cluster.get("/readyz").code == 200, "health to recover")
    assert post(cluster, "after") == 201
    cluster.stop(signal.SIGKILL)
    again = start_cluster(tmp_path)
    assert names_in(again) == ALL | {"after"}
    again.stop()


def test_no_empty_store_starts_beside_the_keys_of_one_that_was(tmp_path: Path):
    cluster = start_cluster(tmp_path)
    cluster.stop()
    path = tmp_path / "store" / "log.sqlite3"
    kept = path.read_bytes()
    remedy = f"copy a backup to {path} and start again"
    path.unlink()
    assert_no_empty_start(tmp_path, remedy)
    path.write_bytes(b"")
    path.chmod(0o600)
    assert_no_empty_start(tmp_path, remedy)
    path.write_bytes(kept)
    start_cluster(tmp_path).stop()
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "store").mkdir(mode=0o700)
    assert_no_empty_start(tmp_path, remedy)
    # As the hint has it: who wants to begin anew does so with new keys.
    (tmp_path / "pki" / "ca.key").rename(tmp_path / "old.key")
    start_cluster(tmp_path).stop()


@pytest.mark.parametrize("attack", ["removed", "torn", "an older one"])
def test_a_write_ahead_log_that_lost_commits_after_a_kill_is_told(
    cluster: ApiServerProcess, tmp_path: Path, attack: str
):
    cluster.stop()
    cluster = start_cluster(tmp_path)
    wal = tmp_path / "store" / "log.sqlite3-wal"
    assert post(cluster, "kept") == 201
    older = wal.read_bytes()
    for number in range(5):
        assert post(cluster, f"lost-{number}") == 201
    revision = cluster.get(MAPS).body["metadata"]["resourceVersion"]
    cluster.stop(signal.SIGKILL)
    whole = wal.read_bytes()
    wal.unlink()
    if attack != "removed":
        wal.write_bytes(older if attack == "an older one" else whole[: len(whole) // 2])
        wal.chmod(0o600)
    checked = tonnage("apiserver", "--data-dir", str(tmp_path), "--check")
    assert checked.returncode == 1
    assert f"revision {revision} was acknowledged, and the newest that is there is " in checked.stdout
    again = start_cluster(tmp_path)
    assert names_in(again) >= ALL
    assert "lost-4" not in names_in(again)
    assert again.get("/readyz/storage-integrity").code == 500
    assert f"revision {revision}: it is missing" in again.get("/readyz?verbose").body
    # None of the lost revisions comes again with another content.
    assert int(again.post(MAPS, {"metadata": {"name": "after"}}).body["metadata"]["resourceVersion"]) > int(revision)
    again.stop()
