"""Groups of commands that suggest what was meant, show examples, and load a command when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click
from click.shell_completion import CompletionItem

from tonnage.cli.help.commands import GROUPS, INTERNAL, CommandEntry, examples_of
from tonnage.errors import closest

_ENTRIES: Final[dict[str, CommandEntry]] = {name: entry for group in GROUPS.values() for name, entry in group.items()}


class HintedUsageError(click.UsageError):
    """Wrong usage with a remedy that is better than a pointer to the help."""

    def __init__(self, message: str, hint: str, ctx: click.Context | None = None) -> None:
        super().__init__(message, ctx)
        self.hint = hint


class SuggestingGroup(click.Group):
    """A group that names the command that was probably meant, and whose commands show their examples."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        return with_examples(command, f"{self.name} {cmd_name}") if command is not None else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and not name.startswith("-"):
            near = closest(name, self.list_commands(ctx))
            hint = f"did you mean '{near[0]}'?" if near else f"'{ctx.command_path} --help' lists what there is"
            raise HintedUsageError(f"no such command '{name}'", hint, ctx)
        return super().resolve_command(ctx, args)


class LazyCommands(SuggestingGroup):
    """All commands, by the table: `--help` and TAB load none of them, and a command loads itself alone."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _ENTRIES.get(cmd_name) or INTERNAL.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry.where.partition(":")
        command: click.Command = getattr(import_module(f"tonnage.cli.{module}"), name)
        return with_examples(command, cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name, help=each.help) for name, each in _ENTRIES.items() if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _ENTRIES))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.help) for name, entry in group.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_text(f"'{ctx.command_path} COMMAND --help' tells more about one, with examples.")


def with_examples(command: click.Command, name: str) -> click.Command:
    """The command with its examples at the end of its help, once; what it says there itself stays before them."""
    if getattr(command, "_examples_of", None) != name:
        program = "kubectl tonnage" if _called_by_kubectl() else "tonnage"
        command.epilog = "\n\n".join(filter(None, [command.epilog, examples_of(name, program)])) or None
        command._examples_of = name  # type: ignore[attr-defined]
    return command


def _called_by_kubectl() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and (context.find_root().info_name or "").startswith("kubectl")
