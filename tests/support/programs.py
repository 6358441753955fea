"""Programs of Tonnage in processes of their own, for tests that start and kill many of them.

    scheduler = spawn("scheduler", "--kubeconfig", …, log=folder / "scheduler.log")
    scheduler.readline()            # "ready\\n"
    scheduler.send_signal(signal.SIGKILL)
    scheduler.wait()                # -9

They are forks of one forkserver (`tonnage.plane.forkserver`), as those of `tonnage up` are: the same programs with the
same command line, without a second of loading each. What a program needs of the environment is given by flags; a test
of the environment itself starts `python -m tonnage`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import signal
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import Any

from tonnage.plane import forkserver


class RunningProgram:
    """One process, with as much of `subprocess.Popen` as tests ask for."""

    def __init__(self, args: tuple[str, ...]) -> None:
        self.args = args
        self.pid = 0
        self.returncode: int | None = None
        self.started = threading.Event()
        self.ended = threading.Event()
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def readline(self, timeout: float = 60.0) -> str:
        """The next line of its stdout, with its line break; empty when it ended without another."""
        try:
            return self.lines.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"{self.args[0]} said nothing for {timeout:g} s") from None

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float = 60.0) -> int:
        if not self.ended.wait(timeout):
            raise subprocess.TimeoutExpired(list(self.args), timeout)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and whoever waits for it has not told yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def spawn(*args: str, log: Path) -> RunningProgram:
    """Start `tonnage ARGS…`; what it says on stderr goes to the end of `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch(mode=0o600)
    return _forkserver().start(args, log)


class _ForkserverProcess:
    """The one process that forks for this one; it ends when we do, and all its children with it."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._programs: dict[str, RunningProgram] = {}
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            forkserver.command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def start(self, args: tuple[str, ...], log: Path) -> RunningProgram:
        program, name = RunningProgram(args), str(next(self._numbers))
        self._programs[name] = program
        request = json.dumps({"start": name, "args": list(args), "log": str(log)}).encode() + b"\n"
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(request)
            self._process.stdin.flush()
        assert program.started.wait(60), f"{args[0]} was not started"
        return program

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message: dict[str, Any] = json.loads(line)
            if "started" in message:
                program = self._programs[message["started"]]
                program.pid = message["pid"]
                program.started.set()
            elif "printed" in message:
                self._programs[message["printed"]].lines.put(f"{message['line']}\n")
            else:
                program = self._programs.pop(message["ended"])
                program.returncode = message["code"]
                program.lines.put("")
                program.ended.set()


@cache
def _forkserver() -> _ForkserverProcess:
    return _ForkserverProcess()
