"""Options that several commands share, so that each is spelled, defaulted and explained once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tonnage import logs
from tonnage.gates import GateError, Gates

F = TypeVar("F", bound=Callable[..., Any])


class GatesType(click.ParamType[Gates]):
    """`A=true,B=false`; an unknown gate is wrong usage."""

    name = "gates"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Gates:
        if isinstance(value, Gates):
            return value
        try:
            return Gates.parse(str(value))
        except GateError as exc:
            self.fail(f"{exc.message}; {exc.hint}" if exc.hint else exc.message, param, ctx)


def feature_gates(command: F) -> F:
    return click.option(
        "--feature-gates",
        "gates",
        type=GatesType(),
        default="",
        metavar="A=true,B=false",
        help="Features to turn on or off; all of ours are on by default.",
    )(command)


def logging_options(command: F) -> F:
    command = click.option("-v", "--v", "verbosity", type=click.IntRange(0, 10), default=0, help="More log lines.")(
        command
    )
    return click.option(
        "--logging-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="How log lines are written to stderr.",
    )(command)


def start_logging(logging_format: str, verbosity: int) -> None:
    logs.configure(format="json" if logging_format == "json" else "text", verbosity=verbosity)
