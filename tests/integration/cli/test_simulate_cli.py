"""`tonnage simulate` as people run it: the same bytes in every process, and Ctrl-C in the middle."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "15-simulate"
FRIDAY = str(EXAMPLE / "scenarios" / "friday.yaml")
RUNS = ("--compare", "kube-scheduler", "--compare", "kep", "--compare", "default")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tonnage", "simulate", "-f", str(EXAMPLE), *arguments]


def printed(hash_seed: str, *arguments: str) -> bytes:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command(*arguments), capture_output=True, env=environment, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_the_same_seed_gives_the_same_bytes_in_another_process():
    for shown in ((*RUNS, "-o", "json"), ("-o", "table")):
        asked = ("--scenario", FRIDAY, "--seed", "3", *shown)
        assert printed("1", *asked) == printed("2", *asked)


def test_ctrl_c_ends_it_with_what_is_known(tmp_path):
    scenario = tmp_path / "long.yaml"
    events = [{"from": "0s", "until": "8000h", "rate": "1/min", "arrive": "deploy/simulate/build", "lifetime": "5m"}]
    head = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "Scenario"}
    scenario.write_text(json.dumps({**head, "duration": "8000h", "events": events}))
    terminal, stderr = pty.openpty()
    started = subprocess.Popen(
        command("--scenario", str(scenario), "-o", "json", *RUNS), stdout=subprocess.PIPE, stderr=stderr
    )
    os.close(stderr)
    try:
        shown = b""
        while b"simulating" not in shown:  # the bar, which is shown on a terminal alone
            shown += os.read(terminal, 4096)
        started.send_signal(signal.SIGINT)
        out, _ = started.communicate(timeout=60)
    finally:
        started.kill()
        os.close(terminal)
    assert started.returncode == 130
    answer = json.loads(out)
    assert answer["partial"] is True
    assert list(answer["runs"]) in (["kube-scheduler"], [])
    for run in answer["runs"].values():
        assert run["partial"] is True and run["seconds"] < 8000 * 3600


def test_errors_are_one_line_and_a_hint(tmp_path):
    scenario = tmp_path / "wrong.yaml"
    scenario.write_text("apiVersion: tonnage.dev/v1alpha1\nkind: Scenario\nevents: [{at: 1s, drian: rack-1}]\n")
    done = subprocess.run(command("--scenario", str(scenario)), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f'error: {scenario}: events[0].drian is not a field of a scenario here\nhint: did you mean "drain"?\n'
    )
