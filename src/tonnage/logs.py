"""Logging: one line a record, on stderr, with fields, and without secrets.

    log = logs.logger("tonnage.scheduler")
    log.info("Pod bound", pod="shop/db-0", node="n1", attempts=2)

    I1115 02:29:13.000000 tonnage.scheduler] "Pod bound" pod="shop/db-0" node="n1" attempts=2
    {"ts":"2026-11-15T02:29:13.000000Z","level":"info","logger":"tonnage.scheduler","msg":"Pod bound",…

The text form is klog's, with the logger in place of the file and line, and in UTC. Fields come by keyword through
`logger`, or through `extra=` of a plain `logging` logger; both print the same. Every line passes `masked` and
`masked_field` on its way out, also those of libraries, so that no token or password is written. Characters that a
terminal obeys or does not show are written as escapes (`printable`), so that a record is one line and stays in it.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

from tonnage.log_limiter import LogLimiter
from tonnage.printable import printable, printable_json

MASK: Final = "***"
MAX_TEXT_CHARACTERS: Final = 4096
"""Of a message, and of a field that is a text: what comes from outside (paths, names) may be of any length."""
_MAX_TRACEBACK_CHARACTERS: Final = 32 * 1024

# The record's attribute that `Log` puts its fields in, and the attributes every record has: the rest came by `extra=`.
_FIELDS: Final = "tonnage_fields"
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", _FIELDS}

_SECRET_NAMES: Final = ("authorization", "token", "password", "passwd", "secret")
# `Authorization: Bearer xyz`, `"token": "xyz"`, `?access_token=xyz`: the value goes, the words that name it stay.
_NAMED_SECRET: Final = re.compile(
    rf"""(?i)((?:{"|".join(_SECRET_NAMES)})\\?["']?\s*[:=]\s*\\?["']?(?:(?:bearer|basic)\s+)?)[^\s"'\\,;&}}]+"""
)
# Eight characters at least: "bearer token" and the like are plain words.
_BEARER: Final = re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]{8,}")


def configure(
    *,
    format: Literal["text", "json"] = "text",
    verbosity: int = 0,
    level: int | str | None = None,
    stream: TextIO | None = None,
) -> None:
    """Send Tonnage's records to stderr, and the libraries' warnings with them; calling it again replaces the first.

    `verbosity` is the number of a `-v` flag: from 4 on, where Kubernetes' programs begin to debug, DEBUG is shown, else
    INFO. `level` says it directly and wins.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.set_name("tonnage")
    handler.setFormatter(JsonLines() if format == "json" else TextLines())
    LogLimiter().attach(handler)
    root = logging.getLogger()
    for earlier in [other for other in root.handlers if other.get_name() == "tonnage"]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    if level is None:
        level = logging.DEBUG if verbosity >= 4 else logging.INFO
    logging.getLogger("tonnage").setLevel(level.upper() if isinstance(level, str) else level)


class Log(logging.LoggerAdapter[logging.Logger]):
    """A logger whose keywords are fields, also by a name that a record keeps for itself (`name`, `module`).

    Only `level`, `msg` and what logging itself takes (`exc_info`, `stack_info`, `stacklevel`, `extra`) are not fields.
    """

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        passed = {key: kwargs.pop(key) for key in ("exc_info", "stack_info", "stacklevel") if key in kwargs}
        return msg, {**passed, "extra": {_FIELDS: {**kwargs.pop("extra", {}), **kwargs}}}


def logger(name: str) -> Log:
    """The logger of that name, taking fields by keyword."""
    return Log(logging.getLogger(name))


class TextLines(logging.Formatter):
    """klog's form: a letter for the level, the time, the logger, the message in quotes, then `key="value"`."""

    def format(self, record: logging.LogRecord) -> str:
        letter = "I" if record.levelno < logging.WARNING else record.levelname[0]
        at = datetime.fromtimestamp(record.created, UTC)
        fields = "".join(f" {printable(name)}={_json(value)}" for name, value in _fields(record).items())
        return f"{letter}{at:%m%d %H:%M:%S.%f} {record.name}] {_json(cut(masked(record.getMessage())))}{fields}"


class JsonLines(logging.Formatter):
    """One JSON object a line; a field named like one of the first four gets an underscore behind its name."""

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
    """The fields of a record, masked, and its exception as two more: `err` and `traceback`."""
    fields = {name: value for name, value in vars(record).items() if name not in _OWN}
    fields.update(getattr(record, _FIELDS, {}))
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        fields["err"] = f"{type(error).__name__}: {error}"
        fields["traceback"] = "".join(traceback.format_exception(error))
    return {name: _cut_field(name, masked_field(name, value)) for name, value in fields.items()}


def cut(text: str, limit: int = MAX_TEXT_CHARACTERS) -> str:
    """`text`, its middle left out where it is too long: the end of an error tells as much as its beginning."""
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
    """`value` as it may be logged under `name`, made of JSON's types; what is inside it is masked too.

    The end of the name decides: `access_token` and `clientSecret` hold a secret, `token_file` only speaks of one.
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
