"""A process that has loaded every command once and forks a child for each that is asked for: see `tonnage_command.py`.

    python command_server.py SOCKET        serves until its stdin ends
    {"args": ["explain", …], "cwd": …, "env": {…}}      in, a line on a connection, with stdin, stdout and stderr
    4711                                                out, a line: the pid
    0                                                   out, a line, when it has ended: the exit code

It has one thread and no event loop: there is nothing in it that a fork could break.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import select
import signal
import socket
import sys
import traceback
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, NoReturn

import tonnage
from tonnage.cli import main


def load_everything() -> None:
    """All of the package but what tests use: commands import what they need when they run."""
    for found in walk_packages(tonnage.__path__, "tonnage."):
        if not found.name.startswith("tonnage.testing") and not found.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # what an extra brings that is not installed
                import_module(found.name)


def serve(path: str) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([listener.fileno(), 0], [], [])
        if 0 in readable:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            attend(connection)
        connection.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def attend(connection: socket.socket) -> NoReturn:
    """Fork the command of one connection, and tell how it ended."""
    data, fds, _, _ = socket.recv_fds(connection, 65536, 3)
    while not data.endswith(b"\n"):
        data += connection.recv(65536)
    pid = os.fork()
    if pid == 0:
        connection.close()
        become(json.loads(data), fds)
    for fd in (0, *fds):
        os.close(fd)  # so that whoever reads the command's output sees its end
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def become(asked: dict[str, Any], fds: list[int]) -> NoReturn:
    """Be `tonnage ARGS…` as a fresh process would be."""
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
    os.closerange(3, 256)
    sys.stdin = os.fdopen(0, encoding="utf-8")
    sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    random.seed()
    sys.argv = ["tonnage", *asked["args"]]
    code: Any = 1
    try:
        main()
    except SystemExit as exc:
        code = exc.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    load_everything()
    gc.collect()
    gc.freeze()
    serve(sys.argv[1])
