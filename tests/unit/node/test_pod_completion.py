"""When the containers of a Job's pod end, and how it is told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.workload_builders import NOW, ago
from tonnage.node.pods.containers import ending_of
from tonnage.node.pods.status import ended_patch, restarted_patch
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Pod


def pod(
    *command: str,
    owner: str = "Job",
    restart: str = "Never",
    ran_s: float = 0.4,
    restarts: int = 0,
    image: str = "i",
    **annotations: str,
) -> Pod:
    said = {f"tonnage.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    reference = {"apiVersion": "batch/v1", "kind": owner, "name": "j", "uid": "u", "controller": True}
    state = {"running": {"startedAt": (NOW - timedelta(seconds=ran_s)).isoformat()}}
    container = {"name": "c", "ready": True, "restartCount": restarts, "state": state}
    doc: dict[str, Any] = {
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "u", "annotations": said, "ownerReferences": [reference]},
        "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": image, "command": list(command)}]},
        "status": {"phase": "Running", "startTime": ago(60), "containerStatuses": [container]},
    }
    return convert(Pod, doc)


def ends(found: Pod) -> tuple[Any, int, bool]:
    ending = ending_of(found, NOW)
    assert ending is not None
    return pytest.approx(ending.left_s), ending.exit_code, ending.is_final


def test_pods_of_others_run_on():
    assert ending_of(pod(owner="ReplicaSet", run_seconds="0"), NOW) is None


def test_a_second_and_well_unless_it_says_otherwise():
    assert ends(pod()) == (0.6, 0, True)
    assert ends(pod(run_seconds="30.5", exit_code="3")) == (30.1, 3, True)


@pytest.mark.parametrize("text", ["", "soon", "-1", "1e9", "nan", "٣"])
def test_what_is_no_number_is_passed_over(text: str):
    assert ends(pod(run_seconds=text, exit_code=text)) == (0.6, 0, True)


@pytest.mark.parametrize(
    ("command", "run_s", "code"),
    [
        (("sleep", "30"), 30, 0),
        (("/bin/sleep", "0.5"), 0.5, 0),
        (("false",), 1, 1),
        (("/bin/sh", "-c", "exit 3"), 1, 3),
        (("sh", "-c", "sleep 5; exit 2"), 5, 2),
        (("sh", "-c", "sleep 5"), 5, 0),
        (("sh", "-c", "exit $(( $RANDOM / 16384 ))"), 1, 0),
        (("echo", "exit 3"), 1, 0),
        (("sleep", "soon"), 1, 0),
    ],
)
def test_plain_commands_are_taken_at_their_word(command: tuple[str, ...], run_s: float, code: int):
    assert ends(pod(*command, ran_s=0)) == (run_s, code, True)


def test_an_annotation_goes_before_a_command_and_a_pause_never_ends():
    assert ends(pod("sleep", "30", run_seconds="2", exit_code="0", ran_s=0)) == (2, 0, True)
    pause = ending_of(pod(image="registry.example/pause:3.10"), NOW)
    assert pause is not None and pause.left_s > 3600 * 24 * 365


def test_containers_that_may_are_started_again_after_growing_pauses():
    failing = pod(restart="OnFailure", exit_code="1", run_seconds="0", ran_s=0, restarts=3)
    assert ends(failing) == (40, 1, False)
    told = restarted_patch(failing, exit_code=1, now=NOW)["status"]["containerStatuses"][0]
    assert (told["restartCount"], told["lastState"]["terminated"]["exitCode"]) == (4, 1)
    assert told["state"] == {"running": {"startedAt": ago(0)}}
    assert ends(pod(restart="OnFailure")) == (0.6, 0, True)


@pytest.mark.parametrize(("code", "phase", "reason"), [(0, "Succeeded", "PodCompleted"), (3, "Failed", "PodFailed")])
def test_the_end_is_told_as_a_kubelet_does(code: int, phase: str, reason: str):
    status = ended_patch(pod(), exit_code=code, now=NOW)["status"]
    assert status["phase"] == phase
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code
    ready = {each["type"]: (each["status"], each.get("reason")) for each in status["conditions"]}
    assert ready["Ready"] == ready["ContainersReady"] == ("False", reason)
    assert ready["Initialized"] == ("True", reason)
