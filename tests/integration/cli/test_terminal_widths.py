"""Every report in a terminal of 80 and of 60 columns: no line is too long, and no word or number is broken."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tonnage_command import CLIENT, command_server, tonnage

ROOT = Path(__file__).parents[3]
REPORTS = [
    "doctor -f examples/16-doctor/dump",
    "drain-preview -f examples/14-drain-preview/cluster.yaml mill-1",
    "drain-preview -f examples/14-drain-preview/cluster.yaml mill-1 mill-2 mill-3 --one-by-one",
    "explain -f examples/02-explain --pod shop/web-1",
    "explain -f examples/04-joint-packing --pod packing/four-of-80",
    "explain -f examples/12-explain-what-is-not-there/cluster.yaml -f examples/12-explain-what-is-not-there/new",
    "explain -f examples/12-explain-what-is-not-there/cluster.yaml -f examples/12-explain-what-is-not-there/waiting"
    " --pending",
    "explain -f examples/18-classes-on-the-same-disks/cluster.yaml -f examples/18-classes-on-the-same-disks/pods.yaml"
    " --pod shared/shop",
    "explain -f examples/22-shapes/cluster.yaml --pod shapes/db",
    "fit -f examples/13-fit/cluster.yaml -f examples/13-fit/kafka.yaml --workload StatefulSet/default/kafka"
    " --node-template examples/13-fit/nodes/dense.yaml --nodes-needed",
    "replay -f examples/03-replay/cluster.yaml --steps examples/03-replay/steps/burst.yaml",
    "replay -f examples/19-volumes-on-their-way/cluster.yaml"
    " --steps examples/19-volumes-on-their-way/steps/rebuild.yaml",
    "simulate -f examples/15-simulate --scenario examples/15-simulate/scenarios/friday.yaml --seed 7"
    " --compare kube-scheduler --compare kep --compare default",
]
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def shown(line: str, width: int) -> list[str]:
    """The lines of stdout in a terminal of this width, without colours."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(width)}
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(CLIENT), command_server(), *shlex.split(line)],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.DEVNULL,
    ):
        os.close(writer)
        found = b""
        while True:
            try:
                part = os.read(reader, 65536)
            except OSError:  # the other end is closed
                part = b""
            if not part:
                break
            found += part
    os.close(reader)
    return _ESCAPES.sub("", found.decode()).replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize("line", REPORTS, ids=lambda line: "-".join(re.findall(r"^\S+|\d\d-[a-z]+", line)[:2]))
def test_a_report_keeps_to_the_terminal_and_breaks_no_word(line: str):
    whole = set(tonnage(*shlex.split(line), cwd=ROOT).stdout.split())
    heads = {"OVER", "TIME", "RUN"}  # of a table that only narrow terminals have
    for width in (80, 60):
        lines = shown(line, width)
        assert len(lines) > 3, width
        assert [each for each in lines if len(each) > width and " " in each.strip()] == [], width
        assert {word for each in lines for word in each.split()} - whole - heads == set(), width
