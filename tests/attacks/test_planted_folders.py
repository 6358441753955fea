"""On a shared machine others make folders, files and links beforehand, where our programs look for their own.

A folder made by another user, with a `token` in it, once made that token an administrator's, and `store/lock` as a
link had a file of root overwritten. Each program that keeps something is attacked here at every name it uses.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.virtual_clock import VirtualClock
from tonnage.apiserver.server import ServerSettings, serve
from tonnage.certificates import ensure_identity
from tonnage.clock import SystemClock
from tonnage.csi.server import served
from tonnage.errors import TonnageError
from tonnage.faults import Fault, FaultFile
from tonnage.plane.cluster import Plane
from tonnage.plane.settings import PlaneSettings
from tonnage.plane.status import status_of
from tonnage.plane.supervisor import Supervisor
from tonnage.private_files import NotOurs

SOMEBODY = 54321
PRECIOUS = b"precious"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder that belongs to somebody else")


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[Path]:
    """A file that a link points to; it has not changed after the test."""
    path = tmp_path / "precious"
    path.write_bytes(PRECIOUS)
    yield path
    assert path.read_bytes() == PRECIOUS


def planted(folder: Path) -> Path:
    """A folder that somebody else made, with a token and a kubeconfig of theirs."""
    folder.mkdir()
    (folder / "token").write_text("planted\n")
    (folder / "kubeconfig").write_text("users: [{name: a, user: {exec: {command: touch}}}]\n")
    for path in (folder, *folder.iterdir()):
        os.chown(path, SOMEBODY, SOMEBODY)
    return folder


def linked(folder: Path, name: str, target: Path) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


async def start_apiserver(folder: Path) -> str:
    async with serve(ServerSettings(data_dir=folder, port=0)) as server:
        return server.token


def plane(folder: Path) -> Plane:
    return Plane(PlaneSettings(data_dir=folder, secure_port=0), clock=VirtualClock(), rng=random.Random(1))


@as_root
def test_the_command_line_refuses_a_planted_folder_in_two_lines(tmp_path: Path):
    folder = planted(tmp_path / "data")
    done = subprocess.run(
        [sys.executable, "-m", "tonnage", "apiserver", "--data-dir", str(folder), "--secure-port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"error: {folder} belongs to somebody else (uid {SOMEBODY}, and we are {os.geteuid()})",
        "hint: name one of your own: below your home, or made by mktemp -d",
    ]
    assert sorted(path.name for path in folder.iterdir()) == ["kubeconfig", "token"]


@as_root
async def test_a_planted_token_lets_nobody_in(tmp_path: Path):
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    (folder / "token").write_text("planted\n")
    os.chown(folder / "token", SOMEBODY, SOMEBODY)
    with pytest.raises(NotOurs, match="token belongs to somebody else"):
        await start_apiserver(folder)


@as_root
async def test_a_token_file_that_is_named_is_ours_or_roots(tmp_path: Path):
    tokens = tmp_path / "tokens"
    tokens.write_text("planted\n")
    os.chown(tokens, SOMEBODY, SOMEBODY)
    with pytest.raises(NotOurs, match="tokens belongs to somebody else"):
        async with serve(ServerSettings(data_dir=tmp_path / "data", port=0, token_file=tokens)):
            pass


NAMES_OF_THE_APISERVER = (
    "store/lock",
    "store/log.sqlite3",
    "store/log.sqlite3-wal",
    "store/log.sqlite3-shm",
    "store/log.sqlite3-journal",
    "pki/ca.key",
    "pki/ca.crt",
    "pki/apiserver.key",
    "pki/apiserver.crt",
    "token",
    "kubeconfig",
)


@pytest.mark.parametrize("name", NAMES_OF_THE_APISERVER)
async def test_a_link_at_any_name_of_the_api_server_is_refused_and_not_followed(
    tmp_path: Path, precious: Path, name: str
):
    linked(tmp_path / "data", name, precious)
    with pytest.raises(NotOurs, match="is a symbolic link, not a plain file"):
        await start_apiserver(tmp_path / "data")
    assert (tmp_path / "data" / name).is_symlink()


@pytest.mark.parametrize("name", ["store", "pki"])
async def test_a_linked_folder_of_the_api_server_is_refused(tmp_path: Path, name: str):
    (tmp_path / "elsewhere").mkdir()
    linked(tmp_path / "data", name, tmp_path / "elsewhere")
    with pytest.raises(NotOurs, match="is a symbolic link, not a folder"):
        await start_apiserver(tmp_path / "data")
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_a_folder_below_a_linked_home_is_as_good_as_any(tmp_path: Path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to("disk")
    assert await start_apiserver(tmp_path / "home" / "data") == await start_apiserver(tmp_path / "disk" / "data")


@as_root
@pytest.mark.parametrize("name", ["ca.key", "ca.crt", "apiserver.key", "apiserver.crt"])
def test_a_planted_key_or_certificate_is_not_used(tmp_path: Path, name: str):
    now = SystemClock().now()
    ensure_identity(tmp_path / "pki", ("localhost",), now)
    os.chown(tmp_path / "pki" / name, SOMEBODY, SOMEBODY)
    with pytest.raises(NotOurs, match=f"{name} belongs to somebody else"):
        ensure_identity(tmp_path / "pki", ("localhost",), now)


@as_root
async def test_up_and_status_refuse_a_planted_folder(tmp_path: Path):
    folder = planted(tmp_path / "data")
    with pytest.raises(NotOurs, match="belongs to somebody else"):
        plane(folder)
    with pytest.raises(NotOurs, match="belongs to somebody else"):
        await status_of(folder, clock=VirtualClock())
    assert sorted(path.name for path in folder.iterdir()) == ["kubeconfig", "token"]


@pytest.mark.parametrize("name", ["lock", "cluster.json"])
async def test_a_link_at_a_name_of_up_is_refused(tmp_path: Path, precious: Path, name: str):
    linked(tmp_path / "data", name, precious)
    with pytest.raises(NotOurs, match=f"{name} is a symbolic link"):
        async with plane(tmp_path / "data"):
            pass


@pytest.mark.parametrize("name", ["logs", "run", "logs/forkserver.log"])
async def test_a_link_among_logs_and_pid_files_is_refused(tmp_path: Path, precious: Path, name: str):
    linked(tmp_path, name, precious)
    supervisor = Supervisor(tmp_path / "logs", tmp_path / "run", clock=VirtualClock(), rng=random.Random(1))
    with pytest.raises(NotOurs, match="is a symbolic link"):
        await supervisor.open(lock=0)


@as_root
async def test_the_folder_of_short_socket_paths_may_not_be_planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    settings = PlaneSettings(data_dir=tmp_path / ("long" * 30), secure_port=0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    planted(settings.socket_dir())
    with pytest.raises(NotOurs, match="belongs to somebody else"):
        async with Plane(settings, clock=VirtualClock(), rng=random.Random(1)):
            pass


async def test_a_file_or_a_link_in_the_place_of_a_socket_stays(tmp_path: Path, precious: Path):
    (tmp_path / "link.sock").symlink_to(precious)
    for path in (precious, tmp_path / "link.sock"):
        with pytest.raises(TonnageError, match="not a socket: it is not replaced"):
            async with served(f"unix://{path}", []):
                pass
    assert (tmp_path / "link.sock").is_symlink()


@as_root
async def test_a_socket_of_somebody_else_is_not_taken_over(tmp_path: Path):
    path = tmp_path / "csi.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        os.chown(path, SOMEBODY, SOMEBODY)
        inode = path.stat().st_ino
        with pytest.raises(TonnageError, match=r"csi\.sock belongs to somebody else"):
            async with served(f"unix://{path}", []):
                pass
    assert path.stat().st_ino == inode


@pytest.mark.parametrize("name", [".faults.json.lock", "faults.json"])
def test_a_link_beside_the_faults_is_not_written_through(tmp_path: Path, precious: Path, name: str):
    linked(tmp_path, name, precious)
    with pytest.raises(TonnageError):
        FaultFile(tmp_path / "faults.json").put(Fault("dead"))


def test_no_example_names_a_folder_that_anybody_could_make():
    root = Path(__file__).parent.parent.parent
    texts = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "examples").rglob("*.md")]
    assert [str(path) for path in texts if "/tmp/" in path.read_text()] == []
