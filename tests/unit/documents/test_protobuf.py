"""Reading Kubernetes' protobuf: envelopes, messages made by hand, and what is wrong with broken ones."""

from __future__ import annotations

from typing import Any

import pytest

from support.protobuf_bodies import decode_protobuf
from tonnage.documents.admit import Malformed
from tonnage.documents.protobuf import Envelope, open_envelope, struct_named
from tonnage.documents.schema import schema_of
from tonnage.objects.document import REQUEST, Budget, Doc

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    low = bytes([number & 0x7F | (0x80 if number > 0x7F else 0)])
    return low + varint(number >> 7) if number > 0x7F else low


def field(number: int, *values: Any) -> bytes:
    """A field once per value: an int as a varint, text and bytes with their length."""
    made = b""
    for value in values:
        if isinstance(value, int):
            made += varint(number << 3 | VARINT) + varint(value)
        else:
            payload = value.encode() if isinstance(value, str) else value
            made += varint(number << 3 | BYTES) + varint(len(payload)) + payload
    return made


def tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def envelope(api_version: str, kind: str, raw: bytes, content_type: str = "") -> bytes:
    head = field(1, api_version) + field(2, kind)
    return b"k8s\0" + field(1, head) + field(2, raw) + field(3, "") + field(4, content_type)


def read(name: str, raw: bytes, group: str = "", version: str = "v1") -> Doc:
    """A message of any type, kind or not."""
    return Envelope("", "", raw).decode(schema_of(group, version, name), Budget(REQUEST))


def refusal(body: bytes) -> str:
    with pytest.raises(Malformed) as caught:
        decode_protobuf(body)
    return caught.value.message


def broken(raw: bytes) -> str:
    """What is wrong with the message of a ConfigMap."""
    return refusal(envelope("v1", "ConfigMap", raw))


# The envelope


def test_an_envelope_says_what_is_inside() -> None:
    body = envelope("v1", "ConfigMap", b"...")
    assert open_envelope(body, Budget(REQUEST)) == Envelope("v1", "ConfigMap", b"...", "")


def test_an_object_is_read_by_the_kind_its_envelope_names() -> None:
    named = field(1, field(1, "a"))
    assert decode_protobuf(envelope("v1", "ConfigMap", named + field(2, field(1, "x") + field(2, "y")))) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
        "data": {"x": "y"},
    }
    # Field 2 of a Secret holds bytes: "y" is 0x79, 011110 010000 -> "eQ==".
    assert decode_protobuf(envelope("v1", "Secret", named + field(2, field(1, "x") + field(2, "y")))) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a"},
        "data": {"x": "eQ=="},
    }


def test_delete_options_are_known_in_every_group_and_an_explicit_zero_counts() -> None:
    assert decode_protobuf(envelope("apps/v1", "DeleteOptions", field(1, 0))) == {
        "apiVersion": "apps/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
    }


def test_an_envelope_may_hold_json() -> None:
    body = envelope("v1", "ConfigMap", b'{"data": {"x": "y"}}', "application/json")
    assert decode_protobuf(body) == {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "y"}}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"[1]", "the raw value is JSON, but not an object"),
        (b"{", "the raw value is not JSON: Input data was truncated"),
    ],
)
def test_json_in_an_envelope_must_be_an_object(raw: bytes, message: str) -> None:
    assert refusal(envelope("v1", "ConfigMap", raw, "application/json")) == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "empty data"),
        (b"k8s\0", "empty body"),
        (
            b'{"kind": "ConfigMap"}',
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ),
        (b"k8s\0\x0a\x05ab", "unexpected EOF"),
        (b"k8s\0" + field(2, 7), "proto: wrong wireType = 0 for field raw"),
    ],
)
def test_what_is_no_envelope_is_told_in_upstreams_words(body: bytes, message: str) -> None:
    assert refusal(body) == message


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("v1", "Widget"), ("v9", "Pod"), ("example.com/v1", "DeleteOptions"), ("", "Pod"), ("v1", "")],
)
def test_a_kind_nobody_knows_is_named(api_version: str, kind: str) -> None:
    expected = f'no kind "{kind}" is registered for version "{api_version}" in scheme "tonnage"'
    assert refusal(envelope(api_version, kind, b"")) == expected


def test_a_part_of_something_is_no_kind_though_it_has_a_field_of_that_name() -> None:
    with pytest.raises(Malformed):
        struct_named("v1", "ObjectReference")
    with pytest.raises(Malformed):
        struct_named("v1", "OwnerReference")


# Scalars


