"""Long work shows how far it is, on a terminal alone, and Ctrl-C ends it with what is known so far.

    with progress("placing replicas", total=500) as step:
        for replica in replicas:
            step(1)

What is piped sees nothing of it: progress goes to stderr, and only if that is a terminal.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tonnage.printable import printable, text

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended, as a shell has it; what was known is written before."""

Step = Callable[[float], object]


@contextmanager
def progress(description: str, total: float | None = None) -> Iterator[Step]:
    """Show a bar while the block runs; call what is yielded with the amount of work just done."""
    if not sys.stderr.isatty():
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(printable(description), total=total)
        yield lambda amount: shown.advance(task, amount)


@contextmanager
def status(step: str) -> Iterator[Callable[[str], object]]:
    """Show what is being done while the block runs; call what is yielded with each next step."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console

    with Console(stderr=True).status(text(step)) as shown:
        yield lambda step: shown.update(text(step))


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Work that looks between two steps whether Ctrl-C was pressed, by calling what is yielded.

    So it ends between two steps, and not in the middle of one, and what is known by then can be told. Who presses it
    again does not want to wait for that.
    """
    presses = 0

    def pressed(number: int, frame: object) -> None:
        nonlocal presses
        presses += 1
        if presses > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, pressed)
    try:
        yield lambda: presses > 0
    finally:
        signal.signal(signal.SIGINT, before)
