"""Protobuf bodies against Kubernetes' own reading of them.

Two sources. The hex below is what kubectl 1.32 and an unmodified kube-scheduler 1.36.4 sent to a server, beside the
JSON of the same object. `protobuf_1_36.json` holds bodies that client-go 1.36.4 (`runtime/serializer/protobuf`) encoded
and the JSON it made of them: every kind once with everything set and once with everything zero, so that a wrong number
in a schema, or a zero kept or dropped by mistake, shows. A type stands in full in the first place it occurs only.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from support.protobuf_bodies import decode_protobuf
from tonnage.documents.schema import ListOf, MapOf, Struct, Type, structs
from tonnage.objects.document import Doc

CASES = json.loads(Path(__file__).with_name("protobuf_1_36.json").read_text())

SENT: dict[str, tuple[str, Doc]] = {
    "kubectl create configmap a --from-literal=x=y --from-literal=empty=": (
        "6b3873000a0f0a0276311209436f6e6669674d6170122a0a150a057265632d6112001a0022002a0032003800420012090a05656d70747912"
        "0012060a01781201791a002200",
        {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"name": "rec-a"},
            "data": {"empty": "", "x": "y"},
        },
    ),
    "kubectl create deployment d --image=nginx --replicas=0": (
        "6b3873000a150a07617070732f7631120a4465706c6f796d656e7412b3010a230a057265632d6412001a0022002a003200380042005a0c0a"
        "0361707012057265632d64127e0800120e0a0c0a0361707012057265632d641a620a1e0a0012001a0022002a003200380042005a0c0a0361"
        "707012057265632d64124012220a056e67696e7812056e67696e782a0042006a007200800100880100900100a201001a00320042004a0052"
        "005800600068008201008a01009a0100c2010022020a00280038001a0c0800100018002000280038001a002200",
        {
            "kind": "Deployment",
            "apiVersion": "apps/v1",
            "metadata": {"name": "rec-d", "labels": {"app": "rec-d"}},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "rec-d"}},
                "template": {
                    "metadata": {"labels": {"app": "rec-d"}},
                    "spec": {"containers": [{"name": "nginx", "image": "nginx", "resources": {}}]},
                },
                "strategy": {},
            },
            "status": {},
        },
    ),
    "kubectl create priorityclass pc --value=0 --preemption-policy=Never": (
        "6b3873000a250a147363686564756c696e672e6b38732e696f2f7631120d5072696f72697479436c61737312250a160a067265632d706312"
        "001a0022002a003200380042001000180022002a054e657665721a002200",
        {
            "kind": "PriorityClass",
            "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": "rec-pc"},
            "value": 0,
            "preemptionPolicy": "Never",
        },
    ),
    "kubectl create pdb b --selector=a=b --min-available=50%": (
        "6b3873000a200a09706f6c6963792f76311213506f6444697372757074696f6e427564676574123a0a150a057265632d6212001a0022002a"
        "0032003800420012150a09080110001a0335302512080a060a01611201621a0a080018002000280030001a002200",
        {
            "kind": "PodDisruptionBudget",
            "apiVersion": "policy/v1",
            "metadata": {"name": "rec-b"},
            "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
        },
    ),
    "kubectl create secret generic s --from-literal=a=b": (
        "6b3873000a0c0a027631120653656372657412210a150a057265632d7312001a0022002a0032003800420012060a01611201621a001a0022"
        "00",
        {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "rec-s"}, "data": {"a": "Yg=="}},
    ),
    "kubectl create service clusterip svc --tcp=80:http": (
        "6b3873000a0d0a02763112075365727669636512780a270a077265632d73766312001a0022002a003200380042005a0e0a03617070120772"
        "65632d73766312490a1e0a0738302d6874747012035443501850220a080110001a04687474702800120e0a0361707012077265632d737663"
        "1a002209436c757374657249503a00420052005a00600068001a020a001a002200",
        {
            "kind": "Service",
            "apiVersion": "v1",
            "metadata": {"name": "rec-svc", "labels": {"app": "rec-svc"}},
            "spec": {
                "ports": [{"name": "80-http", "protocol": "TCP", "port": 80, "targetPort": "http"}],
                "selector": {"app": "rec-svc"},
                "type": "ClusterIP",
            },
            "status": {"loadBalancer": {}},
        },
    ),
    "kube-scheduler takes its lease": (
        "6b3873000a1f0a16636f6f7264696e6174696f6e2e6b38732e696f2f763112054c6561736512760a290a0e6b7562652d7363686564756c65"
        "7212001a0b6b7562652d73797374656d22002a0032003800420012490a27766d5f65666431646564392d376433662d346139342d38323439"
        "2d346334393337386537326438100f1a0c08cfcfe4d7061090e295cf03220c08cfcfe4d7061090e295cf0328001a002200",
        {
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
            "spec": {
                "holderIdentity": "vm_efd1ded9-7d3f-4a94-8249-4c49378e72d8",
                "leaseDurationSeconds": 15,
                "acquireTime": "2026-11-15T03:32:31.971338Z",
                "renewTime": "2026-11-15T03:32:31.971338Z",
                "leaseTransitions": 0,
            },
        },
    ),
    "kube-scheduler binds a pod": (
        "6b3873000a0d0a027631120742696e64696e6712580a400a05736d616c6c12001a0764656661756c7422002a2466633136303265632d3166"
        "62362d346636342d393432642d32333263376362326263623132003800420012140a044e6f646512001a026e3122002a0032003a001a0022"
        "00",
        {
            "kind": "Binding",
            "apiVersion": "v1",
            "metadata": {"name": "small", "namespace": "default", "uid": "fc1602ec-1fb6-4f64-942d-232c7cb2bcb1"},
            "target": {"kind": "Node", "name": "n1"},
        },
    ),
    "kube-scheduler deletes a victim of preemption": (
        "6b3873000a130a027631120d44656c6574654f7074696f6e7312001a002200",
        {"kind": "DeleteOptions", "apiVersion": "v1"},
    ),
}


@pytest.mark.parametrize(("body", "document"), SENT.values(), ids=SENT.keys())
def test_what_real_clients_send_is_read_as_their_json(body: str, document: Doc) -> None:
    assert decode_protobuf(bytes.fromhex(body)) == document


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case['kind']}, {case['case']}") for case in CASES])
def test_every_field_is_read_as_client_go_reads_it(case: Any) -> None:
    assert decode_protobuf(base64.b64decode(case["body"])) == case["document"]


def test_the_bodies_leave_out_no_field_that_has_a_number() -> None:
    """Walk the documents with everything set along their schemas, and see every field of every type pass by."""
    seen: set[tuple[str, str]] = set()

    def walk(kind: Type, value: Any) -> None:
        if isinstance(kind, Struct):
            for name, item in value.items():
                seen.add((kind.full_name, name))
                walk(kind.fields[name].type, item)
        elif isinstance(kind, ListOf):
            for item in value:
                walk(kind.item, item)
        elif isinstance(kind, MapOf):
            for item in value.values():
                walk(kind.item, item)

    tops = {(struct.package, struct.name): struct for struct in structs()}
    for case in CASES:
        if case["case"] == "everything set":
            walk(tops[_package(case), case["kind"]], case["document"])
    numbered = {
        (struct.full_name, field.name) for struct in structs() for field in struct.fields.values() if field.wire
    }
    assert numbered - seen == set()


def _package(case: Any) -> str:
    if case["kind"] in ("DeleteOptions", "Status"):
        return "io.k8s.apimachinery.pkg.apis.meta.v1"
    if case["kind"] == "CustomResourceDefinition":
        return "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
    group = (
        case["document"]["apiVersion"].rpartition("/")[0].removesuffix(".k8s.io").removesuffix(".authorization")
        or "core"
    )
    return f"io.k8s.api.{group}.v1"
