"""Regular expressions as Go reads them: what drivers written in Go match with, judged as they judge.

    compile_go(r"^data-[[:digit:]]+$").search("data-12")          # True

Python's own expressions differ where it hurts: they take back references and look-around that Go refuses, do not know
`[[:alpha:]]` and `\\z`, and a pattern such as `(a+)+$` may take them longer than a program lives. Here a pattern is
a small machine that is in many states at once and reads the text once, so that no pattern takes long. What is asked is
whether a text matches, not where: groups capture nothing, and lazy means the same as greedy.

Left out are classes of Unicode (`\\pL`); a pattern that has one raises `InvalidPattern`, as one does that Go refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NoReturn

from tonnage.errors import TonnageError

_MOST_STATES: Final = 20_000
"""Counted repetition multiplies; Go has a limit as well ("expression nests too deeply", "too large")."""
_MOST_REPEATS: Final = 1000
_MOST_DEPTH: Final = 200
"""Groups in groups; Go's limit is 1000, and Python's stack is smaller."""
_MOST_TEXT: Final = 10_000

_POSIX: Final[dict[str, Callable[[str], bool]]] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "ascii": str.isascii,
    "blank": lambda c: c in "\t ",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": lambda c: c in "0123456789",
    "graph": lambda c: "!" <= c <= "~",
    "lower": lambda c: "a" <= c <= "z",
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": lambda c: c in "\t\n\v\f\r ",
    "upper": lambda c: "A" <= c <= "Z",
    "word": lambda c: c == "_" or (c.isascii() and c.isalnum()),
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}
_PERL: Final = {"d": "digit", "s": "perl space", "w": "word"}
_POSIX_OR_PERL: Final[dict[str, Callable[[str], bool]]] = {**_POSIX, "perl space": lambda c: c in "\t\n\f\r "}
_ESCAPES: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_HEX: Final = "0123456789abcdefABCDEF"

Test = Callable[[str], bool]


class InvalidPattern(TonnageError):
    """A pattern that Go would not compile, or that has what is not read here."""

    def __init__(self, pattern: str, problem: str) -> None:
        self.pattern = pattern
        self.problem = problem
        super().__init__(f'"{pattern}" is not a regular expression as Go reads them: {problem}')


@dataclass(frozen=True, slots=True)
class _Flags:
    ignores_case: bool = False
    has_lines: bool = False
    dot_is_all: bool = False


@dataclass(slots=True)
class _State:
    """One state of the machine: a character to read (`test`), a place to be at (`at`), or neither, and what follows."""

    test: Test | None = None
    at: str = ""
    follows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a pattern that was read: how it is laid out as states, in front of the state that follows it."""

    build: Callable[[list[_State], int], int]
    size: int


class GoRegexp:
    """A compiled pattern: `compile_go` makes one."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        part = _Reader(pattern).read()
        self._states: list[_State] = [_State()]  # 0 is the end
        self._start = part.build(self._states, 0)

    def search(self, text: str) -> bool:
        """Whether the pattern matches anywhere in a text, as Go's MatchString has it."""
        current: set[int] = set()
        for position in range(len(text) + 1):
            self._reach(current, self._start, text, position)
            if 0 in current:
                return True
            if position == len(text):
                return False
            char, following = text[position], set[int]()
            for number in current:
                state = self._states[number]
                if state.test is not None and state.test(char):
                    for each in state.follows:
                        self._reach(following, each, text, position + 1)
            current = following
            if 0 in current:
                return True
        return False

    def _reach(self, reached: set[int], first: int, text: str, position: int) -> None:
        """Add a state and all that can be reached from it without reading a character."""
        waiting = [first]
        while waiting:
            number = waiting.pop()
            if number in reached:
                continue
            state = self._states[number]
            if state.at and not _is_at(state.at, text, position):
                continue
            reached.add(number)
            if state.test is None:
                waiting += state.follows


@lru_cache(maxsize=256)
def compile_go(pattern: str) -> GoRegexp:
    """Read a pattern. Raises InvalidPattern."""
    return GoRegexp(pattern)


def _is_at(place: str, text: str, position: int) -> bool:
    match place:
        case "start":
            return position == 0
        case "end":
            return position == len(text)
        case "line start":
            return position == 0 or text[position - 1] == "\n"
        case "line end":
            return position == len(text) or text[position] == "\n"
        case _:
            is_word = _POSIX["word"]
            before = position > 0 and is_word(text[position - 1])
            after = position < len(text) and is_word(text[position])
            return (before != after) == (place == "word boundary")


# -- parts ------------------------------------------------------------------------------------------------------------


def _one(test: Test) -> _Part:
    def build(states: list[_State], after: int) -> int:
        states.append(_State(test=test, follows=(after,)))
        return len(states) - 1

    return _Part(build, 1)


def _place(at: str) -> _Part:
    def build(states: list[_State], after: int) -> int:
        states.append(_State(at=at, follows=(after,)))
        return len(states) - 1

    return _Part(build, 1)


