"""Every decoder that reads what others wrote, as a function of bytes, with what must hold.

a target   reads an input, and checks what it promises: what is written again reads the same, one format says the
           same as another, pieces say the same as the whole, a patch that is applied twice changes nothing more
refusals   the errors by which it may refuse; anything else that leaves it is a crash, and a finding
"""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

import fuzz_targets_dashboard as dashboard
import fuzz_targets_storage as storage
import msgspec
import yaml
from google.protobuf import json_format
from google.protobuf.message import DecodeError

from support import driver_builders
from tonnage.apiserver import bodies
from tonnage.apiserver.requests import Location, list_options
from tonnage.apiserver.verbs import patching
from tonnage.client import rest
from tonnage.client.config import credentials, kubeconfig
from tonnage.client.config.connection import ExecPlugin
from tonnage.client.transport.answer_reader import AnswerReader, NotHttp
from tonnage.clock import parse_duration, parse_rfc3339, rfc3339_micro
from tonnage.csi import csi_pb2 as csi
from tonnage.csi.errors import StatusError
from tonnage.dashboard.server.access import RequestRefused
from tonnage.documents.admit import Malformed, admit
from tonnage.documents.apply.managed_fields import FieldWrite, check_entries, write_entries
from tonnage.documents.apply.server_side_apply import apply
from tonnage.documents.schema import schema_of_resource
from tonnage.errors import ApiError, TonnageError
from tonnage.faults import FaultFile
from tonnage.gates import Gates
from tonnage.objects import codec
from tonnage.objects.core_v1 import ConfigMap, Node, Pod
from tonnage.objects.document import Doc, copy, encode
from tonnage.objects.resources import BY_KIND
from tonnage.objects.selectors import FieldSelector, LabelSelector
from tonnage.pools.sources.command import read_output
from tonnage.quantity import InvalidQuantity, Quantity
from tonnage.scheduling.configuration import configuration
from tonnage.whatif import manifests, replay_steps
from tonnage.whatif.creation import Creation

PARITY = Path(__file__).parent.parent / "parity"
NOW = "2026-11-15T02:29:13Z"
PODS = BY_KIND["v1", "Pod"]

POD: Doc = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}, "annotations": {"note": "b"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "app:1",
                "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "volumeMounts": [{"name": "v", "mountPath": "/data"}],
            }
        ],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    },
}
CLAIM: Doc = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "shop"},
    "spec": {"storageClassName": "s", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}},
}
NODE: Doc = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"zone": "a"}},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}
CAPACITY: Doc = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSIStorageCapacity",
    "metadata": {"name": "c1", "namespace": "kube-system"},
    "storageClassName": "s",
    "capacity": "5Gi",
    "nodeTopology": {"matchLabels": {"zone": "b"}},
}
OBJECTS = (POD, CLAIM, NODE, CAPACITY)
BODY_KINDS = [BY_KIND[each["apiVersion"], each["kind"]] for each in (CAPACITY, CLAIM, POD, NODE)]


@dataclass(frozen=True, slots=True)
class Target:
    """One decoder."""

    name: str
    run: Callable[[bytes], object]
    seeds: Sequence[bytes]
    refusals: tuple[type[BaseException], ...] = (TonnageError,)

    def accepts(self, data: bytes) -> bool:
        """Read one input; False when it was refused as it may be. Raises whatever is a finding."""
        try:
            self.run(data)
        except self.refusals:
            return False
        return True


def as_yaml(*docs: Any) -> bytes:
    return yaml.safe_dump_all(docs).encode()


def blocks(seeds: Sequence[Any]) -> list[bytes]:
    return [encode(each) for each in seeds]


# -- bodies of requests -----------------------------------------------------------------------------------------------


def read_body(data: bytes, media: str) -> None:
    resource = next((each for each in BODY_KINDS if each.kind.encode() in data), PODS)
    doc = bodies.read_object(data, media, resource, "Warn", [])
    again = bodies.read_object(encode(doc), "application/json", resource, "Warn", [])
    assert again == doc, "what was read and written reads otherwise"


def read_json_body(data: bytes) -> None:
    read_body(data, "application/json")


def read_yaml_body(data: bytes) -> None:
    read_body(data, "application/yaml")


def read_protobuf_body(data: bytes) -> None:
    read_body(data, bodies.PROTOBUF)


@cache
def protobuf_seeds() -> list[bytes]:
    cases = json.loads((PARITY / "protobuf_1_36.json").read_text())
    return [base64.b64decode(case["body"]) for case in cases if case["kind"] == "Pod"]


# -- what storage wrote ---------------------------------------------------------------------------------------------


