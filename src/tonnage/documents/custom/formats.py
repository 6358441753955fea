"""The string formats that a schema may ask for: for each format a function that tests a text.

The list and its details are upstream's (apiextensions' supported formats, of 1.36): `ipv4` takes octets with leading
zeros, `duration` also words (`2 weeks`), `ssn` is always eleven characters. Names are compared without dashes. An
unknown format is no rule. Every function takes time in proportion to the text.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import date
from email.headerregistry import Address
from email.utils import parseaddr
from urllib.parse import urlsplit

from tonnage.clock import parse_duration

_MAX_CHARS = 64 * 1024
_OF_ANY_LENGTH = ("byte", "password", "uri")
"""Longer texts have no other format."""


def format_check(name: str) -> Callable[[str], bool] | None:
    """The test for a format; None if the format is unknown."""
    name = name.replace("-", "")
    check = _FORMATS.get(name)
    if check is None or name in _OF_ANY_LENGTH:
        return check
    return lambda text: len(text) <= _MAX_CHARS and check(text)


def _matching(pattern: str, flags: int = re.ASCII) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.fullmatch(text) is not None


_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_is_short_name = _matching(_LABEL)
_is_ssn = _matching(r"\d{3}[- ]?\d{2}[- ]?\d{4}")
_COLOUR_PART = r"\s*(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_CARD = re.compile(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
    r"|(?:2131|1800|35\d{3})\d{11}",
    re.ASCII,
)
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WORDED_DURATION = re.compile(r"([0-9]+)\s*([A-Za-zµ]+)")
_UNITS = {"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"}
_UNIT_STARTS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text if text[:4] != "0000" else f"2000{text[4:]}")  # Go has a year 0
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    day, _, time = text.lower().partition("t")
    if not _is_date(day):
        return False
    parts = _TIME.fullmatch(time.partition("t")[0])
    return parts is not None and parts[1] <= "23" and parts[2] <= "59" and parts[3] <= "59"


def _is_duration(text: str) -> bool:
    if parse_duration(text) is not None:
        return True
    found = [unit.lower() for _, unit in _WORDED_DURATION.findall(text)]
    return any(unit in _UNITS or unit.startswith(_UNIT_STARTS) for unit in found)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An IP address as Go's sloppy parser takes it: octets may have leading zeros, zones are not allowed."""
    if len(text) > 64 or "%" in text:
        return None
    sloppy = re.sub(r"(?<![0-9a-fA-F:.])0+(?=[0-9])|(?<=\.)0+(?=[0-9])", "", text) if "." in text else text
    try:
        return ipaddress.ip_address(sloppy)
    except ValueError:
        return None


def _is_cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    found = _address(address)
    if found is None or not slash or not re.fullmatch(r"[0-9]{1,3}", bits):
        return False
    return int(bits) <= found.max_prefixlen


_is_mac = _matching(
    r"[0-9a-f]{2}(?:(?::[0-9a-f]{2}){5}|(?::[0-9a-f]{2}){7}|(?::[0-9a-f]{2}){19}"
    r"|(?:-[0-9a-f]{2}){5}|(?:-[0-9a-f]{2}){7}|(?:-[0-9a-f]{2}){19})"
    r"|[0-9a-f]{4}(?:(?:\.[0-9a-f]{4}){2}|(?:\.[0-9a-f]{4}){3}|(?:\.[0-9a-f]{4}){9})",
    re.IGNORECASE,
)


def _is_email(text: str) -> bool:
    if not text or any(ord(char) < 32 for char in text):
        return False
    _, address = parseaddr(text)
    name, at, domain = address.rpartition("@")
    if not at or not name or not domain or domain.startswith(".") or domain.endswith(".") or ".." in domain:
        return False
    try:
        Address(addr_spec=address)
    except Exception:  # the header parser raises all sorts of exceptions
        return False
    return True


def _is_hostname(text: str) -> bool:
    """Labels of letters, digits, dashes and symbols; the last of several labels has letters only."""
    if not text or len(text.encode()) > 255:
        return False
    labels = text.split(".")
    if any(not label or len(label.encode()) > 63 for label in labels):
        return False
    if any(label.startswith("-") or label.endswith("-") for label in labels):
        return False
    if not all(char.isalnum() or char in "-." or (ord(char) > 127 and not char.isspace()) for char in text):
        return False
    return len(labels) == 1 or (len(labels[-1]) >= 2 and labels[-1].isalpha())


def _is_uri(text: str) -> bool:
    """A path from the root, or an absolute URI. As Go's ParseRequestURI: no control characters, no bad escapes."""
    if not text or any(ord(char) <= 32 or ord(char) == 127 for char in text):
        return False
    if re.search(r"%(?![0-9a-fA-F]{2})", text):
        return False
    if text.startswith("/"):
        return True
    scheme, colon, rest = text.partition(":")
    if not colon or not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9+.-]*", scheme) or not rest.startswith("/"):
        # `mailto:x` has no path from the root; Go accepts it as opaque.
        return bool(colon and rest and re.fullmatch(r"[a-zA-Z][a-zA-Z0-9+.-]*", scheme) and not rest.startswith("/"))
    try:
        urlsplit(text).port  # noqa: B018  # raises for an invalid port
    except ValueError:
        return False
    return True


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    return sum(place * (10 if char == "X" else int(char)) for place, char in enumerate(digits, 1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum((3 if place % 2 else 1) * int(char) for place, char in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    doubled = [int(char) * (1 + place % 2) for place, char in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


_BASE64 = re.compile(r"[A-Za-z0-9+/]*(?:={0,2})")
_HEX4, _HEX12 = "[0-9a-f]{4}", "[0-9a-f]{12}"

_FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matching(r"[0-9a-fA-F]{24}"),
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": lambda text: "." in text and _address(text) is not None,
    "ipv6": lambda text: ":" in text and _address(text) is not None,
    "cidr": _is_cidr,
    "mac": _is_mac,
    "uuid": _matching(rf"[0-9a-f]{{8}}-?{_HEX4}-?{_HEX4}-?{_HEX4}-?{_HEX12}", re.IGNORECASE),
    "uuid3": _matching(rf"[0-9a-f]{{8}}-?{_HEX4}-?3[0-9a-f]{{3}}-?{_HEX4}-?{_HEX12}", re.IGNORECASE),
    "uuid4": _matching(rf"[0-9a-f]{{8}}-?{_HEX4}-?4[0-9a-f]{{3}}-?[89ab][0-9a-f]{{3}}-?{_HEX12}", re.IGNORECASE),
    "uuid5": _matching(rf"[0-9a-f]{{8}}-?{_HEX4}-?5[0-9a-f]{{3}}-?[89ab][0-9a-f]{{3}}-?{_HEX12}", re.IGNORECASE),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": lambda text: len(text) == 11 and _is_ssn(text),
    "hexcolor": _matching(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matching(rf"rgb\({_COLOUR_PART},{_COLOUR_PART},{_COLOUR_PART}\)"),
    "byte": lambda text: bool(text) and len(text) % 4 == 0 and _BASE64.fullmatch(text) is not None,
    "password": lambda text: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "k8sshortname": lambda text: len(text) <= 63 and _is_short_name(text),
    "k8slongname": lambda text: len(text) <= 253 and all(map(_is_short_name, text.split("."))),
}
