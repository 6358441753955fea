"""Every command with its arguments, flags, defaults and environment variables, as click knows them."""

from __future__ import annotations

import inspect
import re

import click

from reference import cell, code, table
from tonnage.cli import cli
from tonnage.cli.commands import EXAMPLES, GROUPS

HEAD = """\
# Commands and flags

`tonnage COMMAND --help` says the same. Answers go to stdout, notes to stderr; [exit codes](exit-codes.md) are listed apart.
An unknown command or flag is an error. Commands that read a cluster use `--kubeconfig`, else `$KUBECONFIG`, else
`~/.kube/config`, and take `--context` and `--namespace` as kubectl does.

"""


def page() -> str:
    parts = [HEAD.rstrip()]
    for title, group in GROUPS.items():
        rows: list[tuple[object, ...]] = [
            (f"[`tonnage {name}`](#tonnage-{name})", line) for name, line in group.items()
        ]
        parts.append(f"**{title}**\n\n" + table(("command", ""), rows))
    parts += [_section(name) for group in GROUPS.values() for name in group]
    return "\n\n".join(parts)


def _command(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli, info_name="tonnage"), name)
    assert found is not None
    return found


def _section(name: str) -> str:
    text = _described(_command(name), f"tonnage {name}", level=2)
    return text + ("\n\nExamples:\n\n```\n" + "\n".join(EXAMPLES[name]) + "\n```" if EXAMPLES.get(name) else "")


def _described(command: click.Command, path: str, *, level: int) -> str:
    context = click.Context(command, info_name=path)
    parts = [f"{'#' * level} {path}", f"```\n{path} {' '.join(command.collect_usage_pieces(context))}\n```"]
    parts += _prose(command.help or "")
    shown = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    rows = [_row(option, context) for option in shown]
    if rows:
        parts.append(table(("flag", "takes", "default", ""), rows))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                parts.append(_described(inner, f"{path} {name}", level=level + 1))
    return "\n\n".join(parts)


def _prose(text: str) -> list[str]:
    """Paragraphs; those that click keeps as they are (after \\b) as code."""
    found = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text).partition("\f")[0].strip()):
        if paragraph.startswith("\b"):
            found.append("```\n" + paragraph.lstrip("\b\n") + "\n```")
        elif paragraph:
            found.append(" ".join(paragraph.split()).replace("<", "&lt;"))
    return found


def _row(option: click.Option, context: click.Context) -> tuple[object, ...]:
    names = ", ".join(code(each) for each in [*option.opts, *option.secondary_opts])
    if option.is_flag:
        takes = ""
    else:
        takes = code(option.make_metavar(context))
    variable = option.envvar if isinstance(option.envvar, str) else ", ".join(option.envvar or ())
    about = cell(option.help or "").replace("<", "&lt;")
    if option.required:
        about += " Required."
    if option.multiple and "repeated" not in about:
        about += " May be repeated."
    if variable:
        about += f" Environment: `{variable}`."
    return names, takes, _default(option, context), about.strip()


def _default(option: click.Option, context: click.Context) -> str:
    if option.is_flag and not option.secondary_opts:
        return ""
    if isinstance(option.show_default, str):
        return code(option.show_default)
    found = option.get_default(context, call=False)
    if isinstance(found, bool) and option.secondary_opts:
        return code((option.opts if found else option.secondary_opts)[0])
    if found is None or found == "" or found == () or callable(found) or not option.show_default:
        return ""
    if isinstance(found, list | tuple):
        return ", ".join(code(each) for each in found)
    return code(getattr(found, "value", found))
