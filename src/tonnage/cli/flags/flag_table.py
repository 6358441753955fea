"""Flags as a table, in the form in which a help page shows them: name, kind, default, and after two spaces the help.

@flag_table('''
    --secure-port as port PORT=6443  Port to listen on; 0 takes a free one.
    --timeout DURATION=10s  Timeout of one call to the driver. A line that is too long
        goes on in the next one, which is indented.
    --pool-policy best-fit|most-free=best-fit  How to pick the pool of a new volume.
    --remove  Remove everything that this command wrote, and exit.
''')

as NAME      the command's parameter; by itself that of a duration ends in _s
KIND         one of `KINDS`, INT or FLOAT with a range (`INT[1..]`), the choices, or one that `flag_table` is given;
             a flag without a kind is on when it is given
KIND!        required
KIND...      may be repeated
KIND=10s     the default, which the help shows; `=` alone is the empty text
<WORDS>      what the help shows instead of the kind
$NAME        the variable that it may come from, which the help shows; `($NAME)`: without the help
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, Final

import click

from tonnage.cli import output


def switch(
    name: str, help: str, default: bool | None = False, *, into: str = "", hidden: bool = False
) -> output.Option:
    """A boolean flag: `--name`, `--name=true`, `--name=false`. `into` names the parameter if it differs."""
    return click.option(
        *filter(None, (name, into)),
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


def texts(name: str, help: str, default: str, *, into: str = "", is_lower: bool = False) -> output.Option:
    """A list flag, as pflag's StringSlice: `--name=a,b`, `--name=a --name=b`. A given value replaces the default;
    `is_lower`: in lower case."""

    def joined(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
        given = [each.lower() if is_lower else each for each in value or (default,) if each]
        return tuple(word.strip() for each in given for word in each.split(","))

    return click.option(
        *filter(None, (name, into)),
        multiple=True,
        callback=joined,
        help=f"{help}  [default: {default}]" if default else help,
        metavar="A,B",
    )


KINDS: Final[dict[str, Any]] = {
    "TEXT": str,
    "INT": click.INT,
    "FLOAT": click.FLOAT,
    "FILE": output.FILE_PATH,
    "FILE?": GoPath(),
    "EXISTING": output.EXISTING_FILE,
    "FOLDER": output.FOLDER_PATH,
    "FOLDER?": GoPath(is_folder=True),
    "PORT": output.PORT,
    "DURATION": output.DURATION,
    "BYTES": output.BYTES,
    "POOLS": output.POOLS,
    "COUNT": output.COUNT,
}
"""With `?` an empty path counts as not given, as in pflag. There are also pflag's SWITCH (a boolean), TEXTS (separated
by commas), and HEADERS (such texts in lower case)."""

_FLAG: Final = re.compile(
    r"(?:(?P<short>-\w), )?(?P<name>--[\w-]+)(?: as (?P<into>\w+))?"
    r"(?: (?P<kind>[A-Z]+\??(?:\[[-\d.]+\])?|[\w-]+(?:\|[\w-]+)+)(?P<is_repeated>\.\.\.)?(?P<is_required>!)?"
    r"(?P<default>=\S*)?)?(?: <(?P<metavar>[^>]+)>)?(?: (?P<envvar>\(?\$\w+\)?))?  (?P<help>.+)"
)
_RANGE: Final = re.compile(r"(INT|FLOAT)\[([-\d.]*?)\.\.([-\d.]*)\]")


def flag_table(table: str, **kinds: Any) -> output.Option:
    """The flags of a table, in the order of the help. `kinds`: kinds that only this command has; a function is one that
    completes a text."""
    return output.options(*flags_of(table, **kinds))


def flags_of(table: str, **kinds: Any) -> list[output.Option]:
    """The flags of a table one by one, for commands that take some of them."""
    lines = re.split(r"\n(?=-)", inspect.cleandoc(table))
    return [_flag(re.sub(r"\n +", " ", line), KINDS | kinds) for line in lines]


def _flag(line: str, kinds: dict[str, Any]) -> output.Option:
    found = _FLAG.fullmatch(line)
    if found is None:
        raise ValueError(f"this is no flag: {line}")
    name, into, kind, default = found["name"], found["into"], found["kind"], found["default"]
    help = re.sub(r" \[default: ", "  [default: ", found["help"])
    if kind == "SWITCH":
        return switch(name, help, default == "=true" if default else None, into=into or "")
    if kind in ("TEXTS", "HEADERS"):
        return texts(name, help, (default or "=")[1:], into=into or "", is_lower=kind == "HEADERS")
    if kind == "DURATION" and into is None:
        into = f"{name.removeprefix('--').replace('-', '_')}_s"
    more: dict[str, Any] = {"type": _type(kind, kinds)} if kind else {"is_flag": True}
    if inspect.isfunction(more.get("type")):
        more = {"shell_complete": more["type"]}
    if default:
        is_number = isinstance(more.get("type"), click.types.IntParamType | click.types.FloatParamType)
        value = more["type"].convert(default[1:], None, None) if is_number else default[1:]
        more |= {"default": value, "show_default": default != "="}
    if found["envvar"]:
        more |= {"envvar": found["envvar"].strip("($)"), "show_envvar": found["envvar"].startswith("$")}
    is_repeated, is_required = bool(found["is_repeated"]), bool(found["is_required"])
    names, metavar = filter(None, (found["short"], name, into)), found["metavar"]
    return click.option(*names, help=help, multiple=is_repeated, required=is_required, metavar=metavar, **more)


def _type(kind: str, kinds: dict[str, Any]) -> Any:
    if found := _RANGE.fullmatch(kind):
        ends: list[Any] = [float(end) if "." in end else int(end) if end else None for end in found.groups()[1:]]
        return click.IntRange(*ends) if found[1] == "INT" else click.FloatRange(*ends)
    return click.Choice(kind.split("|")) if "|" in kind else kinds[kind]
