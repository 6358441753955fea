"""`tonnage top` in a pseudo-terminal, on a live API server."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

from click.testing import CliRunner

from tonnage.cli import cli
from tonnage.errors import TonnageError

_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78cM])")
_LONGEST_S = 60.0


class Terminal:
    """A program in a terminal of 80 columns and 24 rows."""

    def __init__(self, *command: str) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm-256color"
            os.execv(command[0], command)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._seen = b""

    def wait_for(self, text: str) -> None:
        """Return when this was written to the screen; what was written before it is forgotten."""
        ends_at = time.monotonic() + _LONGEST_S
        while text.encode() not in (shown := _ESCAPES.sub(b"", self._seen)):
            if time.monotonic() > ends_at:
                raise AssertionError(f"waited {_LONGEST_S:g} s for {text!r}; seen:\n{shown.decode(errors='replace')}")
            if select.select([self._fd], [], [], 1.0)[0]:
                self._seen += os.read(self._fd, 65536)
        self._seen = b""

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def wait_exit(self) -> int:
        while True:
            try:
                if not os.read(self._fd, 65536):
                    break
            except OSError:  # the other end is closed
                break
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_top_shows_a_live_cluster_follows_it_and_leaves_the_terminal_with_q(cluster):
    def node(name: str) -> None:
        assert cluster.post("/api/v1/nodes", {"metadata": {"name": name}}).code == 201

    node("first-node")
    terminal = Terminal(sys.executable, "-m", "tonnage", "top", "--kubeconfig", str(cluster.kubeconfig))
    terminal.wait_for("node ready")  # what is wrong now comes first
    terminal.press("m")
    terminal.wait_for("first-node")
    node("later-node")
    terminal.wait_for("later-node")
    terminal.press("\r")
    terminal.wait_for("claims and volumes")
    terminal.press("p")
    terminal.wait_for("no pod is pending")
    terminal.press("q")
    assert terminal.wait_exit() == 0


def test_a_terminal_that_cannot_be_drawn_on_is_refused(cluster):
    terminal = Terminal("/usr/bin/env", "TERM=dumb", sys.executable, "-m", "tonnage", "top", "--kubeconfig", "none")
    terminal.wait_for("error: tonnage top cannot draw on this terminal: TERM is dumb")
    assert terminal.wait_exit() == 1


def test_without_a_terminal_it_says_so(cluster):
    result = CliRunner().invoke(cli, ["top", "--kubeconfig", str(cluster.kubeconfig)])
    assert isinstance(result.exception, TonnageError)
    assert result.exception.message == "tonnage top needs a terminal, and its output does not go to one"
