"""Quantities: every form Kubernetes reads, and the text it writes. Parity cases were read off upstream running."""

from __future__ import annotations

import copy
import pickle

import msgspec
import pytest

from tonnage.quantity import FORMAT_WRONG, NOT_NUMERIC, UNKNOWN_SUFFIX, Format, InvalidQuantity, Quantity

MAX_INT64 = 9223372036854775807


def q(text: str) -> Quantity:
    return Quantity.parse(text)


# text -> (canonical text, family, Value(), MilliValue()): resource.ParseQuantity, String and Value of Kubernetes 1.36.
# The numbers are upstream's but for MAX_INT64, where its own wrap around or turn into 0, and for -0.1n (see there).
READ = {
    "0": ("0", "DecimalSI", 0, 0),
    "0Ki": ("0", "BinarySI", 0, 0),
    "-0": ("0", "DecimalSI", 0, 0),
    "1": ("1", "DecimalSI", 1, 1000),
    "1n": ("1n", "DecimalSI", 1, 1),
    "1u": ("1u", "DecimalSI", 1, 1),
    "100m": ("100m", "DecimalSI", 1, 100),
    "1k": ("1k", "DecimalSI", 1000, 10**6),
    "12M": ("12M", "DecimalSI", 12 * 10**6, 12 * 10**9),
    "3G": ("3G", "DecimalSI", 3 * 10**9, 3 * 10**12),
    "4T": ("4T", "DecimalSI", 4 * 10**12, 4 * 10**15),
    "5P": ("5P", "DecimalSI", 5 * 10**15, 5 * 10**18),
    "6E": ("6E", "DecimalSI", 6 * 10**18, MAX_INT64),
    "1Ki": ("1Ki", "BinarySI", 1024, 1024000),
    "8Ki": ("8Ki", "BinarySI", 8192, 8192000),
    "1024Ki": ("1Mi", "BinarySI", 1048576, 1048576000),
    "10Gi": ("10Gi", "BinarySI", 10737418240, 10737418240000),
    "1Ti": ("1Ti", "BinarySI", 2**40, 2**40 * 1000),
    "1Pi": ("1Pi", "BinarySI", 2**50, 2**50 * 1000),
    "7Ei": ("7Ei", "BinarySI", 7 * 2**60, MAX_INT64),
    # A fraction goes into the next smaller suffix.
    "1.5": ("1500m", "DecimalSI", 2, 1500),
    ".5": ("500m", "DecimalSI", 1, 500),
    "5.": ("5.", "DecimalSI", 5, 5000),
    "0.5Gi": ("512Mi", "BinarySI", 536870912, 536870912000),
    "1.5Gi": ("1536Mi", "BinarySI", 1610612736, 1610612736000),
    "-1.5": ("-1500m", "DecimalSI", -2, -1500),
    # A binary quantity below 1Ki, or with a fraction of a byte, is written in decimal; below 1 it changes family.
    "0.5Ki": ("512", "BinarySI", 512, 512000),
    "1.0001Ki": ("1024102400u", "BinarySI", 1025, 1024103),
    "0.0005Ki": ("512m", "DecimalSI", 1, 512),
    # Finer than a nano: away from zero, so that whoever asks for something gets something.
    "0.1n": ("1n", "DecimalSI", 1, 1),
    "-0.1n": ("-1n", "DecimalSI", -1, -1),
    "1.0000000001": ("1000000001n", "DecimalSI", 2, 1001),
    "1e-12": ("1e-9", "DecimalExponent", 1, 1),
    # Exponents.
    "1e3": ("1e3", "DecimalExponent", 1000, 10**6),
    "1e4": ("10e3", "DecimalExponent", 10000, 10**7),
    "1E-3": ("1E-3", "DecimalExponent", 1, 1),
    "12e0": ("12e0", "DecimalExponent", 12, 12000),
    "1e-1": ("100e-3", "DecimalExponent", 1, 100),
    # Binary quantities stop at the largest int64, decimal ones do not.
    "8Ei": ("9223372036854775807", "BinarySI", MAX_INT64, MAX_INT64),
    "-8Ei": ("-9223372036854775807", "BinarySI", -MAX_INT64, -MAX_INT64),
    "10E": ("10E", "DecimalSI", MAX_INT64, MAX_INT64),
    "9223372036854775808": ("9223372036854775808", "DecimalSI", MAX_INT64, MAX_INT64),
    # Texts that upstream takes for canonical already are given back as they came.
    "+5": ("+5", "DecimalSI", 5, 5000),
    "+4Ki": ("+4Ki", "BinarySI", 4096, 4096000),
    "+8Ki": ("8Ki", "BinarySI", 8192, 8192000),
    "0100": ("0100", "DecimalSI", 100, 100000),
    "1.500": ("1.500", "DecimalSI", 2, 1500),
    "1.123456": ("1.123456", "DecimalSI", 2, 1124),
    "1.000": ("1", "DecimalSI", 1, 1000),
    "0.001": ("1m", "DecimalSI", 1, 1),
    # No digit at all reads as zero, as long as upstream stays on its int64 path.
    "+": ("0", "DecimalSI", 0, 0),
    ".": ("0", "DecimalSI", 0, 0),
    "Gi": ("0", "BinarySI", 0, 0),
    "e5": ("0", "DecimalExponent", 0, 0),
}


