"""Keys that come twice are found by the slow reading; the count that saves it must never overlook one."""

from __future__ import annotations

import pytest

from tonnage.apiserver import bodies
from tonnage.errors import BadRequest
from tonnage.objects.document import Doc, decode, keys_in
from tonnage.objects.resources import BY_PLURAL

CONFIG_MAPS = BY_PLURAL["", "configmaps"]


def found(body: bytes) -> list[str]:
    return bodies.strict_problems(body, "application/json", [], keys_in(decode(body)))


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"a":2}',
        b'{"a" :1,"a":2}',
        b'{"a"\n\t:1,"a":2}',
        b'{"a":1,"\\u0061":2}',
        b'{"b":[{"a":1,"a":2}],"c" :1}',
        b'{"b":"x\\":","a" : 1,"a" : 2}',
    ],
)
def test_a_key_that_comes_twice_is_found(body: bytes) -> None:
    assert any(problem.startswith("duplicate field") for problem in found(body))


@pytest.mark.parametrize("body", [b'{"a":{"b":[{"c":null},1]}}', b'{"a" : "b\\":"}', b"[]", b'"a"', b"{}"])
def test_nothing_is_found_where_there_is_nothing(body: bytes) -> None:
    assert found(body) == []


def test_a_text_without_spaces_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_walk_strictly", None)
    assert found(b'{"metadata": {"labels": {"a": "b"}}, "list": [{"x": 1}]}') == []
    assert read(b'{"metadata":{"name":"x"},"data":{"k":"1"}}')["data"] == {"k": "1"}


def test_what_the_server_puts_in_does_not_make_up_for_keys_that_come_twice() -> None:
    with pytest.raises(BadRequest, match=r'duplicate field "metadata\.name", duplicate field "data\.k"'):
        read(b'{"metadata":{"name":"x","name":"x"},"data":{"k":"1","k":"2"}}')


def read(body: bytes) -> Doc:
    return bodies.read_object(body, "application/json", CONFIG_MAPS, validation="Strict", warnings=[])
