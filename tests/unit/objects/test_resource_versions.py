"""resourceVersion as a number, for those who compare and for those who refuse."""

from __future__ import annotations

import pytest

from tonnage.objects.meta import InvalidRevision, ObjectMeta, parse_revision


@pytest.mark.parametrize(("text", "number"), [("", 0), ("0", 0), ("12", 12), ("18446744073709551615", 2**64 - 1)])
def test_a_resource_version_is_a_number(text: str, number: int):
    assert ObjectMeta(resource_version=text).revision == number
    assert parse_revision(text) == number


def test_a_number_beyond_64_bits_can_be_compared_but_no_server_of_ours_gave_it():
    assert ObjectMeta(resource_version="9" * 22).revision == 10**22 - 1
    with pytest.raises(InvalidRevision) as caught:
        parse_revision("9" * 22)
    assert str(caught.value) == 'strconv.ParseUint: parsing "9999999999999999999999": value out of range'


def test_a_number_nobody_counts_to_is_not_read():
    assert ObjectMeta(resource_version="9" * 5_000).revision == 0
    with pytest.raises(InvalidRevision):
        parse_revision("9" * 5_000)


@pytest.mark.parametrize("text", ["x", "-1", "1.5", " 1", "٣"])
def test_one_that_is_no_number_is_older_than_all_and_refused_by_a_server(text: str):
    assert ObjectMeta(resource_version=text).revision == 0
    with pytest.raises(InvalidRevision) as caught:
        parse_revision(text)
    assert str(caught.value) == f'strconv.ParseUint: parsing "{text}": invalid syntax'
