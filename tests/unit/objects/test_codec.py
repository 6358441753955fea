"""Reading and writing typed objects: bytes, documents, lists, watch lines, and what an error says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from tonnage.objects import codec
from tonnage.objects.apps_v1 import Deployment
from tonnage.objects.codec import Bookmark, ObjectList, UnknownKind, WatchChange, WatchFailure
from tonnage.objects.core_v1 import (
    ContainerPort,
    Event,
    Node,
    NodeSelector,
    NodeStatus,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    Pod,
    Secret,
    ServicePort,
    Taint,
    VolumeNodeAffinity,
)
from tonnage.objects.decode_errors import Unreadable
from tonnage.objects.meta import (
    Condition,
    MicroTime,
    ObjectMeta,
    OwnerReference,
    Record,
    StampedMeta,
    Status,
    split_key,
)
from tonnage.objects.selectors import LabelSelector
from tonnage.objects.small_groups import Lease, LeaseSpec
from tonnage.objects.storage_v1 import (
    CSIDriver,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIStorageCapacity,
    VolumeAttachment,
    VolumeAttachmentSpec,
    VolumeError,
    VolumeNodeResources,
)
from tonnage.quantity import Quantity

AT = datetime(2026, 11, 15, 2, 29, 13, 456_000, tzinfo=UTC)


def pod_json(**parts: Any) -> bytes:
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "web"}, **parts}
    return json.dumps(document).encode()


def read_pod(**spec: Any) -> Pod:
    return codec.decode(Pod, pod_json(spec=spec))


def why(cls: type[Any], data: bytes | str) -> str:
    with pytest.raises(Unreadable) as caught:
        codec.decode(cls, data)
    return caught.value.message


# Reading


def test_wire_names_become_snake_case_and_unknown_fields_are_skipped() -> None:
    pod = codec.decode(
        Pod,
        pod_json(
            spec={"nodeName": "n1", "terminationGracePeriodSeconds": 5, "dnsPolicy": "ClusterFirst", "novelty": [1]},
            status={"hostIP": "10.0.0.1", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}]},
        ),
    )
    assert (pod.spec.node_name, pod.spec.termination_grace_period_seconds) == ("n1", 5)
    assert (pod.status.host_ip, pod.status.pod_ip, pod.status.pod_ips[0].ip) == ("10.0.0.1", "10.1.0.1", "10.1.0.1")


def test_text_is_read_as_bytes_are() -> None:
    assert codec.decode(Pod, pod_json().decode()) == codec.decode(Pod, pod_json())


def test_absent_collections_and_parts_are_empty() -> None:
    pod = codec.decode(Pod, b"{}")
    assert pod.metadata.labels == {}
    assert pod.spec.containers == ()
    assert pod.spec.affinity.pod_anti_affinity.required == ()
    assert pod.status.conditions == ()


def test_absent_differs_from_empty_where_it_means_something_else() -> None:
    absent = codec.decode(CSIStorageCapacity, b'{"storageClassName":"a"}')
    empty = codec.decode(CSIStorageCapacity, b'{"storageClassName":"a","nodeTopology":{}}')
    assert absent.node_topology is None
    assert empty.node_topology == LabelSelector()
    assert codec.decode(PersistentVolumeClaim, b'{"spec":{}}').spec.storage_class_name is None
    assert codec.decode(PersistentVolumeClaim, b'{"spec":{"storageClassName":""}}').spec.storage_class_name == ""


def test_an_absent_field_has_the_default_that_the_server_would_write() -> None:
    pod = codec.decode(Pod, pod_json(spec={"tolerations": [{"key": "a"}], "containers": [{"name": "c"}]}))
    assert pod.spec.scheduler_name == "default-scheduler"
    assert pod.spec.preemption_policy == "PreemptLowerPriority"
    assert pod.spec.tolerations[0].operator == "Equal"
    assert codec.decode(CSIDriver, b"{}").spec.attach_required is True


@pytest.mark.parametrize("field", ["containers", "volumes", "nodeSelector", "affinity", "priority", "nodeName"])
def test_null_means_absent(field: str) -> None:
    assert read_pod(**{field: None}) == read_pod()


def test_null_in_the_depth_means_absent_beside_what_is_there() -> None:
    node = codec.decode(
        CSINode, b'{"metadata":{"name":"n","creationTimestamp":null,"labels":null},"spec":{"drivers":null}}'
    )
    assert node == CSINode(metadata=ObjectMeta(name="n"))


def test_quantities_are_read_from_text_and_from_numbers() -> None:
    pod = read_pod(containers=[{"name": "c", "resources": {"requests": {"cpu": 2, "memory": "1Gi", "gpu": "1500m"}}}])
    requests = pod.spec.containers[0].resources.requests
    assert {name: str(amount) for name, amount in requests.items()} == {"cpu": "2", "memory": "1Gi", "gpu": "1500m"}


def test_int_or_string_keeps_what_it_is() -> None:
    assert codec.convert(ServicePort, {"port": 80, "targetPort": 8080}).target_port == 8080
    assert codec.convert(ServicePort, {"port": 80, "targetPort": "http"}).target_port == "http"


def test_times_are_aware_whatever_their_zone() -> None:
    pod = codec.decode(Pod, pod_json(metadata={"name": "web", "creationTimestamp": "2026-11-15T03:29:13+01:00"}))
    assert pod.metadata.creation_timestamp == datetime(2026, 11, 15, 2, 29, 13, tzinfo=UTC)
    assert pod.metadata.creation_timestamp.tzinfo is not None


def test_micro_times_keep_their_fraction() -> None:
    lease = codec.decode(Lease, b'{"spec":{"renewTime":"2026-11-15T02:29:13.456000Z"}}')
    assert lease.spec.renew_time == AT
    assert isinstance(lease.spec.renew_time, MicroTime)


def test_secrets_are_decoded_from_base64() -> None:
    assert codec.decode(Secret, b'{"data":{"password":"aHVudGVyMg=="}}').data == {"password": b"hunter2"}


def test_a_document_is_read_as_the_class_of_its_kind() -> None:
    read = codec.decode_doc({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n1"}})
    assert read == CSINode(metadata=ObjectMeta(name="n1"))


def test_yaml_hands_in_times_that_are_parsed_already() -> None:
    read = codec.decode_doc({"apiVersion": "v1", "kind": "Pod", "metadata": {"creationTimestamp": AT}})
    assert read.metadata.creation_timestamp == AT
    lease = codec.convert(Lease, {"spec": {"renewTime": AT.astimezone(timezone(timedelta(hours=2)))}})
    assert lease.spec.renew_time == AT


def test_templates_stay_whole_and_can_be_read_in_part() -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "tty": True}]}}
    read = codec.decode_doc({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": template}})
    assert isinstance(read, Deployment)
    assert read.spec.template == template
    assert codec.convert(ObjectMeta, read.spec.template["metadata"]).labels == {"app": "web"}


# Frozen objects and their few words


def test_objects_do_not_change() -> None:
    with pytest.raises(AttributeError, match="immutable type: 'Taint'"):
        Taint(key="a", effect="NoSchedule").key = "b"  # type: ignore[misc]  # what mypy says of it, too


def test_classes_take_keywords_only() -> None:
    with pytest.raises(TypeError, match="Extra positional arguments provided"):
        Taint("a", "NoSchedule")  # type: ignore[call-arg]  # what mypy says of it, too


def test_a_key_is_namespace_and_name_and_splits_again() -> None:
    assert codec.decode(Pod, pod_json()).key == "default/web"
    assert Node(metadata=ObjectMeta(name="n1")).key == "n1"
    assert split_key("default/web") == ("default", "web")
    assert split_key("n1") == ("", "n1")


def test_the_controller_is_the_one_owner_that_manages() -> None:
    owned = ObjectMeta(
        owner_references=(
            OwnerReference(api_version="v1", kind="Node", name="n1", uid="1"),
            OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="2", controller=True),
        )
    )
    assert owned.controller is not None
    assert owned.controller.name == "web"
    assert ObjectMeta().controller is None


def test_a_claim_is_bound_when_it_names_a_volume_and_the_binder_has_said_so() -> None:
    annotations = {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n1"}
    bound = codec.convert(
        PersistentVolumeClaim, {"metadata": {"annotations": annotations}, "spec": {"volumeName": "pv1"}}
    )
    wished = codec.convert(PersistentVolumeClaim, {"spec": {"volumeName": "pv1"}})
    assert (bound.is_bound, bound.selected_node) == (True, "n1")
    assert (wished.is_bound, wished.selected_node) == (False, "")


def test_a_pod_names_the_claims_of_its_volumes_and_those_made_for_it() -> None:
    pod = read_pod(
        volumes=[
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-web"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "settings", "configMap": {"name": "settings"}},
        ]
    )
    assert pod.claim_names() == ("data-web", "web-scratch")


# Lists and watches


def test_a_list_gives_items_and_where_it_was_taken() -> None:
    read = codec.decode_list(
        Node,
        b'{"kind":"NodeList","metadata":{"resourceVersion":"7","continue":"abc"},"items":[{"metadata":{"name":"n1"}}]}',
    )
    assert read == ObjectList((Node(metadata=ObjectMeta(name="n1")),), "7", "abc")


def test_a_list_may_be_null() -> None:
    assert codec.decode_list(
        Node, b'{"kind":"NodeList","metadata":{"resourceVersion":"7"},"items":null}'
    ) == ObjectList((), "7")


def test_an_item_with_nulls_is_read_too() -> None:
    read = codec.decode_list(CSINode, b'{"items":[{"metadata":{"name":"n1"},"spec":{"drivers":null}}]}')
    assert read.items == (CSINode(metadata=ObjectMeta(name="n1")),)


def test_a_refusal_is_not_mistaken_for_an_empty_list() -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode_list(Node, b'{"kind":"Status","status":"Failure","code":403}')
    assert caught.value.message == 'NodeList: kind="Status" is another kind'


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED"])
def test_a_change_carries_the_object(type_: str) -> None:
    line = f'{{"type":"{type_}","object":{{"kind":"Node","metadata":{{"name":"n1"}}}}}}'
    assert codec.decode_event(Node, line) == WatchChange(type_, Node(metadata=ObjectMeta(name="n1")))


def test_a_change_with_nulls_is_read_too() -> None:
    line = b'{"type":"ADDED","object":{"metadata":{"name":"n1"},"spec":{"drivers":null}}}'
    assert codec.decode_event(CSINode, line) == WatchChange("ADDED", CSINode(metadata=ObjectMeta(name="n1")))


def test_a_bookmark_tells_how_far_the_watch_has_come() -> None:
    # Read off kube-apiserver 1.36.4: the kind with nothing but a resourceVersion, required lists null.
    line = (
        b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"3942"},'
        b'"spec":{"containers":null},"status":{}}}'
    )
    assert codec.decode_event(Pod, line) == Bookmark("3942")


def test_the_bookmark_that_ends_the_initial_events_says_so() -> None:
    line = (
        b'{"type":"BOOKMARK","object":{"kind":"VolumeAttachment","metadata":{"resourceVersion":"9",'
        b'"annotations":{"k8s.io/initial-events-end":"true"}}}}'
    )
    assert codec.decode_event(VolumeAttachment, line) == Bookmark("9", ends_initial_events=True)


def test_an_error_ends_the_watch_with_a_status() -> None:
    line = (
        b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"too old resource version: 1 (5)","reason":"Expired","code":410}}'
    )
    assert codec.decode_event(Pod, line) == WatchFailure(
        Status(status="Failure", message="too old resource version: 1 (5)", reason="Expired", code=410)
    )


def test_an_unknown_type_of_event_is_an_error() -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode_event(Pod, b'{"type":"MOVED","object":{}}')
    assert caught.value.message == 'WatchEvent: type="MOVED" is not known'


# Writing


def test_an_object_is_written_with_its_kind_and_without_defaults() -> None:
    driver = CSIDriver(metadata=ObjectMeta(name="pools.tonnage.dev"))
    assert codec.encode(driver) == (
        b'{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":"pools.tonnage.dev"}}'
    )


def test_what_was_written_reads_the_same_again() -> None:
    capacity = CSIStorageCapacity(
        metadata=StampedMeta(name="c1", namespace="kube-system", labels={"a": "b"}),
        storage_class_name="pools",
        node_topology=LabelSelector.parse("topology.tonnage.dev/node=n1"),
        capacity=Quantity.parse("1024Mi"),
        available_capacities=(Quantity.parse("512Mi"), Quantity.parse("0.5Gi")),
    )
    assert codec.decode(CSIStorageCapacity, codec.encode(capacity)) == capacity
    # 1024Mi is 1Gi, and 0.5Gi is 512Mi.
    assert codec.to_doc(capacity)["capacity"] == "1Gi"
    assert codec.to_doc(capacity)["availableCapacities"] == ["512Mi", "512Mi"]


def test_an_empty_selector_is_written_since_it_is_not_absent() -> None:
    capacity = CSIStorageCapacity(storage_class_name="pools", node_topology=LabelSelector())
    assert codec.to_doc(capacity)["nodeTopology"] == {}


def test_an_empty_part_is_absent_whether_it_is_the_very_default_or_equals_it() -> None:
    for cls in codec.RESOURCE_BY_CLASS:
        fields = msgspec.structs.fields(cls)
        parts: dict[str, Any] = {each.name: type(each.default)() for each in fields if isinstance(each.default, Record)}
        parts |= {each.name: VolumeAttachmentSpec(attacher="d", node_name="n") for each in fields if each.required}
        assert {} not in codec.to_doc(cls(**parts)).values(), cls


def test_an_empty_part_is_absent_at_any_depth_and_what_differs_from_absent_stays() -> None:
    assert codec.to_doc(PersistentVolume(spec=PersistentVolumeSpec(node_affinity=VolumeNodeAffinity()))) == {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
    }
    drivers = (CSINodeDriver(name="d", node_id="n1", allocatable=VolumeNodeResources()),)
    assert codec.to_doc(CSINodeSpec(drivers=drivers)) == {"drivers": [{"name": "d", "nodeID": "n1"}]}
    anywhere = NodeSelector(node_selector_terms=())
    assert codec.to_doc(PersistentVolumeSpec(node_affinity=VolumeNodeAffinity(required=anywhere))) == {
        "nodeAffinity": {"required": {}}
    }


def test_times_are_written_in_whole_seconds_and_micro_times_with_six_decimals() -> None:
    assert codec.to_doc(VolumeError(time=AT)) == {"time": "2026-11-15T02:29:13Z"}
    ready = Condition(type="Ready", status="True", last_heartbeat_time=AT)
    assert codec.to_doc(NodeStatus(conditions=(ready,))) == {
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-15T02:29:13Z"}]
    }
    spec = LeaseSpec(acquire_time=MicroTime.of(AT), renew_time=MicroTime.of(AT.replace(microsecond=0)))
    assert codec.to_doc(spec) == {
        "acquireTime": "2026-11-15T02:29:13.456000Z",
        "renewTime": "2026-11-15T02:29:13.000000Z",
    }


def test_a_micro_time_needs_a_zone() -> None:
    with pytest.raises(ValueError, match="2026-11-15T02:29:13 has no time zone; hand in an aware datetime"):
        MicroTime.of(datetime(2026, 11, 15, 2, 29, 13))


def test_both_events_are_written_under_their_own_api_version() -> None:
    event = Event(involved_object=ObjectReference(kind="Pod", namespace="default", name="web"), reason="Scheduled")
    assert codec.to_doc(event)["apiVersion"] == "v1"
    assert event.involved_object.key == "default/web"


def test_a_part_is_written_alone() -> None:
    assert codec.to_doc(ContainerPort(container_port=80, host_ip="::1")) == {"containerPort": 80, "hostIP": "::1"}


def test_an_attachment_needs_its_spec() -> None:
    written = codec.to_doc(VolumeAttachment(spec=VolumeAttachmentSpec(attacher="d", node_name="n1")))
    assert written["spec"] == {"attacher": "d", "nodeName": "n1"}


# What an error says


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"containers": [{"name": 5}]}, 'spec.containers[0].name=5 is not a string; write "5", in quotes'),
        ({"containers": [{"image": "a"}]}, "spec.containers[0].name is missing; it is required"),
        ({"containers": {}}, "spec.containers={} is not a list; write [ ] around its items"),
        ({"priority": "high"}, 'spec.priority="high" is not a whole number; write a number such as 3'),
        ({"priority": "3"}, 'spec.priority="3" is not a whole number; write 3, without quotes'),
        ({"hostNetwork": "true"}, 'spec.hostNetwork="true" is not true or false; write true, without quotes'),
        ({"nodeSelector": {"ssd": True}}, 'spec.nodeSelector[ssd]=true is not a string; write "true", in quotes'),
        (
            {"nodeSelector": ["ssd"]},
            'spec.nodeSelector=["ssd"] is not a map; write a name and a colon before each of its values',
        ),
        (
            {"overhead": {"memory": "10 GB"}},
            'spec.overhead[memory]="10 GB" is not a quantity: unknown suffix " GB"; write "10G" or "10Gi"',
        ),
        ({"overhead": {"memory": []}}, 'spec.overhead[memory]=[] is not a quantity; write text such as "10Gi"'),
        (
            {"volumes": [{"name": "a", "persistentVolumeClaim": {"readOnly": True}}]},
            "spec.volumes[0].persistentVolumeClaim.claimName is missing; it is required",
        ),
        ({"nodeName": ["x" * 80]}, f'spec.nodeName=["{"x" * 58}… is not a string; write text such as "a"'),
    ],
)
def test_an_error_names_object_field_value_and_remedy(spec: dict[str, Any], told: str) -> None:
    assert why(Pod, pod_json(spec=spec)) == f"Pod default/web: {told}"


def test_an_error_holds_its_facts() -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode(Pod, pod_json(spec={"priority": "high"}))
    error = caught.value
    assert (error.kind, error.key, error.field, error.value) == ("Pod", "default/web", "spec.priority", "high")


def test_a_time_without_its_zone_is_an_error() -> None:
    assert why(Node, b'{"metadata":{"name":"n1","creationTimestamp":"2026-11-15T02:29:13"}}') == (
        'Node n1: metadata.creationTimestamp="2026-11-15T02:29:13" is not a time with its zone; '
        'write text such as "2026-11-15T02:29:13Z"'
    )


@pytest.mark.parametrize("found", ["yesterday", 5, []])
def test_a_micro_time_that_is_none_is_an_error(found: Any) -> None:
    data = json.dumps({"metadata": {"name": "l"}, "spec": {"renewTime": found}})
    assert why(Lease, data) == (
        f"Lease l: spec.renewTime={json.dumps(found)} is not a time with its zone; "
        'write text such as "2026-11-15T02:29:13.000000Z"'
    )


def test_another_kind_is_an_error() -> None:
    assert why(Pod, b'{"kind":"Node","metadata":{"name":"n1"}}') == 'Pod n1: kind="Node" is another kind'


def test_what_is_no_object_or_no_json_is_an_error() -> None:
    assert why(Pod, b"[1]") == "Pod: expected a JSON object, found [1]"
    assert why(Pod, b'{"spec"') == "Pod: this is not JSON: Input data was truncated"


def test_a_broken_item_of_a_list_is_named() -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode_list(
            Pod, b'{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"},"spec":{"priority":""}}]}'
        )
    assert caught.value.message == 'Pod b: spec.priority="" is not a whole number; write a number such as 3'


def test_an_event_without_an_object_is_an_error() -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode_event(Pod, b'{"type":"ADDED"}')
    assert caught.value.message == "WatchEvent: object is missing; it is required"


@pytest.mark.parametrize(
    ("api_version", "kind", "hint"),
    [
        ("storage.k8s.io/v1beta1", "CSINode", "CSINode is read as apiVersion: storage.k8s.io/v1"),
        ("v1", "Podd", "did you mean Pod?"),
        ("example.com/v1", "Widget", None),
    ],
)
def test_an_unknown_kind_is_named_with_what_may_be_meant(api_version: str, kind: str, hint: str | None) -> None:
    with pytest.raises(UnknownKind) as caught:
        codec.decode_doc({"apiVersion": api_version, "kind": kind})
    assert caught.value.message == f'apiVersion "{api_version}", kind "{kind}" is not something Tonnage reads'
    assert caught.value.hint == hint


def test_errors_keep_the_decoder_s_own_as_their_cause() -> None:
    with pytest.raises(Unreadable) as caught:
        codec.decode(Pod, pod_json(spec={"priority": "high"}))
    assert isinstance(caught.value.__cause__, msgspec.ValidationError)


@pytest.mark.parametrize("data", [{"password": "hunter2!"}, {"password": 7331}, "hunter2!"])
def test_what_stands_in_a_secret_is_not_told_however_wrong_it_is(data):
    doc = {"kind": "Secret", "metadata": {"name": "s", "namespace": "n"}, "data": data}
    with pytest.raises(Unreadable) as refused:
        codec.decode(Secret, json.dumps(doc).encode())
    assert "data" in refused.value.message and "(its value is not shown)" in refused.value.message
    assert "hunter2!" not in str(refused.value) and "7331" not in str(refused.value)