@pytest.mark.parametrize("text", READ)
def test_a_quantity_reads_and_writes_as_upstream_does(text: str) -> None:
    written, format, value, milli_value = READ[text]
    quantity = q(text)
    assert (str(quantity), quantity.format) == (written, format)
    assert (quantity.value(), quantity.milli_value()) == (value, milli_value)


REFUSED = {
    "": ("it is empty", 'write a number such as "10Gi"', FORMAT_WRONG),
    "10 GB": ('unknown suffix " GB"', 'write "10G" or "10Gi"', FORMAT_WRONG),
    "10mb": ('unknown suffix "mb"', 'write "10M" or "10Mi"', FORMAT_WRONG),
    "10K": ('unknown suffix "K"', 'write "10k" or "10Ki"', UNKNOWN_SUFFIX),
    "10GiB": ('unknown suffix "GiB"', 'write "10Gi"', FORMAT_WRONG),
    "10 bytes": ('unknown suffix " bytes"', 'write "10"', FORMAT_WRONG),
    "1i": ('unknown suffix "i"', 'write "1"', UNKNOWN_SUFFIX),
    "5+3": (
        'unknown suffix "+3"',
        "use one of n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, or an exponent such as e3",
        UNKNOWN_SUFFIX,
    ),
    "１０": ("it does not start with a number", 'write a number such as "10Gi"', FORMAT_WRONG),
    "ten": ("it does not start with a number", 'write a number such as "10Gi"', FORMAT_WRONG),
    "Ei": ("it does not start with a number", 'write a number such as "10Gi"', NOT_NUMERIC),
    "--5": ("it has more than one sign", 'write "-5"', UNKNOWN_SUFFIX),
    "1.2.3": ("it has more than one decimal point", 'write a number such as "1.5Gi"', FORMAT_WRONG),
    "1,000Gi": ("its digits are grouped", 'write "1000Gi"', FORMAT_WRONG),
    "1e": ("its exponent has no digits", 'write "1e3" for thousands', UNKNOWN_SUFFIX),
    "1e1001": ("its exponent is beyond ±1000", 'write a number such as "10Gi"', UNKNOWN_SUFFIX),
    " 10Gi": ("it has spaces around it", 'write "10Gi"', FORMAT_WRONG),
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_text_that_is_no_quantity_says_what_to_write_instead(text: str) -> None:
    problem, remedy, upstream_message = REFUSED[text]
    with pytest.raises(InvalidQuantity) as refused:
        Quantity.parse(text)
    assert str(refused.value) == f'"{text}" is not a quantity: {problem}; {remedy}'
    assert (refused.value.text, refused.value.field, refused.value.problem) == (text, "", problem)
    assert refused.value.upstream_message == upstream_message


def test_the_error_names_the_field() -> None:
    with pytest.raises(InvalidQuantity) as refused:
        Quantity.parse("10 GB", field="spec.resources.requests.storage")
    assert str(refused.value) == (
        'spec.resources.requests.storage="10 GB" is not a quantity: unknown suffix " GB"; write "10G" or "10Gi"'
    )


def test_clients_see_upstreams_words_for_a_malformed_quantity() -> None:
    assert FORMAT_WRONG == (
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )


def test_an_endless_text_is_refused_and_not_repeated_in_full() -> None:
    with pytest.raises(InvalidQuantity) as refused:
        Quantity.parse("1" * 100_000)
    assert str(refused.value) == (
        f'"{"1" * 60}…" is not a quantity: it has more than 1000 characters; write a number such as "10Gi"'
    )


def test_quantities_are_equal_and_ordered_by_value_whatever_their_family() -> None:
    assert q("1000m") == q("1") == q("1e0")
    assert hash(q("1024")) == hash(q("1Ki"))
    assert q("1Gi") > q("1G") >= q("1000M") > q("999999999999999999n")
    assert q("1") != 1
    with pytest.raises(TypeError):
        _ = q("1") < 1  # type: ignore[operator]  # that it is refused is the point


def test_a_sum_keeps_the_family_of_its_first_term() -> None:
    # 1 Gi + 1024 = 1048577 Ki; in decimal it is 1073742848.
    assert str(q("1Gi") + q("1024")) == "1048577Ki"
    assert str(q("1024") + q("1Gi")) == "1073742848"
    assert str(q("1Gi") - q("512Mi")) == "512Mi"


def test_a_zero_takes_the_family_of_the_other_term() -> None:
    assert str(q("0") + q("1Gi")) == "1Gi"
    assert str(q("0") - q("1Gi")) == "-1Gi"
    assert (q("0") + q("0Ki")).format is Format.BINARY_SI


def test_minus_and_sign() -> None:
    assert str(-q("1500m")) == "-1500m"
    assert [q(text).sign() for text in ("-1n", "0", "1n")] == [-1, 0, 1]
    assert q("0Gi").is_zero() and not q("1n").is_zero()


def test_what_is_beyond_every_suffix_is_written_in_full() -> None:
    # Upstream writes "1" here. 999 E + 1 E = 1000 E, and 1024 Ei is past the cap only when it is read.
    assert str(q("999E") + q("1E")) == "1000E"
    assert str(Quantity.from_bytes(2**70)) == "1024Ei"


def test_negative_numbers_round_away_from_zero_on_every_path() -> None:
    # 0.0005 Gi = 536870.912
    assert q("-0.0005Gi").value() == -536871
    assert q("-0.1n").milli_value() == -1


def test_a_resource_list_keeps_nothing_finer_than_a_thousandth() -> None:
    assert str(q("1.123456").round_up_to_milli()) == "1124m"
    assert str(q("1n").round_up_to_milli()) == "1m"
    assert str(q("-1n").round_up_to_milli()) == "-1m"
    assert str(q("1.500").round_up_to_milli()) == "1.500"


def test_numbers_of_json_are_read_as_their_text() -> None:
    assert [str(Quantity.of(value)) for value in (10, 1.5, 0.001, 1e21, -3)] == ["10", "1500m", "1m", "1e+21", "-3"]
    assert str(Quantity.of(" 10Gi ")) == "10Gi"
    assert str(Quantity.of(None)) == "0"
    with pytest.raises(InvalidQuantity) as refused:
        Quantity.of(True, field="spec.capacity")
    assert str(refused.value) == (
        'spec.capacity="true" is not a quantity: it does not start with a number; write a number such as "10Gi"'
    )


def test_counts_and_sizes_have_their_own_family() -> None:
    assert str(Quantity.from_int(5000)) == "5k"
    assert str(Quantity.from_bytes(5 * 2**30)) == "5Gi"
    assert repr(Quantity.from_bytes(5 * 2**30)) == "Quantity('5Gi')"


def test_a_quantity_does_not_change_but_can_be_copied() -> None:
    ten = q("10Gi")
    with pytest.raises(AttributeError, match="a Quantity does not change: cannot set _nanos"):
        ten._nanos = 0
    for other in (copy.deepcopy(ten), pickle.loads(pickle.dumps(ten))):
        assert (other, str(other), other.format) == (ten, "10Gi", Format.BINARY_SI)


class Request(msgspec.Struct):
    storage: Quantity


def test_msgspec_carries_quantities_through_its_hooks() -> None:
    decoded = msgspec.json.decode(
        b'{"storage": "0.5Gi"}', type=Request, dec_hook=lambda _, value: Quantity.of(value, field="storage")
    )
    assert decoded.storage == Quantity.from_bytes(512 * 2**20)
    assert msgspec.json.encode(decoded, enc_hook=str) == b'{"storage":"512Mi"}'
