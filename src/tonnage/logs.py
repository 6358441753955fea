"""Logging: one line per record, on stderr, with fields, without secrets.

    log = logs.logger("tonnage.scheduler")
    log.info("Pod bound", pod="shop/db-0", node="n1", attempts=2)

    I1115 02:29:13.000000 tonnage.scheduler] "Pod bound" pod="shop/db-0" node="n1" attempts=2
    {"ts":"2026-11-15T02:29:13.000000Z","level":"info","logger":"tonnage.scheduler","msg":"Pod bound",…

The text form is klog's, with the logger instead of file and line, and in UTC. Fields are keywords of `logger`, or
`extra=` of a plain `logging` logger. Every line, also of libraries, passes `masked` and `masked_field`, so that no
token or password is written, and `printable`, so that a record is one line.

`LogLimiter` writes at most one line per cause and interval, and counts the others in the next: strangers can cause
these lines. A cause is the logger, the level, the unformatted message and the exception's type. An API server that is
away or refuses us is one cause for all loggers (`server_cause`), logged once a minute.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

from tonnage.printable import printable, printable_json

INTERVAL_S: Final = 10.0
SERVER_INTERVAL_S: Final = 60.0
LIMITED: Final = (
    "aiohttp",
    "asyncio",
    "tonnage.listener",
    "tonnage.http_connection",
    "tonnage.apiserver",
    "tonnage.client.delegated_access",
    "tonnage.client.transport",
)
"""Loggers of requests, connections and their faults."""
_UNANSWERED: Final = re.compile(r"^[A-Z]+ (https?://[^/\s]+)\S*: (.*)$", re.DOTALL)
"""The text of a request without an answer: method, address, what happened (`Disconnected`)."""
_ANSWER: Final = re.compile(r"^the answer is (\d+)\b")
"""An answer that is no Status: for example a load balancer's page, which may differ every time."""
_IN_TROUBLE: Final = re.compile(
    r"^(Internal error occurred|Too many requests|Timeout: |apiserver not ready|etcdserver: |context deadline exceeded|"
    r"rpc error: |the server is currently unable|the server has received too many|the server was unable to return|"
    r"the server could not|storage is \(re\)initializing)"
)
"""How the errors of a server in trouble begin; the object asked about does not matter."""
_OUT_OF_STEP: Final = "not in step with the API server"
_FOLLOWING: Final = ("tonnage.client.informer", "Cannot follow")
_SAME_FOR_ALL: Final = frozenset({"No watch-list here; listing instead", "No end of the state comes; listing instead"})
"""What every informer logs about the same server."""
_FORBIDDEN: Final = re.compile(r"forbidden: (User .* cannot .*)$", re.DOTALL)
_SERVER: Final = "server"
_MAX_CAUSES: Final = 1000
"""Causes remembered at once; a library that puts values into its messages may make one per record."""

Cause = tuple[str, int, str, str]


@dataclass(slots=True)
class _Told:
    at: float
    until: float
    left_out: int = 0


class _Summary(logging.LogRecord):
    """A record of our own, which is not limited again."""


