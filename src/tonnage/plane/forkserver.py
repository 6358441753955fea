"""The forkserver: a process that has loaded every program once, and forks a child for each requested program.

    {"start": "scheduler", "args": ["scheduler", "--kubeconfig", …], "log": "…/scheduler.log"}      in, a line each
    {"signal": "scheduler", "number": 15}
    {"started": "scheduler", "pid": 4711}                                                           out, a line each
    {"printed": "scheduler", "line": "ready"}
    {"ended": "scheduler", "code": -9}

Loading a program takes a second of CPU time; a fork takes milliseconds. When the parent goes away (its end of the pipe
closes), all children are stopped; if the forkserver itself is killed, the kernel signals its children (on Linux). It
has one thread and no event loop: nothing that a fork could break.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import random
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import tonnage
from tonnage.private_files import open_log

ROOM_FLAG: Final = "--title-room"
ROOM: Final = "." * 1500
"""Longer command lines are cut. The kernel shows at most a page."""
_PR_SET_NAME: Final = 15
"""From Linux' sys/prctl.h. The name has 15 characters at most."""
_ARG_START, _ARG_END = 47, 48
"""Positions in /proc/PID/stat, from 0."""


def set_title(name: str, words: Sequence[str]) -> None:
    """Be shown as `words` by `ps -f`, and as `name` by `top` and `pgrep`.

    A child overwrites the arguments of the last exec, which the kernel shows; the forkserver is started with an
    argument that only makes room (`ROOM_FLAG`). If anything looks unexpected, nothing is done.
    """
    if sys.platform != "linux":
        return
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NAME, ctypes.create_string_buffer(name.encode()[:15]), 0, 0, 0)
        _overwrite_arguments(" ".join(words).encode())
    except (OSError, ValueError, IndexError):  # no /proc, or one that hides the values
        return


def _overwrite_arguments(title: bytes) -> None:
    # The second field is the program's name in parentheses, which may itself contain blanks and parentheses.
    fields = [b"", b"", *Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()]
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    size = end - start
    if size < 2 or start <= 0 or size > 1 << 20:
        return
    memory = (ctypes.c_char * size).from_address(start)
    if not Path("/proc/self/cmdline").read_bytes().startswith(memory.raw[:16].partition(b"\0")[0]):
        return
    # If the last byte is not zero, the kernel takes this for a title and shows it up to its first zero.
    ctypes.memmove(start, title[: size - 2].ljust(size - 1, b"\0") + b".", size)


_STOP_WITHIN_S = 10.0
_PR_SET_PDEATHSIG = 1


def command() -> list[str]:
    """The command line that starts the forkserver; an unpacked `tonnage.pyz` is a folder with a `__main__.py`."""
    folder = Path(tonnage.__file__).parent.parent
    # As ./tonnage does: modules of the working directory are not imported.
    module = [*(["-P"] if sys.flags.safe_path else []), "-m", "tonnage"]
    words = [str(folder)] if (folder / "__main__.py").is_file() else module
    return [sys.executable, *words, "forkserver", ROOM_FLAG, ROOM]


class Forkserver:
    """Children by name. Everything happens in `run`, in one thread.

    While idle, it loads the modules of every command one by one, in the order of starting. A command that is requested
    earlier is loaded here and then forked, so that all children share it. The garbage collector is off, and all objects
    are frozen before a fork: a collection, here or in a child, would write into every shared page.
    """

    def __init__(self, main: Callable[[], object], preload: Mapping[str, Sequence[str]]) -> None:
        self._main = main
        self._selector = selectors.DefaultSelector()
        self._pids: dict[str, int] = {}
        self._pipes: dict[str, int] = {}
        self._unread = b""
        self._to_load = {command: list(modules) for command, modules in preload.items()}

    def run(self) -> None:
        """Serve until standard input ends; then stop every child and return."""
        gc.disable()
        set_title("forkserver", ["tonnage", "forkserver"])
        woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # Ctrl-C goes to the whole group; only the supervisor acts on it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._selector.register(0, selectors.EVENT_READ, "requests")
        self._selector.register(woken, selectors.EVENT_READ, "signals")
        while True:
            found = self._selector.select(timeout=0 if self._to_load else None)
            if not found:
                self._load_next(next(iter(self._to_load)))
            for key, _ in found:
                if key.data == "requests":
                    data = os.read(0, 65536)
                    if not data:
                        self._stop_all()
                        return
                    self._take(data)
                elif key.data == "signals":
                    with contextlib.suppress(BlockingIOError):
                        os.read(woken, 4096)
                else:
                    self._forward(key.fd, key.data)
            self._reap()

    def _load_next(self, command: str) -> None:
        """Load the next module of a command; after the last, the command is removed from the list."""
        modules = self._to_load[command]
        import_module(modules.pop(0))
        if not modules:
            del self._to_load[command]

    def _take(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            request: dict[str, Any] = json.loads(line)
            if "start" in request:
                self._start(request["start"], request["args"], Path(request["log"]))
            elif "signal" in request and request["signal"] in self._pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pids[request["signal"]], request["number"])

    def _start(self, name: str, args: list[str], log: Path) -> None:
        while args and args[0] in self._to_load:
            self._load_next(args[0])
        ours, theirs = os.pipe()
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            gc.enable()
            os.close(ours)
            _become(self._main, theirs, name, args, log)
        os.close(theirs)
        self._pids[name], self._pipes[name] = pid, ours
        self._selector.register(ours, selectors.EVENT_READ, name)
        _send({"started": name, "pid": pid})

    def _forward(self, fd: int, name: str) -> None:
        data = os.read(fd, 65536)
        if not data:
            del self._pipes[name]
            self._selector.unregister(fd)
            os.close(fd)
            return
        for line in data.decode(errors="replace").splitlines():
            _send({"printed": name, "line": line})

    def _reap(self) -> None:
        for name, pid in tuple(self._pids.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                del self._pids[name]
                while name in self._pipes:  # its last lines come before its end
                    self._forward(self._pipes[name], name)
                _send({"ended": name, "code": os.waitstatus_to_exitcode(status)})

    def _stop_all(self) -> None:
        for pid in self._pids.values():
            os.kill(pid, signal.SIGTERM)
        give_up_at = time.monotonic() + _STOP_WITHIN_S
        while self._pids and time.monotonic() < give_up_at:
            for name, pid in tuple(self._pids.items()):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    del self._pids[name]
            time.sleep(0.02)
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)


def _become(main: Callable[[], object], stdout: int, name: str, args: list[str], log: Path) -> None:
    """Become the program, in a session of its own; never returns."""
    os.setsid()
    if sys.platform == "linux":  # get SIGTERM when the forkserver dies, however it dies
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    stderr = open_log(log)
    os.dup2(nothing, 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.closerange(3, 256)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    random.seed()  # or all children would draw the same random numbers
    sys.argv = ["tonnage", *args]
    set_title(name, sys.argv)
    code: Any = 1
    try:
        main()
    except SystemExit as exc:
        code = exc.code
    except BaseException:
        traceback.print_exc()  # os._exit, below, would lose it
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)


def _send(message: dict[str, object]) -> None:
    # The parent is gone: the end of our input follows and stops us.
    with contextlib.suppress(BrokenPipeError):
        os.write(1, json.dumps(message).encode() + b"\n")
