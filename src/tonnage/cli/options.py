"""Options that several commands share, so that each is spelled, defaulted and explained once.

Durations have Go's form: `50s`, `1m30s`, `1.5h`, `0`; the program gets seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from tonnage import logs
from tonnage.durations import parse_duration
from tonnage.gates import GateError, Gates
from tonnage.quantity import InvalidQuantity, Quantity

F = TypeVar("F", bound=Callable[..., Any])


class GatesType(click.ParamType[str]):
    """`A=true,B=false`, of which the flag may be given several; what they say together is read by `joined`."""

    name = "gates"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Each gate with the value that changes something first; after a comma those that are not named yet."""
        before, comma, last = incomplete.rpartition(",")
        named = {each.partition("=")[0] for each in before.split(",")}
        values = [
            (f"{name}={value}", gate.meaning)
            for name, gate in Gates.table().items()
            if name not in named
            for value in (("false", "true") if gate.default else ("true", "false"))
        ]
        return [CompletionItem(before + comma + text, help=told) for text, told in values if text.startswith(last)]


class BytesType(click.ParamType[int]):
    """An amount of bytes as Kubernetes writes it, such as `1Gi`; more than none."""

    name = "quantity"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            found = Quantity.parse(str(value)).value()
        except InvalidQuantity:
            self.fail(f'"{value}" is not an amount of bytes; write it like "500Mi" or "1Gi"', param, ctx)
        if found <= 0:
            self.fail(f'"{value}" is not more than nothing', param, ctx)
        return found


BYTES = BytesType()


def feature_gates(command: F) -> F:
    return gates_option(Gates.parse, help="Features to turn on or off; all of ours are on by default.")(command)


def gates_option(parse: Callable[[str], Any], *, help: str) -> Callable[[F], F]:
    """--feature-gates, in one list or several, as pflag's maps; an unknown gate is wrong usage."""

    def joined(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Any:
        try:
            return parse(",".join(each for each in value if each))
        except GateError as exc:
            told = f"{exc.message}; {exc.hint}" if exc.hint else exc.message
            raise click.BadParameter(told, ctx, param) from exc

    return click.option(
        "--feature-gates",
        "gates",
        type=GatesType(),
        multiple=True,
        callback=joined,
        metavar="A=true,B=false",
        help=help,
    )


def logging_options(command: F) -> F:
    command = click.option("-v", "--v", "verbosity", type=click.IntRange(min=0), default=0, help="More log lines.")(
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


class DurationType(click.ParamType[float]):
    """A duration as kube-controller-manager's flags take it; not less than nothing. Gives seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        seconds = parse_duration(str(value))
        if seconds is None:
            self.fail(f'"{value}" is not a duration; write it like "50s", "1m30s" or "500ms"', param, ctx)
        if seconds < 0:
            self.fail(f'"{value}" is less than nothing', param, ctx)
        return seconds


DURATION = DurationType()
