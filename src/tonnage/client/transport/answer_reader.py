"""Parses HTTP/1.1 answers strictly by RFC 9112: what can be read in two ways is refused.

If two readers disagree about the end of an answer, the rest of one is taken for the beginning of the next. So the
grammar is strict, one answer is read at a time, and bytes beyond it are reported (`closes`). Everything is bounded, far
above what API servers send; work is linear in the bytes. A watch is an answer whose body is taken while it comes. Why
it is written here: docs/decisions, "Answers are read by the letter".
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator
from typing import Final, TypeVar

from tonnage.client.transport.wire import HttpResponse

MAX_HEAD_BYTES: Final = 1 << 16
"""Status line and headers, including those of 1xx answers. Ours and upstream's stay below 8 KiB."""
MAX_HEADERS: Final = 1000
"""Headers of one answer; a large one has a dozen, and a Warning for each unknown field."""
MAX_ANNOUNCEMENTS: Final = 5
"""1xx answers before the final one: Go's net/http allows as many."""
MAX_CHUNK_LINE_BYTES: Final = 4096
"""A chunk's size line with its extensions: Go's maxLineLength."""
MAX_CHUNK_WASTE_BYTES: Final = 1 << 14
"""Chunk lines may take in all so much beyond 16 bytes per chunk and the chunks' own size: Go's bound."""
MAX_TRAILER_BYTES: Final = 1 << 14
MAX_BODY_BYTES: Final = 256 << 20
"""A body, as sent and as inflated; of a stream, what is not yet taken. The largest are lists: 500 objects a page, of at
most 1.5 MiB; all pods of a cluster at once, asked for when a page has expired, are 30,000 of 8 KiB in this."""

_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_VALUE: Final = rb"[\t\x20-\x7e\x80-\xff]*"  # no control character but the tab
# No two parts of these match the same byte, so matching is linear for any input.
_HEAD: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: %s)?\r\n((?:%s:%s\r\n)*)\r\n" % (_VALUE, _TOKEN, _VALUE))
_HEADER: Final = re.compile(r"([^:\r\n]+):([^\r\n]*)\r\n")
_TRAILERS: Final = re.compile(rb"(?:%s:%s\r\n)*\r\n" % (_TOKEN, _VALUE))
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;%s)?\r\n" % _VALUE)
_LENGTH: Final = re.compile(r"[0-9]{1,19}")
_LISTS: Final = frozenset(("connection", "transfer-encoding", "content-encoding", "content-length"))
"""Headers that decide where an answer ends and what it holds: all their lines count, not only the last."""

R = TypeVar("R")
Steps = Generator[None, None, R]
"""A part of the parser: it yields when it needs more bytes."""


class NotHttp(Exception): ...


