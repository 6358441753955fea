"""Folders and sparse files: made, copied with their holes, grown, counted, removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tonnage.driver.state import contents
from tonnage.driver.state.contents import ForeignContents
from tonnage.driver.state.records import AccessType

GI = 1 << 30


def test_a_block_volume_is_as_long_as_it_is_large_and_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "vol"
    contents.make(path, "block", 10 * GI)
    assert path.stat().st_size == 10 * GI
    assert path.stat().st_blocks == 0


def test_a_copy_keeps_data_and_holes(tmp_path: Path) -> None:
    source, copied = tmp_path / "a", tmp_path / "b"
    contents.make(source, "block", 4 * GI)
    with source.open("r+b") as file:
        file.write(b"first")
        file.seek(3 * GI)
        file.write(b"last")
    contents.copy(source, copied, "block", 5 * GI)
    assert copied.stat().st_size == 5 * GI
    assert copied.stat().st_blocks == source.stat().st_blocks
    with copied.open("rb") as file:
        assert file.read(6) == b"first\0"
        file.seek(3 * GI)
        assert file.read(5) == b"last\0"


def test_a_folder_is_copied_with_links_modes_and_times_but_without_pipes(tmp_path: Path) -> None:
    source, copied = tmp_path / "a", tmp_path / "b"
    contents.make(source, "mount", GI)
    (source / "deep").mkdir()
    (source / "deep" / "file").write_text("text")
    (source / "deep" / "file").chmod(0o640)
    os.utime(source / "deep" / "file", (1_000_000, 1_000_000))
    (source / "link").symlink_to("deep/file")
    os.mkfifo(source / "pipe")
    contents.copy(source, copied, "mount", GI)
    assert sorted(str(path.relative_to(copied)) for path in copied.rglob("*")) == ["deep", "deep/file", "link"]
    assert (copied / "link").readlink() == Path("deep/file")
    found = (copied / "deep" / "file").stat()
    assert (found.st_mode & 0o777, found.st_mtime) == (0o640, 1_000_000)


@pytest.mark.parametrize("access_type", ["mount", "block"])
def test_what_is_in_the_place_of_new_contents_stays(tmp_path: Path, access_type: AccessType) -> None:
    source, path = tmp_path / "source", tmp_path / "vol"
    contents.make(source, access_type, GI)
    path.mkdir()
    (path / "precious").write_text("")
    with pytest.raises(FileExistsError):
        contents.make(path, access_type, GI)
    with pytest.raises(FileExistsError):
        contents.copy(source, path, access_type, GI)
    with pytest.raises(FileExistsError):
        contents.move(source, path, access_type)
    assert [found.name for found in path.iterdir()] == ["precious"]


@pytest.mark.parametrize("access_type", ["mount", "block"])
def test_a_link_in_the_place_of_contents_is_never_followed(tmp_path: Path, access_type: AccessType) -> None:
    contents.make(tmp_path / "precious", access_type, GI)
    link = tmp_path / "vol"
    link.symlink_to("precious")
    with pytest.raises(ForeignContents, match="is a symbolic link in the place of the volume's contents"):
        contents.copy(link, tmp_path / "copy", access_type, GI)
    with pytest.raises(ForeignContents):
        contents.grow(link, access_type, 2 * GI)
    with pytest.raises(ForeignContents):
        contents.move(link, tmp_path / "moved", access_type)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious", "vol"]


def test_a_mount_in_contents_is_not_entered(tmp_path: Path) -> None:
    place, mounts = tmp_path / "a b" / "vol", tmp_path / "mountinfo"
    line = "41 25 0:36 / {} rw,relatime shared:1 - tmpfs tmpfs rw"
    mounts.write_text(line.format("/") + "\n" + line.format(f"{place}-other".replace(" ", "\\040")) + "\n")
    contents.require_no_mounts(place, mounts)
    for mounted in (place, place / "deep" / "disk"):
        mounts.write_text(line.format(str(mounted).replace(" ", "\\040")) + "\n")
        with pytest.raises(ForeignContents) as refused:
            contents.require_no_mounts(place, mounts)
        assert refused.value.message == f"{place} has something mounted at {mounted}"
    contents.require_no_mounts(place, tmp_path / "not linux")


def test_growing_never_cuts_off(tmp_path: Path) -> None:
    path = tmp_path / "vol"
    contents.make(path, "block", 2 * GI)
    contents.grow(path, "block", GI)
    assert path.stat().st_size == 2 * GI
    contents.grow(path, "block", 3 * GI)
    assert path.stat().st_size == 3 * GI


def test_usage_counts_blocks_and_files(tmp_path: Path) -> None:
    path = tmp_path / "vol"
    contents.make(path, "mount", GI)
    empty_bytes, inodes = contents.usage(path)
    assert inodes == 1
    (path / "file").write_bytes(b"x" * 8192)
    (path / "hole").touch()
    os.truncate(path / "hole", GI)
    used_bytes, inodes = contents.usage(path)
    assert inodes == 3  # the folder, the file, the hole
    assert 8192 <= used_bytes - empty_bytes < 100_000


def test_removing_what_is_not_there_is_done(tmp_path: Path) -> None:
    contents.remove(tmp_path / "nothing")


def test_a_link_in_the_place_of_contents_is_removed_and_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    link = tmp_path / "vol"
    link.symlink_to(precious)
    contents.remove(link)
    assert precious.exists()
    assert not link.is_symlink()


def test_a_file_that_cannot_be_read_is_not_taken_for_copied(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        contents.copy(tmp_path / "nothing", tmp_path / "vol", "block", GI)