def read_record(data: bytes) -> None:
    storage.read_record_in(scratch() / "records", data)


# -- patches ----------------------------------------------------------------------------------------------------------


def patched(data: bytes, media: str, doc: Doc) -> Doc:
    call: Any = SimpleNamespace(content_type=media, body=data, at=Location(PODS, "shop", "web"), warnings=[])
    said = patching.read_patch(call)
    made = said.patched(schema_of_resource(PODS), copy(doc))
    patching._admit_patched(call, said, made, "Strict" if len(data) % 2 else "Warn")
    encode(made)
    return made


def json_patched(data: bytes) -> None:
    patched(data, patching.JSON, POD)


def merge_patched(data: bytes) -> None:
    once = patched(data, patching.MERGE, POD)
    assert patched(data, patching.MERGE, once) == once, "a merge patch that is applied twice changes more"


def strategic_patched(data: bytes) -> None:
    patched(data, patching.STRATEGIC, POD)


def applied(data: bytes) -> None:
    config, _ = bodies.read_document(data, "application/apply-patch+yaml", must_be="Pod")
    struct = schema_of_resource(PODS)

    def once(live: Doc | None) -> Doc:
        doc = apply(FieldWrite(struct, manager="m", api_version="v1", now=NOW), live=live, config=config, force=True)
        admit(struct, doc)
        return doc

    first = once(copy(POD))
    second = once(copy(first))
    # A null, or an empty key of a list's item, is left out by admission, and told again by the next apply.
    says_nothing = any(word in encode(config) for word in (b"null", b'""'))
    assert second == first or says_nothing, "an apply that is repeated changes more"
    once(None)


def managed(data: bytes) -> None:
    entries = msgspec.json.decode(data)
    doc = {**copy(POD), "metadata": {**POD["metadata"], "managedFields": entries}}
    admit(schema_of_resource(PODS), doc)
    held = check_entries(doc["metadata"].get("managedFields") or ())
    write_entries(doc, held)  # as the server stores them
    assert check_entries(doc["metadata"].get("managedFields") or ()) == held, "written and read they are others"
    apply(
        FieldWrite(schema_of_resource(PODS), manager="m", api_version="v1", now=NOW),
        live=doc,
        config=copy(POD),
        force=True,
    )


PATCH_REFUSALS = (ApiError, Malformed)
MANAGED = [
    {
        "manager": "m",
        "operation": "Apply",
        "apiVersion": "v1",
        "time": NOW,
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}}}, "f:x": {"v:1": {}, "i:0": {}}}
        },
    }
]

# -- files ------------------------------------------------------------------------------------------------------------


@cache
def scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="tonnage-fuzz-"))


def file_of(data: bytes, name: str) -> Path:
    path = scratch() / name
    path.write_bytes(data)
    return path


def read_kubeconfig(data: bytes) -> None:
    kubeconfig.load(file_of(data, "kubeconfig"))


KUBECONFIG = {
    "kind": "Config",
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "ns"}}],
    "clusters": [{"name": "k", "cluster": {"server": "https://10.0.0.1:6443", "insecure-skip-tls-verify": True}}],
    "users": [
        {
            "name": "u",
            "user": {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "p",
                    "args": ["a"],
                    "env": [{"name": "A", "value": "b"}],
                    "interactiveMode": "Never",
                },
                "as": "x",
                "as-groups": ["g"],
                "as-user-extra": {"k": ["v"]},
            },
        }
    ],
}


def read_manifests(data: bytes) -> None:
    found = manifests.read([str(file_of(data, "manifests.yaml"))], with_workloads=True)
    Creation(Gates()).of_all(found)


def read_steps(data: bytes) -> None:
    replay_steps.read_steps(file_of(data, "steps.yaml"), Creation(Gates()), [])


STEPS = [
    {"schedule": "shop/web"},
    {"apply": [NODE, CLAIM]},
    {"advance": 30.5},
    {"fail_binding": "shop/web"},
    {"delete": [{"kind": "Node", "name": "n1"}, {"kind": "Pod", "namespace": "shop", "name": "web"}]},
    {"restart": True},
]


def read_configuration(data: bytes) -> None:
    configuration.parse(data.decode(errors="replace"), source="fuzz")


CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": True, "leaseDuration": "15s"},
    "podInitialBackoffSeconds": 1,
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "percentageOfNodesToScore": 50,
            "plugins": {
                "multiPoint": {
                    "enabled": [{"name": "VolumeBinding", "weight": 2}],
                    "disabled": [{"name": "ImageLocality"}],
                }
            },
            "pluginConfig": [
                {"name": "StorageCapacity", "args": {"reservation": "Object"}},
                {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
            ],
        }
    ],
}


