"""Parses HTTP/1.1 answers strictly by RFC 9112: what can be read in two ways is refused.

If two readers disagree about the end of an answer, the rest of one is taken for the beginning of the next. So the
grammar is strict, one answer is read at a time, and bytes beyond it are reported (`has_more`). Everything is bounded,
far above what API servers send; work is linear in the bytes. Why it is written here: docs/decisions, "Answers are read
by the letter".
"""

from __future__ import annotations

import re
import zlib
from typing import Final

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
"""A body, as sent and as inflated. The largest are lists: 500 objects a page, of at most 1.5 MiB; all pods of a cluster
at once, which is asked for when a page has expired, are 30,000 of 8 KiB in this."""

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


class NotHttp(Exception):
    """The answer cannot be parsed, or exceeds a limit."""


class AnswerReader:
    """Reads one answer after the other; call `expect` before each. `has_more`: bytes follow the last answer."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.expect()

    def expect(self, *, to_head: bool = False) -> None:
        """Begin a new answer; an answer to a HEAD request has no body, whatever its headers say."""
        self._to_head = to_head
        self._code = 0
        self._closes = False
        self._headers: dict[str, str] = {}
        self._warnings: tuple[str, ...] = ()
        self._parts: list[bytes] = []
        self._head_bytes = 0  # of 1xx answers
        self._announcements = 0
        self._missing = 0  # bytes of the body, or of a chunk with its line end
        self._body_bytes = 0  # of the chunks so far
        self._waste_bytes = 0
        self._is_chunked = False
        self._is_last_chunk = False
        self._until_end = False

    @property
    def has_begun(self) -> bool:
        return bool(self._code or self._announcements or self._buffer)

    @property
    def has_more(self) -> bool:
        """True if bytes follow a complete answer."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> HttpResponse | None:
        """The answer once it is complete, else None. Raises NotHttp."""
        looked_at = max(0, len(self._buffer) - 3)  # an end may have begun in the earlier bytes
        self._buffer += data
        if not self._code and not self._read_head(looked_at):
            return None
        if self._is_chunked:
            return self._read_chunks()
        if self._until_end:
            _check_size(len(self._buffer))
            return None
        if len(self._buffer) < self._missing:
            return None
        return self._complete(self._cut(self._missing))

    def end(self) -> HttpResponse | None:
        """The connection has ended: the answer, if it is one that ends so. Raises NotHttp."""
        if not self._until_end:
            return None
        return self._complete(self._cut(len(self._buffer)))

    # -- the head -----------------------------------------------------------------------------------------------------

    def _read_head(self, looked_at: int) -> bool:
        while True:
            end = self._buffer.find(b"\r\n\r\n", looked_at)
            looked_at = 0
            if (len(self._buffer) if end < 0 else end) + self._head_bytes > MAX_HEAD_BYTES:
                raise NotHttp(f"the head of the answer has no end within {MAX_HEAD_BYTES} bytes")
            if end < 0:
                self._check_beginning()
                return False
            head = self._cut(end + 4)
            found = _HEAD.fullmatch(head)
            if found is None:
                raise NotHttp(_wrong_head(head))
            code = int(found[2])
            if code >= 200:
                break
            # A 1xx answer precedes the final one; 101 would end HTTP, and nobody asked for that.
            self._head_bytes += len(head)
            self._announcements += 1
            if code == 101 or self._announcements > MAX_ANNOUNCEMENTS:
                raise NotHttp(f"the answer is announced by {self._announcements} others, the last of code {code}")
        self._code = code
        is_old = found[1] == b"0"
        self._read_headers(found[3].decode("latin-1"))
        said = self._headers.get("connection")
        if said is not None or is_old:
            words = _words(said or "")
            self._closes = "close" in words or (is_old and "keep-alive" not in words)
        self._read_framing(is_old)
        return True

    def _check_beginning(self) -> None:
        """Refuse another protocol at once, without waiting for the timeout."""
        if not b"HTTP/1.".startswith(self._buffer[:7]) and self._buffer[:7] != b"HTTP/1.":
            first = bytes(self._buffer[:40]).partition(b"\r\n")[0]
            raise NotHttp(f"the answer begins with {first.decode('latin-1')!r}")

    def _read_headers(self, text: str) -> None:
        lines = _HEADER.findall(text)
        if len(lines) > MAX_HEADERS:
            raise NotHttp(f"the answer has {len(lines)} headers; at most {MAX_HEADERS} are taken")
        headers, warnings = self._headers, []
        for name, value in lines:
            name, value = name.lower(), value.strip(" \t")
            if name == "warning":
                warnings.append(value)
            elif name in _LISTS and name in headers:
                value = f"{headers[name]}, {value}"
            headers[name] = value
        self._warnings = tuple(warnings)

    def _read_framing(self, is_old: bool) -> None:
        """Where the body ends, by the rules of RFC 9112, section 6.3, in their order."""
        coding, length = self._headers.get("transfer-encoding"), self._headers.get("content-length")
        if coding is not None and (length is not None or is_old or coding.lower() != "chunked"):
            told = "also has a length" if length is not None else "of HTTP/1.0" if is_old else "is not understood"
            raise NotHttp(f"the answer's Transfer-Encoding {coding[:40]!r} {told}")
        size = 0
        if length is not None:
            first, *others = length.split(", ")  # equal lines count as one
            if not _LENGTH.fullmatch(first) or any(other != first for other in others):
                raise NotHttp(f"the answer is {length[:40]!r} bytes long")
            size = int(first)
        if self._to_head or self._code in (204, 304):
            # Its headers describe the body of another answer; a body that comes all the same ends the connection.
            self._closes = self._closes or (self._code == 204 and (size > 0 or coding is not None))
            return
        _check_size(size)
        self._missing = size
        self._is_chunked = coding is not None
        self._until_end = length is None and coding is None

    # -- the body -----------------------------------------------------------------------------------------------------

    def _read_chunks(self) -> HttpResponse | None:
        """Read chunks: a size in hexadecimal, a line end, so many bytes, a line end; the last has size 0."""
        while not self._is_last_chunk:
            if self._missing:
                if len(self._buffer) < self._missing:
                    return None
                chunk = self._cut(self._missing)
                if not chunk.endswith(b"\r\n"):
                    raise NotHttp("a chunk is longer than it says")
                self._parts.append(chunk[:-2])
                self._missing = 0
            end = self._buffer.find(b"\r\n", 0, MAX_CHUNK_LINE_BYTES)
            if end < 0:
                if len(self._buffer) >= MAX_CHUNK_LINE_BYTES:
                    raise NotHttp(f"the line of a chunk has no end within {MAX_CHUNK_LINE_BYTES} bytes")
                return None
            line = self._cut(end + 2)
            found = _CHUNK.fullmatch(line)
            if found is None:
                raise NotHttp(f"a chunk is {line[:40].rstrip().decode('latin-1')!r} bytes long")
            size = int(found[1], 16)
            self._body_bytes += size
            _check_size(self._body_bytes)
            self._waste_bytes = max(0, self._waste_bytes + len(line) - 16 - 2 * size)
            if self._waste_bytes > MAX_CHUNK_WASTE_BYTES:
                raise NotHttp("the lines of chunks take more than what is in them")
            self._missing = size + 2
            self._is_last_chunk = size == 0
        return self._read_trailers()

    def _read_trailers(self) -> HttpResponse | None:
        """Skip the trailers after the last chunk: headers that nobody reads, and an empty line."""
        if self._buffer.startswith(b"\r\n"):
            end = -2
        else:
            end = self._buffer.find(b"\r\n\r\n", 0, MAX_TRAILER_BYTES)
            if end < 0:
                if len(self._buffer) >= MAX_TRAILER_BYTES:
                    raise NotHttp(f"the trailers of the answer have no end within {MAX_TRAILER_BYTES} bytes")
                return None
        if not _TRAILERS.fullmatch(self._cut(end + 4)):
            raise NotHttp("what follows the last chunk are no trailers")
        return self._complete(b"".join(self._parts))

    def _complete(self, body: bytes) -> HttpResponse:
        coding = self._headers.get("content-encoding", "identity").lower()
        if coding == "gzip" and body:
            body = _inflated(body)
        elif coding not in ("gzip", "identity"):
            raise NotHttp(f"the answer is encoded as {coding[:40]!r}, which was not asked for")
        answer = HttpResponse(self._code, body, self._headers, self._warnings, closes=self._closes or self.has_more)
        self.expect()
        return answer

    def _cut(self, count: int) -> bytes:
        with memoryview(self._buffer) as view:  # a slice of the bytearray would be one more copy
            piece = bytes(view[:count])
        del self._buffer[:count]
        return piece


