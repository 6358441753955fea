"""A cause is one line an interval, and the number of those left out is told."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from tonnage.clock import VirtualClock
from tonnage.log_limiter import LogLimiter


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def written(clock: VirtualClock) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    LogLimiter(limited=("door",), interval_s=10, now=clock.monotonic).attach(handler)
    loggers = [logging.getLogger(name) for name in ("door.in", "house")]
    for each in loggers:
        each.addHandler(handler)
        each.setLevel(logging.INFO)
        each.propagate = False
    yield stream
    for each in loggers:
        each.removeHandler(handler)


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_the_first_is_written_and_the_rest_counted(written: io.StringIO, clock: VirtualClock):
    for number in range(1000):
        logging.getLogger("door.in").error("refused %d", number)
    assert lines(written) == ["refused 0"]
    clock.advance(10)
    logging.getLogger("door.in").error("refused %d", 1000)
    assert lines(written) == ["refused 0", "refused 1000 (999 more like it)"]


def test_the_number_is_told_with_whatever_comes_next(written: io.StringIO, clock: VirtualClock):
    for number in range(3):
        logging.getLogger("door.in").warning("refused %d", number)
    clock.advance(10)
    logging.getLogger("house").info("something else")
    assert lines(written) == ["refused 0", "2 more were left out of: refused %d", "something else"]


def test_causes_are_told_apart(written: io.StringIO):
    log = logging.getLogger("door.in")
    for error in (ValueError(), KeyError(), ValueError()):
        log.error("failed", exc_info=error)
    log.warning("failed")
    log.warning("failed otherwise")
    assert [line for line in lines(written) if line.startswith("failed")] == ["failed"] * 3 + ["failed otherwise"]


def test_other_loggers_are_not_limited(written: io.StringIO):
    for _ in range(3):
        logging.getLogger("house").error("the same")
    assert lines(written) == ["the same"] * 3


def test_causes_without_end_do_not_fill_the_memory(written: io.StringIO):
    log = logging.getLogger("door.in")
    for number in range(5000):
        log.error(f"refused {number}")
    limiter = log.handlers[0].filters[0]
    assert isinstance(limiter, LogLimiter)
    assert len(limiter._told) <= 1000
