"""Regular expressions of Go (RE2), for schemas and drivers that are written for Go.

Python's `re` accepts back references and look-around, which Go refuses, does not know `[[:alpha:]]`, and may run
practically for ever on a pattern such as `(a+)+$`. RE2 reads a text once, whatever the pattern.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import re2

from tonnage.errors import TonnageError

_MAX_BYTES: Final = 1 << 20
"""Memory of one compiled pattern: counted repetitions are expanded, and Go refuses repetitions that multiply too."""


class InvalidPattern(TonnageError):
    """A pattern that Go would not compile. `problem` is in Go's words."""

    def __init__(self, pattern: str, problem: str) -> None:
        self.pattern = pattern
        self.problem = problem
        super().__init__(f'"{pattern}" is not a regular expression as Go reads them: {problem}')


class GoRegexp:
    """A compiled pattern, made by `compile_go`. As Go's MatchString, a match anywhere in the text counts."""

    def __init__(self, pattern: str) -> None:
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MAX_BYTES
        options.never_capture = True
        self.pattern = pattern
        try:
            self._compiled: Any = re2.compile(pattern, options=options)
        except re2.error as exc:
            raise InvalidPattern(pattern, _in_go_words(exc)) from None
        except UnicodeEncodeError:
            raise InvalidPattern(pattern, "invalid UTF-8") from None

    def search(self, text: str) -> bool:
        try:
            return self._compiled.search(text) is not None
        except UnicodeEncodeError:  # a lone surrogate; Go would read a replacement character
            return self._compiled.search(text.encode("utf-8", "replace").decode()) is not None


@lru_cache(maxsize=512)
def compile_go(pattern: str) -> GoRegexp:
    """Compile a pattern; the last few hundred are cached. Raises InvalidPattern."""
    return GoRegexp(pattern)


_GO_WORDS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
    "pattern too large - compile failed": "expression too large",
}
"""RE2's errors that Go words differently."""


def _in_go_words(error: Exception) -> str:
    """`missing ): (ab` in Go's words: missing closing ): `(ab`."""
    told = error.args[0]
    text = told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
    if text.startswith("trailing \\"):
        return "trailing backslash at end of expression"
    kind, _, what = text.partition(": ")
    kind = _GO_WORDS.get(kind, kind)
    return f"{kind}: `{what}`" if what else kind
