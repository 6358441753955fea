"""Readable numbers and round axis steps: bytes in binary units, times in clock units."""

from __future__ import annotations

import math
from typing import Final

_UNITS: Final = (" bytes", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_TIME_STEPS_S: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip
MOST_TICKS: Final = 6


def bytes_text(number: float) -> str:
    """About three digits and Kubernetes' suffix: 1.5Ti, 180Gi; below 1Ki the exact number."""
    if not number:
        return "0"
    size, unit = float(number), 0
    while abs(size) >= 1023.95 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{_plain(round(size, 0 if abs(size) >= 100 else 1))}{_UNITS[unit]}"


def percent_text(ratio: float) -> str:
    return f"{_plain(round(ratio * 100, 1))} %"


def time_text(seconds: float) -> str:
    """The two largest units: 90 s is 1m30s, 26 h is 1d2h."""
    if seconds < 60:
        return f"{_plain(round(seconds, 3 if seconds < 1 else 1))}s"
    left, parts = round(seconds), []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count:,}{unit}")
    return "".join(parts[:2])


def number_text(number: float) -> str:
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.3f}".rstrip("0")


def count_text(count: int, one: str, several: str = "") -> str:
    """1 pod, 2 pods."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def number_ticks(highest: float, *, whole: bool = False) -> list[float]:
    """From 0 in steps of 1, 2 or 5 times a power of ten, up to the first step that reaches `highest`."""
    if not highest > 0 or not math.isfinite(highest):
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(highest / MOST_TICKS))
    step = next(each * power for each in (1, 2, 5, 10) if each * power * MOST_TICKS >= highest * (1 - 1e-9))
    return _steps(max(step, 1.0) if whole else step, highest)


def byte_ticks(highest: float) -> list[float]:
    """From 0 in round steps of a binary unit; the last one is the scale of bars: a full line that holds `highest`."""
    unit = 1.0
    while unit * 1024 <= highest and unit < 1024.0 ** (len(_UNITS) - 1):
        unit *= 1024
    return [tick * unit for tick in number_ticks(highest / unit, whole=unit == 1.0)]


def time_ticks(highest_s: float) -> list[float]:
    """From 0 in steps of clock units; the last is not above `highest_s`, where time ends."""
    fitting = (each for each in _TIME_STEPS_S if each * MOST_TICKS >= highest_s)
    step = float(next(fitting, 0)) or 604800.0 * math.ceil(highest_s / MOST_TICKS / 604800)
    if highest_s < MOST_TICKS:
        return [tick for tick in number_ticks(highest_s) if tick <= highest_s] if highest_s > 0 else [0.0]
    return [step * number for number in range(int(highest_s // step) + 1)]


def _steps(step: float, highest: float) -> list[float]:
    count = max(1, math.ceil(highest / step - 1e-9))
    return [float(f"{step * number:.12g}") for number in range(count + 1)]


def _plain(number: float) -> str:
    return f"{number:g}" if abs(number) < 100_000 else f"{number:,.0f}"
