"""Protobuf in request bodies: what is read, and the refusals in full.

The refusals are those of a real kube-apiserver 1.36.4, but for the names of fields (JSON's here) and of the scheme.
"""

from __future__ import annotations

import pytest

from tonnage.apiserver.bodies import PROTOBUF, read_document, read_object
from tonnage.errors import BadRequest, UnsupportedMediaType
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_PLURAL

CONFIG_MAPS = BY_PLURAL["", "configmaps"]
CLAIMS = BY_PLURAL["", "persistentvolumeclaims"]


def part(number: int, payload: bytes) -> bytes:
    """A field with bytes in it. Numbers up to 15 and lengths up to 127 take one byte each; here they all do."""
    return bytes([number << 3 | 2, len(payload)]) + payload


def envelope(api_version: bytes, kind: bytes, raw: bytes) -> bytes:
    return b"k8s\0" + part(1, part(1, api_version) + part(2, kind)) + part(2, raw)


# metadata {name "a"}, data {"x": "y"}
MESSAGE = part(1, part(1, b"a")) + part(2, part(1, b"x") + part(2, b"y"))


def read(body: bytes, validation: str = "Strict", content_type: str = PROTOBUF) -> Doc:
    warnings: list[str] = []
    doc = read_object(body, content_type, CONFIG_MAPS, validation, warnings)
    assert warnings == []
    return doc


def refusal(body: bytes) -> str:
    with pytest.raises(BadRequest) as caught:
        read(body)
    return caught.value.message


def test_an_object_in_protobuf_is_read_like_its_json() -> None:
    expected = read(b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"x":"y"}}', "Strict", "")
    assert read(envelope(b"v1", b"ConfigMap", MESSAGE)) == expected
    assert read(envelope(b"v1", b"ConfigMap", MESSAGE), content_type=f"{PROTOBUF}; charset=utf-8") == expected


@pytest.mark.parametrize(("api_version", "kind"), [(b"", b""), (b"", b"ConfigMap"), (b"v1", b"")])
def test_an_envelope_that_does_not_say_holds_what_the_endpoint_is_about(api_version: bytes, kind: bytes) -> None:
    doc = read(envelope(api_version, kind, MESSAGE))
    assert (doc["apiVersion"], doc["kind"], doc["data"]) == ("v1", "ConfigMap", {"x": "y"})


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
def test_fields_of_unknown_numbers_pass_under_any_validation(validation: str) -> None:
    # Field 100, a varint: 100 << 3 = 800 = 0b110_0100000 -> a0 06.
    doc = read(envelope(b"v1", b"ConfigMap", MESSAGE + b"\xa0\x06\x01"), validation)
    assert doc["data"] == {"x": "y"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the object provided is unrecognized (must be of type ConfigMap): empty data (<empty>)"),
        (
            b'{"a":1}',
            "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a "
            'protobuf message, expected prefix [107 56 115 0] ({"a":1})',
        ),
        (b"k8s\0", "the object provided is unrecognized (must be of type ConfigMap): empty body (6b387300)"),
        (
            b"k8s\0\x0a\x05",
            "the object provided is unrecognized (must be of type ConfigMap): unexpected EOF (6b3873000a05)",
        ),
        (
            envelope(b"v1", b"ConfigMap", MESSAGE[:-1]),
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: unexpected EOF',
        ),
        (
            envelope(b"v1", b"Secret", b""),
            'Secret in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            envelope(b"v1", b"Widget", b""),
            'Widget in version "v1" cannot be handled as a ConfigMap: '
            'no kind "Widget" is registered for version "v1" in scheme "tonnage"',
        ),
    ],
)
def test_a_body_that_cannot_be_read_is_a_bad_request(body: bytes, message: str) -> None:
    assert refusal(body) == message


def test_a_value_that_its_field_does_not_allow_is_told_as_it_is_in_json() -> None:
    # spec (2) . resources (2) . requests (2): {"storage": Quantity {string (1) "10 GB"}}
    request = part(1, b"storage") + part(2, part(1, b"10 GB"))
    body = envelope(b"v1", b"PersistentVolumeClaim", part(2, part(2, part(2, request))))
    with pytest.raises(BadRequest) as caught:
        read_object(body, PROTOBUF, CLAIMS, "Strict", [])
    assert caught.value.message == (
        'PersistentVolumeClaim in version "v1" cannot be handled as a PersistentVolumeClaim: quantities must match '
        "the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )


def test_documents_beside_the_endpoints_own_kind_are_of_the_kind_they_name() -> None:
    # DeleteOptions: gracePeriodSeconds (1) 0, propagationPolicy (4) "Orphan".
    body = envelope(b"policy/v1", b"DeleteOptions", b"\x08\x00" + part(4, b"Orphan"))
    assert read_document(body, PROTOBUF, must_be="DeleteOptions")[0] == {
        "apiVersion": "policy/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Orphan",
    }
    with pytest.raises(BadRequest) as caught:
        read_document(envelope(b"v1", b"Widget", b""), PROTOBUF, must_be="Binding")
    assert caught.value.message == (
        'Widget in version "v1" cannot be handled as a Binding: '
        'no kind "Widget" is registered for version "v1" in scheme "tonnage"'
    )


def test_other_media_types_are_refused_with_a_list_of_those_that_are_read() -> None:
    with pytest.raises(UnsupportedMediaType) as caught:
        read(b"{}", content_type="text/plain")
    assert caught.value.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )
