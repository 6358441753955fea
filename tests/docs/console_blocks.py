"""Commands that a document shows, run as a reader would: in order, in one shell, and what they print compared.

A block that begins with ```console holds commands after `$ ` (going on after `> `) and, below each, what it prints. `…`
stands for anything, also for several lines; spaces count as one. Where nothing is shown nothing is compared, only that
the command works. A command that ends with ` &` is left running, and what is shown is waited for. One that only looks
(`kubectl get`, `tonnage explain` and the like) is asked again for a while, as a reader would who is quicker than the
cluster. `# exit 4` after a command says that it ends with 4.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tonnage_command import CLIENT, command_server

ROOT = Path(__file__).parent.parent.parent
ON_A_CLUSTER = (
    "capacity-planning.md",
    "shell.md",
    "reservation-mode.md",
    "troubleshooting.md",
    "observe.md",
    "dashboard.md",
    "beside-kube-scheduler.md",
    "migrate.md",
    "upgrade.md",
    "install.md",
    "drain-with-rebuild.md",
)
"""Guides that presume a cluster of the reader's: they are done one after the other on the same."""
PATIENCE_S = 120.0
LOOKS_AGAIN_AFTER_S = 0.2
LOOKS = (
    r"kubectl ((-n|--namespace) \S+ )?(get|describe|auth can-i) "
    r"|(\./|kubectl )?tonnage (status|explain|fit|drain-preview|doctor)\b"
)
_END = "--- the end of a command:"


@dataclass(frozen=True)
class Command:
    """One command, the line where it stands, and what is shown below it."""

    line: int
    text: str
    shown: str
    code: int = 0

    @property
    def is_left_running(self) -> bool:
        return self.text.rstrip().endswith("&")

    @property
    def only_looks(self) -> bool:
        return re.match(LOOKS, self.text) is not None


def commands_of(document: Path) -> list[Command]:
    """Every command of a document's console blocks, in their order."""
    found: list[Command] = []
    is_inside = False
    for number, line in enumerate(document.read_text("utf-8").splitlines(), start=1):
        line = line.removeprefix("    ")  # below a step of a list
        if line.startswith("```"):
            is_inside = line == "```console"
        elif is_inside and line.startswith("$ "):
            code = re.search(r"\s# exit (\d+)$", line)
            text = line[2:] if code is None else line[2 : code.start()]
            found.append(Command(number, text, "", int(code[1]) if code else 0))
        elif is_inside and line.startswith("> ") and not found[-1].shown:
            found[-1] = Command(found[-1].line, f"{found[-1].text}\n{line[2:]}", "", found[-1].code)
        elif is_inside:
            last = found[-1]
            found[-1] = Command(last.line, last.text, f"{last.shown}{line}\n", last.code)
    return found


def files_of(document: Path) -> dict[str, str]:
    """Files that a document shows whole: blocks of YAML whose first line is a comment with a name, by that name."""
    blocks = re.findall(r"^```yaml\n# (\S+\.yaml)\n(.*?)^```$", document.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return dict(blocks)


def is_shown(shown: str, printed: str) -> bool:
    """Whether what was printed is what is shown."""
    parts = (re.escape(" ".join(part.split())) for part in " ".join(shown.split()).split("…"))
    pattern = r"\s*.*?\s*".join(parts)
    return re.fullmatch(pattern, " ".join(printed.split()), re.DOTALL) is not None


class Shell:
    """One bash that is fed command after command."""

    def __init__(self, process: subprocess.Popen[str], printed: IO[str]) -> None:
        self._process = process
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.reader = threading.Thread(target=self._read, args=(printed,), daemon=True)
        self.reader.start()

    def _read(self, printed: IO[str]) -> None:
        with printed:
            for line in printed:
                self._lines.put(line)
        self._lines.put(None)

    def run(self, command: Command) -> None:
        """Run it; AssertionError when it fails or prints something else."""
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            printed, code = self.ask(command)
            told = f"line {command.line}: {command.text}\nexit {code}, printed\n{printed}"
            if code == command.code and (not command.shown or is_shown(command.shown, printed)):
                return
            if not command.only_looks or time.monotonic() > give_up_at:
                raise AssertionError(f"{told}\nand not\n{command.shown}")
            time.sleep(LOOKS_AGAIN_AFTER_S)

    def ask(self, command: Command) -> tuple[str, int]:
        """What it prints, and the code that it ends with."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command.text}\necho '{_END}' $?\n")
        self._process.stdin.flush()
        printed, code = "", None
        while code is None or (command.is_left_running and not is_shown(command.shown, printed)):
            try:
                line = self._lines.get(timeout=PATIENCE_S)
            except queue.Empty:
                raise AssertionError(f"{command.text}\ndoes not end; it has printed\n{printed}") from None
            assert line is not None, f"{command.text}\nended the shell; it has printed\n{printed}"
            before, end, told = line.partition(_END)
            printed += before
            if end:
                code = int(told)
        return printed, code


@contextmanager
def shell(home: Path, **environment: str) -> Iterator[Shell]:
    """A shell in a folder that looks like a checkout: ./tonnage and examples/ are there, ~ is the folder above it."""
    checkout = home / "tonnage-checkout"
    (checkout / "bin").mkdir(parents=True)
    for name in ("examples", "deploy", "docs"):
        if (ROOT / name).exists():
            (checkout / name).symlink_to(ROOT / name)
    # What runs on is the real thing; what answers and ends is forked, or a guide would load Python a hundred times.
    wrapper = f"""#!/bin/sh
case "$1" in
explain|fit|drain-preview|doctor|simulate|replay|status|fault|version)
  exec {sys.executable} -I -S {CLIENT} {command_server()} "$@" ;;
esac
PYTHONPATH={ROOT / "src"} exec {sys.executable} -m tonnage "$@"
"""
    for path in (checkout / "tonnage", checkout / "bin" / "tonnage", checkout / "bin" / "kubectl-tonnage"):
        path.write_text(wrapper)
        path.chmod(0o755)
    variables = {
        **os.environ,
        "HOME": str(home),
        "PATH": os.pathsep.join([str(checkout / "bin"), os.environ["PATH"], str(Path(sys.executable).parent)]),
        "OPENBLAS_NUM_THREADS": "1",
        **environment,
    }
    variables.pop("KUBECONFIG", None)
    process = subprocess.Popen(
        ["bash", "--noprofile", "--norc"],
        cwd=checkout,
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdin is not None
    running = Shell(process, process.stdout)
    try:
        yield running
    finally:
        with contextlib.suppress(OSError):
            process.stdin.write("kill $(jobs -p) 2>/dev/null; wait\nexit\n")
            process.stdin.close()
        try:
            process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        running.reader.join()
