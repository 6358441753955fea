"""Flags in the form of Go's pflag, as Kubernetes' programs have them.

    @click.command(cls=GoCommand)
    @switch("--leader-elect", help="…")                   --leader-elect, --leader-elect=true, --leader-elect=false
    @refused("--vmodule", because="…", instead="…")       a flag that upstream has and we do not, with the reason

A `GoCommand` also accepts `--no-leader-elect` for `--leader-elect=false` (the last one counts), `--leader_elect`,
`-v=4`, and `--version` as verflag does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from tonnage import __version__
from tonnage.cli.commands import HintedUsageError
from tonnage.cli.options import Option
from tonnage.cli.output import echo


def switch(name: str, *, default: bool | None = False, help: str, hidden: bool = False) -> Option:
    """A boolean flag: `--name`, `--name=true`, `--name=false`."""
    return click.option(
        name,
        type=click.BOOL,
        is_flag=False,
        flag_value="true",
        default=default,
        metavar="[=true|false]",
        help=help if default is None else f"{help}  [default: {str(default).lower()}]",
        hidden=hidden,
    )


class GoPath(click.Path):
    """A path; an empty one counts as not given, as in pflag: manifests may hold `--config=` with an empty value."""

    def __init__(self, *, is_folder: bool = False) -> None:
        super().__init__(path_type=Path, dir_okay=is_folder, file_okay=not is_folder)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value == "" else super().convert(value, param, ctx)


FILE: Final = GoPath()
FOLDER: Final = GoPath(is_folder=True)


class Texts(click.ParamType[tuple[str, ...]]):
    """Comma-separated texts, as pflag's StringSlice. The flag may be repeated (`texts`)."""

    name = "A,B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(each.strip() for each in str(value).split(",")) if str(value) else ()


def texts(name: str, *, default: tuple[str, ...] = (), help: str, hidden: bool = False) -> Option:
    """A list flag: `--name=a,b`, `--name=a --name=b`. A given value replaces the default."""

    def joined(ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        given = value or (default,)
        return tuple(each for part in given for each in part)

    return click.option(
        name,
        type=Texts(),
        multiple=True,
        callback=joined,
        help=f"{help}  [default: {','.join(default)}]" if default else help,
        metavar="A,B",
        hidden=hidden,
    )


def refused(name: str, *, because: str, instead: str) -> Option:
    """A hidden flag of upstream's that is an error here, with the reason and the remedy."""

    def refuse(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise HintedUsageError(f"{name} is not supported: {because}", instead, ctx)

    return click.option(
        name, is_flag=False, flag_value="", default=None, callback=refuse, expose_value=False, hidden=True
    )


def ignored(name: str, *, only: tuple[str, ...] = (), because: str) -> Option:
    """A hidden flag of upstream's without effect here. With `only`, other values are refused."""

    def look(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None and only and value.lower() not in only:
            raise HintedUsageError(f"{name}={value} is not supported: {because}", f"leave {name} out", ctx)

    return click.option(
        name, is_flag=False, flag_value="true", default=None, callback=look, expose_value=False, hidden=True
    )


def version_flag(program: str) -> Option:
    """`--version`, `--version=true`, `--version=raw`: print the version and exit before other flags are checked."""

    def show(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is None or value.lower() in ("false", "f", "0"):
            return
        if value.lower() not in ("true", "t", "1", "raw"):
            raise click.BadParameter(f'"{value}" is none of true, false and raw', ctx, param)
        echo(f"tonnage {__version__}, {program}")
        ctx.exit()

    return click.option(
        "--version",
        is_flag=False,
        flag_value="true",
        default=None,
        is_eager=True,
        expose_value=False,
        callback=show,
        metavar="[=true|raw]",
        help="Print the version and end.",
    )


class GoCommand(click.Command):
    """A command that accepts flags in pflag's form. Its switches also have click's `--no-` form."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        switches = {
            name
            for param in self.params
            if isinstance(param, click.Option) and param.type is click.BOOL and not param.is_flag
            for name in param.opts
        }
        return super().parse_args(ctx, [_as_click_has_it(each, switches) for each in args])


def _as_click_has_it(text: str, switches: set[str]) -> str:
    name, equals, value = text.partition("=")
    if name == "-v" and equals:
        return f"--v={value}"
    if not name.startswith("--"):
        return text
    name = name.replace("_", "-")
    if not equals and name.startswith("--no-") and f"--{name.removeprefix('--no-')}" in switches:
        return f"--{name.removeprefix('--no-')}=false"
    return f"{name}{equals}{value}"
