"""Bodies that are no objects: JSON that does not parse, kinds that are no names, and what strict reading minds."""

from __future__ import annotations

import pytest
from contract_documents import config_map

from support.api_servers import ServerApi

UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "
TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


@pytest.mark.parametrize(
    ("body", "told", "shown"),
    [
        (b"hello", "invalid character 'h' looking for beginning of value", "68656c6c6f"),
        (b"\xff\xfe", "invalid character 'ÿ' looking for beginning of value", "fffe"),
        (b'{"kind":"ConfigMap",}', "invalid character '}' looking for beginning of object key string", None),
        (
            b'{"apiVersion":"v1","kind":"ConfigMap"} trailing',
            "invalid character 't' after top-level value",
            '{"apiVersion":"v1","kind":"Con ...',
        ),
        (b"[]", f"json: cannot unmarshal array into Go value of type {TYPE_META}", "5b5d"),
        (b'"x"', f"json: cannot unmarshal string into Go value of type {TYPE_META}", "227822"),
        (b'{"apiVersion":1}', "json: cannot unmarshal number into Go struct field .apiVersion of type string", None),
        (b'{"kind":[]}', "json: cannot unmarshal array into Go struct field .kind of type string", None),
    ],
)
def test_what_has_no_kind_is_not_recognized(
    api: ServerApi, maps: str, body: bytes, told: str, shown: str | None
) -> None:
    refused = api.post(maps, body)
    assert (refused.code, refused.reason) == (400, "BadRequest")
    summary = body.decode() if shown is None else shown
    assert refused.message == f"{UNRECOGNIZED}couldn't get version/kind; json parse error: {told} ({summary})"


def test_a_version_is_a_group_and_a_version(api: ServerApi, maps: str) -> None:
    refused = api.post(maps, b'{"apiVersion":"a/b/c"}')
    assert refused.message == f'{UNRECOGNIZED}unexpected GroupVersion string: a/b/c ({{"apiVersion":"a/b/c"}})'


@pytest.mark.parametrize(("body", "media"), [(b"null", "application/json"), (b"", "application/yaml")])
def test_nothing_at_all_is_an_object_without_a_name(api: ServerApi, maps: str, body: bytes, media: str) -> None:
    refused = api.post(maps, body, content_type=media)
    assert (refused.code, refused.causes[0][0]) == (422, "metadata.name")


def test_what_is_minded_is_told_in_the_order_of_the_text(api: ServerApi, maps: str) -> None:
    text = b'{"metadata":{"name":"a","name":"b"},"odd":1,"odd":{"odd":2},"data":{"k":"v","k":"w"}}'
    warned = ['duplicate field "metadata.name"', 'unknown field "odd"', 'duplicate field "data.k"']
    made = api.post(f"{maps}?dryRun=All", text)
    assert (made.code, made.warnings) == (201, warned)
    refused = api.post(f"{maps}?fieldValidation=Strict", text)
    assert refused.message.endswith(f": strict decoding error: {', '.join(warned)}")


def test_options_of_a_deletion_are_json_yaml_or_protobuf_too(api: ServerApi, maps: str) -> None:
    api.create(maps, config_map("a"))
    assert api.delete(f"{maps}/a", {}, content_type="text/plain").code == 415
    assert api.delete(f"{maps}/a", b"gracePeriodSeconds: 0", content_type="application/yaml").code == 200
