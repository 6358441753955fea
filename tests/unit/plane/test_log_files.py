"""Logs stay bounded while the program that writes them has them open."""

from __future__ import annotations

import os
from pathlib import Path

from tonnage.plane.settings import bound_log


def open_as_programs_do(log: Path) -> int:
    return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def test_a_small_log_is_left_alone(tmp_path: Path):
    log = tmp_path / "scheduler.log"
    log.write_text("a line\n")
    assert not bound_log(log, max_bytes=100)
    assert log.read_text() == "a line\n"
    assert not (tmp_path / "scheduler.log.old").exists()


def test_a_log_that_is_not_there_yet_is_no_error(tmp_path: Path):
    assert not bound_log(tmp_path / "scheduler.log")


def test_a_program_goes_on_writing_at_the_beginning_of_its_log(tmp_path: Path):
    log = tmp_path / "scheduler.log"
    fd = open_as_programs_do(log)
    try:
        os.write(fd, b"before\n" * 20)
        assert bound_log(log, max_bytes=100)
        os.write(fd, b"after\n")
    finally:
        os.close(fd)
    assert log.read_text() == "after\n"
    assert (tmp_path / "scheduler.log.old").read_text() == "before\n" * 20


def test_the_two_files_stay_bounded_however_much_is_written(tmp_path: Path):
    log = tmp_path / "node.log"
    fd = open_as_programs_do(log)
    try:
        for number in range(1000):
            os.write(fd, f"line {number}\n".encode())
            bound_log(log, max_bytes=200)
    finally:
        os.close(fd)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["node.log", "node.log.old"]
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 2 * 220
    assert all(each.stat().st_mode & 0o077 == 0 for each in tmp_path.iterdir())


def test_a_link_planted_beside_the_log_is_not_followed(tmp_path: Path):
    foreign, log = tmp_path / "foreign", tmp_path / "node.log"
    foreign.write_text("precious")
    log.write_text("x" * 50)
    (tmp_path / "node.log.new").symlink_to(foreign)
    (tmp_path / "node.log.old").symlink_to(foreign)
    assert bound_log(log, max_bytes=10)
    assert foreign.read_text() == "precious"
    assert (tmp_path / "node.log.old").read_text() == "x" * 50
