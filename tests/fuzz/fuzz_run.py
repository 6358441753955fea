"""The long run: `make fuzz MINUTES=10`. Every target in turn, until the time is up; findings go into the corpus.

A finding is an exception that a target does not refuse by, a broken promise, or an input that takes far longer than its
size explains. It is made smaller and written to `corpus/<target>/`, one file for each place where something broke;
`make test` replays all of them. Exit 1 when there were new ones.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import random
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from fuzz_mutator import Mutator, smaller
from fuzz_targets import TARGETS, Target

CORPUS = Path(__file__).parent / "corpus"
SLOW_S = 2.0
"""Processor time for one input of at most 20,000 bytes, the mutator's bound; the usual is a millisecond."""


class Slow(Exception):
    """An input that takes longer than its size explains."""


def tried(target: Target, data: bytes) -> BaseException | None:
    """What an input breaks; None when it is read, or refused as it may be."""
    began_at = time.process_time()
    try:
        target.accepts(data)
    except (Exception, RecursionError) as exc:
        return exc
    took_s = time.process_time() - began_at
    return Slow(f"{took_s:.1f} s for {len(data)} bytes") if took_s > SLOW_S else None


def place_of(failure: BaseException) -> str:
    """Where it broke, so that one fault is one finding."""
    frames = [each for each in traceback.extract_tb(failure.__traceback__) if "tonnage" in each.filename]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(failure).__name__} {where}"


def corpus_of(target: Target) -> list[Path]:
    folder = CORPUS / target.name
    return sorted(folder.iterdir()) if folder.is_dir() else []


def kept(target: Target, data: bytes, failure: BaseException) -> Path:
    """Write a finding, made as small as it still breaks in the same place."""
    place = place_of(failure)

    def still_fails(shorter: bytes) -> bool:
        found = tried(target, shorter)
        return found is not None and place_of(found) == place

    data = data if isinstance(failure, Slow) else smaller(data, still_fails)
    folder = CORPUS / target.name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{type(failure).__name__.lower()}-{hashlib.sha256(data).hexdigest()[:8]}"
    path.write_bytes(data)
    return path


def inputs_of(target: Target, rng: random.Random) -> Iterator[bytes]:
    mutator = Mutator(rng, [*target.seeds, *(path.read_bytes() for path in corpus_of(target))])
    while True:
        yield mutator.next()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", default="", help="the name of one target")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    seed = random.SystemRandom().randrange(1 << 32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}, {arguments.minutes:g} minutes")
    targets = [each for each in TARGETS if arguments.only in ("", each.name)]
    if not targets:
        parser.error(f"no target {arguments.only!r}; there are {', '.join(each.name for each in TARGETS)}")
    inputs = {each.name: inputs_of(each, random.Random(f"{seed} {each.name}")) for each in targets}
    executions = dict.fromkeys(inputs, 0)
    findings: dict[str, dict[str, Path]] = {name: {} for name in inputs}
    ends_at = time.monotonic() + 60 * arguments.minutes
    while time.monotonic() < ends_at:
        for target in targets:
            turn_ends_at = time.monotonic() + 0.5
            while time.monotonic() < turn_ends_at:
                data = next(inputs[target.name])
                executions[target.name] += 1
                failure = tried(target, data)
                if failure is None:
                    continue
                place = place_of(failure)
                if place not in findings[target.name]:
                    path = findings[target.name][place] = kept(target, data, failure)
                    print(f"{target.name}: {place}: {str(failure)[:120]!r} -> {path.relative_to(CORPUS.parent)}")
    print(f"\n{'DECODER':<26}{'EXECUTIONS':>12}{'FINDINGS':>10}")
    for name, count in executions.items():
        print(f"{name:<26}{count:>12,}{len(findings[name]):>10}")
    total = sum(map(len, findings.values()))
    print(f"{'':<26}{sum(executions.values()):>12,}{total:>10}")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
