"""How commands print: the answer (as text, JSON or an HTML page) to stdout, notes and warnings to stderr.

    with progress("placing replicas", total=500) as step:
        for replica in replicas:
            step(1)

Long work shows its progress on stderr, and only if stderr is a terminal. Ctrl-C ends it with a partial answer.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from tonnage.printable import printable, printable_json, printable_lines, text

if TYPE_CHECKING:
    from tonnage.whatif.page import TextPage

GAP: Final = " " * 3
"""Between two columns."""


def say(kind: str, sentence: str) -> None:
    """Print a note or a warning to stderr."""
    click.echo(f"{kind}: {printable(sentence)}", err=True)


def say_all(kind: str, sentences: Iterable[str]) -> None:
    for sentence in sentences:
        say(kind, sentence)


def echo(text: str, *, err: bool = False) -> None:
    """Print our own lines. Text from a cluster is made printable, which does not remove line breaks."""
    click.echo(printable_lines(text), err=err)


def columns(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a plain table. Cells are made printable. Where a terminal is narrower than the table, the last cell
    of each row stands below the others."""
    lines = [head, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    is_narrow = sum(widths) + len(GAP) * (len(head) - 1) > room
    for line in lines:
        if is_narrow:
            yield GAP.join(map(str.ljust, line[:-1], widths)).rstrip()
            yield from textwrap.wrap(line[-1], room, initial_indent=GAP, subsequent_indent=GAP)
        else:
            yield GAP.join(map(str.ljust, line, widths)).rstrip()


def written(write: Callable[[], object]) -> None:
    """Write an answer to stdout. A closed pipe is no error."""
    try:
        write()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has enough (`| head`); leave nothing to flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def written_json(answer: Any) -> None:
    text = msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n"
    text = printable_json(text)
    written(lambda: sys.stdout.write(text))


INTERRUPTED = 130
"""The exit code after Ctrl-C, as a shell has it. The partial answer is written first."""

Step = Callable[[float], object]


@contextmanager
def progress(description: str, total: float | None = None) -> Iterator[Step]:
    """Show a progress bar while the block runs. Call the yielded function with the amount of work just done."""
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
def shown_status(step: str) -> Iterator[Callable[[str], object]]:
    """Show a status line while the block runs. Call the yielded function with every new step."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console

    with Console(stderr=True).status(text(step)) as shown:
        yield lambda step: shown.update(text(step))


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Yield a function that is True once Ctrl-C was pressed. Long work calls it between steps, so that it stops between
    two steps with a partial answer. A second Ctrl-C stops at once."""
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


def write_answer(
    output: str,
    document: Callable[[], Any],
    show: Callable[[TextPage], object],
    page: str = "",
) -> None:
    """Write an answer as -o asks: as JSON, as the HTML page of this name, drawn from the document, or as text."""
    if output == "json":
        written_json(document())
    elif output == "html":
        from tonnage.whatif.html.pages import PAGES

        data = PAGES[page](document()).html().encode()  # UTF-8, even if the terminal's encoding differs
        written(lambda: sys.stdout.buffer.write(data))
    else:
        from tonnage.whatif.page import TextPage

        written(lambda: show(TextPage(sys.stdout)))
