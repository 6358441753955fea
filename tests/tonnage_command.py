"""`tonnage ARGS…` run to its end, as `python -m tonnage ARGS…` would be, without loading it anew each time.

    done = tonnage("explain", "-f", str(dump), "--pending")
    assert (done.returncode, done.stderr) == (0, "")

Loading a command takes up to a second of processor time, a fork of a process that has loaded them all a few hundredths.
The tests of `./tonnage`, of `python -m tonnage` itself, of pipes that close, of signals and of PYTHONHASHSEED start the
real thing.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

SERVER = Path(__file__).with_name("command_server.py")
CLIENT = Path(__file__).with_name("command_client.py")


def tonnage(
    *args: str,
    stdin: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 120.0,
) -> subprocess.CompletedProcess[str]:
    """Run it and give its exit code, its stdout and its stderr. Raises TimeoutError when it does not end."""
    asked = {"args": args, "cwd": str(cwd or Path.cwd()), "env": dict(os.environ if env is None else env)}
    with (
        tempfile.TemporaryFile("w+") as given,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        given.write(stdin)
        given.seek(0)
        connection.settimeout(timeout_s)
        connection.connect(command_server())
        data = json.dumps(asked).encode() + b"\n"
        sent = socket.send_fds(connection, [data], [given.fileno(), out.fileno(), err.fileno()])
        connection.sendall(data[sent:])
        with connection.makefile() as answers:
            pid = int(answers.readline())
            try:
                code = int(answers.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise TimeoutError(f"tonnage {' '.join(args)} did not end within {timeout_s:g} s") from None
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(["tonnage", *args], code, out.read(), err.read())


@cache
def command_server() -> str:
    """The socket of the one process that forks for this one; it ends when we do."""
    folder = tempfile.mkdtemp(prefix="tonnage-commands-")
    path = str(Path(folder) / "socket")
    process = subprocess.Popen(
        [sys.executable, str(SERVER), path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )

    def end() -> None:
        process.communicate()
        shutil.rmtree(folder)

    atexit.register(end)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return path