class AnswerReader:
    """Reads one answer after the other; call `expect` before each. `head` is set once the head is complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.expect()

    def expect(self, *, to_head: bool = False) -> None:
        """Begin a new answer; an answer to a HEAD request has no body, whatever its headers say."""
        self.has_begun = self._has_ended = False
        self.head: HttpResponse | None = None
        self._pieces: list[bytes] = []
        self._sent_bytes = 0  # of the body
        self.held_bytes = 0  # of the body as it is passed on
        self._is_zipped = False
        self._inflating: zlib._Decompress | None = None
        self._reading = self._answer(to_head)

    def feed(self, data: bytes) -> HttpResponse | None:
        """The answer once it is complete, else None. Raises NotHttp."""
        self.has_begun = True
        self._buffer += data
        return self._go_on()

    def end(self) -> HttpResponse | None:
        """The connection has ended: the answer, if it is one that ends so. Raises NotHttp."""
        self._has_ended = True
        return self._go_on()

    def take(self) -> bytes:
        """The body so far, without what was taken before."""
        taken = b"".join(self._pieces)
        self._pieces.clear()
        self._sent_bytes = self.held_bytes = 0
        return taken

    def _go_on(self) -> HttpResponse | None:
        try:
            next(self._reading)
        except StopIteration as end:
            answer: HttpResponse = end.value
            self.expect()
            return answer
        return None

    def _answer(self, to_head: bool) -> Steps[HttpResponse]:
        is_old, code, text = yield from self._head()
        headers, warnings = _headers(text)
        words = [word.strip(" \t") for word in headers.get("connection", "").lower().split(",")]
        closes = "close" in words or (is_old and "keep-alive" not in words)
        size, is_chunked = _framing(headers, is_old)
        coding = headers.get("content-encoding", "identity").lower()
        if coding not in ("gzip", "identity"):
            raise NotHttp(f"the answer is encoded as {coding[:40]!r}, which was not asked for")
        self._is_zipped = coding == "gzip"
        self.head = HttpResponse(code, b"", headers, warnings)
        if to_head or code in (204, 304):
            # Its headers describe the body of another answer; a body that comes all the same ends the connection.
            closes = closes or (code == 204 and (bool(size) or is_chunked))
        elif is_chunked:
            yield from self._chunks()
        elif size is not None:
            yield from self._body(size)
        else:
            yield from self._body_to_the_end()
        if self._inflating is not None and (not self._inflating.eof or self._inflating.unused_data):
            raise NotHttp("the answer's gzip ends too soon, or goes on after its end")
        return HttpResponse(code, self.take(), headers, warnings, closes=closes or bool(self._buffer))

    def _head(self) -> Steps[tuple[bool, int, str]]:
        """HTTP/1.0 or not, the code, and the headers' lines, of the first head that announces no other."""
        earlier_bytes = announcements = looked_at = 0
        while True:
            end = self._buffer.find(b"\r\n\r\n", looked_at)
            if (len(self._buffer) if end < 0 else end) + earlier_bytes > MAX_HEAD_BYTES:
                raise NotHttp(f"the head of the answer has no end within {MAX_HEAD_BYTES} bytes")
            if end < 0:
                if not b"HTTP/1.".startswith(self._buffer[:7]):  # another protocol: refused at once
                    first = bytes(self._buffer[:40]).partition(b"\r\n")[0]
                    raise NotHttp(f"the answer begins with {first.decode('latin-1')!r}")
                looked_at = max(0, len(self._buffer) - 3)  # an end may have begun in these bytes
                yield
                continue
            looked_at, head = 0, self._cut(end + 4)
            found = _HEAD.fullmatch(head)
            if found is None:
                raise NotHttp(_wrong_head(head))
            code = int(found[2])
            if code >= 200:
                return found[1] == b"0", code, found[3].decode("latin-1")
            # A 1xx answer precedes the final one; 101 would end HTTP, and nobody asked for that.
            earlier_bytes += len(head)
            announcements += 1
            if code == 101 or announcements > MAX_ANNOUNCEMENTS:
                raise NotHttp(f"the answer is announced by {announcements} others, the last of code {code}")

    # -- the body -----------------------------------------------------------------------------------------------------

    def _body(self, size: int) -> Steps[None]:
        self._sent_bytes += size
        _check_size(self._sent_bytes)
        while True:
            piece = self._cut(min(size, len(self._buffer)))
            size -= len(piece)
            self._hold(piece)
            if not size:
                return
            yield

    def _body_to_the_end(self) -> Steps[None]:
        while True:
            yield from self._body(len(self._buffer))
            if self._has_ended:
                return
            yield

    def _chunks(self) -> Steps[None]:
        """Chunks: a size in hexadecimal, a line end, so many bytes, a line end; the last has size 0."""
        waste_bytes = 0
        while True:
            line = yield from self._to(b"\r\n", MAX_CHUNK_LINE_BYTES, "the line of a chunk has")
            found = _CHUNK.fullmatch(line)
            if found is None:
                raise NotHttp(f"a chunk is {line[:40].rstrip().decode('latin-1')!r} bytes long")
            size = int(found[1], 16)
            waste_bytes = max(0, waste_bytes + len(line) - 16 - 2 * size)
            if waste_bytes > MAX_CHUNK_WASTE_BYTES:
                raise NotHttp("the lines of chunks take more than what is in them")
            if not size:
                break
            yield from self._body(size)
            while len(self._buffer) < 2:
                yield
            if self._cut(2) != b"\r\n":
                raise NotHttp("a chunk is longer than it says")
        # Trailers are headers that nobody reads, and an empty line.
        while len(self._buffer) < 2:
            yield
        if self._buffer.startswith(b"\r\n"):
            self._cut(2)
            return
        trailers = yield from self._to(b"\r\n\r\n", MAX_TRAILER_BYTES, "the trailers of the answer have")
        if not _TRAILERS.fullmatch(trailers):
            raise NotHttp("what follows the last chunk are no trailers")

    def _to(self, end: bytes, limit: int, what: str) -> Steps[bytes]:
        """The bytes up to and with `end`, which begins within `limit`."""
        while (at := self._buffer.find(end, 0, limit)) < 0:
            if len(self._buffer) >= limit:
                raise NotHttp(f"{what} no end within {limit} bytes")
            yield
        return self._cut(at + len(end))

    def _hold(self, piece: bytes) -> None:
        if self._is_zipped and piece:
            self._inflating = self._inflating or zlib.decompressobj(16 + zlib.MAX_WBITS)
            try:
                piece = self._inflating.decompress(piece, MAX_BODY_BYTES - self.held_bytes + 1)
            except zlib.error as exc:
                raise NotHttp(f"the answer is not gzip, as it says: {exc}") from exc
        self.held_bytes += len(piece)
        _check_size(self.held_bytes)
        if piece:
            self._pieces.append(piece)

    def _cut(self, count: int) -> bytes:
        with memoryview(self._buffer) as view:  # a slice of the bytearray would be one more copy
            piece = bytes(view[:count])
        del self._buffer[:count]
        return piece