def read_faults(data: bytes) -> None:
    path = file_of(data, "faults.json")
    path.chmod(0o600)
    FaultFile(path).all()


# -- CSI --------------------------------------------------------------------------------------------------------------

REQUESTS: tuple[tuple[str, Any], ...] = (
    ("CreateVolume", csi.CreateVolumeRequest),
    ("DeleteVolume", csi.DeleteVolumeRequest),
    ("ControllerPublishVolume", csi.ControllerPublishVolumeRequest),
    ("ControllerUnpublishVolume", csi.ControllerUnpublishVolumeRequest),
    ("ControllerExpandVolume", csi.ControllerExpandVolumeRequest),
    ("ControllerGetVolume", csi.ControllerGetVolumeRequest),
    ("ValidateVolumeCapabilities", csi.ValidateVolumeCapabilitiesRequest),
    ("ListVolumes", csi.ListVolumesRequest),
    ("GetCapacity", csi.GetCapacityRequest),
    ("CreateSnapshot", csi.CreateSnapshotRequest),
    ("DeleteSnapshot", csi.DeleteSnapshotRequest),
    ("ListSnapshots", csi.ListSnapshotsRequest),
    ("NodeStageVolume", csi.NodeStageVolumeRequest),
    ("NodeUnstageVolume", csi.NodeUnstageVolumeRequest),
    ("NodePublishVolume", csi.NodePublishVolumeRequest),
    ("NodeUnpublishVolume", csi.NodeUnpublishVolumeRequest),
    ("NodeGetVolumeStats", csi.NodeGetVolumeStatsRequest),
    ("NodeExpandVolume", csi.NodeExpandVolumeRequest),
)
PATHS = ("staging_target_path", "target_path", "volume_path")


@cache
def driver() -> Any:
    return driver_builders.driver_at(scratch() / "driver")


def call_driver(data: bytes) -> None:
    """A call and its message as JSON, which reaches its fields one by one; or the number of a call, and bytes."""
    if data[:1] == b"{":
        try:
            said = json.loads(data)
            name = str(said["call"])
            request = json_format.ParseDict(said["request"], dict(REQUESTS)[name]())
        except Exception as exc:  # what is no request never reaches a driver
            raise DecodeError from exc
    else:
        name, message = REQUESTS[(data or b"\0")[0] % len(REQUESTS)]
        request = message.FromString(data[1:])
    for field in PATHS:
        # A random path must not lead out of the scratch folder: what it names is played there.
        if getattr(request, field, ""):
            told = getattr(request, field).replace("..", "").replace("\0", "")
            setattr(request, field, f"{scratch()}/mounts/{told.strip('/')[:60] or 'x'}")
    service: Any
    service = (
        driver_builders.node_service(driver()) if name.startswith("Node") else driver_builders.controller(driver())
    )
    answer = asyncio.run(_called(getattr(service, name), request))
    if answer is not None:  # None is an answer without fields
        assert type(answer).FromString(answer.SerializeToString()) == answer


async def _called(call: Callable[[Any, Any], Any], request: Any) -> Any:
    """The answer of one call to a driver that has the volume of the seeds; what it makes is deleted again."""
    controller: Any = driver_builders.controller(driver())
    with suppress(StatusError):
        await controller.CreateVolume(driver_builders.create("a", "1Gi"), None)
    answer = await call(request, None)
    if isinstance(answer, csi.CreateVolumeResponse):
        await controller.DeleteVolume(csi.DeleteVolumeRequest(volume_id=answer.volume.volume_id), None)
    elif isinstance(answer, csi.CreateSnapshotResponse):
        await controller.DeleteSnapshot(csi.DeleteSnapshotRequest(snapshot_id=answer.snapshot.snapshot_id), None)
    return answer


