"""A cause is one line an interval, and the number of those left out is told."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from support.held_memory import entries_held
from support.virtual_clock import VirtualClock
from tonnage import logs
from tonnage.logs import LogLimiter, server_cause


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
    limiter = log.handlers[0].filters[0]
    before = entries_held(limiter)
    for number in range(5000):
        log.error(f"refused {number}")
    assert entries_held(limiter) <= before + 1000


REFUSED = "https://127.0.0.1:6443/api/v1/{}: connection refused"


def test_a_server_that_is_away_is_one_cause_whoever_speaks_of_it(written: io.StringIO, clock: VirtualClock):
    informer, leader = logs.logger("house"), logs.logger("door.in")
    for resource in ("pods", "nodes", "services"):
        informer.warning("Cannot follow", resource=resource, error=f"GET {REFUSED.format(resource)}")
    leader.warning("Cannot reach the lease", error=f"PUT {REFUSED.format('leases')}")
    assert lines(written) == ["Cannot follow"]
    clock.advance(60)
    leader.warning("Cannot reach the lease", error=f"PUT {REFUSED.format('leases')}")
    assert lines(written)[1:] == ["Cannot reach the lease (repeated 3 times in 60 s)"]


def test_when_it_is_back_the_number_is_told_by_the_next_line(written: io.StringIO, clock: VirtualClock):
    for _ in range(2):
        logs.logger("house").warning("Cannot follow", error="Unauthorized")
    clock.advance(61)
    logging.getLogger("house").info("something else")
    assert lines(written) == [
        "Cannot follow",
        "The API server does not know who we are (Unauthorized): repeated once in 61 s",
        "something else",
    ]


def test_every_right_that_is_missing_is_a_cause_of_its_own(written: io.StringIO):
    for resource in ("pods", "nodes"):
        for name in ("a", "b"):
            error = f'{resource} "{name}" is forbidden: User "x" cannot get resource "{resource}" in API group ""'
            logs.logger("house").warning("Cannot get", error=error)
    assert len(lines(written)) == 2


@pytest.mark.parametrize(
    "error", ['pods "a" not found', "", "no space left on device", "Operation cannot be fulfilled"]
)
def test_other_errors_are_told_each_time(written: io.StringIO, error: str):
    assert server_cause(error) == ""
    for _ in range(3):
        logs.logger("house").warning("Failed", error=error)
    assert len(lines(written)) == 3


TROUBLE = [
    "Internal error occurred: etcdserver: request timed out",
    "Too many requests, please try again later.",
    "apiserver not ready",
    "the server is currently unable to handle the request",
    "Timeout: request did not complete within the allotted timeout",
]


@pytest.mark.parametrize("error", TROUBLE)
def test_a_server_in_trouble_is_one_cause_whoever_speaks_of_it(written: io.StringIO, error: str):
    for key in ("a", "b", "c"):
        logs.logger("house").warning("Failed; it is tried again", key=key, error=error)
        logs.logger("house").warning("Cannot reach the lease", error=error)
    assert len(lines(written)) == 1


def test_a_page_that_is_no_status_is_one_cause_whatever_is_on_it(written: io.StringIO):
    for number in range(3):
        error = f"GET https://127.0.0.1:6443/api/v1/pods/{number}: the answer is 502: <html>request {number}</html>"
        logs.logger("house").warning("Failed; it is tried again", error=error)
    assert len(lines(written)) == 1
    assert server_cause(error) == "https://127.0.0.1:6443 answers 502"


def test_what_a_program_waits_for_is_told_once_a_minute_however_many_parts_wait(written: io.StringIO):
    for late in ("pods (no answer yet)", "nodes (no answer yet); pods (no answer yet)"):
        error = f"not in step with the API server after 30 s: {late}"
        logs.logger("house").warning("Waiting for the API server", error=error)
    assert len(lines(written)) == 1


def test_informers_that_all_fail_with_the_same_words_are_one_cause():
    stream = io.StringIO()
    log = logging.getLogger("tonnage.client.informer")
    handler = logging.StreamHandler(stream)
    LogLimiter().attach(handler)
    log.addHandler(handler)
    try:
        for resource in ("pods", "nodes", "services"):
            logs.logger(log.name).warning("Cannot follow", resource=resource, error="a message nobody has foreseen")
            logs.logger(log.name).warning("No watch-list here; listing instead", resource=resource, reason="old")
        assert len(stream.getvalue().splitlines()) == 2
    finally:
        log.removeHandler(handler)
