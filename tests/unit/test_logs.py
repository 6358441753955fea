"""Logging: the two forms of a line, its fields, and the secrets that are never in it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest

from tonnage import logs

# 2026-11-15T02:29:13Z
AT_S = 1794709753


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where the lines go, all of them made at 02:29:13; afterwards logging is as it was found."""
    root, ours, factory = logging.getLogger(), logging.getLogger("tonnage"), logging.getLogRecordFactory()
    before = (list(root.handlers), root.level, ours.level)

    def made_at_a_known_time(*args: object, **kwargs: object) -> logging.LogRecord:
        record = factory(*args, **kwargs)
        record.created = AT_S
        return record

    logging.setLogRecordFactory(made_at_a_known_time)
    yield io.StringIO()
    logging.setLogRecordFactory(factory)
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


def test_a_line_of_text_is_klogs(stream: io.StringIO) -> None:
    logs.configure(stream=stream)
    logs.logger("tonnage.scheduler").info("Pod bound", pod="shop/db-0", node="n1", attempts=2, final=True, zone=None)
    assert stream.getvalue() == (
        'I1115 02:29:13.000000 tonnage.scheduler] "Pod bound" '
        'pod="shop/db-0" node="n1" attempts=2 final=true zone=null\n'
    )


def test_a_line_of_json_is_one_object(stream: io.StringIO) -> None:
    logs.configure(format="json", stream=stream)
    logs.logger("tonnage.scheduler").warning("Pod waits", pod="shop/db-0", nodes=["n1", "n2"], ts=7)
    assert stream.getvalue() == (
        '{"ts":"2026-11-15T02:29:13.000000Z","level":"warning","logger":"tonnage.scheduler","msg":"Pod waits",'
        '"pod":"shop/db-0","nodes":["n1","n2"],"ts_":7}\n'
    )


def test_fields_by_extra_print_as_those_by_keyword(stream: io.StringIO) -> None:
    logs.configure(stream=stream)
    logging.getLogger("tonnage.x").error("%d volumes lost", 3, extra={"node": "n1"})
    logs.logger("tonnage.x").error("%d volumes lost", 3, node="n1")
    first, second = stream.getvalue().splitlines()
    assert first == second == 'E1115 02:29:13.000000 tonnage.x] "3 volumes lost" node="n1"'


def test_a_field_may_be_named_like_an_attribute_of_the_record(stream: io.StringIO) -> None:
    logs.configure(stream=stream)
    logs.logger("tonnage.x").info("Object written", name="db-0", module="store")
    assert stream.getvalue().endswith('] "Object written" name="db-0" module="store"\n')


def test_a_record_with_an_exception_is_still_one_line(stream: io.StringIO) -> None:
    logs.configure(format="json", stream=stream)
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        logs.logger("tonnage.x").exception("It broke\nbadly")
    (line,) = stream.getvalue().splitlines()
    record = json.loads(line)
    assert (record["msg"], record["err"]) == ("It broke\nbadly", "ValueError: first\nsecond")
    assert record["traceback"].startswith("Traceback (most recent call last):\n")


@pytest.mark.parametrize(
    ("verbosity", "shown"),
    [(0, ["info", "warning"]), (3, ["info", "warning"]), (4, ["debug", "info", "warning"])],
)
def test_verbosity_decides_what_is_shown(stream: io.StringIO, verbosity: int, shown: list[str]) -> None:
    logs.configure(stream=stream, format="json", verbosity=verbosity)
    for level in (logging.DEBUG, logging.INFO, logging.WARNING):
        logging.getLogger("tonnage.x").log(level, "said")
    logging.getLogger("aiohttp.access").info("a library's chatter is not shown")
    assert [json.loads(line)["level"] for line in stream.getvalue().splitlines()] == shown


def test_configuring_again_replaces_the_first(stream: io.StringIO) -> None:
    logs.configure(stream=io.StringIO())
    logs.configure(stream=stream)
    logging.getLogger("tonnage.x").info("once")
    assert stream.getvalue().count("once") == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer eyJhbGciOi.x-y_z", "Authorization: Bearer ***"),
        ("sent bearer abcdefgh12345 to n1", "sent bearer *** to n1"),
        ("GET /api?access_token=s3cr3t&watch=1", "GET /api?access_token=***&watch=1"),
        ('{"token": "s3cr3t", "user": "ann"}', '{"token": "***", "user": "ann"}'),
        ("{'password': 's3cr3t'}", "{'password': '***'}"),
        ("authorization=Basic dTpw", "authorization=Basic ***"),
        ("no bearer token was sent", "no bearer token was sent"),
        ('secret "db" not found', 'secret "db" not found'),
    ],
)
def test_secrets_in_a_text_are_masked(text: str, shown: str) -> None:
    assert logs.masked(text) == shown


@pytest.mark.parametrize("format", ["text", "json"])
def test_no_secret_reaches_the_line_by_message_field_or_traceback(
    stream: io.StringIO, format: Literal["text", "json"]
) -> None:
    logs.configure(format=format, stream=stream)
    try:
        raise PermissionError("refused Bearer s3cr3t-s3cr3t")
    except PermissionError:
        logs.logger("tonnage.client").exception(
            "token=%s",
            "s3cr3t",
            token="s3cr3t",
            clientSecret="s3cr3t",
            db_password="s3cr3t",
            headers={"Authorization": "Bearer s3cr3t", "Accept": "application/json"},
            urls=["https://n1/?token=s3cr3t"],
            token_file="/run/token",
        )
    line = stream.getvalue()
    assert "s3cr3t" not in line
    assert "/run/token" in line and "application/json" in line


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("token", "***"),
        ("Authorization", "***"),
        ("access_token", "***"),
        ("bearerToken", "***"),
        ("client-secret", "***"),
        ("token_file", "value"),
        ("secretName", "value"),
        ("broken", "value"),
    ],
)
def test_the_end_of_a_fields_name_decides(name: str, shown: str) -> None:
    assert logs.masked_field(name, "value") == shown
