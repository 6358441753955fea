"""Go's regular expressions (RE2), read into a small tree. What Go refuses is refused, in Go's words.

There are no back references and no looking around in RE2. Flags `i`, `m`, `s` and `U` are read, the last without
effect: whether a repetition is greedy never changes whether a text matches. Perl's classes mean ASCII, as in Go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tonnage.errors import TonnageError
from tonnage.objects.texts.go_regexp.characters import (
    PERL,
    POSIX,
    Predicate,
    any_char,
    folded,
    inverse,
    not_newline,
    one,
    one_of,
    unicode_class,
)

MAX_PATTERN_CHARS = 10_000
MAX_REPEAT = 1000
"""Go's limit of a counted repetition."""
MAX_DEPTH = 100
"""Of groups within groups. Go takes 1000; a tree so deep is nobody's pattern."""


class InvalidPattern(TonnageError):
    """A pattern that Go would not compile, or that has what is not read here. `problem` is in Go's words."""

    def __init__(self, pattern: str, problem: str) -> None:
        self.pattern = pattern
        self.problem = problem
        super().__init__(f'"{pattern}" is not a regular expression as Go reads them: {problem}')


@dataclass(frozen=True, slots=True)
class Chars:
    """One character that the predicate accepts."""

    accepts: Predicate


@dataclass(frozen=True, slots=True)
class Assertion:
    """A place in the text: `^`, `$`, `\\A`, `\\z`, `\\b`, `\\B`; the first two in lower case are those of a line."""

    kind: str


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    choices: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`most` None: without end."""

    node: Node
    least: int
    most: int | None


Node = Chars | Assertion | Sequence | Either | Repeat


def parse(pattern: str) -> Node:
    """The tree of a pattern. Raises InvalidPattern."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise InvalidPattern(pattern, f"expression too large: {len(pattern)} characters")
    return _Parser(pattern).whole()


@dataclass(frozen=True, slots=True)
class _Flags:
    ignore_case: bool = False
    multi_line: bool = False
    dot_takes_newline: bool = False


