"""Documents: read, copied and compared as a Go server would."""

from __future__ import annotations

import msgspec
import pytest

from tonnage.objects.document import copy, decode, dig, encode, same


def test_bytes_that_are_not_utf_8_are_read_as_the_replacement_character():
    assert decode(b'{"name":"a\xff"}') == {"name": "a\ufffd"}


def test_what_is_no_json_is_an_error():
    with pytest.raises(msgspec.DecodeError):
        decode(b'{"name":')


def test_a_copy_shares_no_container():
    doc = {"a": [{"b": 1}], "c": {"d": []}}
    twin = copy(doc)
    twin["a"][0]["b"] = 2
    twin["c"]["d"].append(3)
    assert doc == {"a": [{"b": 1}], "c": {"d": []}} and encode(doc) == b'{"a":[{"b":1}],"c":{"d":[]}}'


def test_digging_past_the_end_finds_nothing():
    assert dig({"a": {"b": 1}}, "a", "b") == 1
    assert dig({"a": {"b": 1}}, "a", "b", "c") is None and dig({}, "x", "y") is None


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ({"a": []}, {}, True),
        ({"a": {}}, {"a": None}, True),
        ({"a": 0}, {}, False),
        ({"a": ""}, {}, False),
        ([1, {"b": []}], [1, {}], True),
        ([1], [1, 2], False),
        (None, None, True),
        (None, [], True),
        (None, "", False),
        ({"a": False}, {"a": False}, True),
    ],
)
def test_absent_equals_an_empty_map_or_list_and_nothing_else(left, right, equal):
    assert same(left, right) is equal and same(right, left) is equal