def test_zeros_that_go_writes_unasked_are_left_out_and_those_of_pointers_stay() -> None:
    # A Lease's spec holds pointers only; ObjectMeta's generation and uid are plain values.
    spec = field(1, "") + field(2, 0) + field(5, 0)
    meta = field(1, "a") + field(5, "") + field(7, 0) + field(10, 0)
    assert read("Lease", field(1, meta) + field(2, spec), "coordination.k8s.io") == {
        "metadata": {"name": "a", "deletionGracePeriodSeconds": 0},
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 0, "leaseTransitions": 0},
    }
    assert read("PodSpec", field(11, 0) + field(21, 0)) == {"automountServiceAccountToken": False}


def test_the_zero_of_a_required_field_stays_too() -> None:
    assert read("Taint", field(1, "") + field(2, "") + field(3, "")) == {"key": "", "effect": ""}


def test_numbers_are_twos_complement_of_their_width() -> None:
    # -1 takes ten bytes on the wire in either width.
    assert read("SecurityContext", field(4, -1)) == {"runAsUser": -1}
    assert read("Toleration", field(5, -(1 << 63))) == {"tolerationSeconds": -(1 << 63)}
    assert read("DeploymentSpec", field(1, -5), "apps") == {"replicas": -5}
    # Go keeps the low 32 bits: 2**32 + 7 -> 7.
    assert read("DeploymentSpec", field(1, (1 << 32) + 7), "apps") == {"replicas": 7}


def test_bytes_that_are_no_utf_8_are_replaced_one_by_one() -> None:
    assert read("Taint", field(1, b"v\xff\xe2\x82")) == {"key": "v\ufffd\ufffd\ufffd"}


def test_quantities_are_their_text() -> None:
    amounts = field(1, field(1, "cpu") + field(2, field(1, "500m"))) + field(1, field(1, "memory") + field(2, b""))
    assert read("ResourceRequirements", amounts) == {"limits": {"cpu": "500m", "memory": "0"}}


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (field(1, 0) + field(2, 8080) + field(3, ""), 8080),
        (field(1, 0) + field(2, -1), -1),
        (field(1, 1) + field(2, 0) + field(3, "25%"), "25%"),
        (b"", 0),
    ],
)
def test_int_or_string_is_what_its_type_says(raw: bytes, value: int | str) -> None:
    assert read("ServicePort", field(4, raw)) == {"targetPort": value}


def test_an_int_or_string_of_a_third_type_is_refused() -> None:
    with pytest.raises(Malformed, match=r"^impossible IntOrString\.Type$"):
        read("ServicePort", field(4, field(1, 2)))


def test_times_are_rfc_3339_in_whole_seconds_and_micro_times_in_microseconds() -> None:
    # 2026-01-02T03:04:05Z: 56 years with 14 leap days are 20454 days, then 1 day and 11045 s; 20455 * 86400 + 11045.
    at_s = 20455 * 86400 + 11045
    assert read("ObjectMeta", field(8, field(1, at_s) + field(2, 999)), "meta") == {
        "creationTimestamp": "2026-01-02T03:04:05Z"
    }
    assert read("LeaseSpec", field(4, field(1, at_s) + field(2, 123456789)), "coordination.k8s.io") == {
        "renewTime": "2026-01-02T03:04:05.123456Z"
    }
    assert read("ObjectMeta", field(8, field(1, -1)), "meta") == {"creationTimestamp": "1969-12-31T23:59:59Z"}
    assert read("ObjectMeta", field(8, field(1, 0)), "meta") == {"creationTimestamp": "1970-01-01T00:00:00Z"}


def test_the_zero_time_is_absent_in_either_spelling() -> None:
    assert read("ObjectMeta", field(8, b""), "meta") == {}
    assert read("ObjectMeta", field(8, field(1, -62135596800)), "meta") == {}
    assert read("PodDisruptionBudgetStatus", field(2, field(1, "p")), "policy") == {}


def test_a_time_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(Malformed, match=r"^Time at 1099511627776 s from 1970 is outside of the years 1 to 9999$"):
        read("ObjectMeta", field(8, field(1, 1 << 40)), "meta")


def test_raw_json_and_owned_fields_are_opened() -> None:
    entry = field(1, "m") + field(7, field(1, '{"f:data":{}}'))
    assert read("ManagedFieldsEntry", entry, "meta") == {"manager": "m", "fieldsV1": {"f:data": {}}}
    assert read("ControllerRevision", field(2, field(1, '{"a":[1]}')) + field(3, 4), "apps") == {
        "data": {"a": [1]},
        "revision": 4,
    }
    assert read("ControllerRevision", field(2, b"") + field(3, 0), "apps") == {"revision": 0}
    with pytest.raises(Malformed, match=r"^the raw value is not JSON: "):
        read("ControllerRevision", field(2, field(1, "{bad")), "apps")


# Lists, maps and inlined messages