_PLACES = {"A": "start", "z": "end", "b": "word boundary", "B": "no word boundary"}
_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_REPEAT = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_GROUP = re.compile(r"\(\?P?<([^>]*)>")
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.names: set[str] = set()

    def wrong(self, why: str, what: str | None = None) -> InvalidPattern:
        return InvalidPattern(self.text, f"{why}: `{what}`" if what is not None else why)

    def whole(self) -> Node:
        node, _ = self.either(_Flags())
        if self.at < len(self.text):
            raise self.wrong("unexpected )", self.text)
        return node

    def either(self, flags: _Flags) -> tuple[Node, _Flags]:
        choices: list[Node] = []
        while True:
            node, flags = self.sequence(flags)
            choices.append(node)
            if self.at >= len(self.text) or self.text[self.at] != "|":
                break
            self.at += 1
        return (choices[0] if len(choices) == 1 else Either(tuple(choices))), flags

    def sequence(self, flags: _Flags) -> tuple[Node, _Flags]:
        parts: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            char = self.text[self.at]
            if char == "(":
                node, flags = self.group(flags)
                if node is None:
                    continue
            elif char in "*+?" or (char == "{" and _REPEAT.match(self.text, self.at)):
                raise self.wrong("missing argument to repetition operator", self.operator())
            else:
                node = self.atom(char, flags)
            parts.append(self.repeated(node))
        return Sequence(tuple(parts)), flags

    def operator(self) -> str:
        counted = _REPEAT.match(self.text, self.at)
        return counted[0] if counted else self.text[self.at]

    def repeated(self, node: Node) -> Node:
        started, times = self.at, 0
        while self.at < len(self.text):
            char = self.text[self.at]
            before = self.at
            if char in "*+?":
                least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
                self.at += 1
            elif counted := _REPEAT.match(self.text, self.at) if char == "{" else None:
                least = int(counted[1]) if len(counted[1]) < 6 else MAX_REPEAT + 1
                most = least if not counted[2] else _count(counted[3])
                if least > MAX_REPEAT or (most is not None and (most > MAX_REPEAT or most < least)):
                    raise self.wrong("invalid repeat count", counted[0])
                self.at = counted.end()
            else:
                break
            if self.text[self.at : self.at + 1] == "?":
                self.at += 1
            times += 1
            if times > 1:
                raise self.wrong("invalid nested repetition operator", self.text[started : self.at])
            started = before
            node = Repeat(node, least, most)
        return node

    def group(self, flags: _Flags) -> tuple[Node | None, _Flags]:
        inner = flags
        if self.text.startswith("(?", self.at):
            if named := _GROUP.match(self.text, self.at):
                if not re.fullmatch(r"[A-Za-z0-9_]+", named[1], re.ASCII):
                    raise self.wrong("invalid named capture", named[0])
                if named[1] in self.names:
                    raise self.wrong("duplicate capture group name", named[1])
                self.names.add(named[1])
                self.at = named.end()
            elif switched := _FLAGS.match(self.text, self.at):
                if not switched[1] and switched[3] == ")" and not switched[2]:
                    raise self.wrong("missing argument to repetition operator", "?")
                inner = _switched(flags, switched[1], switched[2] or "")
                self.at = switched.end()
                if switched[3] == ")":
                    return None, inner
            else:
                raise self.wrong("invalid or unsupported Perl syntax", self.text[self.at : self.at + 3])
        else:
            self.at += 1
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.wrong("expression nests too deeply", self.text)
        node, _ = self.either(inner)
        self.depth -= 1
        if self.at >= len(self.text):
            raise self.wrong("missing closing )", self.text)
        self.at += 1
        return node, flags

    def atom(self, char: str, flags: _Flags) -> Node:
        if char == "[":
            return Chars(folded(self.char_class(), flags.ignore_case))
        if char == "\\":
            return self.escape(flags)
        self.at += 1
        if char == ".":
            return Chars(any_char if flags.dot_takes_newline else not_newline)
        if char == "^":
            return Assertion("line start" if flags.multi_line else "start")
        if char == "$":
            return Assertion("line end" if flags.multi_line else "end")
        return Chars(folded(one(char), flags.ignore_case))

    def escape(self, flags: _Flags) -> Node:
        following = self.text[self.at + 1 : self.at + 2]
        if following in _PLACES:
            self.at += 2
            return Assertion(_PLACES[following])
        if following == "Q":
            end = self.text.find("\\E", self.at + 2)
            quoted = self.text[self.at + 2 : end if end >= 0 else len(self.text)]
            self.at = end + 2 if end >= 0 else len(self.text)
            return Sequence(tuple(Chars(folded(one(char), flags.ignore_case)) for char in quoted))
        known = self.known_class()
        return Chars(known if known is not None else folded(one(self.escaped_char()), flags.ignore_case))

    def known_class(self) -> Predicate | None:
        """`\\d`, `\\pL` and their kin, at this place; None when it is something else."""
        following = self.text[self.at + 1 : self.at + 2]
        if following in PERL:
            self.at += 2
            return PERL[following]
        if following not in ("p", "P") or not following:
            return None
        found = re.compile(r"\\[pP](?:\{(\^?)([^}]*)\}|(.))", re.DOTALL).match(self.text, self.at)
        if found is None:
            raise self.wrong("invalid character class range", self.text[self.at :])
        predicate = unicode_class(found[3] or found[2])
        if predicate is None:
            raise self.wrong("invalid character class range", found[0])
        self.at = found.end()
        return inverse(predicate) if (following == "P") is not bool(found[1]) else predicate

    def escaped_char(self) -> str:
        """One escaped character, at this place."""
        text, at = self.text, self.at
        following = text[at + 1 : at + 2]
        if not following:
            raise self.wrong("trailing backslash at end of expression", "")
        if following in _CONTROLS:
            self.at += 2
            return _CONTROLS[following]
        if found := re.compile(r"\\x(?:\{([0-9A-Fa-f]{1,8})\}|([0-9A-Fa-f]{2}))").match(text, at):
            code = int(found[1] or found[2], 16)
            if code > 0x10FFFF:
                raise self.wrong("invalid escape sequence", found[0])
            self.at = found.end()
            return chr(code)
        if found := re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})").match(text, at):
            self.at = found.end()
            return chr(int(found[1], 8))
        if following.isascii() and not following.isalnum():
            self.at += 2
            return following
        raise self.wrong("invalid escape sequence", text[at : at + 2])

    def char_class(self) -> Predicate:
        started = self.at
        self.at += 1
        negated = self.text.startswith("^", self.at)
        self.at += negated
        singles: set[str] = set()
        ranges: list[tuple[str, str]] = []
        classes: list[Predicate] = []
        first = True
        while first or not self.text.startswith("]", self.at):
            first = False
            if self.at >= len(self.text):
                raise self.wrong("missing closing ]", self.text[started:])
            if posix := re.compile(r"\[:(\^?)([a-z]+):\]").match(self.text, self.at):
                if posix[2] not in POSIX:
                    raise self.wrong("invalid character class range", posix[0])
                self.at = posix.end()
                classes.append(inverse(POSIX[posix[2]]) if posix[1] else POSIX[posix[2]])
                continue
            if self.text[self.at] == "\\" and (known := self.known_class()) is not None:
                classes.append(known)
                continue
            at = self.at
            low = self.class_char(started)
            if self.text.startswith("-", self.at) and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self.class_char(started)
                if high < low:
                    raise self.wrong("invalid character class range", self.text[at : self.at])
                ranges.append((low, high))
            else:
                singles.add(low)
        self.at += 1
        found = one_of(frozenset(singles), tuple(ranges), tuple(classes))
        return inverse(found) if negated else found

    def class_char(self, started: int) -> str:
        if self.at >= len(self.text):
            raise self.wrong("missing closing ]", self.text[started:])
        if self.text[self.at] == "\\":
            return self.escaped_char()
        self.at += 1
        return self.text[self.at - 1]


def _count(digits: str) -> int | None:
    if not digits:
        return None
    return int(digits) if len(digits) < 6 else MAX_REPEAT + 1


def _switched(flags: _Flags, on: str, off: str) -> _Flags:
    def has(flag: str, now: bool) -> bool:
        return flag not in off and (now or flag in on)

    return _Flags(has("i", flags.ignore_case), has("m", flags.multi_line), has("s", flags.dot_takes_newline))