class LogLimiter(logging.Filter):
    """A handler's filter: passes the first record of a cause, counts the others of the interval."""

    def __init__(
        self,
        *,
        limited: Sequence[str] = LIMITED,
        interval_s: float = INTERVAL_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._limited = tuple(f"{name}." for name in limited)
        self._interval_s = interval_s
        self._now = now
        self._told: dict[Cause, _Told] = {}  # oldest first
        self._handler: logging.Handler | None = None
        self._lock = threading.RLock()  # records come from every thread

    def attach(self, handler: logging.Handler) -> None:
        self._handler = handler
        handler.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record, _Summary):
            return True
        with self._lock:
            return self._passes(record)

    def _passes(self, record: logging.LogRecord) -> bool:
        now = self._now()
        cause = self._cause(record)
        self._sum_up(now, cause)
        if cause is None:
            return True
        told = self._told.get(cause)
        if told is not None and now < told.until:
            told.left_out += 1
            return False
        if told is not None and told.left_out:
            record.msg = f"{record.getMessage()} ({_counted(cause, told, now)})"
            record.args = ()
        interval_s = SERVER_INTERVAL_S if cause[0] == _SERVER else self._interval_s
        self._told.pop(cause, None)
        self._told[cause] = _Told(now, now + interval_s)
        if len(self._told) > _MAX_CAUSES:
            del self._told[next(iter(self._told))]
        return True

    def _cause(self, record: logging.LogRecord) -> Cause | None:
        """The cause of a record; None for a record that is never dropped."""
        if record.levelno < logging.INFO:
            return None
        error = getattr(record, "tonnage_fields", {}).get("error")
        if isinstance(error, str):
            why = server_cause(error)
            if not why and (record.name, record.msg) == _FOLLOWING:
                why = f"{record.msg}: {error}"[:300]  # the same for all informers
            if why:
                return _SERVER, 0, why, ""
        is_limited = record.msg in _SAME_FOR_ALL or f"{record.name}.".startswith(self._limited)
        return _cause(record) if is_limited else None

    def _sum_up(self, now: float, but: Cause | None) -> None:
        """Log the counts of causes whose interval is over; `but` logs its own count when it comes again."""
        due = [(cause, told) for cause, told in self._told.items() if now >= told.until and cause != but]
        for cause, told in due:
            del self._told[cause]
            if told.left_out and self._handler is not None:
                name, level, text, _ = cause
                if name == _SERVER:
                    name, level = "tonnage.client", logging.WARNING
                    text = f"{text}: {_counted(cause, told, now)}"
                    said = _Summary(name, level, "", 0, "%s", (text,), None)
                else:
                    said = _Summary(name, level, "", 0, "%d more were left out of: %s", (told.left_out, text), None)
                self._handler.handle(said)


def _counted(cause: Cause, told: _Told, now: float) -> str:
    if cause[0] == _SERVER:
        times = "once" if told.left_out == 1 else f"{told.left_out} times"
        return f"repeated {times} in {now - told.at:.0f} s"
    return f"{told.left_out} more like it"


def server_cause(error: str) -> str:
    """The trouble with the API server or with our rights, without the object's name; empty for any other error."""
    if error == "Unauthorized":
        return "The API server does not know who we are (Unauthorized)"
    if error.startswith(_OUT_OF_STEP):
        return "The API server is not followed"
    if _IN_TROUBLE.match(error):
        return f"The API server has trouble: {error}"[:300]
    if found := _UNANSWERED.match(error):
        if answer := _ANSWER.match(found[2]):
            return f"{found[1]} answers {answer[1]}"
        return f"{found[1]} does not answer: {found[2]}"[:300]
    if found := _FORBIDDEN.search(error):
        return f"Forbidden: {found[1]}"[:300]
    return ""


def _cause(record: logging.LogRecord) -> Cause:
    error = record.exc_info[0] if record.exc_info else None
    return record.name, record.levelno, str(record.msg)[:200], error.__name__ if error is not None else ""


MASK: Final = "***"
MAX_TEXT_CHARACTERS: Final = 4096
"""The longest message or text field: text from outside (paths, names) may have any length."""
_MAX_TRACEBACK_CHARACTERS: Final = 32 * 1024

# The record attribute in which `Log` keeps its fields, and the attributes of every record: others came by `extra=`.
_FIELDS: Final = "tonnage_fields"
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", _FIELDS}

_SECRET_NAMES: Final = ("authorization", "token", "password", "passwd", "secret")
# `Authorization: Bearer xyz`, `"token": "xyz"`, `?access_token=xyz`: the value is masked, its name stays.
_NAMED_SECRET: Final = re.compile(
    rf"""(?i)((?:{"|".join(_SECRET_NAMES)})\\?["']?\s*[:=]\s*\\?["']?(?:(?:bearer|basic)\s+)?)[^\s"'\\,;&}}]+"""
)
# At least eight characters: "bearer token" and the like are plain words.
_BEARER: Final = re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]{8,}")


