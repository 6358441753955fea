"""A forked program is shown under its own command line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tonnage.plane.forkserver import ROOM, ROOM_FLAG, command

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what a process writes there"),
]

SAYS = """
import json, os, sys
from tonnage.plane.forkserver import set_title
before = os.environ["HELD"]
read = lambda name: open(f"/proc/self/{name}", "rb").read().decode()
set_title(sys.argv[1], json.loads(sys.argv[2]))
import ctypes
ctypes.CDLL(None).getenv.restype = ctypes.c_char_p
held = ctypes.CDLL(None); held.getenv.restype = ctypes.c_char_p
print(json.dumps([read("comm").strip(), read("cmdline").rstrip("\\0"), held.getenv(b"HELD").decode(), sys.argv[1]]))
"""


def shown(name: str, words: list[str], *room: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SAYS, name, json.dumps(words), *room],
        env={"HELD": "it"},
        capture_output=True,
        check=True,
    )
    return list(json.loads(done.stdout))


def test_name_and_command_line_are_its_own():
    words = ["tonnage", "scheduler", "--kubeconfig", "cluster/kubeconfig"]
    assert shown("scheduler", words, ROOM) == ["scheduler", " ".join(words), "it", "scheduler"]


def test_what_does_not_fit_is_cut_and_the_environment_is_left_alone():
    words = ["x" * 5000]
    name, line, held, _ = shown("a-very-long-name-of-a-program", words, ROOM)
    assert name == "a-very-long-nam"
    assert len(ROOM) < len(line) < 5000 + 5000
    assert set(line) == {"x"}
    assert held == "it"


def test_the_forkserver_is_started_with_room():
    assert command()[-2:] == [ROOM_FLAG, ROOM]
