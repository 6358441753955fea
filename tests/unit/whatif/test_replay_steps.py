"""Steps from a file: what they come to, and what is said about those that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.objects.core_v1 import Pod
from tonnage.whatif.creation import Creation
from tonnage.whatif.manifest_errors import BrokenManifest
from tonnage.whatif.manifests import read
from tonnage.whatif.replay_steps import (
    Step,
    StepTarget,
    read_steps,
)

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "x"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def steps(text: str, *, creation: Creation | None = None, warnings: list[str] | None = None) -> list[Step]:
    Path("s.yaml").write_text(text)
    said = [] if warnings is None else warnings
    return read_steps(Path("s.yaml"), creation or Creation(Gates()), said)


def problem(text: str, kind: type[TonnageError] = BrokenManifest) -> tuple[str, str | None]:
    with pytest.raises(kind) as raised:
        steps(text)
    return raised.value.message, raised.value.hint


def test_every_kind_of_step_is_read():
    text = """
    - schedule: shop/web
    - delete: [{kind: Pod, namespace: shop, name: web}, {kind: Node, name: a}, {kind: Pod, name: z}]
    - fail_binding: web
    - advance: 1.5
    - restart: true
    """
    assert steps(text) == [
        ("schedule", "shop/web"),
        ("delete", (StepTarget("Pod", "shop", "web"), StepTarget("Node", "", "a"), StepTarget("Pod", "default", "z"))),
        ("fail_binding", "default/web"),
        ("advance", 1.5),
        ("restart", True),
    ]


def test_steps_may_be_json():
    assert steps('[{"schedule": "shop/web"}]') == [("schedule", "shop/web")]


def test_applied_objects_get_defaults_and_no_uid():
    (step,) = steps(yaml.safe_dump([{"apply": [POD, {"apiVersion": "v1", "kind": "PodList", "items": [POD]}]}]))
    assert step.kind == "apply"
    first, second = step.value
    assert isinstance(first, Pod)
    assert (first.key, first.uid, first.spec.scheduler_name) == ("default/x", "", "default-scheduler")
    assert second == first


def test_applied_objects_see_the_classes_of_before():
    of_class = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    wanted = {**POD, "spec": {**POD["spec"], "priorityClassName": "high"}}
    Path("w.yaml").write_text(yaml.safe_dump(of_class))
    creation = Creation(Gates())
    creation.of_all(read(["w.yaml"]))
    (step,) = steps(yaml.safe_dump([{"apply": [wanted]}]), creation=creation)
    assert step.kind == "apply" and isinstance(step.value[0], Pod)
    assert step.value[0].spec.priority == 7
    gone = [{"delete": [{"kind": "PriorityClass", "name": "high"}]}, {"apply": [wanted]}]
    with pytest.raises(BrokenManifest) as raised:
        steps(yaml.safe_dump(gone), creation=creation)
    assert raised.value.message == (
        "s.yaml, step 2, apply[0] (Pod default/x): no PriorityClass with name high was found"
    )


def test_a_copied_uid_is_replaced_and_an_own_one_stands():
    def with_uid(name: str) -> dict[str, Any]:
        return {**POD, "metadata": {"name": name, "uid": "u"}}

    warnings: list[str] = []
    (step,) = steps(yaml.safe_dump([{"apply": [with_uid("x"), with_uid("z"), with_uid("x")]}]), warnings=warnings)
    assert step.kind == "apply"
    assert [each.uid for each in step.value] == ["u", "", "u"]
    assert warnings == [
        "s.yaml, step 1, apply[1] (Pod default/z) has the uid of another object, and is given one of its own"
    ]


# -- the file ---------------------------------------------------------------------------------------------------------

A_STEP = 'write steps such as "- schedule: default/web"'


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "s.yaml: there is no step in it", A_STEP),
        ("[]", "s.yaml: there is no step in it", A_STEP),
        (
            "schedule: a/b",
            's.yaml: expected a list of steps, found {"schedule":"a/b"}',
            'write a dash before each step, such as "- schedule: default/web"',
        ),
        (
            "- restart: true\n---\n- restart: true",
            "s.yaml: expected one list of steps, found 2 documents",
            "leave out the ---",
        ),
    ],
)
def test_a_file_that_is_no_list_of_steps_is_refused(text, message, hint):
    assert problem(text) == (message, hint)


def test_a_file_that_is_no_yaml_is_refused():
    assert problem("- [", BrokenManifest)[0].startswith("s.yaml: yaml: line ")


def test_a_file_that_cannot_be_read_is_refused():
    with pytest.raises(BrokenManifest) as raised:
        read_steps(Path("none.yaml"), Creation(Gates()), [])
    assert raised.value.message == "none.yaml: cannot be read: No such file or directory"
    assert raised.value.hint == "name a file with steps"


# -- a step -----------------------------------------------------------------------------------------------------------

KINDS = "schedule, apply, delete, fail_binding, advance, restart"
SECONDS = "write a number such as 30, without a unit; time does not go back"


@pytest.mark.parametrize(
    ("step", "message", "hint"),
    [
        ("restart", '"restart" is not a step', 'write its kind, a colon and a value, such as "schedule: default/web"'),
        ("{}", "{} is not a step", 'write its kind, a colon and a value, such as "schedule: default/web"'),
        ("shedule: a/b", 'unknown step "shedule"', 'did you mean "schedule"?'),
        ("explode: now", 'unknown step "explode"', f"a step is one of {KINDS}"),
        (
            "{schedule: a/b, advance: 3}",
            f"a step has exactly one of {KINDS}; found schedule and advance",
            "write a dash before each",
        ),
        ("schedule: 3", "schedule=3 is not a pod's name", "write namespace/name"),
        ("schedule: a/b/c", 'schedule="a/b/c" is not a pod\'s name', "write namespace/name"),
        ("schedule: /b", 'schedule="/b" is not a pod\'s name', "write namespace/name"),
        ("fail_binding: ''", 'fail_binding="" is not a pod\'s name', "write namespace/name"),
        ("advance: 30s", 'advance="30s" is not a number of seconds', SECONDS),
        ("advance: true", "advance=true is not a number of seconds", SECONDS),
        ("advance: -1", "advance=-1 is not a number of seconds", SECONDS),
        ("restart: false", "restart=false is not true", "write restart: true, or leave the step out"),
        ("restart:", "restart=null is not true", "write restart: true, or leave the step out"),
        ("apply: {kind: Pod}", 'apply={"kind":"Pod"} is not a list of objects', "write a dash before each of them"),
        ("apply: []", "apply=[] is not a list of objects", "write a dash before each of them"),
        ("delete: web", 'delete="web" is not a list of objects', "write a dash before each of them"),
        (
            "delete: [web]",
            'delete[0]="web" does not name an object',
            "write {kind: Pod, namespace: default, name: web}",
        ),
        ("delete: [{kind: Pod, nmae: x}]", 'delete[0]: unknown field "nmae"', 'did you mean "name"?'),
        ("delete: [{kind: Pod, name: 3}]", "delete[0].name=3 is not text", 'write text such as "a"'),
        ("delete: [{kind: Pod}]", "delete[0].name is not set", "write name: beside the others"),
        ("delete: [{name: x}]", "delete[0].kind is not set", "write kind: beside the others"),
        (
            "delete: [{kind: Pdo, name: x}]",
            'delete[0].kind="Pdo" is not a kind that scheduling reads',
            'did you mean "Pod"?',
        ),
        (
            "delete: [{kind: Node, namespace: a, name: x}]",
            'delete[0].namespace="a": a Node is in no namespace',
            "leave it out",
        ),
    ],
)
def test_a_wrong_step_is_told_with_its_number_field_and_value(step, message, hint):
    assert problem(f"- restart: true\n- {step}\n") == (f"s.yaml, step 2: {message}", hint)


@pytest.mark.parametrize(
    ("item", "message", "hint"),
    [
        (
            {**POD, "spec": {"containers": [{"name": "c", "image": "i", "imag": "j"}]}},
            ' (Pod x): unknown field "spec.containers[0].imag"',
            'did you mean "image"?',
        ),
        (
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}},
            " (Deployment x): kind=Deployment of apiVersion apps/v1 is not a kind that scheduling reads",
            "leave it out; scheduling reads CSIDriver, CSINode, CSIStorageCapacity, Event, Namespace, Node, "
            "PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget, PriorityClass, ReplicaSet, "
            "ReplicationController, Service, StatefulSet, StorageClass, VolumeAttachment",
        ),
        (
            {"apiVersion": "v1", "kind": "Pood", "metadata": {"name": "x"}},
            ' (Pood x): no matches for kind "Pood" in version "v1"',
            'did you mean "Pod"?',
        ),
        ("web", ": expected an object, a map with apiVersion and kind", None),
        (None, " (object): apiVersion is not set", "write apiVersion: at its start"),
        ({"kind": "Pod"}, " (Pod): apiVersion is not set", "write apiVersion: at its start"),
    ],
)
def test_a_wrong_object_is_told_with_its_step_and_place(item, message, hint):
    found = problem(yaml.safe_dump([{"restart": True}, {"apply": [POD, item]}]), BrokenManifest)
    assert found == (f"s.yaml, step 2, apply[1]{message}", hint)


def test_a_wrong_value_is_told_with_its_field():
    wrong = {**POD, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1 core"}}}]}}
    assert problem(yaml.safe_dump([{"apply": [wrong]}]), BrokenManifest)[0].startswith(
        's.yaml, step 1, apply[0] (Pod x): spec.containers[0].resources.requests.cpu="1 core" is not a quantity'
    )


@pytest.mark.parametrize("read", [{"uid": "u-1"}, {"resourceVersion": "7"}])
def test_an_applied_object_that_was_read_from_a_cluster_is_taken_as_it_stands(read):
    waiting = {**POD, "metadata": {"name": "x", **read}, "spec": {**POD["spec"], "preemptionPolicy": "Never"}}
    warnings: list[str] = []
    (step,) = steps(yaml.safe_dump([{"apply": [waiting]}]), warnings=warnings)
    assert step.kind == "apply"
    (made,) = step.value
    assert isinstance(made, Pod)
    assert made.spec.preemption_policy == "Never"
    assert warnings == []
    with pytest.raises(TonnageError, match="PreemptionPolicy"):
        steps(yaml.safe_dump([{"apply": [{**waiting, "metadata": {"name": "x"}}]}]))