def configure(
    *,
    format: Literal["text", "json"] = "text",
    verbosity: int = 0,
    stream: TextIO | None = None,
) -> None:
    """Log Tonnage's records, and the libraries' warnings, to stderr. `verbosity` from 4 on shows DEBUG."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.set_name("tonnage")
    handler.setFormatter(JsonLines() if format == "json" else TextLines())
    LogLimiter().attach(handler)
    root = logging.getLogger()
    for earlier in [other for other in root.handlers if other.get_name() == "tonnage"]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("tonnage").setLevel(logging.DEBUG if verbosity >= 4 else logging.INFO)


class Log(logging.LoggerAdapter[logging.Logger]):
    """A logger whose keywords are fields, even names that a record uses itself (`name`, `module`).

    Only `level`, `msg` and logging's own keywords (`exc_info`, `stack_info`, `stacklevel`, `extra`) are not fields.
    """

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        passed = {key: kwargs.pop(key) for key in ("exc_info", "stack_info", "stacklevel") if key in kwargs}
        return msg, {**passed, "extra": {_FIELDS: {**kwargs.pop("extra", {}), **kwargs}}}


def logger(name: str) -> Log:
    return Log(logging.getLogger(name))


class TextLines(logging.Formatter):
    """klog's form: a letter for the level, the time, the logger, the message in quotes, then `key="value"`."""

    def format(self, record: logging.LogRecord) -> str:
        letter = "I" if record.levelno < logging.WARNING else record.levelname[0]
        at = datetime.fromtimestamp(record.created, UTC)
        fields = "".join(f" {printable(name)}={_json(value)}" for name, value in _fields(record).items())
        return f"{letter}{at:%m%d %H:%M:%S.%f} {record.name}] {_json(cut(masked(record.getMessage())))}{fields}"


class JsonLines(logging.Formatter):
    """One JSON object per line; a field named like one of the first four gets an underscore appended."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": f"{datetime.fromtimestamp(record.created, UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": cut(masked(record.getMessage())),
        }
        for name, value in _fields(record).items():
            line[f"{name}_" if name in line else name] = value
        return _json(line)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """A record's fields, masked, and its exception as `err` and `traceback`."""
    fields = {name: value for name, value in vars(record).items() if name not in _OWN}
    fields.update(getattr(record, _FIELDS, {}))
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        fields["err"] = f"{type(error).__name__}: {error}"
        fields["traceback"] = "".join(traceback.format_exception(error))
    return {name: _cut_field(name, masked_field(name, value)) for name, value in fields.items()}


def cut(text: str, limit: int = MAX_TEXT_CHARACTERS) -> str:
    """`text` with its middle cut out if it is too long: the end of an error says as much as its beginning."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters left out … {text[-half:]}"


def _cut_field(name: str, value: object) -> object:
    limit = _MAX_TRACEBACK_CHARACTERS if name == "traceback" else MAX_TEXT_CHARACTERS
    return cut(value, limit) if isinstance(value, str) else value


def masked(text: str) -> str:
    """`text` without the values of tokens, passwords and Authorization headers."""
    return _BEARER.sub(rf"\1{MASK}", _NAMED_SECRET.sub(rf"\1{MASK}", text))


def masked_field(name: str, value: object) -> object:
    """`value` as it may be logged under `name`, as JSON types; nested values are masked too.

    The end of the name decides: `access_token` and `clientSecret` hold a secret, `token_file` only names one.
    """
    if value is None or isinstance(value, bool):
        return value
    if name.lower().endswith(_SECRET_NAMES):
        return MASK
    if isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): masked_field(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [masked_field("", inner) for inner in value]
    return masked(str(value))


def _json(value: object) -> str:
    return printable_json(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
