"""How commands that answer questions write: the answer to stdout, talk beside it to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from tonnage.printable import printable, printable_json, printable_lines

if TYPE_CHECKING:  # most answers are no pages
    from tonnage.whatif.html.page import HtmlPage


def say(kind: str, sentence: str) -> None:
    """Talk beside the answer: a note or a warning."""
    click.echo(f"{kind}: {printable(sentence)}", err=True)


def echo(text: str, *, err: bool = False) -> None:
    """Write lines of our own; what comes from a cluster is made printable, but may not hold lines of its own."""
    click.echo(printable_lines(text), err=err)


def written(write: Callable[[], object]) -> None:
    """Write an answer to stdout, as far as somebody reads it."""
    try:
        write()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough (`| head`); nothing is left to be flushed at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def written_json(answer: Any) -> None:
    """The same for an answer as JSON."""
    text = msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n"
    text = printable_json(text)
    written(lambda: sys.stdout.write(text))


def written_html(page: HtmlPage) -> None:
    """The same for an answer as one HTML file, which is UTF-8 whatever the terminal is."""
    data = page.html().encode()
    written(lambda: sys.stdout.buffer.write(data))
