"""`tonnage ARGS…` for shell scripts: `python -I -S command_client.py SOCKET ARGS…` runs it through `command_server.py`.

It has the caller's stdin, stdout, stderr, folder and environment; signals that end it are passed on.
"""

import json
import os
import signal
import socket
import sys


def main(path: str, args: list[str]) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        here = os.getcwd()  # noqa: PTH109  (pathlib takes longer to load than all of this to run)
        data = json.dumps({"args": args, "cwd": here, "env": dict(os.environ)}).encode() + b"\n"
        sent = socket.send_fds(connection, [data], [0, 1, 2])
        connection.sendall(data[sent:])
        with connection.makefile() as answers:
            pid = int(answers.readline())
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda number, _: os.kill(pid, number))
            code = int(answers.readline())
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