def _headers(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Headers by lower-case name, and all Warnings."""
    lines = _HEADER.findall(text)
    if len(lines) > MAX_HEADERS:
        raise NotHttp(f"the answer has {len(lines)} headers; at most {MAX_HEADERS} are taken")
    headers: dict[str, str] = {}
    warnings = []
    for name, value in lines:
        name, value = name.lower(), value.strip(" \t")
        if name == "warning":
            warnings.append(value)
        elif name in _LISTS and name in headers:
            value = f"{headers[name]}, {value}"
        headers[name] = value
    return headers, tuple(warnings)


def _framing(headers: dict[str, str], is_old: bool) -> tuple[int | None, bool]:
    """The body's length, if it is given, and True for chunks: RFC 9112, section 6.3."""
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if length is not None or is_old or coding.lower() != "chunked":
            told = "also has a length" if length is not None else "of HTTP/1.0" if is_old else "is not understood"
            raise NotHttp(f"the answer's Transfer-Encoding {coding[:40]!r} {told}")
        return None, True
    if length is None:
        return None, False
    first, *others = length.split(", ")  # equal lines count as one
    if not _LENGTH.fullmatch(first) or any(other != first for other in others):
        raise NotHttp(f"the answer is {length[:40]!r} bytes long")
    return int(first), False


def _check_size(size: int) -> None:
    if size > MAX_BODY_BYTES:
        raise NotHttp(f"the answer is longer than {MAX_BODY_BYTES} bytes, and no more is taken")


def _wrong_head(head: bytes) -> str:
    """What is wrong with a head that does not match: its first line, or the first malformed header."""
    first, *lines = head[:-4].split(b"\r\n")
    if not re.fullmatch(rb"HTTP/1\.[01] [1-9][0-9]{2}(?: %s)?" % _VALUE, first):
        return f"the answer begins with {first[:40].decode('latin-1')!r}"
    wrong = next((line for line in lines if not re.fullmatch(rb"%s:%s" % (_TOKEN, _VALUE), line)), b"")
    return f"{wrong[:40].decode('latin-1')!r} is not a header"
