"""JSON deeper than Python follows: programs read the rest of it."""

from __future__ import annotations

import json

import pytest

from tonnage.objects import codec, document
from tonnage.objects.core_v1 import Pod
from tonnage.objects.document import shallow

DEEP = b'{"f:a":' * 5_000 + b"{}" + b"}" * 5_000
POD = b'{"kind":"Pod","metadata":{"name":"a","resourceVersion":"7","managedFields":[{"fieldsV1":' + DEEP + b"}]}}"


@pytest.mark.parametrize(
    ("text", "depth", "left"),
    [
        (b"[[1],[[2]],{}]", 3, b"[[1],[[]],{}]"),
        (b'{"a":{"b":{"c":1}}}', 3, b'{"a":{"b":{}}}'),
        (b'{"a]":"[[[\\"[","b":[[["]"]]]}', 3, b'{"a]":"[[[\\"[","b":[[]]}'),
        (b"3", 1, b"3"),
        (b"[[[", 3, b"[[["),
    ],
)
def test_what_lies_deeper_is_left_empty(text: bytes, depth: int, left: bytes) -> None:
    assert shallow(text, depth) == left


def test_what_is_shallow_stays_as_it_is() -> None:
    text = json.dumps({"a": [{"b": "]}"}], "c": "\\"}).encode()
    assert shallow(text) == text


def test_programs_read_objects_with_very_deep_managed_fields() -> None:
    assert codec.decode(Pod, POD).metadata.name == "a"
    page = b'{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[' + POD + b',{"metadata":{"name":"b"}}]}'
    assert [pod.metadata.name for pod in codec.decode_list(Pod, page).items] == ["a", "b"]
    event = codec.decode_event(Pod, b'{"type":"ADDED","object":' + POD + b"}")
    assert isinstance(event, codec.WatchChange) and event.object.metadata.resource_version == "7"
    assert document.decode(POD)["metadata"]["name"] == "a"