def driver_seeds() -> list[bytes]:
    capability = driver_builders.mounted()
    made = asyncio.run(driver_builders.controller(driver()).CreateVolume(driver_builders.create("a", "1Gi"), None))
    volume = made.volume.volume_id
    requests = [
        driver_builders.create("a", "1Gi"),
        csi.DeleteVolumeRequest(volume_id=volume),
        csi.ControllerPublishVolumeRequest(volume_id=volume, node_id="node-1", volume_capability=capability),
        csi.ControllerUnpublishVolumeRequest(volume_id=volume, node_id="node-1"),
        csi.ControllerExpandVolumeRequest(volume_id=volume, capacity_range=driver_builders.within("2Gi")),
        csi.ListVolumesRequest(max_entries=1, starting_token="1"),
        csi.GetCapacityRequest(volume_capabilities=[capability]),
        csi.CreateSnapshotRequest(source_volume_id=volume, name="s"),
        csi.ListSnapshotsRequest(max_entries=1, starting_token="1"),
        csi.NodeStageVolumeRequest(volume_id=volume, staging_target_path="/s", volume_capability=capability),
        csi.NodePublishVolumeRequest(
            volume_id=volume, staging_target_path="/s", target_path="/t", volume_capability=capability
        ),
        csi.NodeGetVolumeStatsRequest(volume_id=volume, volume_path="/t"),
    ]
    numbers = {message: number for number, (_, message) in enumerate(REQUESTS)}
    names = {message: name for name, message in REQUESTS}
    return [
        *(bytes([numbers[type(each)]]) + each.SerializeToString() for each in requests),
        *(encode({"call": names[type(each)], "request": json_format.MessageToDict(each)}) for each in requests),
    ]


# -- what servers say -------------------------------------------------------------------------------------------------


def read_answer(data: bytes) -> None:
    whole, at_once = AnswerReader(), None
    refused: NotHttp | None = None
    try:
        at_once = whole.feed(data) or whole.end()
    except NotHttp as exc:
        refused = exc
    reader, by_piece = AnswerReader(), None
    try:
        for at in range(0, len(data), 7):
            by_piece = reader.feed(data[at : at + 7])
            if by_piece is not None:
                break
        by_piece = by_piece or reader.end()
    except NotHttp:
        assert refused is not None, "refused in pieces, and not at once"
        return
    assert refused is None or by_piece is None, "refused at once, and read in pieces"
    assert (at_once is None) == (by_piece is None) or refused is not None, "an answer of one reading only"
    if at_once is not None and by_piece is not None:
        assert (at_once.code, at_once.body, at_once.headers) == (by_piece.code, by_piece.body, by_piece.headers)


ANSWERS = (
    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\nWarning: 299 - "a"\r\n\r\nhello',
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=1\r\nhello\r\n1\r\n!\r\n0\r\nX: y\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.0 502 Bad Gateway\r\nConnection: close\r\n\r\n<html></html>",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 25\r\n\r\n"
    + base64.b64decode("H4sIAAAAAAACA8tIzcnJBwCGphA2BQAAAA=="),
)


def read_events(data: bytes) -> None:
    for line in data.split(b"\n")[:20]:
        for kind in (Pod, ConfigMap):
            with suppress(TonnageError):
                codec.decode_event(kind, line)


def read_lists(data: bytes) -> None:
    rest.read_page(Node, data, lambda _: None)
    with suppress(TonnageError):
        codec.decode_list(Node, data)
    rest.read_docs(BY_KIND["v1", "Node"], data)


def read_objects(data: bytes) -> None:
    for kind in (Pod, Node):
        with suppress(TonnageError):
            found = codec.decode(kind, data)
            assert codec.to_doc(codec.decode(kind, codec.encode(found))) == codec.to_doc(found)


def read_credential(data: bytes) -> None:
    credentials._read(data, ExecPlugin("p", "client.authentication.k8s.io/v1"))


CREDENTIAL = {
    "kind": "ExecCredential",
    "apiVersion": "client.authentication.k8s.io/v1",
    "status": {"token": "t", "expirationTimestamp": NOW},
}

NO_PAIR = {**CREDENTIAL, "status": {"clientCertificateData": "c", "clientKeyData": "k"}}

# -- small grammars ---------------------------------------------------------------------------------------------------


def read_quantity(data: bytes) -> None:
    found = Quantity.parse(data.decode(errors="replace"))
    assert Quantity.parse(str(found)) == found, "written and read, it is another amount"
    found.value()


def read_selectors(data: bytes) -> None:
    text = data.decode(errors="replace")
    with suppress(ApiError):
        FieldSelector.parse(text).matcher.matches({"a": "b"})
    LabelSelector.parse(text).matches({"a": "b", "n": "5"})


def read_query(data: bytes) -> None:
    list_options(dict(parse_qsl(data.decode(errors="replace"), keep_blank_values=True)), watch=bool(len(data) % 2))


def read_time(data: bytes) -> None:
    text = data.decode(errors="replace")
    parse_duration(text)
    assert parse_rfc3339(rfc3339_micro(found := parse_rfc3339(text))) == found


