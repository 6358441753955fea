"""`tonnage fault`: set, list and clear faults of a running cluster."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from tonnage.cli.commands import HintedUsageError, SuggestingGroup
from tonnage.cli.completion import cluster_nodes
from tonnage.cli.output import FILE_PATH, FOLDER_PATH, Option, columns, echo, output_option
from tonnage.errors import TonnageError, closest
from tonnage.faults import FAULT_FILE_NAME, KINDS, Fault, FaultFile, InvalidFault, kind_of
from tonnage.plane.settings import NoSuchNode, default_folder, require_node
from tonnage.printable import printable, printable_json


def _kinds() -> str:
    lines = [f"{name:14} {kind.meaning}" + (f" ({kind.value})" if kind.value else "") for name, kind in KINDS.items()]
    return "\b\nKinds:\n  " + "\n  ".join(lines)


class _Kind(click.ParamType[str]):
    name = "kind"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            kind_of(str(value))
        except InvalidFault as exc:
            bad_parameter = click.BadParameter(f"{exc.message}; {exc.hint}", ctx, param)
            if not (near := closest(str(value), KINDS)):
                raise bad_parameter from exc
            raise HintedUsageError(bad_parameter.format_message(), f"did you mean '{near[0]}'?", ctx) from exc
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name, help=kind.meaning) for name, kind in KINDS.items() if name.startswith(incomplete)]


@dataclass(frozen=True, slots=True)
class _Where:
    """The cluster or file given by the flags. Commands resolve it when they run, so that --help needs neither."""

    data_dir: Path | None
    file: Path | None

    def faults(self) -> FaultFile:
        """Raises UsageError if two places are given, and TonnageError for a cluster that does not exist."""
        if self.data_dir is not None and self.file is not None:
            raise click.UsageError("give --data-dir DIR or --faults FILE, not both")
        if self.file is not None:
            return FaultFile(self.file)
        folder = self.data_dir or default_folder()
        if not folder.is_dir():
            raise TonnageError(f"there is no folder {folder}", hint="name the --data-dir of `tonnage up`")
        return FaultFile(folder / FAULT_FILE_NAME)

    def require_node(self, node: str) -> None:
        """Raises UsageError for a node that the cluster does not have, if the cluster has ever been started."""
        try:
            require_node(self.faults().path.parent, node)
        except NoSuchNode as exc:
            raise HintedUsageError(exc.message, exc.hint or "", click.get_current_context()) from exc


def _named(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse an empty name: it comes from an unset shell variable and must not mean every node."""
    if "" in value:
        raise click.BadParameter("the name is empty; leave --node out for all nodes", ctx, param)
    return value


def _nodes_option(help: str) -> Option:
    return click.option("--node", "nodes", multiple=True, callback=_named, shell_complete=cluster_nodes, help=help)


@click.group(cls=SuggestingGroup, epilog=_kinds())
@click.option("--data-dir", type=FOLDER_PATH, help="Folder of a `tonnage up` cluster.  [default: ~/.tonnage]")
@click.option("--faults", "file", type=FILE_PATH, help="File of faults, instead of --data-dir.")
@click.pass_context
def fault(ctx: click.Context, data_dir: Path | None, file: Path | None) -> None:
    ctx.obj = _Where(data_dir, file)


@fault.command("set")
@click.argument("kind", type=_Kind())
@_nodes_option("Node that has the fault; may be repeated.  [default: all nodes]")
@click.option("--value", type=float, help="Amount, for the kinds that need one.")
@click.pass_obj
def set_fault(where: _Where, kind: str, nodes: tuple[str, ...], value: float | None) -> None:
    """Set the fault KIND; it stays until it is cleared."""
    unit = kind_of(kind).value
    if unit and value is None:
        raise click.UsageError(f'the fault "{kind}" needs --value, a number of {unit}')
    try:
        wanted = [Fault(kind, node, value or 0.0) for node in nodes or ("",)]
    except InvalidFault as exc:
        raise click.UsageError(exc.message) from exc
    for node in nodes:
        where.require_node(node)
    for each in wanted:
        where.faults().put(each)
        echo(f"fault {_told(each)} set", err=True)


@fault.command()
@click.argument("kind", type=_Kind(), required=False)
@_nodes_option("Clear only faults of this node; may be repeated.")
@click.pass_obj
def clear(where: _Where, kind: str | None, nodes: tuple[str, ...]) -> None:
    """Clear the fault KIND, or all faults."""
    held = {each.node for each in where.faults().all()}
    for node in nodes:
        if node not in held:  # a deleted node may still have a fault
            where.require_node(node)
    ended = [each for node in nodes or ("",) for each in where.faults().clear(kind or "", node)]
    for each in ended:
        echo(f"fault {_told(each)} cleared", err=True)
    if not ended:
        echo("no such fault is set", err=True)


@fault.command("list")
@output_option("table", "json")
@click.pass_obj
def list_faults(where: _Where, output: str) -> None:
    """List the faults that are set."""
    held = where.faults().all()
    if output == "json":
        echo(printable_json(json.dumps([asdict(each) for each in held], indent=1)))
    else:
        echo("\n".join(columns(("KIND", "NODE", "VALUE", "MEANING"), _rows(held))) if held else "no faults are set")


def _told(each: Fault) -> str:
    """A fault as text: `slow=2 on node-1`."""
    value = f"={each.value:g}" if each.value else ""
    return f"{each.kind}{value} on {printable(each.node) or 'every node'}"


def _rows(faults: Iterable[Fault]) -> Iterator[tuple[str, ...]]:
    for each in faults:
        kind = KINDS[each.kind]
        value = f"{each.value:g} {kind.value}" if kind.value else "-"
        yield each.kind, each.node or "(all)", value, kind.meaning