def _sequence(parts: list[_Part]) -> _Part:
    def build(states: list[_State], after: int) -> int:
        for part in reversed(parts):
            after = part.build(states, after)
        return after

    return _Part(build, sum(part.size for part in parts))


def _either(parts: list[_Part]) -> _Part:
    if len(parts) == 1:
        return parts[0]

    def build(states: list[_State], after: int) -> int:
        states.append(_State(follows=tuple(part.build(states, after) for part in parts)))
        return len(states) - 1

    return _Part(build, 1 + sum(part.size for part in parts))


def _repeated(part: _Part, least: int, most: int | None) -> _Part:
    def build(states: list[_State], after: int) -> int:
        if most is None:
            states.append(_State())
            loop = len(states) - 1
            states[loop].follows = (part.build(states, loop), after)
            end = loop
        else:
            end = after
            for _ in range(most - least):
                states.append(_State(follows=(part.build(states, end), after)))
                end = len(states) - 1
        for _ in range(least):
            end = part.build(states, end)
        return end

    return _Part(build, (part.size + 1) * max(least + (1 if most is None else 0), most or 0, 1))


# -- reading ----------------------------------------------------------------------------------------------------------


class _Reader:
    """Recursive descent over a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._depth = 0
        if len(pattern) > _MOST_TEXT:
            self._fail(f"it has more than {_MOST_TEXT} characters")

    def read(self) -> _Part:
        part = self._alternatives(_Flags())
        if self._position < len(self._pattern):
            self._fail("unexpected )")
        return part

    def _fail(self, problem: str) -> NoReturn:
        raise InvalidPattern(self._pattern, problem)

    def _rest(self) -> str:
        return self._pattern[self._position :]

    def _take(self, text: str) -> bool:
        if self._pattern.startswith(text, self._position):
            self._position += len(text)
            return True
        return False

    def _next(self, missing: str) -> str:
        if self._position >= len(self._pattern):
            self._fail(missing)
        self._position += 1
        return self._pattern[self._position - 1]

    def _alternatives(self, flags: _Flags) -> _Part:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            self._fail("expression nests too deeply")
        found: list[_Part] = []
        parts: list[_Part] = []
        while self._position < len(self._pattern) and self._pattern[self._position] != ")":
            if self._take("|"):
                found.append(_sequence(parts))
                parts = []
                continue
            changed = self._flag_change(flags)
            if changed is not None:
                flags = changed
                continue
            parts += self._repetition(self._atom(flags))
        self._depth -= 1
        return _either([*found, _sequence(parts)])

    def _flag_change(self, flags: _Flags) -> _Flags | None:
        """`(?i)`: it holds to the end of its group. None where there is none; `(?i:…)` is a group."""
        close = self._pattern.find(")", self._position)
        if not self._pattern.startswith("(?", self._position) or close < 0:
            return None
        text = self._pattern[self._position + 2 : close]
        if not text or text.strip("imsU-"):
            return None
        changed = self._flags(text, flags)
        self._position = close + 1
        return changed

    def _flags(self, text: str, flags: _Flags) -> _Flags:
        on, minus, off = text.partition("-")
        if not text or (minus and not off) or "-" in off or (on + off).strip("imsU"):
            self._fail(f"invalid or unsupported Perl syntax: (?{text}")
        for letters, value in ((on, True), (off, False)):
            if "i" in letters:
                flags = replace(flags, ignores_case=value)
            if "m" in letters:
                flags = replace(flags, has_lines=value)
            if "s" in letters:
                flags = replace(flags, dot_is_all=value)
        return flags

    def _repetition(self, parts: list[_Part]) -> list[_Part]:
        """The last of some parts, repeated if that is said."""
        bounds = self._bounds()
        if bounds is None:
            return parts
        if not parts:
            self._fail("missing argument to repetition operator")
        self._take("?")
        if self._bounds() is not None:
            self._fail("invalid nested repetition operator")
        repeated = _repeated(parts[-1], *bounds)
        if repeated.size > _MOST_STATES:
            self._fail("expression too large")
        return [*parts[:-1], repeated]

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        text, brace, _ = self._rest().partition("}")
        if not text.startswith("{") or not brace:
            return None
        least, comma, most = text[1:].partition(",")
        if not _is_number(least) or (most and not _is_number(most)):
            return None  # braces that are no repetition are characters
        if max(int(least), int(most or 0)) > _MOST_REPEATS or (most and int(most) < int(least)):
            self._fail(f"invalid repeat count: {text}}}")
        self._position += len(text) + 1
        return int(least), (int(most) if most else None) if comma else int(least)

    def _atom(self, flags: _Flags) -> list[_Part]:
        if self._pattern[self._position] in "*+?":
            self._fail("missing argument to repetition operator")
        char = self._next("")
        match char:
            case "(":
                return [self._group(flags)]
            case "[":
                return [_one(self._class(flags))]
            case ".":
                return [_one((lambda c: True) if flags.dot_is_all else (lambda c: c != "\n"))]
            case "^":
                return [_place("line start" if flags.has_lines else "start")]
            case "$":
                return [_place("line end" if flags.has_lines else "end")]
            case "\\":
                return self._escape(flags)
            case _:
                return [_one(_literal(char, flags))]

    def _group(self, flags: _Flags) -> _Part:
        if self._take("?"):
            if self._take("P<") or (self._take("<") and self._rest()[:1] not in ("=", "!")):
                name, close, _ = self._rest().partition(">")
                if not close or not name.replace("_", "a").isalnum() or not name.isascii():
                    self._fail(f"invalid named capture: (?<{name}")
                self._position += len(name) + 1
            else:
                text, colon, _ = self._rest().partition(":")
                if not colon or text.strip("imsU-"):
                    self._fail("invalid or unsupported Perl syntax: (?" + self._rest()[:2])
                flags = self._flags(text, flags) if text else flags
                self._position += len(text) + 1
        part = self._alternatives(flags)
        if not self._take(")"):
            self._fail("missing closing )")
        return part

    def _escape(self, flags: _Flags) -> list[_Part]:
        places = {"A": "start", "z": "end", "b": "word boundary", "B": "no word boundary"}
        if self._rest()[:1] in places and self._rest():
            return [_place(places[self._next("")])]
        if self._take("Q"):
            text, _, _ = self._rest().partition("\\E")
            self._position = min(self._position + len(text) + 2, len(self._pattern))
            return [_one(_literal(char, flags)) for char in text]
        test = self._escaped_class()
        return [_one(test if test is not None else _literal(self._escaped_char(), flags))]

    def _escaped_class(self) -> Test | None:
        letter = self._rest()[:1]
        if letter and letter in "pP":
            self._fail("classes of Unicode characters (\\p) are not read here")
        name = _PERL.get(letter.lower())
        if name is None:
            return None
        self._position += 1
        test = _POSIX_OR_PERL[name]
        return test if letter.islower() else lambda c: not test(c)

    def _escaped_char(self) -> str:
        char = self._next("trailing backslash at end of expression")
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char == "x":
            return self._hexadecimal()
        if char == "0" or (char in "1234567" and self._rest()[:1] in tuple("01234567")):
            digits = char
            while len(digits) < 3 and self._rest()[:1] in tuple("01234567"):
                digits += self._next("")
            return chr(int(digits, 8))
        if not char.isascii() or char.isalnum():
            self._fail(f"invalid escape sequence: \\{char}")
        return char

    def _hexadecimal(self) -> str:
        has_braces = self._take("{")
        digits = self._rest().partition("}")[0] if has_braces else self._rest()[:2]
        self._position += len(digits)
        is_ended = self._take("}") if has_braces else len(digits) == 2
        if not is_ended or not digits or digits.strip(_HEX) or len(digits) > 6 or int(digits, 16) > 0x10FFFF:
            self._fail("invalid escape sequence: \\x")
        return chr(int(digits, 16))

    def _class(self, flags: _Flags) -> Test:
        is_negated = self._take("^")
        tests: list[Test] = []
        is_first = True
        while is_first or not self._take("]"):
            if self._position >= len(self._pattern):
                self._fail("missing closing ]")
            is_first = False
            posix = self._posix_class()
            if posix is not None:
                tests.append(posix)
                continue
            if self._take("\\"):
                perl = self._escaped_class()
                if perl is not None:
                    tests.append(perl)
                    continue
                low = self._escaped_char()
            else:
                low = self._next("missing closing ]")
            tests.append(_between(low, self._range_end(low), flags))
        if is_negated:
            return lambda c: not any(test(c) for test in tests)
        return lambda c: any(test(c) for test in tests)

    def _range_end(self, low: str) -> str:
        rest = self._rest()
        if not rest.startswith("-") or rest[1:2] in ("", "]"):
            return low
        self._position += 1
        high = self._escaped_char() if self._take("\\") else self._next("missing closing ]")
        if high < low:
            self._fail(f"invalid character class range: {low}-{high}")
        return high

    def _posix_class(self) -> Test | None:
        rest = self._rest()
        name, close, _ = rest[2:].partition(":]")
        if not rest.startswith("[:") or not close:
            return None
        test = _POSIX.get(name.removeprefix("^"))
        if test is None:
            self._fail(f"invalid character class range: [:{name}:]")
        self._position += len(name) + 4
        return (lambda c: not test(c)) if name.startswith("^") else test


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _literal(char: str, flags: _Flags) -> Test:
    return _between(char, char, flags)


def _between(low: str, high: str, flags: _Flags) -> Test:
    if not flags.ignores_case:
        return lambda c: low <= c <= high
    return lambda c: any(low <= each <= high for each in (c, c.lower(), c.upper()))
