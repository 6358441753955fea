"""Formats of strings, as upstream judges them."""

from __future__ import annotations

import pytest

from tonnage.documents.custom.formats import format_check

CASES: dict[str, tuple[list[str], list[str]]] = {
    "bsonobjectid": (["507f1f77bcf86cd799439011"], ["507f1f77", "x" * 24]),
    "uri": (["http://foo.bar/x?y#z", "/path", "https://[::1]:8080/", "mailto:a@b"], ["", "foo", "a b", "http://x/%zz"]),
    "email": (["a@b.io", "Ann <ann@example.com>"], ["", "a", "@b", "a@", "a b@c"]),
    "hostname": (["example.com", "localhost", "a-b.example.io"], ["", "-a.com", "a_b.com", "a..b", f"{'a' * 64}.com"]),
    "ipv4": (["192.168.0.1", "192.168.010.001"], ["256.1.1.1", "1.2.3", "::1", "fe80::1%eth0"]),
    "ipv6": (["::1", "2001:db8::1", "::ffff:1.2.3.4"], ["1.2.3.4", ":::", "g::1", "fe80::1%eth0"]),
    "cidr": (["10.0.0.0/8", "2001:db8::/32"], ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/x", "/8"]),
    "mac": (["00:00:5e:00:53:01", "02-00-5e-10-00-00-00-01", "0000.5e00.5301"], ["00:00:5e", "00:00:5e:00:53:0g"]),
    "uuid": (["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"], ["123", "z" * 36]),
    "uuid3": (["bcd02e22-68f0-3046-a512-327cca9def8f"], ["bcd02e22-68f0-4046-a512-327cca9def8f"]),
    "uuid4": (["025b0d74-00a2-4048-bf57-227c5111bb34"], ["025b0d74-00a2-3048-bf57-227c5111bb34"]),
    "uuid5": (["886313e1-3b8a-5372-9b90-0c9aee199e5d"], ["886313e1-3b8a-4372-9b90-0c9aee199e5d"]),
    "isbn": (["0321751043", "978-0321751041"], ["0321751042", "1"]),
    "isbn10": (["0-321-75104-3"], ["978-0321751041"]),
    "isbn13": (["978 0321751041"], ["0321751043", "978-0321751042"]),
    "creditcard": (["4111-1111-1111-1111"], ["4111111111111112", "1"]),
    "ssn": (["111-11-1111", "111 11 1111"], ["111111111", "111-11-111"]),
    "hexcolor": (["#FFF", "ffffff"], ["#FF", "#GGGGGG"]),
    "rgbcolor": (["rgb(255, 0,1)"], ["rgb(256,0,0)", "rgb(1,2)"]),
    "byte": (["aGVsbG8=", "aGVs"], ["", "a", "aGVsbG8", "a=bc"]),
    "password": (["", "anything"], []),
    "date": (["2026-02-28"], ["2026-02-30", "2026-2-8", "26-02-08", "2026-02-28T00:00:00Z"]),
    "duration": (["1h30m", "22 ns", "2 weeks", "1.5s", "-3ms"], ["", "h", "5 lightyears"]),
    "date-time": (["2026-01-01T00:00:00Z", "2026-01-01t23:59:59.123+02:00"], ["2026-01-01", "2026-01-01T24:00:00Z"]),
    "datetime": (["2026-01-01T00:00:00Z"], ["now"]),
    "k8s-short-name": (["a-1"], ["A", "-a", "a" * 64, "a.b"]),
    "k8s-long-name": (["a.b-1", "a" * 253], ["A.b", "a..b", "a" * 254]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_format_takes_these_and_not_those(name: str) -> None:
    check = format_check(name)
    assert check is not None
    good, bad = CASES[name]
    assert [text for text in good if not check(text)] == []
    assert [text for text in bad if check(text)] == []


def test_formats_that_are_not_on_the_list_are_not_known() -> None:
    assert [format_check(name) for name in ("", "phone", "int32", "ip")] == [None] * 4
