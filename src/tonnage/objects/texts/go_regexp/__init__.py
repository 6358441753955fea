"""Regular expressions as Go reads them (RE2): what schemas and drivers written in Go match with, judged as they judge.

    compile_go(r"^data-[[:digit:]]+$").search("data-12")          # True

Python's own expressions differ where it hurts: they take back references and look-around that Go refuses, do not know
`[[:alpha:]]` and `\\z`, and a pattern such as `(a+)+$` may take them longer than a program lives. Here a pattern is
read by `syntax` and run by `matching` as a small machine that is in many states at once and reads the text once, so
that no pattern takes long. What is asked is whether a text matches, not where: groups capture nothing, and lazy means
the same as greedy.
"""

from __future__ import annotations

from tonnage.objects.texts.go_regexp.matching import GoRegexp, compile_go
from tonnage.objects.texts.go_regexp.syntax import InvalidPattern

__all__ = ["GoRegexp", "InvalidPattern", "compile_go"]
