"""Names: which are legal, and the exact sentence about one that is not. The sentences were read off kube-apiserver."""

from __future__ import annotations

import pytest

from tonnage.objects import names

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
DNS1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize("value", ["a", "a-b", "0", "1-a", "a" * 63])
def test_a_label_is_lower_case_digits_and_inner_hyphens(value: str) -> None:
    assert names.dns_label(value) == []


@pytest.mark.parametrize("value", ["", "A", "-a", "a-", "a_b", "a b", "a\n"])
def test_anything_else_is_no_label(value: str) -> None:
    assert names.dns_label(value) == [LABEL]


def test_a_label_with_dots_is_told_so() -> None:
    assert names.dns_label("a.b") == ["must not contain dots"]


def test_a_long_label_is_told_in_characters_and_counted_in_bytes() -> None:
    assert names.dns_label("a" * 64) == ["must be no more than 63 characters"]
    # 32 * 2 bytes = 64, though only 32 characters.
    assert names.dns_label("é" * 32) == ["must be no more than 63 characters", LABEL]


def test_a_subdomain_is_labels_joined_by_dots() -> None:
    assert names.dns_subdomain("a.b-c.0") == []
    assert names.dns_subdomain("a" * 253) == []
    assert names.dns_subdomain("a..b") == [SUBDOMAIN]
    assert names.dns_subdomain("a" * 254) == ["must be no more than 253 characters"]


def test_a_service_name_starts_with_a_letter() -> None:
    assert names.dns1035_label("a1") == []
    assert names.dns1035_label("1a") == [DNS1035]


@pytest.mark.parametrize("value", ["a", "A_b.c-1", "example.com/A", "x" * 63])
def test_a_key_is_a_name_with_an_optional_prefix(value: str) -> None:
    assert names.label_key(value) == []
    assert names.qualified_name(value) == []


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("", ["name part must be non-empty", f"name part {KEY}"]),
        ("/a", ["prefix part must be non-empty"]),
        ("a/", ["name part must be non-empty", f"name part {KEY}"]),
        ("A/b", [f"prefix part {SUBDOMAIN}"]),
        ("x" * 64, ["name part must be no more than 63 bytes"]),
        ("x" * 254 + "/a", ["prefix part must be no more than 253 bytes"]),
        (
            "a/b/c",
            [f"a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"],
        ),
    ],
)
def test_each_fault_of_a_key_has_its_sentence(value: str, told: list[str]) -> None:
    assert names.label_key(value) == told


def test_a_label_value_may_be_empty() -> None:
    assert names.label_value("") == []
    assert names.label_value("A.b_c-1") == []
    assert names.label_value("x" * 64) == ["must be no more than 63 bytes"]
    assert names.label_value("-a") == [
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
        "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
        "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    ]


def test_any_name_must_fit_into_a_segment_of_a_path() -> None:
    assert names.path_segment("system:Any Thing") == []
    assert names.path_segment("..") == ["may not be '..'"]
    assert names.path_segment("a/%b") == ["may not contain '/'", "may not contain '%'"]


def test_the_case_of_a_csi_driver_does_not_matter() -> None:
    assert names.csi_driver_name("Pools.Example.COM") == []
    assert names.csi_driver_name("a_b") == [SUBDOMAIN]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("http", []),
        ("p-80", []),
        ("a" * 16, ["must be no more than 15 characters"]),
        ("80", ["must contain at least one letter (a-z)"]),
        ("a--b", ["must not contain consecutive hyphens"]),
        ("-a", ["must not begin or end with a hyphen"]),
        (
            "",
            [
                "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "must contain at least one letter (a-z)",
            ],
        ),
    ],
)
def test_a_port_name_is_short_and_has_a_letter(value: str, told: list[str]) -> None:
    assert names.port_name(value) == told


def test_a_port_number_is_within_its_range() -> None:
    assert names.port_number(1) == names.port_number(65535) == []
    assert names.port_number(0) == ["must be between 1 and 65535, inclusive"]


def test_an_environment_variable_is_printable_and_has_no_equals_sign() -> None:
    assert names.env_var_name("1 Strange: name") == []
    assert names.env_var_name("") == ["environment variable name must be non-empty"]
    assert names.env_var_name("a=b") == [
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
    ]


def test_a_config_key_does_not_climb() -> None:
    assert names.config_key("a.b_C-1") == []
    assert names.config_key("..") == ["must not be '..'"]
    assert names.config_key("..a") == ["must not start with '..'"]
    assert names.config_key("a/b") == [
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
        "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
    ]


def test_the_smaller_rules() -> None:
    assert names.percent("5%") == names.http_header_name("X-A") == []
    assert names.percent("5") == [
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used "
        "for validation is '[0-9]+%')"
    ]
    assert names.http_header_name("X A") == [
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
        "validation is '[-A-Za-z0-9]+')"
    ]


def test_a_prefix_of_a_name_may_end_with_a_dash() -> None:
    assert names.name_prefix("web-", names.dns_subdomain) == []
    # Upstream's mask eats the character before the dash as well: "a_-" is judged as "aa".
    assert names.name_prefix("a_-", names.dns_subdomain) == []
    assert names.name_prefix("-", names.dns_subdomain) == [SUBDOMAIN]