LISTS = [
    {
        "kind": "NodeList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "5", "continue": "x"},
        "items": [NODE, NODE],
    }
]
EVENTS = [
    {"type": "ADDED", "object": {**POD, "metadata": {**POD["metadata"], "uid": "u", "resourceVersion": "7"}}},
    {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "9"}}},
    {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "details": {"causes": []}}},
]
JSON_PATCHES = [
    [
        {"op": "test", "path": "/spec/containers/0/name", "value": "c"},
        {"op": "add", "path": "/metadata/labels/a~1b", "value": "x"},
        {"op": "move", "from": "/spec/tolerations/0", "path": "/spec/tolerations/-"},
        {"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"},
        {"op": "remove", "path": "/spec/volumes"},
        {"op": "replace", "path": "/spec/containers/0/image", "value": "b"},
    ]
]
MERGE_PATCHES = [{"metadata": {"labels": {"app": None, "x": "y"}}, "spec": {"containers": [{"name": "d"}]}}]
STRATEGIC_PATCHES = [
    {
        "spec": {
            "containers": [
                {"name": "c", "env": [{"name": "A", "$patch": "delete"}], "image": "x"},
                {"$patch": "replace"},
            ],
            "$setElementOrder/containers": [{"name": "c"}],
            "tolerations": [{"key": "z"}],
        },
        "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "labels": {"app": None}},
    },
    {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}], "$patch": "replace"}},
]

TARGETS: tuple[Target, ...] = (
    Target("json-body", read_json_body, blocks(OBJECTS), (ApiError,)),
    Target("yaml-body", read_yaml_body, [as_yaml(each) for each in OBJECTS], (ApiError,)),
    Target("protobuf-body", read_protobuf_body, protobuf_seeds(), (ApiError,)),
    Target("json-patch", json_patched, blocks(JSON_PATCHES), PATCH_REFUSALS),
    Target("merge-patch", merge_patched, blocks([*MERGE_PATCHES, POD]), PATCH_REFUSALS),
    Target("strategic-patch", strategic_patched, blocks([*STRATEGIC_PATCHES, POD]), PATCH_REFUSALS),
    Target("apply", applied, [as_yaml(POD), *blocks([POD])], PATCH_REFUSALS),
    Target(
        "managed-fields", managed, blocks([MANAGED]), (*PATCH_REFUSALS, msgspec.DecodeError, ValueError, RecursionError)
    ),
    Target("kubeconfig", read_kubeconfig, [as_yaml(KUBECONFIG), encode(KUBECONFIG)]),
    Target("manifests", read_manifests, [as_yaml(*OBJECTS), *blocks(OBJECTS)]),
    Target("steps", read_steps, [as_yaml(STEPS), encode(STEPS)]),
    Target("scheduler-configuration", read_configuration, [as_yaml(CONFIGURATION), encode(CONFIGURATION)]),
    Target("dashboard", dashboard.ask_dashboard, dashboard.REQUESTS, (RequestRefused,)),
    Target("faults", read_faults, [b'[{"kind":"slow","node":"n1","value":2.5}]']),
    Target("csi", call_driver, driver_seeds(), (StatusError, DecodeError, TonnageError, OSError)),
    Target("http-answer", read_answer, ANSWERS, ()),
    Target("watch-events", read_events, blocks(EVENTS), ()),
    Target("lists", read_lists, blocks(LISTS)),
    Target("objects", read_objects, blocks(OBJECTS), ()),
    Target(
        "exec-credential",
        read_credential,
        blocks([CREDENTIAL, NO_PAIR]),
    ),
    Target(
        "quantity", read_quantity, [b"1", b"10Gi", b"-5m", b"1.5e3", b"0.001u", b"+12E", b"1e-9"], (InvalidQuantity,)
    ),
    Target(
        "selectors",
        read_selectors,
        [b"a=b,c!=d,e in (x, y),!f,g>1", b"metadata.name=a,spec.nodeName!=b\\,"],
        (ApiError,),
    ),
    Target(
        "list-options",
        read_query,
        [b"labelSelector=a%3Db&fieldSelector=x%3Dy&limit=5&resourceVersion=7&timeoutSeconds=3&watch=1"],
        (ApiError,),
    ),
    Target("times", read_time, [b"2026-11-15T02:29:13.123456Z", b"2026-11-15T02:29:13+05:30", b"1h2m3.5s"]),
    Target("definition", storage.read_definition, blocks(storage.definitions())),
    Target("custom-object", storage.read_custom_object, blocks([*storage.recorded("lvmnodes"), CLAIM])),
    Target("published-pools", storage.read_published, storage.published_seeds()),
    Target(
        "pools-command",
        read_output,
        [b'{"pools": ["10Gi", 5], "policy": "best-fit"}', b'{"classes": {"fast": [{"name": "a", "free": "1Gi"}]}}'],
    ),
    Target("driver-record", read_record, [msgspec.json.encode(each) for each in storage.RECORDS]),
)
