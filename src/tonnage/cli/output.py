"""How commands print, and the options that several of them share, each with one spelling, default and help text.

The answer (as text, JSON or an HTML page) goes to stdout, notes and warnings to stderr.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

import click
import msgspec
from click.shell_completion import CompletionItem

from tonnage import logs
from tonnage.driver import node_pools
from tonnage.errors import TonnageError
from tonnage.gates import GateError, Gates
from tonnage.printable import printable, printable_json, printable_lines, text
from tonnage.quantity import InvalidQuantity, Quantity

if TYPE_CHECKING:
    from tonnage.whatif.page import Page

GAP: Final = " " * 3
"""Between two columns."""


def say(kind: str, sentence: str, *, has_lines: bool = False) -> None:
    """Print a note, a warning or an error to stderr. On a terminal its lines end between words."""
    text = f"{kind}: {printable_lines(sentence) if has_lines else printable(sentence)}"
    if sys.stderr.isatty():
        fill = partial(
            textwrap.fill, width=shutil.get_terminal_size().columns, break_long_words=False, break_on_hyphens=False
        )
        text = "\n".join(map(fill, text.split("\n")))
    click.echo(text, err=True)


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


def write_answer(output: str, document: Callable[[], Any], show: Callable[[Page], object]) -> None:
    """Write an answer as -o asks: its document as JSON, or what `show` writes to a page, as HTML or text."""
    if output == "json":
        written_json(document())
    elif output == "html":
        from tonnage.whatif.html.html_page import HtmlPage

        page = HtmlPage(str(click.get_current_context().info_name))
        show(page)
        data = page.html().encode()  # UTF-8, even if the terminal's encoding differs
        written(lambda: sys.stdout.buffer.write(data))
    else:
        from tonnage.whatif.page import TextPage

        written(lambda: show(TextPage(sys.stdout)))


T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Option(Protocol):
    def __call__(self, command: F, /) -> F: ...


Flags = Mapping[str, Any]
"""Parsed options by parameter name, as click passes them."""


class Parsed(click.ParamType[T]):
    """A value that `parse` reads from text. Its ValueError or TonnageError becomes a usage error."""

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]  # read already
        try:
            return self._parse(value)
        except (ValueError, TonnageError) as exc:
            self.fail(str(exc), param, ctx)


def _duration(text: str) -> float:
    from tonnage.clock import parse_duration  # imports asyncio, which `tonnage version` does not need

    seconds = parse_duration(text)
    if seconds is None:
        raise ValueError(f'"{text}" is not a duration; write it like "50s", "1m30s" or "500ms"')
    if seconds < 0:
        raise ValueError(f'"{text}" is negative')
    return seconds


def _bytes(text: str) -> int:
    try:
        found = Quantity.parse(text).value()
    except InvalidQuantity:
        raise ValueError(f'"{text}" is not an amount of bytes; write it like "500Mi" or "1Gi"') from None
    if found <= 0:
        raise ValueError(f'"{text}" must be more than 0')
    return found


DURATION: Final = Parsed("duration", _duration)
"""A duration as Go writes it (`50s`, `1m30s`, `1.5h`, `0`), in seconds."""
BYTES: Final = Parsed("quantity", _bytes)
"""A positive Kubernetes quantity of bytes, such as `1Gi`."""
POOLS: Final = Parsed("pools", node_pools.parse_node_pools)
COUNT: Final = Parsed("count", node_pools.parse_node_count)
FILE_PATH: Final = click.Path(path_type=Path, dir_okay=False)
FOLDER_PATH: Final = click.Path(path_type=Path, file_okay=False)
EXISTING_FILE: Final = click.Path(path_type=Path, dir_okay=False, exists=True)
PORT: Final = click.IntRange(0, 65535)
COUNTED: Final = click.IntRange(min=0)
AT_LEAST_ONE: Final = click.IntRange(min=1)
NOT_NEGATIVE: Final = click.FloatRange(min=0.0)


def options(*each: Option) -> Option:
    """Several options as one decorator, in the order of the help."""

    def of(command: F) -> F:
        for option in reversed(each):
            command = option(command)
        return command

    return of


def from_flags(settings: Callable[..., T], flags: Flags, **more: Any) -> T:
    """Build a dataclass: fields named like a flag take its value, other fields come from `more`."""
    names = (field.name for field in fields(settings))  # type: ignore[arg-type]  # a class of settings is a dataclass
    return settings(**{name: flags[name] for name in names if name in flags} | more)


def output_option(*forms: str) -> Option:
    """The option -o; the first form is the default."""
    return click.option(
        "-o", "--output", type=click.Choice(forms), default=forms[0], show_default=True, help="Form of the answer."
    )


class _GatesType(click.ParamType[str]):
    """`A=true,B=false`. The flag may be repeated; `gates_option` joins the values."""

    name = "gates"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete gates that are not named yet, with the value that changes the default first."""
        before, comma, last = incomplete.rpartition(",")
        named = {each.partition("=")[0] for each in before.split(",")}
        values = [
            (f"{name}={value}", gate.meaning)
            for name, gate in Gates.table().items()
            if name not in named
            for value in ("false", "true")
        ]
        return [CompletionItem(before + comma + text, help=told) for text, told in values if text.startswith(last)]


def gates_option(parse: Callable[[str], Any], *, help: str) -> Option:
    """--feature-gates, repeatable like pflag's maps. An unknown gate is a usage error."""

    def joined(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Any:
        try:
            return parse(",".join(each for each in value if each))
        except GateError as exc:
            told = f"{exc.message}; {exc.hint}" if exc.hint else exc.message
            raise click.BadParameter(told, ctx, param) from exc

    return click.option(
        *("--feature-gates", "gates"),
        type=_GatesType(),
        multiple=True,
        callback=joined,
        metavar="A=true,B=false",
        help=help,
    )


feature_gates: Final = gates_option(Gates.parse, help="Features to turn on or off; all of Tonnage's are on by default.")
_LOGGING: Final = options(
    click.option(
        "--logging-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Format of log lines, which go to stderr.",
    ),
    click.option("-v", "--v", "verbosity", type=COUNTED, default=0, help="Log level; more lines with a higher number."),
)


def logging_options(command: Callable[..., T]) -> Callable[..., T]:
    """Add -v, --logging-format and the like. Logging is set up before the command begins."""

    @wraps(command)
    def logged(*, logging_format: Literal["text", "json"], verbosity: int, **flags: Any) -> T:
        logs.configure(format=logging_format, verbosity=verbosity)
        return command(**flags)

    return _LOGGING(logged)


@contextmanager
def wrong_usage() -> Iterator[None]:
    """Turn a ValueError in the block into a usage error."""
    try:
        yield
    except ValueError as exc:
        raise click.UsageError(str(exc)) from exc


DOES_NOT_FIT = 3
"""--exit-code's exit code when a pod or replica does not fit."""
