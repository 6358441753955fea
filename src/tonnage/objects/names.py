"""What a legal name is, for every kind of name Kubernetes has.

Each rule takes the text and returns the sentences that say what is wrong with it, none when it is legal. The sentences
are upstream's, word for word, for people search for them. Lengths are counted in bytes of UTF-8, as upstream does,
though it says "characters" in the older sentences and "bytes" in the newer ones; which says which is kept.

`metadata` and the kinds turn these sentences into field errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable

NameRule = Callable[[str], list[str]]
"""What is wrong with a name, as sentences; empty when it is legal."""
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + r"(\." + _LABEL + ")*"
_DNS1035_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_C_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_PERCENT = "[0-9]+%"
_HTTP_HEADER = "[-A-Za-z0-9]+"
_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_dns1035_label = re.compile(_DNS1035_LABEL).fullmatch
_is_key = re.compile(_KEY).fullmatch
_is_value = re.compile(_VALUE).fullmatch
_is_c_identifier = re.compile(_C_IDENTIFIER).fullmatch
_is_config_key = re.compile(_CONFIG_KEY).fullmatch
_is_percent = re.compile(_PERCENT).fullmatch
_is_http_header = re.compile(_HTTP_HEADER).fullmatch
_LABEL_TOLD = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_TOLD = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_DNS1035_LABEL_TOLD = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_KEY_TOLD = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_VALUE_TOLD = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)


def dns_label(value: str) -> list[str]:
    """A name of a namespace, a container, a port of a Service: one label of RFC 1123, at most 63 bytes."""
    wrong = _at_most(value, 63, "characters")
    if not _is_label(value):
        # What is a legal subdomain and no legal label has dots in it, and that is the more helpful thing to say.
        wrong.append(
            "must not contain dots" if _is_subdomain(value) else _pattern(_LABEL_TOLD, _LABEL, "my-name", "123-abc")
        )
    return wrong


def dns_subdomain(value: str) -> list[str]:
    """The name of most objects: labels joined by dots, at most 253 bytes."""
    return _subdomain(value, "characters")


def dns1035_label(value: str) -> list[str]:
    """The name of a Service: a label that starts with a letter, at most 63 bytes."""
    wrong = _at_most(value, 63, "characters")
    if not _is_dns1035_label(value):
        wrong.append(_pattern(_DNS1035_LABEL_TOLD, _DNS1035_LABEL, "my-name", "abc-123"))
    return wrong


def label_key(value: str) -> list[str]:
    """`name` or `prefix/name`: keys of labels and annotations, finalizers, resources, provisioners."""
    wrong: list[str] = []
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        told = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_key_pattern()} {told}"]
    if slash and not prefix:
        wrong.append("prefix part must be non-empty")
    elif slash:
        wrong += [f"prefix part {told}" for told in _subdomain(prefix, "bytes")]
    if not name:
        wrong.append("name part must be non-empty")
    else:
        wrong += [f"name part {told}" for told in _at_most(name, 63, "bytes")]
    if not _is_key(name):
        wrong.append(f"name part {_key_pattern()}")
    return wrong


qualified_name = label_key
"""The same rule under the name it has where no label is meant."""


def label_value(value: str) -> list[str]:
    """A label's value: empty, or up to 63 bytes that start and end with a letter or digit."""
    wrong = _at_most(value, 63, "bytes")
    if not _is_value(value):
        wrong.append(_pattern(_VALUE_TOLD, _VALUE, "MyValue", "my_value", "12345"))
    return wrong


def csi_driver_name(value: str) -> list[str]:
    """The spelling of a CSI driver's name; case does not matter. Presence and length are `volumes`' affair."""
    return dns_subdomain(value.lower())


def path_segment(value: str) -> list[str]:
    """A name that may be anything that fits into one segment of a URL's path: the rule that all kinds obey."""
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


def c_identifier(value: str) -> list[str]:
    told = (
        "a valid C identifier must start with alphabetic character or '_', "
        "followed by a string of alphanumeric characters or '_'"
    )
    return [] if _is_c_identifier(value) else [_pattern(told, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName")]


def config_key(value: str) -> list[str]:
    """A key of a ConfigMap's or Secret's data: it becomes a file's name, so it must not climb out of its folder."""
    wrong = _at_most(value, 253, "characters")
    if not _is_config_key(value):
        told = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        wrong.append(_pattern(told, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value in (".", ".."):
        wrong.append(f"must not be '{value}'")
    elif value.startswith(".."):
        wrong.append("must not start with '..'")
    return wrong


def env_var_name(value: str) -> list[str]:
    """The name of an environment variable, by the relaxed rule that is the only one since 1.34."""
    if not value:
        return ["environment variable name must be non-empty"]
    if all(" " <= char <= "~" and char != "=" for char in value):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def http_header_name(value: str) -> list[str]:
    told = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [] if _is_http_header(value) else [_pattern(told, _HTTP_HEADER, "X-Header-Name")]


def percent(value: str) -> list[str]:
    told = "a valid percent string must be a numeric string followed by an ending '%'"
    return [] if _is_percent(value) else [_pattern(told, _PERCENT, "1%", "93%")]


def in_range(value: int, low: int, high: int) -> list[str]:
    return [] if low <= value <= high else [f"must be between {low} and {high}, inclusive"]


def port_number(value: int) -> list[str]:
    return in_range(value, 1, 65535)


def name_prefix(value: str, rule: NameRule) -> list[str]:
    """What is wrong with a generateName: a dash at its end is fine, something will follow it.

    Upstream puts an "a" in place of the last two characters, not of the dash alone; so does this.
    """
    masked = value[:-2] + "a" if len(value) > 1 and value.endswith("-") else value
    return rule(masked)


def _key_pattern() -> str:
    return _pattern(_KEY_TOLD, _KEY, "MyName", "my.name", "123-abc")


def _subdomain(value: str, unit: str) -> list[str]:
    wrong = _at_most(value, 253, unit)
    if not _is_subdomain(value):
        wrong.append(_pattern(_SUBDOMAIN_TOLD, _SUBDOMAIN, "example.com"))
    return wrong


def _at_most(value: str, limit: int, unit: str) -> list[str]:
    return [f"must be no more than {limit} {unit}"] if len(value.encode()) > limit else []


def _pattern(told: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{told} (e.g. {shown}regex used for validation is '{pattern}')"
