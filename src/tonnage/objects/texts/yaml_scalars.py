"""What a bare word of YAML is to Go: the words of YAML 1.1, but no base 60 and no dates."""

from __future__ import annotations

import math
import re
from typing import Any

_MIN_INT64, _MAX_UINT64 = -(2**63), 2**64 - 1
_MAX_DIGITS = 64
"""Of any integer of 64 bits, in base 2. A longer one is a fraction or a text, and is not counted out to see that."""
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_BASES = (16, 2, 8, 10)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


def meaning(text: str) -> Any:
    """The value of a scalar without quotes and tag. Mirrors resolve of go-yaml v2."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text.replace("_", "") if text[0] != "." else text
    if found := _INTEGER.fullmatch(plain):
        digits, base = next((digits, base) for digits, base in zip(found.groups()[1:], _BASES, strict=True) if digits)
        if len(digits.lstrip("0")) <= _MAX_DIGITS:
            number = int(f"{found[1]}{digits.lstrip('0') or '0'}", base)
            if _MIN_INT64 <= number <= _MAX_UINT64:
                return number
    if _FLOAT.fullmatch(plain) and math.isfinite(value := float(plain)):
        return value
    return text
