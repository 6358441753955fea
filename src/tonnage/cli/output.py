"""How commands that answer questions write: the answer to stdout, talk beside it to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import click
import msgspec


def say(kind: str, sentence: str) -> None:
    """Talk beside the answer: a note or a warning."""
    click.echo(f"{kind}: {sentence}", err=True)


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
    written(lambda: sys.stdout.write(text))
