"""Paths: the quick way to write a name into one says what the slow way says."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tonnage.client import rest
from tonnage.objects.resources import BY_PLURAL


@given(st.text() | st.from_regex(r"[a-z0-9.\-]*", fullmatch=True))
@example("")
@example("web-0\n")
@example("a/b?c=d#e%20")
def test_a_name_in_a_path_is_quoted_as_urls_are(name):
    try:
        expected = quote(name, safe="")
    except UnicodeEncodeError:  # half of a surrogate pair is nothing that could be sent
        with pytest.raises(UnicodeEncodeError):
            rest.in_path(name)
        return
    assert rest.in_path(name) == expected


def test_a_query_without_values_is_no_query():
    pods = BY_PLURAL["", "pods"]
    assert rest.object_path(pods, "shop/db-0", "status", {"fieldManager": "", "force": ""}) == (
        "/api/v1/namespaces/shop/pods/db-0/status"
    )
    assert rest.collection_path(pods, "shop", {"limit": "5", "continue": ""}) == "/api/v1/namespaces/shop/pods?limit=5"
