"""Durations as Go writes them in configuration files: `15s`, `1m30s`, `1.5h`, `0`.

Read with the grammar of Go's time.ParseDuration and written as its Duration.String does, exact to the nanosecond, so
that a message shows `10m0s` where kube-scheduler shows it.
"""

from __future__ import annotations

import re

_UNITS_NS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_MOST_NS = 2**63 - 1
_MAX_TEXT = 1_000
"""Longer than any duration that is meant, and short enough for all its digits to be read at once."""


def parse_duration(text: str) -> float | None:
    """Seconds, or None when the text is no duration: no unit, an unknown one, or more than 292 years."""
    if len(text) > _MAX_TEXT:
        return None
    rest = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if rest == "0":
        return 0.0
    total_ns, at = 0, 0
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None or not (part[1] or part[2]):
            return None
        unit_ns, digits = _UNITS_NS[part[3]], part[2] or ""
        # Below a nanosecond is cut off, part by part, as Go does.
        total_ns += int(part[1] or "0") * unit_ns + int(digits or "0") * unit_ns // 10 ** len(digits)
        at = part.end()
    if at == 0 or total_ns > _MOST_NS:
        return None
    return (-total_ns if text.startswith("-") else total_ns) / 10**9


def format_duration(seconds: float) -> str:
    """As Go prints it: hours, minutes and seconds from one second on (`1h0m0s`), else the largest fitting unit."""
    left_ns = round(abs(seconds) * 10**9)
    sign = "-" if seconds < 0 else ""
    if left_ns == 0:
        return "0s"
    for unit in ("ns", "µs", "ms"):
        if left_ns < _UNITS_NS[unit] * 1000:
            return f"{sign}{_decimal(left_ns, _UNITS_NS[unit])}{unit}"
    minutes, second_ns = divmod(left_ns, _UNITS_NS["m"])
    hours, minutes_left = divmod(minutes, 60)
    before = f"{hours}h{minutes_left}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{before}{_decimal(second_ns, _UNITS_NS['s'])}s"


def _decimal(amount_ns: int, unit_ns: int) -> str:
    whole, rest = divmod(amount_ns, unit_ns)
    fraction = f"{rest:0{len(str(unit_ns)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{fraction}" if fraction else str(whole)