def _words(value: str) -> list[str]:
    return [word.strip(" \t") for word in value.lower().split(",")]


def _check_size(size: int) -> None:
    if size > MAX_BODY_BYTES:
        raise NotHttp(f"the answer is longer than {MAX_BODY_BYTES} bytes, and no more is taken")


def _inflated(body: bytes) -> bytes:
    """The decompressed body; one byte above the limit is refused."""
    inflating = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        plain = inflating.decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error as exc:
        raise NotHttp(f"the answer is not gzip, as it says: {exc}") from exc
    _check_size(len(plain))
    if not inflating.eof or inflating.unused_data:
        raise NotHttp("the answer's gzip ends too soon, or goes on after its end")
    return plain


def _wrong_head(head: bytes) -> str:
    """What is wrong with a head that does not match: its first line, or the first malformed header."""
    first, *lines = head[:-4].split(b"\r\n")
    if not re.fullmatch(rb"HTTP/1\.[01] [1-9][0-9]{2}(?: %s)?" % _VALUE, first):
        return f"the answer begins with {first[:40].decode('latin-1')!r}"
    wrong = next((line for line in lines if not re.fullmatch(rb"%s:%s" % (_TOKEN, _VALUE), line)), b"")
    return f"{wrong[:40].decode('latin-1')!r} is not a header"
