"""How the command line finds, loads and lists its commands; `commands.toml` is the table of them."""

from __future__ import annotations

import tomllib
from importlib import import_module, resources
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from tonnage.errors import closest

_TABLE: Final[dict[str, dict[str, Any]]] = tomllib.loads(
    resources.files(__package__).joinpath("commands.toml").read_text(encoding="utf-8")
)
GROUPS: Final[dict[str, dict[str, str]]] = {
    title: {name: told["help"] for name, told in group.items() if "help" in told} for title, group in _TABLE.items()
}
_COMMANDS: Final = {name: told for group in _TABLE.values() for name, told in group.items()}
EXAMPLES: Final[dict[str, list[str]]] = {name: told["examples"] for name, told in _COMMANDS.items()}
_INTERNAL: Final = frozenset({"forkserver"})
"""Commands that only our own programs start. They are hidden from help."""
_HELP: Final = {name: help for group in GROUPS.values() for name, help in group.items()}


def module_of(command: str) -> str:
    """The module that defines a command, as a function of the command's name."""
    return f"tonnage.cli.{_COMMANDS.get(command, {}).get('module') or command.replace('-', '_')}"


def examples_of(command: str, program: str = "tonnage") -> str:
    """The examples at the end of a help page, written for `program`; empty for a command without examples."""
    lines = [each.replace("tonnage ", f"{program} ", 1) for each in EXAMPLES.get(command, ())]
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)]) if lines else ""


class HintedUsageError(click.UsageError):
    """A usage error with a hint of its own instead of a pointer to the help."""

    def __init__(self, message: str, hint: str, ctx: click.Context | None = None) -> None:
        super().__init__(message, ctx)
        self.hint = hint


class SuggestingGroup(click.Group):
    """A group that suggests similar command names and adds examples to its commands."""

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
    """All commands, from the table: `--help` and TAB load none of them, and a command loads only itself."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_HELP)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _HELP and cmd_name not in _INTERNAL:
            return None
        command: click.Command = getattr(import_module(module_of(cmd_name)), cmd_name.replace("-", "_"))
        return with_examples(command, cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name, help=line) for name, line in _HELP.items() if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _HELP))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, line in group.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_text(f"'{ctx.command_path} COMMAND --help' tells more about one, with examples.")


def with_examples(command: click.Command, name: str) -> click.Command:
    """Append the examples to the command's epilog, once."""
    if getattr(command, "_examples_of", None) != name:
        program = "kubectl tonnage" if _called_by_kubectl() else "tonnage"
        command.epilog = "\n\n".join(filter(None, [command.epilog, examples_of(name, program)])) or None
        command._examples_of = name  # type: ignore[attr-defined]
    return command


def _called_by_kubectl() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and (context.find_root().info_name or "").startswith("kubectl")
