"""Files and folders for their owner alone: whole, private, and never what somebody else put in their place."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tonnage.private_files import (
    NotOurs,
    open_lock,
    open_log,
    own_folder,
    read_given,
    read_own,
    require_own_file,
    require_place_for_socket,
    write_private,
)

SOMEBODY = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that belongs to somebody else")


def test_a_file_is_for_its_owner_alone_and_nothing_is_left_beside_it(tmp_path: Path):
    path = tmp_path / "token"
    write_private(path, b"first")
    write_private(path, b"second")
    assert path.read_bytes() == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["token"]


def test_a_file_that_others_could_read_becomes_private(tmp_path: Path):
    path = tmp_path / "token"
    path.write_bytes(b"open")
    path.chmod(0o644)
    write_private(path, b"closed")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_where_a_file_is_written_is_refused_and_its_target_kept(tmp_path: Path):
    target, link = tmp_path / "precious", tmp_path / "token"
    target.write_bytes(b"precious")
    link.symlink_to(target)
    with pytest.raises(NotOurs) as refused:
        write_private(link, b"token")
    assert refused.value.message == f"{link} is a symbolic link, not a plain file"
    assert target.read_bytes() == b"precious"
    assert link.is_symlink()


def test_a_link_planted_as_the_draft_is_not_followed(tmp_path: Path):
    target = tmp_path / "precious"
    target.write_bytes(b"precious")
    (tmp_path / f".token.{os.getpid()}").symlink_to(target)
    write_private(tmp_path / "token", b"token")
    assert target.read_bytes() == b"precious"
    assert (tmp_path / "token").read_bytes() == b"token"


@pytest.mark.parametrize("opened", [read_own, open_lock, open_log, require_own_file], ids=lambda each: each.__name__)
def test_a_link_is_not_opened(tmp_path: Path, opened: Callable[[Path], object]):
    (tmp_path / "precious").write_bytes(b"precious")
    for name, target in (("link", "precious"), ("dangling", "nothing")):
        (tmp_path / name).symlink_to(target)
        with pytest.raises(NotOurs, match="is a symbolic link, not a plain file"):
            opened(tmp_path / name)
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("opened", [read_own, open_lock, open_log], ids=lambda each: each.__name__)
def test_a_pipe_a_socket_and_a_folder_are_no_plain_files_and_hold_nobody_up(
    tmp_path: Path, opened: Callable[[Path], object]
):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for name in ("pipe", "folder", "socket"):
            with pytest.raises(NotOurs, match="not a plain file"):
                opened(tmp_path / name)


@as_root
@pytest.mark.parametrize("opened", [read_own, open_lock, open_log, read_given], ids=lambda each: each.__name__)
def test_a_file_of_somebody_else_is_not_opened(tmp_path: Path, opened: Callable[[Path], object]):
    path = tmp_path / "token"
    path.write_bytes(b"theirs")
    os.chown(path, SOMEBODY, SOMEBODY)
    with pytest.raises(NotOurs) as refused:
        opened(path)
    assert refused.value.message == f"{path} belongs to somebody else (uid {SOMEBODY}, and we are {os.geteuid()})"
    assert refused.value.hint == "name one of your own: below your home, or made by mktemp -d"


@pytest.mark.parametrize("read", [read_own, read_given], ids=lambda each: each.__name__)
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_what_others_can_write_is_not_believed(tmp_path: Path, read: Callable[[Path], bytes], mode: int):
    path = tmp_path / "token"
    path.write_bytes(b"token")
    path.chmod(mode)
    with pytest.raises(NotOurs) as refused:
        read(path)
    assert refused.value.message == f"{path} can be written to by others (mode {mode:04o})"
    path.chmod(0o644)
    assert read(path) == b"token"


def test_a_file_that_a_user_names_may_be_a_link_or_a_pipe(tmp_path: Path):
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "token").write_bytes(b"token")
    (tmp_path / "token").symlink_to("..data/token")  # as Kubernetes mounts a Secret
    assert read_given(tmp_path / "token") == b"token"
    reader, writer = os.pipe()
    os.write(writer, b"from a pipe")
    os.close(writer)
    assert read_given(Path(f"/dev/fd/{reader}")) == b"from a pipe"
    os.close(reader)


def test_a_folder_is_made_with_those_above_it(tmp_path: Path):
    folder = own_folder(tmp_path / "a" / "b")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    own_folder(folder)


def test_a_link_in_the_place_of_the_folder_is_refused_and_one_above_it_is_not(tmp_path: Path):
    (tmp_path / "real" / "data").mkdir(parents=True)
    (tmp_path / "home").symlink_to("real")
    own_folder(tmp_path / "home" / "data")
    with pytest.raises(NotOurs) as refused:
        own_folder(tmp_path / "home")
    assert refused.value.message == f"{tmp_path / 'home'} is a symbolic link, not a folder"
    assert refused.value.hint == f"name the folder itself: {tmp_path / 'real'}"
    (tmp_path / "dangling").symlink_to("nothing")
    with pytest.raises(NotOurs):
        own_folder(tmp_path / "dangling")
    assert not (tmp_path / "nothing").exists()


@as_root
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path):
    folder = tmp_path / "planted"
    folder.mkdir()
    os.chown(folder, SOMEBODY, SOMEBODY)
    with pytest.raises(NotOurs, match=f"belongs to somebody else \\(uid {SOMEBODY}"):
        own_folder(folder)
    with pytest.raises(NotOurs):
        write_private(folder / "kubeconfig", b"token")  # no secret of ours goes to a folder of theirs
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("mode", [0o775, 0o777, 0o1777])
def test_a_folder_that_others_can_write_to_is_closed_if_it_is_empty_and_else_refused(tmp_path: Path, mode: int):
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(mode)
    own_folder(folder)  # as one made with a umask of 002
    assert stat.S_IMODE(folder.stat().st_mode) == mode & ~0o022
    folder.chmod(mode)
    (folder / "token").write_bytes(b"planted")
    with pytest.raises(NotOurs) as refused:
        own_folder(folder)
    assert f"others can write to it (mode {mode:04o})" in refused.value.message
    assert refused.value.hint == f"if what is in it is yours: chmod go-w {folder}; else name another folder"
    assert stat.S_IMODE(folder.stat().st_mode) == mode


def test_only_a_socket_of_ours_makes_room_for_a_socket(tmp_path: Path):
    path = tmp_path / "csi.sock"
    require_place_for_socket(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    require_place_for_socket(path)
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "file").write_bytes(b"precious")
    for name in ("link", "file"):
        with pytest.raises(NotOurs, match="not a socket: it is not replaced"):
            require_place_for_socket(tmp_path / name)
    if os.geteuid() == 0:
        os.chown(path, SOMEBODY, SOMEBODY)
        with pytest.raises(NotOurs, match="belongs to somebody else"):
            require_place_for_socket(path)


def test_the_name_of_a_durable_file_and_of_a_new_folder_survives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    synced: list[Path] = []
    fsync = os.fsync

    def note(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink())
        fsync(fd)

    monkeypatch.setattr(os, "fsync", note)
    folder = tmp_path / "plugins" / "volume"
    own_folder(folder)
    assert synced == [tmp_path / "plugins", tmp_path]  # the names of both that were made
    synced.clear()
    own_folder(folder)
    assert synced == []
    write_private(folder / "vol_data.json", b"{}")
    # The content under its first name, then the folder, in which it has its last one.
    assert [path.parent for path in synced[:1]] == [folder]
    assert synced[1:] == [folder]
    synced.clear()
    write_private(folder / "pid", b"1", durable=False)
    assert synced == []