def test_repeated_numbers_come_one_by_one_or_packed() -> None:
    packed = field(4, varint(1) + varint(300) + varint(-2))
    assert read("PodSecurityContext", field(4, 1, 300, -2)) == {"supplementalGroups": [1, 300, -2]}
    assert read("PodSecurityContext", packed) == {"supplementalGroups": [1, 300, -2]}
    assert read("PodSecurityContext", field(4, 1) + field(4, varint(300) + varint(-2))) == {
        "supplementalGroups": [1, 300, -2]
    }


def test_lists_of_texts_and_messages_keep_their_order() -> None:
    assert read("Container", field(3, "b", "a", "") + field(7, field(1, "E") + field(2, ""), field(1, "D"))) == {
        "command": ["b", "a", ""],
        "env": [{"name": "E"}, {"name": "D"}],
    }


def test_a_map_entry_may_leave_out_its_key_or_its_value() -> None:
    assert read("ConfigMap", field(2, b"", field(1, "k"), field(1, "k2") + field(2, "v"))) == {
        "data": {"": "", "k": "", "k2": "v"}
    }


def test_a_message_that_json_inlines_is_part_of_the_struct_around_it() -> None:
    # Volume: name is 1, volumeSource 2, persistentVolumeClaim 10 within it, readOnly 2 within that.
    assert read("Volume", field(1, "v") + field(2, field(10, field(1, "c") + field(2, 1)))) == {
        "name": "v",
        "persistentVolumeClaim": {"claimName": "c", "readOnly": True},
    }
    # ConfigMapKeySelector inlines a LocalObjectReference.
    assert read("ConfigMapKeySelector", field(1, field(1, "cm")) + field(2, "key") + field(3, 0)) == {
        "name": "cm",
        "key": "key",
        "optional": False,
    }


def test_empty_messages_are_there_and_a_message_that_comes_twice_is_merged() -> None:
    assert read("Pod", field(1, b"") + field(2, b"")) == {"metadata": {}, "spec": {}}
    assert read("Pod", field(1, field(1, "a")) + field(1, field(3, "ns"))) == {
        "metadata": {"name": "a", "namespace": "ns"}
    }


def test_of_a_scalar_that_comes_twice_the_last_counts_even_when_it_is_zero() -> None:
    assert read("ObjectMeta", field(1, "a", "b"), "meta") == {"name": "b"}
    assert read("ObjectMeta", field(1, "a", ""), "meta") == {}


# What is not known, and what is broken


def test_numbers_nobody_knows_are_skipped_whatever_their_type() -> None:
    unknown = [
        field(900, 5, "text"),
        tag(901, FIXED64) + b"12345678",
        tag(902, FIXED32) + b"1234",
        # A group with every type inside, another group among them.
        tag(903, GROUP)
        + field(1, 300, "x")
        + tag(2, FIXED64)
        + b"12345678"
        + tag(904, GROUP)
        + tag(904, END_GROUP)
        + tag(903, END_GROUP),
    ]
    assert read("Taint", b"".join(unknown[:2]) + field(1, "k") + b"".join(unknown[2:])) == {"key": "k"}


def test_deep_groups_are_skipped_without_a_stack() -> None:
    deep = tag(903, GROUP) * 50_000 + tag(903, END_GROUP) * 50_000
    assert read("Taint", deep + field(1, "k")) == {"key": "k"}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (field(1, field(1, "a"))[:-1], "unexpected EOF"),
        (b"\x80", "unexpected EOF"),
        (tag(900, FIXED64) + b"1234567", "unexpected EOF"),
        (tag(900, GROUP), "unexpected EOF"),
        (tag(1, BYTES) + varint(-1), "proto: negative length found during unmarshaling"),
        (b"\xff" * 11, "proto: integer overflow"),
        (tag(900, 7), "proto: illegal wireType 7"),
        (tag(900, GROUP) + tag(1, 6), "proto: illegal wireType 6"),
        (tag(0, BYTES) + b"\0", "proto: ConfigMap: illegal tag 0 (wire type 2)"),
        (tag(1 << 31, VARINT) + b"\0", "proto: ConfigMap: illegal tag -2147483648 (wire type 0)"),
        (tag(5, END_GROUP), "proto: ConfigMap: wiretype end group for non-group"),
        (field(1, 5), "proto: wrong wireType = 0 for field metadata"),
        (field(4, "yes"), "proto: wrong wireType = 2 for field immutable"),
        (field(2, 5), "proto: wrong wireType = 0 for field data"),
        (field(2, field(1, 5)), "proto: wrong wireType = 0 for field key"),
        (field(1, field(14, 5)), "proto: wrong wireType = 0 for field finalizers"),
        (field(1, tag(8, BYTES) + b"\x02\x08"), "unexpected EOF"),
    ],
)
def test_a_broken_message_is_told_in_upstreams_words(raw: bytes, message: str) -> None:
    assert broken(raw) == message
