"""`tonnage replay`: what it asks, what it answers, what it says beside the answers; the KEP's stories as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from tonnage.cli.explain import explain
from tonnage.cli.questions import replay
from tonnage.errors import TonnageError
from tonnage.whatif.replay_steps import MAX_LINES

Doc = dict[str, Any]


def configured(reservation: str) -> Doc:
    args = {"reservation": reservation}
    profile = {"schedulerName": "default-scheduler", "pluginConfig": [{"name": "StorageCapacity", "args": args}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


OBJECT, LEDGER = configured("Object"), configured("Ledger")


def node(name: str, cpu: str = "4") -> Doc:
    offered = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": offered, "capacity": offered},
    }


def pod(name: str, *claims: str, cpu: str = "1", **spec: Any) -> Doc:
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [container], "volumes": volumes, **spec},
    }


def claim(name: str, size: str) -> Doc:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": size}},
        },
    }


def storage() -> list[Doc]:
    group = "storage.k8s.io/v1"
    return [
        {"apiVersion": group, "kind": "CSIDriver", "metadata": {"name": "d"}, "spec": {"storageCapacity": True}},
        {
            "apiVersion": group,
            "kind": "StorageClass",
            "metadata": {"name": "local"},
            "provisioner": "d",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    ]


def room(node_name: str, **figures: Any) -> Doc:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": node_name, "namespace": "kube-system"},
        "storageClassName": "local",
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": node_name}},
        **figures,
    }


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, *docs: Any) -> str:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(yaml.safe_dump_all(docs))
    return name


def run(*arguments: str) -> Result:
    return CliRunner().invoke(replay, arguments, standalone_mode=False)


def answered(objects: list[Doc], steps: list[Doc], *options: str) -> Result:
    result = run("-f", write("w.yaml", *objects), "--steps", write("s.yaml", steps), *options)
    if result.exception is not None:
        raise result.exception
    return result


def answers(objects: list[Doc], steps: list[Doc], *options: str) -> list[Doc]:
    found: list[Doc] = json.loads(answered(objects, steps, "-o", "json", *options).stdout)
    return found


def schedule(*names: str) -> list[Doc]:
    return [{"schedule": f"shop/{name}"} for name in names]


# -- answers ----------------------------------------------------------------------------------------------------------


def test_json_is_a_list_with_the_answers_of_explain():
    objects = [
        node("a"),
        node("b", cpu="2"),
        *storage(),
        room("a", capacity="9Gi"),
        claim("data", "1Gi"),
        pod("x", "data"),
    ]
    (found,) = answers(objects, [{"advance": 3}, *schedule("x"), {"restart": True}])
    told = CliRunner().invoke(explain, ["-f", "w.yaml", "--pod", "shop/x", "-o", "json"], standalone_mode=False)
    assert found == json.loads(told.stdout)


def test_without_a_schedule_step_the_list_is_empty():
    assert answers([node("a")], [{"advance": 1}]) == []


def test_the_table_tells_every_step():
    objects = [node("a", cpu="2"), pod("x"), pod("z", cpu="2"), pod("gated", schedulingGates=[{"name": "wait"}])]
    steps = [
        *schedule("x", "z", "gated"),
        {"fail_binding": "shop/x"},
        {"apply": [node("a", cpu="2"), node("b")]},
        {"delete": [{"kind": "Node", "name": "b"}, {"kind": "Pod", "namespace": "shop", "name": "gated"}]},
        {"advance": 90.5},
        *schedule("z"),
        {"restart": True},
        {"restart": True},
    ]
    assert answered(objects, steps).stdout == (
        "step 1: schedule shop/x\n"
        "  goes to a; fits on 1 of 1 nodes\n"
        "step 2: schedule shop/z\n"
        "  does not fit: 0/1 nodes are available: 1 Insufficient cpu.\n"
        "step 3: schedule shop/gated\n"
        "  is not tried: waiting for scheduling gates: [wait]\n"
        "step 4: fail_binding shop/x\n"
        "  it is not on its way to a any more\n"
        "step 5: apply\n"
        "  Node a unchanged\n"
        "  Node b created\n"
        "step 6: delete\n"
        "  Node b deleted\n"
        "  Pod shop/gated deleted\n"
        "step 7: advance 90.5 s\n"
        "  it is 2000-01-01T00:01:30Z\n"
        "step 8: schedule shop/z\n"
        "  goes to a; fits on 1 of 1 nodes\n"
        "step 9: restart\n"
        "  forgotten: shop/z on its way to a\n"
        "step 10: restart\n"
        "  no pod was on its way\n"
    )


def test_a_step_with_many_objects_stays_short():
    found = answered([node("a")], [{"apply": [node(f"n{i}") for i in range(MAX_LINES + 4)]}]).stdout.splitlines()
    assert found[-2:] == ["  Node n7 created", "  … and 4 more"]


def test_the_nearest_misses_are_told_the_nearest_first():
    rooms = [room(f"n{i}", capacity=f"{10 + i}Gi") for i in range(5)]
    objects = [*(node(f"n{i}") for i in range(5)), *storage(), *rooms, claim("data", "20Gi"), pod("x", "data")]
    assert answered(objects, schedule("x")).stdout.splitlines()[1:] == [
        "  does not fit: 0/5 nodes are available: 5 node(s) did not have enough free storage.",
        "  n4: largest free pool 14Gi, needs 20Gi",
        "  n3: largest free pool 13Gi, needs 20Gi",
        "  n2: largest free pool 12Gi, needs 20Gi",
        "  … and 2 more nodes",
    ]


def test_the_steps_file_may_lie_in_the_folder_of_the_manifests():
    write("world/w.yaml", node("a"), pod("x"))
    result = run("-f", "world", "--steps", write("world/steps.yaml", schedule("x")))
    assert result.stdout == "step 1: schedule shop/x\n  goes to a; fits on 1 of 1 nodes\n"


def test_a_pod_of_another_scheduler_is_decided_with_a_note_said_once():
    objects = [node("a"), pod("x", schedulerName="other"), pod("z", schedulerName="other")]
    result = answered(objects, schedule("x", "z"))
    assert result.stderr == "note: shop/x asks for schedulerName other; this is what the default plugins decide\n"


def test_warnings_about_steps_are_said():
    Path("s.yaml").write_text("- schedule: shop/x\n- {restart: true, restart: true}\n")
    result = run("-f", write("w.yaml", node("a"), pod("x")), "--steps", "s.yaml")
    assert result.stderr == (
        'warning: s.yaml, document 1: line 2: key "restart" stands twice in one map; the last counts\n'
    )


# -- errors -----------------------------------------------------------------------------------------------------------


def error(objects: list[Doc], steps: list[Doc], *options: str) -> tuple[str, str | None]:
    with pytest.raises(TonnageError) as raised:
        answered(objects, steps, *options)
    return raised.value.message, raised.value.hint


def test_a_step_that_cannot_be_taken_is_told_with_its_number():
    assert error([node("a"), pod("x")], schedule("x", "x")) == (
        "s.yaml, step 2: pod shop/x is placed already: it was sent to a",
        "a fail_binding step undoes that",
    )
    assert error([node("a"), pod("x")], [{"advance": 1}, *schedule("z")]) == (
        's.yaml, step 2: there is no pod "shop/z" among the 1 there are now',
        "give it with the manifests or in an apply step before this one",
    )
    assert error([node("a")], [{"delete": [{"kind": "Pod", "name": "x"}]}]) == (
        "s.yaml, step 1: there is no Pod default/x to delete",
        None,
    )


def test_a_profile_that_the_file_does_not_have_is_an_error():
    objects = [node("a"), pod("x", schedulerName="other")]
    assert error(objects, schedule("x"), "--config", write("ledger.yaml", LEDGER)) == (
        "s.yaml, step 1: pod shop/x asks for schedulerName other, and no profile has that name",
        "the profiles are default-scheduler",
    )


def test_wrong_usage_is_told():
    no_files = run("--steps", write("s.yaml", schedule("x")))
    assert isinstance(no_files.exception, click.UsageError)
    assert no_files.exception.format_message() == "give the cluster's manifests with -f"
    no_steps = run("-f", write("w.yaml", node("a")))
    assert isinstance(no_steps.exception, click.UsageError)
    assert no_steps.exception.format_message() == "Missing option '--steps'."


# -- the KEP's stories ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "size", "pools", "goes"),
    [
        (2, "100Gi", 1, False),  # only one can fit
        (1, "120Gi", 3, False),  # no single pool is large enough
        (2, "100Gi", 3, True),  # one per pool
        (3, "80Gi", 3, True),  # one per pool
        (4, "80Gi", 3, False),  # only three pools
    ],
)
def test_story_1_claims_are_packed_jointly(count, size, pools, goes):
    names = [f"c{i}" for i in range(count)]
    disks = room("a", capacity=f"{100 * pools}Gi", availableCapacities=["100Gi"] * pools)
    objects = [node("a"), *storage(), disks, *(claim(name, size) for name in names), pod("x", *names)]
    (found,) = answers(objects, schedule("x"))
    assert found["schedulable"] is goes
    if not goes:
        assert found["message"] == "0/1 nodes are available: 1 node(s) did not have enough free storage."


def jobs() -> list[Doc]:
    """One node with 100Gi, ten pods that ask for 20Gi each."""
    pods = [each for i in range(10) for each in (claim(f"job-{i}", "20Gi"), pod(f"job-{i}", f"job-{i}", cpu="100m"))]
    return [node("a"), *storage(), room("a", capacity="100Gi"), *pods]


def test_story_2_object_admits_one_per_refresh_and_none_too_many():
    steps = schedule(*(f"job-{i}" for i in range(10)))
    for placed in range(1, 6):  # after each refresh all that wait try again, in order: the first of them goes
        steps += [{"apply": [room("a", capacity=f"{100 - 20 * placed}Gi")]}]
        steps += schedule(*(f"job-{i}" for i in range(placed, 10)))
    went = [
        each["pod"] for each in answers(jobs(), steps, "--config", write("object.yaml", OBJECT)) if each["schedulable"]
    ]
    assert went == [f"shop/job-{i}" for i in range(5)]  # 5 * 20Gi = 100Gi


def test_story_2_ledger_admits_five_at_once_and_none_too_many():
    steps = schedule(*(f"job-{i}" for i in range(10)))
    found = answers(jobs(), steps, "--config", write("ledger.yaml", LEDGER))
    assert [each["schedulable"] for each in found] == [True] * 5 + [False] * 5
