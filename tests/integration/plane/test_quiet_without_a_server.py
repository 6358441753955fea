"""No flood of log lines: whatever is wrong with the API server, each program says so in a line or two and goes on.

Twenty informers, a leader election and every queue fail for one reason; it is told once, then counted
(`logs.py`). Whatever state a program is in, SIGTERM ends it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.eventually import eventually
from support.hopeless_server import HopelessServer
from support.programs import RunningProgram, spawn

TEMPLATE = Path(__file__).parents[3] / "examples" / "13-fit" / "nodes" / "dense.yaml"
SLOW = pytest.mark.slow
MOST_WARNINGS = 5
"""Of one program that is refused everything; it has some twenty parts that could each say so at every try."""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The socket of a driver, for programs that want one before they look for the server."""
    folder = tmp_path_factory.mktemp("driver")
    address = f"unix://{folder}/csi.sock"
    pools = ("--node-id", "n1", "--pools", "1x1Gi", "--state-dir", str(folder / "state"))
    process = spawn("csi-driver", "--endpoint", address, *pools, log=folder / "log")
    assert process.readline() == "ready\n", (folder / "log").read_text()
    yield address
    process.terminate()
    process.wait()


def commands(folder: Path, kubeconfig: Path, driver: str) -> dict[str, list[str]]:
    own = [f"--kubeconfig={kubeconfig}"]
    pools = ["--node-id", "n1", "--pools", "1x1Gi", "--state-dir", str(folder / "state")]
    return {
        "scheduler": ["--secure-port=0", *own],
        "controllers": ["--secure-port=0", "--leader-elect", *own],
        "provisioner": ["--csi-address", driver, "--leader-election", *own],
        "node": ["--node-name", "n1", "--root-dir", str(folder / "nodes"), "--csi-address", driver, *own],
        "csi-driver": ["--endpoint", f"unix://{folder}/csi.sock", *pools, "--rebuild", *own],
        "pools": ["--source", "openebs-lvm", "--source", "topolvm", *own],
        "node-scaler": ["--template", str(TEMPLATE), "--max", "2", *own],
    }


@pytest.mark.parametrize(
    "answer",
    [
        500,
        pytest.param(401, marks=SLOW),
        pytest.param(403, marks=SLOW),
        pytest.param(429, marks=SLOW),
        pytest.param(503, marks=SLOW),
        pytest.param("page", marks=SLOW),
        pytest.param("stranger", marks=SLOW),
        pytest.param("away", marks=SLOW),
        pytest.param("silent", marks=SLOW),
    ],
)
def test_every_program_says_it_once_and_ends_when_told_to(answer: int | str, driver: str, tmp_path: Path) -> None:
    with HopelessServer(answer, tmp_path) as server:
        programs: dict[str, RunningProgram] = {}
        for name, args in commands(tmp_path, server.kubeconfig, driver).items():
            programs[name] = spawn(name, *args, log=tmp_path / f"{name}.log")
        if answer in ("away", "stranger"):
            logs = [tmp_path / f"{name}.log" for name in programs]
            eventually(lambda: all(warnings(log) for log in logs), "every program to say what is wrong")
        else:
            server.wait_for(40 if answer == "silent" else 200, programs=len(programs))
        for program in programs.values():
            program.terminate()
        codes = {name: program.wait() for name, program in programs.items()}
    assert codes == dict.fromkeys(programs, 0)
    for name in programs:
        told = warnings(tmp_path / f"{name}.log")
        if answer == 403:  # a right each: which one is missing is what one wants to know
            told = [each for number, each in enumerate(told) if each in told[:number]]
        assert len(told) <= MOST_WARNINGS, f"{name} said {len(told)} times:\n" + "\n".join(told)


def warnings(log: Path) -> list[str]:
    """Lines that warn, without their time and numbers, so that those of the same meaning are the same."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [re.sub(r"^\S+ \S+ ", "", line) for line in lines if re.match(r"[WE]\d", line)]
