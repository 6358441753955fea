"""A recording's file: written beside the loop, closed to others, bounded, and never in the way."""

from __future__ import annotations

import os
import stat

import pytest

from support.virtual_clock import VirtualClock
from tonnage.errors import TonnageError
from tonnage.scheduler import recording_file
from tonnage.scheduler.recording_file import RecordingFile
from tonnage.scheduling.recording.recording_engine import read_line


def made(path, limit_bytes=1 << 20):
    return RecordingFile(path, limit_bytes=limit_bytes, clock=VirtualClock())


def test_lines_are_written_in_order_to_a_file_of_ours_alone(tmp_path):
    path = tmp_path / "r"
    with made(path) as file:
        for number in range(100):
            file.take(b"%d\n" % number)
    assert path.read_bytes() == b"".join(b"%d\n" % number for number in range(100))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_it_ends_at_its_limit_with_a_line_that_says_so(tmp_path):
    path = tmp_path / "r"
    with made(path, limit_bytes=10) as file:
        for _ in range(5):
            file.take(b"1234\n")
        assert "limit of 10 bytes" in file.stopped
    first, second, last = path.read_bytes().splitlines()
    assert first == second == b"1234"
    told = read_line(last)
    assert (told.op, told.why) == ("stopped", "it has reached its limit of 10 bytes (--record-limit)")


def test_a_disk_that_is_too_slow_ends_it_and_nobody_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(recording_file, "MOST_WAITING_BYTES", 10)
    reading, writing = os.pipe()  # a pipe that nobody reads, filled up
    os.set_blocking(writing, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writing, b"x" * 65536)
    os.set_blocking(writing, True)
    monkeypatch.setattr(recording_file, "_opened", lambda path: writing)
    file = made(tmp_path / "r")
    for _ in range(5):
        file.take(b"1234\n")
    assert file.stopped.startswith("the disk is too slow")
    os.close(reading)  # the thread is let go
    file.__exit__()


def test_a_disk_that_fails_ends_it(tmp_path, monkeypatch):
    fd = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr(recording_file, "_opened", lambda path: fd)
    with made(tmp_path / "r") as file:
        file.take(b"1234\n")
    assert file.stopped == "it cannot be written: No space left on device"


def test_the_recording_before_it_is_kept(tmp_path):
    path = tmp_path / "r"
    for text in (b"one\n", b"two\n"):
        with made(path) as file:
            file.take(text)
    assert (path.read_bytes(), (tmp_path / "r.old").read_bytes()) == (b"two\n", b"one\n")


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(TonnageError, match="No such file or directory") as caught:
        made(tmp_path / "nowhere" / "r")
    assert caught.value.hint == "name a file in a folder that is there"
