"""`tonnage replay` as people run it: a process of its own, files and pipes, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tonnage_command import tonnage

EXAMPLE = Path(__file__).parents[3] / "examples" / "03-replay"
CLUSTER, BURST = str(EXAMPLE / "cluster.yaml"), str(EXAMPLE / "steps" / "burst.yaml")
OBJECT = ("--config", str(EXAMPLE / "config" / "object.yaml"))


def replayed(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return tonnage("replay", *arguments, stdin=stdin)


def placed(*options: str) -> list[str]:
    """The pods of the example's burst that found a node."""
    done = replayed("-f", CLUSTER, "--steps", BURST, "-o", "json", *options)
    assert (done.returncode, done.stderr) == (0, "")
    return [answer["pod"] for answer in json.loads(done.stdout) if answer["schedulable"]]


def test_the_burst_ends_as_story_2_says():
    assert placed(*OBJECT) == ["batch/job-0", "batch/job-9"]
    assert placed() == [f"batch/job-{number}" for number in range(5)]


def test_without_the_gate_ten_jobs_share_the_room_of_five(tmp_path):
    steps = tmp_path / "steps.yaml"
    steps.write_text("".join(f"- schedule: batch/job-{number}\n" for number in range(10)))
    done = replayed("-f", CLUSTER, "--steps", str(steps), "-o", "json", "--feature-gates", "CSIStorageCapacityV2=false")
    assert [answer["node"] for answer in json.loads(done.stdout)] == ["batch-a"] * 10


def test_the_first_answer_is_that_of_explain():
    done = replayed("-f", CLUSTER, "--steps", BURST, "-o", "json")
    explained = tonnage("explain", "-f", CLUSTER, "--pod", "batch/job-0", "-o", "json")
    assert json.loads(done.stdout)[0] == json.loads(explained.stdout)


def test_two_runs_are_the_same_to_the_letter():
    first, second = (replayed("-f", CLUSTER, "--steps", BURST, *OBJECT) for _ in range(2))
    assert first.stdout == second.stdout != ""


def test_manifests_come_through_a_pipe():
    done = replayed("-f", "-", "--steps", BURST, "-o", "json", stdin=Path(CLUSTER).read_text())
    assert json.loads(done.stdout)[0]["node"] == "batch-a"


def test_a_failure_is_two_lines_and_exit_1(tmp_path):
    steps = tmp_path / "steps.yaml"
    steps.write_text("- schedule: batch/job-0\n- schedule: batch/job-0\n")
    done = replayed("-f", CLUSTER, "--steps", str(steps))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"error: {steps}, step 2: pod batch/job-0 is placed already: it was sent to batch-a",
        "hint: a fail_binding step undoes that",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("-f", CLUSTER),
        ("--steps", BURST),
        ("-f", CLUSTER, "--steps", BURST, "-o", "yaml"),
        ("-f", CLUSTER, "--steps", BURST, "--feature-gates", "Nothing=true"),
    ],
)
def test_wrong_usage_is_exit_2(arguments):
    done = replayed(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-2].startswith("error: ")
    assert done.stderr.endswith("tonnage replay --help' shows the options\n")


def test_a_reader_that_has_seen_enough_is_no_failure():
    command = f"{sys.executable} -m tonnage replay -f {CLUSTER} --steps {BURST} | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "step 1: schedule batch/job-0\n"
