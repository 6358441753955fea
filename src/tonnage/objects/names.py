"""The rules for every kind of name that Kubernetes has, and short names from contents.

A rule takes a text and returns upstream's sentences about its errors. Lengths are counted in bytes of UTF-8, as
upstream does, though its older sentences say "characters". The hashes are Go's hash/fnv with 32 bits: equal on every
machine and in every run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

NameRule = Callable[[str], list[str]]
"""The errors of a name, as sentences; empty if it is legal."""


class _Spelling:
    """A pattern for names, and the sentence about names that do not match."""

    def __init__(self, pattern: str, told: str, *examples: str) -> None:
        shown = " or ".join(f"'{example}', " for example in examples)
        self.matches = re.compile(pattern).fullmatch
        self.told = f"{told} (e.g. {shown}regex used for validation is '{pattern}')"

    def wrong(self, value: str) -> list[str]:
        return [] if self.matches(value) else [self.told]


_LABEL_PATTERN = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_KEY_PATTERN = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_AT_ITS_ENDS = "and must start and end with an alphanumeric character"
_LABEL = _Spelling(
    _LABEL_PATTERN,
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_AT_ITS_ENDS}",
    *("my-name", "123-abc"),
)
_SUBDOMAIN = _Spelling(
    _LABEL_PATTERN + r"(\." + _LABEL_PATTERN + ")*",
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_AT_ITS_ENDS}",
    "example.com",
)
_DNS1035_LABEL = _Spelling(
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
    *("my-name", "abc-123"),
)
_KEY = _Spelling(
    _KEY_PATTERN,
    f"must consist of alphanumeric characters, '-', '_' or '.', {_AT_ITS_ENDS}",
    *("MyName", "my.name", "123-abc"),
)
_VALUE = _Spelling(
    f"({_KEY_PATTERN})?",
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_AT_ITS_ENDS}",
    *("MyValue", "my_value", "12345"),
)
_CONFIG_KEY = _Spelling(
    "[-._a-zA-Z0-9]+",
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    *("key.name", "KEY_NAME", "key-name"),
)
_HTTP_HEADER = _Spelling(
    "[-A-Za-z0-9]+", "a valid HTTP header must consist of alphanumeric characters or '-'", "X-Header-Name"
)
_PERCENT = _Spelling(
    "[0-9]+%", "a valid percent string must be a numeric string followed by an ending '%'", "1%", "93%"
)


def dns_label(value: str) -> list[str]:
    """The name of a namespace, a container, a port of a Service: one label of RFC 1123, at most 63 bytes."""
    wrong = _at_most(value, 63, "characters")
    if not _LABEL.matches(value):
        # A legal subdomain that is no legal label has dots, and this is the more helpful sentence.
        wrong.append("must not contain dots" if _SUBDOMAIN.matches(value) else _LABEL.told)
    return wrong


def dns_subdomain(value: str) -> list[str]:
    """The name of most objects: labels joined by dots, at most 253 bytes."""
    return _at_most(value, 253, "characters") + _SUBDOMAIN.wrong(value)


def dns1035_label(value: str) -> list[str]:
    """The name of a Service: a label that starts with a letter, at most 63 bytes."""
    return _at_most(value, 63, "characters") + _DNS1035_LABEL.wrong(value)


def label_key(value: str) -> list[str]:
    """`name` or `prefix/name`: keys of labels and annotations, finalizers, resources, provisioners."""
    wrong: list[str] = []
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        told = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_KEY.told} {told}"]
    if slash and not prefix:
        wrong.append("prefix part must be non-empty")
    elif slash:
        wrong += [f"prefix part {told}" for told in _at_most(prefix, 253, "bytes") + _SUBDOMAIN.wrong(prefix)]
    if not name:
        wrong.append("name part must be non-empty")
    return wrong + [f"name part {told}" for told in _at_most(name, 63, "bytes") + _KEY.wrong(name)]


qualified_name = label_key
"""The same rule for names that are not label keys."""


def label_value(value: str) -> list[str]:
    """A label's value: empty, or up to 63 bytes that start and end with a letter or digit."""
    return _at_most(value, 63, "bytes") + _VALUE.wrong(value)


def csi_driver_name(value: str) -> list[str]:
    """The spelling of a CSI driver's name, in upper or lower case."""
    return dns_subdomain(value.lower())


def path_segment(value: str) -> list[str]:
    """Any text that fits into one segment of a URL's path: the rule for the names of all kinds."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in value]


def port_name(value: str) -> list[str]:
    """The name of a container's port: 15 bytes of lower case, digits and single inner hyphens, one letter at least."""
    wrong = _at_most(value, 15, "characters")
    if not re.fullmatch("[-a-z0-9]+", value):
        wrong.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        wrong.append("must contain at least one letter (a-z)")
    if "--" in value:
        wrong.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        wrong.append("must not begin or end with a hyphen")
    return wrong


def config_key(value: str) -> list[str]:
    """A key of a ConfigMap's or Secret's data. It becomes a file name, so it must not leave its folder."""
    wrong = _at_most(value, 253, "characters") + _CONFIG_KEY.wrong(value)
    if value in (".", ".."):
        return [*wrong, f"must not be '{value}'"]
    return [*wrong, "must not start with '..'"] if value.startswith("..") else wrong


def env_var_name(value: str) -> list[str]:
    """The name of an environment variable, by the relaxed rule, the only one since 1.34."""
    if not value:
        return ["environment variable name must be non-empty"]
    if all(" " <= char <= "~" and char != "=" for char in value):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


http_header_name, percent = _HTTP_HEADER.wrong, _PERCENT.wrong


def in_range(value: int, low: int, high: int) -> list[str]:
    return [] if low <= value <= high else [f"must be between {low} and {high}, inclusive"]


def port_number(value: int) -> list[str]:
    return in_range(value, 1, 65535)


def name_prefix(value: str, rule: NameRule) -> list[str]:
    """The errors of a generateName. It may end in a dash, because a suffix follows.

    Like upstream, replaces the last two characters by an "a", not the dash alone.
    """
    masked = value[:-2] + "a" if len(value) > 1 and value.endswith("-") else value
    return rule(masked)


def _at_most(value: str, limit: int, unit: str) -> list[str]:
    return [f"must be no more than {limit} {unit}"] if len(value.encode()) > limit else []


_OFFSET: Final = 0x811C9DC5
_PRIME: Final = 0x01000193
_MASK: Final = 0xFFFFFFFF


def fnv1(data: bytes) -> int:
    value = _OFFSET
    for byte in data:
        value = (value * _PRIME & _MASK) ^ byte
    return value


def fnv1a(data: bytes) -> int:
    value = _OFFSET
    for byte in data:
        value = (value ^ byte) * _PRIME & _MASK
    return value
