"""The short run, and every input that once broke something.

`make fuzz` runs for as long as one likes, with another seed each time; what it finds is written to `corpus/` and stays
there, so that it is tried here for ever. The seed of this run is fixed: a failure repeats.
"""

from __future__ import annotations

import logging
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fuzz_mutator import Mutator, smaller
from fuzz_run import CORPUS, corpus_of, inputs_of, place_of, tried
from fuzz_targets import TARGETS, Target, read_answer

SHORT_S = 0.35
"""Seconds a target; at most EXECUTIONS inputs, so that a fast machine does not look further than a slow one."""
EXECUTIONS = 1_500

BY_NAME = {target.name: target for target in TARGETS}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What is refused is also logged, thousands of times."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("target", TARGETS, ids=[target.name for target in TARGETS])
def test_good_inputs_are_read(target: Target):
    assert any(target.accepts(seed) for seed in target.seeds), "a mutation of nonsense finds nothing"


@pytest.mark.parametrize(
    ("target", "path"),
    [pytest.param(target, path, id=f"{target.name}/{path.name}") for target in TARGETS for path in corpus_of(target)],
)
def test_what_was_found_stays_mended(target: Target, path: Path):
    failure = tried(target, path.read_bytes())
    if failure is not None:
        raise failure


def test_the_corpus_has_no_strangers():
    assert {folder.name for folder in CORPUS.iterdir() if folder.is_dir()} <= set(BY_NAME)


@pytest.mark.parametrize("target", TARGETS, ids=[target.name for target in TARGETS])
def test_a_short_run_finds_nothing(target: Target):
    ends_at = time.monotonic() + SHORT_S
    for count, data in enumerate(inputs_of(target, random.Random(13))):
        if count == EXECUTIONS or time.monotonic() > ends_at:
            break
        failure = tried(target, data)
        if failure is not None:
            raise AssertionError(f"{target.name}: {place_of(failure)} for {data[:500]!r}") from failure


# -- the fuzzer itself ------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_inputs():
    first, second = (Mutator(random.Random(1), [b"abc", b"defg"]) for _ in range(2))
    assert [first.next() for _ in range(50)] == [second.next() for _ in range(50)]


def test_a_crash_is_a_finding_and_a_refusal_is_none():
    def fails(data: bytes) -> None:
        raise KeyError("x") if data == b"a" else ValueError("x")

    target = Target("t", fails, [b"a"], (ValueError,))
    assert isinstance(tried(target, b"a"), KeyError) and tried(target, b"b") is None


def test_a_finding_is_made_smaller():
    assert smaller(b"x" * 50 + b"!" + b"y" * 50, lambda data: b"!" in data) == b"!"


def test_a_run_finds_what_is_there_to_be_found():
    """A decoder that takes `0x7f` for granted is found out within a few thousand inputs."""

    def fails(data: bytes) -> None:
        assert b"0x7f" not in data

    target = Target("t", fails, [b'{"size": 5}'])
    inputs = inputs_of(target, random.Random(1))
    assert any(tried(target, next(inputs)) for _ in range(5_000))


def test_an_answer_is_the_same_in_pieces_and_at_once():
    for answer in BY_NAME["http-answer"].seeds:
        read_answer(answer)
