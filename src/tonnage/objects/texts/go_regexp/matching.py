"""Does a text match a pattern? Answered by a set of states that walks over the text once.

A pattern becomes an automaton (Thompson's construction). Where the automaton may be is a set of states; one character
leads from a set to the next, and such steps are remembered, so that most characters cost one look-up. Nothing is tried
twice: the time is proportional to the text, whatever the pattern.
"""

from __future__ import annotations

from functools import lru_cache

from tonnage.objects.texts.go_regexp.characters import Predicate
from tonnage.objects.texts.go_regexp.syntax import (
    Assertion,
    Chars,
    Either,
    InvalidPattern,
    Node,
    Sequence,
    parse,
)

MAX_STATES = 10_000
"""Of one pattern, counted repetitions written out."""
_MAX_REMEMBERED = 4_096
"""Steps remembered for one pattern; then the memory starts anew."""

_START, _END = "", ""  # what is before the first and after the last character
_States = frozenset[int]


class GoRegexp:
    """A compiled pattern: `compile_go` makes one. As Go's MatchString, a match anywhere in the text counts."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._chars: dict[int, tuple[Predicate, int]] = {}
        self._free: dict[int, list[tuple[str, int]]] = {}
        """State -> (assertion or empty, state): what is reached without a character."""
        self._count = 0
        begin, self._accept = self._new(), self._new()
        self._build(parse(pattern), begin, self._accept)
        self._begin: _States = frozenset({begin})
        self._looks_around = any(kind for steps in self._free.values() for kind, _ in steps)
        self._steps: dict[tuple[_States, str, str], _States | None] = {}

    def search(self, text: str) -> bool:
        """Whether the pattern matches anywhere in a text."""
        states, before = self._begin, _START
        for char in text:
            following = self._step(states, before, char)
            if following is None:
                return True
            states, before = following, char
        return self._accept in self._reach(states, before, _END)

    # -- walking ------------------------------------------------------------------------------------------------------

    def _step(self, states: _States, before: str, char: str) -> _States | None:
        """Where one character leads, beginning anew here as well; None when a match was complete before it."""
        key = (states, _kind(before) if self._looks_around else "", char)
        try:
            return self._steps[key]
        except KeyError:
            pass
        reached = self._reach(states, before, char)
        if self._accept in reached:
            following: _States | None = None
        else:
            moved = {
                target
                for state in reached
                if state in self._chars
                for accepts, target in (self._chars[state],)
                if accepts(char)
            }
            following = frozenset(moved) | self._begin
        if len(self._steps) >= _MAX_REMEMBERED:
            self._steps.clear()
        self._steps[key] = following
        return following

    def _reach(self, states: _States, before: str, after: str) -> set[int]:
        """All states reached without a character, between these two."""
        reached = set(states)
        pending = list(states)
        while pending:
            for kind, target in self._free.get(pending.pop(), ()):
                if target not in reached and (not kind or _holds(kind, before, after)):
                    reached.add(target)
                    pending.append(target)
        return reached

    # -- building -----------------------------------------------------------------------------------------------------

    def _new(self) -> int:
        if self._count >= MAX_STATES:
            raise InvalidPattern(self.pattern, f"expression too large: `{self.pattern}`")
        self._count += 1
        return self._count

    def _pass(self, source: int, target: int, kind: str = "") -> None:
        self._free.setdefault(source, []).append((kind, target))

    def _build(self, node: Node, source: int, target: int) -> None:
        """Lead from `source` to `target` by what the node matches."""
        if isinstance(node, Chars):
            here = self._new()
            self._pass(source, here)
            self._chars[here] = (node.accepts, target)
        elif isinstance(node, Assertion):
            self._pass(source, target, node.kind)
        elif isinstance(node, Sequence):
            for part in node.parts:
                following = self._new()
                self._build(part, source, following)
                source = following
            self._pass(source, target)
        elif isinstance(node, Either):
            for choice in node.choices:
                self._build(choice, source, target)
        else:
            for _ in range(node.least):
                following = self._new()
                self._build(node.node, source, following)
                source = following
            if node.most is None:
                loop = self._new()
                self._pass(source, loop)
                self._build(node.node, loop, loop)
                source = loop
            else:
                for _ in range(node.most - node.least):
                    self._pass(source, target)
                    following = self._new()
                    self._build(node.node, source, following)
                    source = following
            self._pass(source, target)


@lru_cache(maxsize=512)
def compile_go(pattern: str) -> GoRegexp:
    """Read a pattern; the last few hundred are kept. Raises InvalidPattern."""
    return GoRegexp(pattern)


def _is_word(char: str) -> bool:
    return char != "" and (char == "_" or (char.isascii() and char.isalnum()))


def _kind(char: str) -> str:
    """All that an assertion sees of a character."""
    if char in ("", "\n"):
        return char
    return "w" if _is_word(char) else "-"


def _holds(kind: str, before: str, after: str) -> bool:
    if kind == "start":
        return before == _START
    if kind == "end":
        return after == _END
    if kind == "line start":
        return before in (_START, "\n")
    if kind == "line end":
        return after in (_END, "\n")
    return (_is_word(before) is not _is_word(after)) is (kind == "word boundary")
