"""The forkserver loads for all its children, whoever is asked for first, and what it loaded stays shared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_SERVER = """
import gc, os, sys
from tonnage.plane.forkserver import Forkserver

def main():
    import second
    says = [second.LOADED_BY == os.getppid(), "first" in sys.modules, gc.isenabled(), gc.get_freeze_count() > 0]
    print(*says)

class NeverIdle(Forkserver):
    def run(self):
        self._load_next = lambda command, load=self._load_next: load(command) if command == "second" else None
        super().run()

NeverIdle(main, {"first": ["first"], "second": ["second"]}).run()
"""


def test_what_is_asked_for_before_its_turn_is_loaded_by_the_forkserver_and_then_forked(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text("")
    (tmp_path / "second.py").write_text("import os\nLOADED_BY = os.getpid()\n")
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        log = tmp_path / "second.log"
        log.touch(mode=0o600)
        request = {"start": "a name", "args": ["second", "--flag"], "log": str(log)}
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        told = [json.loads(server.stdout.readline()) for _ in range(3)]
        server.stdin.close()
    assert [next(iter(each)) for each in told] == ["started", "printed", "ended"], log.read_text()
    # Loaded by its parent, the one before it in the list not at all; it collects its garbage, and none of the parent's.
    assert told[1]["line"] == "True False True True"
